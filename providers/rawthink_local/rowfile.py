"""The SQLite part of the row index: what is known of the journal up to a marker.

One file in the user's cache folder, shared by the processes of this machine, without any text in it. It is
derived: one that is damaged, of another format or of another journal is emptied and filled anew; where there
is no place for it, it lives in memory.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rawthink_core.errors import BackendError
from rawthink_local.files import make_folder
from rawthink_local.lines import Damage, Moved, Stamp
from rawthink_local.questions import Spot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from rawthink_local.questions import Extract

log = logging.getLogger("rawthink.local")

FORMAT = 2
BUSY_SECONDS = 2.0  # that another process may hold the file
_AT_ONCE = 400  # keys a statement

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entry
    (key INT, position INT, length INT, line INT, PRIMARY KEY (key, position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS born (space INT, at INT, item TEXT, PRIMARY KEY (space, at, item)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seat (session INT PRIMARY KEY, ordinal INT);
CREATE TABLE IF NOT EXISTS ended
    (item INT, erased INT, position INT, length INT, line INT, PRIMARY KEY (item, position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS damage (position INT PRIMARY KEY, length INT, why TEXT);
"""
_ENDED = "SELECT DISTINCT item FROM ended WHERE position < ?"
_TABLES = ("entry", "born", "seat", "ended", "damage", "meta")


class Known(NamedTuple):
    """What a row file knows: the journal up to ``marker``, whose place has a stamp."""

    marker: int
    stamp: Stamp | None
    last_at: str  # the latest commit time
    seen: str  # how the journal looked when it was last seen


