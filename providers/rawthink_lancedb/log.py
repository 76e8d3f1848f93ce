"""The log of one space: all that was ever written in it, appended commit by commit, and how rows are found.

What is appended together carries one number, its claim, the next after the last. The engine lets one of two
appends with the same number in, whole, and the other not at all: so a batch is whole or absent, and whoever
came too late knows it.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from functools import partial
from operator import itemgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

import orjson

from rawthink_core.clock import to_micros
from rawthink_core.commits import Commit
from rawthink_core.errors import BackendProtocolError, StoreDamaged
from rawthink_core.questions import key, questions
from rawthink_core.rows import CREATES, Row, Stamped
from rawthink_lancedb import sql
from rawthink_lancedb.catalogue import create_table
from rawthink_lancedb.engine import Table, newest
from rawthink_lancedb.errors import Raced
from rawthink_lancedb.ledger import COLUMNS, Ledger, rid_of
from rawthink_lancedb.schema import log_name, log_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from lancedb._lancedb import MergeResult
    from lancedb.table import AsyncTable

    from rawthink_lancedb.catalogue import Catalogue
    from rawthink_lancedb.engine import Engine
    from rawthink_lancedb.ledger import Birth

HEAD = "commit"
_ROW = ["rid", "commit", "n", "at", "by", "op", "row"]
_KEPT = 20_000  # rows that stay in memory
_AT_ONCE = 1_000  # rows asked for in one call
_WARM = 2_000  # new rows of others that are read along with their keys


class Log:
    """The log of one space. Safe to use from many threads."""

    def __init__(self, engine: Engine, catalogue: Catalogue, space: str) -> None:
        self.space = space
        self.table = Table(engine, log_name(space))
        self.ledger = Ledger()
        self._engine = engine
        self._catalogue = catalogue
        self._lock = RLock()
        self._seen = -1
        self._rows: OrderedDict[int, Stamped] = OrderedDict()

    # --- looking --------------------------------------------------------------------------------

    def look(self) -> bool:
        """See what was written since the last look, by whomever; tell whether there is a log at all.

        Raises a BackendError where that can't be seen.
        """
        with self._lock:
            if not self.table.found():
                self._catalogue.check()  # nothing was written here: or is it the store that is gone?
                return False
            version = self.table.ask("reading", _version)
            if version != self._seen:
                self._learn()
                self._seen = version
                self.table.note(version)
            return True

    def _learn(self) -> None:
        known = self.ledger.claim
        columns = list(dict.fromkeys([*COLUMNS, *_ROW])) if known else COLUMNS
        where = f"claim > {sql.number(known)}"

        async def work(table: AsyncTable) -> pa.Table:
            query = table.query().select(columns)
            return await (query.where(where) if known else query).to_arrow()

        found = self.table.ask("reading", work)
        erasures = self.ledger.erasures
        self.ledger.learn(found)
        if self.ledger.erasures != erasures:
            self._rows.clear()  # what was erased stays nowhere
        elif known and found.num_rows <= _WARM:
            self._keep(found)

    def forget_rows(self) -> None:
        """Let go of rows in memory."""
        with self._lock:
            self._rows.clear()

    # --- reading --------------------------------------------------------------------------------

    def answers(self, kind: str, asked: Sequence[tuple[object, ...]]) -> list[list[Stamped]]:
        """Return, for each of some questions of a kind, the rows that may answer it."""
        with self._lock:
            wanted = self.ledger.find_all([key(kind, self.space, *parts) for parts in asked])
            rows = self.rows({rid for rids in wanted for rid in rids})
        return [[rows[rid] for rid in rids if rid in rows] for rids in wanted]

    def mentions(self, item: str) -> list[int]:
        """Return the numbers of the rows that may be about an item."""
        with self._lock:
            return self.ledger.find(key("id", self.space, item))

    def knows(self, kind: str, *parts: object) -> bool:
        """Tell whether any row may answer a question."""
        with self._lock:
            return bool(self.ledger.find(key(kind, self.space, *parts)))

    def born_from(self, at: int, limit: int) -> list[Birth]:
        """Return when the next items were created, from a time on."""
        with self._lock:
            return self.ledger.born_from(at, limit)

    def last_ordinal(self, session: str) -> int:
        """Return the highest ordinal of a session, -1 where it has no passage."""
        with self._lock:
            return self.ledger.last_ordinal(key("session", self.space, session))

    def rows(self, rids: Iterable[int]) -> dict[int, Stamped]:
        """Return rows by their numbers; those that are erased are left out."""
        with self._lock:
            found: dict[int, Stamped] = {}
            missing: list[int] = []
            for rid in rids:
                row = self._rows.get(rid)
                if row is None:
                    missing.append(rid)
                else:
                    self._rows.move_to_end(rid)
                    found[rid] = row
            for start in range(0, len(missing), _AT_ONCE):
                found |= self._keep(self._fetch(sql.one_of("rid", missing[start : start + _AT_ONCE])))
            return found

    def span(self, after: int, last: int) -> list[Stamped]:
        """Return the rows after one row up to another, oldest first."""
        with self._lock:
            rids = self.ledger.rids_between(after, last)
            if len(rids) <= _AT_ONCE:
                rows = self.rows(rids)
                return [rows[rid] for rid in rids if rid in rows]
        bodies = self._fetch(sql.between("rid", after + 1, last)).to_pylist()
        bodies.sort(key=itemgetter("rid"))
        return [self._stamped(body) for body in bodies if body["op"] != HEAD]

    def _fetch(self, where: str) -> pa.Table:
        async def work(table: AsyncTable) -> pa.Table:
            return await table.query().where(where).select(_ROW).to_arrow()

        return self.table.ask("reading", work)

    def _keep(self, table: pa.Table) -> dict[int, Stamped]:
        found = {}
        for body in table.select(_ROW).to_pylist():
            if body["op"] != HEAD:
                found[body["rid"]] = self._rows[body["rid"]] = self._stamped(body)
        while len(self._rows) > _KEPT:
            self._rows.popitem(last=False)
        return found

    def _stamped(self, body: dict[str, Any]) -> Stamped:
        try:
            by = orjson.loads(body["by"]) if body["by"] else None
            return Stamped(body["at"], body["commit"], body["n"], orjson.loads(body["row"]), by)
        except (ValueError, TypeError) as error:
            raise StoreDamaged(f"row {body['rid']} of {self.table.name} can't be read: {error}") from None

    def commit(self, commit_id: str) -> Commit | None:
        """Return a commit by its id."""
        with self._lock:
            heads = self.ledger.find(key("commit", self.space, commit_id))
        for head in heads:
            for commit in self.commits_at([head]):
                if commit.id == commit_id:
                    return commit
        return None

    def heads(self) -> list[tuple[str, str, int, int]]:
        """Return time, id, number of the head, and number of rows of every commit, in the order of time."""

        async def work(table: AsyncTable) -> pa.Table:
            columns = ["at", "commit", "rid", "size"]
            return await table.query().where(sql.equals("op", HEAD)).select(columns).to_arrow()

        found = self.table.ask("reading", work).to_pylist()
        first: dict[str, tuple[str, str, int, int]] = {}
        for body in found:
            place = (body["at"], body["commit"], body["rid"], body["size"])
            first[body["commit"]] = min(place, first.get(body["commit"], place))
        return sorted(first.values())

    def commits_at(self, heads: Sequence[int], sizes: Sequence[int] = ()) -> list[Commit]:
        """Return whole commits, given the numbers of their heads, in that order."""
        if not sizes:
            where = sql.one_of("rid", heads)
            rows = self.table.ask("reading", lambda table: _sizes(table, where))
            known = {row["rid"]: row["size"] for row in rows.to_pylist()}
            heads = [head for head in heads if head in known]
            sizes = [known[head] for head in heads]
        spans = _joined(sorted((head, head + size) for head, size in zip(heads, sizes, strict=True)))
        where = sql.some_of(sql.between("rid", first, last) for first, last in spans)

        async def work(table: AsyncTable) -> pa.Table:
            return await table.query().where(where).select([*_ROW, "request"]).to_arrow()

        bodies = {body["rid"]: body for body in self.table.ask("reading", work).to_pylist()}
        return [self._commit(bodies, head, size) for head, size in zip(heads, sizes, strict=True)]

    def _commit(self, bodies: dict[int, dict[str, Any]], head: int, size: int) -> Commit:
        first = bodies[head]
        there = (bodies.get(rid) for rid in range(head + 1, head + size + 1))
        rows = tuple(self._stamped(body).row for body in there if body is not None)
        by = orjson.loads(first["by"]) if first["by"] else None
        return Commit(first["commit"], first["at"], self.space, rows, by, first["request"])

    # --- writing --------------------------------------------------------------------------------

    def append(self, commits: Sequence[Commit]) -> None:
        """Append commits, all or none, after what was seen last. Raises Raced where others came first."""
        with self._lock:
            if not self.table.found():
                self._create()
            claim = self.ledger.claim + 1
            rows = _rows_of(claim, commits)

            self._engine.there()
            version = self._merge(claim, rows) if self._engine.remote else self._add(claim, rows)
            self.ledger.learn(rows.select(COLUMNS))
            self._keep(rows)
            if version == self._seen + 1:
                self._seen = version
            self.table.note(version, rows.num_rows)

    def _merge(self, claim: int, rows: pa.Table) -> int:
        """Append in an object store, where others may do so at the same time; return the version."""

        async def work() -> MergeResult:
            merge = self.table.handle.merge_insert("claim").when_not_matched_insert_all()
            return cast("MergeResult", await merge.execute(rows))

        result = self._engine.run("writing", work)
        if result.num_inserted_rows == 0:
            raise Raced(f"claim {claim} of {self.table.name} was taken")
        if result.num_inserted_rows != rows.num_rows:
            raise BackendProtocolError(
                f"{result.num_inserted_rows} of {rows.num_rows} rows of one append are in {self.table.name}; "
                f"this version of lancedb does not keep its promise"
            )
        return int(result.version)

    def _add(self, claim: int, rows: pa.Table) -> int:
        """Append under the lock of writers, a third of the work of a merge; return the version.

        Where a file system does not keep its locks, both who met see it, withdraw, and try again.
        """
        mine = sql.all_of([sql.equals("claim", claim), sql.one_of("commit", set(rows["commit"].to_pylist()))])

        async def work() -> tuple[int, bool]:
            handle = self.table.handle
            version = (await handle.add(rows)).version
            if version == self._seen + 1 or await _count(handle, f"claim = {claim}") == rows.num_rows:
                return version, True
            await handle.delete(mine)
            return version, False

        version, alone = self._engine.run("writing", work)
        if not alone:
            raise Raced(f"claim {claim} of {self.table.name} was taken, though it was locked")
        return version

    def _create(self) -> None:
        self._catalogue.note_space(self.space)
        create_table(self._engine, self.table, log_schema())
        self.table.ask("building an index in", _with_index)

    # --- what is erased -------------------------------------------------------------------------

    def delete(self, items: Iterable[str]) -> None:
        """Delete every row of items but those that say that they are erased."""
        for where in _what_says_more(items):
            self.table.ask("erasing from", partial(_delete, where=where))
        self.forget_rows()

    def count_of(self, items: Iterable[str]) -> int:
        """Count the rows of items that say more than that they are erased."""
        return sum(
            self.table.ask("reading", partial(_count, where=where)) for where in _what_says_more(items)
        )

    def erased(self) -> list[str]:
        """Return the ids of all items that were erased."""
        return self._items("op = 'forgotten'")

    def items(self) -> list[str]:
        """Return the ids of all items."""
        return self._items("item IS NOT NULL")

    def _items(self, where: str) -> list[str]:
        async def work(table: AsyncTable) -> pa.Table:
            return await table.query().where(where).select(["item"]).to_arrow()

        return sorted(set(self.table.ask("reading", work)["item"].to_pylist()))


async def _delete(table: AsyncTable, where: str) -> None:
    await table.delete(where)


async def _count(table: AsyncTable, where: str) -> int:
    return await table.count_rows(where)


def _what_says_more(items: Iterable[str]) -> Iterator[str]:
    """Yield conditions for the rows of items but for those that say that they are erased."""
    wanted = sorted(items)
    for start in range(0, len(wanted), _AT_ONCE):
        yield f"op <> 'forgotten' AND {sql.one_of('item', wanted[start : start + _AT_ONCE])}"


async def _with_index(table: AsyncTable) -> None:
    from lancedb.index import BTree  # noqa: PLC0415 - loaded with the engine

    if not list(await table.list_indices()):
        await table.create_index("rid", config=BTree())


async def _version(table: AsyncTable) -> int:
    await newest(table)
    return await table.version()


async def _sizes(table: AsyncTable, where: str) -> pa.Table:
    return await table.query().where(where).select(["rid", "size"]).to_arrow()


def _joined(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield spans of numbers, those that touch as one."""
    last: tuple[int, int] | None = None
    for first, end in spans:
        if last is not None and first <= last[1] + 1:
            last = (last[0], max(last[1], end))
        else:
            if last is not None:
                yield last
            last = (first, end)
    if last is not None:
        yield last


