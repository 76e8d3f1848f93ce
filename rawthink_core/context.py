r"""Turns what was recalled into the ``<memory-context>`` block that a model reads.

Pure: the same lines and budget give the same bytes; no clock is read. Nothing that was stored can leave its
bullet or act as markup:

- a memory is one line, whatever line breaks it has; control characters, direction overrides and invisible
  characters (Unicode tags included) are left out, while joiners that scripts and emoji need stay;
- ``<`` becomes ``‹`` where a tag, a comment or a special token could begin (``</x>``, ``<!--``, ``<|end|>``),
  and so do its look-alikes and escapes (``＜``, ``&lt;``, ``\u003c``); the ``>`` that ends it becomes ``›``.
  ``a < b`` and ``x <- y`` stay as they are;
- a ``[label]`` or ``[date]`` at the beginning of a memory's text gets a backslash: only we date and name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rawthink_core.chat import clean_name, defuse_labels
from rawthink_core.marks import (
    CLOSER,
    GAP,
    GREATER,
    HEADER,
    INVISIBLE,
    LESS,
    LINE_ENDS,
    OPENER,
    TAG_NAME,
    compiled,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date


_SPACE = rf"[\s\0-\x1f\x7f-\x9f{LINE_ENDS}\u2800\u3164\u115f\u1160\uffa0]+"
_UNSEEN = rf"(?![\u200c-\u200f\ufe00-\ufe0f\U000e0100-\U000e01ef])[{INVISIBLE}]"
_SELECTORS = r"(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
# A tag begins with a letter (or "/", "!", "?", "|", "%") at once; after a space only "< name >" is like one.
_TAG = (
    rf"(?i){LESS}(?P<inside>[{INVISIBLE}]{{0,20}}+(?:[/／⁄∕!?|%]|[^\W\d_])[^<>＜＞﹤﹥˂˃ᐸᐳ❮❯&\\]{{0,120}}"
    rf"|{GAP}{{0,20}}+(?:[/／⁄∕]{GAP}{{0,20}}+)?"
    rf"(?:{TAG_NAME}|[^\W\d_][\w:.-]{{0,40}}{GAP}{{0,20}}+/?(?={GREATER})))(?P<end>{GREATER})?"
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
    """Return the block for ``lines``, best first, or "" where there is nothing to show.

    ::

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
        head, text, cut = _parts(line, room)
        if cut or _units(f"\n{head}{text}") > room:
            text = _cut(text, room - _units(f"\n{head}…"))
            text = f"{text}…" if text else ""
        if text:
            bullets.append(f"\n{head}{text}")
            room -= _units(bullets[-1])
    return f"{OPENER}\n{HEADER}{''.join(bullets)}\n{CLOSER}" if bullets else ""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens ``text`` costs: a quarter for an ASCII character, one for any other."""
    return -(-_units(text) // _UNITS)


def escape(text: str) -> str:
    """Return ``text`` in one line that is as readable, but cannot open or close a tag: see the module."""
    line = compiled(_SPACE).sub(" ", compiled(_UNSEEN).sub("", text))
    line = compiled(_SELECTORS).sub("", compiled(r"[\ud800-\udfff]").sub("\ufffd", line))
    line = compiled(_TAG).sub(lambda tag: f"‹{tag['inside']}{'›' if tag['end'] else ''}", line)
    return line.strip()


def _parts(line: MemoryLine, room: int) -> tuple[str, str, bool]:
    """Return a bullet's head, its text, and whether the text goes on (no more is read than can be shown)."""
    day, who = line.date, escape(clean_name(line.who))
    head = f"- [{day.year:04}-{day.month:02}-{day.day:02}] " if day else "- "
    head = f"{head}[{who}] " if who else head
    shown = line.text[: 4 * room]
    text = escape(shown)
    if who and text.startswith(f"[{who}]"):
        text = text[len(who) + 2 :].lstrip()
    return head, compiled(r"\A(?=[\[［]\d{4}-)").sub(r"\\", defuse_labels(text)), len(shown) < len(line.text)


def _cut(text: str, room: int) -> str:
    """Return the longest beginning of ``text`` that costs at most ``room`` units and splits no grapheme."""
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - 20 ms to import; most blocks need no cut

    kept: int = 0
    for grapheme in regex.finditer(r"\X", text):
        room -= _units(grapheme[0])
        if room < 0:
            break
        kept = grapheme.end()
    return text[:kept].rstrip()


def _units(text: str) -> int:
    return _UNITS * len(text) - (_UNITS - 1) * len(text.encode("ascii", "ignore"))
