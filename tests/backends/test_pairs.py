"""From each of our backends to each other one and back: ids, times, chains, passages and vectors are the same."""

from __future__ import annotations

from contextlib import AsyncExitStack
from itertools import permutations

import pytest

from rawthink_conformance.toys import ToyEmbedder
from rawthink_core.commits import encode
from rawthink_core.moving import copy, survey

from .kinds import EVERY, opened

KINDS = ("reference", "local", "lancedb", "nowledge 0.9", "nowledge 0.10")
EMBEDDING = ("reference", "local", "lancedb")
QUESTIONS = ("why not write-through", "İstanbul", "猫", "kitten", "two")


async def lived_in(memory):
    """Write something with every verb, so that there are all sorts of rows to carry."""
    await memory.record_decision(
        name="cache",
        domain="software",
        decided="read-through",
        because="the write path is the bottleneck",
        rejected=["write-through — couples writes to cache health"],
    )
    await memory.record_decision(name="cache", domain="software", decided="none at all", because="simpler")
    await memory.record(
        entities=[
            {"name": "İstanbul", "entity_type": "thing", "domain": "history", "aliases": ["Constantinople"]}
        ],
        observations=[
            {
                "entity": "İstanbul",
                "text": "was the capital",
                "valid_from": "1453-05-29",
                "valid_to": "1923-10-13",
            },
            {"entity": "İstanbul", "text": "has a feline on every roof"},
        ],
        relations=[{"source": "İstanbul", "type": "used_by", "target": "cache"}],
    )
    await memory.revise([{"entity": "İstanbul"}], fields={"name": "Istanbul, city"}, reason="clearer")
    await memory.revise(
        [{"entity": "cache", "text": "none at all"}], successor={"text": "two levels"}, reason="too slow"
    )
    await memory.record(
        passages=[{"session": "talk", "key": "m1", "text": "猫 one\nline two", "speaker": "张三"}]
    )
    await memory.record(passages=[{"session": "talk", "key": "m1", "text": "猫 two"}])
    await memory.record(
        passages=[
            {
                "session": "note", "key": "n1", "text": "# Head\n\nwhat the doctor wrote about sleep", "tags": ["a", "b"],
                "origin": {"path": "qnotes/a.md", "sha256": "0" * 64, "line": 3},
            }
        ]
    )  # fmt: skip
    said = (
        await memory.record(
            entities=[{"name": "slip", "entity_type": "thing", "domain": "software"}],
            observations=[{"entity": "slip", "text": "a slip of the tongue"}],
        )
    ).ids("observation")
    await memory.forget(ids=said)


async def exported(memory):
    return b"".join([encode(commit) async for commit in memory.export()])


async def told(memory):
    """Return what the verbs answer, in a form in which two backends can be compared."""
    items = []
    cursor = None
    while True:
        page = await memory.scan(statuses=EVERY, limit=1000, cursor=cursor)
        items += page.items
        if (cursor := page.cursor) is None:
            break
    history = [(await memory.history(item_id=item.id)).model_dump(mode="json") for item in items]
    return [item.model_dump(mode="json") for item in items], history


async def carried(source, target):
    return await copy(source, target, await survey(source, target.info))


@pytest.mark.parametrize(("one", "other"), [*permutations(KINDS, 2)], ids=str)
@pytest.mark.asyncio
async def test_there_and_back_everything_is_the_same(tmp_path, one, other):
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(opened(one, tmp_path / "a"))
        b = await stack.enter_async_context(opened(other, tmp_path / "b"))
        c = await stack.enter_async_context(opened(one, tmp_path / "c"))
        await lived_in(a)
        report = await carried(a, b)
        assert report.skipped == report.left_out == 0
        await carried(b, c)
        before = await exported(a)
        assert await exported(b) == before
        assert await exported(c) == before
        assert await told(b) == await told(a)
        assert await told(c) == await told(a)
        assert (await carried(a, b)).restored == 0


@pytest.mark.parametrize(("one", "other"), [*permutations(EMBEDDING, 2)], ids=str)
@pytest.mark.asyncio
async def test_nothing_is_embedded_again_where_the_models_agree(tmp_path, one, other):
    mine, theirs = ToyEmbedder(), ToyEmbedder()
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(opened(one, tmp_path / "a", mine))
        b = await stack.enter_async_context(opened(other, tmp_path / "b", theirs))
        await lived_in(a)
        await settled(a)
        report = await carried(a, b)
        assert report.vectors > 0
        await settled(b)
        assert theirs.embedded == 0
        for question in QUESTIONS:
            ours, their = await a.search(question), await b.search(question)
            missing = {hit.text for hit in ours.items} ^ {hit.text for hit in their.items}
            assert not missing, (question, missing, [(h.text, h.score) for h in ours.items])


async def settled(memory):
    """Wait until everything has its vectors."""
    import asyncio

    for _ in range(200):
        page = await memory.search("anything")
        if not page.degraded and not (await memory.health()).pending_embeddings:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(page.degraded)
