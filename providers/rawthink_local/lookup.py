"""The row index: from a question to the places of rows in the journal, at any size of store.

Two parts answer every question together: a SQLite file for the journal up to a marker (`rowfile`), and the
*tail* after it. A short tail is parsed into a dictionary as it grows, so that a commit costs no write
here; a long one (a fresh clone, a cleared cache) is searched as bytes. A background thread moves the marker
on. All of it is derived: whatever is wrong with it, it is built anew.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from typing import TYPE_CHECKING

from rawthink_core.commits import Commit, encode
from rawthink_core.errors import BackendError, StoreDamaged
from rawthink_local.coldtail import ColdTail
from rawthink_local.journal import (
    TAIL_BYTES,
    Damage,
    Journal,
    Line,
    Stamp,
    is_whole,
    lines_of,
    read_line,
    stamp_of,
)
from rawthink_local.questions import Extract, Spot, extract, key
from rawthink_local.rowfile import RowFile

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from pathlib import Path

log = logging.getLogger("rawthink.local")

LONG_TAIL = 4 * 2**20  # bytes above which a tail is searched, not parsed
FLUSH_AT = 512 * 2**10  # bytes of tail at which the marker is moved on
OVERLAY = 1 << 60  # positions from here on are in the overlay: a commit that is not in the journal (yet)
_CHUNK = 256 * 2**10


class RowIndex:
    """Answers questions about a journal. Safe to use from many threads.

    ``file`` is where the SQLite part lies; None keeps it in memory.
    """

    def __init__(self, journal: Journal, file: Path | None) -> None:
        self._journal = journal
        self._lock = threading.RLock()
        self._rows = RowFile(file)
        self._stamped: Stamp | None = None
        self._marker = 0  # where the SQLite part ends
        self._end = 0  # where whole, checked lines end
        self._torn = False
        self.last_at = ""  # the latest commit time seen, ISO 8601
        self._seen: tuple[int, int, int] | None = None
        self._tail: dict[int, list[Spot]] = {}
        self._tail_born: list[tuple[int, int, str]] = []
        self._tail_seats: dict[int, int] = {}
        self._damage: dict[int, Damage] = {}
        self._cold: ColdTail | None = None
        self._overlay = b""
        self._over = Extract([], [], [])
        self._builder: threading.Thread | None = None
        self._closing = threading.Event()

    @property
    def file(self) -> Path | None:
        """Where the SQLite part lies."""
        return self._rows.path

    @property
    def end(self) -> int:
        """Where the whole lines that have been seen end."""
        return self._end

    # --- keeping up -----------------------------------------------------------------------------

    def refresh(self) -> None:
        """See what was written since the last look, by whichever process. Costs a `stat` when nothing was."""
        state = self._journal.stat()
        seen = None if state is None else _seen(state)
        if seen == self._seen:
            return
        with self._lock:
            if state is None or not self._same_file(state):
                self._start_over(state)
            if state is not None and state.st_size > self._end:
                self._read_on(state.st_size)
            self._seen = seen
        self._maybe_build()

    def appended(self, line: Line, commit: Commit, state: os.stat_result) -> None:
        """Take in a line that this process has just appended, under the store's lock."""
        with self._lock:
            end = line.position + len(line.data) + 1
            grown = end - self._marker > LONG_TAIL
            if self._end != line.position or len(line.data) < TAIL_BYTES or grown or self._cold is not None:
                return  # the next refresh reads it
            self.last_at = max(self.last_at, commit.at)
            self._add_to_tail(extract(line, commit))
            self._end = end
            self._stamped = stamp_of(state, end, line.data[-TAIL_BYTES:] + b"\n")
            if state.st_size == end:
                self._seen = _seen(state)
        self._maybe_build()

    def _same_file(self, state: os.stat_result) -> bool:
        if self._stamped is None or state.st_size < self._end:
            return False
        return self._journal.stamp(self._end) == self._stamped

    def _start_over(self, state: os.stat_result | None) -> None:
        """Take up the SQLite part where it belongs to this file, else begin an empty one."""
        self._forget_tail()
        marker, stamp = self._rows.marker()
        fits = state is not None and 0 < marker <= state.st_size and self._journal.stamp(marker) == stamp
        if not fits:
            if marker:
                log.info("the journal %s was replaced; its row index is built anew", self._journal.path)
                self._rows.clear()
            marker = 0
        self._marker = self._end = marker
        self._stamped = stamp if fits else None
        self._torn = False
        self.last_at = self._rows.last_at()
        self._damage = {item.position: item for item in self._rows.damage()}

    def _forget_tail(self) -> None:
        self._tail.clear()
        self._tail_born.clear()
        self._tail_seats.clear()
        if self._cold is not None:
            self._cold.close()
            self._cold = None

    def _read_on(self, size: int) -> None:
        """Take in the lines between what was seen and the end of the file."""
        start = self._end
        long = size - self._marker > LONG_TAIL
        lines, rest = lines_of(self._journal.read(start, size), start)
        self._torn = rest < size
        for number, line in enumerate(lines):
            if long and number < len(lines) - 1 and is_whole(line):
                continue
            entry = read_line(line)
            if isinstance(entry, Damage):
                if number == len(lines) - 1:  # the last line: torn, for the next writer to set aside
                    self._torn, rest = True, line.position
                    break
                self._damage[line.position] = entry
            elif isinstance(entry, Commit):
                self.last_at = max(self.last_at, entry.at)
                if not long:
                    self._add_to_tail(extract(line, entry))
        self._end = rest
        self._stamped = self._journal.stamp(rest)
        if long:
            self._forget_tail()
            self._cold = ColdTail(self._journal.path, rest)

    def _add_to_tail(self, found: Extract) -> None:
        for question, spot in found.entries:
            self._tail.setdefault(question, []).append(spot)
        self._tail_born.extend(found.born)
        for session, ordinal in found.seats:
            self._tail_seats[session] = max(ordinal, self._tail_seats.get(session, -1))

    # --- the overlay ----------------------------------------------------------------------------

    def lay_over(self, commit: Commit | None) -> None:
        """Read on as if ``commit`` stood at the end of the journal; None ends that."""
        data = b"" if commit is None else encode(commit).rstrip(b"\n")
        over = Extract([], [], []) if commit is None else extract(Line(OVERLAY, data), commit)
        with self._lock:
            self._overlay, self._over = data, over

    @property
    def overlay_line(self) -> bytes:
        """The line of the commit that is laid over, without its line break; empty where there is none."""
        return self._overlay

    def overlaid(self, position: int, length: int) -> bytes:
        """Return bytes of the overlay."""
        return self._overlay[position - OVERLAY : position - OVERLAY + length]

    # --- damage ---------------------------------------------------------------------------------

    @property
    def torn(self) -> bool:
        """Whether the journal ends in the part of a line."""
        return self._torn

    def damage(self) -> list[Damage]:
        """Return the damaged lines, the torn tail excluded."""
        with self._lock:
            return sorted(self._damage.values(), key=lambda item: item.position)

    def refuse_damage(self) -> None:
        """Raise StoreDamaged where a line can't be read: nothing may be written beside it."""
        if damage := self.damage():
            raise StoreDamaged(
                f"{len(damage)} line(s) of {self._journal.path} can't be read (the first at byte "
                f"{damage[0].position}: {damage[0].why}). Nothing was written. `rawthink doctor --fix` sets "
                f"them aside in a file of their own and keeps the rest"
            )

    # --- answering ------------------------------------------------------------------------------

    def find(self, kind: str, space: str, *parts: object) -> list[Spot]:
        """Return the places of the rows that may answer a question (see `questions`)."""
        return self.find_all(kind, space, [parts])[0]

    def find_all(self, kind: str, space: str, asked: Sequence[tuple[object, ...]]) -> list[list[Spot]]:
        """Return the places that may answer each of many questions of one kind: cheaper than one by one."""
        keys = [key(kind, space, *(parts[:1] if kind == "name" else parts)) for parts in asked]
        found: dict[int, list[Spot]] = {question: [] for question in keys}
        with self._lock:
            for question, spot in self._rows.find(list(found), self._marker):
                found[question].append(spot)
            for question, spots in found.items():
                spots.extend(spot for spot in self._tail.get(question, ()) if spot.position >= self._marker)
            for question, spot in self._over.entries:
                if question in found:
                    found[question].append(spot)
            if self._cold is not None:
                for question, parts in zip(keys, asked, strict=True):
                    found[question].extend(self._cold.find(question, self._marker, kind, parts))
        return [found[question] for question in keys]

    def last_ordinal(self, space: str, session: str) -> int:
        """Return the highest ordinal in a session, -1 where there is none."""
        question = key("session", space, session)
        with self._lock:
            last = max(self._rows.last_ordinal(question), self._tail_seats.get(question, -1))
            last = max([last, *(ordinal for where, ordinal in self._over.seats if where == question)])
            if self._cold is not None:
                last = max(last, self._cold.last_ordinal(question, self._marker, session))
            return last

    def born_after(self, space: str, at: int, item: str, limit: int) -> list[tuple[int, str]]:
        """Return the next items of a space in the order of (recorded at, id), after the given pair."""
        where = key("space", space)
        with self._lock:
            found = set(self._rows.born_after(where, at, item, limit))
            late = [*self._tail_born, *self._over.born]
            if self._cold is not None:
                late += self._cold.born(self._marker)
            found |= {(a, i) for s, a, i in late if s == where and (a, i) > (at, item)}
            return sorted(found)[:limit]

    def born_count(self) -> int:
        """Return how many items of all spaces have come to be, as far as the marker and the tail know."""
        with self._lock:
            return self._rows.born_count() + len(self._tail_born) + len(self._over.born)

    def lines(self, start: int = 0) -> Iterator[Line]:
        """Yield the whole lines of the journal from a position on, reading a piece at a time."""
        while start < self._end:
            lines, start = self._piece(start, self._end, 2 * LONG_TAIL)
            yield from lines

    def _piece(self, start: int, end: int, size: int) -> tuple[list[Line], int]:
        """Return about ``size`` bytes of whole lines, one at least, and where they end."""
        lines, rest = lines_of(self._journal.read(start, min(end, start + size)), start)
        return (lines, rest) if rest > start else lines_of(self._journal.read(start, end), start)

    # --- moving the marker on -------------------------------------------------------------------

    def _maybe_build(self) -> None:
        if self._end - self._marker <= FLUSH_AT or (self._builder is not None and self._builder.is_alive()):
            return
        self._builder = threading.Thread(target=self._build, name="rawthink-rows", daemon=True)
        self._builder.start()

    def _build(self) -> None:
        try:
            self.catch_up()
        except (sqlite3.Error, OSError, BackendError) as error:
            if not self._closing.is_set():
                log.warning("the row index of %s can't be built now: %s", self._journal.path, error)

    def catch_up(self) -> None:
        """Move the marker to the end of the journal now. Costs some 20 µs an item."""
        while not self._closing.is_set() and self._advance():
            pass

    def _advance(self) -> bool:
        """Move the marker over the next piece of the journal; tell whether there is more to do."""
        with self._lock:
            start, end, stamped = self._marker, self._end, self._stamped
        if start >= end:
            return False
        lines, rest = self._piece(start, end, _CHUNK)
        read = [(line, entry) for line in lines if isinstance(entry := read_line(line), Commit)]
        extracts = [extract(line, commit) for line, commit in read]
        last_at = max((commit.at for _, commit in read), default="")
        stamp = self._journal.stamp(rest)
        with self._lock:
            replaced = stamped is None or (stamp.device, stamp.inode) != (stamped.device, stamped.inode)
            if self._closing.is_set() or self._marker != start or replaced:
                return False
            damage = [item for item in self._damage.values() if start <= item.position < rest]
            marker = self._rows.add(start, rest, stamp, last_at, extracts, damage)
            if not start < marker <= self._end:
                return False  # another process started over; the next refresh sees why
            self._marker = marker
            self.last_at = max(self.last_at, self._rows.last_at())
            if marker >= self._end:
                self._forget_tail()
            return marker < self._end

    def rebuild(self) -> None:
        """Build the SQLite part anew."""
        with self._lock:
            self._rows.clear()
            self._seen = self._stamped = None
        self.refresh()
        self.catch_up()

    def close(self) -> None:
        """Stop the background work and close the file. May be called again."""
        self._closing.set()
        if self._builder is not None:
            self._builder.join()
        with self._lock:
            self._forget_tail()
            self._rows.close()


def _seen(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_ino, state.st_size, state.st_mtime_ns
