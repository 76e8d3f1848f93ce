r"""Turns what was recalled into the ``<memory-context>`` block that a model reads.

Pure: the same lines and budget give the same bytes; there is no clock in it. Nothing that was stored can leave
its bullet or act as markup:

- a memory is one line, whatever line breaks it has, and control characters, direction overrides and invisible
  characters (Unicode tags included) are left out; joiners that scripts and emoji need stay;
- ``<`` becomes ``‹`` where a tag, a comment or a special token could begin (``</x>``, ``<!--``, ``<|end|>``),
  and so do its look-alikes and escapes (``＜``, ``&lt;``, ``\u003c``); the ``>`` that ends it becomes ``›``.
  ``a < b`` and ``x <- y`` stay as they are;
- a ``[label]`` or ``[date]`` with which a memory's text begins gets a backslash, so that only we date and name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rawthink_core.chat import (
    BLANK,
    CLOSER,
    GREATER,
    HEADER,
    INVISIBLE,
    LESS,
    LINE_ENDS,
    OPENER,
    clean_name,
    defuse_labels,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

_re = cache(re.compile)  # patterns are compiled when first used, for the sake of start-up

_SPACE = rf"[\s\0-\x1f\x7f-\x9f{LINE_ENDS}\u2800\u3164\u115f\u1160\uffa0]+"
_UNSEEN = rf"(?![\u200c-\u200f\ufe00-\ufe0f\U000e0100-\U000e01ef])[{INVISIBLE}]"
_SELECTORS = r"(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
_GAP = rf"[{BLANK}]{{0,20}}"
# A tag needs a letter (or "/", "!", "?", "|", "%") at once; after a space, only a whole "< name >" looks like one.
_TAG = (
    rf"(?i){LESS}(?P<inside>[{INVISIBLE}]*(?:[/／⁄∕!?|%]|[^\W\d_])[^<>＜＞﹤﹥˂˃ᐸᐳ❮❯&\\]{{0,120}}"
    rf"|{_GAP}[/／⁄∕]?{_GAP}[^\W\d_][\w:.-]{{0,40}}{_GAP}[/／]?{_GAP}(?={GREATER})"
    rf"|{_GAP}[/／⁄∕]?{_GAP}memory[-‐-―−_]?context)(?P<end>{GREATER})?"
)
_UNITS = 4  # a token is four ASCII characters, or one other
_LEAST = 32  # units of text below which a cut memory says too little to be worth its bullet


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """One memory to show: when it held, who said it, and what it says."""

    date: date | None
    who: str | None
    text: str


def render(lines: Iterable[MemoryLine], *, tokens: int = 600, items: int = 8) -> str:
    """Return the block for ``lines``, best first, or "" where there is nothing to show::

        <memory-context>
        Relevant memory context (use when helpful):
        - [2025-01-15] [张三] 喜欢用 Rust，推荐过《The Rust Programming Language》
        </memory-context>

    At most ``items`` bullets, and at most ``tokens`` by `estimate_tokens`, frame included. The best spend
    first; the one that no longer fits is cut between graphemes and ends in "…". A text that begins with the
    label of ``who`` is not labelled twice.
    """
    room = tokens * _UNITS - _units(f"{OPENER}\n{HEADER}\n{CLOSER}")
    bullets: list[str] = []
    for line in lines:
        if len(bullets) >= items or room < _LEAST:
            break
        head = _head(line)
        text, whole = _body(line, room)
        bullet = f"\n{head}{text}"
        if not whole or _units(bullet) > room:
            text = _cut(text, room - _units(f"\n{head}…"))
            bullet = f"\n{head}{text}…"
        if text:
            bullets.append(bullet)
            room -= _units(bullet)
    return f"{OPENER}\n{HEADER}{''.join(bullets)}\n{CLOSER}" if bullets else ""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens ``text`` costs: a quarter for an ASCII character, one for any other."""
    return -(-_units(text) // _UNITS)


def escape(text: str) -> str:
    """Return ``text`` in one line that is as readable, but cannot open or close a tag: see the module."""
    line = _re(_UNSEEN).sub("", _re(_SPACE).sub(" ", text))
    line = _re(_SELECTORS).sub("", _re(r"[\ud800-\udfff]").sub("\ufffd", line))
    return _re(_TAG).sub(lambda tag: f"‹{tag['inside']}{'›' if tag['end'] else ''}", line).strip()
