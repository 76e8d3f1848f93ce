"""The provider as the subject of a conformance run on a real server: ``rawthink conform nowledge``.

Each world has a store of its own, so nothing that was there before is seen or changed; at the end all of
these stores are deleted, memory by memory. What the documents of the API leave open is asked once as well,
and kept in the user's state folder for `health`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rawthink_core.clock import RandomIds
from rawthink_core.config import load
from rawthink_core.errors import ConfigError
from rawthink_core.opening import world_of
from rawthink_nowledge.api import Api
from rawthink_nowledge.client import Client
from rawthink_nowledge.probe import keep, probe
from rawthink_nowledge.provider import NowledgeProvider
from rawthink_nowledge.settings import where

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from rawthink_core.provider import World
    from rawthink_nowledge.settings import NowledgeSettings


class _Tried(NowledgeProvider):
    """A provider that first clears away what checks before it have left: lists stay short."""

    def __init__(self, trial: Trial, settings: NowledgeSettings, world: World) -> None:
        super().__init__(settings, world)
        self._trial = trial

    async def open(self) -> None:
        """Open, once the stores of worlds that are gone are gone as well."""
        await self._trial.clear_gone()
        await super().open()


class Trial:
    """Makes providers for a conformance run, and clears away what they wrote. Runs its own event loops."""

    def __init__(self, settings: NowledgeSettings) -> None:
        if settings.url is None and not os.environ.get("NMEM_API_URL"):
            raise ConfigError(
                "a conformance run writes some thousand memories and deletes them again: name the server "
                "that it may use in NMEM_API_URL"
            )
        self._settings = settings
        self._place = where(settings)
        self._space = settings.other_spaces or settings.spaces.get("default") or self._place.space
        self._run = f"conform {uuid.uuid4().hex[:12]} "
        self._stores: dict[Path, NowledgeSettings] = {}
        self._cleared: set[Path] = set()
        asyncio.run(self._reach())

    async def _reach(self) -> None:
        """Raise a BackendError at once: a hundred checks with a wrong key would lock this machine out."""
        async with self._server() as api:
            await api.health()
            await api.page(self._space, 0, 1)

    def make_provider(self, world: World) -> NowledgeProvider:
        """Return a provider on a store that belongs to this world alone."""
        if world.path not in self._stores:
            self._stores[world.path] = self._own()
        return _Tried(self, self._stores[world.path], world)

    def make_unusable(self, world: World) -> None:
        """Let the world's store lie on a server that is not there."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
        self._stores[world.path] = self._own(url=nowhere)

    def _own(self, **more: str) -> NowledgeSettings:
        own = {"store": f"{self._run}{len(self._stores)}", "other_spaces": self._space, **more}
        return self._settings.model_copy(update=own)

    def close(self) -> dict[str, str]:
        """Delete what this run wrote, ask what the documents leave open, and return the answers."""
        return asyncio.run(self._close())

    async def clear_gone(self) -> None:
        """Delete the stores of worlds whose bench is gone."""
        gone = {path for path in self._stores if not path.parents[1].exists()} - self._cleared
        if gone:
            self._cleared |= gone
            async with self._server() as api:
                await self._clear(api, {self._stores[path].store for path in gone})

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[Api]:
        client = Client(self._place, self._settings)
        client.open()
        try:
            yield Api(client)
        finally:
            await client.close()

    async def _close(self) -> dict[str, str]:
        async with self._server() as api:
            await self._clear(api, {settings.store for settings in self._stores.values()})
            version = str((await api.health()).get("version"))
            answers = await probe(api, self._space, RandomIds())
            await asyncio.to_thread(self._keep, version, answers)
            return answers

    def _keep(self, version: str, answers: dict[str, str]) -> None:
        keep(world_of(load()).state, self._place.url, version, answers)

    async def _clear(self, api: Api, stores: set[str]) -> None:
        stores = {store for store in stores if store.startswith(self._run)}  # whatever happens, no other
        offset, more = 0, True
        while more:
            page = await api.page(self._space, offset)
            ours = [m["id"] for m in page.memories if (m.get("metadata") or {}).get("xm_store") in stores]
            await asyncio.gather(*(api.delete(memory) for memory in ours))
            offset, more = offset + len(page.memories) - len(ours), page.more
