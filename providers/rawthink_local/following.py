"""Keeping up with a journal that others write too: what of it has been seen, and where its lines end.

A look costs a `stat` when nothing was written. What grew is read on; what was replaced, cut short or
damaged since is noticed and begun anew. The SQLite part (`rowfile`) knows the journal up to a marker, the
tail behind it is held in memory (`tail`).
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from typing import TYPE_CHECKING

from rawthink_core.commits import Commit
from rawthink_core.errors import StoreDamaged
from rawthink_local.lines import (
    TAIL_BYTES,
    Damage,
    Line,
    Moved,
    Stamp,
    is_whole,
    lines_of,
    read_line,
    stamp_of,
)
from rawthink_local.questions import extract
from rawthink_local.rowfile import RowFile
from rawthink_local.tail import ColdTail, Tail

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from rawthink_local.lines import Snapshot
    from rawthink_local.logfile import LogFile

log = logging.getLogger("rawthink.local")

LONG_TAIL = 4 * 2**20  # bytes above which a tail is searched, not parsed
NEVER = (0, 0, 0)  # how a journal looks that was never looked at
_TRIES = 3
_AT = b'","at":"'
_AT_WITHIN = 2_000  # bytes of a line's start in which its time stands
_TIME = 27  # bytes of a time


class Follower:
    """Follows one journal. Safe to use from many threads.

    ``file`` is where the SQLite part lies; None keeps it in memory.
    """

    def __init__(self, journal: LogFile, file: Path | None) -> None:
        self.journal = journal
        self._lock = threading.RLock()
        self._rows = RowFile(file)
        self._starts = 0
        self._stamped: Stamp | None = None
        self._marker = 0  # where the SQLite part ends
        self._end = 0  # where whole, checked lines end
        self._torn = False
        self.last_at = ""  # the latest commit time seen, ISO 8601
        self._seen: tuple[int, int, int] | None = NEVER
        self._tail = Tail()
        self._cold: ColdTail | None = None
        self._damage: dict[int, Damage] = {}

    @property
    def file(self) -> Path | None:
        """Where the SQLite part lies."""
        return self._rows.path

    @property
    def end(self) -> int:
        """Where the whole lines that have been seen end."""
        return self._end

    @property
    def identity(self) -> tuple[int, int, int]:
        """What stays the same while places stay right: a count of new beginnings, and the file's own marks.

        The marks are zero where there is no file.
        """
        stamp = self._stamped
        return (self._starts, stamp.device, stamp.inode) if stamp is not None else (self._starts, 0, 0)

    # --- keeping up -----------------------------------------------------------------------------

    def refresh(self) -> None:
        """See what was written since the last look, by whichever process. Costs a `stat` when nothing was."""
        if _seen(self.journal.stat()) == self._seen:
            return
        with self._lock, self.journal.opened() as file:
            state = None if file is None else file.state
            if file is None or not self._same_file(file):
                self._start_over(file)
            elif file.size == self._end and self._seen not in (NEVER, _seen(state)):
                self._torn = False
                self._check(file)  # somebody touched it, and added nothing
            if file is not None and file.size > self._end:
                self._read_on(file)
            self._seen = _seen(state)

    def appended(self, line: Line, commit: Commit, state: os.stat_result) -> None:
        """Take in a line that this process has just appended, under the store's lock."""
        with self._lock:
            end = line.position + len(line.data) + 1
            grown = end - self._marker > LONG_TAIL
            if self._end != line.position or len(line.data) < TAIL_BYTES or grown or self._cold is not None:
                return  # the next refresh reads it
            self.last_at = max(self.last_at, commit.at)
            self._tail.add(extract(line, commit))
            self._end = end
            self._stamped = stamp_of(state, end, line.data[-TAIL_BYTES:] + b"\n")
            if state.st_size == end:
                self._torn, self._seen = False, _seen(state)

    def _same_file(self, file: Snapshot) -> bool:
        if self._stamped is None or file.size < self._end:
            return False
        return file.stamp(self._end) == self._stamped

    def _start_over(self, file: Snapshot | None, *, trusting: bool = True) -> None:
        """Take up the SQLite part where it belongs to this file, else begin an empty one."""
        for _ in range(_TRIES):
            try:
                self._begin(file, trusting=trusting)
            except Moved:
                continue  # another process began it anew at the same time
            except sqlite3.Error as error:
                self._remake(error)
                continue
            return
        self._rows.close()
        self._rows = RowFile(None)
        self._begin(file, trusting=trusting)

    def _begin(self, file: Snapshot | None, *, trusting: bool) -> None:
        self._starts += 1
        self._forget_tail()
        known = self._rows.known()
        marker, fits = known.marker, False
        damage = self._rows.damage()
        if trusting and file is not None and 0 < marker <= file.size:
            fits = file.stamp(marker) == known.stamp
            if fits and known.seen != as_text(_seen(file.state)):  # no process of ours saw it last
                fits = file.unsound(marker) == {item.position for item in damage}
        if not fits:
            if marker:
                log.info("%s is not what its row index knows; that is built anew", self.journal.path)
                self._rows.clear()
            marker, damage = 0, []
        self._marker = self._end = marker
        self._stamped = known.stamp if fits else None
        self._torn = False
        self.last_at = known.last_at if fits else ""
        self._damage = {item.position: item for item in damage}

    def _remake(self, error: Exception) -> None:
        log.warning("the row index of %s failed (%s); it is built anew", self.journal.path, error)
        locked = isinstance(error, sqlite3.OperationalError)
        self._rows.close()
        self._rows = RowFile(None) if locked else self._rows.remake()
        self._seen, self._stamped = NEVER, None

    def _check(self, file: Snapshot) -> None:
        if file.unsound(self._end) != self._damage.keys():
            self._start_over(file, trusting=False)

    def check(self) -> None:
        """Look at every line again: what was written well may have been damaged since."""
        self.refresh()
        with self._lock, self.journal.opened() as file:
            if file is not None and self._same_file(file):
                self._check(file)
            self._seen = NEVER
        self.refresh()

    def _forget_tail(self) -> None:
        self._tail = Tail()
        self._cold = None

    def _read_on(self, file: Snapshot) -> None:
        """Take in the lines between what was seen and the end of the file."""
        start = rest = self._end
        size = file.size
        long = size - self._marker > LONG_TAIL
        torn: Damage | None = None
        for piece, lines, rest in self._pieces(file, start, size):
            for line in lines:
                if long and is_whole(line) and (at := _time_of(line)):
                    self.last_at, torn = max(self.last_at, at), None
                    continue
                entry = read_line(line)
                torn = entry if isinstance(entry, Damage) else None
                if isinstance(entry, Damage):
                    self._damage[line.position] = entry
                elif isinstance(entry, Commit):
                    self.last_at = max(self.last_at, entry.at)
                    if not long:
                        self._tail.add(extract(line, entry))
            if long:
                self._search_as_bytes(file, rest - len(piece), piece)
        self._torn = rest < size or torn is not None
        if torn is not None:  # the last line: for the next writer to set aside
            del self._damage[torn.position]
            rest = torn.position
        self._end = rest
        self._stamped = file.stamp(rest)

    @staticmethod
    def _pieces(file: Snapshot, start: int, end: int) -> Iterator[tuple[bytes, list[Line], int]]:
        """Yield bytes of whole lines, the lines, and where they end, about `LONG_TAIL` at a time."""
        size = LONG_TAIL
        while start < end:
            data = file.read(start, min(end, start + size))
            lines, rest = lines_of(data, start)
            if rest > start:
                yield data[: rest - start], lines, rest
                start = rest
            elif start + size >= end:
                return
            else:
                size *= 4  # a long line

    def _search_as_bytes(self, file: Snapshot, start: int, data: bytes) -> None:
        self._tail = Tail()
        if self._cold is None or self._cold.end != start:
            known = file.read(self._marker, start)
            self._cold = ColdTail(self._marker, known)
        self._cold.extend(data)

    def lines(self, start: int = 0) -> Iterator[Line]:
        """Yield the whole lines of the journal from a position on, reading a piece at a time."""
        with self.journal.opened() as file:
            if file is not None:
                for _, lines, _ in self._pieces(file, start, self._end):
                    yield from lines

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
                f"{len(damage)} line(s) of {self.journal.path} can't be read (the first at byte "
                f"{damage[0].position}: {damage[0].why}). Nothing was written. `rawthink doctor --fix` sets "
                f"them aside in a file of their own and keeps the rest"
            )


def _seen(state: os.stat_result | None) -> tuple[int, int, int] | None:
    return None if state is None else (state.st_ino, state.st_size, state.st_mtime_ns)


def as_text(seen: tuple[int, int, int] | None) -> str:
    """Return in one word how a journal looks."""
    return "|".join(map(str, seen or ()))


def _time_of(line: Line) -> str:
    """Return the time of a whole line's commit without reading the line; empty where that can't be done."""
    at = line.data.find(_AT, 0, _AT_WITHIN) + len(_AT)
    found = line.data[at : at + _TIME]
    return found.decode("ascii", "replace") if at >= len(_AT) and found[-1:] == b"Z" else ""
