"""The search index of one space: a table of points, kept up with the log by whoever searches or has written.

One row of the table says up to which row of the log it is applied; it is written together with the points, so
what a process began and did not finish, the next one finishes. A large backlog (a big import) is worked off
beside the searches, which say meanwhile how far it is.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rawthink_core.errors import BackendError
from rawthink_core.selection import text_of
from rawthink_core.text import TEXT_RULES
from rawthink_lancedb import sql
from rawthink_lancedb.catalogue import create_table
from rawthink_lancedb.engine import Table, newest
from rawthink_lancedb.errors import Raced, Vanished
from rawthink_lancedb.points import bodies, changes, states_again, text_key
from rawthink_lancedb.schema import index_name, index_schema, vectors_field
from rawthink_lancedb.statistics import COLUMNS, Statistics
from rawthink_lancedb.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import pyarrow as pa
    from lancedb.table import AsyncTable

    from rawthink_core.rows import State
    from rawthink_lancedb.engine import Engine
    from rawthink_lancedb.locks import Locks
    from rawthink_lancedb.log import Log
    from rawthink_lancedb.points import Changes
    from rawthink_lancedb.vectors import Kept, Vectors

log = logging.getLogger("rawthink.lancedb")

_FORM: Final = f"1/{TEXT_RULES}"  # of points; an index of another form is built anew
BACKLOG: Final = 2_000  # rows that a search applies before it answers
_SLICE: Final = 2_000
_AT_ONCE: Final = 1_000


class Index:
    """The search index of one space. Safe to use from many threads."""

    def __init__(self, engine: Engine, space_log: Log, locks: Locks) -> None:
        self.table = Table(engine, index_name(space_log.space))
        self.log = space_log
        self.statistics = Statistics()
        self.kept: Kept | None = None
        self.grown: Callable[[], None] = lambda: None  # told of what this process has written
        self._engine = engine
        self._locks = locks
        self._lock = threading.RLock()
        self._applying = threading.Lock()
        self._seen = -1  # version
        self._applied = 0
        self._erasures = 0
        self.columns: list[str] = []  # of vectors
        self._builder: threading.Thread | None = None
        self._stop = threading.Event()
        self.trouble: str | None = None  # why the last upkeep did not succeed

    def close(self) -> None:
        """Stop what works beside the searches. May be called again."""
        self._stop.set()
        if self._builder is not None:
            self._builder.join()
            self._builder = None

    # --- keeping up -----------------------------------------------------------------------------

    def catch_up(self) -> str | None:
        """Apply what the log has more; say how far it is where that takes longer than a search may.

        The log was looked at just before. Raises a BackendError.
        """
        target = self.log.ledger.last_rid
        if not target:
            return None
        self._look()
        if self._applied < target:
            if self.log.ledger.behind(self._applied) > BACKLOG:
                self._build()
                self._count()
                return self.progress()
            self.apply(target)
        self._count()
        return None

    def progress(self) -> str | None:
        """Say how much of the log is applied, None where that is all."""
        rows, behind = self.log.ledger.rows, self.log.ledger.behind(self._applied)
        return f"index {rows - behind:,} of {rows:,} rows" if behind else None

    def look(self) -> str | None:
        """See how far it is, without applying anything; making no table where there is none."""
        if self.table.found():
            self._look()
        return self.progress()

    def _look(self) -> None:
        """See up to where the index is applied, by whomever; make it where there is none."""
        with self._lock:
            if not self.table.found():
                self._create()
            if (version := self._version()) != self._seen:
                self._read_marker()
                self._seen = version
                self.table.note(version)

    def _version(self) -> int:
        try:
            return self.table.latest()
        except Vanished:  # dropped, to be built anew
            self._engine.there()
            self.table.drop_handle()
            self._create()
            return self.table.latest()

    def _read_marker(self) -> None:
        where = sql.equals("point", "")

        async def work(table: AsyncTable) -> tuple[list[dict[str, Any]], list[str]]:
            rows = await table.query().where(where).select(["applied", "model"]).to_arrow()
            return rows.to_pylist(), (await table.schema()).names

        rows, names = self.table.ask("reading", work)
        self.columns = [name for name in names if name.startswith("v_")]
        if rows and rows[0]["model"] != _FORM:
            log.info("the search index %s is of another form; it is built anew", self.table.name)
            self.drop()
            self._create()
            rows = []
        self._applied = int(rows[0]["applied"]) if rows else 0

    def _create(self) -> None:
        """Make the table, or see that whoever made it has finished."""
        with self._locks.held(f"{self.table.name}.new"):
            if not self.table.found():
                create_table(self._engine, self.table, index_schema(remote=self._engine.remote))
            self.table.ask("building an index in", _with_indexes)
        self._seen, self._applied = -1, 0
        self.statistics.forget()

    def drop(self) -> None:
        """Delete the table: the next search builds it anew."""
        with self._lock:
            if self.table.found():
                self._engine.run("erasing from", lambda: self._engine.connection.drop_table(self.table.name))
            self.table.drop_handle()
            self._seen, self._applied = -1, 0
            self.statistics.forget()

    def _count(self) -> None:
        """Count the terms of what is new in the index; all of it anew where something was erased."""
        erasures = self.log.ledger.erasures
        if erasures != self._erasures:
            self._erasures = erasures
            self.statistics.forget()
        seen, until = self.statistics.seen, self._applied
        if until <= seen or self.statistics.settled:
            return
        where = f"created > {sql.number(seen)} AND created <= {sql.number(until)}"

        async def work(table: AsyncTable) -> pa.Table:
            return await table.query().where(where).select(COLUMNS).to_arrow()

        self.statistics.learn(self.table.ask("reading", work), until)

    # --- a large backlog ------------------------------------------------------------------------

    def _build(self) -> None:
        with self._lock:
            if self._stop.is_set() or (self._builder is not None and self._builder.is_alive()):
                return
            self._builder = threading.Thread(
                target=self._work_off, name="rawthink-lancedb-index", daemon=True
            )
            self._builder.start()

    def _work_off(self) -> None:
        try:
            while not self._stop.is_set() and self._applied < (target := self.log.ledger.last_rid):
                self.apply(self.log.ledger.slice_after(self._applied, _SLICE) or target)
        except (BackendError, Vanished, Raced) as error:
            log.warning("the search index of %s stopped growing: %s", self.table.name, error)

    # --- applying -------------------------------------------------------------------------------

    def apply(self, until: int) -> None:
        """Apply the log up to a row."""
        with self._applying, self._locks.held(self.table.name):
            self._look()
            while self._applied < until:
                end = min(until, self.log.ledger.slice_after(self._applied, _SLICE))
                self._apply_slice(end)

    def _apply_slice(self, end: int) -> None:
        view = View(self.log)
        found = changes(view, self.log.span(self._applied, end))
        self._write(view, found, end)
        self._applied = end

    def write_again(self, items: Iterable[str]) -> None:
        """Write points as they are now, with vectors that have come."""
        self.log.look()
        with self._applying, self._locks.held(self.table.name):
            self._look()
            view = View(self.log)
            self._write(view, states_again(view, items), None)

    def _write(self, view: View, found: Changes, end: int | None) -> None:
        self._ready_for_vectors()
        states = list(found.states.values())
        rows = bodies(view, states, self.log.ledger.last_rid)
        known = self._known([state.id for state in states if state.id not in found.fresh])
        for row, state in zip(rows, states, strict=True):
            self._give_vectors(row, state, known.get(state.id))
        if end is not None:
            rows.append({"point": "", "applied": end, "model": _FORM})
        if rows:
            self._merge(rows)
        if found.deletes:
            self.delete(found.deletes)

    def _merge(self, rows: list[dict[str, Any]]) -> None:
        import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

        async def work(table: AsyncTable) -> int:
            data = pa.Table.from_pylist(rows, schema=await table.schema())
            merge = table.merge_insert("point").when_not_matched_insert_all()
            # of two processes that write one point, whoever knew more of the log counts
            merge = merge.when_matched_update_all(where="target.applied <= source.applied")
            return int((await merge.execute(data)).version)

        self._engine.there()
        for _ in self._locks.tries():
            try:
                version = self.table.ask("writing", work)
                break
            except Raced:
                self.table.latest()
        if version == self._seen + 1:
            self._seen = version
        self.table.note(version, len(rows))
        self.grown()

    def delete(self, items: Collection[str]) -> None:
        """Delete points."""
        wanted = sorted(items)
        for start in range(0, len(wanted), _AT_ONCE):
            where = sql.one_of("point", wanted[start : start + _AT_ONCE])
            self.table.ask("erasing from", partial(_delete, where=where))

    # --- vectors --------------------------------------------------------------------------------

    def _ready_for_vectors(self) -> None:
        """Give the table a column for the vectors of the model that the store goes by."""
        kept = self.kept
        if kept is None or kept.tag in self.columns:
            return
        field = vectors_field(kept.tag, kept.model.dimensions)

        async def work(table: AsyncTable) -> list[str]:
            await newest(table)
            if kept.tag not in (names := (await table.schema()).names):
                await table.add_columns(field)
                names = (await table.schema()).names
            return list(names)

        names = self.table.ask("writing", work)
        self.columns = [name for name in names if name.startswith("v_")]

    def _known(self, items: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return what the index holds of the vectors of items."""
        if not items or not self.columns:
            return {}
        columns = ["point", "tokens", "model", *self.columns]
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(items), _AT_ONCE):
            where = sql.one_of("point", items[start : start + _AT_ONCE])

            async def work(table: AsyncTable, where: str = where) -> pa.Table:
                return await table.query().where(where).select(columns).to_arrow()

            found |= {row["point"]: row for row in self.table.ask("reading", work).to_pylist()}
        return found

    def _give_vectors(self, row: dict[str, Any], state: State, known: dict[str, Any] | None) -> None:
        kept = self.kept
        if known is not None and known["tokens"] == row["tokens"]:
            row |= {name: known[name] for name in ("model", *self.columns)}
        if kept is None or row.get("model") == kept.tag:
            return
        vectors = kept.of_item(text_of(state), (self.log.space, state.id))
        if vectors is not None:
            row["model"] = kept.tag
            row[kept.tag] = [list(vector) for vector in vectors] or None

    def _waits(self) -> str:
        assert self.kept is not None  # noqa: S101 - asked where there is a model
        tag = self.kept.tag
        return f"point <> '' AND (model IS NULL OR model <> {sql.text(tag)})"

    def waiting(self, limit: int) -> list[str]:
        """Return ids of items that wait for their vectors."""
        if self.kept is None or not self.log.look() or self.catch_up() is not None:
            return []
        where = self._waits()

        async def work(table: AsyncTable) -> pa.Table:
            return await table.query().where(where).select(["point"]).limit(limit).to_arrow()

        return list(self.table.ask("reading", work)["point"].to_pylist())

    def waiting_count(self) -> int:
        """Count the items that wait for their vectors; what is not in the index yet waits too."""
        if not self.log.look() or self.kept is None:
            return self.log.ledger.items
        self._look()
        where = self._waits()
        behind = self.log.ledger.behind(self._applied)
        return self.table.ask("reading", lambda table: table.count_rows(where)) + behind

    def vectors_of(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of those of some texts by which items are found."""
        kept = self.kept
        if kept is None or kept.tag not in self.columns:
            return {}
        by_key = {text_key(text): text for text in texts}
        found: dict[str, Vectors] = {}
        keys, columns, tag = list(by_key), ["said", kept.tag], kept.tag
        for start in range(0, len(keys), _AT_ONCE):
            where = f"{sql.one_of('said', keys[start : start + _AT_ONCE])} AND {sql.equals('model', tag)}"

            async def work(table: AsyncTable, where: str = where) -> pa.Table:
                return await table.query().where(where).select(columns).to_arrow()

            for row in self.table.ask("reading", work).to_pylist():
                found[by_key[row["said"]]] = row[tag] or []
        return found

    def drop_vectors(self) -> None:
        """Delete the vectors of every model but the present one."""
        if not self.log.look():
            return
        with self._applying, self._locks.held(self.table.name):
            self._look()
            tag = self.kept.tag if self.kept is not None else ""
            if others := [name for name in self.columns if name != tag]:
                self.table.ask("erasing from", lambda table: table.drop_columns(others))
                self._seen = -1
                self._look()

    # --- figures --------------------------------------------------------------------------------

    def size(self) -> int:
        """Return the number of points."""
        if not self.table.found():
            return 0
        return self.table.ask("reading", lambda table: table.count_rows("point <> ''"))


async def _with_indexes(table: AsyncTable) -> None:
    """Give a table what searches need."""
    from lancedb.index import BTree  # noqa: PLC0415 - loaded with the engine

    await newest(table)
    there = {name for index in await table.list_indices() for name in index.columns}
    if "tokens" not in there:
        await table.create_index("tokens", config=words_index())
    if "point" not in there:
        await table.create_index("point", config=BTree())


def words_index() -> Any:
    """Return how words are indexed: as they stand there, for they are core's terms already."""
    from lancedb.index import FTS  # noqa: PLC0415 - loaded with the engine

    return FTS(
        base_tokenizer="whitespace",
        stem=False,
        remove_stop_words=False,
        lower_case=False,
        ascii_folding=False,
    )


async def _delete(table: AsyncTable, where: str) -> None:
    await table.delete(where)
