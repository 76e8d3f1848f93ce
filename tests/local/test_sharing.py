"""Many processes, and many tasks of one, share a store: nothing is lost, and each sees the others."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack

import pytest

from rawthink_core.clock import ManualClock
from rawthink_core.commits import decode

from .house import RULES, SPACE, START, finds, memory_at, note, play, python, store_at, texts_in, thing

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the writers are forked")


@forks
def test_eight_processes_with_fifty_records_each_keep_all_in_one_order(tmp_path):
    told = play("crowd", tmp_path, 8, 50)
    assert told["written"] == told["acknowledged"]
    assert len(told["written"]) == len(set(told["written"])) == 400
    assert told["times"] == sorted(set(told["times"]))
    assert told["texts"] == 1_200


@forks
def test_of_two_processes_that_revise_one_belief_one_wins_and_the_other_learns_of_it(tmp_path):
    outcomes = play("race", tmp_path, 15)
    assert len(outcomes) == 15
    for outcome in outcomes:
        assert outcome.keys() == {"won", "lost"}
        assert outcome["won"] == outcome["lost"]


@pytest.mark.asyncio
async def test_25_records_at_once_in_one_process_are_all_kept(tmp_path):
    async with memory_at(tmp_path) as memory:
        await memory.record(entities=[thing("hub")])
        await asyncio.gather(
            *(
                memory.record(
                    entities=[thing(f"thing {n}")],
                    observations=[
                        {"entity": f"thing {n}", "text": f"says {n}"},
                        {"entity": "hub", "text": f"hears {n}"},
                    ],
                    relations=[{"source": f"thing {n}", "type": "uses", "target": "hub"}],
                )
                for n in range(25)
            )
        )
        page = await memory.graph("hub")
        assert len(page.relations) == 25
        assert {said.text for said in page.observations} == {f"hears {n}" for n in range(25)}
    lines = (tmp_path / "vault" / "rawthink.jsonl").read_bytes().splitlines()
    assert len([decode(line) for line in lines]) == 27


@pytest.mark.asyncio
async def test_what_another_process_commits_is_in_the_next_read_of_every_kind(tmp_path):
    code = """
with store_at(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    for line in sys.stdin:
        store.record(note("shared", line.strip()), RULES)
        print("written", flush=True)
"""
    async with memory_at(tmp_path) as memory:
        await memory.record(entities=[thing("shared")])
        assert await finds(memory, "sentence") == []
        with python(code, tmp_path) as other:

            async def says(text):
                if text:
                    other.stdin.write(text + "\n")
                    other.stdin.flush()
                return await asyncio.to_thread(other.stdout.readline)

            assert await says("") == "ready\n"
            for number in range(4):
                text = f"sentence number {number}"
                assert await says(text) == "written\n"
                match number:
                    case 0:
                        assert text in await finds(memory, text)
                    case 1:
                        assert text in {o.text for o in (await memory.graph("shared")).observations}
                    case 2:
                        assert text in {o.text for o in (await memory.scan(items=["observation"])).items}
                    case 3:
                        told = await memory.history(name="shared")
                        (said,) = [o for o in told.observations if o.text == text]
                        assert (await memory.get(said.id)).items == (said,)


def test_two_stores_open_in_one_process_are_as_two_processes(tmp_path):
    clock = ManualClock(START)
    with ExitStack() as stack:
        stores = [stack.enter_context(store_at(tmp_path, clock)) for _ in range(3)]
        for n in range(9):
            stores[n % 3].record(note("shared", f"says {n}"), RULES)
        for store in stores:
            assert texts_in(store) == [f"says {n}" for n in range(9)]


def test_a_batch_id_that_another_process_used_gives_its_receipt(tmp_path):
    with store_at(tmp_path) as one, store_at(tmp_path) as two:
        first = one.record(note("shared", "said", batch_id="b"), RULES)
        assert two.record(note("shared", "said", batch_id="b"), RULES) == first
        assert len(list(two.commits(SPACE))) == 1


@pytest.mark.asyncio
async def test_a_page_of_a_scan_goes_on_where_it_stopped_while_others_write(tmp_path):
    clock = ManualClock(START)
    async with memory_at(tmp_path, clock) as memory:
        for n in range(10):
            clock.tick()
            await memory.record(entities=[thing(f"thing {n}")])
        seen, cursor = [], None
        with store_at(tmp_path, clock) as other:
            while True:
                page = await memory.scan(limit=4, cursor=cursor)
                seen += [item.name for item in page.items]
                if (cursor := page.cursor) is None:
                    break
                if len(seen) < 8:
                    clock.tick()
                    other.record(note(f"late {len(seen)}"), RULES)
        assert seen == [*(f"thing {n}" for n in range(10)), "late 4"]
