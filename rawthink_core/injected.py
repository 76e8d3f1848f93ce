"""What we inject before a chat turn, and how it is taken out again before anything is stored.

**What counts as an injected block.** A ``<memory-context>`` tag alone proves nothing: people write about it.
A block is ours when

(a) opener(s) are followed by our header line, or by a bullet with a date; or
(b) opener(s) stand alone on their line, and the next tag is a closer that starts a line; or
(c) the header line stands alone on a line above a bullet: a block that lost its tags.

It ends with the closer after its bullets, or one that starts a later line, and with any more closers behind;
lacking that, or when another block begins first, with its last bullet. Letter case, white space, zero-width
characters and other forms of ``<`` and ``>`` make no difference. A stream can follow the same rule: (a) and
(c) show within a few characters of tag or header; (b) needs text held back until the next tag.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENER = "<memory-context>"
HEADER = "Relevant memory context (use when helpful):"
CLOSER = "</memory-context>"

# Pieces of patterns, shared with `chat` and `context`.
# For use inside [...]: what ends a line; what shows nothing; what looks blank within a line.
LINE_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
INVISIBLE = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
BLANK = r" \t\x1f\xa0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000" + INVISIBLE
# "<" and ">" in the forms that a reader takes for them.
LESS = r"(?:[<＜﹤˂ᐸ❮]|&(?:amp;)*(?:lt|\#0*60|\#x0*3c);?|\\u003c|\\x3c)"
GREATER = r"(?:[>＞﹥˃ᐳ❯]|&(?:amp;)*(?:gt|\#0*62|\#x0*3e);?|\\u003e|\\x3e)"


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile when first used: together the patterns would cost every start-up 20 ms."""
    return re.compile(pattern)


GAP = rf"[{BLANK}{LINE_ENDS}]"
_SKIP = rf"[{BLANK}{LINE_ENDS}>]*+"
_BULLET = rf"[-*•–][{BLANK}]"
TAG_NAME = rf"[{INVISIBLE}]*+".join([*"memory", "[-‐-―−_]?", *"context"])
_SENTENCE = rf"[{BLANK}]+".join(["Relevant", "memory", "context"])
_HELPFUL = rf"[{BLANK}]*\([{BLANK}]*use[{BLANK}]+when[{BLANK}]+helpful[{BLANK}]*\)[{BLANK}]*[:：]"
_MARK = (
    rf"(?i)(?P<tag>(?P<escaped>\\)?{LESS}{GAP}{{0,20}}+(?P<close>[/／]{GAP}{{0,20}}+)?{TAG_NAME}"
    rf"(?:{GAP}[^<>＜＞]{{0,200}}?)?[/{BLANK}{LINE_ENDS}]{{0,20}}(?(escaped)\\){GREATER})"
    rf"|(?<![^{LINE_ENDS}])[{BLANK}>]*+{_SENTENCE}{_HELPFUL}[{BLANK}]*+(?=[{LINE_ENDS}]{_SKIP}{_BULLET})"
)
_HEAD = (
    rf"(?i){_SKIP}(?:{_SENTENCE}(?:{_HELPFUL}|[{BLANK}]*[:：])|(?={_BULLET}[{BLANK}]*\[\d{{4}}-\d\d-\d\d\]))"
)
# The rest of a header's line, then bullets, each on a line of its own.
_BODY = (
    rf"[^{LINE_ENDS}]*+(?:{_SKIP}{_BULLET}[^{LINE_ENDS}]*+)?+"
    rf"(?:(?:\r\n|[{LINE_ENDS}])[{BLANK}>]*+{_BULLET}[^{LINE_ENDS}]*+)*+"
)
_PASSES = 8  # text may be so nested that one removal makes the next block; deeper than this is nobody's echo


