"""Rules 2 and 4: ids, batches sent again, and the same content said again."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rawthink_conformance.checking import check
from rawthink_conformance.expect import contains, differ, equal, lacks, refused
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.errors import BatchIdReused
from rawthink_core.identity import entity_id, observation_id, relation_id
from rawthink_core.model import Observation, Relation

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench

THING = {"entity_type": "concept", "domain": "software"}


def _story() -> list[dict[str, Any]]:
    """Return batches that make ids of every sort."""
    return [
        {
            "entities": [{"name": "İstanbul", **THING}, {"name": "Redis", "aliases": ["RDS"], **THING}],
            "observations": [
                {"entity": "Redis", "text": " is fast\n"},
                {"entity": "İstanbul", "text": "cafe\u0301", "kind": "note", "valid_from": "2025-01-15"},
            ],
            "relations": [{"source": "Redis", "type": "used_by", "target": "İstanbul"}],
            "passages": [
                {"session": "talk", "text": "今天讨论了部署方案"},
                {"session": "talk", "key": "m2", "text": "second"},
            ],
        },
        {"passages": [{"session": "talk", "key": "m2", "text": "second, edited"}]},
        {
            "revisions": [
                {
                    "targets": [{"entity": "Redis", "text": "is fast"}],
                    "successor": {"text": "is fast enough"},
                },
                {"targets": [{"source": "İstanbul", "type": "uses", "target": "Redis"}], "reason": "no more"},
            ]
        },
        {
            "observations": [{"entity": "RDS", "text": "is fast"}],
            "relations": [{"source": "İstanbul", "type": "uses", "target": "Redis"}],
        },
        {
            "entities": [
                {"name": "cache", "entity_type": "decision", "domain": "software"},
                {"name": "cache 2", "entity_type": "decision", "domain": "software", "supersedes": "cache"},
            ],
            "observations": [{"entity": "cache 2", "text": "none at all", "kind": "decided"}],
        },
    ]


@check("ids.same_everywhere")
async def ids_are_the_same_on_every_provider(bench: Bench) -> None:
    """The same batches make the same ids here and on the reference provider."""
    reference = ReferenceProvider(bench.new_world("reference"))
    await reference.open()
    here, there = bench.space("team"), bench.space("team", reference)
    for number, data in enumerate(_story()):
        mine = await here.record(here.batch(**data, id=f"b{number}"))
        theirs = await there.record(there.batch(**data, id=f"b{number}"))
        equal(mine.ids(), theirs.ids(), f"ids of batch {number}")
    await reference.close()


@check("ids.stable")
async def ids_are_for_life(bench: Bench) -> None:
    """An id names the same thing after a rename, a revision and a reopening."""
    space = bench.space()
    (said,) = await space.about("Redis", "is fast")
    (turn,) = await space.turn("talk", "hello")
    owner = (await space.entity("Redis")).id
    await space.revise({"id": owner}, fields={"name": "Valkey"})
    await space.revise({"id": said}, successor={"text": "is fast enough"})
    await bench.reopen()
    found = (await space.get(owner, said, turn)).items
    equal([item.id for item in found], [owner, said, turn], "the same ids later")
    equal((await space.one(Observation, said)).text, "is fast", "what the id of the old text names")


@check("ids.opaque")
async def anything_may_be_asked_for(bench: Bench) -> None:
    """Strings that are no ids are missing, not errors, and match nothing by pattern or injection."""
    space = bench.space()
    (said,) = await space.about("O'Brien; DROP TABLE", "x' OR 1=1 --")
    strange = ("mem-1", "../x", "%", "*", "' OR 1=1 --", '"', "记忆", "\x00", "\n", said[:-1], said + "0")
    equal((await space.get(*strange)).missing, strange, "ids that are nowhere")
    equal([item.id for item in (await space.get(said, said.upper())).items], [said], "an id in capitals")
    equal((await space.history(id=said.upper())).observations[0].id, said, "a history by an id in capitals")


@check("batch.retry")
async def a_batch_sent_again_changes_nothing(bench: Bench) -> None:
    """A batch id that was committed gives the first receipt, also after reopening and later changes."""
    space = bench.space()
    batch = space.batch(
        entities=[{"name": "Redis", **THING}],
        observations=[{"entity": "Redis", "text": "is fast"}],
        passages=[{"session": "talk", "text": "hello"}],
    )
    first = await space.record(batch)
    await space.revise({"entity": "Redis", "text": "is fast"}, reason="not so")
    before = await space.scan(statuses=["active", "ended", "invalidated"])
    for moment in ("at once", "after reopening"):
        equal(await space.record(batch), first, f"the receipt {moment}")
        equal(
            await space.scan(statuses=["active", "ended", "invalidated"]), before, f"what is stored {moment}"
        )
        await bench.reopen()


@check("batch.reused")
async def a_batch_id_is_used_once(bench: Bench) -> None:
    """The same id with other content is refused, and nothing of it is written."""
    space = bench.space()
    await space.record(id="b1", passages=[{"session": "talk", "text": "first"}])
    again = {"session": "talk", "text": "something else"}
    for moment in ("at once", "after reopening"):
        call = space.record(id="b1", passages=[again])
        await refused(BatchIdReused, call, f"another batch of the same id {moment}", "b1")
        equal(await space.texts("something else"), [], f"what was written of it {moment}")
        await bench.reopen()


@check("batch.unchanged")
async def a_batch_that_changed_nothing_is_remembered(bench: Bench) -> None:
    """A batch that found everything in place is a commit too: sent again later, it still changes nothing."""
    space = bench.space()
    (said,) = await space.about("Redis", "is fast")
    repeated = space.batch(observations=[{"entity": "Redis", "text": "is fast"}])
    first = await space.record(repeated)
    equal([item.outcome for item in first.items], ["unchanged"], "outcomes of the repetition")
    await space.revise({"id": said}, reason="not so")
    await bench.reopen()
    equal(await space.record(repeated), first, "the receipt after what it said was retired")
    equal(await space.texts("fast", items=["observation"]), [], "what stands afterwards")


@check("batch.concurrent")
async def one_batch_sent_many_times_at_once(bench: Bench) -> None:
    """One batch sent several times at once is one commit, and every sender gets its receipt."""
    space = bench.space()
    batch = space.batch(
        entities=[{"name": "Redis", **THING}], observations=[{"entity": "Redis", "text": "is fast"}]
    )
    receipts = await asyncio.gather(*(space.record(batch) for _ in range(5)))
    equal(receipts[1:], receipts[:1] * 4, "the other receipts")
    equal(len((await space.history(name="Redis")).observations), 1, "observations kept")


@check("same.once")
async def the_same_twice_is_one(bench: Bench) -> None:
    """The same content in two batches, or twice in one, is one item with one id."""
    space = bench.space()
    first = await space.about("Redis", "is fast", "is fast")
    again = await space.about("redis", "is fast")
    equal(again, first, "ids of the same observation")
    turns = await space.turn("talk", "hello", "hello")
    equal(await space.turn("talk", "hello"), turns, "ids of the same passage")
    link = [{"source": "Redis", "type": "uses", "target": "Memory"}]
    made = await space.record(entities=[{"name": "Memory", **THING}], relations=link * 2)
    same = await space.record(relations=link)
    equal(same.ids("relation"), made.ids("relation"), "ids of the same relation")
    equal([item.outcome for item in same.items], ["unchanged"], "outcome of the same relation")
    equal(sorted(await space.said()), ["hello", "is fast"], "what is stored")


@check("same.compared")
async def what_counts_as_the_same(bench: Bench) -> None:
    """Texts are compared after NFC and trimming and kept as first written; kind and begin are part of it."""
    space = bench.space()
    (first,) = await space.about("Café", " cafe\u0301 au lait\n")
    equal(await space.say("Café", "café au lait"), [first], "the same text, composed and trimmed")
    equal((await space.one(Observation, first)).text, " cafe\u0301 au lait\n", "the text as first written")
    others = [
        *(await space.say("Café", "café au lait", kind="because")),
        *(await space.say("Café", "café au lait", valid_from="2025-01-01")),
        *(await space.say("Café", "Café au lait")),
        *(await space.say("Café", "café  au lait")),
    ]
    equal(len({first, *others}), 5, "ids of other kinds, begins and spellings")
    later = await space.say("Café", "café au lait", valid_from="2025-01-01T00:00:00+00:00")
    equal(later, [others[1]], "the same begin, written otherwise")


@check("same.again")
async def said_again_after_retirement(bench: Bench) -> None:
    """What was retired and is said again is a new item, with the next id of its content."""
    space = bench.space("team")
    (first,) = await space.about("Redis", "is fast")
    await space.revise({"id": first}, reason="not so")
    (second,) = await space.say("Redis", "is fast")
    owner = entity_id("team", "Redis")
    equal(first, observation_id("team", owner, "note", "is fast", None, 0), "the first id")
    equal(second, observation_id("team", owner, "note", "is fast", None, 1), "the second id")
    equal((await space.one(Observation, first)).status, "invalidated", "the first one")
    equal(await space.texts("fast", items=["observation"]), ["is fast"], "what is found")
    await space.create("Memory")
    link = [{"source": "Redis", "type": "uses", "target": "Memory"}]
    (old,) = (await space.record(relations=link)).ids("relation")
    await space.revise({"id": old})
    (new,) = (await space.record(relations=link)).ids("relation")
    equal(new, relation_id("team", owner, "uses", entity_id("team", "Memory"), 1), "the second relation")
    equal((await space.one(Relation, old)).status, "invalidated", "the first relation")


@check("same.never_reused")
async def ids_of_forgotten_items_stay_used(bench: Bench) -> None:
    """What was forgotten and is recorded again has an id that was never used, also after reopening."""
    space = bench.space()
    (said,) = await space.about("Redis", "is fast")
    turns = [{"session": "talk", "key": "m1", "text": "hello"}]
    (turn,) = (await space.record(passages=turns)).ids("passage")
    await space.forget(ids=[said, turn])
    await bench.reopen()
    (again,) = await space.say("Redis", "is fast")
    differ(again, said, "the id of the forgotten observation")
    (anew,) = (await space.record(passages=turns)).ids("passage")
    differ(anew, turn, "the id of the forgotten passage")
    await space.forget(ids=[again])
    (third,) = await space.say("Redis", "is fast")
    lacks([said, again], third, "ids that were forgotten")
    found = await space.get(said, turn, again, third)
    equal(found.missing, (said, turn, again), "what is missing")
    contains([item.id for item in found.items], third, "what stands")
