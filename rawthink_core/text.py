"""Text as people write it, made comparable: keys of names, and the terms that lexical search matches.

Pure functions of their arguments; nothing is read, and nothing kept but bounded caches. Every engine is
fed the same terms, so every provider finds the same things. How text becomes terms, in any language:

- NFKC, case folded, no diacritics: ``İstanbul`` meets ``ISTANBUL``, ``ılık`` ``ILIK``, ``café`` ``cafe``.
- A word gives its English Snowball stem, and its 4-grams with a marker at either end, counted alike in a
  text and worth half in a question. Stop words have no 4-grams.
- ``camelCase`` and ``gpt4`` give their parts as well, ``read-through`` also ``readthrough``, and what is
  written with other symbols also itself: ``c++``, ``.env``, ``#1234``, ``v2.0.1``, ``api/cache``.
- Scripts without spaces give n-grams: Han, kana and hangul of 1 and 2 characters; Thai, Lao, Khmer and
  Burmese, whose single letters say nothing, of 2 and 3. Emoji and other symbols beyond ASCII stand alone.

Cost is linear, and bounded for what nobody reads: the first 2^20 characters of a text are indexed and 2^12
of a question asked, 64 of a word, 32 words of a run joined by symbols; a word over 16 with digits in it (a
key, a hash, base64) has no 4-grams.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import chain, filterfalse, groupby
from typing import Literal, NamedTuple

from rawthink_core.stopwords import STOP_CHARACTERS, STOP_PAIRS, STOP_WORDS

# Goes into the fingerprint of every index. Raise it when a term, an id or a weight of any text changes; a
# newer PyStemmer may change them too, and a test tells.
TEXT_RULES = "text-1"

# BM25 after Robertson & Zaragoza, "The Probabilistic Relevance Framework" (2009), section 3.4. The average
# length is a constant, so that nothing recorded elsewhere can change an answer. It counts terms: 400 are a
# paragraph of some 100 words. 400 and 500 did best of 60 to 1600 on paragraphs; turns of a chat do not mind.
_K1 = 0.9
_B = 0.4
_AVERAGE_LENGTH = 400
_GRAM = 4
_GRAM_WEIGHT = 0.5
# A content token is the beginning of a stem: so Turkish questions meet 95 of 100 sentences that answer them,
# with whole stems 90; chance meetings rise from 3 to 5 of 100. English hardly changes.
_ROOT = 6

_MOST_CHARACTERS = 1 << 20
_MOST_ASKED = 1 << 12
_LONGEST_TOKEN = 1 << 12
_LONGEST_WORD = 64
_MOST_JOINED = 32
_LONGEST_NUMBERED_WORD = 16
_LONGEST_CACHED = 24  # sentences of scripts without spaces come but once

_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"  # letters and symbols by category, nothing on the screen
_SURROGATE = re.compile("[\ud800-\udfff]")
_DOTTED_I = re.compile("i\u0307+")

# Accents, tones and vowel points that people leave out in Latin, Greek, Cyrillic, Hebrew and Arabic; not the
# vowel signs of India or the voicing marks of kana, which make other words.
_DIACRITICS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670\u1dc0-\u1dff]"
)
_PLAIN_LETTERS = str.maketrans({"ı": "i", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "æ": "ae", "œ": "oe"})
_INVISIBLE = re.compile("[\u00ad\u200c-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f]")

_EAST_ASIAN = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_SOUTH_EAST_ASIAN = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1050-\u108f\u1780-\u17d3\u17dc\u17dd"
)
_HIRAGANA = re.compile("[\u3041-\u3096]")

# What follows an apostrophe inside a word: English clitics, and the case endings of Turkish names.
_ENDING = re.compile(
    r"(?<=\w)(?:n['’]t|['’](?:s|t|d|m|ll|re|ve|[ns]?[ıiuü]n?|n[ıiuü]nki|[ny]?[ae]|[dt][ae]n?(?:ki)?|y?l[ae]"
    r"|l[ae]r|[dt][ıiuü]r))(?!\w)",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
# Between the humps of camelCase, before the last capital of HTTPServer, and where digits begin or end.
_SEAM = re.compile(
    r"(?<=[^\W\dA-Z_])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)"
)

_local = threading.local()


def identity_key(name: str) -> str:
    """
    Return the key under which a name is the same name, however it is spelled or spaced.

    NFKC, ``İ`` as ``i``, case folded, a dot above ``i`` dropped, inner white space as one space, trimmed;
    ``ı`` and ``i`` stay two letters. The key of a key is itself.
    """
    while True:  # folding can undo a composition, and composing a folding
        key = _normalized("NFKC", name).replace("İ", "i").casefold()
        key = " ".join(_DOTTED_I.sub("i", _normalized("NFKC", key)).split())
        if key == name:
            return key
        name = key


def same_text(text: str) -> str:
    """Return the form in which texts of observations are compared: NFC, trimmed."""
    return _normalized("NFC", text.strip())


def has_substance(name: str) -> bool:
    """Tell whether ``name`` shows anything: a letter, number, symbol or punctuation that is not blank."""
    return any(unicodedata.category(c)[0] in "LNSP" and c not in _BLANK_LETTERS for c in name)


def surrogate_at(text: str) -> int | None:
    """Return the position of the first lone surrogate, which no file or wire can carry, or None."""
    found = _SURROGATE.search(text)
    return found.start() if found else None


def fold(text: str) -> str:
    """Return ``text`` as search compares it: no case, no diacritics, ``ı`` as ``i``, digits as ASCII."""
    if text.isascii():
        return text.lower()
    text = _normalized("NFD", _normalized("NFKC", text).casefold())
    text = _DIACRITICS.sub("", text).translate(_PLAIN_LETTERS)
    return unicodedata.normalize("NFC", "".join(str(int(c)) if c.isdecimal() else c for c in text))


def terms(text: str) -> dict[str, float]:
    """
    Return what ``text`` is found by: each term, and how often it occurs.

    No term holds white space, so an engine may take them as words. Text of punctuation only has none.
    """
    counts = Counter(chain.from_iterable(map(_terms, _tokens(text))))
    return {term: float(count) for term, count in counts.items()}


def query_terms(text: str) -> dict[str, float]:
    """
    Return what to look for when ``text`` is asked, and what a match of each term is worth.

    Stop words are left out unless nothing else remains. Empty for punctuation: then nothing is found.
    """
    wanted: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    grams: Counter[str] = Counter()
    for token in map(_take_apart, _tokens(text, _MOST_ASKED)):
        wanted.update(chain(map(_stem, token.words + token.parts), token.forms))
        idle.update(map(_stem, token.stops))
        grams.update(chain.from_iterable(map(_word_grams, token.words)))
        for gram in token.ngrams():
            stop = gram in STOP_PAIRS or STOP_CHARACTERS.issuperset(gram)
            (idle if stop else wanted)[gram] += 1
    weights = {term: float(count) for term, count in (wanted or idle).items()}
    return weights | {gram: count * _GRAM_WEIGHT for gram, count in grams.items()}


@lru_cache(maxsize=1 << 16)
def term_id(term: str) -> int:
    """Return the id of a term: the first 4 bytes of its blake2b, big-endian."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass")).digest()[:4], "big")


