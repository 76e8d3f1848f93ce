"""The table that a space is searched in: made, made anew, written to, deleted from; and how far it has come.

One row, the marker, stands for the table itself: up to which row of the log it is applied, in which form its
points are, and which making of the table this is. It is written together with the points, so what a process
began and did not finish, the next one finishes. A table is made anew in its place, never deleted: others may
be reading it. What somebody writes who still means an earlier making leaves the marker as it is.
"""

from __future__ import annotations

import logging
import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rawthink_core.text import TEXT_RULES
from rawthink_lancedb import sql
from rawthink_lancedb.catalogue import create_table
from rawthink_lancedb.engine import Table, newest
from rawthink_lancedb.errors import Raced, Vanished
from rawthink_lancedb.schema import index_name, index_schema, vectors_field

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa
    from lancedb.table import AsyncTable

    from rawthink_lancedb.engine import Engine
    from rawthink_lancedb.locks import Locks

log = logging.getLogger("rawthink.lancedb")

FORM: Final = f"2/{TEXT_RULES}"  # of points; a table of another form is made anew
_MARKER: Final = sql.equals("point", "")
_AT_ONCE: Final = 1_000


class Marker(NamedTuple):
    """What a table says of itself."""

    applied: int
    making: int
    form: str


class PointTable:
    """The table of points of one space. Safe to use from many threads."""

    def __init__(self, engine: Engine, space: str, locks: Locks) -> None:
        self.table = Table(engine, index_name(space))
        self.columns: list[str] = []  # of vectors
        self.applied = 0
        self.making = 0  # 0 where it is not known
        self._engine = engine
        self._locks = locks
        self._lock = threading.RLock()
        self._seen = -1  # version

    # --- looking --------------------------------------------------------------------------------

    def look(self) -> None:
        """See how far the table is, by whomever; make it where there is none, or none that can be used.

        Raises Vanished where files of it are gone.
        """
        with self._lock:
            if not self.table.found():
                self._make()
            if (version := self._version()) != self._seen:
                self._read()
                self._seen = version
                self.table.note(version)

    def _version(self) -> int:
        try:
            return self.table.latest()
        except Vanished:  # somebody deleted it
            self._engine.there()
            self.look_anew()
            self._make()
            return self.table.latest()

    def _read(self) -> None:
        marker = self._marker()
        if marker is None or marker.form != FORM:
            log.info("the search index %s is of another form; it is built anew", self.table.name)
            self.make_anew(0)
            marker = self._marker()
        if marker is None:
            raise Raced(f"others are making {self.table.name}; try again")
        if marker.making != self.making:
            self._index()
            self.making = marker.making
        self.applied = marker.applied

    def _marker(self) -> Marker | None:
        async def work(table: AsyncTable) -> tuple[list[dict[str, Any]], list[str]]:
            rows = await table.query().where(_MARKER).select(["applied", "said", "model"]).to_arrow()
            return rows.to_pylist(), (await table.schema()).names

        rows, names = self.table.ask("reading", work)
        self.columns = [name for name in names if name.startswith("v_")]
        return Marker(rows[0]["applied"], rows[0]["said"] or 0, rows[0]["model"]) if rows else None

    def look_anew(self) -> None:
        """Believe nothing of what was seen: the next look opens the table again."""
        with self._lock:
            self.table.drop_handle()
            self._seen, self.applied, self.making = -1, 0, 0

    # --- making ---------------------------------------------------------------------------------

    def _make(self) -> None:
        schema = index_schema(remote=self._engine.remote)
        create_table(self._engine, self.table, schema, self._first_rows(schema))
        self._seen = -1

    def _first_rows(self, schema: pa.Schema) -> pa.Table:
        import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

        marker = {"point": "", "applied": 0, "said": 1 + secrets.randbits(62), "model": FORM}
        return pa.Table.from_pylist([marker], schema=schema)

    def make_anew(self, failed: int | None = None) -> None:
        """Empty the table in its place, indexes and all; with ``failed``, unless it is another making by now.

        Raises a BackendError.
        """
        with self._lock, self._locks.held(f"{self.table.name}.new"):
            for _ in self._engine.tries():
                self.look_anew()
                if failed is not None and self._was_made_since(failed):
                    return
                try:
                    self._overwrite()
                except Raced:
                    continue
                return

    def _was_made_since(self, failed: int) -> bool:
        try:
            marker = self._marker() if self.table.found() else None
        except Vanished:
            return False
        return marker is not None and marker.form == FORM and marker.making != failed

    def _overwrite(self) -> None:
        schema = index_schema(remote=self._engine.remote)
        rows, name = self._first_rows(schema), self.table.name

        async def work() -> AsyncTable:
            return await self._engine.connection.create_table(name, rows, schema=schema, mode="overwrite")

        self._engine.there()
        self.table.adopt(self._engine.run("building an index in", work))

    def _index(self) -> None:
        """Give the table what searches need, or see that whoever made it has."""
        with self._locks.held(f"{self.table.name}.new"):
            self.table.change("building an index in", _with_indexes)

    # --- writing --------------------------------------------------------------------------------

    def merge(self, rows: list[dict[str, Any]], end: int | None = None) -> int:
        """Write points, and with ``end`` that the log is applied up to there; return how many rows that were.

        Raises Raced where others came first.
        """
        import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

        if end is not None:
            rows = [*rows, {"point": "", "applied": end, "said": self.making, "model": FORM}]
        if not rows:
            return 0

        async def work(table: AsyncTable) -> int:
            data = pa.Table.from_pylist(rows, schema=await table.schema())
            merge = table.merge_insert("point").when_not_matched_insert_all()
            # of two processes that write one point, whoever knew more of the log counts
            newer = "target.applied <= source.applied AND (target.point <> '' OR target.said = source.said)"
            merge = merge.when_matched_update_all(where=newer)
            return int((await merge.execute(data)).version)

        self._engine.there()
        version = self.table.ask("writing", work)
        self.table.note(version, len(rows))
        with self._lock:
            if version == self._seen + 1:  # nobody wrote in between
                self._seen = version
                self.applied = self.applied if end is None else end
        return len(rows)

    def delete(self, items: Collection[str]) -> None:
        """Delete points."""
        wanted = sorted(items)
        for start in range(0, len(wanted), _AT_ONCE):
            where = sql.one_of("point", wanted[start : start + _AT_ONCE])
            self.table.change("erasing from", partial(_delete, where=where))

    def add_column(self, name: str, dimensions: int) -> None:
        """Give the table a column for the vectors of a model, unless it has one."""
        if name in self.columns:
            return
        field = vectors_field(name, dimensions)

        async def work(table: AsyncTable) -> list[str]:
            await newest(table)
            if name not in (names := (await table.schema()).names):
                await table.add_columns(field)
                names = (await table.schema()).names
            return list(names)

        names = self.table.change("writing", work)
        self.columns = [name for name in names if name.startswith("v_")]

    def drop_columns(self, names: Sequence[str]) -> None:
        """Delete columns of vectors."""

        async def work(table: AsyncTable) -> None:
            await newest(table)
            there = set((await table.schema()).names)
            if left := [name for name in names if name in there]:
                await table.drop_columns(left)

        if names:
            self.table.change("erasing from", work)
            self._seen = -1
            self.look()

    # --- reading --------------------------------------------------------------------------------

    def rows(self, where: str, columns: Sequence[str], limit: int | None = None) -> pa.Table:
        """Return columns of the points for which a condition holds."""

        async def work(table: AsyncTable) -> pa.Table:
            query = table.query().where(where).select(list(columns))
            return await (query if limit is None else query.limit(limit)).to_arrow()

        return self.table.ask("reading", work)

    def rows_with(
        self, column: str, values: Sequence[str | int], columns: Sequence[str], also: str = ""
    ) -> list[dict[str, Any]]:
        """Return columns of the points in which a column is one of some values, and ``also`` holds."""
        found: list[dict[str, Any]] = []
        for start in range(0, len(values), _AT_ONCE):
            where = sql.one_of(column, values[start : start + _AT_ONCE])
            found += self.rows(f"{where} AND {also}" if also else where, columns).to_pylist()
        return found

    def count(self, where: str = "point <> ''") -> int:
        """Return the number of points, or of those for which a condition holds."""
        if not self.table.found():
            return 0
        return self.table.ask("reading", lambda table: table.count_rows(where))


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
