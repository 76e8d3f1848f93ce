"""Rules 10, 11 and 14: what is declared works, what fails says so, and what was written is read."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rawthink_conformance.checking import VERBS, check
from rawthink_conformance.expect import Broken, contains, equal, only, true
from rawthink_conformance.talking import EVERY_STATUS
from rawthink_core.errors import RawThinkError, UnsupportedOperation
from rawthink_core.model import Observation
from rawthink_core.operations import Health, Maintain, parse
from rawthink_core.provider import GRADES, Capability

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rawthink_conformance.bench import Bench


@check("info.declares")
async def capabilities_are_well_formed(bench: Bench) -> None:
    """A provider has a name and a version, and declares known capabilities with known grades."""
    info = bench.provider.info
    for what, given in (("name", info.name), ("version", info.version)):
        true(given, f"a provider needs a {what}")
        true(isinstance(given, str), f"its {what} must be text, not {given!r}")
    for capability, grade in info.capabilities.items():
        contains(tuple(Capability), capability, "capabilities")
        if capability in GRADES:
            contains(GRADES[capability], grade, f"grades of `{capability}`")
        elif capability is Capability.MAX_TEXT:
            true(
                grade.isdecimal() and int(grade) > 0,
                f"`max_text` must be a number of characters, not {grade!r}",
            )
        else:
            equal(grade, "yes", f"the grade of `{capability}`")
    contains(
        info.capabilities, Capability.READ_YOUR_WRITES, "a provider must say when its writes can be read"
    )


@check("unsupported.typed")
async def verbs_agree_with_their_declaration(bench: Bench) -> None:
    """A declared verb does not refuse as unsupported; an undeclared one does, and names provider and verb."""
    space, info = bench.space(), bench.provider.info
    for capability, call in VERBS.items():
        try:
            await call(space)
        except UnsupportedOperation as error:
            true(not info.can(capability), f"`{capability}` is declared, yet refused: {error}")
            equal(error.provider, info.name, f"the provider that refuses `{capability}`")
        except RawThinkError:
            true(info.can(capability), f"`{capability}` is not declared and must be refused as unsupported")
        else:
            true(info.can(capability), f"`{capability}` is not declared, yet it answers")


@check("down.raises")
async def down_is_not_empty(bench: Bench) -> None:
    """A store that can't work raises, or marks its answers as degraded; it never answers "nothing"."""
    world = bench.new_world("down")
    bench.subject.make_unusable(world)
    try:
        provider = await bench.open(world)
    except RawThinkError:
        return
    space = bench.space(provider=provider)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "search": lambda: space.search("heron"),
        "get": lambda: space.get("an id"),
        "scan": space.scan,
        "graph": lambda: space.graph("a name"),
        "record": lambda: space.turn("talk", "is it written?"),
        "export": space.export,
    }
    for verb, call in calls.items():
        try:
            answer = await call()
        except RawThinkError:
            continue
        if not getattr(answer, "degraded", None):
            raise Broken(f"{verb} on a store that can't work answered {answer!r}")


@check("down.health")
async def health_of_a_store_that_is_down(bench: Bench) -> None:
    """Health works on a store that can't be opened, says so, and says how to mend it."""
    world = bench.new_world("down")
    bench.subject.make_unusable(world)
    provider = bench.make(world)
    try:
        health = await provider.health()
    finally:
        await provider.close()
    contains(("down", "degraded"), health.status, "the status of a store that can't be opened")
    bad = [row for row in health.checks if row.status in ("warn", "fail")]
    true(bad, "a health report that is not ok needs a row that says why")
    true(all(row.fix for row in bad), "a row that is not ok must say how to mend it")


@check("health.works")
async def health_works(bench: Bench) -> None:
    """Health of an open store is ok, says where it lies, and changes nothing."""
    space = bench.space()
    await space.turn("talk", "hello")
    health = await bench.provider.health()
    true(isinstance(health, Health), "health must return a Health")
    equal(health.status, "ok", f"the status of a good store ({health})")
    true(health.location, "a health report must say where the store lies")
    equal(await space.said(), ["hello"], "what is stored afterwards")


@check("health.absent")
async def health_creates_nothing(bench: Bench) -> None:
    """Health before the first opening creates nothing, and says where there is no store yet."""
    world = bench.new_world("absent")
    provider = bench.make(world)
    try:
        before = await provider.health()
    finally:
        await provider.close()
    made = [str(place) for place in (world.path, world.cache, world.state) if place and place.exists()]
    equal(made, [], "what health has created")
    opened = await bench.open(world)
    await bench.space(provider=opened).turn("talk", "hello")
    equal((await opened.health()).exists, True, "`exists` of an open store")
    if world.path.exists():  # it lies there, so before it did not
        equal((before.exists, before.status), (False, "down"), "health where there was no store yet")
    if not before.exists:
        bad = [row for row in before.checks if row.status == "fail"]
        true(
            bad and all(row.fix for row in bad), "a place without a store needs a row, with a way to make one"
        )
        true(before.location, "a health report must say where it looked")


