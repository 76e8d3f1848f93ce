"""What was forgotten is off the server, and where it is not yet, no verb of ours yields it."""

from __future__ import annotations

import pytest

from rawthink_core.errors import BackendUnavailable
from rawthink_nowledge_emulator import Emulator

from .provided import EVERY, memory_on, said, thing

pytestmark = pytest.mark.asyncio

GENERATIONS = pytest.mark.parametrize("generation", ["0.6", "0.9", "0.10"])
SECRET = "the heron nests at the quay"


def holders(server):
    """Return the memories of a server that hold the secret anywhere."""
    return [memory for memory in server.memories() if "heron" in repr(memory)]


async def story(memory):
    """Write the secret wherever text can be; return the ids of what holds it."""
    await memory.record(entities=[thing("Keep")], observations=[{"entity": "Keep", "text": "this stays"}])
    first = await memory.record(
        entities=[thing(f"Place of {SECRET}")],
        observations=[
            {"entity": f"Place of {SECRET}", "text": SECRET},
            {"entity": "Keep", "text": f"and {SECRET}"},
        ],
        passages=[{"session": "talk", "text": f"said: {SECRET}"}],
    )
    alone = await memory.record(passages=[{"session": "talk", "text": f"alone: {SECRET}"}])
    said_of = first.ids("observation")[0]
    more = await memory.revise(
        [{"id": said_of}], successor={"text": f"not {SECRET}"}, reason=f"why: {SECRET}"
    )
    renamed = await memory.revise([{"id": first.ids("entity")[0]}], fields={"name": f"Now {SECRET}"})
    return [*first.ids(), *alone.ids(), *more.ids(None, "created"), *renamed.ids()]


@GENERATIONS
async def test_no_memory_of_the_server_holds_what_was_forgotten(tmp_path, generation):
    with Emulator(generation) as server:
        async with memory_on(server, tmp_path) as memory:
            ids = await story(memory)
            receipt = await memory.forget(ids=ids)
            assert set(receipt.ids) == set(ids)
            assert holders(server) == []
            outcomes = {place.place: place.outcome for place in receipt.places}
            assert outcomes == {
                "Nowledge Mem": "erased",
                "derived on the server": "kept",
                "activity": "erased",
            }
            assert await said(memory, statuses=EVERY) == ["this stays"]
        async with memory_on(server, tmp_path, ids="later") as later:
            assert await said(later, statuses=EVERY) == ["this stays"]
            assert "heron" not in repr([commit async for commit in later.export()])


@GENERATIONS
async def test_everything_leaves_one_memory_behind_that_remembers_the_ids(tmp_path, generation):
    with Emulator(generation) as server:
        async with memory_on(server, tmp_path) as memory:
            batches = [
                {"batch_id": f"b{n}", "passages": [{"session": "s", "text": f"turn {n}"}]} for n in range(30)
            ]
            for batch in batches:
                await memory.record(**batch)
            assert (await memory.forget(everything=True)).count == 30
            assert len(server.memories()) == 2
            for batch in batches[:3]:
                await memory.record(**batch)
            assert await said(memory, statuses=EVERY) == []
        async with memory_on(server, tmp_path, ids="later") as later:
            await later.record(**batches[7])
            assert await said(later, statuses=EVERY) == []


async def test_entities_of_the_server_that_it_drew_from_a_memory_are_not_deleted_with_it(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.forget(ids=await story(memory))
        deletes = [seen.request for seen in server.requests if seen.request.method == "DELETE"]
        assert deletes
        assert all(dict(request.query) == {"cascade_delete": "false"} for request in deletes)


@GENERATIONS
@pytest.mark.parametrize("after", range(0, 12, 2))
async def test_what_could_not_be_deleted_is_pending_and_yielded_by_no_verb(tmp_path, generation, after):
    with Emulator(generation) as server:
        async with memory_on(server, tmp_path) as memory, memory_on(server, tmp_path, ids="theirs") as other:
            ids = await story(memory)
            await said(other)
            server.fail("DELETE *", "bad_gateway", times=None, after=after)
            receipt = await memory.forget(ids=ids)
            left = len(holders(server))
            assert [place.outcome for place in receipt.places] == [
                "pending" if left else "erased",
                "kept",
                "erased",
            ]
            for one in (memory, other):
                assert await said(one, statuses=EVERY) == ["this stays"]
                assert "heron" not in repr([commit async for commit in one.export()])
            server.heal()
            async with memory_on(server, tmp_path, ids="later") as later:
                assert await said(later, statuses=EVERY) == ["this stays"]
                await later.maintain()
            assert holders(server) == []
            assert await said(memory, statuses=EVERY) == ["this stays"]


async def test_a_forget_whose_mark_was_not_written_has_done_nothing(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            ids = await story(memory)
            held = len(holders(server))
            server.fail("POST /memories", "drop")
            with pytest.raises(BackendUnavailable):
                await memory.forget(ids=ids)
            assert len(holders(server)) == held
            assert len((await memory.get(*ids)).items) == len(set(ids))


async def test_an_entity_may_come_back_after_it_was_forgotten(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            for text in ("first life", "second life"):
                await memory.record(entities=[thing("Bird")], observations=[{"entity": "Bird", "text": text}])
                assert await said(memory) == [text]
                await memory.maintain()
                assert await said(memory) == [text]
                await memory.forget(names=["Bird"])
                assert await said(memory, statuses=EVERY) == []
            assert holders(server) == []
            await memory.record(entities=[thing("Bird")])
        async with memory_on(server, tmp_path, ids="later") as later:
            assert (await later.get(names=["Bird"])).missing == ()
