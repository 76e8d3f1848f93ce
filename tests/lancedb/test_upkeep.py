"""Many small writes leave few files, no old versions for long, and every answer as it was (B44)."""

from __future__ import annotations

import asyncio

import pytest

from rawthink_lancedb import upkeep
from rawthink_lancedb.engine import Passed
from rawthink_lancedb.mending import look_after
from rawthink_lancedb.settings import LanceSettings

from .house import EVERY, RULES, SPACE, finds, memory_at, say, store_at, tell, texts_in, turns

KEEP_NOTHING = LanceSettings(gather_every=8, keep_seconds=0)


def files(table):
    return table.ask("looking", upkeep._files)


def test_small_files_are_gathered_and_nothing_is_lost(tmp_path):
    with store_at(tmp_path) as store:
        space = store.space(SPACE)
        for number in range(20):
            store.record(turns(f"turn {number}"), RULES)
        before, commits = files(space.log.table), list(store.commits(SPACE))
        assert len(before.small) == 20
        assert upkeep.gather(space.log.table, "rid", before.small) == 40
        assert len(files(space.log.table).small) == 1
        assert list(store.commits(SPACE)) == commits
        store.record(turns("turn 20"), RULES)
        assert len(texts_in(store)) == 21
    with store_at(tmp_path) as store:
        assert len(texts_in(store)) == 21


def test_gathering_brings_nothing_back_that_was_deleted_meanwhile(tmp_path, monkeypatch):
    with store_at(tmp_path) as store:
        log = store.space(SPACE).log
        for number in range(4):
            store.record(turns(f"turn {number}"), RULES)
        real = type(log.table.handle).merge_insert
        victim = log.items()[0]

        def merge_insert(handle, key):
            monkeypatch.undo()
            with store_at(tmp_path) as other:
                other.space(SPACE).log.look()
                asyncio.run_coroutine_threadsafe  # noqa: B018 - the loop is busy: another store deletes
                other.space(SPACE).log.delete([victim])
            return real(handle, key)

        monkeypatch.setattr(type(log.table.handle), "merge_insert", merge_insert)
        upkeep.gather(log.table, "rid", files(log.table).small)
        assert log.count_of([victim]) == 0
        assert len(texts_in(store)) == 3


def test_what_is_due_is_done_once_by_whoever_passes_it():
    assert Passed(7, 8).crossed(8)
    assert not Passed(8, 9).crossed(8)
    assert Passed(3, 30).crossed(8)
    assert not Passed(5, 5).crossed(1)


@pytest.mark.parametrize("writes", [300])
def test_files_and_versions_stay_few_over_many_writes(tmp_path, writes):
    with store_at(tmp_path) as store:
        space, most = store.space(SPACE), 0
        for number in range(writes):
            store.record(turns(f"turn {number} of a talk about herons"), RULES)
            look_after(store, space, KEEP_NOTHING)
            most = max(most, len(files(space.log.table).small)) if number % 10 == 0 else most
        assert most <= 16
        folder = tmp_path / "vault" / "lancedb"
        assert len(list((folder / f"{space.log.table.name}.lance" / "_versions").iterdir())) < 100
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        assert size < 10 * sum(len(row["row"]) + 300 for row in _rows(space))
        assert len(texts_in(store)) == writes


def _rows(space):
    return space.log.table.ask("reading", lambda table: table.query().to_list(), 60) and [
        row for row in space.log.table.ask("reading", lambda table: table.query().to_list()) if row["row"]
    ]


@pytest.mark.asyncio
async def test_single_writes_and_updates_are_all_found_with_rare_and_common_words(tmp_path):
    async with memory_at(tmp_path, gather_every=8, keep_seconds=0) as memory:
        (first,) = await say(memory, "Zoo", "a quokka of number 0")
        for number in range(1, 60):
            await tell(memory, f"the heron of number {number}")
            if number % 10 == 0:
                assert await finds(memory, f"number {number}", limit=1) == [f"the heron of number {number}"]
        for number in range(20):
            receipt = await memory.revise([{"id": first}], successor={"text": f"a quokka, revised {number}"})
            (first,) = receipt.ids("observation", "created")
        assert await finds(memory, "quokka") == ["a quokka, revised 19"]
        assert len(await finds(memory, "quokka", statuses=EVERY, limit=50)) == 21
        assert len(await finds(memory, "heron", limit=100)) == 59
        store = memory.provider.opened.store
        for _ in range(100):
            if len(files(store.space(SPACE).log.table).small) <= 16:
                break
            await asyncio.sleep(0.1)
        assert len(files(store.space(SPACE).log.table).small) <= 16
        assert store.space(SPACE).index.trouble is None


@pytest.mark.asyncio
async def test_upkeep_that_fails_is_shown_and_holds_no_write_up(tmp_path, monkeypatch):
    def broken(*_args, **_more):
        raise upkeep_error

    from rawthink_core.errors import BackendUnavailable

    upkeep_error = BackendUnavailable("the disk is full; free some space and try again")
    monkeypatch.setattr("rawthink_lancedb.mending.tidy", broken)
    async with memory_at(tmp_path) as memory:
        await tell(memory, "a heron")
        for _ in range(100):
            rows = (await memory.health()).checks
            if any(row.name == "upkeep" for row in rows):
                break
            await asyncio.sleep(0.05)
        row = next(row for row in rows if row.name == "upkeep")
        assert "the disk is full" in row.detail
        assert row.status == "warn"
        await tell(memory, "another heron")
        assert set(await finds(memory, "heron")) == {"a heron", "another heron"}