class RowFile:
    """Rows of the index in SQLite. Not safe to share between threads without a lock of the owner's.

    Another process may empty the file and fill it from another journal. Whoever asks on, without `known` in
    between, gets `Moved`, never rows of the other journal.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._db = _open(path)
        self._epoch = ""

    def close(self) -> None:
        """Close the file. May be called again."""
        self._db.close()

    def remake(self) -> RowFile:
        """Return an empty one in place of this one, which failed: in its file, or in memory."""
        self._db.close()
        if self.path is not None:
            delete(self.path)
        return RowFile(self.path)

    # --- where it stands ------------------------------------------------------------------------

    def known(self) -> Known:
        """Return what is known, and answer from this on."""
        with self._transaction("DEFERRED"):
            self._epoch = self._meta("epoch")
            marker, stamp = self._meta("marker"), self._meta("stamp")
            known = Known(int(marker or 0), None, self._meta("last"), self._meta("seen"))
        if not marker:
            return known
        device, inode, tail = stamp.split("|")
        return known._replace(stamp=Stamp(int(device), int(inode), tail))

    def see(self, seen: str) -> None:
        """Note how the journal looks: while it looks so, nobody touched it."""
        with self._changed():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('seen', ?)", (seen,))

    def _meta(self, name: str) -> str:
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def clear(self) -> None:
        """Forget everything."""
        with self._transaction("IMMEDIATE"):
            for table in _TABLES:
                self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - our own table names
            self._epoch = secrets.token_hex(8)
            self._db.execute("INSERT INTO meta VALUES ('epoch', ?)", (self._epoch,))

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        self._db.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Read, then look whether the file still holds what `known` saw. Raises Moved."""
        yield
        self._same_epoch()

    @contextmanager
    def _changed(self) -> Iterator[None]:
        """Write, if the file still holds what `known` saw. Raises Moved."""
        with self._transaction("IMMEDIATE"):
            self._same_epoch()
            yield

    def _same_epoch(self) -> None:
        if self._meta("epoch") != self._epoch:
            raise Moved

    # --- answers --------------------------------------------------------------------------------

    def find(self, keys: Sequence[int], before: int) -> list[tuple[int, Spot]]:
        """Return the spots of some keys that lie before a position."""
        return self._spots("entry", "key", keys, before)

    def _spots(self, table: str, column: str, keys: Sequence[int], before: int) -> list[tuple[int, Spot]]:
        found: list[tuple[int, Spot]] = []
        with self._asked():
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                rows = self._db.execute(_select(table, column, len(some)), (*some, before))
                found += [(key, Spot(position, length, line)) for key, position, length, line in rows]
        return found

    def ended(self, items: Sequence[int], before: int) -> list[tuple[int, Spot]]:
        """Return the rows before a position that end some items, and all items that two rows end."""
        twice = "SELECT item FROM ended WHERE position < ? GROUP BY item HAVING count(*) > 1"
        with self._asked():
            doubled = [item for (item,) in self._db.execute(twice, (before,))]
        return self._spots("ended", "item", list({*items, *doubled}), before)

    def ended_items(self, before: int) -> set[int]:
        """Return the keys of all items that a row before a position ends."""
        with self._asked():
            return {item for (item,) in self._db.execute(_ENDED, (before,))}

    def erased(self, before: int) -> list[tuple[int, Spot]]:
        """Return the rows before a position that say of items that they were erased."""
        marks = "SELECT item, position, length, line FROM ended WHERE erased AND position < ?"
        with self._asked():
            return [(item, Spot(*spot)) for item, *spot in self._db.execute(marks, (before,))]

    def last_ordinal(self, session: int) -> int:
        """Return the highest ordinal of a session, -1 where there is none."""
        with self._asked():
            row = self._db.execute("SELECT ordinal FROM seat WHERE session = ?", (session,)).fetchone()
        return int(row[0]) if row else -1

    def born_after(self, space: int, at: int, item: str, limit: int) -> list[tuple[int, str]]:
        """Return the next items of a space in the order of (recorded at, id)."""
        statement = (
            "SELECT at, item FROM born WHERE space = ? AND (at, item) > (?, ?) ORDER BY at, item LIMIT ?"
        )
        with self._asked():
            return [(at, item) for at, item in self._db.execute(statement, (space, at, item, limit))]

    def born_count(self) -> int:
        """Return the number of items of all spaces."""
        with self._asked():
            (count,) = self._db.execute("SELECT count(*) FROM born").fetchone()
        return int(count)

    def damage(self) -> list[Damage]:
        """Return the damaged lines before the marker."""
        with self._asked():
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

        Another process may have been faster: then nothing is added. Raises Moved.
        """
        entries = sorted(entry for found in extracts for entry in found.entries)
        with self._changed():
            marker = int(self._meta("marker") or 0)
            if marker != start:
                return marker
            many = self._db.executemany
            many("INSERT OR IGNORE INTO entry VALUES (?, ?, ?, ?)", ((key, *spot) for key, spot in entries))
            many("INSERT OR IGNORE INTO born VALUES (?, ?, ?)", (b for found in extracts for b in found.born))
            many(
                "INSERT OR IGNORE INTO ended VALUES (?, ?, ?, ?, ?)",
                ((item, erased, *spot) for found in extracts for item, erased, spot in found.ends),
            )
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
                "stamp": stamp.text,
                "last": max(last_at, self._meta("last")),
            }
            many("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())
        return end


@lru_cache(maxsize=64)
def _select(table: str, column: str, keys: int) -> str:
    marks = ",".join("?" * keys)
    return (
        f"SELECT {column}, position, length, line FROM {table} WHERE {column} IN ({marks}) AND position < ?"  # noqa: S608 - only our own names, and marks
    )


def delete(path: Path) -> None:
    """Delete a row file, as far as that can be done."""
    for suffix in ("", "-wal", "-shm"):
        try:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        except OSError as error:
            log.info("the row index %s can't be deleted: %s", path, error)


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
                delete(path)
            except (OSError, BackendError) as error:
                log.warning("no place for a row index at %s (%s); it is kept in memory", path, error)
                break
    return _prepared(":memory:")


def _prepared(name: str) -> sqlite3.Connection:
    db = sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA cache_size = -16384")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version not in (0, FORMAT):
            raise sqlite3.DatabaseError(f"it has format {version}, this version makes {FORMAT}")
        if version == 0:
            db.executescript(_SCHEMA)
            db.execute("INSERT OR IGNORE INTO meta VALUES ('epoch', ?)", (secrets.token_hex(8),))
            db.execute(f"PRAGMA user_version = {FORMAT}")
    except sqlite3.Error:
        db.close()
        raise
    return db
