"""`LanceProvider`: the contract over LanceDB tables. Verbs run in worker threads, never in the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from rawthink_core import reading
from rawthink_core.asking import ask
from rawthink_core.embedding import KeptVectors
from rawthink_core.embedding_queue import EmbeddingQueue
from rawthink_core.embedding_shelf import texts_of
from rawthink_core.errors import BackendUnavailable, InvalidRequest
from rawthink_core.graph import Rules
from rawthink_core.model import zone_named
from rawthink_core.operations import ForgetReceipt, ScanPage, SearchPage
from rawthink_core.provider import BaseProvider, Capability, ProviderInfo
from rawthink_core.searching import answer
from rawthink_core.selection import selection, utc
from rawthink_lancedb import health, mending
from rawthink_lancedb.declared import CAPABILITIES, VERSION
from rawthink_lancedb.erasure import forget, places_of
from rawthink_lancedb.errors import Vanished
from rawthink_lancedb.parts import Parts, address_of, open_parts
from rawthink_lancedb.retrieval import Retrieval
from rawthink_lancedb.shelf import LanceShelf
from rawthink_lancedb.view import View

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from rawthink_core.commits import Commit
    from rawthink_core.model import Item
    from rawthink_core.operations import (
        Batch,
        Export,
        Forget,
        Get,
        GraphPage,
        GraphQuery,
        Health,
        History,
        HistoryQuery,
        Items,
        Maintain,
        MaintainReceipt,
        RecordReceipt,
        RestoreReceipt,
        Scan,
        Scope,
        SearchQuery,
    )
    from rawthink_core.provider import World
    from rawthink_core.searching import Asked
    from rawthink_lancedb.settings import LanceSettings
    from rawthink_lancedb.vectors import Kept

    T = TypeVar("T")

_THREADS = 4
_MODEL_SECONDS = 1.0  # that a first search waits to learn what the embedder is
_FIRST = 2**62  # microseconds: before and after all that is


class LanceProvider(BaseProvider):
    """A store of LanceDB tables: a log a space is the truth, an index a space is derived from it."""

    def __init__(self, settings: LanceSettings, world: World) -> None:
        self._world = world
        self._settings = settings
        self._address = address_of(settings, world)
        self._rules = Rules(world.vocabulary, zone_named(world.timezone or "UTC"))
        self._threads: ThreadPoolExecutor | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._parts: Parts | None = None
        self._embedding: EmbeddingQueue | None = None
        self._caretaker: mending.Caretaker | None = None
        self.info = ProviderInfo(
            name="lancedb", version=VERSION, capabilities=CAPABILITIES, location=self._address
        )

    # --- life -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the store, creating it where there is none. Raises StoreTooNew or a BackendError."""
        if self._parts is not None:
            return
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="rawthink-lancedb")
        try:
            parts = await self._in_thread(open_parts, self._settings, self._world)
        except BaseException:
            self._threads.shutdown(wait=False)
            self._threads = None
            raise
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="rawthink-lancedb-write")
        self._parts, self._rules = parts, parts.rules
        self._caretaker = mending.Caretaker(parts.store, self._settings)
        parts.store.grown = self._caretaker.written
        self._embedding = EmbeddingQueue(
            self._world.embedder, LanceShelf(parts.store), parts.model, self._in_thread
        )
        loop, queue = asyncio.get_running_loop(), self._embedding
        self._caretaker.kept_up = lambda: loop.call_soon_threadsafe(queue.wake)
        self._embedding.start()
        able = {
            name: grade
            for name, grade in CAPABILITIES.items()
            if self._embedding.wanted or name != Capability.DENSE
        }
        if parts.store.versioned is not None:
            able[Capability.FORGET] = "deleted"
        self.info = replace(self.info, timezone=str(parts.rules.zone), capabilities=able)

    async def close(self) -> None:
        """Release everything. May be called again."""
        if self._threads is None:
            return
        if self._embedding is not None:
            await self._embedding.close()
            self._embedding = None
        threads, self._threads = self._threads, None
        writer, self._writer = self._writer, None
        parts, self._parts = self._parts, None
        caretaker, self._caretaker = self._caretaker, None
        try:
            await asyncio.get_running_loop().run_in_executor(writer, _close, threads, caretaker, parts)
        finally:
            if writer is not None:
                writer.shutdown(wait=True)  # it has nothing left to do

    async def _in_thread(self, work: Callable[..., T], *args: object) -> T:
        if self._threads is None:
            raise self._closed()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)

    async def _write(self, work: Callable[..., T], *args: object) -> T:
        """Run a write in a thread of its own, so that reads go on while it waits for another process."""
        if self._writer is None:
            raise self._closed()
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *args)

    async def _read(self, space: str, look: Callable[[View], T]) -> T:
        store = self._opened.store
        return await self._in_thread(lambda: store.read(space, look))

    def _closed(self) -> BackendUnavailable:
        return BackendUnavailable(f"the memory in {self._address} is not open; open it first")

    @property
    def _opened(self) -> Parts:
        if self._parts is None:
            raise self._closed()
        return self._parts

    def _use(self, *ids: str) -> None:
        """Note what was read, after the answer."""
        if self._threads is not None and self._parts is not None and ids:
            self._threads.submit(self._parts.activity.note, ids, self._world.clock.now())

    # --- writing --------------------------------------------------------------------------------

    async def record(self, batch: Batch) -> RecordReceipt:
        """Write a batch in one commit of its space's table."""
        store, embedding = self._opened.store, self._embedding
        assert embedding is not None  # noqa: S101 - opened together with the store
        embedding.refuse_writes()
        generation = await embedding.generation()
        receipt = await self._write(store.record, batch, self._rules)
        pending = await embedding.soon(texts_of(batch), generation)
        return receipt.model_copy(update={"pending_embeddings": pending}) if pending else receipt

    async def restore(
        self, scope: Scope, commits: Sequence[Commit], vectors: KeptVectors | None = None
    ) -> RestoreReceipt:
        """Add commits as they are, with what another store keeps of their texts."""
        store = self._opened.store
        kept = await self._kept() if vectors is not None and vectors.of else None
        taken = kept is not None and vectors is not None and kept.model.fingerprint == vectors.fingerprint
        if kept is not None and vectors is not None and taken:
            await self._in_thread(kept.put, vectors.of)
        receipt = await self._write(store.restore, scope.space, commits)
        if taken:
            await self._write(store.apply, scope.space)  # while the vectors are at hand
        if any(row["op"] == "forgotten" for commit in commits for row in commit.rows):
            await self._write(mending.finish_erasures, store, scope.space)
        if self._embedding is not None:
            self._embedding.wake()
        return receipt

    async def kept_vectors(self, texts: Sequence[str]) -> KeptVectors:
        """Return the vectors that are kept of these texts."""
        kept, store = await self._kept(), self._opened.store
        if kept is None:
            return KeptVectors()
        return KeptVectors(kept.model.fingerprint, await self._in_thread(store.vectors_of, texts))

    async def _kept(self) -> Kept | None:
        """Return where vectors are kept, None where none are; of a new store once its model is known."""
        store = self._opened.store
        if store.kept is None and self._embedding is not None:
            await self._embedding.ready(_MODEL_SECONDS)
        return store.kept

    async def forget(self, request: Forget) -> ForgetReceipt:
        """Erase items from the log, the index and their files."""
        parts, space = self._opened, request.scope.space
        erased, missing = await self._write(forget, parts.store, request)
        places = await self._write(places_of, parts.store, space, erased, parts.activity) if erased else ()
        return ForgetReceipt(
            ids=tuple(sorted(state.id for state in erased)), missing=tuple(missing), places=tuple(places)
        )

    # --- reading --------------------------------------------------------------------------------

    async def get(self, request: Get) -> Items:
        """Return items by id and entities by name."""
        request = request.canonical(self._rules)
        items = await self._read(request.scope.space, lambda view: reading.get(view, request))
        self._use(*(item.id for item in items.items))
        return items

    async def scan(self, request: Scan) -> ScanPage:
        """Return one page of everything that passes the filters, oldest first."""
        request = request.canonical(self._rules)
        return await self._in_thread(self._scan, request)

    def _scan(self, request: Scan) -> ScanPage:
        chosen = selection(request, ("entity", "observation", "relation", "passage"))
        at, _, item = (request.cursor or f"-{_FIRST}|").partition("|")
        store, space = self._opened.store, request.scope.space
        states, after = store.scan(chosen, (_number(at), item), request.limit)
        items = store.read(space, lambda view: reading.nouns(view, states, utc(request.as_of)))
        return ScanPage(items=tuple(items), cursor=f"{after[0]}|{after[1]}" if after else None)

    async def graph(self, query: GraphQuery) -> GraphPage:
        """Return entities with their observations and relations."""
        query = query.canonical(self._rules)
        page = await self._read(query.scope.space, lambda view: reading.graph(view, query))
        if not query.listing:
            self._use(*(entity.id for entity in page.entities), *(said.id for said in page.observations))
        return page

    async def history(self, query: HistoryQuery) -> History:
        """Return all versions of an item or of all that is said about an entity."""
        told = await self._read(query.scope.space, lambda view: reading.history(view, query))
        items: list[Item] = [*told.observations, *told.relations, *told.passages]
        self._use(*(item.id for item in items), *((told.entity.id,) if told.entity else ()))
        return told

    async def search(self, query: SearchQuery) -> SearchPage:
        """Find what a question is about."""
        query = query.canonical(self._rules)
        self._opened  # noqa: B018 - before anything is embedded
        asked, why = await self._ask(query.text)
        page = await self._in_thread(self._search, query, asked, why)
        if self._embedding is not None:
            self._embedding.wake()  # the index knows now what waits
        return page

    async def _ask(self, text: str) -> tuple[Asked | None, str | None]:
        """Return what the embedder makes of a question, or why it is asked by its words only."""
        embedding = self._embedding
        if embedding is None or not await embedding.ready(_MODEL_SECONDS):
            return None, embedding.why_not() if embedding is not None else None
        return await ask(embedding.embedder, text)

    def _search(self, query: SearchQuery, asked: Asked | None, why: str | None) -> SearchPage:
        parts = self._opened
        now, fusion = self._world.clock.now(), self._world.fusion
        space = parts.store.space(query.scope.space)
        if not space.log.look():
            return SearchPage(degraded=why)

        def work() -> SearchPage:
            behind = space.index.catch_up()
            said = "; ".join(reason for reason in (behind, why) if reason)
            retrieval = Retrieval(space.index, View(space.log), parts.activity)
            return answer(query, retrieval, now, said or None, asked, fusion)

        try:
            return space.index.sound(work)
        except Vanished as error:
            if error.table != space.index.table.name:
                raise
            return SearchPage(degraded=f"nothing was searched: files of the search index are gone ({error})")

    # --- upkeep ---------------------------------------------------------------------------------

    async def export(self, request: Export) -> AsyncIterator[Commit]:
        """Yield every commit of the space, in the order of time."""
        commits = self._opened.store.commits(request.scope.space)
        done = object()
        while (commit := await self._in_thread(next, commits, done)) is not done:
            yield cast("Commit", commit)

    async def maintain(self, request: Maintain) -> MaintainReceipt:
        """Compact, finish what was cut short, or build the indexes anew."""
        receipt = await self._write(mending.maintain, self._opened.store, self._settings, request)
        if request.reindex and self._embedding is not None:
            await self._embedding.adopt()
        return receipt

    async def health(self) -> Health:
        """Return how the store is. Works on a store that can't be opened."""
        probe = await self._embedding.probe() if self._embedding is not None else None
        waiting = self._embedding.waiting if self._embedding is not None else None
        return await asyncio.to_thread(
            health.examine, self._settings, self._world, self._parts, probe, waiting
        )


def _close(threads: ThreadPoolExecutor, caretaker: mending.Caretaker | None, parts: Parts | None) -> None:
    threads.shutdown(wait=True)  # whoever still waits for the engine would wait in vain
    if caretaker is not None:
        caretaker.close()
    if parts is not None:
        parts.close()


def _number(text: str) -> int:
    try:
        if abs(number := int(text)) <= _FIRST:
            return number
    except ValueError:
        pass
    raise InvalidRequest("the cursor is not one that a scan returned; start again without it")
