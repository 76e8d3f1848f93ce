"""The file: its tables, its transactions, and all that is written to it. For one thread."""

from __future__ import annotations

import math
import os
import sqlite3
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import orjson

from rawthink_core.activity import Activity
from rawthink_core.clock import iso
from rawthink_core.commits import Commit, digest, receipt_of
from rawthink_core.config import machine_zone
from rawthink_core.errors import BatchIdReused, InvalidRequest, StoreTooNew, quoted
from rawthink_core.graph import Rules, Slice, needs, plan, prepare
from rawthink_core.model import zone_named
from rawthink_core.operations import ForgetReceipt, Place, RecordReceipt, RestoreReceipt
from rawthink_core.questions import questions
from rawthink_core.reading import meant
from rawthink_core.rows import Stamped, fold
from rawthink_core.searching import text_of
from rawthink_core.selection import SEARCHABLE
from rawthink_sqlite.reader import Reader, words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from rawthink_core.operations import Batch, Forget
    from rawthink_core.provider import World

FORMAT = 1
PATIENCE = 20.0  # seconds to wait while another process writes

TABLES = """
CREATE TABLE store (id TEXT NOT NULL, timezone TEXT NOT NULL);
CREATE TABLE spaces (n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE commits (n INTEGER PRIMARY KEY, space INTEGER NOT NULL, id TEXT NOT NULL, at TEXT NOT NULL,
    by TEXT NOT NULL, request TEXT NOT NULL, UNIQUE (space, id));
CREATE INDEX commits_at ON commits (at);
CREATE TABLE rows (n INTEGER PRIMARY KEY, committed INTEGER NOT NULL, position INTEGER NOT NULL,
    item TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (committed, position));
CREATE TABLE keys (key INTEGER NOT NULL, row INTEGER NOT NULL, ordinal INTEGER,
    PRIMARY KEY (key, row)) WITHOUT ROWID;
CREATE INDEX keys_row ON keys (row);
CREATE INDEX keys_ordinal ON keys (key, ordinal) WHERE ordinal IS NOT NULL;
CREATE TABLE items (n INTEGER PRIMARY KEY, space INTEGER NOT NULL, id TEXT NOT NULL, at TEXT NOT NULL,
    size INTEGER NOT NULL, UNIQUE (space, id));
CREATE INDEX items_at ON items (space, at, id)
"""

# The index of one space. {0} is its number: nothing that a user has written is ever part of a statement.
INDEX = """
CREATE VIRTUAL TABLE IF NOT EXISTS terms_{0} USING fts5(words, tokenize = ascii);
CREATE VIRTUAL TABLE IF NOT EXISTS places_{0} USING fts5vocab(terms_{0}, instance)
"""
ADD = "INSERT INTO terms_{0} (rowid, words) VALUES (?, ?)"
REMOVE = "DELETE FROM terms_{0} WHERE rowid = ?"
EMPTY = "DELETE FROM terms_{0}"
MERGE = "INSERT INTO terms_{0} (terms_{0}) VALUES ('optimize')"  # what was removed leaves the index for good


