"""Batches on a server without transactions: whole or absent, once, and finished by sending them again."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from rawthink_core.errors import (
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    BatchIdReused,
    InvalidRequest,
)
from rawthink_nowledge.faults import LimitReached
from rawthink_nowledge_emulator import Emulator

from .provided import EVERY, kinds, memory_on, said, sent, thing

pytestmark = pytest.mark.asyncio

CREATE = "POST /memories"
BATCH = {
    "batch_id": "b1",
    "entities": [thing("Redis")],
    "observations": [{"entity": "Redis", "text": f"fact {n}"} for n in range(6)],
}
FACTS = [f"fact {n}" for n in range(6)]
GENERATIONS = pytest.mark.parametrize("generation", ["0.6", "0.9", "0.10"])


async def test_an_item_is_one_memory_with_its_text_and_what_people_filter_by(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.record(
                entities=[thing("Cache")],
                observations=[
                    {"entity": "Cache", "text": "read-through", "kind": "decided", "valid_from": "2026-01-02"}
                ],
            )
        (shown,) = [m for m in server.memories() if m.metadata["xm_kind"] == "observation"]
        assert (shown.title, shown.content, shown.unit_type) == ("Cache", "read-through", "decision")
        assert shown.event_start == "2026-01-02"
        ours = {key: value for key, value in shown.metadata.items() if key.startswith("xm_")}
        assert all(isinstance(value, str) for value in ours.values())
        assert shown.metadata["xm_space"] == "default"
        assert orjson.loads(shown.metadata["xm_row"])["text"] == "read-through"


async def test_a_chat_turn_costs_one_memory(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            turn = [{"role": "user", "content": "we use Redis"}]
            await memory.after_chat(turn, "noted", session="s1")
            await memory.after_chat(turn, "noted", session="s1")
        assert kinds(server) == ["passage", "store"]


@GENERATIONS
async def test_a_batch_counts_from_its_log_on_and_not_before(tmp_path, generation):
    with Emulator(generation) as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.record(entities=[thing("Other")])
            server.fail(CREATE, "drop", after=7)  # the seven items pass, their log does not
            with pytest.raises(BackendUnavailable, match="repeat the batch with the same id"):
                await memory.record(**BATCH)
            assert kinds(server).count("observation") == 6
            assert await said(memory) == []
            async with memory_on(server, tmp_path, ids="theirs") as other:
                assert await said(other) == []
            receipt = await memory.record(**BATCH)
            assert [item.outcome for item in receipt.items] == ["created"] * 7
            assert sorted(await said(memory)) == FACTS
            assert await memory.record(**BATCH) == receipt


@GENERATIONS
@pytest.mark.parametrize("after", [0, 3, 7])
async def test_an_ambiguous_write_is_settled_by_sending_the_batch_again(tmp_path, generation, after):
    with Emulator(generation) as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.record(entities=[thing("Other")])
            before = len(sent(server, CREATE))
            server.fail(CREATE, "drop", applied=True, after=after)
            with pytest.raises(BackendUnavailable, match="It may have been carried out"):
                await memory.record(**BATCH)
            assert len(sent(server, CREATE)) - before <= 8  # none of them was sent twice
            receipt = await memory.record(**BATCH)
            assert len(receipt.items) == 7
            assert sorted(await said(memory)) == FACTS
        async with memory_on(server, tmp_path, ids="later") as later:
            assert await later.record(**BATCH) == receipt
            assert sorted(await said(later, statuses=EVERY)) == FACTS
            with pytest.raises(BatchIdReused):
                await later.record(batch_id="b1", entities=[thing("Valkey")])


@GENERATIONS
async def test_a_write_that_was_done_after_the_answer_was_given_up_is_found(tmp_path, generation):
    with Emulator(generation) as server:
        async with memory_on(server, tmp_path, write_seconds=0.3) as memory:
            await memory.record(entities=[thing("Redis")])
            server.fail(CREATE, "slow", seconds=1.0)
            note = {"batch_id": "n1", "observations": [{"entity": "Redis", "text": "is fast"}]}
            with pytest.raises(BackendTimeout, match="repeat the batch with the same id"):
                await memory.record(**note)
            receipt = await memory.record(**note)
            assert receipt.items[0].outcome == "created"
            assert await said(memory) == ["is fast"]
        assert kinds(server).count("observation") == 1


async def test_a_plan_that_is_used_up_leaves_nothing_behind_that_counts_against_it(tmp_path):
    with Emulator(free_plan=True) as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.record(entities=[thing(f"thing {n}") for n in range(10)])
            held = len(server.memories())
            with pytest.raises(LimitReached, match="upgrade its plan"):
                await memory.record(entities=[thing(f"more {n}") for n in range(30)])
            assert len(server.memories()) == held
            assert len((await memory.scan()).items) == 10


async def test_two_of_thirty_connections_are_refused(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            for n in range(30):
                if n in (7, 19):
                    server.fail(CREATE, "storage_admission_unavailable")
                await memory.record(batch_id=f"b{n}", passages=[{"session": "s", "text": f"turn {n}"}])
            assert await said(memory) == [f"turn {n}" for n in range(30)]


async def test_no_more_requests_than_allowed_run_at_once(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.record(entities=[thing("Other")])
            server.fail(CREATE, "hang", times=None, applied=True)
            before = len(sent(server, CREATE))
            task = asyncio.create_task(memory.record(**BATCH))
            await asyncio.sleep(0.3)
            assert len(sent(server, CREATE)) - before == 4
            server.heal()
            await task


async def test_a_write_that_nobody_waits_for_any_more_is_carried_through(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.record(entities=[thing("Other")])
            server.fail(CREATE, "slow", seconds=0.2, after=3)
            task = asyncio.create_task(memory.record(**BATCH))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            receipt = await memory.record(**BATCH)
            assert len(receipt.items) == 7
            assert sorted(await said(memory)) == FACTS


async def test_texts_that_no_memory_can_hold_are_refused_before_anything_is_written(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            long = "x" * 32_769
            with pytest.raises(InvalidRequest) as refused:
                await memory.record(
                    entities=[thing("Redis")],
                    observations=[{"entity": "Redis", "text": long}],
                    passages=[{"session": "s", "text": "short"}, {"session": "s", "text": long}],
                )
            assert [fault.where for fault in refused.value.faults] == [
                "observations.0.text",
                "passages.1.text",
            ]
            assert kinds(server) == ["store"]
            await memory.record(passages=[{"session": "s", "text": "ß" * 32_768}])
            assert await said(memory) == ["ß" * 32_768]


@GENERATIONS
async def test_a_server_that_goes_away_between_any_two_calls_leaves_a_batch_whole_or_absent(
    tmp_path, generation
):
    batch = {
        "batch_id": "b1",
        "entities": [thing("Valkey")],
        "observations": [{"entity": "Valkey", "text": "new"}],
        "revisions": [{"targets": [{"entity": "Redis", "text": "old"}], "successor": {"text": "older"}}],
    }
    for calls in range(14):
        with Emulator(generation) as server:
            async with memory_on(server, tmp_path, connect_seconds=0.2) as memory:
                await memory.record(
                    entities=[thing("Redis")], observations=[{"entity": "Redis", "text": "old"}]
                )
                server.fail("*", "drop", times=None, after=calls)
                failed = None
                try:
                    receipt = await memory.record(**batch)
                except BackendError as error:
                    failed = error
                server.heal()
                seen = sorted(await said(memory, statuses=EVERY))
                assert seen in (["old"], ["new", "old", "older"])
                assert failed is not None or seen != ["old"]
                receipt = await memory.record(**batch)
                assert sorted(await said(memory, statuses=EVERY)) == ["new", "old", "older"]
                assert sorted(await said(memory)) == ["new", "older"]
            async with memory_on(server, tmp_path, ids="later") as later:
                assert await later.record(**batch) == receipt
                assert sorted(await said(later)) == ["new", "older"]


async def test_the_zone_of_a_store_is_that_of_its_first_write(tmp_path):
    for generation in ("0.6", "0.10"):
        with Emulator(generation) as server:
            async with memory_on(server, tmp_path, timezone="Europe/Istanbul") as memory:
                assert kinds(server) == []
                await memory.record(entities=[thing("Redis")])
            async with memory_on(server, tmp_path, timezone="Asia/Shanghai") as memory:
                assert memory.info.timezone == "Europe/Istanbul"


async def test_several_stores_on_one_server_know_nothing_of_each_other(tmp_path):
    with Emulator() as server:
        async with (
            memory_on(server, tmp_path, store="one") as one,
            memory_on(server, tmp_path, store="two") as two,
        ):
            await one.record(batch_id="b", entities=[thing("Redis")])
            await two.record(batch_id="b", passages=[{"session": "s", "text": "hello"}])
            assert (await two.get(names=["Redis"])).missing == ("Redis",)
            assert await said(one) == []
