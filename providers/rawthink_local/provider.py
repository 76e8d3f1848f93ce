"""`LocalProvider`: the contract over one folder. Verbs run in worker threads, never in the event loop."""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar, cast

from rawthink_core import reading
from rawthink_core.config import absolute
from rawthink_core.errors import BackendUnavailable, InvalidRequest
from rawthink_core.graph import Rules
from rawthink_core.model import zone_named
from rawthink_core.operations import ForgetReceipt, ScanPage
from rawthink_core.provider import BaseProvider, ProviderInfo
from rawthink_core.searching import answer
from rawthink_core.selection import selection, utc
from rawthink_local import health, mending
from rawthink_local.activity import Activity
from rawthink_local.adoption import FILE, Adoption
from rawthink_local.declared import CAPABILITIES, VERSION
from rawthink_local.erasure import forget, places_of
from rawthink_local.lexical import Lexical
from rawthink_local.retrieval import Retrieval
from rawthink_local.store import Store, header_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

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
    from rawthink_local.settings import LocalSettings
    from rawthink_local.view import View

    T = TypeVar("T")
    A = TypeVar("A", Items, GraphPage, History)

_THREADS = 4
_PAUSE_SECONDS = 0.2
_FIRST = 2**63 - 1  # microseconds: before and after all that is


class LocalProvider(BaseProvider):
    """A store in a folder: `rawthink.jsonl` is the truth, everything else can be deleted."""

    def __init__(self, settings: LocalSettings, world: World) -> None:
        self._world = world
        self._settings = settings
        self.folder = absolute(settings.path) if settings.path else world.path
        self._zone = zone_named(world.timezone or "UTC")
        self._rules = Rules(world.vocabulary, self._zone)
        self._threads: ThreadPoolExecutor | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._store: Store | None = None
        self._activity: Activity | None = None
        self._lexical: Lexical | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.info = ProviderInfo(
            name="local", version=VERSION, capabilities=CAPABILITIES, location=str(self.folder)
        )

    # --- life -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the store, creating it where there is none. Raises StoreTooNew or a BackendError."""
        if self._store is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="rawthink-local")
            try:
                await self._in_thread(self._open)
            except BaseException:
                self._threads.shutdown(wait=False)
                self._threads = None
                raise
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="rawthink-local-write")

    def _open(self) -> None:
        cache, state = self._own_folder(self._world.cache), self._own_folder(self._world.state)
        store = Store(
            self.folder, cache / "rows.sqlite" if cache else None, self._world, self._settings.lock_seconds
        )
        foreign = self._foreign
        try:
            header = store.open(lambda: header_of(self._world), keep_out=foreign.exists())
            self._zone = zone_named(header.timezone)
            self._rules = Rules(self._world.vocabulary, self._zone)
            store.adoption = Adoption(
                foreign, self._settings.memory_space, self._rules, store.index, self._world.clock
            )
        except BaseException:
            store.close()
            raise
        self._store = store
        self._activity = Activity(state / "activity.sqlite" if state else None)
        self._lexical = Lexical(store, cache / "slots" if cache else None, self._world.clock)
        self.info = ProviderInfo(
            name="local",
            version=VERSION,
            capabilities=CAPABILITIES,
            location=str(self.folder),
            timezone=header.timezone,
        )

    @property
    def _foreign(self) -> Path:
        """The graph file of another server that is read in place."""
        return absolute(self._settings.memory_file) if self._settings.memory_file else self.folder / FILE

    def _own_folder(self, root: Path | None) -> Path | None:
        """Return this store's place under a folder of the user: two copies of a store never share one."""
        if root is None:
            return None
        name = hashlib.blake2b(
            str(self.folder.resolve()).encode("utf-8", "surrogatepass"), digest_size=12
        ).hexdigest()
        return root / "local" / name

    async def close(self) -> None:
        """Release everything. May be called again."""
        if self._threads is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        threads, self._threads = self._threads, None
        writer, self._writer = self._writer, None
        store, lexical, activity = self._store, self._lexical, self._activity
        self._store = self._lexical = self._activity = None

        def close() -> None:
            for part in (lexical, activity, store):
                if part is not None:
                    part.close()

        try:
            await asyncio.get_running_loop().run_in_executor(writer, close)  # after the writes before it
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
    def _opened(self) -> Store:
        if self._store is None:
            raise BackendUnavailable(f"the memory in {self.folder} is not open; open it first")
        return self._store

    def _use(self, *ids: str) -> None:
        """Note what was read, after the answer."""
        if self._threads is not None and self._activity is not None and ids:
            self._threads.submit(self._activity.note, ids, self._world.clock.now())

    # --- writing --------------------------------------------------------------------------------

    async def record(self, batch: Batch) -> RecordReceipt:
        """Write a batch in one line of the journal."""
        store = self._opened
        receipt = await self._write(store.record, batch, self._rules)
        self._keep_up_later()
        return receipt

    def _keep_up_later(self) -> None:
        """Bring the search index up to date when writing pauses, so that the next search need not."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._keep_up)

    def _keep_up(self) -> None:
        if self._threads is not None and self._lexical is not None:
            self._threads.submit(self._lexical.keep_up)

    async def restore(self, scope: Scope, commits: Sequence[Commit]) -> RestoreReceipt:
        """Add commits as they are."""
        return await self._write(self._opened.restore, scope.space, commits)

    async def forget(self, request: Forget) -> ForgetReceipt:
        """Erase items from the journal and everything derived from it."""
        store = self._opened
        erased, missing = await self._write(forget, store, request)
        places = (
            await self._in_thread(places_of, store, self._lexical, self._activity, erased) if erased else ()
        )
        return ForgetReceipt(
            ids=tuple(sorted(state.id for state in erased)), missing=tuple(missing), places=tuple(places)
        )

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
        return await self._in_thread(self._search, query.canonical(self._rules))

    def _search(self, query: SearchQuery) -> SearchPage:
        store, lexical, activity = self._opened, self._lexical, self._activity
        assert lexical is not None  # noqa: S101 - opened together with the store
        assert activity is not None  # noqa: S101 - see above
        now = self._world.clock.now()

        def ask(view: View) -> SearchPage:
            behind = lexical.catch_up()
            return answer(query, Retrieval(lexical, view, activity), now, behind or store.degraded())

        return store.read(query.scope.space, ask)

    # --- upkeep ---------------------------------------------------------------------------------

    async def export(self, request: Export) -> AsyncIterator[Commit]:
        """Yield every commit of the space, in the order of time."""
        commits = self._opened.commits(request.scope.space)
        done = object()
        while (commit := await self._in_thread(next, commits, done)) is not done:
            yield cast("Commit", commit)

    async def maintain(self, request: Maintain) -> MaintainReceipt:
        """Set damaged parts aside, or build the indexes anew."""
        return await self._write(mending.maintain, self._opened, self._lexical, request)

    async def health(self) -> Health:
        """Return how the store is, from its files to its index. Works on a store that can't be opened."""
        return await asyncio.to_thread(health.examine, self.folder, self._store, self._lexical, self._foreign)


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
