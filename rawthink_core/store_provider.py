"""`StoreProvider`: the contract over a store that blocks, which an author writes without an event loop.

The store knows rows; the provider has the threads in which it works, opens and closes it, puts requests into
their canonical form, and sees to it that what is read on purpose is noted. `embedding_provider` adds vectors.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

from rawthink_core import reading
from rawthink_core.errors import BackendUnavailable, InvalidRequest
from rawthink_core.provider import BaseProvider, Capability

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence

    from rawthink_core import operations as ops
    from rawthink_core.activity import Activity
    from rawthink_core.asking import Asked
    from rawthink_core.commits import Commit
    from rawthink_core.embedding import KeptVectors
    from rawthink_core.frame import Scoped
    from rawthink_core.model import Item, Rules
    from rawthink_core.provider import ProviderInfo, World
    from rawthink_core.reading import SpaceReader

    R = TypeVar("R", bound=Scoped)
    A = TypeVar("A", ops.Items, ops.ScanPage, ops.GraphPage, ops.History)

T = TypeVar("T")

READS: Mapping[Capability, str] = {
    Capability.GET: "yes",
    Capability.SCAN: "yes",
    Capability.GRAPH: "yes",
    Capability.HISTORY: "yes",
    Capability.AS_OF: "yes",
    Capability.VALID_AT: "yes",
    Capability.ACTIVITY: "yes",
}
"""What a `StoreProvider` can do by itself over any store."""


class Store(Protocol):
    """An open store. Its methods run in worker threads, those that write one at a time.

    Each may raise what the verb of its name may, and UnsupportedOperation where the store can't do it.
    """

    @property
    def rules(self) -> Rules:
        """The vocabulary and the zone of the store."""
        ...

    @property
    def activity(self) -> Activity:
        """The days on which items were read."""
        ...

    def read(self, space: str, question: Callable[[SpaceReader], T]) -> T:
        """Return the answer to a question of one state of a space, which need not exist."""
        ...

    def answer(self, query: ops.SearchQuery, asked: Asked | None, why: str | None) -> ops.SearchPage:
        """Answer a canonical query (see `searching.answer`), by its meaning where that was ``asked``.

        ``why`` tells why not, where it should have been.
        """
        ...

    def commits(self, space: str) -> Iterator[Commit]:
        """Yield every commit of a space once, in the order of (``at``, id): each step in a worker thread."""
        ...

    def record(self, batch: ops.Batch) -> ops.RecordReceipt:
        """Write a batch, all or nothing."""
        ...

    def forget(self, request: ops.Forget) -> ops.ForgetReceipt:
        """Erase items and all that goes with them (see `reading.meant`)."""
        ...

    def restore(self, space: str, commits: Sequence[Commit]) -> ops.RestoreReceipt:
        """Add commits, all of this space, as they are, but for those that are here and what is forgotten."""
        ...

    def maintain(self, request: ops.Maintain) -> ops.MaintainReceipt:
        """Do upkeep."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


S = TypeVar("S", bound=Store)


