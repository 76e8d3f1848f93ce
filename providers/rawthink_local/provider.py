"""`LocalProvider`: the contract over one folder. What it does of itself is to keep the search index up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from rawthink_core.config import absolute
from rawthink_core.embedding_provider import EmbeddingProvider
from rawthink_core.provider import ProviderInfo
from rawthink_local import health
from rawthink_local.declared import CAPABILITIES, VERSION
from rawthink_local.parts import Parts, foreign_file, open_parts

if TYPE_CHECKING:
    from rawthink_core.operations import Health
    from rawthink_core.provider import World
    from rawthink_local.settings import LocalSettings

_PAUSE_SECONDS = 0.2


class LocalProvider(EmbeddingProvider[Parts]):
    """A store in a folder: `rawthink.jsonl` and the files of the vault are the truth, the rest is derived."""

    patient = False  # whoever builds an index is told to stop

    def __init__(self, settings: LocalSettings, world: World) -> None:
        self.folder = absolute(settings.path) if settings.path else world.path
        super().__init__(ProviderInfo("local", VERSION, CAPABILITIES, location=str(self.folder)), world)
        self._settings = settings
        self._timer: asyncio.TimerHandle | None = None

    def open_store(self) -> Parts:
        """Open the parts of the store."""
        return open_parts(self.folder, self._settings, self._world)

    async def close(self) -> None:
        """Release everything. May be called again."""
        if self._timer is not None:
            self._timer.cancel()
        await super().close()

    def _degraded(self, store: Parts) -> str | None:
        return store.store.degraded()

    def _wrote(self) -> None:
        """Bring the search index up to date when writing pauses, so that the next search need not."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._keep_up)

    def _keep_up(self) -> None:
        if self._readers is not None and self._opened is not None:
            loop, search = asyncio.get_running_loop(), self._opened.search

            def kept_up() -> None:
                search.keep_up()
                with suppress(RuntimeError):  # the loop has ended meanwhile
                    loop.call_soon_threadsafe(self._caught_up)

            self._readers.submit(kept_up)

    async def health(self) -> Health:
        """Return how the store is, from its files to its index. Works on a store that can't be opened."""
        embedder, waiting = await self._embedder_check()
        foreign = foreign_file(self.folder, self._settings)
        return await asyncio.to_thread(health.examine, self.folder, self._opened, foreign, embedder, waiting)
