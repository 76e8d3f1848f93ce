"""`LanceProvider`: the contract over LanceDB tables."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from rawthink_core.embedding_provider import EmbeddingProvider
from rawthink_core.provider import Capability, ProviderInfo
from rawthink_lancedb import health, mending
from rawthink_lancedb.declared import CAPABILITIES, VERSION
from rawthink_lancedb.parts import Parts, address_of, open_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.commits import Commit
    from rawthink_core.embedding import KeptVectors
    from rawthink_core.operations import Health, RestoreReceipt, Scope
    from rawthink_core.provider import World
    from rawthink_lancedb.settings import LanceSettings


class LanceProvider(EmbeddingProvider[Parts]):
    """A store of LanceDB tables: a log a space is the truth, an index a space is derived from it."""

    def __init__(self, settings: LanceSettings, world: World) -> None:
        location = address_of(settings, world)
        super().__init__(ProviderInfo("lancedb", VERSION, CAPABILITIES, location=location), world)
        self._settings = settings

    def open_store(self) -> Parts:
        """Open the parts of the store."""
        return open_parts(self._settings, self._world)

    async def open(self) -> None:
        """Open the store, creating it where there is none. Raises StoreTooNew or a BackendError."""
        await super().open()
        parts, loop = self.opened, asyncio.get_running_loop()
        parts.store.grown = parts.caretaker.written
        parts.caretaker.kept_up = lambda: loop.call_soon_threadsafe(self._caught_up)
        if parts.store.versioned is not None:
            self.info = replace(
                self.info, capabilities={**self.info.capabilities, Capability.FORGET: "deleted"}
            )

    async def restore(
        self, scope: Scope, commits: Sequence[Commit], vectors: KeptVectors | None = None
    ) -> RestoreReceipt:
        """Add commits as they are, with what another store keeps of their texts."""
        taken, store = await self._take(vectors), self.opened.store
        receipt = await super().restore(scope, commits)
        if taken:
            await self._write(store.apply, scope.space)  # while the vectors are at hand
        if any(row["op"] == "forgotten" for commit in commits for row in commit.rows):
            await self._write(mending.finish_erasures, store, scope.space)
        self._caught_up()
        return receipt

    async def health(self) -> Health:
        """Return how the store is. Works on a store that can't be opened."""
        embedder, waiting = await self._embedder_check()
        return await asyncio.to_thread(
            health.examine, self._settings, self._world, self._opened, embedder, waiting
        )
