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
import unicodedata
from collections import Counter
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import chain, filterfalse

from rawthink_core.stopwords import ASKING_WORDS, STOP_CHARACTERS, STOP_PAIRS
from rawthink_core.tokens import LONGEST_TOKEN, normalized, root_of, stem_of, take_apart, word_grams

# Goes into the fingerprint of every index. Raise it when a term, an id or a weight of any text changes, or
# what the text of an item is (`searching.text_of`); a newer PyStemmer may change them too, and a test tells.
TEXT_RULES = "text-2"

# BM25 after Robertson & Zaragoza, "The Probabilistic Relevance Framework" (2009), section 3.4. The average
# length is a constant, so that nothing recorded elsewhere can change an answer. It counts terms: 400 are a
# paragraph of some 100 words. 400 and 500 did best of 60 to 1600 on paragraphs; turns of a chat do not mind.
_K1 = 0.9
_B = 0.4
_AVERAGE_LENGTH = 400
_GRAM_WEIGHT = 0.5
_MOST_CHARACTERS = 1 << 20
_MOST_ASKED = 1 << 12
_LONGEST_CACHED = 24  # sentences of scripts without spaces come but once

_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"  # letters and symbols by category, nothing on the screen
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIRAGANA = re.compile("[\u3041-\u3096]")
_DOTTED_I = re.compile("i\u0307+")


def identity_key(name: str) -> str:
    """Return the key under which a name is the same name, however it is spelled or spaced.

    NFKC, ``İ`` as ``i``, case folded, a dot above ``i`` dropped, inner white space as one space, trimmed;
    ``ı`` and ``i`` stay two letters. The key of a key is itself.
    """
    while True:  # folding can undo a composition, and composing a folding
        key = normalized("NFKC", name).replace("İ", "i").casefold()
        key = " ".join(_DOTTED_I.sub("i", normalized("NFKC", key)).split())
        if key == name:
            return key
        name = key


def same_text(text: str) -> str:
    """Return the form in which texts of observations are compared: NFC, trimmed."""
    return normalized("NFC", text.strip())


def has_substance(name: str) -> bool:
    """Tell whether ``name`` shows anything: a letter, number, symbol or punctuation that is not blank."""
    return any(unicodedata.category(c)[0] in "LNSP" and c not in _BLANK_LETTERS for c in name)


def surrogate_at(text: str) -> int | None:
    """Return the position of the first lone surrogate, which no file or wire can carry, or None."""
    found = _SURROGATE.search(text)
    return found.start() if found else None


def terms(text: str) -> dict[str, float]:
    """Return what ``text`` is found by: each term, and how often it occurs.

    No term holds white space, so an engine may take them as words. Text of punctuation only has none.
    """
    counts = Counter(chain.from_iterable(map(_terms, _tokens(text))))
    return {term: float(count) for term, count in counts.items()}


def query_terms(text: str) -> dict[str, float]:
    """Return what to look for when ``text`` is asked, and what a match of each term is worth.

    Stop words are left out unless nothing else remains. Empty for punctuation: then nothing is found.
    """
    wanted: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    grams: Counter[str] = Counter()
    for token in map(take_apart, _tokens(text, _MOST_ASKED)):
        wanted.update(chain(map(stem_of, token.words + token.parts), token.forms))
        idle.update(map(stem_of, token.stops))
        grams.update(chain.from_iterable(map(word_grams, token.words)))
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
    """Return the ids of the terms of ``text``, ascending, and the term-frequency part of BM25 for each.

    The engine multiplies by IDF (one that stays above 0 for common terms) and by the question's weights.
    Terms that share an id count as one, so that a collision may add a candidate and never loses one. Both
    lists are empty where `terms` is.
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
    """Return tokens for what ``text`` is about: beginnings of stems; pairs of characters where no spaces are.

    Look for them in the `text_tokens` of another text: one in common is a match worth showing, all is a
    mention. Stop words give none; hiragana, which is mostly grammar, and symbols only for want of others.
    """
    content: set[str] = set()
    weak: set[str] = set()
    for token in map(take_apart, _tokens(text, _MOST_ASKED)):
        content.update(map(root_of, token.words))
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


def subject_tokens(text: str) -> frozenset[str]:
    """Return the `content_tokens` of a request but those that only ask for something, and single letters.

    For want of others, it is all of them.
    """
    content = content_tokens(text)
    return frozenset(t for t in content - _asking() if len(t) > 1 or not t.isascii()) or content


@cache
def _asking() -> frozenset[str]:
    return frozenset(chain.from_iterable(map(content_tokens, ASKING_WORDS.split())))


def text_tokens(text: str) -> frozenset[str]:
    """Return every token by which the `content_tokens` of another text, or its own, can find ``text``."""
    return frozenset(chain.from_iterable(map(_tokens_of, _tokens(text))))


def _tokens(text: str, most: int = _MOST_CHARACTERS) -> list[str]:
    tokens = text[:most].split()
    if len(text) > most:
        tokens = tokens[:-1] or tokens  # the last may be the half of a word
    if len(text) <= LONGEST_TOKEN:
        return tokens
    return [t[i : i + LONGEST_TOKEN] for t in tokens for i in range(0, len(t), LONGEST_TOKEN)]


def _ids(token: str) -> tuple[int, ...]:
    return (_look_up if len(token) <= _LONGEST_CACHED else _look_up.__wrapped__)(token)


@lru_cache(maxsize=1 << 15)
def _look_up(token: str) -> tuple[int, ...]:
    return tuple(map(term_id, _terms(token)))


def _tokens_of(token: str) -> frozenset[str]:
    return (_met_by if len(token) <= _LONGEST_CACHED else _met_by.__wrapped__)(token)


@lru_cache(maxsize=1 << 13)
def _met_by(token: str) -> frozenset[str]:
    read = take_apart(token)
    return frozenset(chain(map(root_of, read.words + read.stops + read.parts), read.forms, read.ngrams()))


def _terms(token: str) -> list[str]:
    read = take_apart(token)
    found = [stem_of(word) for word in read.words + read.stops + read.parts]
    found.extend(read.forms)
    found.extend(chain.from_iterable(map(word_grams, read.words)))
    found.extend(read.ngrams())
    return found
