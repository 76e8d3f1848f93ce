"""The search index heals from whatever happens to it, and an answer that is not whole says so."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from rawthink_core.clock import ManualClock
from rawthink_core.errors import BackendUnavailable
from rawthink_core.operations import Forget, Scope
from rawthink_local import building, replica, searchindex
from rawthink_local.building import Builder
from rawthink_local.engine import IndexDamaged
from rawthink_local.erasure import forget
from rawthink_local.searchindex import SearchIndex
from rawthink_local.served import ServedIndex

from .house import RULES, SPACE, START, eventually, finds, memory_at, note, python, row, store_at, thing

pytestmark = pytest.mark.asyncio


def record(root, *texts):
    with store_at(root) as store:
        for text in texts:
            store.record(note("Redis", text), RULES)


def engine_of(memory):
    return memory.provider.opened.search


def slot_of(memory) -> Path:
    return Path(engine_of(memory).place())


@pytest.fixture
def slow_builds(monkeypatch):
    """Let every backlog count as large, so that another process works it off."""
    monkeypatch.setattr(replica, "BACKLOG", 0)


async def whole(memory, words):
    """Search until the answer is whole, and return the texts of it and what was said before."""
    said = []
    end = time.monotonic() + 60
    while True:
        page = await memory.search(words, limit=100)
        if page.degraded is None:
            return [hit.text for hit in page.items], said
        said.append(page.degraded)
        assert time.monotonic() < end, said
        await asyncio.sleep(0.02)


# --- healing ----------------------------------------------------------------------------------------


async def test_what_was_written_without_the_index_is_found_by_the_next_search(tmp_path):
    async with memory_at(tmp_path) as memory:
        await memory.record(
            entities=[thing("Redis")], observations=[{"entity": "Redis", "text": "sentence one"}]
        )
        assert await finds(memory, "sentence") == ["sentence one"]
    record(tmp_path, "sentence two")
    async with memory_at(tmp_path) as memory:
        assert set(await finds(memory, "sentence")) == {"sentence one", "sentence two"}
        assert engine_of(memory).size() == 3


@pytest.mark.parametrize("what", ["files of the shard", "stamp", "slot", "root", "cache"])
async def test_an_index_that_is_deleted_while_it_is_used_is_built_anew(tmp_path, what):
    record(tmp_path, "sentence one")
    async with memory_at(tmp_path) as memory:
        assert await finds(memory, "sentence") == ["sentence one"]
        slot = slot_of(memory)
        match what:
            case "files of the shard":
                for file in (slot / "shard").rglob("*"):
                    if file.is_file():
                        file.unlink()
            case "stamp":
                (slot / "index.json").unlink()
            case "slot":
                shutil.rmtree(slot)
            case "root":
                shutil.rmtree(slot.parent)
            case "cache":
                shutil.rmtree(tmp_path / "cache")
        await memory.record(observations=[{"entity": "Redis", "text": "sentence two"}])
        assert set(await finds(memory, "sentence")) == {"sentence one", "sentence two"}
    async with memory_at(tmp_path) as memory:
        assert set(await finds(memory, "sentence")) == {"sentence one", "sentence two"}


async def test_an_index_whose_files_are_junk_is_built_anew(tmp_path):
    record(tmp_path, "sentence one")
    async with memory_at(tmp_path) as memory:
        await finds(memory, "sentence")
        slot = slot_of(memory)
    for file in (slot / "shard").rglob("*"):
        if file.is_file() and file.suffix == ".json":
            file.write_bytes(b"{")
    async with memory_at(tmp_path) as memory:
        assert await finds(memory, "sentence") == ["sentence one"]


async def test_an_engine_that_fails_in_a_search_is_asked_once_more_and_then_raises(tmp_path, monkeypatch):
    record(tmp_path, "sentence one")
    async with memory_at(tmp_path) as memory:
        assert await finds(memory, "sentence") == ["sentence one"]
        search, failures = ServedIndex.search, [IndexDamaged("it broke")]

        def broken(self, *arguments, **more):
            if failures:
                raise failures.pop()
            return search(self, *arguments, **more)

        monkeypatch.setattr(ServedIndex, "search", broken)
        assert await finds(memory, "sentence") == ["sentence one"]
        failures += [BackendUnavailable("the disk is full")]
        with pytest.raises(BackendUnavailable, match="the disk is full"):
            await memory.search("sentence")
        failures += [IndexDamaged("it broke")] * 9
        with pytest.raises(BackendUnavailable):
            await memory.search("sentence")


async def test_other_text_rules_build_the_index_anew(tmp_path, monkeypatch):
    record(tmp_path, "sentence one")
    async with memory_at(tmp_path) as memory:
        await finds(memory, "sentence")
    monkeypatch.setattr(replica, "TEXT_RULES", "of another version")
    async with memory_at(tmp_path) as memory:
        assert await finds(memory, "sentence") == ["sentence one"]
        assert engine_of(memory)._replica._index.marker()["rules"] == "of another version"


async def test_a_journal_that_was_replaced_or_repaired_is_indexed_anew(tmp_path):
    record(tmp_path, "sentence one", "sentence two", "sentence three")
    path = tmp_path / "vault" / "rawthink.jsonl"
    async with memory_at(tmp_path) as memory:
        assert len(await finds(memory, "sentence")) == 3
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([*lines[:3], b"junk\n", lines[3]]))
        page = await memory.search("sentence")
        assert len(page.items) == 3
        assert "can't be read" in page.degraded
        await memory.maintain(repair=True)
        assert len(await finds(memory, "sentence")) == 3
        path.write_bytes(b"".join(lines[:2]))
        assert await finds(memory, "sentence") == ["sentence one"]
        assert engine_of(memory).size() == 2


async def test_reindexing_deletes_what_is_derived_and_the_next_search_builds_it(tmp_path):
    record(tmp_path, "sentence one")
    async with memory_at(tmp_path) as memory:
        await finds(memory, "sentence")
        slot = slot_of(memory)
        receipt = await memory.maintain(reindex=True)
        assert len(receipt.done) == 2
        assert not slot.exists()
        assert await finds(memory, "sentence") == ["sentence one"]


# --- the other server's file ------------------------------------------------------------------------


def foreign(root, *texts):
    path = root / "vault" / "memory.jsonl"
    path.parent.mkdir(exist_ok=True)
    entity = {"type": "entity", "name": "Atlas", "entityType": "project", "observations": texts}
    path.write_text(json.dumps(entity))


async def test_a_file_that_is_read_in_place_is_found_as_it_is_now(tmp_path):
    foreign(tmp_path, "sentence one")
    async with memory_at(tmp_path) as memory:
        assert await finds(memory, "sentence") == ["sentence one"]
        foreign(tmp_path, "sentence two", "sentence three")
        assert set(await finds(memory, "sentence")) == {"sentence two", "sentence three"}
        assert engine_of(memory).size() == 3
    async with memory_at(tmp_path) as memory:
        assert set(await finds(memory, "sentence")) == {"sentence two", "sentence three"}
        index = engine_of(memory)._replica._index
        await memory.record(
            entities=[thing("mine")], observations=[{"entity": "mine", "text": "sentence four"}]
        )
        assert set(await finds(memory, "sentence")) == {"sentence two", "sentence three", "sentence four"}
        assert engine_of(memory)._replica._index is index, "adopted as it was read, so nothing was built anew"
        foreign(tmp_path, "sentence five")
        assert len(await finds(memory, "sentence")) == 3


async def test_what_another_process_adopted_meanwhile_leaves_no_old_points(tmp_path):
    foreign(tmp_path, "sentence one")
    async with memory_at(tmp_path) as memory:
        assert await finds(memory, "sentence") == ["sentence one"]
        foreign(tmp_path, "sentence two")
        async with memory_at(tmp_path) as other:
            await other.record(entities=[thing("mine")])
        assert await finds(memory, "sentence") == ["sentence two"]
        assert engine_of(memory).size() == 3  # Atlas, its sentence, mine


# --- forgetting -------------------------------------------------------------------------------------


async def test_what_another_process_forgets_is_never_found_again_and_gone_from_the_replica(tmp_path):
    record(tmp_path, "sentence one", "sentence two")
    async with memory_at(tmp_path) as memory, memory_at(tmp_path) as other:
        assert len(await finds(memory, "sentence")) == 2
        assert len(await finds(other, "sentence")) == 2
        assert slot_of(memory) != slot_of(other)
        (gone,) = [hit.id for hit in (await other.search("two")).items]
        receipt = await other.forget(ids=[gone])
        (place,) = [place for place in receipt.places if place.place == "search index"]
        assert place.outcome == "pending"
        assert "1 other process(es)" in place.note
        assert await finds(memory, "sentence") == ["sentence one"]
        assert engine_of(memory).size() == 2
        again = await other.forget(ids=[h.id for h in (await other.search("one")).items])
        await memory.search("sentence")
        assert again.ids


async def test_searches_during_a_forget_are_right_and_never_empty(tmp_path):
    record(tmp_path, *(f"sentence {n}" for n in range(30)))
    async with memory_at(tmp_path) as memory:
        items = {hit.text: hit.id for hit in (await memory.search("sentence", limit=100)).items}
        assert len(items) == 30

        async def look():
            for _ in range(8):
                found = await finds(memory, "sentence")
                assert len(found) >= 20

        async def erase():
            for n in range(10):
                await memory.forget(ids=[items[f"sentence {n}"]])

        await asyncio.gather(look(), look(), erase())
        assert len(await finds(memory, "sentence")) == 20


# --- building in another process --------------------------------------------------------------------


async def test_a_backlog_is_handed_over_and_answers_say_so_until_they_are_whole(
    tmp_path, slow_builds, monkeypatch
):
    record(tmp_path, *(f"sentence {n}" for n in range(50)))
    async with memory_at(tmp_path) as memory:
        page = await memory.search("sentence")
        assert page.degraded.startswith("index 0 of ")
        assert not page.items
        assert (await memory.graph("Redis")).degraded is None  # what needs no search does not wait
        assert "index" in row(await memory.health(), "search").detail
        monkeypatch.setattr(replica, "BACKLOG", 1 << 20)
        found, said = await whole(memory, "sentence")
        assert len(found) == 50
        assert all(text.startswith("index ") for text in said)
        assert engine_of(memory)._builder is None


async def test_the_builder_reads_the_file_of_another_server_too(tmp_path, slow_builds, monkeypatch):
    foreign(tmp_path, "sentence one", "sentence two")
    async with memory_at(tmp_path) as memory:
        assert (await memory.search("sentence")).degraded
        monkeypatch.setattr(replica, "BACKLOG", 1 << 20)
        found, _ = await whole(memory, "sentence")
        assert set(found) == {"sentence one", "sentence two"}


async def test_a_builder_that_is_killed_is_visible_and_started_again(tmp_path, slow_builds, monkeypatch):
    record(tmp_path, *(f"sentence {n}" for n in range(50)))
    async with memory_at(tmp_path) as memory:
        assert (await memory.search("sentence")).degraded
        builder = engine_of(memory)._builder
        builder._process.kill()
        builder._watcher.join()
        page = await memory.search("sentence")
        assert page.degraded == "index not built: it ended with status -9"
        assert row(await memory.health(), "search").status == "warn"
        assert engine_of(memory)._builder is builder, "not again and again"
        monkeypatch.setattr(searchindex, "_RETRY_SECONDS", 0.0)
        assert (await memory.search("sentence")).degraded.startswith("index ")
        monkeypatch.setattr(replica, "BACKLOG", 1 << 20)
        found, _ = await whole(memory, "sentence")
        assert len(found) == 50


async def test_a_builder_that_cannot_start_says_why(tmp_path, slow_builds, monkeypatch):
    record(tmp_path, "sentence one")
    monkeypatch.setattr(building, "COMMAND", ["/bin/false"])
    async with memory_at(tmp_path) as memory:
        first = await memory.search("sentence")
        engine_of(memory)._builder._watcher.join()
        second = await memory.search("sentence")
        assert first.degraded
        assert second.degraded == "index not built: it ended with status 1"
    monkeypatch.setattr(building, "COMMAND", ["/no/such/program"])
    async with memory_at(tmp_path) as memory:
        page = await memory.search("sentence")
        assert page.degraded.startswith("index not built: ")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_closing_ends_the_builder_and_leaves_no_process_or_thread(tmp_path, slow_builds):
    record(tmp_path, *(f"sentence {n}" for n in range(20)))
    before = set(threading.enumerate())
    async with memory_at(tmp_path) as memory:
        await memory.search("sentence")
        pid = engine_of(memory)._builder._process.pid
        assert alive(pid)
    assert not alive(pid), "not even as a zombie"
    eventually(lambda: not {t for t in threading.enumerate() if t.is_alive()} - before - {*_of_asyncio()})


def _of_asyncio():
    return [thread for thread in threading.enumerate() if thread.name.startswith("asyncio")]


async def test_a_builder_whose_parent_is_killed_ends_by_itself(tmp_path):
    record(tmp_path, *(f"sentence {n}" for n in range(20)))
    code = """
