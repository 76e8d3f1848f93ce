"""Taking text apart: what stands between two white spaces, folded, in any script.

The floor below `text`: it knows words, their parts and stems, n-grams, and the symbols that people type.
Linear in its input, and bounded for what nobody reads.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import cache
from itertools import chain, groupby
from typing import Literal, NamedTuple

from rawthink_core.stopwords import STOP_WORDS

LONGEST_TOKEN = 1 << 12
_LONGEST_WORD = 64
_MOST_JOINED = 32
_LONGEST_NUMBERED_WORD = 16
_GRAM = 4
# A content token is the beginning of a stem: so Turkish questions meet 95 of 100 sentences that answer them,
# with whole stems 90; chance meetings rise from 3 to 5 of 100. English hardly changes.
_ROOT = 6


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


def fold(text: str) -> str:
    """Return ``text`` as search compares it: no case, no diacritics, ``ı`` as ``i``, digits as ASCII."""
    if text.isascii():
        return text.lower()
    text = normalized("NFD", normalized("NFKC", text).casefold())
    text = _DIACRITICS.sub("", text).translate(_PLAIN_LETTERS)
    return unicodedata.normalize("NFC", "".join(str(int(c)) if c.isdecimal() else c for c in text))


class Token(NamedTuple):
    """What stands between two white spaces, taken apart and folded."""

    words: list[str]
    stops: list[str]  # stop words, unless they are joined to others: "read-through" has none
    parts: list[str]  # what a word is made of, and what several make together
    forms: list[str]  # what holds symbols, as written, after "="; and symbols that stand alone
    runs: list[tuple[list[str], list[str]]]  # smaller and larger n-grams of what has no spaces

    def ngrams(self) -> chain[str]:
        """Yield the n-grams of all runs, the smaller ones first."""
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


def normalized(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """Return ``text`` in a Unicode normal form, in linear time.

    CPython orders a run of marks by insertion sort: 64,000 of them take seven seconds. Ordered beforehand by
    the same rule they take none, and the answer is the same.
    """
    if len(text) > 1 << 10 and any(map(unicodedata.combining, text[::16])):
        runs = groupby(text, key=lambda c: unicodedata.combining(c) > 0)
        text = "".join("".join(sorted(r, key=unicodedata.combining) if mark else r) for mark, r in runs)
    return unicodedata.normalize(form, text)


def take_apart(token: str) -> Token:
    """Return what stands between two white spaces in its parts, folded."""
    if not token.isascii():
        token = _INVISIBLE.sub("", normalized("NFKC", token))[: 2 * LONGEST_TOKEN]
    token = _THOUSANDS.sub("", _ENDING.sub("", token))
    pattern = _patterns(token.isascii())
    found = Token([], [], [], [], [])
    for piece in pattern.piece.finditer(token):
        text = piece[0]
        if piece.lastgroup == "joined":
            _take_words(piece["joined"], pattern, found)
        elif piece.lastgroup == "symbol":
            found.forms.append(text)
        else:
            size = 1 if piece.lastgroup == "east" else 2
            found.runs.append((grams(text, size) or [text], grams(text, size + 1)))
    return found


def _take_words(joined: str, pattern: _Patterns, found: Token) -> None:
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


def stem_of(word: str) -> str:
    """Return the English Snowball stem of a folded word; other languages keep most of theirs."""
    try:
        stemmer = _local.stemmer
    except AttributeError:
        from Stemmer import Stemmer  # noqa: PLC0415 - a start needs no stems

        # One a thread, because it keeps state during a call; without a cache of its own, since ours is above.
        stemmer = _local.stemmer = Stemmer("english", 0)
    stem: str = stemmer.stemWord(word)
    return stem


def root_of(word: str) -> str:
    """Return the beginning of a word's stem: what two forms of a word have in common."""
    stem = stem_of(word)
    return stem if any(map(str.isdecimal, stem)) else stem[:_ROOT]


def grams(run: str, size: int) -> list[str]:
    """Return every part of ``run`` of so many characters."""
    return [run[i : i + size] for i in range(len(run) - size + 1)]


def word_grams(word: str) -> list[str]:
    """Return the 4-grams of a word, with a marker at either end; none for keys and hashes."""
    if len(word) < _GRAM - 1 or _is_key(word):
        return []
    return ["~" + gram for gram in grams(f"_{word}_", _GRAM)]
