"""Rule 3, receipts, and what happens when many write at once."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import contains, equal, refused, true
from rawthink_core.errors import InvalidRequest, NotFound
from rawthink_core.model import Observation, Passage, Provenance
from rawthink_core.operations import MAX_ITEMS

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench

THING = {"entity_type": "concept", "domain": "software"}


@check("write.atomic")
async def one_fault_and_nothing_is_written(bench: Bench) -> None:
    """A batch of good items and one bad one leaves no trace, now and after reopening."""
    space = bench.space()
    await space.about("Redis", "is fast")
    bad = space.batch(
        entities=[{"name": "Valkey", **THING}],
        observations=[
            {"entity": "Redis", "text": "needs memory"},
            {"entity": "Valkey", "text": "forked from it"},
            {"entity": "Nobody", "text": "does not exist"},
        ],
        passages=[{"session": "talk", "text": "we talked of valkey memory"}],
    )
    await refused(InvalidRequest, space.provider.record(bad), "a batch with a missing entity", "Nobody")
    await refused(
        (NotFound),
        space.record(
            passages=[{"session": "talk", "text": "half a batch of valkey"}],
            revisions=[{"targets": [{"entity": "Redis", "text": "never said"}]}],
        ),
        "a batch with a target that does not exist",
    )
    for moment in ("at once", "after reopening"):
        equal(await space.texts("valkey memory forked half"), [], f"what is found {moment}")
        equal((await space.get(names=["Valkey"])).missing, ("Valkey",), f"the new entity {moment}")
        equal((await space.history(name="Redis")).observations[1:], (), f"new observations {moment}")
        await bench.reopen()


@check("write.faults")
async def every_fault_is_reported(bench: Bench) -> None:
    """One refusal names everything that is wrong with a batch, and where."""
    space = bench.space()
    bad = space.batch(
        entities=[
            {"name": "One", "entity_type": "gadget", "domain": "software"},
            {"name": "Two", "entity_type": "concept", "domain": "cooking"},
            {"name": " \u200b", **THING},
        ],
        observations=[
            {"entity": "Ghost", "text": "boo"},
            {"entity": "One", "text": "  \n"},
            {"entity": "One", "text": "x", "kind": "rumour"},
            {"entity": "One", "text": "y", "valid_from": "2025-02-01", "valid_to": "2025-01-01"},
        ],
        relations=[{"source": "One", "type": "marries", "target": "Two"}],
        passages=[{"session": "s", "text": "", "visibility": "public"}],
    )
    error = await refused(InvalidRequest, space.provider.record(bad), "a batch with ten faults")
    where = [fault.where for fault in error.faults]
    for place in (
        "entities.0.entity_type",
        "entities.1.domain",
        "entities.2.name",
        "observations.0.entity",
        "observations.1.text",
        "observations.2.kind",
        "observations.3.valid_to",
        "relations.0.type",
        "passages.0.text",
        "passages.0.visibility",
    ):
        contains(where, place, "faults of the refusal")


@check("write.limits")
async def a_batch_has_a_largest_size(bench: Bench) -> None:
    """A thousand items are taken, one more is refused and says so."""
    space = bench.space()
    texts = [f"line {n} of a long import" for n in range(MAX_ITEMS + 1)]
    await refused(InvalidRequest, space.turn("big", *texts), "a batch of 1,001 items", "1000")
    equal(len(await space.turn("big", *texts[:MAX_ITEMS])), MAX_ITEMS, "items of the largest batch")
    true(await space.texts("long import", limit=1, sessions=["big"]), "what was imported must be found")


@check("write.receipt")
async def receipts_follow_the_request(bench: Bench) -> None:
    """Items of a receipt stand in the order of the request, what was retired last, each with its outcome."""
    space = bench.space()
    (old,) = await space.about("Redis", "is slow")
    await space.record(passages=[{"session": "s", "key": "m1", "text": "draft"}])
    batch = space.batch(
        entities=[{"name": "Valkey", **THING}, {"name": "Redis"}],
        observations=[{"entity": "Valkey", "text": "new"}],
        relations=[{"source": "Valkey", "type": "evolved_into", "target": "Redis"}],
        passages=[{"session": "s", "key": "m1", "text": "final"}, {"session": "s", "text": "next"}],
        revisions=[{"targets": [{"id": old}], "successor": {"text": "is fast"}}],
    )
    receipt = await space.record(batch)
    seen = [(item.kind, item.outcome) for item in receipt.items]
    promised = [
        ("entity", "created"),
        ("entity", "unchanged"),
        ("observation", "created"),
        ("relation", "created"),
        ("passage", "created"),
        ("passage", "created"),
        ("observation", "created"),
    ]
    equal(seen[:-2], promised, "what was said, in the order of the request")
    equal(sorted(seen[-2:]), [("observation", "invalidated"), ("passage", "ended")], "what was retired, last")
    equal(receipt.batch_id, batch.id, "the batch id of the receipt")
    true(
        all(item.successor for item in receipt.items[-2:]), "a retired item's receipt must name its successor"
    )
    equal(
        {item.id for item in (await space.get(*receipt.ids())).items},
        set(receipt.ids()),
        "ids of the receipt",
    )


@check("write.parallel")
async def parallel_writes_are_all_kept(bench: Bench) -> None:
    """Writes that run at the same time are all kept, and each passage has a place of its own."""
    space = bench.space()
    await space.create("Redis")

    async def write(number: int) -> None:
        await space.record(
            entities=[{"name": f"Client {number}", **THING}, {"name": "Shared", **THING}],
            observations=[{"entity": "Redis", "text": f"fact {number}"}],
            relations=[{"source": f"Client {number}", "type": "uses", "target": "Redis"}],
            passages=[{"session": "talk", "text": f"message {number}"}],
        )

    await asyncio.gather(*(write(number) for number in range(25)))
    history = await space.history(name="Redis")
    equal({said.text for said in history.observations}, {f"fact {n}" for n in range(25)}, "observations kept")
    equal(len(history.relations), 25, "relations kept")
    passages = [item for item in await space.scan(items=["passage"]) if isinstance(item, Passage)]
    equal(sorted(passage.ordinal for passage in passages), list(range(25)), "ordinals of the session")
    entities = await space.scan(items=["entity"])
    equal(len(entities), 27, "entities kept")
    equal(len({entity.recorded_at for entity in entities}), 26, "commits with times of their own")


@check("write.cancelled")
async def a_cancelled_write_is_whole_or_absent(bench: Bench) -> None:
    """A cancelled write is whole or absent, and the same batch sent again completes it."""
    space = bench.space()
    batch = space.batch(
        entities=[{"name": "Redis", **THING}],
        observations=[{"entity": "Redis", "text": f"fact {n}"} for n in range(20)],
    )
    for pauses in range(4):
        task = asyncio.ensure_future(space.provider.record(batch))
        for _ in range(pauses):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    receipt = await space.record(batch)
    equal(len(receipt.ids("observation")), 20, "observations in the receipt")
    equal(len((await space.history(name="Redis")).observations), 20, "observations kept")


@check("write.provenance")
async def provenance_is_kept(bench: Bench) -> None:
    """Who said so comes back with each item that was said."""
    space = bench.space()
    by = {
        "host": "mcp",
        "token": "laptop",
        "client": "claude 记忆",
        "session": "s1",
        "time": "2025-06-01T10:00:00Z",
    }
    receipt = await space.record(
        entities=[{"name": "Redis", **THING}],
        observations=[{"entity": "Redis", "text": "is fast"}],
        passages=[{"session": "s", "text": "hello"}],
        provenance=by,
    )
    await bench.reopen()
    for item in (await space.get(*receipt.ids())).items:
        equal(item.provenance, Provenance.model_validate(by), f"provenance of {item.id}")
    (plain,) = await space.say("Redis", "is single-threaded")
    equal((await space.one(Observation, plain)).provenance, None, "provenance where none was given")
