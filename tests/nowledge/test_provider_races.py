"""Several processes that write to one Space, with nothing between them but the list of memories."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from rawthink_core.clock import SystemClock
from rawthink_core.errors import AlreadyRevised, BackendTimeout, InvalidRequest
from rawthink_core.identity import successor_id
from rawthink_nowledge_emulator import Emulator

from .provided import EVERY, kinds, memory_on, said, thing

pytestmark = pytest.mark.asyncio

GENERATIONS = pytest.mark.parametrize("generation", ["0.6", "0.9", "0.10"])


async def several(stack, server, folder, number):
    """Open a memory for each of some processes."""
    return [
        await stack.enter_async_context(memory_on(server, folder, ids=f"process {n}", clock=SystemClock()))
        for n in range(number)
    ]


@GENERATIONS
async def test_of_many_revisions_of_one_belief_one_wins_and_the_others_leave_nothing(tmp_path, generation):
    with Emulator(generation) as server:
        async with AsyncExitStack() as stack:
            processes = await several(stack, server, tmp_path, 4)
            receipt = await processes[0].record(
                entities=[thing("NAS")], observations=[{"entity": "NAS", "text": "runs on Synology"}]
            )
            (old,) = receipt.ids("observation")
            outcomes = await asyncio.gather(
                *(
                    one.revise([{"id": old}], successor={"text": f"runs on number {n}"})
                    for n, one in enumerate(processes)
                ),
                return_exceptions=True,
            )
            won = [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)]
            lost = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
            assert len(won) == 1
            assert {type(each) for each in lost} == {AlreadyRevised}
            assert {each.successor for each in lost} == {successor_id(old)}
            for one in processes:
                assert sorted(await said(one, statuses=EVERY)) == sorted(
                    ["runs on Synology", f"runs on number {won[0]}"]
                )
        assert kinds(server).count("observation") == 2


@GENERATIONS
async def test_writes_of_many_processes_are_all_kept_and_each_turn_has_a_place_of_its_own(
    tmp_path, generation
):
    with Emulator(generation) as server:
        async with AsyncExitStack() as stack:
            processes = await several(stack, server, tmp_path, 3)
            await processes[0].record(entities=[thing("Redis")])

            async def write(one, number):
                for n in range(5):
                    text = f"{number}.{n}"
                    await one.record(
                        entities=[thing("Shared"), thing(f"Client {text}")],
                        observations=[{"entity": "Redis", "text": f"fact {text}"}],
                        passages=[{"session": "talk", "text": f"turn {text}"}],
                    )

            await asyncio.gather(*(write(one, n) for n, one in enumerate(processes)))
            async with memory_on(server, tmp_path, ids="later") as later:
                turns = (await later.scan(items=["passage"])).items
                assert sorted(turn.ordinal for turn in turns) == list(range(15))
                entities = (await later.scan(items=["entity"])).items
                assert len(entities) == 17
                commits = {item.recorded_at for item in (await later.scan()).items}
                assert len(commits) == 16
                assert len((await later.history(name="Redis")).observations) == 15


@GENERATIONS
async def test_one_key_of_a_session_filled_by_two_at_once_is_one_text_and_its_edit(tmp_path, generation):
    with Emulator(generation) as server:
        async with AsyncExitStack() as stack:
            processes = await several(stack, server, tmp_path, 2)
            await asyncio.gather(
                *(
                    one.record(passages=[{"session": "talk", "key": "m1", "text": f"text {n}"}])
                    for n, one in enumerate(processes)
                )
            )
            for one in processes:
                standing = await said(one)
                ended = await said(one, statuses=["ended"])
                assert sorted(standing + ended) == ["text 0", "text 1"]


@GENERATIONS
async def test_one_name_taken_by_two_at_once_is_one_entity(tmp_path, generation):
    with Emulator(generation) as server:
        async with AsyncExitStack() as stack:
            processes = await several(stack, server, tmp_path, 2)
            outcomes = await asyncio.gather(
                processes[0].record(entities=[thing("Redis", aliases=["cache"])]),
                processes[1].record(entities=[thing("Cache")]),
                return_exceptions=True,
            )
            refused = [each for each in outcomes if isinstance(each, BaseException)]
            assert all(isinstance(each, InvalidRequest) for each in refused)
            assert len((await processes[0].scan(items=["entity"])).items) == 1
            assert len((await processes[1].scan(items=["entity"])).items) == 1


async def test_one_batch_sent_by_two_processes_is_one_commit(tmp_path):
    with Emulator() as server:
        async with AsyncExitStack() as stack:
            processes = await several(stack, server, tmp_path, 2)
            batch = {"batch_id": "b", "passages": [{"session": "talk", "text": "hello"}]}
            await asyncio.gather(*(one.record(**batch) for one in processes))
            async with memory_on(server, tmp_path, ids="later") as later:
                assert await said(later, statuses=EVERY) == ["hello"]
                again = await later.record(**batch)
                assert again == await processes[0].record(**batch)


async def test_what_a_loser_wrote_and_took_back_is_forgotten_by_those_who_saw_it(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory, memory_on(server, tmp_path, ids="theirs") as reader:
            await memory.record(entities=[thing("Redis")])
            await memory.record(batch_id="lost", passages=[{"session": "s", "text": "taken back"}])
            assert await said(reader) == ["taken back"]
            (seen,) = [m for m in server.memories() if m.metadata["xm_commit"] == "lost"]
            server.background("delete", memory_id=seen.id)
            assert await said(reader) == []


def before_the_next_write(memory, monkeypatch, act):
    """Let something happen between the plan of a batch and its first request."""
    writer = memory.provider.room("default").writer
    put = writer._put

    async def late(*given):
        monkeypatch.setattr(writer, "_put", put)
        await act()
        return await put(*given)

    monkeypatch.setattr(writer, "_put", late)


def taken_back(server, batch_id):
    for seen in server.memories():
        if seen.metadata["xm_commit"] == batch_id:
            server.background("delete", memory_id=seen.id)


@GENERATIONS
async def test_a_batch_that_was_taken_back_and_comes_again_is_seen_as_another(
    tmp_path, monkeypatch, generation
):
    with Emulator(generation) as server:
        async with memory_on(server, tmp_path) as memory, memory_on(server, tmp_path, ids="theirs") as theirs:
            for text in ("x", "y"):
                await theirs.record(batch_id=text, passages=[{"session": "talk", "text": text}])
            assert await said(memory) == ["x", "y"]

            async def again():
                taken_back(server, "x")
                async with memory_on(server, tmp_path, ids="fresh") as fresh:
                    await fresh.record(batch_id="x", passages=[{"session": "talk", "text": "x"}])

            before_the_next_write(memory, monkeypatch, again)
            await memory.record(passages=[{"session": "talk", "text": "ours"}])
            turns = {item.text: item.ordinal for item in (await memory.scan(items=["passage"])).items}
            assert turns == {"y": 1, "x": 2, "ours": 3}


@GENERATIONS
async def test_what_stands_on_a_batch_that_is_taken_back_does_not_stand(tmp_path, monkeypatch, generation):
    with Emulator(generation) as server:
        async with memory_on(server, tmp_path) as memory, memory_on(server, tmp_path, ids="theirs") as theirs:
            await theirs.record(batch_id="x", entities=[thing("Valkey")])

            async def lose():
                taken_back(server, "x")

            before_the_next_write(memory, monkeypatch, lose)
            with pytest.raises(InvalidRequest, match="Valkey"):
                await memory.record(observations=[{"entity": "Valkey", "text": "is a fork"}])
            assert set(kinds(server)) <= {"store"}


async def test_whoever_loses_every_time_says_so_and_leaves_nothing(tmp_path, monkeypatch):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.record(entities=[thing("Redis")])
            held = len(server.memories())

            async def never(*_):
                return False

            monkeypatch.setattr(memory.provider.room("default").writer, "_stands", never)
            with pytest.raises(BackendTimeout, match="nothing of this batch was written"):
                await memory.record(entities=[thing("Valkey")], passages=[{"session": "s", "text": "x"}])
            assert len(server.memories()) == held
