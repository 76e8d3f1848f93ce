"""The log of one space: all that was ever written in it, appended commit by commit, and how rows are found.

What is appended together carries one number, its claim, the next after the last. The engine lets one of two
appends with the same number in, whole, and the other not at all: so a batch is whole or absent, and whoever
came too late knows it.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from operator import itemgetter
from threading import RLock
from typing import TYPE_CHECKING

from rawthink_core.errors import StoreDamaged
from rawthink_core.questions import key
from rawthink_lancedb import sql
from rawthink_lancedb.appending import append
from rawthink_lancedb.catalogue import create_table
from rawthink_lancedb.engine import Table, newest
from rawthink_lancedb.ledger import COLUMNS, Ledger
from rawthink_lancedb.log_rows import COLUMNS as ROW
from rawthink_lancedb.log_rows import HEAD, commit_of, joined, rows_of, stamped
from rawthink_lancedb.log_tail import appended
from rawthink_lancedb.schema import log_name, log_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from lancedb.table import AsyncTable

    from rawthink_core.commits import Commit
    from rawthink_core.rows import Stamped
    from rawthink_lancedb.catalogue import Catalogue
    from rawthink_lancedb.engine import Engine
    from rawthink_lancedb.ledger import Birth

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
        self._count = 0  # rows of the table
        self._mine = 0  # the claim that was appended here last
        self._rows: OrderedDict[int, Stamped | None] = OrderedDict()  # None: the head of a commit

    # --- looking --------------------------------------------------------------------------------

    def look(self) -> bool:
        """See what was written since the last look, by whomever; tell whether there is a log at all.

        Raises a BackendError where that can't be seen.
        """
        with self._lock:
            if not self.table.found():
                if self._catalogue.knows_log(self.space):  # which fails where it is the store that is gone
                    raise StoreDamaged(
                        f"the log of space {self.space!r} was there and is gone ({self.table.name} in "
                        f"{self._engine.uri}). Bring it back from a backup of the store, or import an export "
                        f"into a new store: rawthink import FILE"
                    )
                return False
            version = self.table.ask("reading", _version)
            if version != self._seen:
                self._learn()
                self._seen = version
                self.table.note(version)
            return True

    def _learn(self) -> None:
        known = self.ledger.claim
        columns = list(dict.fromkeys([*COLUMNS, *ROW])) if known else COLUMNS
        found, self._count = appended(self.table, self.ledger.last_rid, self._count, columns)
        if found is None:
            found = self._look_through(known, columns)
        erasures = self.ledger.erasures
        self.ledger.learn(found)
        if self.ledger.erasures != erasures:
            self._rows.clear()  # what was erased stays nowhere
        elif known and found.num_rows <= _WARM:
            self._keep(found)

    def _look_through(self, known: int, columns: Sequence[str]) -> pa.Table:
        return self._select(f"claim > {sql.number(known)}" if known else "", columns)

    @property
    def wrote_last(self) -> bool:
        """Whether nobody has appended since this process did, as far as was seen."""
        return self._mine == self.ledger.claim

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
                if rid not in self._rows:
                    missing.append(rid)
                    continue
                self._rows.move_to_end(rid)
                if (row := self._rows[rid]) is not None:
                    found[rid] = row
            for start in range(0, len(missing), _AT_ONCE):
                found |= self._keep(self._select(sql.one_of("rid", missing[start : start + _AT_ONCE]), ROW))
            return found

    def span(self, after: int, last: int) -> list[Stamped]:
        """Return the rows after one row up to another, oldest first."""
        with self._lock:
            rids = self.ledger.rids_between(after, last)
            if len(rids) <= _AT_ONCE:
                rows = self.rows(rids)
                return [rows[rid] for rid in rids if rid in rows]
        bodies = self._select(sql.between("rid", after + 1, last), ROW).to_pylist()
        bodies.sort(key=itemgetter("rid"))
        return [stamped(self.table.name, body) for body in bodies if body["op"] != HEAD]

    def _select(self, where: str, columns: Sequence[str]) -> pa.Table:
        """Return columns of the rows for which a condition holds; of all, where there is none."""

        async def work(table: AsyncTable) -> pa.Table:
            query = table.query().select(list(columns))
            return await (query.where(where) if where else query).to_arrow()

        return self.table.ask("reading", work)

    def _keep(self, table: pa.Table) -> dict[int, Stamped]:
        found = {}
        for body in table.select(ROW).to_pylist():
            if body["op"] == HEAD:
                self._rows[body["rid"]] = None
            else:
                found[body["rid"]] = self._rows[body["rid"]] = stamped(self.table.name, body)
        while len(self._rows) > _KEPT:
            self._rows.popitem(last=False)
        return found

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
        found = self._select(sql.equals("op", HEAD), ["at", "commit", "rid", "size"]).to_pylist()
        first: dict[str, tuple[str, str, int, int]] = {}
        for body in found:
            place = (body["at"], body["commit"], body["rid"], body["size"])
            first[body["commit"]] = min(place, first.get(body["commit"], place))
        return sorted(first.values())

    def commits_at(self, heads: Sequence[int], sizes: Sequence[int] = ()) -> list[Commit]:
        """Return whole commits, given the numbers of their heads, in that order."""
        if not sizes:
            rows = self._select(sql.one_of("rid", heads), ["rid", "size"]).to_pylist()
            known = {row["rid"]: row["size"] for row in rows}
            heads = [head for head in heads if head in known]
            sizes = [known[head] for head in heads]
        spans = joined(sorted((head, head + size) for head, size in zip(heads, sizes, strict=True)))
        where = sql.some_of(sql.between("rid", first, last) for first, last in spans)
        bodies = {body["rid"]: body for body in self._select(where, [*ROW, "request"]).to_pylist()}
        name = self.table.name
        return [
            commit_of(name, self.space, bodies, head, size) for head, size in zip(heads, sizes, strict=True)
        ]

    # --- writing --------------------------------------------------------------------------------

    def append(self, commits: Sequence[Commit]) -> None:
        """Append commits, all or none, after what was seen last. Raises Raced where others came first."""
        with self._lock:
            if not self.table.found():
                self._create()
            self._catalogue.note_log(self.space)
            claim = self.ledger.claim + 1
            rows = rows_of(claim, commits)
            self._engine.there()
            version = append(self.table, claim, rows, self._seen)
            self.ledger.learn(rows.select(COLUMNS))
            self._mine = claim
            self._count += rows.num_rows
            self._keep(rows)
            if version == self._seen + 1:
                self._seen = version
            self.table.note(version, rows.num_rows)

    def _create(self) -> None:
        self._catalogue.note_space(self.space)
        create_table(self._engine, self.table, log_schema())
        self.table.change("building an index in", _with_index)

    # --- what is erased -------------------------------------------------------------------------

    def delete(self, items: Iterable[str]) -> None:
        """Delete every row of items but those that say that they are erased."""
        for where in _what_says_more(items):
            self.table.change("erasing from", partial(_delete, where=where))
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
        return sorted(set(self._select(where, ["item"])["item"].to_pylist()))


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
