"""What is forgotten leaves the tables and their files, also where something comes in between."""

from __future__ import annotations

import pytest

from rawthink_conformance.toys import ToyEmbedder
from rawthink_core.operations import Forget, Maintain, Scope, parse
from rawthink_lancedb import erasure

from .house import EVERY, SPACE, files_with, finds, memory_at, say, store_at, tell

pytestmark = pytest.mark.asyncio
WORDS = ("quokka", "wombat")


async def test_neither_text_nor_names_nor_tags_stay_in_any_file(tmp_path):
    async with memory_at(tmp_path) as memory:
        for number in range(12):  # rows that stay stand beside rows that go
            await say(memory, f"Keep {number}", f"this stays {number}")
            await say(memory, f"the {WORDS[number % 2]} of {number}", f"a wombat {number}")
            await tell(memory, f"quokka {number}", session=f"talk of wombats {number}", tags=["wombat"])
        await memory.search("quokka")
        sessions = tuple(f"talk of wombats {n}" for n in range(12))
        names = tuple(f"the {WORDS[n % 2]} of {n}" for n in range(12))
        receipt = await memory.forget(names=names, sessions=sessions)
        assert receipt.count == 36
        assert {place.outcome for place in receipt.places} == {"erased"}
        assert {place.place for place in receipt.places} == {"log", "search index", "activity"}
        assert files_with(tmp_path, *WORDS) == []
        assert len(await finds(memory, "stays", limit=50)) == 12
    async with memory_at(tmp_path) as memory:
        assert await finds(memory, "quokka wombat", statuses=EVERY) == []
        assert len((await memory.scan(items=("observation",))).items) == 12
    assert files_with(tmp_path, *WORDS) == []


async def test_what_a_killed_forget_has_left_is_shown_and_maintained_away(tmp_path):
    async with memory_at(tmp_path) as memory:
        (gone,) = await say(memory, "NAS", "a quokka")
        await say(memory, "NAS", "hums")
        await memory.search("quokka")
    with store_at(tmp_path) as store:
        request = parse(Forget, {"scope": {"space": SPACE}, "ids": [gone]})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rawthink_lancedb.log.Log.delete", lambda _log, _items: None)
            erasure.forget(store, request)  # the mark is written, and nothing else happens
    assert files_with(tmp_path, "quokka") != []
    async with memory_at(tmp_path) as memory:
        assert (await memory.get(gone)).missing == (gone,)
        assert await finds(memory, "quokka", statuses=EVERY) == []
        row = next(row for row in (await memory.health()).checks if row.name == "forgotten text")
        assert row.status == "warn"
        done = (await memory.provider.maintain(Maintain(scope=Scope(space=SPACE)))).done
        assert any("erased 1 row" in what for what in done)
        assert files_with(tmp_path, "quokka") == []
        assert all(row.name != "forgotten text" for row in (await memory.health()).checks)
        assert await finds(memory, "hums") == ["hums"]


async def test_an_export_of_before_brings_nothing_back(tmp_path):
    async with memory_at(tmp_path) as memory:
        (gone,) = await say(memory, "NAS", "a quokka")
        before = [commit async for commit in memory.export()]
        await memory.forget(ids=(gone,))
        await memory.restore(before)
        assert (await memory.get(gone)).missing == (gone,)
        assert files_with(tmp_path, "quokka") == []


async def test_an_export_with_what_was_forgotten_elsewhere_erases_it_here(tmp_path):
    async with memory_at(tmp_path / "one") as one, memory_at(tmp_path / "two") as two:
        (gone,) = await say(one, "NAS", "a quokka")
        await two.restore([commit async for commit in one.export()])
        assert await finds(two, "quokka") == ["a quokka"]
        await one.forget(ids=(gone,))
        await two.restore([commit async for commit in one.export()])
        assert (await two.get(gone)).missing == (gone,)
        assert await finds(two, "quokka") == []
        assert files_with(tmp_path / "two", "quokka") == []


async def test_readers_go_on_while_another_process_rewrites_the_tables(tmp_path):
    async with memory_at(tmp_path) as one, memory_at(tmp_path) as two:
        for number in range(6):
            await tell(one, f"heron {number}")
        assert len(await finds(two, "heron")) == 6
        for number in range(3):
            hit = (await one.search(f"heron {number}", limit=1)).items[0]
            await one.forget(ids=(hit.id,))
            assert len(await finds(two, "heron")) == 5 - number
            assert len((await two.scan()).items) == 5 - number


async def test_vectors_of_what_is_forgotten_leave_the_files(tmp_path):
    import struct

    embedder = ToyEmbedder()
    meant = "feline automobile physician quay quay quay quay"
    async with memory_at(tmp_path, embedder) as memory:
        await tell(memory, "one cat")
        (gone,) = await tell(memory, meant)
        await tell(memory, "another cat")
        assert meant in await finds(memory, "kitten vehicle medic")
        (vector,) = await embedder.embed_passages([meant])
        form = struct.pack(f"<{len(vector)}f", *vector)
        holds = [p for p in tmp_path.rglob("*") if p.is_file() and form in p.read_bytes()]
        assert holds
        await memory.forget(ids=(gone,))
        assert [p for p in tmp_path.rglob("*") if p.is_file() and form in p.read_bytes()] == []
        assert set(await finds(memory, "kitten")) == {"one cat", "another cat"}


async def test_a_bucket_that_keeps_old_versions_declares_deleted_and_says_why(tmp_path, server):
    for name, versioned, grade in (("plain-bucket", False, "erased"), ("old-bucket", True, "deleted")):
        bucket = server.bucket(name, versioned=versioned)
        settings = server.settings(bucket, tmp_path / name)
        async with memory_at(tmp_path / name, settings=settings) as memory:
            assert memory.info.capabilities["forget"] == grade
            (gone,) = await say(memory, "NAS", "a quokka")
            receipt = await memory.forget(ids=(gone,))
            kept = [place for place in receipt.places if place.outcome == "kept"]
            assert bool(kept) is versioned
            assert all("keeps old versions" in place.note for place in kept)
            assert await finds(memory, "quokka", statuses=EVERY) == []
