"""The SQLite part of the row index: what is known of the journal up to a marker.

One file in the user's cache folder, shared by the processes of this machine, without any text in it. It is
derived: one that is damaged, of another format or of another journal is emptied and filled anew; where there
is no place for it, it lives in memory.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from rawthink_core.errors import BackendError
from rawthink_local.files import make_folder
from rawthink_local.journal import Damage, Stamp
from rawthink_local.questions import Extract, Spot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

log = logging.getLogger("rawthink.local")

FORMAT = 1
_AT_ONCE = 400  # keys a statement

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entry
    (key INT, position INT, length INT, line INT, PRIMARY KEY (key, position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS born (space INT, at INT, item TEXT, PRIMARY KEY (space, at, item)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seat (session INT PRIMARY KEY, ordinal INT);
CREATE TABLE IF NOT EXISTS damage (position INT PRIMARY KEY, length INT, why TEXT);
"""
_TABLES = ("entry", "born", "seat", "damage", "meta")


class RowFile:
    """Rows of the index in SQLite. Not safe to share between threads without a lock of the owner's."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._db = _open(path)

    def close(self) -> None:
        """Close the file. May be called again."""
        self._db.close()

    # --- where it stands ------------------------------------------------------------------------

    def marker(self) -> tuple[int, Stamp | None]:
        """Return up to where the journal is known, and the stamp of that place."""
        marker, stamp = self._meta("marker"), self._meta("stamp")
        if not marker:
            return 0, None
        device, inode, tail = stamp.split("|")
        return int(marker), Stamp(int(device), int(inode), tail)

    def last_at(self) -> str:
        """Return the latest commit time up to the marker."""
        return self._meta("last")

    def _meta(self, name: str) -> str:
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def clear(self) -> None:
        """Forget everything."""
        with self._transaction():
            for table in _TABLES:
                self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - our own table names

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # --- answers --------------------------------------------------------------------------------

    def find(self, keys: Sequence[int], before: int) -> Iterator[tuple[int, Spot]]:
        """Yield the spots of some keys that lie before a position."""
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            for key, position, length, line in self._db.execute(_select(len(some)), (*some, before)):
                yield key, Spot(position, length, line)

    def last_ordinal(self, session: int) -> int:
        """Return the highest ordinal of a session, -1 where there is none."""
        row = self._db.execute("SELECT ordinal FROM seat WHERE session = ?", (session,)).fetchone()
        return int(row[0]) if row else -1

    def born_after(self, space: int, at: int, item: str, limit: int) -> list[tuple[int, str]]:
        """Return the next items of a space in the order of (recorded at, id)."""
        statement = (
            "SELECT at, item FROM born WHERE space = ? AND (at, item) > (?, ?) ORDER BY at, item LIMIT ?"
        )
        return [(at, item) for at, item in self._db.execute(statement, (space, at, item, limit))]

    def born_count(self) -> int:
        """Return the number of items of all spaces."""
        (count,) = self._db.execute("SELECT count(*) FROM born").fetchone()
        return int(count)

    def damage(self) -> list[Damage]:
        """Return the damaged lines before the marker."""
        return [Damage(*row) for row in self._db.execute("SELECT position, length, why FROM damage")]

    # --- growing --------------------------------------------------------------------------------

    def add(
        self,
        start: int,
        end: int,
        stamp: Stamp,
        last_at: str,
        extracts: Sequence[Extract],
        damage: Iterable[Damage],
    ) -> int:
        """Add what the lines between two positions hold, if ``start`` is the marker; return the marker now.

        Another process may have been faster, or have started over: then nothing is added.
        """
        entries = sorted(entry for found in extracts for entry in found.entries)
        with self._transaction():
            marker, _ = self.marker()
            if marker != start:
                return marker
            many = self._db.executemany
            many("INSERT OR IGNORE INTO entry VALUES (?, ?, ?, ?)", ((key, *spot) for key, spot in entries))
            many("INSERT OR IGNORE INTO born VALUES (?, ?, ?)", (b for found in extracts for b in found.born))
            many(
                "INSERT INTO seat VALUES (?, ?) ON CONFLICT DO UPDATE SET ordinal = max(ordinal, excluded.ordinal)",  # noqa: E501 - one statement
                (seat for found in extracts for seat in found.seats),
            )
            many(
                "INSERT OR REPLACE INTO damage VALUES (?, ?, ?)",
                ((d.position, d.length, d.why) for d in damage),
            )
            meta = {
                "marker": str(end),
                "stamp": f"{stamp.device}|{stamp.inode}|{stamp.tail}",
                "last": max(last_at, self._meta("last")),
            }
            many("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())
        return end


@lru_cache(maxsize=64)
def _select(keys: int) -> str:
    marks = ",".join("?" * keys)
    return f"SELECT key, position, length, line FROM entry WHERE key IN ({marks}) AND position < ?"  # noqa: S608 - only marks


def _open(path: Path | None) -> sqlite3.Connection:
    """Open the file, making or remaking it; in memory where that can't be."""
    if path is not None:
        for attempt in range(2):
            try:
                make_folder(path.parent)
                return _prepared(str(path))
            except sqlite3.DatabaseError as error:
                if attempt or isinstance(error, sqlite3.OperationalError):
                    log.warning("the row index %s can't be used (%s); it is kept in memory", path, error)
                    break
                log.info("the row index %s is damaged (%s); it is built anew", path, error)
                for suffix in ("", "-wal", "-shm"):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
            except (OSError, BackendError) as error:
                log.warning("no place for a row index at %s (%s); it is kept in memory", path, error)
                break
    return _prepared(":memory:")


def _prepared(name: str) -> sqlite3.Connection:
    db = sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=2.0)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA cache_size = -16384")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version not in (0, FORMAT):
            raise sqlite3.DatabaseError(f"it has format {version}, this version makes {FORMAT}")
        db.executescript(_SCHEMA)
        db.execute(f"PRAGMA user_version = {FORMAT}")
    except sqlite3.Error:
        db.close()
        raise
    return db