def document_vector(text: str) -> tuple[list[int], list[float]]:
    """
    Return the ids of the terms of ``text``, ascending, and the term-frequency part of BM25 for each.

    The engine multiplies by IDF and by the question's weights. Terms that share an id count as one, so that
    a collision may add a candidate and never loses one. Both lists are empty where `terms` is.
    """
    counts = Counter(chain.from_iterable(map(_ids, _tokens(text))))
    pressure = _K1 * (1 - _B + _B * counts.total() / _AVERAGE_LENGTH)
    weight = {count: count * (_K1 + 1) / (count + pressure) for count in set(counts.values())}
    ids = sorted(counts)
    return ids, [weight[counts[i]] for i in ids]


def query_vector(text: str) -> tuple[list[int], list[float]]:
    """Return the ids of the terms of a question, ascending, and what a match of each is worth."""
    weights: dict[int, float] = {}
    for term, weight in query_terms(text).items():
        weights[term_id(term)] = weights.get(term_id(term), 0.0) + weight
    ids = sorted(weights)
    return ids, [weights[i] for i in ids]


def content_tokens(text: str) -> frozenset[str]:
    """
    Return tokens for what ``text`` is about: beginnings of stems; pairs of characters where no spaces are.

    Look for them in the `text_tokens` of another text: one in common is a match worth showing, all is a
    mention. Stop words give none; hiragana, which is mostly grammar, and symbols only for want of others.
    """
    content: set[str] = set()
    weak: set[str] = set()
    for token in map(_take_apart, _tokens(text, _MOST_ASKED)):
        content.update(map(_root, token.words))
        for form in token.forms:  # "c++" is not "c"; other forms are told apart by their words
            (content if form[-1] in "+#" else weak).add(form)
        for small, large in token.runs:
            idle = STOP_PAIRS.intersection(large)
            pairs = [g for g in large if g not in idle and STOP_CHARACTERS.isdisjoint(g)]
            rest = set(small) - STOP_CHARACTERS.union(*idle)
            strong = set(filterfalse(_HIRAGANA.search, pairs)) or set(filterfalse(_HIRAGANA.search, rest))
            content.update(strong)
            weak.update(() if strong else pairs)
    return frozenset(content or weak)