class StoreProvider(BaseProvider, ABC, Generic[S]):
    """A provider over a `Store`. A subclass says how that is opened, and overrides what is its own.

    Verbs never run in the event loop, and one that has begun in its thread is finished, whoever is cancelled
    meanwhile. Writes have a thread of their own, so that reads go on while a write waits for another process.
    """

    readers: ClassVar[int] = 4  # threads that read; with 0 the thread that writes does, and does all
    patient: ClassVar[bool] = True  # close when all reads are over; else `Store.close` cuts them short

    def __init__(self, info: ProviderInfo, world: World) -> None:
        self.info = info
        self._world = world
        self._opened: S | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._writer: ThreadPoolExecutor | None = None

    @abstractmethod
    def open_store(self) -> S:
        """Open the store or create it, in a thread. Raises StoreTooNew, ConfigError or a BackendError."""

    # --- life -----------------------------------------------------------------------------------

    @property
    def opened(self) -> S:
        """The store that `open_store` returned. Raises BackendUnavailable where it is not open."""
        if self._opened is None:
            raise self._closed()
        return self._opened

    def _closed(self) -> BackendUnavailable:
        return BackendUnavailable(f"the memory in {self.info.location} is not open; open it first")

    async def open(self) -> None:
        """Open the store, creating it where there is none. Raises StoreTooNew or a BackendError."""
        if self._opened is not None:
            return
        name = f"rawthink-{self.info.name}"
        writer = ThreadPoolExecutor(1, f"{name}-write")
        opening = writer.submit(self.open_store)
        try:
            store = await asyncio.wrap_future(opening)
        except BaseException:
            writer.submit(_close_in_vain, opening)  # it may be open yet, where this was cancelled
            writer.shutdown(wait=False)
            raise
        self._opened, self._writer = store, writer
        self._readers = ThreadPoolExecutor(self.readers, name) if self.readers else writer
        self.info = replace(self.info, timezone=str(store.rules.zone))

    async def close(self) -> None:
        """Finish what was begun, and release everything. May be called again."""
        store, self._opened = self._opened, None
        readers, self._readers = self._readers, None
        writer, self._writer = self._writer, None
        if store is None or readers is None or writer is None:
            return

        def finish() -> None:
            if self.patient and readers is not writer:
                readers.shutdown(wait=True)
            store.close()

        finishing = asyncio.get_running_loop().run_in_executor(writer, finish)  # after all writes
        try:
            await finishing
        finally:
            readers.shutdown(wait=False)
            writer.shutdown(wait=not finishing.cancelled())  # it has nothing left to do

    async def _in_thread(self, work: Callable[..., T], *args: object) -> T:
        if self._readers is None:
            raise self._closed()
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *args)

    async def _write(self, work: Callable[..., T], *args: object) -> T:
        """Run what writes, after all that was to be written before."""
        if self._writer is None:
            raise self._closed()
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *args)

    # --- reading --------------------------------------------------------------------------------

    def _degraded(self, store: S) -> str | None:  # noqa: ARG002 - for who overrides it
        """Say what of the store can't be read, if anything. In a worker thread, after something was read."""
        return None

    async def _ask(self, request: R, question: Callable[[SpaceReader, R], A]) -> A:
        """Return the answer to a request of one state of its space; it says what could not be read."""
        store = self.opened

        def work() -> A:
            asked = request.canonical(store.rules)
            answer = store.read(asked.scope.space, lambda reader: question(reader, asked))
            degraded = self._degraded(store)
            return answer if degraded is None else answer.model_copy(update={"degraded": degraded})

        return await self._in_thread(work)

    def _use(self, items: Collection[Item]) -> None:
        """Note what was read on purpose, after the answer: a search ranks near-ties by it."""
        if items and self._opened is not None and self._readers is not None:
            ids, now = [item.id for item in items], self._world.clock.now()
            self._readers.submit(self._opened.activity.note, ids, now)

    async def get(self, request: ops.Get) -> ops.Items:
        """Return items by id and entities by name."""
        found = await self._ask(request, reading.get)
        self._use(found.items)
        return found

    async def scan(self, request: ops.Scan) -> ops.ScanPage:
        """Return one page of everything that passes the filters, oldest first."""
        return await self._ask(request, reading.scan)

    async def graph(self, query: ops.GraphQuery) -> ops.GraphPage:
        """Return entities with their observations and relations."""
        page = await self._ask(query, reading.graph)
        if not query.listing:
            self._use([*page.entities, *page.observations])
        return page

    async def history(self, query: ops.HistoryQuery) -> ops.History:
        """Return all versions of an item or of all that is said about an entity."""
        told = await self._ask(query, reading.history)
        entity = [told.entity] if told.entity is not None else []
        self._use([*entity, *told.observations, *told.relations, *told.passages])
        return told

    async def _asked(self, text: str) -> tuple[Asked | None, str | None]:  # noqa: ARG002 - see above
        """Return what a question means, or why only its words count, if it should mean something."""
        return None, None

    async def search(self, query: ops.SearchQuery) -> ops.SearchPage:
        """Find what a question is about."""
        store = self.opened
        query = query.canonical(store.rules)
        asked, why = await self._asked(query.text)
        return await self._in_thread(store.answer, query, asked, why)

    async def export(self, request: ops.Export) -> AsyncIterator[Commit]:
        """Yield every commit of the space, in the order of time."""
        commits: Iterator[Any] = self.opened.commits(request.scope.space)
        done = object()
        while (commit := await self._in_thread(next, commits, done)) is not done:
            yield cast("Commit", commit)

    # --- writing --------------------------------------------------------------------------------

    async def record(self, batch: ops.Batch) -> ops.RecordReceipt:
        """Write a batch, all or nothing."""
        return await self._write(self.opened.record, batch)

    async def forget(self, request: ops.Forget) -> ops.ForgetReceipt:
        """Erase items and all that goes with them."""
        return await self._write(self.opened.forget, request)

    async def restore(
        self, scope: ops.Scope, commits: Sequence[Commit], vectors: KeptVectors | None = None
    ) -> ops.RestoreReceipt:
        """Add commits as they are. Vectors are of no use here."""
        del vectors
        if any(commit.space != scope.space for commit in commits):
            raise InvalidRequest("a commit of another space can't be restored into this one")
        return await self._write(self.opened.restore, scope.space, commits)

    async def maintain(self, request: ops.Maintain) -> ops.MaintainReceipt:
        """Do upkeep."""
        return await self._write(self.opened.maintain, request)


def _close_in_vain(opening: Future[S]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
