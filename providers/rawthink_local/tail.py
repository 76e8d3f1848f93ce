"""The end of the journal that the SQLite part does not know yet: parsed where it is short, else as bytes.

`Tail` holds parsed lines in dictionaries, so that a commit costs no write to the row index. `ColdTail`
answers for a long part (a fresh clone, a cleared cache) at once: a question becomes byte strings of which one
stands in every line that may answer it, and only those lines are read, at a millisecond for each 5 MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from rawthink_core.commits import Commit
from rawthink_local.lines import Line, lines_of, read_line
from rawthink_local.questions import extract

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rawthink_local.questions import Born, End, Extract, Spot


class Tail:
    """What some parsed lines add to the row index."""

    def __init__(self) -> None:
        self._spots: dict[int, list[Spot]] = {}
        self._seats: dict[int, int] = {}
        self.born: list[Born] = []
        self.ends: list[End] = []

    def add(self, found: Extract) -> None:
        """Take in what a line adds."""
        for question, spot in found.entries:
            self._spots.setdefault(question, []).append(spot)
        for session, ordinal in found.seats:
            self._seats[session] = max(ordinal, self._seats.get(session, -1))
        self.born.extend(found.born)
        self.ends.extend(found.ends)

    def find(self, question: int, start: int) -> list[Spot]:
        """Return the spots that may answer a question, from a position on."""
        return [spot for spot in self._spots.get(question, ()) if spot.position >= start]

    def last_ordinal(self, question: int) -> int:
        """Return the highest ordinal of a session, -1 where there is none."""
        return self._seats.get(question, -1)


class ColdTail:
    """Bytes of a journal from position ``start`` on: whole lines, held in memory.

    Not mapped from the file: whoever cut that short would end this process.
    """

    def __init__(self, start: int, data: bytes) -> None:
        self._start = start
        self._bytes = bytearray(data)

    @property
    def end(self) -> int:
        """The position in the journal where it ends."""
        return self._start + len(self._bytes)

    def extend(self, data: bytes) -> None:
        """Add what the journal has grown by."""
        self._bytes += data

    def find(self, question: int, start: int, kind: str, parts: Sequence[object]) -> Iterator[Spot]:
        """Yield the spots that may answer a question, from a position on."""
        for found in self._extracts(start, _needles(kind, parts)):
            yield from (spot for entry, spot in found.entries if entry == question)

    def last_ordinal(self, question: int, start: int, session: str) -> int:
        """Return the highest ordinal of a session, -1 where there is none."""
        extracts = self._extracts(start, _needles("session", (session,)))
        return max((o for found in extracts for where, o in found.seats if where == question), default=-1)

    def born(self, start: int) -> Iterator[Born]:
        """Yield every item that came to be. Reads all lines."""
        for line in lines_of(bytes(self._bytes[start - self._start :]), start)[0]:
            if isinstance(commit := read_line(line), Commit):
                yield from extract(line, commit).born

    def _extracts(self, start: int, needles: list[bytes]) -> Iterator[Extract]:
        lines = {line.position: line for needle in needles for line in self._lines_with(needle, start)}
        for line in lines.values():
            if isinstance(commit := read_line(line), Commit):
                yield extract(line, commit)

    def _lines_with(self, needle: bytes, start: int) -> Iterator[Line]:
        data = self._bytes
        at = data.find(needle, start - self._start)
        while at >= 0:
            begin = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            yield Line(self._start + begin, bytes(data[begin:end]).removesuffix(b"\r"))
            at = data.find(needle, end)


_FIELDS = {
    "id": ("id",),
    "commit": ("commit",),
    "about": ("entity",),
    "said": ("entity",),
    "decision": ("entity",),
    "link": ("source",),
    "touch": ("source", "target"),
    "slot": ("session",),
    "place": ("session",),
    "session": ("session",),
    "origin": ("path",),
}


def _needles(kind: str, parts: Sequence[object]) -> list[bytes]:
    """Return byte strings of which one stands in every line that may answer a question."""
    if kind == "name":  # the entity first called so, and every other way to get a name
        return [b'"id":' + orjson.dumps(parts[1]), b'"aliases":[', b'"op":"field"']
    return [b'"%s":%s' % (field.encode(), orjson.dumps(parts[0])) for field in _FIELDS[kind]]
