"""Health says of every part how it is and how to mend it, also where nothing works."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from rawthink_core.errors import BackendUnavailable, StoreTooNew
from rawthink_local import served
from rawthink_local.provider import LocalProvider
from rawthink_local.settings import LocalSettings

from .house import RULES, finds, memory_at, note, row, store_at, thing, world_at

pytestmark = pytest.mark.asyncio


def record(root, *texts):
    with store_at(root) as store:
        for text in texts:
            store.record(note("Redis", text), RULES)


def names(health):
    return [check.name for check in health.checks]


def all_say_how_to_mend(health):
    return all(check.fix for check in health.checks if check.status in ("warn", "fail"))


async def test_a_store_that_is_well_says_where_everything_is(tmp_path):
    record(tmp_path, "one", "two")
    async with memory_at(tmp_path) as memory:
        health = await memory.health()
        assert (health.status, health.location) == ("ok", str(tmp_path / "vault"))
        assert names(health) == ["folder", "journal", "row index", "search", "replicas"]
        assert {check.status for check in health.checks} == {"ok"}
        assert "zone UTC" in row(health, "journal").detail
        assert "3 items" in row(health, "row index").detail
        assert "3 points, up to date" in row(health, "search").detail


async def test_a_store_that_was_never_written_is_well_too(tmp_path):
    async with memory_at(tmp_path) as memory:
        health = await memory.health()
        assert health.status == "ok"
        assert row(health, "journal").status == "ok"


async def test_looking_changes_nothing(tmp_path):
    record(tmp_path, "one")
    async with memory_at(tmp_path) as memory:
        await memory.search("one")
        before = {path: path.read_bytes() for path in (tmp_path / "vault").rglob("*") if path.is_file()}
        assert await memory.health() == await memory.health()
        assert {
            path: path.read_bytes() for path in (tmp_path / "vault").rglob("*") if path.is_file()
        } == before


@pytest.mark.parametrize("state", ["no folder", "a file", "too new", "a folder for a journal"])
async def test_a_store_that_can_not_be_opened_says_why_and_what_to_do(tmp_path, state):
    vault = tmp_path / "vault"
    match state:
        case "a file":
            vault.write_bytes(b"")
        case "too new":
            vault.mkdir()
            (vault / "rawthink.jsonl").write_bytes(b'{"v":2,"store":"x"}\n')
        case "a folder for a journal":
            (vault / "rawthink.jsonl").mkdir(parents=True)
    provider = LocalProvider(LocalSettings(path=str(vault)), world_at(tmp_path))
    if state != "no folder":
        with pytest.raises((BackendUnavailable, StoreTooNew)):
            await provider.open()
    health = await provider.health()
    assert health.status == "down"
    assert health.checks[-1].status == "fail"
    assert all_say_how_to_mend(health)
    if state == "too new":
        assert row(health, "journal").fix == "pip install --upgrade rawthink"
    await provider.close()


async def test_a_folder_that_can_only_be_read_is_a_warning(tmp_path, monkeypatch):
    record(tmp_path, "one")
    async with memory_at(tmp_path) as memory:
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        health = await memory.health()
        assert health.status == "degraded"
        assert row(health, "folder").fix.startswith("chmod u+rwx")


async def test_a_journal_that_can_no_longer_be_read_is_a_failure_with_a_reason(tmp_path):
    record(tmp_path, "one")
    path = tmp_path / "vault" / "rawthink.jsonl"
    async with memory_at(tmp_path) as memory:
        path.rename(path.with_name("elsewhere"))
        path.mkdir()
        health = await memory.health()
        assert health.status == "down"
        assert row(health, "journal", "it is a folder").status == "fail"
        assert all_say_how_to_mend(health)
        with pytest.raises(BackendUnavailable):
            await memory.scan()


async def test_many_damaged_lines_are_counted_and_the_first_are_shown(tmp_path):
    record(tmp_path, *(f"says {n}" for n in range(10)))
    path = tmp_path / "vault" / "rawthink.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(
        b"".join([*lines[:2], *(line.replace(b"says", b"sais") for line in lines[2:10]), lines[10]])
    )
    async with memory_at(tmp_path) as memory:
        health = await memory.health()
        assert names(health).count("damaged line") == 6
        assert row(health, "damaged line", "3 more damaged lines").fix == "rawthink doctor --fix"
        receipt = await memory.maintain(repair=True)
        assert "8 damaged line(s)" in receipt.done[0]
        after = await memory.health()
        assert after.status == "ok"
        assert "damaged" in row(after, "set aside").detail
        assert await finds(memory, "says") == ["says 0", "says 9"] or len(await finds(memory, "says")) == 2


async def test_nothing_to_mend_is_nothing_done(tmp_path):
    async with memory_at(tmp_path) as memory:
        assert (await memory.maintain(repair=True)).done == ()
        await memory.record(entities=[thing("Redis")])
        assert (await memory.maintain(repair=True)).done == ()
        assert (await memory.maintain()).done == ()


async def test_reindexing_builds_both_indexes_from_the_journal(tmp_path):
    record(tmp_path, "sentence one")
    async with memory_at(tmp_path) as memory:
        await memory.search("sentence")
        receipt = await memory.maintain(reindex=True)
        assert receipt.done == (
            "built the row index anew",
            "deleted the search index; the next search builds it",
        )
        assert memory.provider.opened.store.index.main._marker == memory.provider.opened.store.index.end
        assert await finds(memory, "sentence") == ["sentence one"]
        assert (await memory.get(names=["Redis"])).items


async def test_a_search_index_that_has_no_engine_is_a_failure_and_the_rest_works(tmp_path, monkeypatch):
    record(tmp_path, "sentence one")
    without = "import sys; sys.modules['qdrant_edge'] = None; from rawthink_local.serving import main; main()"
    monkeypatch.setattr(served, "COMMAND", [sys.executable, "-c", without])
    async with memory_at(tmp_path) as memory:
        with pytest.raises(BackendUnavailable, match="pip install"):
            await memory.search("sentence")
        health = await memory.health()
        assert row(health, "search").status == "fail"
        assert "pip install" in row(health, "search").detail
        assert (await memory.graph("Redis")).observations[0].text == "sentence one"


async def test_a_store_that_was_moved_away_while_open_says_so(tmp_path):
    record(tmp_path, "one")
    async with memory_at(tmp_path) as memory:
        shutil.move(tmp_path / "vault", tmp_path / "elsewhere")
        health = await memory.health()
        assert row(health, "folder").status == "fail"
        assert row(health, "folder").fix == "rawthink init"
