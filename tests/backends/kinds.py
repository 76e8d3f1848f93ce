"""A memory of each of our kinds in a folder of its own, to ask all of them the same."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.clock import CountingIds, ManualClock
from rawthink_core.embedding import NoEmbedder
from rawthink_core.memory import Memory
from rawthink_core.provider import World
from rawthink_lancedb.provider import LanceProvider
from rawthink_lancedb.settings import LanceSettings
from rawthink_local.provider import LocalProvider
from rawthink_local.settings import LocalSettings
from rawthink_nowledge.provider import NowledgeProvider
from rawthink_nowledge.settings import NowledgeSettings
from rawthink_nowledge_emulator import Emulator

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("reference", "local", "lancedb", "nowledge 0.6", "nowledge 0.9", "nowledge 0.10")
EVERY = ("active", "ended", "invalidated")


@dataclass
class House:
    """Where a backend keeps what it is given: a folder, or a server."""

    world: World
    server: Emulator | None = None

    @contextmanager
    def away(self):
        """Take the backend away inside the block, and bring it back as it was."""
        if self.server is not None:
            with self.server.down():
                yield
            return
        elsewhere = self.world.path.with_name("elsewhere")
        shutil.move(self.world.path, elsewhere)
        try:
            yield
        finally:
            assert not self.world.path.exists(), "something was made anew in its place"
            shutil.move(elsewhere, self.world.path)


def world_in(folder: Path, embedder=None, ids=None):
    """Return a world whose folders all lie in one folder."""
    return World(
        path=folder / "store",
        clock=ManualClock(),
        ids=CountingIds(ids or folder.name),
        embedder=embedder or NoEmbedder(),
        timezone="UTC",
        cache=folder / "cache",
        state=folder / "state",
    )


def provider_of(kind, house):
    """Return a provider of a kind, not opened yet."""
    match kind.partition(" ")[0]:
        case "nowledge":
            given = {"url": house.server.url, "other_spaces": "default", "connect_seconds": 0.3}
            return NowledgeProvider(NowledgeSettings.model_validate(given), house.world)
        case "lancedb":
            return LanceProvider(LanceSettings(), house.world)
        case "local":
            return LocalProvider(LocalSettings(), house.world)
        case _:
            return ReferenceProvider(house.world)


@contextmanager
def house_of(kind, folder, embedder=None):
    """Make the place where a memory of a kind will lie."""
    with ExitStack() as stack:
        name, _, generation = kind.partition(" ")
        server = stack.enter_context(Emulator(generation)) if name == "nowledge" else None
        yield House(world_in(folder, embedder), server)


@asynccontextmanager
async def opened(kind, folder, embedder=None, space="team"):
    """Open a memory of a kind; its house is ``memory.house``."""
    with house_of(kind, folder, embedder) as house:
        provider = provider_of(kind, house)
        await provider.open()
        memory = Memory(provider, space=space, ids=house.world.ids)
        memory.house = house
        try:
            yield memory
        finally:
            await provider.close()