@check("maintain.keeps")
async def upkeep_changes_no_answer(bench: Bench) -> None:
    """Upkeep, repair and re-indexing change no answer, and may be repeated."""
    space = bench.space()
    (said,) = await space.about("NAS", "runs on Synology")
    await space.turn("talk", "a heron", "a stork")
    await space.revise({"id": said}, successor={"text": "runs on fnOS"})
    everything = await space.scan(statuses=EVERY_STATUS)
    found = [await space.texts(word, statuses=EVERY_STATUS) for word in ("heron", "runs")]
    for what in ({}, {"reindex": True}, {"repair": True}, {"reindex": True, "repair": True}):
        for _ in range(2):
            await bench.provider.maintain(parse(Maintain, {"scope": space.scope, **what}))
            equal(await space.scan(statuses=EVERY_STATUS), everything, f"a scan after upkeep with {what}")
            again = [await space.texts(word, statuses=EVERY_STATUS) for word in ("heron", "runs")]
            equal(again, found, f"searches after upkeep with {what}")
    await bench.reopen()
    equal(await space.scan(statuses=EVERY_STATUS), everything, "a scan after upkeep and reopening")


@check("open.close_twice")
async def closing_twice_is_fine(bench: Bench) -> None:
    """A provider may be closed twice, and before it was ever opened."""
    await bench.provider.close()
    await bench.provider.close()
    fresh = bench.make(bench.new_world("never opened"))
    await fresh.close()


@check("open.reopen")
async def reopening_sees_everything(bench: Bench) -> None:
    """What was written is there after closing and opening again."""
    space = bench.space()
    for number in range(3):
        await space.about(f"Entity {number}", f"heron fact {number}")
        await space.turn("talk", f"heron turn {number}")
        await bench.reopen()
    texts = {f"heron {kind} {n}" for kind in ("fact", "turn") for n in range(3)}
    equal(set(await space.said()), texts, "a scan after reopening")
    equal(set(await space.texts("heron")), texts, "a search after reopening")
    equal((await space.get(names=[f"Entity {n}" for n in range(3)])).missing, (), "entities after reopening")


@check("writes.read")
async def writes_are_read(bench: Bench) -> None:
    """After a write returns, get, scan, search, graph and history agree on it."""
    space = bench.space()
    (said,) = await space.about("NAS", "the heron text")
    await _agree(bench, said, "the heron text")
    await space.revise({"id": said}, successor={"text": "the stork text"})
    new = only((await space.search("stork")).items, "hits for the successor").id
    await _agree(bench, new, "the stork text")
    equal((await space.one(Observation, said)).status, "invalidated", "what was revised")
    if Capability.FORGET in bench.provider.info.capabilities:
        await space.forget(ids=[new])
        equal((await space.get(new)).missing, (new,), "get of what was forgotten")
        equal((await space.search("stork", statuses=EVERY_STATUS)).items, (), "search for what was forgotten")


async def _agree(bench: Bench, item: str, text: str) -> None:
    space = bench.space()
    equal((await space.one(Observation, item)).text, text, "get")
    equal(await space.said(), [text], "scan")
    equal(await space.texts("text"), [text], "search")
    equal([said.text for said in (await space.graph("NAS")).observations], [text], "graph")
    contains([said.id for said in (await space.history(name="NAS")).observations], item, "history")


@check("writes.second_instance")
async def another_process_sees_writes(bench: Bench) -> None:
    """Two instances on one store see what the other writes at their next read."""
    first, second = bench.space(), bench.space(provider=await bench.open())
    for number in range(3):
        (one,) = await first.about(f"First {number}", f"heron {number} of the first")
        equal((await second.one(Observation, one)).text, f"heron {number} of the first", "get by the second")
        equal(
            await second.texts(f"heron {number}", limit=1),
            [f"heron {number} of the first"],
            "search by the second",
        )
        (two,) = await second.about(f"Second {number}", f"stork {number} of the second")
        equal((await first.one(Observation, two)).text, f"stork {number} of the second", "get by the first")
        equal(
            await first.texts(f"stork {number}", limit=1),
            [f"stork {number} of the second"],
            "search by the first",
        )
    await asyncio.gather(
        *(space.turn("talk", f"turn {n} of {id(space)}") for n in range(10) for space in (first, second))
    )
    for space in (first, second):
        equal(len(await space.scan(items=["passage"])), 20, "passages that two wrote at once")
    victim = only((await first.search("heron 1", limit=1)).items, "hits")
    if Capability.FORGET in bench.provider.info.capabilities:
        await first.forget(ids=[victim.id])
        equal((await second.get(victim.id)).missing, (victim.id,), "get of what the first forgot")
        lacking = [hit.id for hit in (await second.search("heron", statuses=EVERY_STATUS)).items]
        true(victim.id not in lacking, "the second still finds what the first forgot")
