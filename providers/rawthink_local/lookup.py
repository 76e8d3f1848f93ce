"""The row index: from a question to the places of rows in the journal, at any size of store.

Two parts answer every question together: a SQLite file in the user's cache folder for the journal up to
a marker, and the *tail* after the marker. A short tail is parsed into a dictionary as it grows, so that a
commit costs no SQLite write; a long one (a fresh clone, a cleared cache) is searched as bytes. A
background thread moves the marker on. All of it is derived: whatever is wrong with it, it is built anew.
"""

from __future__ import annotations

import logging
import mmap
import sqlite3
import threading
from typing import TYPE_CHECKING

from rawthink_core.commits import Commit, encode
from rawthink_core.errors import StoreDamaged
from rawthink_local.files import make_folder
from rawthink_local.journal import Damage, Journal, Line, Stamp, lines_of, read_line
from rawthink_local.questions import Entry, Extract, Spot, extract, key, needles

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger("rawthink.local")

FORMAT = 1
LONG_TAIL = 4 * 2**20  # bytes above which a tail is searched, not parsed
FLUSH_AT = 512 * 2**10  # bytes of tail at which the marker is moved on
OVERLAY = 1 << 60  # positions from here on are in the overlay: a commit that is not in the journal (yet)
_CHUNK = 256 * 2**10

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entry (key INT, position INT, length INT, line INT, PRIMARY KEY (key, position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS born (space INT, at INT, item TEXT, PRIMARY KEY (space, at, item)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seat (session INT PRIMARY KEY, ordinal INT);
CREATE TABLE IF NOT EXISTS damage (position INT PRIMARY KEY, length INT, why TEXT);
"""
_TABLES = ("entry", "born", "seat", "damage")


class RowIndex:
    """Answers questions about a journal. Safe to use from many threads.

    ``file`` is where the SQLite part lies; None, or a place that can't be written, keeps it in memory.
    """

    def __init__(self, journal: Journal, file: Path | None) -> None:
        self._journal = journal
        self.file = file
        self._lock = threading.RLock()
        self._db = _connect(file)
        self._stamped: Stamp | None = None
        self._marker = 0  # where the SQLite part ends
        self._end = 0  # where whole, checked lines end
        self.last_at = ""  # the latest commit time seen, ISO 8601
        self._torn = False
        self._seen: tuple[int, int, int] | None = None
        self._tail: dict[int, list[Spot]] = {}
        self._tail_born: list[tuple[int, int, str]] = []
        self._tail_seats: dict[int, int] = {}
        self._damage: dict[int, Damage] = {}
        self._cold: mmap.mmap | None = None
        self._overlay = b""
        self._over = Extract([], [], [])
        self._builder: threading.Thread | None = None
        self._closing = threading.Event()

    # --- keeping up -----------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """Where the whole lines that have been seen end."""
        return self._end

    def refresh(self) -> None:
        """See what was written since the last look, by whichever process. Costs a `stat` when nothing was."""
        state = self._journal.stat()
        seen = None if state is None else (state.st_ino, state.st_size, state.st_mtime_ns)
        if seen == self._seen:
            return
        with self._lock:
            if state is None or not self._same_file(state):
                self._start_over(state)
            if state is not None and state.st_size > self._end:
                self._read_on(state.st_size)
            self._seen = seen
        if self._end - self._marker > FLUSH_AT:
            self._build_in_background()

    def _same_file(self, state: os.stat_result) -> bool:
        if self._stamped is None or state.st_size < self._end:
            return False
        return self._journal.stamp(self._end) == self._stamped

    def _start_over(self, state: os.stat_result | None) -> None:
        """Take up the SQLite part where it belongs to this file, else begin an empty one."""
        self._forget_tail()
        marker, stamp = self._stored_marker()
        fits = state is not None and 0 < marker <= state.st_size and self._journal.stamp(marker) == stamp
        if not fits:
            if marker:
                log.info("the journal %s was replaced; its row index is built anew", self._journal.path)
            with _transaction(self._db):
                for table in _TABLES:
                    self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - our own table names
                self._db.execute("DELETE FROM meta")
            marker = 0
        self._marker = self._end = marker
        self._stamped = stamp if fits else None
        self._torn = False
        self.last_at = self._stored("last") if fits else ""
        self._damage = {row[0]: Damage(*row) for row in self._db.execute("SELECT position, length, why FROM damage")}

    def _stored(self, name: str) -> str:
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def _stored_marker(self) -> tuple[int, Stamp | None]:
        stored = dict(self._db.execute("SELECT name, value FROM meta WHERE name IN ('marker', 'stamp')"))
        if "marker" not in stored:
            return 0, None
        device, inode, tail = str(stored["stamp"]).split("|")
        return int(stored["marker"]), Stamp(int(device), int(inode), tail)

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
            skim = long and number < len(lines) - 1 and _whole(line)
            entry = None if skim else read_line(line)
            if isinstance(entry, Damage):
                if number == len(lines) - 1:  # the last line: torn, for the next writer to set aside
                    self._torn = True
                    rest = line.position
                    break
                self._damage[line.position] = entry
            elif isinstance(entry, Commit):
                self.last_at = max(self.last_at, entry.at)
                if not long:
                    self._add_to_tail(extract(line, entry))
        self._end = rest
        self._stamped = self._journal.stamp(rest)
        if long:
            self._map(rest)

    def _map(self, end: int) -> None:
        self._forget_tail()
        with self._journal.path.open("rb") as file:
            self._cold = mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ)

    def _add_to_tail(self, found: Extract) -> None:
        for question, spot in found.entries:
            self._tail.setdefault(question, []).append(spot)
        self._tail_born.extend(found.born)
        for session, ordinal in found.seats:
            self._tail_seats[session] = max(ordinal, self._tail_seats.get(session, -1))

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

    # --- writers --------------------------------------------------------------------------------

    @property
    def torn(self) -> bool:
        """Whether the journal ends in the part of a line."""
        return self._torn

    def damage(self) -> list[Damage]:
        """Return the damaged lines, the torn tail excluded."""
        with self._lock:
            return sorted(self._damage.values(), key=lambda d: d.position)

    def refuse_damage(self) -> None:
        """Raise StoreDamaged where a line can't be read: nothing may be written beside it."""
        if damage := self.damage():
            raise StoreDamaged(
                f"{len(damage)} line(s) of {self._journal.path} can't be read (the first at byte "
                f"{damage[0].position}: {damage[0].why}). Nothing was written. `rawthink doctor --fix` sets them "
                f"aside in a file of their own and keeps the rest"
            )

    # --- answering ------------------------------------------------------------------------------

    def find(self, kind: str, space: str, *parts: object) -> list[Spot]:
        """Return the places of the rows that may answer a question (see `questions`)."""
        question = key(kind, space, *(parts[:1] if kind == "name" else parts))
        with self._lock:
            found = [
                Spot(*row)
                for row in self._db.execute(
                    "SELECT position, length, line FROM entry WHERE key = ? AND position < ?",
                    (question, self._marker),
                )
            ]
            found += (spot for spot in self._tail.get(question, ()) if spot.position >= self._marker)
            if self._cold is not None:
                found += self._search_cold(question, needles(kind, *parts))
            if self._overlay:
                found += (spot for entry, spot in self._over.entries if entry == question)
            return found

    def _search_cold(self, question: int, wanted: list[bytes]) -> Iterator[Spot]:
        assert self._cold is not None  # noqa: S101 - the caller looked
        for line in {line.position: line for needle in wanted for line in self._lines_with(needle)}.values():
            commit = read_line(line)
            if isinstance(commit, Commit):
                yield from (spot for entry, spot in extract(line, commit).entries if entry == question)

    def _lines_with(self, needle: bytes) -> Iterator[Line]:
        assert self._cold is not None  # noqa: S101 - the caller looked
        at = self._cold.find(needle, self._marker)
        while at >= 0:
            begin = self._cold.rfind(b"\n", 0, at) + 1
            end = self._cold.find(b"\n", at)
            end = len(self._cold) if end < 0 else end
            yield Line(begin, self._cold[begin:end])
            at = self._cold.find(needle, end)

    def last_ordinal(self, space: str, session: str) -> int:
        """Return the highest ordinal in a session, -1 where there is none."""
        question = key("session", space, session)
        with self._lock:
            row = self._db.execute("SELECT ordinal FROM seat WHERE session = ?", (question,)).fetchone()
            last = max(row[0] if row else -1, self._tail_seats.get(question, -1))
            if self._cold is not None:
                for line in self._lines_with(needles("session", session)[0]):
                    if isinstance(commit := read_line(line), Commit):
                        seats = extract(line, commit).seats
                        last = max([last, *(ordinal for where, ordinal in seats if where == question)])
            return last

    def born_after(self, space: str, at: int, item: str, limit: int) -> list[tuple[int, str]]:
        """Return the next items of a space in the order of (recorded at, id), after the given pair."""
        where = key("space", space)
        with self._lock:
            found = self._db.execute(
                "SELECT at, item FROM born WHERE space = ? AND (at, item) > (?, ?) ORDER BY at, item LIMIT ?",
                (where, at, item, limit),
            ).fetchall()
            late = {(a, i) for s, a, i in self._tail_born if s == where and (a, i) > (at, item)}
            late |= {(a, i) for s, a, i in self._over.born if s == where and (a, i) > (at, item)}
            if self._cold is not None:
                late |= set(self._born_cold(where, at, item))
            return sorted({*map(tuple, found), *late})[:limit]

    def _born_cold(self, where: int, at: int, item: str) -> Iterator[tuple[int, str]]:
        assert self._cold is not None  # noqa: S101 - the caller looked
        for line in lines_of(self._cold[self._marker :], self._marker)[0]:
            if isinstance(commit := read_line(line), Commit):
                yield from ((a, i) for s, a, i in extract(line, commit).born if s == where and (a, i) > (at, item))

    def born_count(self) -> int:
        """Return how many items of all spaces have come to be, as far as the marker knows."""
        with self._lock:
            (count,) = self._db.execute("SELECT count(*) FROM born").fetchone()
            return int(count) + len(self._tail_born) + len(self._over.born)

    def lines(self, start: int = 0) -> Iterator[Line]:
        """Yield the whole lines of the journal from a position on, reading a piece at a time."""
        while start < self._end:
            piece = self._journal.read(start, min(self._end, start + 2 * LONG_TAIL))
            lines, rest = lines_of(piece, start)
            if not lines:  # a line longer than the piece
                lines, rest = lines_of(self._journal.read(start, self._end), start)
            yield from lines
            start = rest

    # --- moving the marker on -------------------------------------------------------------------

    def _build_in_background(self) -> None:
        if self._builder is not None and self._builder.is_alive():
            return
        self._builder = threading.Thread(target=self._build, name="rawthink-rows", daemon=True)
        self._builder.start()

    def _build(self) -> None:
        try:
            while not self._closing.is_set() and self._advance():
                pass
        except (sqlite3.Error, OSError) as error:
            if not self._closing.is_set():
                log.warning("the row index of %s can't be built now: %s", self._journal.path, error)

    def catch_up(self) -> None:
        """Move the marker to the end of the journal now."""
        while self._advance():
            pass

    def _advance(self) -> bool:
        """Index the next piece of the journal in one transaction; tell whether there was one."""
        with self._lock:
            start, end = self._marker, self._end
        if start >= end:
            return False
        lines, rest = lines_of(self._journal.read(start, min(end, start + _CHUNK)), start)
        if not lines:
            lines, rest = lines_of(self._journal.read(start, end), start)
        read = [(line, entry) for line in lines if isinstance(entry := read_line(line), Commit)]
        extracts = [extract(line, commit) for line, commit in read]
        entries = sorted(entry for found in extracts for entry in found.entries)
        stamp = self._journal.stamp(rest)
        with self._lock:
            if self._closing.is_set():
                return False
            with _transaction(self._db):
                stored, _ = self._stored_marker()
                if stored != start or self._marker != start:
                    return self._follow(stored)  # another process was faster, or the file was replaced
                self._db.executemany(
                    "INSERT OR IGNORE INTO entry VALUES (?, ?, ?, ?)", ((k, *spot) for k, spot in entries)
                )
                self._db.executemany("INSERT OR IGNORE INTO born VALUES (?, ?, ?)", [b for f in extracts for b in f.born])
                self._db.executemany(
                    "INSERT INTO seat VALUES (?, ?) ON CONFLICT DO UPDATE SET ordinal = max(ordinal, excluded.ordinal)",
                    [s for f in extracts for s in f.seats],
                )
                damage = [d for d in self._damage.values() if start <= d.position < rest]
                self._db.executemany(
                    "INSERT OR REPLACE INTO damage VALUES (?, ?, ?)", [(d.position, d.length, d.why) for d in damage]
                )
                last = max([self._stored("last"), *(commit.at for _, commit in read)])
                self._db.executemany(
                    "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                    [("marker", rest), ("stamp", f"{stamp.device}|{stamp.inode}|{stamp.tail}"), ("last", last)],
                )
                self.last_at = max(self.last_at, last)
            self._moved(rest)
        return True

    def _follow(self, stored: int) -> bool:
        if self._marker < stored <= self._end:
            self._moved(stored)
            return True
        return False

    def _moved(self, marker: int) -> None:
        self._marker = marker
        if marker >= self._end:
            self._forget_tail()

    def rebuild(self) -> None:
        """Build the SQLite part anew."""
        with self._lock:
            with _transaction(self._db):
                self._db.execute("DELETE FROM meta")
            self._seen = self._stamped = None
        self.refresh()
        self.catch_up()

    def close(self) -> None:
        """Stop the background work and close the file. May be called again."""
        with self._lock:
            self._closing.set()
        if self._builder is not None:
            self._builder.join()
        with self._lock:
            self._forget_tail()
            self._db.close()


def _whole(line: Line) -> bool:
    """Tell whether a line's checksum is right, without reading what it says."""
    import zlib  # noqa: PLC0415 - one use

    data = line.data
    try:
        return data[-20:-10] == b',"crc32":"' and zlib.crc32(data[:-20]) == int(data[-10:-2], 16)
    except ValueError:
        return False


class _transaction:  # noqa: N801 - reads like the keyword that it stands for
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")


def _connect(file: Path | None) -> sqlite3.Connection:
    """Open the SQLite part; an unreadable one is deleted, an unwritable place means memory."""
    if file is None:
        return _prepared(":memory:")
    for attempt in range(2):
        try:
            make_folder(file.parent)
            return _prepared(str(file))
        except sqlite3.DatabaseError as error:
            if attempt == 0 and not isinstance(error, sqlite3.OperationalError):
                log.info("the row index %s is damaged (%s); it is built anew", file, error)
                for suffix in ("", "-wal", "-shm"):
                    file.with_name(file.name + suffix).unlink(missing_ok=True)
                continue
            break
        except OSError:
            break
    log.warning("no place for a row index at %s; it is kept in memory and built at each start", file)
    return _prepared(":memory:")


def _prepared(name: str) -> sqlite3.Connection:
    db = sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=2.0)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA cache_size = -16384")
        db.execute("PRAGMA secure_delete = OFF")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version not in (0, FORMAT):
            raise sqlite3.DatabaseError(f"row index format {version}")
        db.executescript(_SCHEMA)
        db.execute(f"PRAGMA user_version = {FORMAT}")
    except sqlite3.Error:
        db.close()
        raise
    return db
