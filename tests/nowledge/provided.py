"""What the tests of the provider share: memories on an emulator, and what was sent to it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime

from rawthink_core.clock import CountingIds, ManualClock
from rawthink_core.memory import Memory
from rawthink_core.provider import World
from rawthink_nowledge.provider import NowledgeProvider
from rawthink_nowledge.settings import NowledgeSettings

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
EVERY = ("active", "ended", "invalidated")


def thing(name, **more):
    return {"name": name, "entity_type": "thing", "domain": "software", **more}


def provider_on(server, folder, *, clock=None, timezone="UTC", ids="ours", **settings):
    """Return a provider on an emulator, not opened yet."""
    world = World(
        path=folder / "path",
        clock=clock or ManualClock(START),
        ids=CountingIds(ids),
        timezone=timezone,
        cache=folder / "cache",
        state=folder / "state",
    )
    return NowledgeProvider(NowledgeSettings.model_validate({"url": server.url, **settings}), world)


@asynccontextmanager
async def memory_on(server, folder, *, space="default", ids="ours", **more):
    """Open a memory on an emulator."""
    provider = provider_on(server, folder, ids=ids, **more)
    await provider.open()
    memory = Memory(provider, space=space, ids=CountingIds(f"batches of {ids}"))
    try:
        yield memory
    finally:
        await memory.close()


async def said(memory, **more):
    """Return the texts of all observations and passages, oldest first."""
    items = (await memory.scan(items=["observation", "passage"], limit=1000, **more)).items
    return [item.text for item in items]


def sent(server, line):
    """Return the bodies of the requests of a kind ("POST /memories") that an emulator got."""
    return [seen.json() for seen in server.requests if seen.line == line]


def kinds(server):
    """Return what kinds of memories of ours an emulator holds, the newest first."""
    return [memory.metadata.get("xm_kind") for memory in server.memories()]
