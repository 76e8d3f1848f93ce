"""When items were last read is noted beside the store, once a day, and never in anybody's way."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import date, timedelta

import pytest

from rawthink_core.activity import Activity
from rawthink_core.clock import ManualClock

from .house import START, memory_at, thing

DAY = timedelta(days=1)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "activity.sqlite"


def writes(activity):
    """Count what is written to a store's activity."""
    return activity._db.total_changes


def test_an_item_is_noted_once_a_day(file):
    activity = Activity(file)
    activity.note(["a", "b"], START)
    before = writes(activity)
    activity.note(["a", "b"], START + DAY / 2)
    assert writes(activity) == before
    activity.note(["a"], START + DAY)
    assert activity.last_used(["a", "b", "c"]) == {"a": date(2026, 1, 2), "b": date(2026, 1, 1)}
    activity.close()


def test_it_survives_a_restart_and_is_shared_by_processes(file):
    first, second = Activity(file), Activity(file)
    first.note(["a"], START)
    assert second.last_used(["a"]) == {"a": date(2026, 1, 1)}
    second.note(["a"], START - DAY)
    assert first.last_used(["a"]) == {"a": date(2026, 1, 1)}, "the latest day counts"
    first.close()
    second.close()
    third = Activity(file)
    assert third.last_used(["a"]) == {"a": date(2026, 1, 1)}
    third.close()
    third.close()


def test_what_is_forgotten_leaves_it(file):
    activity = Activity(file)
    activity.note(["a", "b"], START)
    activity.forget(["a"])
    assert activity.last_used(["a", "b"]) == {"b": date(2026, 1, 1)}
    activity.note(["a"], START)
    assert activity.last_used(["a"]), "and may come back"
    activity.close()


def test_many_items_at_once(file):
    activity = Activity(file)
    ids = [f"item {n}" for n in range(1_200)]
    activity.note(ids, START)
    assert len(activity.last_used(ids)) == 1_200
    activity.close()


@pytest.mark.parametrize("state", ["a file in the way", "junk", "locked"])
def test_no_place_to_note_it_is_no_fault(file, state):
    file.parent.mkdir()
    holder = None
    if state == "a file in the way":
        file.mkdir()
    elif state == "junk":
        file.write_bytes(b"this is no database" * 100)
    else:
        Activity(file).close()
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
    activity = Activity(file)
    activity.note(["a"], START)
    if state != "locked":
        assert activity.last_used(["a"]), "for the life of this process"
    activity.close()
    if holder is not None:
        holder.close()


@pytest.mark.asyncio
async def test_reading_warms_and_being_found_does_not(tmp_path):
    clock = ManualClock(START)
    async with memory_at(tmp_path, clock) as memory:
        await memory.record(
            entities=[thing("Redis"), thing("Valkey")],
            observations=[
                {"entity": "Redis", "text": "sentence one"},
                {"entity": "Valkey", "text": "sentence two"},
            ],
        )
        clock.tick(30 * DAY)
        found = {hit.text: hit.id for hit in (await memory.search("sentence")).items}
        await memory.scan()
        activity = memory.provider.opened.activity
        assert activity.last_used(found.values()) == {}
        await memory.get(found["sentence two"])
        await noted(activity, found["sentence two"])
        assert [hit.text for hit in (await memory.search("sentence", items=["observation"])).items] == [
            "sentence two",
            "sentence one",
        ]
        await memory.forget(ids=[found["sentence two"]])
        assert activity.last_used(found.values()) == {}
    async with memory_at(tmp_path, clock) as memory:
        await memory.history(name="Redis")
        await noted(memory.provider.opened.activity, found["sentence one"])


async def noted(activity, item):
    for _ in range(200):
        if activity.last_used([item]):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not noted")
