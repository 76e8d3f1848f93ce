"""`LocalProvider`: the contract over one folder. Verbs run in worker threads, never in the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from rawthink_core import reading
from rawthink_core.asking import ask
from rawthink_core.config import absolute
from rawthink_core.embedding import KeptVectors
from rawthink_core.embedding_queue import EmbeddingQueue
from rawthink_core.embedding_shelf import texts_of
from rawthink_core.errors import BackendUnavailable, InvalidRequest
from rawthink_core.graph import Rules
from rawthink_core.model import zone_named
from rawthink_core.operations import ForgetReceipt, ScanPage
from rawthink_core.provider import BaseProvider, ProviderInfo
from rawthink_core.searching import answer
from rawthink_core.selection import selection, utc
from rawthink_local import health, mending
from rawthink_local.declared import CAPABILITIES, VERSION
from rawthink_local.erasure import forget, places_of
from rawthink_local.parts import Parts, foreign_file, open_parts
from rawthink_local.restoring import restore
from rawthink_local.retrieval import Retrieval
from rawthink_local.shelf import LocalShelf
from rawthink_local.vectors import read_model

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
        SearchPage,
        SearchQuery,
    )
    from rawthink_core.provider import World
    from rawthink_core.searching import Asked
    from rawthink_local.settings import LocalSettings
    from rawthink_local.store import Store
    from rawthink_local.vectors import Kept
    from rawthink_local.view import View

    T = TypeVar("T")
    A = TypeVar("A", Items, GraphPage, History)

_THREADS = 4
_PAUSE_SECONDS = 0.2
_MODEL_SECONDS = 1.0  # that a first search waits to learn what the embedder is
_FIRST = 2**63 - 1  # microseconds: before and after all that is


class LocalProvider(BaseProvider):
    """A store in a folder: `rawthink.jsonl` and the files of the vault are the truth, the rest is derived."""

    def __init__(self, settings: LocalSettings, world: World) -> None:
        self._world = world
        self._settings = settings
        self.folder = absolute(settings.path) if settings.path else world.path
        self._rules = Rules(world.vocabulary, zone_named(world.timezone or "UTC"))
        self._threads: ThreadPoolExecutor | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._parts: Parts | None = None
        self._embedding: EmbeddingQueue | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._embedded = -1  # the changes of the index after which vectors were last asked for
        self.info = ProviderInfo(
            name="local", version=VERSION, capabilities=CAPABILITIES, location=str(self.folder)
        )

    # --- life -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the store, creating it where there is none. Raises StoreTooNew or a BackendError."""
        if self._parts is not None:
            return
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="rawthink-local")
        try:
            parts = await self._in_thread(open_parts, self.folder, self._settings, self._world)
        except BaseException:
            self._threads.shutdown(wait=False)
            self._threads = None
            raise
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="rawthink-local-write")
        self._parts, self._rules = parts, parts.rules
        shelf, settled = LocalShelf(parts.store, parts.search), read_model(parts.store.derived)
        self._embedding = EmbeddingQueue(self._world.embedder, shelf, settled, self._in_thread)
        self._embedding.start()
        able = {
            name: grade for name, grade in CAPABILITIES.items() if self._embedding.wanted or name != "dense"
        }
        self.info = replace(self.info, timezone=str(parts.rules.zone), capabilities=able)

    async def close(self) -> None:
        """Release everything. May be called again."""
        if self._threads is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._embedding is not None:
            await self._embedding.close()
            self._embedding = None
        threads, self._threads = self._threads, None
        writer, self._writer = self._writer, None
        parts, self._parts = self._parts, None
        try:
            await asyncio.get_running_loop().run_in_executor(writer, _close, parts)  # after all writes
        finally:
            threads.shutdown(wait=False)
            if writer is not None:
                writer.shutdown(wait=False)

    async def _in_thread(self, work: Callable[..., T], *args: object) -> T:
        if self._threads is None:
            raise BackendUnavailable(f"the memory in {self.folder} is not open; open it first")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)

    async def _write(self, work: Callable[..., T], *args: object) -> T:
        """Run a write in a thread of its own, so that reads go on while it waits for another process."""
        if self._writer is None:
            raise BackendUnavailable(f"the memory in {self.folder} is not open; open it first")
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *args)

    async def _read(self, space: str, ask: Callable[[View], T]) -> T:
        store = self._opened
        return await self._in_thread(lambda: store.read(space, ask))

    @property
    def _open_parts(self) -> Parts:
        if self._parts is None:
            raise BackendUnavailable(f"the memory in {self.folder} is not open; open it first")
        return self._parts

    @property
    def _opened(self) -> Store:
        return self._open_parts.store

    def _use(self, *ids: str) -> None:
        """Note what was read, after the answer."""
        if self._threads is not None and self._parts is not None and ids:
            self._threads.submit(self._parts.activity.note, ids, self._world.clock.now())

    # --- writing --------------------------------------------------------------------------------

    async def record(self, batch: Batch) -> RecordReceipt:
        """Write a batch in one line of the journal."""
        store, embedding = self._opened, self._embedding
        assert embedding is not None  # noqa: S101 - opened together with the store
        embedding.refuse_writes()
        generation = await embedding.generation()
        receipt = await self._write(store.record, batch, self._rules)
        self._keep_up_later()
        pending = await embedding.soon(texts_of(batch), generation)
        return receipt.model_copy(update={"pending_embeddings": pending}) if pending else receipt

    def _keep_up_later(self) -> None:
        """Bring the search index up to date when writing pauses, so that the next search need not."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._keep_up)

    def _keep_up(self) -> None:
        if self._threads is not None and self._parts is not None:
            loop, search = asyncio.get_running_loop(), self._parts.search

            def kept_up() -> None:
                search.keep_up()
                with suppress(RuntimeError):  # the loop has ended meanwhile
                    loop.call_soon_threadsafe(self._embed_what_waits)

            self._threads.submit(kept_up)

    def _embed_what_waits(self) -> None:
        """Wake who makes vectors where the index has taken in anything: it knows what waits."""
        if self._embedding is not None and self._parts is not None:
            changes = self._parts.search.changes
            if changes != self._embedded:
                self._embedded = changes
                self._embedding.wake()

    async def restore(
        self, scope: Scope, commits: Sequence[Commit], vectors: KeptVectors | None = None
    ) -> RestoreReceipt:
        """Add commits as they are, and what another store keeps of their texts."""
        kept = await self._kept() if vectors is not None and vectors.of else None
        if vectors is not None and kept is not None and kept.model.fingerprint == vectors.fingerprint:
            await self._in_thread(kept.put, vectors.of)
        return await self._write(restore, self._opened, scope.space, commits)

    async def kept_vectors(self, texts: Sequence[str]) -> KeptVectors:
        """Return the vectors that are kept of these texts."""
        kept = await self._kept()
        if kept is None:
            return KeptVectors()
        return KeptVectors(kept.model.fingerprint, await self._in_thread(kept.some, texts))

    async def _kept(self) -> Kept | None:
        """Return where vectors are kept, None where none are; of a new store once its model is known."""
        index = self._open_parts.search
        if index.kept is None and self._embedding is not None:
            await self._embedding.ready(_MODEL_SECONDS)
        return index.kept

    async def forget(self, request: Forget) -> ForgetReceipt:
        """Erase items from the journal and everything derived from it."""
        parts = self._open_parts
        gone = await self._write(forget, parts.store, request)
        places = await self._in_thread(places_of, parts, gone) if gone.states else ()
        ids = tuple(sorted(state.id for state in gone.states))
        return ForgetReceipt(ids=ids, missing=tuple(gone.missing), places=tuple(places))

    # --- reading --------------------------------------------------------------------------------

    async def get(self, request: Get) -> Items:
        """Return items by id and entities by name."""
        request = request.canonical(self._rules)
        items = await self._read(request.scope.space, lambda view: reading.get(view, request))
        self._use(*(item.id for item in items.items))
        return _honest(items, self._opened.degraded())

    async def scan(self, request: Scan) -> ScanPage:
        """Return one page of everything that passes the filters, oldest first."""
        request = request.canonical(self._rules)
        return await self._in_thread(self._scan, request)

    def _scan(self, request: Scan) -> ScanPage:
        chosen = selection(request, ("entity", "observation", "relation", "passage"))
        at, _, item = (request.cursor or f"-{_FIRST}|").partition("|")
        store = self._opened
        states, after = store.scan(chosen, (_number(at), item), request.limit)
        space = request.scope.space
        items = store.read(space, lambda view: reading.nouns(view, states, utc(request.as_of)))
        cursor = f"{after[0]}|{after[1]}" if after else None
        return ScanPage(items=tuple(items), cursor=cursor, degraded=store.degraded())

    async def graph(self, query: GraphQuery) -> GraphPage:
        """Return entities with their observations and relations."""
        query = query.canonical(self._rules)
        page = await self._read(query.scope.space, lambda view: reading.graph(view, query))
        if not query.listing:
            self._use(*(entity.id for entity in page.entities), *(said.id for said in page.observations))
        return _honest(page, self._opened.degraded())

    async def history(self, query: HistoryQuery) -> History:
        """Return all versions of an item or of all that is said about an entity."""
        told = await self._read(query.scope.space, lambda view: reading.history(view, query))
        items: list[Item] = [*told.observations, *told.relations, *told.passages]
        self._use(*(item.id for item in items), *((told.entity.id,) if told.entity else ()))
        return _honest(told, self._opened.degraded())

    async def search(self, query: SearchQuery) -> SearchPage:
        """Find what a question is about."""
        query = query.canonical(self._rules)
        self._opened  # noqa: B018 - before anything is embedded
        asked, why = await self._ask(query.text)
        page = await self._in_thread(self._search, query, asked, why)
        self._embed_what_waits()
        return page

    async def _ask(self, text: str) -> tuple[Asked | None, str | None]:
        """Return what the embedder makes of a question, or why it is asked by its words only."""
        embedding = self._embedding
        if embedding is None or not await embedding.ready(_MODEL_SECONDS):
            return None, embedding.why_not() if embedding is not None else None
        return await ask(embedding.embedder, text)

    def _search(self, query: SearchQuery, asked: Asked | None, why: str | None) -> SearchPage:
        store, activity, index, _ = self._open_parts
        now, fusion = self._world.clock.now(), self._world.fusion

        def ask(view: View) -> SearchPage:
            behind = index.catch_up()
            lost = index.lost() if asked else None  # met by catching up
            said = "; ".join(reason for reason in (behind, store.degraded(), why, lost) if reason) or None
            return answer(query, Retrieval(index, view, activity), now, said, None if lost else asked, fusion)

        return store.read(query.scope.space, ask)

    # --- upkeep ---------------------------------------------------------------------------------

    async def export(self, request: Export) -> AsyncIterator[Commit]:
        """Yield every commit of the space, in the order of time."""
        commits = self._opened.commits(request.scope.space)
        done = object()
        while (commit := await self._in_thread(next, commits, done)) is not done:
            yield cast("Commit", commit)

    async def maintain(self, request: Maintain) -> MaintainReceipt:
        """Set damaged parts aside, or build the indexes anew; else erase what ended with its file."""
        receipt = await self._write(mending.maintain, self._open_parts, request)
        if request.reindex and self._embedding is not None:
            await self._embedding.adopt()
        return receipt

    async def health(self) -> Health:
        """Return how the store is, from its files to its index. Works on a store that can't be opened."""
        probe = await self._embedding.probe() if self._embedding is not None else None
        foreign = foreign_file(self.folder, self._settings)
        waiting = self._embedding.waiting if self._embedding is not None else None
        return await asyncio.to_thread(health.examine, self.folder, self._parts, foreign, probe, waiting)


def _close(parts: Parts | None) -> None:
    if parts is not None:
        parts.close()


def _honest(answer: A, degraded: str | None) -> A:
    """Return an answer that says what could not be read, if anything."""
    return answer if degraded is None else answer.model_copy(update={"degraded": degraded})


def _number(text: str) -> int:
    try:
        if abs(number := int(text)) <= _FIRST:
            return number
    except ValueError:
        pass
    raise InvalidRequest("the cursor is not one that a scan returned; start again without it")