import asyncio
from rawthink_local import replica
replica.BACKLOG = 0

async def main():
    async with memory_at(Path(sys.argv[1])) as memory:
        await memory.search("sentence")
        builder = memory.provider.opened.search._builder
        builder._process.send_signal(19)  # it stands still, as one with much to do would seem to
        print(builder._process.pid, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""
    with python(code, tmp_path) as parent:
        pid = int(await asyncio.to_thread(parent.stdout.readline))
        parent.kill()
        parent.wait()
        os.kill(pid, signal.SIGCONT)
        await asyncio.to_thread(eventually, lambda: not alive(pid) or zombie(pid))


def zombie(pid: int) -> bool:
    """Tell whether a process is dead and only waits for whoever adopted it (in a container, maybe nobody)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def test_another_process_uses_what_the_builder_built(tmp_path, slow_builds, monkeypatch):
    record(tmp_path, *(f"sentence {n}" for n in range(20)))
    with store_at(tmp_path) as store:
        builder = Builder(store, tmp_path / "slots")
        builder._watcher.join()
        assert builder.progress() is None
        with closing(SearchIndex(store, tmp_path / "slots", ManualClock(START))) as found:
            assert found.catch_up() is None
            assert found.size() == 21


# --- manners ----------------------------------------------------------------------------------------


async def test_many_searches_and_writes_at_once_agree(tmp_path):
    async with memory_at(tmp_path) as memory:
        await memory.record(entities=[thing("Redis")])

        async def work(n):
            await memory.record(observations=[{"entity": "Redis", "text": f"sentence number{n}"}])
            assert f"sentence number{n}" in await finds(memory, f"number{n}")

        await asyncio.gather(*(work(n) for n in range(20)))
        assert len(await finds(memory, "sentence")) == 20


async def test_a_store_without_a_cache_folder_searches_in_one_of_its_own_and_deletes_it(tmp_path):
    async with memory_at(tmp_path, cache=False) as memory:
        await memory.record(
            entities=[thing("Redis")], observations=[{"entity": "Redis", "text": "sentence one"}]
        )
        assert await finds(memory, "sentence") == ["sentence one"]
        slot = slot_of(memory)
        assert slot.exists()
    assert not slot.exists()


async def test_after_close_nothing_answers_and_closing_again_is_fine(tmp_path):
    record(tmp_path, "sentence one")
    async with memory_at(tmp_path) as memory:
        await memory.search("sentence")
        await memory.close()
        for question in (memory.search("sentence"), memory.scan(), memory.record(entities=[thing("Redis")])):
            with pytest.raises(BackendUnavailable, match="not open"):
                await question
        assert (await memory.health()).status == "down"
        await memory.provider.open()
        assert await finds(memory, "sentence") == ["sentence one"]


async def test_forgetting_in_a_store_that_was_never_searched_works(tmp_path):
    record(tmp_path, "sentence one")
    with store_at(tmp_path) as store:
        gone = forget(store, Forget(scope=Scope(space=SPACE), names=("Redis", "nobody")))
        assert (len(gone.states), gone.missing) == (2, ["nobody"])


async def test_the_order_given_to_a_builder_holds_no_text(tmp_path, monkeypatch):
    record(tmp_path, "sentence one")
    seen = []
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: seen.append(a[0]) or real(*a, **k))
    with store_at(tmp_path) as store:
        Builder(store, tmp_path / "slots").stop()
    assert "sentence" not in " ".join(seen[0])
