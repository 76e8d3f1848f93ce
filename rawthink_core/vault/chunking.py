"""Markdown, cut into pieces that a search can find: pure functions from a text to slices of it.

Cut at headings first (``#`` to ``######``, and underlined ones), then between blocks (paragraphs, lists, code
in fences, tables), and only where a block alone is too long, inside it: at the end of a sentence, of a line,
of a word, of a grapheme. Every piece is a verbatim slice; together they hold all that is not white space,
once and in order. Lines end with a line feed; a ``#`` inside a fence is no heading. Cost is linear.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 1_500  # characters of a chunk, as of rawthink-mcp

_LONGEST_TITLE = 200  # characters of one heading in a path: a paragraph may be underlined by mistake
_ROOM = 5  # a heading takes the text below along where this part of a chunk is left for it

_HASHES = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(?:(=+)|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_CONTAINER = re.compile(r" {0,3}(?:>|(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$))")
_INDENTED = re.compile(r" {4}| {0,3}\t")
_TABLE_RULE = re.compile(r"(?=[^|]*\|)(?=[^-]*-)[|: \t-]+$")

# A full stop needs a space after it ("v2.0"); those of scripts without spaces stand alone.
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[”’」』）]*")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text: ``text[start:end]``, the headings that it stands under, and its lines (from 1)."""

    heading: tuple[str, ...]
    start: int
    end: int
    first_line: int
    last_line: int
    text: str


class _Block(NamedTuple):
    kind: Literal["heading", "text", "code", "table"]
    start: int
    end: int
    level: int = 0
    title: str = ""


@dataclass(slots=True)
class _Section:
    heading: tuple[str, ...]
    level: int
    blocks: list[_Block]


def chunks(text: str, start: int = 0, limit: int = LIMIT) -> list[Chunk]:
    """Cut ``text`` from ``start`` on into pieces of at most ``limit`` characters.

    Positions and lines are those of the whole text.
    """
    begins = [0, *(found.end() for found in re.finditer("\n", text))]
    return [
        Chunk(section.heading, a, b, bisect_right(begins, a), bisect_right(begins, b - 1), text[a:b])
        for section in _sections(_Parser(text, start).blocks())
        for a, b in _pack(text, section.blocks, limit)
    ]


# --- blocks -------------------------------------------------------------------------------------


