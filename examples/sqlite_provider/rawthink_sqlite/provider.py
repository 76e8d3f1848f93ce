"""The verbs of the contract: each is some work for the thread that has the store."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from rawthink_core import reading
from rawthink_core.config import absolute
from rawthink_core.errors import BackendError, BackendTimeout, BackendUnavailable
from rawthink_core.operations import Check, Health, MaintainReceipt
from rawthink_core.provider import BaseProvider, Capability, ProviderInfo
from rawthink_core.searching import answer
from rawthink_sqlite.store import FORMAT, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from rawthink_core import operations as ops
    from rawthink_core.commits import Commit
    from rawthink_core.embedding import KeptVectors
    from rawthink_core.frame import Scoped
    from rawthink_core.model import Item
    from rawthink_core.provider import World
    from rawthink_sqlite.reader import Reader

    R = TypeVar("R", bound=Scoped)
    T = TypeVar("T")

CAPABILITIES = {
    Capability.GET: "yes",
    Capability.SCAN: "yes",
    Capability.GRAPH: "yes",
    Capability.HISTORY: "yes",
    Capability.FORGET: "erased",
    Capability.EXPORT: "yes",
    Capability.RESTORE: "yes",
    Capability.MAINTAIN: "yes",
    Capability.ATOMIC_WRITES: "yes",
    Capability.IDEMPOTENT_RECORD: "yes",
    Capability.AS_OF: "yes",
    Capability.VALID_AT: "yes",
    Capability.LEXICAL: "yes",
    Capability.VERBATIM: "yes",
    Capability.ACTIVITY: "yes",
    Capability.READ_YOUR_WRITES: "at once",
    Capability.RANKING: "core",
    Capability.FILTERS: "before_top_k",
    Capability.PROCESSES: "many",
    Capability.DURABLE: "power loss",
}


class SqliteSettings(BaseModel):
    """Where a store lies."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = Field(default=None, title="Folder", description="Folder of the store")


