"""Export and restore: a copy answers every question as the original does."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import equal, refused, true
from rawthink_conformance.reference import ReferenceProvider
from rawthink_conformance.talking import EVERY_STATUS
from rawthink_core.commits import decode, encode
from rawthink_core.errors import InvalidRequest
from rawthink_core.model import Passage

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench
    from rawthink_conformance.talking import Space

QUESTIONS = ("cache", "why not write-through", "部署", "istanbul", "Synology backup", "valkey")


async def _lived_in(bench: Bench, space: Space) -> None:
    """Write something with every verb, so that a copy has all sorts of rows to carry."""
    await space.record(
        entities=[
            {"name": "İstanbul", "entity_type": "thing", "domain": "history", "aliases": ["Constantinople"]},
            {"name": "cache", "entity_type": "decision", "domain": "software"},
        ],
        observations=[
            {"entity": "cache", "kind": "decided", "text": "write-through"},
            {"entity": "cache", "kind": "rejected", "text": "read-through — too early"},
            {
                "entity": "İstanbul",
                "text": "was the capital",
                "valid_from": "1453-05-29",
                "valid_to": "1923-10-13",
            },
        ],
        provenance={"host": "cli", "client": "me"},
    )
    bench.clock.tick(timedelta(days=1))
    await space.say("cache", "read-through", kind="decided")
    await space.record(entities=[{"name": "Istanbul", "epistemic": "assertion"}])
    await space.turn("talk", "今天讨论了部署方案", "backup of the Synology", speaker="张三")
    await space.record(passages=[{"session": "talk", "key": "m", "text": "draft"}])
    bench.clock.tick(timedelta(days=1))
    await space.record(passages=[{"session": "talk", "key": "m", "text": "final cache"}])
    await space.create("Redis", "App")
    (link,) = (await space.record(relations=[{"source": "Redis", "type": "used_by", "target": "App"}])).ids(
        "relation"
    )
    await space.revise({"entity": "Redis"}, fields={"name": "Valkey"}, reason="licence")
    await space.revise({"id": link}, cause="changed", reason="gone")
    await space.say("cache", "a slip")
    await space.forget(ids=[(await space.search("slip", items=["observation"])).items[0].id])


async def answers(space: Space) -> dict[str, object]:
    """Return what the verbs answer, in a form in which two providers can be compared."""
    items = await space.scan(statuses=EVERY_STATUS)
    ids = [item.id for item in items]
    times = sorted({item.recorded_at for item in items})
    return {
        "scan": items,
        "get": await space.get(*ids),
        "past": [await space.get(*ids, as_of=moment) for moment in times[:3]],
        "graph": await space.graph(ids=ids, depth=3, statuses=EVERY_STATUS),
        "history": [await space.history(id=item) for item in ids],
        "names": await space.get(names=["Constantinople", "redis", "CACHE"]),
    }


async def _found(space: Space) -> dict[str, set[str]]:
    return {
        question: {hit.id for hit in (await space.search(question, statuses=EVERY_STATUS, limit=50)).items}
        for question in QUESTIONS
    }


@check("export.restores")
async def a_copy_answers_alike(bench: Bench) -> None:
    """An export restored into an empty store of the same provider gives equal answers of every verb."""
    space = bench.space("team")
    await _lived_in(bench, space)
    copy = bench.space("team", await bench.open(bench.new_world("copy")))
    commits = await space.export()
    receipt = await copy.restore(commits)
    equal((receipt.restored, receipt.skipped), (len(commits), 0), "the receipt")
    await _compare(space, copy)
    equal(
        [commit.rows for commit in await copy.export()], [c.rows for c in commits], "the export of the copy"
    )


@check("export.portable")
async def a_copy_elsewhere_answers_alike(bench: Bench) -> None:
    """An export goes through its text form into the reference provider and back, and answers alike."""
    space = bench.space("team")
    await _lived_in(bench, space)
    reference = ReferenceProvider(bench.new_world("reference"))
    await reference.open()
    there = bench.space("team", reference)
    await there.restore([decode(encode(commit)) for commit in await space.export()])  # type: ignore[misc] # commits only
    await _compare(space, there)
    back = bench.space("team", await bench.open(bench.new_world("back")))
    await back.restore(await there.export())
    await _compare(space, back)
    await reference.close()


async def _compare(one: Space, other: Space) -> None:
    mine, theirs = await answers(one), await answers(other)
    for verb, answer in mine.items():
        equal(theirs[verb], answer, f"{verb} of the copy")
    equal(await _found(other), await _found(one), "search in the copy")


@check("export.order")
async def commits_come_in_order(bench: Bench) -> None:
    """An export holds every commit of its space in the order of time, and no other space's."""
    space, other = bench.spaces("team", "team 2")
    await other.turn("talk", "of another space")
    for number in range(5):
        await space.turn("talk", f"turn {number}")
    commits = await space.export()
    equal([commit.space for commit in commits], ["team"] * 5, "spaces")
    times = [commit.at for commit in commits]
    equal(times, sorted(set(times)), "times")
    equal([row["text"] for commit in commits for row in commit.rows], [f"turn {n}" for n in range(5)], "rows")


@check("restore.again")
async def restoring_twice_adds_nothing(bench: Bench) -> None:
    """Commits that are there are skipped, so a restore may be repeated or resumed."""
    space = bench.space("team")
    await space.turn("talk", "one")
    await space.turn("talk", "two")
    commits = await space.export()
    copy = bench.space("team", await bench.open(bench.new_world("copy")))
    await copy.restore(commits[:1])
    receipt = await copy.restore(commits)
    equal((receipt.restored, receipt.skipped), (1, 1), "a resumed restore")
    receipt = await copy.restore(commits)
    equal((receipt.restored, receipt.skipped), (0, 2), "a repeated restore")
    equal(await copy.said(), ["one", "two"], "what is stored")
    first = commits[0]
    again = copy.batch(id=first.id, passages=[{"session": "talk", "text": "one"}])
    equal((await copy.record(again)).ids(), [row["id"] for row in first.rows], "a batch that was restored")


@check("restore.space")
async def commits_of_another_space(bench: Bench) -> None:
    """Commits of another space are refused, and none of them is written."""
    space, other = bench.spaces("team", "team 2")
    await space.turn("talk", "one")
    await refused(InvalidRequest, other.restore(await space.export()), "commits of another space")
    equal(await other.said(), [], "what was restored of them")


@check("restore.times")
async def restored_times_are_kept(bench: Bench) -> None:
    """Restored items keep their times; what is recorded later is later than all of them."""
    space = bench.space("team")
    (old,) = await space.turn("talk", "one")
    recorded = (await space.one(Passage, old)).recorded_at
    commits = await space.export()
    bench.clock.tick(timedelta(days=-30))
    copy = bench.space("team", await bench.open(bench.new_world("copy")))
    await copy.restore(commits)
    equal((await copy.one(Passage, old)).recorded_at, recorded, "the time of a restored passage")
    (new,) = await copy.turn("talk", "two")
    found = await copy.one(Passage, new)
    true(found.recorded_at > recorded, f"{found.recorded_at} is not after what was restored ({recorded})")
    equal(found.ordinal, 1, "the place after what was restored")