def _rows_of(claim: int, commits: Sequence[Commit]) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

    bodies: list[dict[str, Any]] = []
    for commit in commits:
        by = orjson.dumps(commit.by).decode() if commit.by else None
        same = {"claim": claim, "commit": commit.id, "at": commit.at, "by": by}
        head = {
            "op": HEAD,
            "n": -1,
            "size": len(commit.rows),
            "request": commit.request,
            "keys": [key("commit", commit.space, commit.id)],
        }
        bodies.append({**same, **head, "rid": rid_of(claim, len(bodies))})
        for n, row in enumerate(commit.rows):
            bodies.append({**same, **_columns(commit, row), "n": n, "rid": rid_of(claim, len(bodies))})
    return pa.Table.from_pylist(bodies, schema=log_schema())


def _columns(commit: Commit, row: Row) -> dict[str, Any]:
    creates = row["op"] in CREATES
    return {
        "op": row["op"],
        "item": row["id"],
        "row": orjson.dumps(row).decode(),
        "keys": list(questions(commit.space, row)),
        "born": to_micros(datetime.fromisoformat(row.get("at", commit.at))) if creates else None,
        "session": key("session", commit.space, row["session"]) if row["op"] == "passage" else None,
        "ordinal": row["ordinal"] if row["op"] == "passage" else None,
    }
