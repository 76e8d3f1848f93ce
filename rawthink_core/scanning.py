"""Patterns over long texts, without standing in anybody's way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

PIECE = 1 << 15  # characters looked at in one call: 12 ms of the slowest pattern that we have
REACH = 1 << 13


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield what `re.finditer` does, piece by piece: one call over a long text would stop every other thread.

    A match may be as long as it likes once it begins; only what must stand within ``REACH`` characters of
    the beginning for there to be a match at all is looked for no further where a piece ends.
    """
    at = 0
    while at <= len(text):
        end = at + PIECE
        seen = min(end + REACH, len(text))
        for match in pattern.finditer(text, at, seen):
            if match.start() >= end and seen < len(text):
                break
            whole = match if match.end() < seen else pattern.match(text, match.start())
            if whole is not None:
                yield whole
                end = max(end, whole.end())
        at = end if seen < len(text) else len(text) + 1
