"""The file: its tables, its transactions, and all that is written to it. For one thread."""

from __future__ import annotations

import math
import os
import sqlite3
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import orjson

from rawthink_core.activity import Activity
from rawthink_core.commits import forgetting, left_of, next_instant
from rawthink_core.config import machine_zone
from rawthink_core.draft import Draft
from rawthink_core.errors import BackendTimeout, BackendUnavailable, StoreTooNew
from rawthink_core.graph import Rules
from rawthink_core.model import zone_named
from rawthink_core.operations import ForgetReceipt, MaintainReceipt, Place, RestoreReceipt
from rawthink_core.questions import questions
from rawthink_core.reading import meant
from rawthink_core.rows import fold
from rawthink_core.searching import answer, text_of
from rawthink_sqlite.reader import Reader, words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from rawthink_core import operations as ops
    from rawthink_core.asking import Asked
    from rawthink_core.commits import Commit
    from rawthink_core.provider import World

    T = TypeVar("T")

FORMAT = 1
PATIENCE = 20.0  # seconds to wait while another process writes
WRITE = "BEGIN IMMEDIATE"  # nobody else writes meanwhile

TABLES = """
CREATE TABLE store (id TEXT NOT NULL, timezone TEXT NOT NULL);
CREATE TABLE commits (n INTEGER PRIMARY KEY, space TEXT NOT NULL, id TEXT NOT NULL, at TEXT NOT NULL,
    by TEXT NOT NULL, request TEXT NOT NULL, UNIQUE (space, id));
CREATE INDEX commits_at ON commits (at);
CREATE TABLE rows (n INTEGER PRIMARY KEY, committed INTEGER NOT NULL, position INTEGER NOT NULL,
    body TEXT NOT NULL, UNIQUE (committed, position));
CREATE TABLE keys (key INTEGER NOT NULL, row INTEGER NOT NULL REFERENCES rows ON DELETE CASCADE,
    ordinal INTEGER, PRIMARY KEY (key, row)) WITHOUT ROWID;
CREATE INDEX keys_row ON keys (row);
CREATE INDEX keys_ordinal ON keys (key, ordinal) WHERE ordinal IS NOT NULL;
CREATE TABLE items (n INTEGER PRIMARY KEY, space TEXT NOT NULL, id TEXT NOT NULL, at TEXT NOT NULL,
    size INTEGER NOT NULL, UNIQUE (space, id));
CREATE INDEX items_at ON items (space, at, id);
CREATE INDEX items_found ON items (space) WHERE size > 0;
CREATE VIRTUAL TABLE terms USING fts5(words, tokenize = ascii);
CREATE VIRTUAL TABLE places USING fts5vocab(terms, instance);
CREATE TRIGGER unfound AFTER DELETE ON items BEGIN DELETE FROM terms WHERE rowid = old.n; END
"""
PRAGMAS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON;
PRAGMA secure_delete = ON;
PRAGMA foreign_keys = ON
"""

ADD_COMMIT = "INSERT INTO commits (space, id, at, by, request) VALUES (?, ?, ?, ?, ?) RETURNING n"
ADD_ROW = "INSERT INTO rows (committed, position, body) VALUES (?, ?, ?) RETURNING n"
ADD_ITEM = "INSERT INTO items (space, id, at, size) VALUES (?, ?, ?, ?) RETURNING n"
ADD_WORDS = "INSERT INTO terms (rowid, words) VALUES (?, ?)"
REMOVE = "DELETE FROM items WHERE space = ? AND id = ?"
MERGE = "INSERT INTO terms (terms) VALUES ('optimize')"  # what was removed leaves the index for good
ERASE = (
    "DELETE FROM rows WHERE committed = (SELECT n FROM commits WHERE space = ? AND id = ?) AND position = ?"
)
BATCHES = "SELECT id FROM commits WHERE space = ? ORDER BY at, id"
ITEMS = "SELECT id FROM items WHERE space = ?"
WRITTEN = """
SELECT DISTINCT json_extract(body, '$.id') FROM rows JOIN commits ON commits.n = committed WHERE space = ?
"""


class Store:
    """An open file. Each public method is a transaction, or several."""

    def __init__(self, file: Path, world: World) -> None:
        self.file, self.world = file, world
        with failures(file), ExitStack() as undo:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
            self.db = sqlite3.connect(file, timeout=PATIENCE, isolation_level=None)
            undo.callback(self.db.close)
            store, zone = self._prepare()
            self.rules = Rules(world.vocabulary, zone_named(zone))
            undo.pop_all()
        self.activity = Activity(None if world.state is None else world.state / f"sqlite-{store}.db")

    def _prepare(self) -> tuple[str, str]:
        """See to the tables; return the id and the zone of the store, settled when it was made."""
        self.db.create_function("ln", 1, math.log, deterministic=True)  # not in every build of SQLite
        self._run_all(PRAGMAS)
        with self._transaction(WRITE):
            (version,) = self.db.execute("PRAGMA user_version").fetchone()
            if version > FORMAT:
                raise StoreTooNew(f"this store has format {version}; rawthink-sqlite here reads {FORMAT}")
            if version == 0:
                self._run_all(TABLES)
                zone = zone_named(self.world.timezone or machine_zone()).key
                self.db.execute("INSERT INTO store VALUES (?, ?)", (self.world.ids.new(), zone))
                self.db.execute(f"PRAGMA user_version = {FORMAT}")
            store, zone = self.db.execute("SELECT id, timezone FROM store").fetchone()
        return store, zone

    def _run_all(self, statements: str) -> None:
        for statement in statements.split(";\n"):
            self.db.execute(statement)

    def close(self) -> None:
        """Close the file."""
        self.activity.close()
        self.db.close()

    @contextmanager
    def _transaction(self, begin: str = "BEGIN") -> Iterator[None]:
        """Do all of something or nothing of it, and see one state of the store meanwhile."""
        with failures(self.file):
            self.db.execute(begin)
            try:
                yield
                self.db.execute("COMMIT")
            finally:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")

    def _reader(self, space: str) -> Reader:
        return Reader(self.db, space, self.activity)

    def read(self, space: str, question: Callable[[Reader], T]) -> T:
        """Return the answer to a question of one state of a space."""
        with self._transaction():
            return question(self._reader(space))

    def answer(self, query: ops.SearchQuery, asked: Asked | None, why: str | None) -> ops.SearchPage:
        """Answer a search."""
        now, fusion = self.world.clock.now(), self.world.fusion
        return self.read(query.scope.space, lambda reader: answer(query, reader, now, why, asked, fusion))

    def commits(self, space: str) -> Iterator[Commit]:
        """Yield every commit of a space in the order of time, as of when the first is asked for."""
        for batch_id in self.read(space, partial(Reader.every, ids=BATCHES)):
            if (commit := self.read(space, partial(Reader.commit, batch_id=batch_id))) is not None:
                yield commit

    def record(self, batch: ops.Batch) -> ops.RecordReceipt:
        """Write a batch. Nobody else writes between what its plan sees and its rows."""
        draft = Draft(batch, self.rules)
        with self._transaction(WRITE):
            reader = self._reader(draft.space)
            commit = reader.commit(draft.id)
            if commit is None:
                commit = draft.commit(reader, self._next())
                self._write(reader, [commit])
            return draft.receipt(commit)

    def _next(self) -> datetime:
        (last,) = self.db.execute("SELECT max(at) FROM commits").fetchone()
        return next_instant(self.world.clock, last)

    def _write(self, reader: Reader, commits: Sequence[Commit]) -> None:
        for commit in commits:
            by = orjson.dumps(commit.by).decode()
            told = (commit.space, commit.id, commit.at, by, commit.request)
            (n,) = self.db.execute(ADD_COMMIT, told).fetchone()
            for position, row in enumerate(commit.rows):
                (r,) = self.db.execute(ADD_ROW, (n, position, orjson.dumps(row).decode())).fetchone()
                keys = {(key, r, row.get("ordinal")) for key in questions(commit.space, row)}
                self.db.executemany("INSERT INTO keys VALUES (?, ?, ?)", keys)
        self._index(reader, {row["id"] for commit in commits for row in commit.rows})

    def _index(self, reader: Reader, items: Collection[str]) -> None:
        """Bring the index of items to what their rows say now, and erase what of them was forgotten."""
        space = reader.space
        for item, rows in reader.rows(items).items():
            marks = [stamped[:3] for stamped in rows if stamped.row["op"] == "forgotten"]
            gone = [stamped for stamped in rows if marks and stamped[:3] < max(marks)]
            self.db.executemany(ERASE, [(space, row.commit, row.position) for row in gone])
            self.db.execute(REMOVE, (space, item))
            if (state := fold(rows)) is not None and not state.forgotten:
                found_by = words(space, text_of(state))  # none, where it is a relation
                told = (space, item, state.recorded_at, len(found_by))
                (n,) = self.db.execute(ADD_ITEM, told).fetchone()
                self.db.execute(ADD_WORDS, (n, " ".join(found_by)))

    def restore(self, space: str, commits: Sequence[Commit]) -> RestoreReceipt:
        """Write the commits that are not here yet as they are, but for what was forgotten here."""
        with self._transaction(WRITE):
            reader = self._reader(space)
            fresh = {commit.id: commit for commit in commits if reader.commit(commit.id) is None}
            known = reader.load({row["id"] for commit in fresh.values() for row in commit.rows})
            gone = {item for item, state in known.items() if state.forgotten}
            self._write(reader, [left_of(commit, gone) for commit in fresh.values()])
        return RestoreReceipt(restored=len(fresh), skipped=len(commits) - len(fresh))

    def forget(self, request: ops.Forget) -> ForgetReceipt:
        """Erase items, and leave a mark for each, so that its id is never used again."""
        space = request.scope.space
        with self._transaction(WRITE):
            reader = self._reader(space)
            states, missing = meant(reader, request, partial(reader.every, ITEMS))
            if not states:
                return ForgetReceipt(missing=tuple(missing))
            self._write(reader, [forgetting(self.world.ids.new(), self._next(), space, states)])
            self.db.execute(MERGE)
        self.activity.forget(states)
        places = [Place(place=place, outcome="erased") for place in ("rows", "index", "days of use")]
        held = "" if self._flush() else "another process is reading it; it is emptied when that is done"
        places.append(Place(place="write-ahead log", outcome="pending" if held else "erased", note=held))
        return ForgetReceipt(ids=tuple(states), missing=tuple(missing), places=tuple(places))

    def maintain(self, request: ops.Maintain) -> MaintainReceipt:
        """Make the index of a space anew where that is asked for; empty the write-ahead log."""
        done, space = [], request.scope.space
        if request.reindex or request.repair:
            with self._transaction(WRITE):
                reader = self._reader(space)
                self.db.execute("DELETE FROM items WHERE space = ?", (space,))
                self._index(reader, reader.every(WRITTEN))
            done.append("the search index was made anew")
        if self._flush():
            done.append("the write-ahead log was emptied")
        return MaintainReceipt(done=tuple(done))

    def _flush(self) -> bool:
        """Move the write-ahead log into the file and empty it; tell whether that could be done."""
        with failures(self.file):
            (busy, _, _) = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy


@contextmanager
def failures(file: Path) -> Iterator[None]:
    """Turn what SQLite and the file system say into errors of the contract: down is never empty."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        busy = getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")
        raise (BackendTimeout if busy else BackendUnavailable)(f"{file}: {error}") from error
