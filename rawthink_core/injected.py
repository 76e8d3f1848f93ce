"""What we inject before a chat turn, and how it is taken out again before anything is stored.

**What counts as an injected block.** A ``<memory-context>`` tag alone proves nothing: people write about it.
A block is ours when

(a) opener(s) are followed by our header line, or by a bullet with a date; or
(b) opener(s) stand alone on their line, and the next tag is a closer that starts a line; or
(c) the header line stands alone on a line above a bullet: a block that lost its tags.

It ends with the closer after its bullets, or one that starts a later line, and with any more closers behind;
lacking that, or when another block begins first, with its last bullet. Letter case, white space, zero-width
characters and other forms of ``<`` and ``>`` make no difference.

A text that still grows is judged by the same code: `Blocks` says `Undecided` where more text could change the
answer. (a) and (c) show within a few characters of tag or header; (b), and the end of a block that lacks its
closer, wait for the next tag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rawthink_core.marks import (
    BEGINS,
    BLANK,
    BODY,
    CLOSER,
    HEAD,
    HEAD_BEGUN,
    HEADER,
    LINE_ENDS,
    MARK,
    MARK_BEGUN,
    OPENER,
    SKIP,
    compiled,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CLOSER",
    "HEADER",
    "LEFT",
    "LONGEST_MARK",
    "OPENER",
    "PASSES",
    "Blocks",
    "rejoin",
    "strip_memory_context",
]

PASSES = 8  # text may be so nested that one removal makes the next block; deeper than this is nobody's echo
_SIGNS = frozenset("<＜﹤˂ᐸ❮&\\")
LEFT = 96  # characters before a place that can matter to what stands there
LONGEST_MARK = 400  # characters; it takes many invisible ones to make a longer mark


def strip_memory_context(text: str) -> str:
    """Return ``text`` without the blocks that we injected, whole or echoed; the rest byte for byte.

    The module's docstring says what counts as one. A block that starts a line takes the line break behind it
    along; one between two words leaves a space.
    """
    for _ in range(PASSES):
        pieces: list[str] = []
        at = 0
        blocks = Blocks(text)
        while (found := blocks.next()) is not None:
            start, end = found
            pieces.append(text[at:start])
            seam, at = rejoin(text, at, start, end)
            pieces.append(seam)
        if not pieces:
            break
        text = "".join([*pieces, text[at:]])
    return text


def rejoin(text: str, begin: int, start: int, end: int) -> tuple[str, int]:
    """Return what to put in the place of a block, and where the text goes on.

    The block stands at ``start`` to ``end``; ``begin`` is where the text before it begins.
    """
    if start == 0 or compiled(f"[{LINE_ENDS}]").match(text, start - 1):
        rest = compiled(rf"[ \t]*+(?:\r\n|[{LINE_ENDS}])").match(text, end)
        return "", rest.end() if rest else end
    between = start > begin and not text[start - 1].isspace() and end < len(text) and not text[end].isspace()
    return " " if between else "", end


def _starts(text: str, at: int) -> Iterator[int]:
    """Where a mark could begin, from ``at`` on: a few places, found fast."""
    line = compiled(rf"[{BLANK}>]*+(?:[Rr]|\Z)")
    if at == 0 or compiled(f"[{LINE_ENDS}]").match(text, at - 1):
        yield at
    for found in compiled(BEGINS).finditer(text, at):
        start = found.start()
        if found[0] in _SIGNS:
            yield start
        elif line.match(text, start + 1):
            yield start + 1


class _Mark(NamedTuple):
    kind: str  # "open", "close", or "bare" for a header line that may have lost its opener
    start: int
    end: int


class _Undecided(Exception):  # noqa: N818 - no error: the text goes on
    """More text could change the answer."""


class Blocks:
    """Finds our blocks in a text, in order, also while the text grows; each mark is looked at a few times.

    ``settled`` is up to where it is certain that no further block begins, ``edge`` up to where all tags are
    known: there, one may have begun that isn't whole yet.
    """

    def __init__(self, text: str = "", *, finished: bool = True) -> None:
        self.text = text
        self.finished = finished
        self.settled = 0
        self._marks: list[_Mark] = []
        self._index = 0  # of the first mark that isn't dealt with
        self.edge = 0
        self._at, self._unclosed = 0, 0  # where the last block ended; how many blocks in a row lacked closers
        self._inside: int | None = None  # where the bullets begin of a block whose end is undecided
        self._idle = False  # whether only another mark can decide

    def next(self) -> tuple[int, int] | None:
        """Return start and end of the next block; None if there is none, or more text could tell."""
        known = len(self._marks)
        self._look()
        if self._idle and known == len(self._marks) and not self.finished:
            return None
        self._inside, self._idle = None, False
        try:
            return self._next()
        except _Undecided:
            return None

    def forget(self, count: int) -> None:
        """Drop the first ``count`` characters of the text. What is not settled needs `LEFT` before it."""
        if self._unclosed and not compiled(SKIP).fullmatch(self.text, self._at, max(self._at, count)):
            self._unclosed = 0
        self.text = self.text[count:]
        self._marks = [
            _Mark(mark.kind, mark.start - count, mark.end - count) for mark in self._marks[self._index :]
        ]
        self._index = 0
        self.settled = max(0, self.settled - count)
        self.edge = max(0, self.edge - count)
        self._at = max(0, self._at - count)
        self._inside = None if self._inside is None else self._inside - count

    def shorten(self) -> bool:
        """Drop the middle of the bullets that an undecided block has so far, since only their end can matter.

        Returns False where there is nothing to drop.
        """
        at = self._inside
        if at is None or len(self.text) - at <= 2 * LONGEST_MARK:
            return False
        body = compiled(BODY).match(self.text, at)
        if body is None or self._skip(body.end()) < len(self.text):
            return False
        self.text = f"{self.text[:at]}\n- {self.text[-LONGEST_MARK:]}"
        self._marks = [mark for mark in self._marks if mark.end <= at]
        self.edge, self._idle = at, False
        return True

    def _look(self) -> None:
        """Find the marks that have become whole, up to one that may have begun."""
        text, at = self.text, self.edge
        for start in _starts(text, at):
            if start < at:
                continue
            found = compiled(MARK).match(text, start)
            # the ";" of an entity may come yet
            whole = found and (self.finished or found.end() < len(text) or text[-1] not in "tT2eE")
            if found and whole:
                kind = "close" if found["close"] else "open" if found["tag"] else "bare"
                self._marks.append(_Mark(kind, *found.span()))
                at = found.end()
            elif not self.finished and (found or compiled(MARK_BEGUN).match(text, start)):
                self.edge = start
                return
        self.edge = len(text)

    def _next(self) -> tuple[int, int] | None:
        text, marks, index = self.text, self._marks, self._index
        while index < len(marks):
            first = last = marks[index]
            self.settled, self._index = first.start, index
            index += 1
            while last.kind == "open" and self._follows(last.end, index, "open"):
                last = marks[index]
                index += 1
            if first.kind == "close":
                continue
            inside = self._head(last) if first.kind == "open" else first.end
            unclosed = self._unclosed if compiled(SKIP).fullmatch(text, self._at, first.start) else 0
            if inside is not None:
                at, closed = self._end(index, inside)
                unclosed += not closed
            elif _alone(text, first.start, last.end) and self._closes_line(index):
                at = marks[index].end
            else:
                continue
            while self._closes(index, at, unclosed):
                at = max(at, marks[index].end)
                index += 1
            self.settled, self._index, self._at, self._unclosed = at, index, at, unclosed
            return first.start, at
        self._index = index
        self.settled = max(self.settled, self.edge)
        return None

    def _end(self, index: int, at: int) -> tuple[int, bool]:
        """Return where the block ends whose header ends at ``at``, and whether a closer ends it."""
        marks = self._marks
        self._inside = at
        while index < len(marks) and (marks[index].start < at or self._mentions(marks[index])):
            index += 1
        self._await_mark(index)
        stop = marks[index].start if index < len(marks) else len(self.text)
        body = compiled(BODY).match(self.text, at, stop)
        end = body.end() if body else at
        if self._follows(end, index, "close") or self._closes_line(index):
            return marks[index].end, True
        return end, False

    def _closes(self, index: int, at: int, unclosed: int) -> bool:
        """Whether the next mark closes once more what ended at ``at``; past more bullets in nested blocks."""
        text = self.text
        if index >= len(self._marks):
            body = compiled(BODY).match(text, at) if unclosed and not self.finished else None
            self._await_sign(body.end() if body else at, 1 if unclosed else 0)
            return False
        mark = self._marks[index]
        if mark.start < at:
            return True
        if mark.kind == "close" and unclosed and (body := compiled(BODY).match(text, at, mark.start)):
            at = body.end()
        return mark.kind == "close" and compiled(SKIP).fullmatch(text, at, mark.start) is not None

    def _head(self, mark: _Mark) -> int | None:
        """Return where the head ends that follows an opener, None without one."""
        head = compiled(HEAD).match(self.text, mark.end)
        if head is None and not self.finished and compiled(HEAD_BEGUN).match(self.text, mark.end):
            raise _Undecided
        return head.end() if head else None

    def _mentions(self, mark: _Mark) -> bool:
        return mark.kind == "open" and self._head(mark) is None

    def _follows(self, at: int, index: int, kind: str) -> bool:
        """Whether the mark ``index`` is a ``kind`` with nothing but blanks before it, back to ``at``."""
        if index >= len(self._marks):
            self._await_sign(at)
            return False
        mark = self._marks[index]
        return mark.kind == kind and compiled(SKIP).fullmatch(self.text, at, mark.start) is not None

    def _closes_line(self, index: int) -> bool:
        self._await_mark(index)
        if index >= len(self._marks):
            return False
        mark = self._marks[index]
        return mark.kind == "close" and _starts_line(self.text, mark.start)

    def _skip(self, at: int) -> int:
        blank = compiled(SKIP).match(self.text, at)
        return blank.end() if blank else at

    def _await_mark(self, index: int) -> None:
        if index >= len(self._marks) and not self.finished:
            self._idle = True
            raise _Undecided

    def _await_sign(self, at: int, more: int = 0) -> None:
        """Make sure that what follows ``at`` and blanks is known, and ``more`` characters behind it."""
        seen = self._skip(at)
        if not self.finished and (seen + more >= len(self.text) or self.edge <= seen):
            raise _Undecided


def _starts_line(text: str, at: int) -> bool:
    return compiled(rf"(?:\A|[{LINE_ENDS}])[{BLANK}>]*+\Z").search(text, max(0, at - 80), at) is not None


def _alone(text: str, start: int, end: int) -> bool:
    return (
        _starts_line(text, start) and compiled(rf"[{BLANK}]*+(?![^{LINE_ENDS}])").match(text, end) is not None
    )