class _Parser:
    """Reads the blocks of a text, line by line."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.start = start
        self.found: list[_Block] = []
        self.open: _Block | None = None
        self.plain = False  # a paragraph is open: an underline would make it a heading
        self.fence = ""
        self.before = ""  # the line before

    def blocks(self) -> list[_Block]:
        at, end = self.start, len(self.text)
        while at < end:
            feed = self.text.find("\n", at)
            after = end if feed < 0 else feed + 1
            line = self.text[at:after].rstrip("\r\n")
            if self.fence:
                self._in_fence(line, after)
            else:
                self._line(line, at, after)
            self.before, at = line, after
        self._close()
        return self.found

    def _in_fence(self, line: str, after: int) -> None:
        self._extend(after)
        mark = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        if mark.startswith(self.fence) and not mark.strip(self.fence[0]) and indent <= 3:  # noqa: PLR2004
            self.fence = ""
            self._close()

    def _line(self, line: str, at: int, after: int) -> None:
        if not line or line.isspace():
            self._close()
        elif fence := _FENCE.match(line):
            self._begin("code", at, after)
            self.fence = fence[1]
        elif hashes := _HASHES.match(line):
            self._close()
            level, title = len(hashes[1]), _without_closing(line[hashes.end() :].strip())
            self._add(_Block("heading", at, after, level, _title(title)))
        elif self.open is not None and self.plain and (under := _UNDERLINE.match(line)):
            begin, self.open = self.open.start, None
            self._add(_Block("heading", begin, after, 1 if under[1] else 2, _title(self.text[begin:at])))
            self.plain = False
        elif _RULE.match(line):
            self._begin("text", at, after)
            self._close()
        elif self.open is None:
            self._begin("text", at, after)
            self.plain = not _CONTAINER.match(line) and not _INDENTED.match(line)
        elif self.open.kind == "text" and "|" in self.before and _TABLE_RULE.match(line):
            head = self.text.rfind("\n", self.start, at - 1) + 1 or self.start
            self.open = self.open._replace(end=head)
            self._begin("table", head, after)
        else:
            self._extend(after)
            self.plain = self.plain and not _CONTAINER.match(line)

    def _begin(self, kind: Literal["text", "code", "table"], at: int, after: int) -> None:
        self._close()
        self.open = _Block(kind, at, after)

    def _extend(self, after: int) -> None:
        if self.open is not None:
            self.open = self.open._replace(end=after)

    def _close(self) -> None:
        if self.open is not None:
            self._add(self.open)
        self.open, self.plain = None, False

    def _add(self, block: _Block) -> None:
        """Keep a block without the white space around it, if anything is left."""
        start, end = _inner(self.text, block.start, block.end)
        if start < end:
            self.found.append(block._replace(start=start, end=end))


def _without_closing(title: str) -> str:
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title


def _title(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_TITLE].rstrip()


def _inner(text: str, start: int, end: int) -> tuple[int, int]:
    """Return where the text between two positions begins and ends without the white space around it."""
    piece = text[start:end]
    end -= len(piece) - len(piece.rstrip())
    return min(start + len(piece) - len(piece.lstrip()), end), end


# --- sections -----------------------------------------------------------------------------------


def _sections(blocks: list[_Block]) -> list[_Section]:
    """Gather blocks under their headings. A heading without a text of its own goes to the next one below."""
    sections = [_Section((), 0, [])]
    path: list[_Block] = []
    for block in blocks:
        if block.kind == "heading":
            path = [*(above for above in path if above.level < block.level), block]
            titles = tuple(heading.title for heading in path if heading.title)
            sections.append(_Section(titles, block.level, [block]))
        else:
            sections[-1].blocks.append(block)
    for section, following in pairwise(sections):
        if section.level < following.level and all(block.kind == "heading" for block in section.blocks):
            following.blocks = section.blocks + following.blocks
            section.blocks = []
    return sections


# --- packing ------------------------------------------------------------------------------------


def _pack(text: str, blocks: list[_Block], limit: int) -> Iterator[tuple[int, int]]:
    """Yield pieces of a section: as many whole blocks as fit, and parts of those that do not."""
    begin = end = -1
    only_headings = False
    for block in blocks:
        heading = block.kind == "heading"
        if begin >= 0 and block.end - begin <= limit:
            end, only_headings = block.end, only_headings and heading
            continue
        if begin < 0:
            begin = block.start
        elif not (only_headings and _takes_along(block, begin, limit)):
            yield begin, end
            begin = block.start
        floor = max(begin, block.start)
        while block.end - begin > limit:
            cut = _cut(text, begin, floor, limit, by_line=block.kind in ("code", "table"))
            piece = _inner(text, begin, cut)
            yield piece
            begin, _ = _inner(text, cut, block.end)
            floor = begin
        end, only_headings = block.end, heading
    if begin >= 0:
        yield begin, end


def _takes_along(block: _Block, begin: int, limit: int) -> bool:
    """Tell whether the headings before a block take its beginning along, though all of it is too long.

    What would be kept in one piece without them is not broken for them.
    """
    whole = block.kind in ("code", "table") and block.end - block.start <= limit
    return not whole and block.start - begin <= limit - limit // _ROOM


def _cut(text: str, begin: int, floor: int, limit: int, *, by_line: bool) -> int:
    """Return where to end the piece that begins at ``begin``: after ``floor``, at the best place in reach."""
    last = begin + limit
    line = text.rfind("\n", floor, last + 1)
    if by_line and line > floor:
        return line
    ends = (found.end() for found in _SENTENCE_END.finditer(text, floor, last + 1))
    sentence = max((end for end in ends if end <= last), default=-1)
    if sentence > floor:
        return sentence
    if line > floor:
        return line
    spaces = [m for m in _SPACE.finditer(text, floor + 1, last + 1) if not _hangs(text, m.end())]
    if spaces:
        return spaces[-1].start()
    return _grapheme_end(text, begin, floor, last)


def _hangs(text: str, at: int) -> bool:
    """Tell whether the character at ``at`` belongs to the one before it."""
    return at < len(text) and unicodedata.category(text[at])[0] == "M"


def _grapheme_end(text: str, begin: int, floor: int, last: int) -> int:
    if text[begin : last + 1].isascii():
        return last
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - few texts have so long a run without a space

    ends = (m.end() for m in regex.finditer(r"\X", text, pos=begin, endpos=min(last + 1, len(text))))
    # the last one found may go on beyond the end that was looked at
    return max((end for end in ends if floor < end <= last), default=last)