class Store:
    """An open file. Public methods are a transaction each, or say that they are to be used in one."""

    def __init__(self, file: Path, world: World) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        self.db = sqlite3.connect(file, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        self.clock, self.ids = world.clock, world.ids
        try:
            store, timezone = self._prepare(world.timezone)
            self.rules = Rules(world.vocabulary, zone_named(timezone))
        except BaseException:
            self.db.close()
            raise
        self.activity = Activity(None if world.state is None else world.state / f"sqlite-{store}.db")

    def _prepare(self, timezone: str | None) -> tuple[str, str]:
        """See to the tables; return the id and the zone of the store, settled when it was made."""
        self.db.create_function("ln", 1, math.log, deterministic=True)  # not in every build of SQLite
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")  # a commit is on the disk before it is confirmed
        self.db.execute("PRAGMA fullfsync = ON")  # on a Mac, too
        self.db.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
        with self.transaction("BEGIN IMMEDIATE"):
            (version,) = self.db.execute("PRAGMA user_version").fetchone()
            if version > FORMAT:
                raise StoreTooNew(f"this store has format {version}; rawthink-sqlite here reads {FORMAT}")
            if version == 0:
                self._run_all(TABLES)
                zone = zone_named(timezone or machine_zone()).key
                self.db.execute("INSERT INTO store VALUES (?, ?)", (self.ids.new(), zone))
                self.db.execute(f"PRAGMA user_version = {FORMAT}")
            store, zone = self.db.execute("SELECT id, timezone FROM store").fetchone()
        return store, zone

    def _run_all(self, statements: str) -> None:
        for statement in statements.split(";"):
            self.db.execute(statement)

    def close(self) -> None:
        """Close the file."""
        self.activity.close()
        self.db.close()

    @contextmanager
    def transaction(self, begin: str = "BEGIN") -> Iterator[None]:
        """Do all of something or nothing of it, and see one state of the store meanwhile."""
        self.db.execute(begin)
        try:
            yield
            self.db.execute("COMMIT")
        finally:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    def reader(self, space: str) -> Reader:
        """Return a reader of a space. It remembers what it has read, so it is for one transaction."""
        return Reader(self.db, space, self.activity)

    def record(self, batch: Batch) -> RecordReceipt:
        """Write a batch. Nobody else writes between what its plan sees and its rows."""
        space, asked = batch.scope.space, digest(batch)
        with self.transaction("BEGIN IMMEDIATE"):
            reader = self.reader(space)
            if (commit := reader.commit(batch.id)) is None:
                work, known, at = prepare(batch, self.rules), Slice(), self._next()
                while wanted := needs(work, known, at):
                    known.learn(reader.facts(wanted))
                commit = Commit(batch.id, iso(at), space, plan(work, known, at), work.by, asked)
                self._write(space, [commit])
            elif commit.request != asked:
                raise BatchIdReused(
                    f"batch {quoted(batch.id)} was other content: use a new id for new content"
                )
            return receipt_of(commit)

    def _next(self) -> datetime:
        """Return the time of the next commit: now, or just after the last one where that is later."""
        (last,) = self.db.execute("SELECT max(at) FROM commits").fetchone()
        now = self.clock.now()
        return now if last is None else max(now, datetime.fromisoformat(last) + timedelta(microseconds=1))

    def _write(self, space: str, commits: Sequence[Commit]) -> None:
        self.db.execute("INSERT INTO spaces (name) VALUES (?) ON CONFLICT DO NOTHING", (space,))
        number = self.reader(space).number
        self._run_all(INDEX.format(number))
        for commit in commits:
            by = orjson.dumps(commit.by).decode()
            n = self.db.execute(
                "INSERT INTO commits (space, id, at, by, request) VALUES (?, ?, ?, ?, ?)",
                (number, commit.id, commit.at, by, commit.request),
            ).lastrowid
            for position, row in enumerate(commit.rows):
                written = self.db.execute(
                    "INSERT INTO rows (committed, position, item, body) VALUES (?, ?, ?, ?)",
                    (n, position, row["id"], orjson.dumps(row).decode()),
                ).lastrowid
                self.db.executemany(
                    "INSERT INTO keys VALUES (?, ?, ?)",
                    [(key, written, row.get("ordinal")) for key in set(questions(space, row))],
                )
        self._index(space, {row["id"] for commit in commits for row in commit.rows})

    def _index(self, space: str, items: Collection[str]) -> None:
        """Bring the index of items to what their rows say now, and erase what of them was forgotten."""
        reader, asked = self.reader(space), list(items)
        number = reader.number
        for item, found in zip(asked, reader.answers("id", [(item,) for item in asked]), strict=True):
            rows = sorted(stamped for stamped in found if stamped.row["id"] == item)
            marks = [n for n, stamped in enumerate(rows) if stamped.row["op"] == "forgotten"]
            for stamped in rows[: marks[-1]] if marks else ():
                self._erase(number, stamped)
            gone = "DELETE FROM items WHERE space = ? AND id = ? RETURNING n"
            self.db.executemany(REMOVE.format(number), self.db.execute(gone, (number, item)).fetchall())
            if (state := fold(rows)) is not None and not state.forgotten:
                found_by = words(text_of(state)) if state.kind in SEARCHABLE else []
                n = self.db.execute(
                    "INSERT INTO items (space, id, at, size) VALUES (?, ?, ?, ?)",
                    (number, item, state.recorded_at, len(found_by)),
                ).lastrowid
                self.db.execute(ADD.format(number), (n, " ".join(found_by)))

    def _erase(self, number: int, stamped: Stamped) -> None:
        n = self.db.execute(
            "SELECT rows.n FROM rows JOIN commits ON commits.n = committed "
            "WHERE space = ? AND commits.id = ? AND position = ?",
            (number, stamped.commit, stamped.position),
        ).fetchone()
        self.db.execute("DELETE FROM keys WHERE row = ?", n)
        self.db.execute("DELETE FROM rows WHERE n = ?", n)

    def restore(self, space: str, commits: Sequence[Commit]) -> RestoreReceipt:
        """Write the commits that are not here yet as they are, but for what was forgotten here."""
        if any(commit.space != space for commit in commits):
            raise InvalidRequest(f"these are not all commits of the space {quoted(space)}")
        with self.transaction("BEGIN IMMEDIATE"):
            reader = self.reader(space)
            fresh = {commit.id: commit for commit in commits if reader.commit(commit.id) is None}
            self._write(space, list(fresh.values()))
        return RestoreReceipt(restored=len(fresh), skipped=len(commits) - len(fresh))

    def forget(self, request: Forget) -> ForgetReceipt:
        """Erase items, and leave a mark for each, so that its id is never used again."""
        space = request.scope.space
        with self.transaction("BEGIN IMMEDIATE"):
            reader = self.reader(space)
            states, missing = meant(reader, request, reader.items)
            if not states:
                return ForgetReceipt(missing=tuple(missing))
            marks = tuple({"op": "forgotten", "of": state.kind, "id": item} for item, state in states.items())
            self._write(space, [Commit(self.ids.new(), iso(self._next()), space, marks)])
            self.db.execute(MERGE.format(reader.number))
        self.activity.forget(states)
        places = [Place(place=place, outcome="erased") for place in ("rows", "index", "days of use")]
        held = "" if self.flush() else "another process is reading it; it is emptied when that is done"
        places.append(Place(place="write-ahead log", outcome="pending" if held else "erased", note=held))
        return ForgetReceipt(ids=tuple(states), missing=tuple(missing), places=tuple(places))

    def reindex(self, space: str) -> None:
        """Make the index of a space anew from its rows."""
        with self.transaction("BEGIN IMMEDIATE"):
            if number := self.reader(space).number:
                self.db.execute("DELETE FROM items WHERE space = ?", (number,))
                self.db.execute(EMPTY.format(number))
                every = "SELECT DISTINCT item FROM rows JOIN commits ON commits.n = committed WHERE space = ?"
                self._index(space, {item for (item,) in self.db.execute(every, (number,))})

    def flush(self) -> bool:
        """Move the write-ahead log into the file and empty it; tell whether that could be done."""
        (busy, _, _) = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
