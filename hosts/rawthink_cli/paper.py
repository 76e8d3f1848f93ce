"""Text for a terminal, in any language: how wide it is, where it may break, and what it must not do.

Pure functions. Stored text can hold anything; `safe` keeps it from steering the reader's terminal.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

COLUMNS = 80

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ZERO_WIDTH = ("Mn", "Me", "Cf")
_NOT_FIRST = frozenset("，。、；：？！）》」』】〉”’…—,.;:?!)")  # never at the beginning of a line
_NOT_LAST = frozenset("（《「『【〈“‘(")  # never at its end
_JOINER = "\u200d"


def safe(text: str) -> str:
    """Return text with control characters shown, not obeyed; line breaks and tabs stay."""
    return _CONTROL.sub(_shown, text.replace("\r\n", "\n").replace("\r", "\n"))


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - one byte, or two


def one_line(text: str) -> str:
    """Return text on one line: for names, in places where a line break would forge something."""
    return " ".join(safe(text).split())


def width(text: str) -> int:
    """Return how many columns a terminal needs for a line."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.category(char) in _ZERO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def wrap(text: str, columns: int = COLUMNS, first: str = "", rest: str | None = None) -> list[str]:
    """Return lines of at most ``columns`` columns, the first one after ``first``, the others after ``rest``.

    By default ``rest`` is as many spaces as ``first`` is wide. Text without spaces (Chinese, Japanese) breaks
    between characters; a long word stays whole, so that it can be copied.
    """
    indent = " " * width(first) if rest is None else rest
    lines: list[str] = []
    lead = first
    for paragraph in safe(text).split("\n"):
        line, used = lead, width(lead)
        begun = broken = False
        for unit in _units(paragraph.expandtabs()):
            if begun and used + width(unit.rstrip()) > columns:
                lines.append(line.rstrip())
                line, used, begun, broken = indent, width(indent), False, True
            if unit.isspace() and broken and not begun:
                continue  # the space at which the line was broken; a text's own indentation stays
            line, used, begun = line + unit, used + width(unit), begun or not unit.isspace()
        lines.append(line.rstrip())
        lead = indent
    return lines


def _units(line: str) -> Iterator[str]:
    """Yield the parts of a line between which it may break."""
    unit = ""
    for char in line:
        if unit and _may_break(unit[-1], char):
            yield unit
            unit = ""
        unit += char
    if unit:
        yield unit


def _may_break(before: str, after: str) -> bool:
    if before.isspace() != after.isspace():
        return True
    if before.isspace() or after in _NOT_FIRST or before in _NOT_LAST:
        return False
    if before == _JOINER or _columns(after) == 0:
        return False
    return _columns(before) == 2 or _columns(after) == 2  # noqa: PLR2004 - two columns is what wide means


def fill(text: str, columns: int) -> str:
    """Return text followed by the spaces that bring it to ``columns`` columns."""
    return text + " " * max(columns - width(text), 0)


def cut(text: str, columns: int) -> str:
    """Return one line of text, cut with an ellipsis where it is wider than ``columns``."""
    text = one_line(text)
    if width(text) <= columns:
        return text
    kept, used = "", 0
    for char in text:
        used += _columns(char)
        if used > columns - 1:
            break
        kept += char
    return kept.rstrip() + "…"


def table(rows: Iterable[Sequence[str]], columns: int = COLUMNS) -> list[str]:
    """Return rows as lines: each column but the last as wide as its widest cell, the last one wrapped."""
    cells = [[one_line(cell) for cell in row[:-1]] + [row[-1]] for row in rows]
    widths = [max(width(cell) for cell in column) for column in list(zip(*cells, strict=True))[:-1]]
    lines: list[str] = []
    for row in cells:
        lead = "".join(fill(cell, size) + "  " for cell, size in zip(row, widths, strict=False))
        lines += wrap(row[-1], columns, lead)
    return lines