class SqliteProvider(BaseProvider):
    """A memory in one file of SQLite."""

    def __init__(self, settings: SqliteSettings, world: World) -> None:
        folder = world.path if settings.path is None else absolute(settings.path)
        self._file, self._world = folder / "rawthink.sqlite", world
        self.info = ProviderInfo("sqlite", "0.1.0", CAPABILITIES, location=str(self._file))
        self._store: Store | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Open the file or create it. One thread has it, and does one thing after the other."""
        self._thread = self._thread or ThreadPoolExecutor(1, "rawthink-sqlite")
        await self._in_thread(self._open)

    def _open(self) -> None:
        if self._store is None:
            self._store = Store(self._file, self._world)
            self.info = replace(self.info, timezone=self._store.rules.zone.key)

    async def close(self) -> None:
        """Finish what was begun, and close the file."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown(wait=False)

    def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            raise BackendUnavailable(f"{self._file} is not open")
        with failures(self._file):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _do(self, work: Callable[[Store], T]) -> T:
        """Return what some work with the store gives. A caller who is cancelled does not cut it short."""

        def with_store() -> T:
            if self._store is None:
                raise BackendUnavailable(f"{self._file} could not be opened")
            return work(self._store)

        return await self._in_thread(with_store)

    async def _ask(self, request: R, question: Callable[[Reader, R], T]) -> T:
        """Return the answer to a request, in its canonical form, of one state of the store."""

        def work(store: Store) -> T:
            canonical = request.canonical(store.rules)
            with store.transaction():
                return question(store.reader(request.scope.space), canonical)

        return await self._do(work)

    async def _read(self, *items: Item) -> None:
        """Note that items were read on purpose: a search ranks near-ties by it."""
        ids, now = [item.id for item in items], self._world.clock.now()
        await self._do(lambda store: store.activity.note(ids, now))

    async def record(self, batch: ops.Batch) -> ops.RecordReceipt:
        """Write a batch. `revise` and `on_after_chat` come here, too, from `BaseProvider`."""
        return await self._do(lambda store: store.record(batch))

    async def search(self, query: ops.SearchQuery) -> ops.SearchPage:
        """Find what a question is about. `on_before_chat` comes here, too."""
        now, fusion = self._world.clock.now(), self._world.fusion
        return await self._ask(query, lambda reader, asked: answer(asked, reader, now, fusion=fusion))

    async def get(self, request: ops.Get) -> ops.Items:
        """Return items by id and entities by name."""
        found = await self._ask(request, reading.get)
        await self._read(*found.items)
        return found

    async def graph(self, query: ops.GraphQuery) -> ops.GraphPage:
        """Return entities with their observations and relations."""
        page = await self._ask(query, reading.graph)
        if not query.listing:
            await self._read(*page.entities, *page.observations, *page.relations)
        return page

    async def history(self, query: ops.HistoryQuery) -> ops.History:
        """Return all versions of an item, or of all that is said about an entity."""
        found = await self._ask(query, reading.history)
        entity = [] if found.entity is None else [found.entity]
        await self._read(*entity, *found.observations, *found.relations, *found.passages)
        return found

    async def scan(self, request: ops.Scan) -> ops.ScanPage:
        """Return every item that passes the filters, page by page."""
        return await self._ask(request, lambda reader, asked: reading.scan(reader, asked, reader.following))

    async def forget(self, request: ops.Forget) -> ops.ForgetReceipt:
        """Erase items and everything that ends at them."""
        return await self._do(lambda store: store.forget(request))

    async def export(self, request: ops.Export) -> AsyncIterator[Commit]:
        """Yield the commits of a space in the order of time."""
        after = ("", "")
        while some := await self._ask(request, commits_after(after)):
            for commit in some:
                yield commit
            after = (some[-1].at, some[-1].id)

    async def restore(
        self, scope: ops.Scope, commits: Sequence[Commit], vectors: KeptVectors | None = None
    ) -> ops.RestoreReceipt:
        """Write commits that are not here yet, in one transaction. Vectors are of no use here."""
        del vectors
        return await self._do(lambda store: store.restore(scope.space, commits))

    async def maintain(self, request: ops.Maintain) -> MaintainReceipt:
        """Make the index anew where that is asked for; empty the write-ahead log."""
        done = []
        if request.reindex or request.repair:
            await self._do(lambda store: store.reindex(request.scope.space))
            done.append("the search index was made anew")
        if await self._do(Store.flush):
            done.append("the write-ahead log was emptied")
        return MaintainReceipt(done=tuple(done))

    async def health(self) -> Health:
        """Say how the store is, by a look of its own: it need not be open, nor be there."""
        return await asyncio.to_thread(health_of, self._file)


def commits_after(place: tuple[str, str]) -> Callable[[Reader, Scoped], list[Commit]]:
    """Return the question for the commits that come after a time and an id."""
    return lambda reader, _: reader.commits(place)


@contextmanager
def failures(file: Path) -> Iterator[None]:
    """Turn what SQLite and the file system say into errors of the contract: down is never empty."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        busy = getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")
        raise (BackendTimeout if busy else BackendUnavailable)(f"{file}: {error}") from error


def health_of(file: Path) -> Health:
    """Return how the store in a file is. Creates nothing."""
    if not file.exists() and (file.parent.is_dir() or not file.parent.exists()):
        none = Check(name="store", status="fail", detail=f"no store at {file} yet", fix="rawthink init")
        return Health(status="down", location=str(file), checks=(none,), exists=False)
    said, count = "", 0
    try:
        uri = f"{file.as_uri()}?mode=rw"
        with failures(file), closing(sqlite3.connect(uri, uri=True)) as db:
            (said,) = db.execute("PRAGMA quick_check(1)").fetchone()
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version > FORMAT:
                said = f"{file} has format {version}; rawthink-sqlite here reads {FORMAT}"
            else:
                (count,) = db.execute("SELECT count(*) FROM commits").fetchone()
    except BackendError as error:
        said = str(error)
    well = said == "ok"
    check = Check(
        name="store",
        status="ok" if well else "fail",
        detail=f"{count} commits" if well else said,
        fix="" if well else "see that the file can be read and written; upgrade, or restore an export",
    )
    return Health(status="ok" if well else "down", location=str(file), checks=(check,))
