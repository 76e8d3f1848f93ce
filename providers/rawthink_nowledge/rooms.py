"""What a provider has while it is open: the rooms of Spaces in use, the zone of the store, what was read."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

from rawthink_core.activity import Activity
from rawthink_core.errors import BackendProtocolError, UnknownSpace, quoted
from rawthink_nowledge.entries import entry_of
from rawthink_nowledge.health import numbers
from rawthink_nowledge.probe import answers_of, floor_of
from rawthink_nowledge.room import Room
from rawthink_nowledge.scribe import store_id
from rawthink_nowledge.settings import DEFAULT_SPACE
from rawthink_nowledge.writing import Instants

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rawthink_core.provider import World
    from rawthink_nowledge.api import Api
    from rawthink_nowledge.settings import NowledgeSettings

_IDS_SINCE: Final = (0, 9)  # the version from which on the server takes ids, and supersedes


class Rooms:
    """The rooms of one open provider, made as they are needed."""

    def __init__(self, api: Api, spaces: Mapping[str, str], settings: NowledgeSettings, world: World) -> None:
        self.api = api
        self.opened: dict[str, Room] = {}  # by Space of the server
        self._spaces = spaces
        self._settings = settings
        self._world = world
        self._instants = Instants(world.clock)
        self._activity = Activity(_activity_file(world.state, api.client.url, settings.store))
        self._noting: set[asyncio.Future[None]] = set()
        self._version: tuple[int, ...] = ()
        self._floor: float | None = None  # what was found out of the scores of this server
        self._settled = False  # whether the server knows the zone of this store
        self._settling = asyncio.Lock()

    async def close(self) -> None:
        """End what is under way."""
        for room in self.opened.values():
            await room.close()
        await asyncio.gather(*self._noting, return_exceptions=True)
        self._activity.close()

    # --- rooms ----------------------------------------------------------------------------------

    def of(self, space: str) -> Room:
        """Return where a space lies. Raises UnknownSpace."""
        server_space = self._spaces.get(space, self._settings.other_spaces)
        if server_space is None:
            raise UnknownSpace(
                f"space {quoted(space)} has no Space on the server: name one in [providers.nowledge.spaces], "
                f"or set other_spaces"
            )
        if server_space not in self.opened:
            shared = self._settings.other_spaces == server_space
            shared = shared or list(self._spaces.values()).count(server_space) > 1
            room = Room(self.api, server_space, self._settings, self._world, self._instants, self._activity)
            room.shared = shared
            room.early = self._version >= _IDS_SINCE
            if self._floor is not None and self._settings.min_score is None:
                room.floor = self._floor
            self.opened[server_space] = room
        return self.opened[server_space]

    # --- the store ------------------------------------------------------------------------------

    async def find_store(self) -> str:
        """Return the zone that the store was created in; empty where there is none. Raises a BackendError."""
        said = await self.api.health()
        if not {"status", "version"} & said.keys():
            raise BackendProtocolError(
                f"{self.api.client.url} answers, but not as a Nowledge Mem does; is the address right?"
            )
        self._version = numbers(said.get("version"))
        known = self._world.state, self.api.client.url, str(said.get("version"))
        self._floor = floor_of(await asyncio.to_thread(answers_of, *known))
        zone = await self._stored_zone()
        self._settled = bool(zone)
        return zone

    async def _stored_zone(self) -> str:
        store = self._settings.store
        memory = await self.api.get(store_id(store))
        entry = entry_of(memory, store) if memory is not None else None
        if entry is not None:
            return entry.zone
        if self._version >= _IDS_SINCE:
            return ""
        home = self.of(DEFAULT_SPACE)
        await home.follower.refresh()
        return home.mirror.zone()

    async def create_store(self, zone: str) -> str:
        """Let the server know the zone of the store before anything is written; return the one in use."""
        async with self._settling:
            if not self._settled:
                if stored := await self._stored_zone():
                    zone = stored
                else:
                    await self.of(DEFAULT_SPACE).writer.placer.write_manifest(zone)
                self._settled = True
            return zone

    # --- what was read --------------------------------------------------------------------------

    def use(self, *ids: str) -> None:
        """Note what was read, after the answer."""
        if not ids:
            return
        noting = asyncio.ensure_future(asyncio.to_thread(self._activity.note, ids, self._world.clock.now()))
        self._noting.add(noting)
        noting.add_done_callback(self._noting.discard)

    async def forget_use(self, *ids: str) -> None:
        """Erase what is known of the reading of items."""
        await asyncio.gather(*self._noting, return_exceptions=True)
        await asyncio.to_thread(self._activity.forget, ids)


def _activity_file(state: Path | None, url: str, store: str) -> Path | None:
    if state is None:
        return None
    of = hashlib.blake2b(f"{url} {store}".encode(), digest_size=8).hexdigest()
    return state / "nowledge" / of / "activity.sqlite"
