"""What the tests of the vault share: a folder, a memory that counts what is asked of it, and a writer of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.guard import Guard
from rawthink_core.memory import Memory
from rawthink_core.vault import Vault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Watched(ReferenceProvider):
    """The reference provider, that keeps the batches it was sent and can be made to fail."""

    def __init__(self, world):
        super().__init__(world)
        self.batches = []
        self.fail = None  # called with a batch before it is written
        self.after = None  # called with a batch after it was written, before anybody is told
        self.scans = 0

    async def record(self, batch):
        if self.fail is not None:
            self.fail(batch)
        self.batches.append(batch)
        receipt = await super().record(batch)
        if self.after is not None:
            self.after(batch)
        return receipt

    async def scan(self, request):
        self.scans += 1
        return await super().scan(request)


@pytest_asyncio.fixture
async def provider(world) -> AsyncIterator[Watched]:
    watched = Watched(world)
    await watched.open()
    yield watched
    await watched.close()


@pytest.fixture
def memory(provider) -> Memory:
    return Memory(provider)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "vault"


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def vault(folder, memory, clock, cache) -> Vault:
    return Vault(folder, memory, clock=clock, cache=cache)


@pytest.fixture
def put(folder):
    """Write files into the vault: ``put(("sessions/a.md", "text"), …)``."""

    def write(*files):
        for path, content in files:
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


@pytest.fixture
def held(memory):
    """Return the texts that the memory holds, in the order of their sessions and places."""

    async def ask(**filters):
        found, cursor = [], None
        while True:
            page = await memory.scan(items=("passage",), limit=1000, cursor=cursor, **filters)
            found += page.items
            if (cursor := page.cursor) is None:
                return sorted(found, key=lambda passage: (passage.session, passage.ordinal))

    return ask


@pytest.fixture
def guarded(provider, folder, clock, cache):
    """Make a vault whose memory has a guard of its own."""

    def make(hooks=None, secrets="warn"):
        memory = Memory(provider, guard=Guard(hooks, secrets))
        return Vault(folder, memory, clock=clock, cache=cache)

    return make
