"""What the tests of the core share: a memory over the reference provider, on a clock that stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from hypothesis import settings

from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.clock import CountingIds, ManualClock
from rawthink_core.memory import Memory
from rawthink_core.provider import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


# How long an example takes says something of the machine and what else runs on it, not of the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def world(tmp_path: Path, clock: ManualClock) -> World:
    return World(path=tmp_path / "store", clock=clock, ids=CountingIds(), timezone="Asia/Shanghai")


@pytest_asyncio.fixture
async def memory(world: World) -> AsyncIterator[Memory]:
    provider = ReferenceProvider(world)
    await provider.open()
    yield Memory(provider, ids=world.ids)
    await provider.close()
