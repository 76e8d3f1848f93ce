"""Rules 3 and 14 with real processes: a second one on the same store, and one that is killed."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from rawthink_conformance.checking import check
from rawthink_conformance.expect import Broken, equal, only
from rawthink_core.model import Observation, Passage
from rawthink_core.operations import Forget, Get, SearchQuery, parse
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench
    from rawthink_conformance.elsewhere import Elsewhere
    from rawthink_conformance.talking import Space

THING = {"name": "Store", "entity_type": "concept", "domain": "software"}
MANY = 300  # items of a batch in which there is time to be killed
MOMENTS = (0.3, 0.7)  # of the time that such a batch takes


@check("crash.kept")
async def a_killed_process_loses_nothing(bench: Bench) -> None:
    """What was acknowledged is there after a kill -9 of the process that wrote it, and the store opens."""
    space = bench.space()
    await space.turn("talk", "a heron before the crash")
    await bench.close(bench.provider)
    batch = space.batch(
        entities=[THING],
        observations=[{"entity": "Store", "text": "a heron at the crash"}],
        passages=[{"session": "talk", "text": "a heron and then nothing"}],
    )
    with bench.elsewhere() as other:
        await other.call("open")
        written = await other.record(batch)
        other.kill()
    bench.provider = await bench.open()
    texts = {"a heron before the crash", "a heron at the crash", "a heron and then nothing"}
    equal(set(await space.texts("heron")), texts, "hits after the crash")
    if bench.grade(Capability.GET):
        equal((await space.get(*written.ids())).missing, (), "what was written before the crash")
    if bench.grade(Capability.IDEMPOTENT_RECORD):
        equal((await space.record(batch)).ids(), written.ids(), "the receipt of the batch, sent again")
    await space.turn("talk", "a heron after the crash")
    equal(len(await space.texts("heron")), 4, "hits after the next write")


@check("crash.whole")
async def a_killed_write_is_whole_or_absent(bench: Bench) -> None:
    """A batch in which its process was killed is whole or absent; sent again, it is complete."""
    space = bench.space()
    await space.create("Heron")
    began = time.perf_counter()
    await space.record(_many(space, "warm"))
    took = time.perf_counter() - began
    await bench.close(bench.provider)
    others = [bench.elsewhere() for _ in MOMENTS]  # they start side by side
    try:
        for moment, other in zip(MOMENTS, others, strict=True):
            word = f"killed{moment * 10:g}"
            batch = _many(space, word)
            await other.call("open")
            other.begin_record(batch)
            await asyncio.sleep(took * moment)
            other.kill()
            bench.provider = await bench.open()
            found = await _count(space, word)
            if bench.grade(Capability.ATOMIC_WRITES) and found not in (0, MANY):
                raise Broken(f"of a batch of {MANY} items, {found} are there after the crash")
            await space.record(batch)
            equal(await _count(space, word), MANY, "items of the batch, sent again after the crash")
            await bench.close(bench.provider)
    finally:
        for other in others:
            other.kill()


def _many(space: Space, word: str) -> Any:
    said = [{"entity": "Heron", "text": f"{word} number {n}"} for n in range(MANY)]
    return space.batch(observations=said)


async def _count(space: Space, word: str) -> int:
    items = (await space.history(name="Heron")).observations
    return sum(item.text.startswith(f"{word} ") for item in items)


@check("writes.second_process")
async def a_second_process_shares_the_store(bench: Bench) -> None:
    """Two processes on one store see what the other writes at their next read, and lose nothing of it."""
    here = bench.space()
    await here.create("Heron")
    with bench.elsewhere() as other:
        await other.call("open")
        for number in range(3):
            (theirs,) = (await other.record(_one(here, f"there {number}"))).ids("observation")
            equal((await here.one(Observation, theirs)).text, f"there {number}", "get, here")
            equal(await here.texts(f"there {number}", limit=1), [f"there {number}"], "search, here")
            (mine,) = (await here.record(_one(here, f"here {number}"))).ids("observation")
            found = await other.call("get", parse(Get, {"scope": here.scope, "ids": [mine]}))
            equal([item.text for item in found.items], [f"here {number}"], "get, in the other process")
            equal(await _texts(other, here, f"here {number}"), [f"here {number}"], "search, there")
        await asyncio.gather(_talk_there(other, here), _talk_here(here))
        turns = [item for item in await here.scan(items=["passage"]) if isinstance(item, Passage)]
        equal(sorted(turn.ordinal for turn in turns), list(range(20)), "ordinals of what both wrote at once")
        if bench.grade(Capability.FORGET):
            victim = only((await here.search("there 1", limit=1)).items, "hits").id
            await other.call("forget", parse(Forget, {"scope": here.scope, "ids": [victim]}))
            equal((await here.get(victim)).missing, (victim,), "get of what the other process forgot")


def _one(space: Space, text: str) -> Any:
    return space.batch(observations=[{"entity": "Heron", "text": text}])


async def _texts(other: Elsewhere, space: Space, text: str) -> list[str]:
    page = await other.call("search", parse(SearchQuery, {"scope": space.scope, "text": text, "limit": 1}))
    return [hit.text for hit in page.items]


async def _talk_there(other: Elsewhere, space: Space) -> None:
    for n in range(10):
        await other.record(space.batch(passages=[{"session": "talk", "text": f"turn {n} there"}]))


async def _talk_here(space: Space) -> None:
    for n in range(10):
        await space.turn("talk", f"turn {n} here")
