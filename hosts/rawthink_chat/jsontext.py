"""JSON texts that stay as they are: strings are changed at some places, every other character is kept.

A client's bytes are its own: what a program made of them, dumped again, would differ in white space, escapes,
order of keys, numbers and repeated keys.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Path = tuple[str | int, ...]

_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_DECODER = json.JSONDecoder(strict=False)


def read_json(text: str) -> object:
    """Return what a JSON text says; None where it is none."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def splice(text: str, edits: Mapping[Path, str]) -> str:
    """Return a JSON text with other strings at some paths, and every other character as it was."""
    pieces: list[str] = []
    at = 0
    for start, end, new in _spans(text, 0, (), edits):
        pieces += (text[at:start], _literal(new, ascii_only=text[start:end].isascii()))
        at = end
    return "".join([*pieces, text[at:]])


def span_of(text: str, path: Path) -> tuple[int, int] | None:
    """Return where the value at a path begins and ends in a JSON text; None where there is none.

    Of a key that stands twice it is the first, where most readers take the last: look at what stands there.
    """
    return next(((start, end) for start, end, _ in _spans(text, 0, (), {path: ""})), None)


def value_at(text: str, at: int) -> object:
    """Return the value that begins at a place in a JSON text."""
    return _DECODER.raw_decode(text, at)[0]


def _literal(text: str, *, ascii_only: bool) -> str:
    """Return a JSON string, escaped like the one whose place it takes; halves of characters always are."""
    literal = json.dumps(text, ensure_ascii=ascii_only)
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", literal)


def _spans(text: str, at: int, path: Path, edits: Mapping[Path, str]) -> Iterator[tuple[int, int, str]]:
    """Where the edited strings stand in the value at ``at``, in order."""
    at = _skip(text, at)
    if path in edits:
        yield at, _DECODER.raw_decode(text, at)[1], edits[path]
        return
    opened, index = text[at], 0
    if opened not in "{[":  # of a key that stands twice, the first
        return
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        step: str | int = index
        if opened == "{":
            step, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        inner = (*path, step)
        if any(edit[: len(inner)] == inner for edit in edits):
            yield from _spans(text, at, inner, edits)
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        index += 1
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
