"""Server-sent events: bytes cut into events wherever the network cut them, and put together again.

Each event keeps its bytes, so what isn't changed goes on as it came: line ends of every kind, comments, field
order, unknown fields.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_EVENT = 16 * 1024 * 1024
_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_BLANK = re.compile(rb"\r\n|\n|\r")
_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|\Z)")


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its bytes, its name ("" where it has none), and its data (None where it has none)."""

    raw: bytes
    name: str = ""
    data: str | None = None

    def with_data(self, data: str) -> bytes:
        """Return the event's bytes with other data, which must have as many lines as its own."""
        lines = iter(data.split("\n"))
        return b"".join(
            (prefix + next(lines).encode("utf-8", "surrogateescape") if prefix else line) + end
            for prefix, line, end in _lines(self.raw)
        )


class EventReader:
    """Cuts a stream of bytes into events. It holds at most one event, and no more than `limit` bytes of it.

    A longer one is passed on in pieces, as events without data.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._scanned = 0
        self._overlong = False
        self._began = False

    def feed(self, piece: bytes) -> list[Event]:
        """Take the next bytes, and return the events that have ended. Joined, their bytes are what came."""
        self._buffer += piece
        events: list[Event] = []
        while (end := self._end_of_event()) is not None:
            raw = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._scanned = 0
            events.append(Event(raw) if self._overlong else self._event(raw))
            self._overlong = False
        if len(self._buffer) > self._limit:  # its last bytes stay: they may be half of the blank line
            events.append(Event(bytes(self._buffer[:-4])))
            del self._buffer[:-4]
            self._scanned, self._overlong = 0, True
        return events

    def finish(self) -> list[Event]:
        """Return what has come since the last event: one without an end, which some clients read anyway."""
        raw = bytes(self._buffer)
        self._buffer.clear()
        return [Event(raw) if self._overlong else self._event(raw)] if raw else []

    def _end_of_event(self) -> int | None:
        blank = None if self._overlong else _BLANK.match(self._buffer)
        found = blank or _END.search(self._buffer, self._scanned)
        self._scanned = max(0, len(self._buffer) - 3)
        return found.end() if found else None

    def _event(self, raw: bytes) -> Event:
        fields = raw if self._began else raw.removeprefix(codecs.BOM_UTF8)
        self._began = True
        name, data = "", []
        for prefix, line, _ in _lines(fields):
            if prefix:
                data.append(line[len(prefix) :].decode("utf-8", "surrogateescape"))
            elif line.startswith(b"event:"):
                name = line[6:].decode("utf-8", "replace").removeprefix(" ")
        return Event(raw, name, "\n".join(data) if data else None)


def _lines(raw: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Cut an event into lines: what stands before the data ("" in other lines), the line, and its end."""
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    for found in _LINE.finditer(raw):
        line, end = found[1], found[2]
        named = line.removeprefix(bom) if found.start() == 0 else line
        prefix = b""
        if named.startswith(b"data:"):
            prefix = line[: len(line) - len(named) + (6 if named.startswith(b"data: ") else 5)]
        yield prefix, line, end


def encode(data: Mapping[str, object], name: str = "") -> bytes:
    """Return an event of our own."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, default=str)}\n\n".encode()