def text_tokens(text: str) -> frozenset[str]:
    """Return every token by which the `content_tokens` of another text, or its own, can find ``text``."""
    return frozenset(chain.from_iterable(map(_tokens_of, _tokens(text))))


class _Token(NamedTuple):
    """What stands between two white spaces, taken apart and folded."""

    words: list[str]
    stops: list[str]  # stop words, unless they are joined to others: "read-through" has none
    parts: list[str]  # what a word is made of, and what several make together
    forms: list[str]  # what holds symbols, as written, after "="; and symbols that stand alone
    runs: list[tuple[list[str], list[str]]]  # smaller and larger n-grams of what has no spaces

    def ngrams(self) -> chain[str]:
        return chain.from_iterable(chain.from_iterable(self.runs))


class _Patterns(NamedTuple):
    piece: re.Pattern[str]
    word: re.Pattern[str]
    form: re.Pattern[str]


@cache
def _patterns(ascii_only: bool) -> _Patterns:
    letter, symbol, compiled, flags = "[a-zA-Z0-9]", "(?!)", re.compile, 0
    if not ascii_only:
        import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - knows marks, takes 20 ms to import

        letter = rf"[[\p{{L}}\p{{N}}\p{{M}}]--[{_EAST_ASIAN}{_SOUTH_EAST_ASIAN}]]"
        symbol, compiled, flags = r"[[\p{So}\p{Sc}\p{Sm}]--[\x00-\x7f]]", regex.compile, regex.V1
    joint = r"(?:-|[+#./:@&=_\\]{1,3})"  # two hyphens are a dash
    tail = r"(?:\+{1,2}|\#)"
    piece = (
        rf"(?P<east>[{_EAST_ASIAN}]+)|(?P<south>[{_SOUTH_EAST_ASIAN}]+)|(?P<symbol>{symbol})"
        rf"|(?P<joined>(?:(?<![.#@$])(?<!{letter})[.#@$])?{letter}+(?:{joint}{letter}+)*{tail}?)"
    )
    form = rf"(?<!{letter})[.#@$]{letter}+|{letter}+{tail}(?!{letter})"
    return _Patterns(compiled(piece, flags), compiled(f"{letter}+", flags), compiled(form, flags))