def strip_memory_context(text: str) -> str:
    """Return ``text`` without the blocks that we injected, whole or echoed; the rest byte for byte.

    The module's docstring says what counts as one. A block that starts a line takes the line break behind it
    along; one between two words leaves a space.
    """
    for _ in range(_PASSES):
        pieces: list[str] = []
        at = 0
        for start, end in _blocks(text):
            before = text[at:start]
            pieces.append(before)
            at = end
            if start == 0 or compiled(f"[{LINE_ENDS}]").match(text, start - 1):
                rest = compiled(rf"[ \t]*+(?:\r\n|[{LINE_ENDS}])").match(text, end)
                at = rest.end() if rest else end
            elif before and not before[-1].isspace() and end < len(text) and not text[end].isspace():
                pieces.append(" ")
        if not pieces:
            break
        text = "".join([*pieces, text[at:]])
    return text


class _Mark(NamedTuple):
    kind: str  # "open", "close", or "bare" for a header line that may have lost its opener
    start: int
    end: int


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Where our blocks stand, in order; each mark is looked at a bounded number of times."""
    marks = [
        _Mark("close" if found["close"] else "open" if found["tag"] else "bare", *found.span())
        for found in compiled(_MARK).finditer(text)
    ]
    index, unclosed, at = 0, 0, 0
    while index < len(marks):
        first = last = marks[index]
        index += 1
        while last.kind == "open" and _follows(text, last.end, marks, index, "open"):
            last = marks[index]
            index += 1
        if first.kind == "close":
            continue
        head = compiled(_HEAD).match(text, last.end) if first.kind == "open" else None
        unclosed = unclosed if compiled(_SKIP).fullmatch(text, at, first.start) else 0
        if head or first.kind == "bare":
            at, closed = _end(text, marks, index, head.end() if head else first.end)
            unclosed += not closed
        elif _alone(text, first.start, last.end) and _closes_line(text, marks, index):
            at = marks[index].end
        else:
            continue
        while index < len(marks) and (marks[index].start < at or _closes(text, at, marks[index], unclosed)):
            at = max(at, marks[index].end)
            index += 1
        yield first.start, at


def _end(text: str, marks: list[_Mark], index: int, at: int) -> tuple[int, bool]:
    """Return where the block ends whose header ends at ``at``, and whether a closer ends it."""
    while index < len(marks) and (marks[index].start < at or _mentions(text, marks[index])):
        index += 1
    stop = marks[index].start if index < len(marks) else len(text)
    body = compiled(_BODY).match(text, at, stop)
    end = body.end() if body else at
    if _follows(text, end, marks, index, "close") or _closes_line(text, marks, index):
        return marks[index].end, True
    return end, False


def _closes(text: str, at: int, mark: _Mark, unclosed: int) -> bool:
    """Whether ``mark`` closes once more what ended at ``at``; past more bullets where blocks were nested."""
    if mark.kind == "close" and unclosed and (body := compiled(_BODY).match(text, at, mark.start)):
        at = body.end()
    return mark.kind == "close" and compiled(_SKIP).fullmatch(text, at, mark.start) is not None


def _mentions(text: str, mark: _Mark) -> bool:
    return mark.kind == "open" and not compiled(_HEAD).match(text, mark.end)


def _follows(text: str, at: int, marks: list[_Mark], index: int, kind: str) -> bool:
    """Whether the mark ``index`` is a ``kind`` with nothing but blanks before it, back to ``at``."""
    if index >= len(marks) or marks[index].kind != kind:
        return False
    return compiled(_SKIP).fullmatch(text, at, marks[index].start) is not None


def _closes_line(text: str, marks: list[_Mark], index: int) -> bool:
    return index < len(marks) and marks[index].kind == "close" and _starts_line(text, marks[index].start)


def _starts_line(text: str, at: int) -> bool:
    return compiled(rf"(?:\A|[{LINE_ENDS}])[{BLANK}>]*+\Z").search(text, max(0, at - 80), at) is not None


def _alone(text: str, start: int, end: int) -> bool:
    return (
        _starts_line(text, start) and compiled(rf"[{BLANK}]*+(?![^{LINE_ENDS}])").match(text, end) is not None
    )
