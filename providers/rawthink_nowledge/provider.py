"""`NowledgeProvider`: the contract over the REST API of one Nowledge Mem server, of either generation."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rawthink_core import reading
from rawthink_core.config import machine_zone
from rawthink_core.errors import (
    BackendUnavailable,
    StoreDamaged,
)
from rawthink_core.graph import Rules
from rawthink_core.model import zone_named
from rawthink_core.operations import Place, Recall, ScanPage
from rawthink_core.provider import BaseProvider, ProviderInfo
from rawthink_nowledge import health, upkeep
from rawthink_nowledge.api import Api
from rawthink_nowledge.client import Client
from rawthink_nowledge.declared import VERSION, capabilities
from rawthink_nowledge.forgetting import forget
from rawthink_nowledge.rooms import Rooms
from rawthink_nowledge.settings import DEFAULT_SPACE, where
from rawthink_nowledge.threads import add_to_threads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from rawthink_core.commits import Commit
    from rawthink_core.embedding import KeptVectors
    from rawthink_core.model import Item
    from rawthink_core.operations import (
        AfterChat,
        Batch,
        BeforeChat,
        Export,
        Forget,
        ForgetReceipt,
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
    from rawthink_nowledge.room import Room
    from rawthink_nowledge.settings import NowledgeSettings

    A = TypeVar("A", Items, ScanPage, GraphPage, History)


class NowledgeProvider(BaseProvider):
    """Memories on a Nowledge Mem server. Belongs to one event loop between `open` and `close`."""

    def __init__(self, settings: NowledgeSettings, world: World) -> None:
        self._settings = settings
        self._world = world
        self.place = where(settings)
        self.spaces: Mapping[str, str] = {DEFAULT_SPACE: self.place.space} | settings.spaces
        self._rules = Rules(world.vocabulary, zone_named(world.timezone or "UTC"))
        self._client = Client(self.place, settings)  # one for life: it remembers what it was refused
        self._rooms: Rooms | None = None
        self.info = ProviderInfo(
            name="nowledge",
            version=VERSION,
            capabilities=capabilities(server_search=settings.server_search),
            location=f"{self.place.url} (store {settings.store})",
        )

    # --- life -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Find the server and the zone of the store on it. Creates nothing there. Raises a BackendError."""
        if self._rooms is not None:
            return
        self._client.open()
        rooms = None
        try:
            rooms = await asyncio.to_thread(
                Rooms, Api(self._client), self.spaces, self._settings, self._world
            )
            zone = await rooms.find_store()
        except BaseException:
            if rooms is not None:
                await rooms.close()
            await self._client.close()
            raise
        self._rooms = rooms
        self._settle(zone or self._world.timezone or str(await asyncio.to_thread(machine_zone)))

    def _settle(self, zone: str) -> None:
        self._rules = Rules(self._world.vocabulary, zone_named(zone))
        self.info = replace(self.info, timezone=zone)

    async def close(self) -> None:
        """Close all connections. May be called again."""
        rooms, self._rooms = self._rooms, None
        if rooms is not None:
            await rooms.close()
        await self._client.close()

    @property
    def _opened(self) -> Rooms:
        if self._rooms is None:
            raise BackendUnavailable(f"the memory at {self.place.url} is not open; open it first")
        return self._rooms

    async def _create_store(self) -> None:
        zone = await self._opened.create_store(self.info.timezone)
        if zone != self.info.timezone:
            self._settle(zone)

    def room(self, space: str) -> Room:
        """Return where a space lies. Raises UnknownSpace."""
        return self._opened.of(space)

    # --- writing --------------------------------------------------------------------------------

    async def record(self, batch: Batch) -> RecordReceipt:
        """Write a batch: its memories, then the log that makes them count."""
        room = self.room(batch.scope.space)
        await self._create_store()
        receipt, commit = await room.writer.record(batch, self._rules)
        await room.lifecycle.follow(commit)
        return receipt

    async def on_after_chat(self, request: AfterChat) -> RecordReceipt:
        """Store the passages of a turn; where that is set, add them to threads of their sessions as well."""
        receipt = await self.record(request.as_batch())
        if self._settings.threads:
            await add_to_threads(self._opened.api, self.room(request.scope.space).follower.space, request)
        return receipt

    async def forget(self, request: Forget) -> ForgetReceipt:
        """Delete memories on the server. What it derived from them is out of reach, and named."""
        room = self.room(request.scope.space)
        work = forget(room.writer, self._opened.api, self._world.ids, request)
        receipt = await room.writer.to_the_end(work)
        if not receipt.ids:
            return receipt
        await self._opened.forget_use(*receipt.ids)
        erased = Place(place="activity", outcome="erased")
        return receipt.model_copy(update={"places": (*receipt.places, erased)})

    async def restore(
        self,
        scope: Scope,
        commits: Sequence[Commit],
        vectors: KeptVectors | None = None,  # noqa: ARG002 - the server makes its own
    ) -> RestoreReceipt:
        """Add commits as they are."""
        room = self.room(scope.space)
        await self._create_store()
        return await room.writer.to_the_end(upkeep.restore(room, scope.space, commits))

    # --- reading --------------------------------------------------------------------------------

    async def get(self, request: Get) -> Items:
        """Return items by id and entities by name."""
        request = request.canonical(self._rules)
        room = self.room(request.scope.space)
        items = _honest(*await room.ask(request.scope.space, partial(reading.get, request=request)))
        self._opened.use(*(item.id for item in items.items))
        return items

    async def scan(self, request: Scan) -> ScanPage:
        """Return one page of everything that passes the filters, oldest first."""
        request = request.canonical(self._rules)
        room = self.room(request.scope.space)
        page, degraded = await room.ask(request.scope.space, lambda ledger: reading.scan(ledger, request))
        return _honest(page, degraded)

    async def graph(self, query: GraphQuery) -> GraphPage:
        """Return entities with their observations and relations."""
        query = query.canonical(self._rules)
        room = self.room(query.scope.space)
        page = _honest(*await room.ask(query.scope.space, partial(reading.graph, query=query)))
        if not query.listing:
            self._opened.use(
                *(entity.id for entity in page.entities), *(said.id for said in page.observations)
            )
        return page

    async def history(self, query: HistoryQuery) -> History:
        """Return all versions of an item or of all that is said about an entity."""
        room = self.room(query.scope.space)
        told = _honest(*await room.ask(query.scope.space, partial(reading.history, query=query)))
        items: list[Item] = [*told.observations, *told.relations, *told.passages]
        self._opened.use(*(item.id for item in items), *((told.entity.id,) if told.entity else ()))
        return told

    async def search(self, query: SearchQuery) -> SearchPage:
        """Find what a question is about, by its words and by the server's own search."""
        return await self.room(query.scope.space).search(query.canonical(self._rules))

    async def on_before_chat(self, request: BeforeChat) -> Recall:
        """Recall by searching, within the time that a chat has."""
        query = request.as_query().canonical(self._rules)
        page = await self.room(query.scope.space).search(query, patient=False)
        return Recall(items=page.items, degraded=page.degraded)

    # --- upkeep ---------------------------------------------------------------------------------

    async def export(self, request: Export) -> AsyncIterator[Commit]:
        """Yield every commit of the space, in the order of time. Raises where not all of it can be read."""
        room, space = self.room(request.scope.space), request.scope.space
        await room.follower.refresh()
        if room.mirror.unreadable:
            raise StoreDamaged(
                f"{len(room.mirror.unreadable)} memories can't be read, and a part would pass for the whole: "
                f"{next(iter(room.mirror.unreadable.values()))}"
            )
        for commit in await asyncio.to_thread(upkeep.commits, room, space):
            yield commit

    async def maintain(self, request: Maintain) -> MaintainReceipt:
        """Read everything again, and finish what was left undone on the server."""
        room = self.room(request.scope.space)
        return await room.writer.to_the_end(upkeep.maintain(room, self._opened.api, request))

    async def health(self) -> Health:
        """Return how the server and the store on it are. Works on one that is down, and before `open`."""
        if self._rooms is not None:
            return await health.examine(
                self, self._rooms.api, self._rooms.opened, self._settings, self._world
            )
        try:
            return await health.examine(self, Api(self._client), {}, self._settings, self._world)
        finally:
            await self._client.close()


def _honest(answer: A, degraded: str | None) -> A:
    """Return an answer that says why it may not be up to date, if so."""
    return answer if degraded is None else answer.model_copy(update={"degraded": degraded})