def _normalized(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """
    Return ``text`` in a Unicode normal form, in linear time.

    CPython orders a run of marks by insertion sort: 64,000 of them take seven seconds. Ordered beforehand by
    the same rule they take none, and the answer is the same.
    """
    if len(text) > 1 << 10 and any(map(unicodedata.combining, text[::16])):
        runs = groupby(text, key=lambda c: unicodedata.combining(c) > 0)
        text = "".join("".join(sorted(r, key=unicodedata.combining) if mark else r) for mark, r in runs)
    return unicodedata.normalize(form, text)


def _tokens(text: str, most: int = _MOST_CHARACTERS) -> list[str]:
    tokens = text[:most].split()
    if len(text) > most:
        tokens = tokens[:-1] or tokens  # the last may be the half of a word
    if len(text) <= _LONGEST_TOKEN:
        return tokens
    return [t[i : i + _LONGEST_TOKEN] for t in tokens for i in range(0, len(t), _LONGEST_TOKEN)]


def _ids(token: str) -> tuple[int, ...]:
    return (_look_up if len(token) <= _LONGEST_CACHED else _look_up.__wrapped__)(token)


@lru_cache(maxsize=1 << 15)
def _look_up(token: str) -> tuple[int, ...]:
    return tuple(map(term_id, _terms(token)))


def _tokens_of(token: str) -> frozenset[str]:
    return (_met_by if len(token) <= _LONGEST_CACHED else _met_by.__wrapped__)(token)


@lru_cache(maxsize=1 << 13)
def _met_by(token: str) -> frozenset[str]:
    read = _take_apart(token)
    return frozenset(chain(map(_root, read.words + read.stops + read.parts), read.forms, read.ngrams()))


def _terms(token: str) -> list[str]:
    read = _take_apart(token)
    found = [_stem(word) for word in read.words + read.stops + read.parts]
    found.extend(read.forms)
    found.extend(chain.from_iterable(map(_word_grams, read.words)))
    found.extend(read.ngrams())
    return found


def _take_apart(token: str) -> _Token:
    if not token.isascii():
        token = _INVISIBLE.sub("", _normalized("NFKC", token))[: 2 * _LONGEST_TOKEN]
    token = _THOUSANDS.sub("", _ENDING.sub("", token))
    pattern = _patterns(token.isascii())
    found = _Token([], [], [], [], [])
    for piece in pattern.piece.finditer(token):
        text = piece[0]
        if piece.lastgroup == "joined":
            _take_words(piece["joined"], pattern, found)
        elif piece.lastgroup == "symbol":
            found.forms.append(text)
        else:
            size = 1 if piece.lastgroup == "east" else 2
            found.runs.append((_grams(text, size) or [text], _grams(text, size + 1)))
    return found


def _take_words(joined: str, pattern: _Patterns, found: _Token) -> None:
    """Take apart a word, or words joined by symbols."""
    raw = [joined] if joined.isalnum() else pattern.word.findall(joined)[:_MOST_JOINED]
    compound = False
    if raw[0] != joined and len(joined) <= _LONGEST_WORD:
        whole = fold(joined)
        together = whole.replace("-", "").replace("_", "")
        compound = together.isalnum()
        if compound and not together.isdigit():
            found.parts.append(together)
        else:
            found.forms.append("=" + whole)
            found.forms.extend("=" + fold(form) for form in pattern.form.findall(joined) if form != joined)
    for word in raw:
        folded = fold(word[:_LONGEST_WORD])[:_LONGEST_WORD]
        if folded:
            (found.stops if folded in STOP_WORDS and not compound else found.words).append(folded)
        found.parts.extend(_parts(word))


def _parts(word: str) -> list[str]:
    if (word.isalpha() and word[1:].islower()) or _is_key(word):
        return []
    pieces = _SEAM.split(word[:_LONGEST_WORD])
    if len(pieces) == 1:
        return []
    found = [fold(piece) for piece in pieces if len(piece) > 1 or piece.isdecimal()]
    return [piece for piece in found if piece and piece not in STOP_WORDS]


def _is_key(word: str) -> bool:
    return len(word) > _LONGEST_NUMBERED_WORD and any(map(str.isdecimal, word[:_LONGEST_WORD]))


def _stem(word: str) -> str:
    try:
        stemmer = _local.stemmer
    except AttributeError:
        from Stemmer import Stemmer  # noqa: PLC0415 - a start needs no stems

        # One a thread, because it keeps state during a call; without a cache of its own, since ours is above.
        stemmer = _local.stemmer = Stemmer("english", 0)
    stem: str = stemmer.stemWord(word)
    return stem


def _root(word: str) -> str:
    stem = _stem(word)
    return stem if any(map(str.isdecimal, stem)) else stem[:_ROOT]


def _grams(run: str, size: int) -> list[str]:
    return [run[i : i + size] for i in range(len(run) - size + 1)]


def _word_grams(word: str) -> list[str]:
    if len(word) < _GRAM - 1 or _is_key(word):
        return []
    return ["~" + gram for gram in _grams(f"_{word}_", _GRAM)]
