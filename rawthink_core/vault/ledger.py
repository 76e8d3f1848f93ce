"""What of a vault a memory holds already: the hash of each file that was indexed, so that it is not again.

One small SQLite file in the user's cache folder for each vault, store and space. All of it can be derived
again by comparing files with the memory, so it may be deleted at any time, and where it can't be used, it is
done without.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sqlite3
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rawthink_core.vault.folder import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    T = TypeVar("T")

log = logging.getLogger("rawthink.vault")

_FORMAT = 1
_SCHEMA = """
create table if not exists file (
    path text primary key, sha256 text, session text, rules text, problem text,
    inode int, size int, modified int, changed int
) without rowid;
create table if not exists note (name text primary key, value text) without rowid;
"""


class Entry(NamedTuple):
    """A file that is in the memory as it was with this hash. ``problem`` is said again at every run."""

    path: str
    sha256: str
    session: str
    rules: str
    problem: str | None
    mark: Mark | None = None


class Ledger:
    """The entries of one vault in one space of one store. Every call opens the file for itself."""

    def __init__(self, cache: Path, *parts: str) -> None:
        name = hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()
        self.path = cache / "vault" / f"{name}.{_FORMAT}.db"

    @property
    def lock(self) -> Path:
        """The file that is locked while somebody indexes."""
        return self.path.with_suffix(".lock")

    def make_folder(self) -> None:
        """Make the folder of the ledger and of its lock. Raises OSError."""
        for folder in (self.path.parent.parent, self.path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def entries(self) -> dict[str, Entry]:
        """Return every entry by its path."""

        def ask(db: sqlite3.Connection) -> dict[str, Entry]:
            rows = db.execute(
                "select path, sha256, session, rules, problem, inode, size, modified, changed from file"
            )
            return {
                path: Entry(path, sha256, session, rules, problem, Mark(*mark) if None not in mark else None)
                for path, sha256, session, rules, problem, *mark in rows
            }

        return self._do(ask, {})

    def keep(self, entries: Iterable[Entry]) -> None:
        """Write entries, over those of the same paths."""
        rows = [(*entry[:5], *(entry.mark or (None,) * 4)) for entry in entries]
        self._do(
            lambda db: db.executemany("insert or replace into file values (?,?,?,?,?,?,?,?,?)", rows), None
        )

    def drop(self, paths: Iterable[str]) -> None:
        """Take entries out."""
        rows = [(path,) for path in paths]
        self._do(lambda db: db.executemany("delete from file where path = ?", rows), None)

    def clear(self) -> None:
        """Take out every entry and note: they speak of another memory."""
        self._do(lambda db: db.executescript("delete from file; delete from note"), None)

    def notes(self) -> dict[str, str]:
        """Return what was noted, by name."""
        asked = "select name, value from note where value is not null"
        return self._do(lambda db: dict(db.execute(asked).fetchall()), {})

    def set(self, **notes: str | None) -> None:
        """Note something under each name; None takes the note away."""

        def write(db: sqlite3.Connection) -> None:
            db.executemany("insert or replace into note values (?, ?)", notes.items())

        self._do(write, None)

    def _do(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        try:
            self.make_folder()
            with contextlib.closing(self._open()) as db, db:
                return work(db)
        except (sqlite3.Error, OSError) as error:
            log.warning("the list of indexed files in %s can't be used: %s", self.path, error)
            return otherwise

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, or no such place
                raise
            self.path.unlink(missing_ok=True)  # damaged: what it held can be found out again
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        db = sqlite3.connect(self.path, timeout=5)
        try:
            db.execute("pragma synchronous = off")  # a power cut costs what can be derived again
            db.executescript(_SCHEMA)
        except BaseException:
            db.close()
            raise
        return db
