"""When items were last read: what decay goes by. Beside the store, best effort, never in anybody's way.

Kept per user and machine (a shared vault does not share what its readers look at), a day an item. A store
that can't be written still reads; losing this file loses nothing but warmth.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from datetime import UTC, date, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime
    from pathlib import Path

log = logging.getLogger("rawthink.activity")
_EPOCH = date(1970, 1, 1)
_AT_ONCE = 500


class Activity:
    """The days of last use. Safe to use from many threads and processes."""

    def __init__(self, file: Path | None) -> None:
        self._lock = threading.Lock()
        self._noted: dict[str, int] = {}
        self._db = _open(file)

    def note(self, ids: Collection[str], now: datetime) -> None:
        """Note that items were read today; each at most once a day."""
        today = (now.astimezone(UTC).date() - _EPOCH).days
        with self._lock:
            fresh = [item for item in ids if self._noted.get(item) != today]
            if not fresh:
                return
            self._noted.update(dict.fromkeys(fresh, today))
            self._write(
                "INSERT INTO used VALUES (?, ?) ON CONFLICT DO UPDATE SET day = max(day, excluded.day)",
                [(item, today) for item in fresh],
            )

    def last_used(self, ids: Collection[str]) -> dict[str, date]:
        """Return the day on which items were last read, where one is known."""
        wanted, found = list(ids), dict[str, date]()
        with self._lock:
            for start in range(0, len(wanted), _AT_ONCE):
                some = wanted[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                try:
                    rows = self._db.execute(f"SELECT item, day FROM used WHERE item IN ({marks})", some)  # noqa: S608 - only marks
                    found.update((item, _EPOCH + timedelta(days=day)) for item, day in rows)
                except sqlite3.Error as error:
                    log.info("activity can't be read: %s", error)
                    break
        return found

    def forget(self, ids: Iterable[str]) -> None:
        """Erase what is known of items."""
        with self._lock:
            gone = list(ids)
            for item in gone:
                self._noted.pop(item, None)
            self._write("DELETE FROM used WHERE item = ?", [(item,) for item in gone])

    def close(self) -> None:
        """Close the file. May be called again."""
        with self._lock:
            self._db.close()

    def _write(self, statement: str, rows: list[tuple[object, ...]]) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(statement, rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            log.info("activity can't be noted: %s", error)
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


def _open(file: Path | None) -> sqlite3.Connection:
    if file is not None:
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _prepared(str(file))
        except (sqlite3.Error, OSError) as error:
            log.info("no place to note activity at %s: %s", file, error)
    return _prepared(":memory:")


def _prepared(name: str) -> sqlite3.Connection:
    db = sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=0.2)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("CREATE TABLE IF NOT EXISTS used (item TEXT PRIMARY KEY, day INT) WITHOUT ROWID")
    except sqlite3.Error:
        db.close()
        raise
    return db
