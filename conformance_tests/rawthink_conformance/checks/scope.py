"""Rule 1: a space is matched by exact equality, and nothing in another space changes an answer."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import differ, equal, refused, true
from rawthink_core.errors import NotFound
from rawthink_core.model import Observation, Passage

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench
    from rawthink_conformance.talking import Space

LOOK_ALIKES = (
    "team",
    "Team",
    "TEAM",
    "team ",
    " team",
    "tea",
    "team1",
    "team/a",
    "team:a",
    "team\x1fa",
    "team\u200b",
    "ｔｅａｍ",
    "t%",
    "*",
    "_eam",
    "..",
    "../team",
    "team'",
    "' OR 1=1 --",
    'te"am',
    "caf\u00e9",
    "cafe\u0301",
    "组/甲",
    "組/甲",
    "a" * 300,
    "a" * 301,
)


@check("scope.exact")
async def spaces_that_look_alike(bench: Bench) -> None:
    """Spaces whose names look alike hold different memories: names are compared by exact equality."""
    spaces = bench.spaces(*LOOK_ALIKES)
    for number, space in enumerate(spaces):
        await space.turn("talk", f"the shared word, and number {number}")
    for number, space in enumerate(spaces):
        mine = [f"the shared word, and number {number}"]
        equal(await space.texts("shared word"), mine, f"search in {space.name!r}")
    equal(await bench.space("team/").texts("shared word"), [], "search in a space never written to")


@check("scope.scan")
async def spaces_that_look_alike_are_scanned_apart(bench: Bench) -> None:
    """Scans have the same borders between spaces as searches."""
    spaces = bench.spaces(*LOOK_ALIKES)
    for number, space in enumerate(spaces):
        await space.about("Cache", f"number {number}")
    for number, space in enumerate(spaces):
        equal(await space.said(), [f"number {number}"], f"scan of {space.name!r}")


@check("scope.entities")
async def one_name_in_two_spaces(bench: Bench) -> None:
    """The same name in two spaces is two entities, and a change of one is none of the other."""
    here, there = bench.spaces("a", "b")
    (mine,), (theirs,) = await here.create("Redis"), await there.create("Redis")
    differ(mine, theirs, "ids of one name in two spaces")
    await here.revise({"id": mine}, fields={"name": "Valkey"}, reason="renamed")
    equal((await there.entity("Redis")).id, theirs, "the namesake")
    equal((await there.get(names=["Valkey"])).missing, ("Valkey",), "the new name in the other space")


@check("scope.ids")
async def ids_of_another_space(bench: Bench) -> None:
    """An id of another space is not found by any verb that takes one, and nothing happens to it."""
    here, there = bench.spaces("mine", "mine2")
    (said,) = await here.about("Redis", "is fast")
    (turn,) = await here.turn("talk", "hello there")
    owner = (await here.entity("Redis")).id
    equal((await there.get(said, turn, owner)).items, (), "get by ids of another space")
    await refused(NotFound, there.revise({"id": said}), "revise by an id of another space")
    await there.create("Local")
    outcome = await _try_to_say(there, owner)
    true(outcome, "an observation about an entity of another space was accepted")
    equal((await here.one(Observation, said)).status, "active", "what was revised from elsewhere")
    equal((await here.one(Passage, turn)).status, "active", "the passage")


@check("scope.forget_ids")
async def forgetting_ids_of_another_space(bench: Bench) -> None:
    """Forgetting by an id, name or session of another space erases nothing."""
    here, there = bench.spaces("mine", "Mine")
    (said,) = await here.about("Redis", "is fast")
    (turn,) = await here.turn("talk", "hello there")
    receipt = await there.forget(ids=[said, turn], names=["Redis"], sessions=["talk"])
    equal(receipt.count, 0, "items erased from another space")
    equal((await here.get(said, turn, names=["Redis"])).missing, (), "what is missing afterwards")


async def _try_to_say(space: Space, owner: str) -> bool:
    from rawthink_core.errors import InvalidRequest  # noqa: PLC0415 - one use

    try:
        await space.say(owner, "smuggled in")
    except (InvalidRequest, NotFound):
        return True
    return False


@check("scope.statistics")
async def other_spaces_leave_no_trace(bench: Bench) -> None:
    """What another space holds changes neither hits, order, scores nor total of a search."""
    here, there = bench.spaces("mine", "mine ")
    await here.turn("one", "the cache is cold", "a cache of the cache", "cold tea")
    await here.turn("two", "rust compiles slowly", "the compiler caches rust")
    await here.about("Cache", "a cache is a bet on the future")
    questions = ("cache", "cold", "rust cache", "compiler tea")
    before = [await here.search(question) for question in questions]
    for start in range(0, 200, 50):
        await there.turn("noise", *(f"cache cache cold {n}" for n in range(start, start + 50)))
    await there.about("Cache", "cold", "rust", "tea")
    for question, page in zip(questions, before, strict=True):
        after = await here.search(question)
        equal(
            [hit.id for hit in after.items],
            [hit.id for hit in page.items],
            f"hits and order for {question!r}",
        )
        equal(
            [hit.score for hit in after.items], [hit.score for hit in page.items], f"scores for {question!r}"
        )
        equal(after.total, page.total, f"total for {question!r}")


@check("scope.batches")
async def one_batch_id_in_two_spaces(bench: Bench) -> None:
    """A batch id belongs to its space: another space may use the same one."""
    here, there = bench.spaces("a", "b")
    await here.record(id="import-1", passages=[{"session": "s", "text": "from the first"}])
    await there.record(id="import-1", passages=[{"session": "s", "text": "from the second"}])
    equal(await here.texts("from first second"), ["from the first"], "the first space")
    equal(await there.texts("from first second"), ["from the second"], "the second space")


@check("scope.sessions")
async def one_session_in_two_spaces(bench: Bench) -> None:
    """Sessions of one name in two spaces share neither keys, ordinals nor neighbours."""
    here, there = bench.spaces("a", "b")
    await here.record(passages=[{"session": "s", "key": "m1", "text": "one apple"}])
    await here.turn("s", "two pears")
    receipt = await there.record(passages=[{"session": "s", "key": "m1", "text": "three plums"}])
    equal(receipt.ids("passage", "ended"), [], "passages ended by a key of another space")
    (plums,) = receipt.ids("passage")
    equal((await there.one(Passage, plums)).ordinal, 0, "the first ordinal of the other session")
    equal(sorted(await here.texts("apple")), ["one apple", "two pears"], "neighbours of the apple")


@check("scope.forget_everything")
async def everything_means_this_space(bench: Bench) -> None:
    """Forgetting everything of a space erases all of it, however much, and nothing of another."""
    alice, bob = bench.spaces("alice", "alice2")
    for start in range(0, 250, 50):
        await alice.turn("talk", *(f"memory number {n}" for n in range(start, start + 50)))
    await bob.turn("talk", *(f"memory number {n}" for n in range(5)))
    receipt = await alice.forget(everything=True)
    equal(receipt.count, 250, "items erased")
    equal(await alice.texts("memory number", limit=100), [], "what is left")
    equal(len(await bob.texts("memory number", limit=100)), 5, "what the other space has left")
