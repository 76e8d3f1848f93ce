"""The row index of one log: from a question to the places of rows in it, at any size.

Two parts answer every question together: a SQLite file for the journal up to a marker (`rowfile`), and the
*tail* after it (`tail`). A short tail is parsed as it grows, so that a commit costs no write here; a long one
is searched as bytes. A background thread moves the marker on. All of it is derived: whatever is wrong with
it, it is built anew.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rawthink_core.commits import Commit, encode
from rawthink_core.errors import RawThinkError
from rawthink_core.identity import entity_id
from rawthink_core.questions import key
from rawthink_local.following import NEVER, Follower, as_text
from rawthink_local.lines import Line, Moved, lines_of, read_line
from rawthink_local.questions import Spot, extract
from rawthink_local.tail import Tail

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from rawthink_local.logfile import LogFile
    from rawthink_local.rowfile import Known, RowFile

log = logging.getLogger("rawthink.local")

FLUSH_AT = 512 * 2**10  # bytes of tail at which the marker is moved on
OVERLAY = 1 << 60  # positions from here on are in the overlay: a commit that is not in the journal (yet)
_CHUNK = 256 * 2**10  # bytes of journal indexed in one go while a store is taken in
_SMALL_CHUNK = 16 * 2**10  # the same while somebody writes: who waits for it waits a few milliseconds
_BREATH = 0.005  # seconds between small pieces


class RowIndex(Follower):
    """Answers questions about one log. Safe to use from many threads.

    ``file`` is where the SQLite part lies; None keeps it in memory. Where the journal or the SQLite part
    turns out to be another than it was, questions raise `Moved`: `refresh`, then ask again.
    """

    def __init__(self, journal: LogFile, file: Path | None) -> None:
        super().__init__(journal, file)
        self._overlay = b""
        self._over = Tail()
        self._builder: threading.Thread | None = None
        self._closing = threading.Event()

    # --- the overlay ----------------------------------------------------------------------------

    def lay_over(self, commit: Commit | None) -> None:
        """Read on as if ``commit`` stood at the end of the journal; None ends that."""
        data = b"" if commit is None else encode(commit).rstrip(b"\n")
        over = Tail()
        if commit is not None:
            over.add(extract(Line(OVERLAY, data), commit))
        with self._lock:
            self._overlay, self._over = data, over
            self._starts += 1

    @property
    def overlay_line(self) -> bytes:
        """The line of the commit that is laid over, without its line break; empty where there is none."""
        return self._overlay

    def overlaid(self, position: int, length: int) -> bytes:
        """Return bytes of the overlay."""
        return self._overlay[position - OVERLAY : position - OVERLAY + length]

    # --- answering ------------------------------------------------------------------------------

    @contextmanager
    def _asked(self) -> Iterator[RowFile]:
        """Ask the SQLite part; where it fails or was given to another journal, begin anew. Raises Moved."""
        with self._lock:
            try:
                yield self._rows
            except Moved:
                self._seen, self._stamped = NEVER, None
                raise
            except sqlite3.Error as error:
                if self._closing.is_set():
                    raise
                self._remake(error)
                raise Moved from error

    def find(self, kind: str, space: str, *parts: object) -> list[Spot]:
        """Return the places of the rows that may answer a question (see `questions`)."""
        return self.find_all(kind, space, [parts])[0]

    def find_all(self, kind: str, space: str, asked: Sequence[tuple[object, ...]]) -> list[list[Spot]]:
        """Return the places that may answer each of many questions of one kind: cheaper than one by one."""
        keys = [key(kind, space, *parts) for parts in asked]
        found: dict[int, list[Spot]] = {question: [] for question in keys}
        with self._asked() as rows:
            for question, spot in rows.find(list(found), self._marker):
                found[question].append(spot)
            for question in found:
                found[question] += self._tail.find(question, self._marker)
                found[question] += self._over.find(question, OVERLAY)
            if self._cold is not None:
                for question, parts in zip(keys, asked, strict=True):
                    named = (entity_id(space, str(parts[0])),) if kind == "name" else ()  # as bytes have it
                    found[question].extend(self._cold.find(question, self._marker, kind, (*parts, *named)))
        return [found[question] for question in keys]

    def last_ordinal(self, space: str, session: str) -> int:
        """Return the highest ordinal in a session, -1 where there is none."""
        question = key("session", space, session)
        with self._asked() as rows:
            last = [part.last_ordinal(question) for part in (rows, self._tail, self._over)]
            if self._cold is not None:
                last.append(self._cold.last_ordinal(question, self._marker, session))
        return max(last)

    def born_after(self, space: str, at: int, item: str, limit: int) -> list[tuple[int, str]]:
        """Return the next items of a space in the order of (recorded at, id), after the given pair."""
        where = key("space", space)
        with self._asked() as rows:
            found = set(rows.born_after(where, at, item, limit))
            late = [*self._tail.born, *self._over.born]
            if self._cold is not None:
                late += self._cold.born(self._marker)
        found |= {(a, i) for s, a, i in late if s == where and (a, i) > (at, item)}
        return sorted(found)[:limit]

    def born_count(self) -> int:
        """Return how many items of all spaces have come to be, as far as the marker and the tail know."""
        with self._asked() as rows:
            return rows.born_count() + len(self._tail.born) + len(self._over.born)

    def ends(self, others: Collection[int] = ()) -> dict[int, set[Spot]] | None:
        """Return the rows that end an item, by the item's key: of ``others``, and of all that two rows end.

        Some that one row ends may be among them. None while that isn't known yet.
        """
        with self._asked() as rows:
            if self._cold is not None:
                return None
            late = [(end.item, end.spot) for end in self._tail.ends if end.spot.position >= self._marker]
            found: dict[int, set[Spot]] = {}
            asked = [*others, *(item for item, _ in late)]
            for item, spot in (*rows.ended(asked, self._marker), *late):
                found.setdefault(item, set()).add(spot)
        return found

    def ended(self) -> set[int]:
        """Return the keys of all items that a row ends, as far as the marker and the tail know."""
        with self._asked() as rows:
            return rows.ended_items(self._marker) | {end.item for end in self._tail.ends}

    def erased(self) -> dict[int, set[Spot]] | None:
        """Return the rows that mark items as erased, by the item's key; None while that isn't known yet."""
        with self._asked() as rows:
            if self._cold is not None:
                return None
            marks: dict[int, set[Spot]] = {}
            late = ((end.item, end.spot) for end in self._tail.ends if end.erased)
            for item, spot in (*rows.erased(self._marker), *late):
                marks.setdefault(item, set()).add(spot)
        return marks

    def spots_of(self, keys: Collection[int]) -> list[tuple[int, Spot]] | None:
        """Return the rows that answer some questions, given their keys; None while that isn't known yet."""
        with self._asked() as rows:
            if self._cold is not None:
                return None
            found = rows.find(list(keys), self._marker)
            return found + [(item, spot) for item in keys for spot in self._tail.find(item, self._marker)]

    # --- moving the marker on -------------------------------------------------------------------

    def refresh(self) -> None:
        """See what was written since the last look, by whichever process. Costs a `stat` when nothing was."""
        super().refresh()
        self._maybe_build()

    def _maybe_build(self) -> None:
        if self._end - self._marker <= FLUSH_AT or (self._builder is not None and self._builder.is_alive()):
            return
        self._builder = threading.Thread(target=self._build, name="rawthink-rows", daemon=True)
        self._builder.start()

    def _build(self) -> None:
        try:
            while not self._closing.is_set() and self._advance():
                if self._cold is None:
                    self._closing.wait(_BREATH)
        except (sqlite3.Error, OSError, RawThinkError, Moved) as error:
            if not self._closing.is_set():
                log.warning("the row index of %s can't be built now: %s", self.journal.path, error)

    def catch_up(self) -> None:
        """Move the marker to the end of the journal now. Costs some 20 µs an item."""
        while not self._closing.is_set() and self._advance():
            pass

    def _advance(self) -> bool:
        """Move the marker over the next piece of the journal; tell whether there is more to do."""
        with self._lock:
            start, end, starts, stamped = self._marker, self._end, self._starts, self._stamped
        if start >= end or stamped is None:
            return False
        with self.journal.opened() as file:
            if file is None:
                return False
            size = _CHUNK if self._cold is not None else min(_CHUNK, _SMALL_CHUNK)
            lines, rest = lines_of(file.read(start, min(end, start + size)), start)
            if rest == start:
                lines, rest = lines_of(file.read(start, end), start)  # a long line
            stamp, size = file.stamp(rest), file.size
        read = [(line, entry) for line in lines if isinstance(entry := read_line(line), Commit)]
        extracts = [extract(line, commit) for line, commit in read]
        last_at = max((commit.at for _, commit in read), default="")
        with self._lock:
            replaced = self._starts != starts or stamp[:2] != stamped[:2] or size < end
            if self._closing.is_set() or self._marker != start or replaced or rest <= start:
                return False
            damage = [item for item in self._damage.values() if start <= item.position < rest]
            with self._asked() as rows:
                marker = rows.add(start, rest, stamp, last_at, extracts, damage)
                if marker != rest and not self._belongs(rows.known()):
                    raise Moved  # another process filled it from another journal
            if not start < marker <= self._end:
                return False
            self._marker = marker
            if marker >= self._end:
                self._forget_tail()
            return marker < self._end

    def _belongs(self, known: Known) -> bool:
        with self.journal.opened() as file:
            return file is not None and file.stamp(known.marker) == known.stamp

    def rebuild(self) -> None:
        """Build the SQLite part anew."""
        with self._lock:
            self._start_over(None)
            self._seen = NEVER
        self.refresh()
        self.catch_up()

    def close(self) -> None:
        """Stop the background work and close the file. May be called again."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._builder is not None:
            self._builder.join()
        with self._lock:
            self._forget_tail()
            try:
                if self._seen not in (None, NEVER) and self._marker:
                    self._rows.see(as_text(self._seen))
            except (sqlite3.Error, Moved) as error:
                log.debug("the row index of %s is checked at the next open: %s", self.journal.path, error)
            self._rows.close()
