"""No verb holds the event loop up: other chats run in it."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rawthink_conformance.checking import check
from rawthink_conformance.expect import Broken
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rawthink_conformance.bench import Bench

MOST_LAG = 0.05  # seconds
ATTEMPTS = 6
IDLE_SECONDS = 1.0  # for which a loop without work is looked at
THOUSAND = 1_000
BASE = ("search", "health")  # verbs that no capability names


@check("load.loop")
async def the_event_loop_is_not_blocked(bench: Bench) -> None:
    """No verb keeps the event loop from its other tasks for more than 50 ms, at a thousand items a batch."""
    space, big = bench.space(), bench.space("big")
    named = [{"name": "Hub", "entity_type": "concept", "domain": "software"}]
    texts = [f"heron {n} of the reeds, with a few words more" for n in range(THOUSAND - 1)]
    writes = iter(
        space.batch(
            entities=[{**named[0], "name": f"Hub {n}"}],
            observations=[{"entity": f"Hub {n}", "text": text} for text in texts],
        )
        for n in range(ATTEMPTS)
    )
    await _within("record", lambda: space.provider.record(next(writes)))
    receipt = await big.record(
        entities=named, observations=[{"entity": "Hub", "text": text} for text in texts]
    )
    ids = receipt.ids("observation")
    info = bench.provider.info
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "search": lambda: big.search("heron reeds words", limit=100),
        "get": lambda: big.get(*ids),
        "scan": lambda: big.scan(limit=THOUSAND),
        "graph": lambda: big.graph("Hub"),
        "history": lambda: big.history(name="Hub"),
        "export": big.export,
        "health": bench.provider.health,
    }
    for verb, call in calls.items():
        if verb in BASE or info.can(Capability(verb)):
            await _within(verb, call)
    victims = iter(ids)
    await _within(
        "revise", lambda: big.revise({"id": next(victims)}, successor={"text": f"less {next(victims)}"})
    )
    if info.can(Capability.FORGET):
        await _within("forget", lambda: big.forget(ids=[next(victims)]))
    if info.can(Capability.EXPORT) and info.can(Capability.RESTORE):
        commits = await big.export()
        copies = [bench.space("big", await bench.open(bench.new_world(f"copy {n}"))) for n in range(2)]
        places = iter([*copies, *copies, *copies])
        await _within("restore", lambda: next(places).restore(commits))


async def _within(verb: str, call: Callable[[], Awaitable[object]]) -> None:
    """Require that one of a few attempts stays within the bound: a busy machine proves nothing.

    Where a loop without work is kept waiting as long, only what this one worked itself counts.
    """
    lags: list[_Lag] = []
    for _ in range(ATTEMPTS):
        lags.append(await _lag(call))
        if lags[-1].seconds <= MOST_LAG:
            return
    idle = await _lag(partial(asyncio.sleep, IDLE_SECONDS))
    if idle.seconds > MOST_LAG and min(lag.worked for lag in lags) <= MOST_LAG:
        return
    best = min(lag.seconds for lag in lags)
    raise Broken(f"{verb} kept the event loop busy for {best * 1000:.0f} ms at best, 50 ms are allowed")


class _Lag(NamedTuple):
    """The longest time for which other tasks waited, and the most that the loop worked between two looks."""

    seconds: float
    worked: float


async def _lag(call: Callable[[], Awaitable[object]]) -> _Lag:
    """Return how long other tasks had to wait while a call ran."""
    worst, worked, pause = 0.0, 0.0, 0.002

    async def beat() -> None:
        nonlocal worst, worked
        while True:
            began, work = time.perf_counter(), time.thread_time()
            await asyncio.sleep(pause)
            worst = max(worst, time.perf_counter() - began - pause)
            worked = max(worked, time.thread_time() - work)

    heart = asyncio.ensure_future(beat())
    await asyncio.sleep(2 * pause)
    try:
        await call()
        await asyncio.sleep(2 * pause)
    finally:
        heart.cancel()
        await asyncio.gather(heart, return_exceptions=True)
    return _Lag(worst, worked)
