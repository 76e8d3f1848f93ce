"""Vectors of a local store: kept in one file, indexed by each process, gone with what is forgotten.

How the queue works, and what it does about embedders that fail: `tests/core/test_embedding_queue.py`.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from contextlib import closing

import pytest

from rawthink_conformance.toys import ToyEmbedder
from rawthink_core import asking, embedding_queue
from rawthink_core.embedding_queue import _ROUND
from rawthink_core.errors import EmbedderMismatch
from rawthink_local import vectorfile
from rawthink_local.vectors import read_model

from .house import RULES, finds, memory_at, note, row, spoil, store_at, thing

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Wait for what takes a moment, however busy the machine; nobody has asked anything before."""
    monkeypatch.setattr(embedding_queue, "_AT_ONCE_SECONDS", 5.0)
    asking._asked_lately._vectors.clear()


class Slow(ToyEmbedder):
    """Takes its time, and counts what it was asked."""

    def __init__(self, seconds=0.0):
        super().__init__()
        self.seconds = seconds
        self.asked = []

    async def embed_passages(self, texts):
        await asyncio.sleep(self.seconds)
        self.asked += texts
        return await super().embed_passages(texts)

    async def embed_query(self, text):
        return (await ToyEmbedder.embed_passages(self, [text]))[0]


class Waiting(Slow):
    """Waits in the middle of its work until it may go on."""

    def __init__(self):
        super().__init__()
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def embed_passages(self, texts):
        self.begun.set()
        await self.go.wait()
        return await super().embed_passages(texts)


async def settled(memory, seconds=20):
    end = time.monotonic() + seconds
    while (health := await memory.health()).pending_embeddings:
        assert time.monotonic() < end, health
        await asyncio.sleep(0.02)
    return health


async def say(memory, *texts):
    return await memory.record(
        entities=[thing("Pets")], observations=[{"entity": "Pets", "text": text} for text in texts]
    )


async def test_what_was_just_written_is_found_by_its_meaning(tmp_path):
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        receipt = await say(memory, "a kitten sleeps", "the automobile is red")
        assert receipt.pending_embeddings == 0
        assert (await finds(memory, "feline"))[0] == "a kitten sleeps"
        assert (await finds(memory, "vehicle"))[0] == "the automobile is red"
        assert read_model(tmp_path / "vault" / ".rawthink").name == "toy"


async def test_what_is_indexed_before_its_vectors_come_is_found_by_its_meaning_too(tmp_path):
    embedder = Waiting()
    async with memory_at(tmp_path, embedder=embedder) as memory:
        said = asyncio.ensure_future(say(memory, "a kitten sleeps"))
        await asyncio.wait_for(embedder.begun.wait(), 10)
        assert await finds(memory, "kitten") == ["a kitten sleeps"]
        assert memory.provider.opened.search.waiting_count() == 2
        embedder.go.set()
        assert not (await said).pending_embeddings
        assert (await finds(memory, "feline"))[0] == "a kitten sleeps"


async def test_what_was_written_without_an_embedder_gets_its_vectors_by_the_next_process(tmp_path):
    with store_at(tmp_path) as store:
        for number in range(_ROUND + 9):
            store.record(note("Pets", f"kitten number {number}"), RULES)
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        await memory.search("kitten")
        await settled(memory)
        assert len(await finds(memory, "feline")) > 50
        health = await memory.health()
        assert "by toy" in row(health, "vectors").detail
        assert row(health, "embedder").status == "ok"


async def test_an_embedder_that_is_down_is_said_and_recovers_by_itself(tmp_path):
    toy = Slow()
    async with memory_at(tmp_path, embedder=toy) as memory:
        await say(memory, "a kitten sleeps")
        await finds(memory, "kitten")
        toy.down = True
        receipt = await say(memory, "a cat purrs")
        assert receipt.pending_embeddings == 1
        page = await memory.search("feline")
        assert "is down" in page.degraded
        assert "words only" in page.degraded
        assert (await memory.search("purrs")).items[0].text == "a cat purrs"
        assert row(await memory.health(), "embedder").status == "warn"
        toy.down = False
        end = time.monotonic() + 15
        while (page := await memory.search("feline")).degraded or len(page.items) < 2:
            assert time.monotonic() < end, page
            await asyncio.sleep(0.05)
        assert {hit.text for hit in page.items} >= {"a kitten sleeps", "a cat purrs"}


async def test_another_embedder_is_refused_before_any_write_and_says_what_to_do(tmp_path):
    async with memory_at(tmp_path, embedder=ToyEmbedder()) as memory:
        await say(memory, "a kitten sleeps")
    journal = (tmp_path / "vault" / "rawthink.jsonl").read_bytes()
    async with memory_at(tmp_path, embedder=ToyEmbedder("other")) as memory:
        with pytest.raises(EmbedderMismatch, match=r"toy.*other.*reindex"):
            await say(memory, "a cat purrs")
        page = await memory.search("kitten")
        assert page.items[0].text == "a kitten sleeps"
        assert "words only" in page.degraded
        assert (tmp_path / "vault" / "rawthink.jsonl").read_bytes() == journal
        await memory.maintain(reindex=True)
        await say(memory, "a cat purrs")
        await settled(memory)
        assert set(await finds(memory, "feline")) >= {"a kitten sleeps", "a cat purrs"}
    async with memory_at(tmp_path) as memory:  # no embedder at all
        page = await memory.search("kitten")
        assert "words only" in page.degraded
        assert (await say(memory, "a third cat")).status == "stored"


async def test_an_index_that_is_deleted_is_built_without_embedding_again(tmp_path):
    first = Slow()
    async with memory_at(tmp_path, embedder=first) as memory:
        await say(memory, "a kitten sleeps", "the automobile is red")
        await finds(memory, "feline")
    shutil.rmtree(tmp_path / "cache")
    second = Slow()
    async with memory_at(tmp_path, embedder=second) as memory:
        assert (await finds(memory, "feline"))[0] == "a kitten sleeps"
        await settled(memory)
    assert not second.asked


async def test_forgetting_erases_the_vectors_too(tmp_path):
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        receipt = await say(memory, "a kitten sleeps", "the automobile is red")
        (gone,) = [i.id for i in (await memory.search("kitten")).items if i.text == "a kitten sleeps"]
        receipt = await memory.forget(ids=[gone])
        assert ("kept vectors", "erased") in [(place.place, place.outcome) for place in receipt.places]
        kept = memory.provider.opened.search.kept
        assert kept.of("a kitten sleeps") is None
        assert kept.of("the automobile is red")
        assert "a kitten sleeps" not in await finds(memory, "feline")


async def test_a_long_text_is_found_by_any_of_its_windows(tmp_path):
    toy = ToyEmbedder()
    toy.window = 60
    filler = " ".join(f"word{n}" for n in range(40))
    async with memory_at(tmp_path, embedder=toy) as memory:
        await say(memory, f"{filler}. kitten kitten kitten. {filler}", "nothing of the sort")
        assert (await finds(memory, "feline"))[0].startswith("word0")


# --- what goes wrong ----------------------------------------------------------------------------


def vectors_file(root):
    return root / "vault" / ".rawthink" / "vectors.sqlite"


async def recovered(memory, words, seconds=15):
    """Return the page of a search once it goes by meaning too, and finds something."""
    end = time.monotonic() + seconds
    while (page := await memory.search(words)).degraded or not page.items:
        assert time.monotonic() < end, page
        await asyncio.sleep(0.05)
    return page


@pytest.mark.parametrize("index", ["kept", "deleted"])
async def test_a_damaged_file_of_vectors_is_made_again_by_the_next_process(tmp_path, index):
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        await say(memory, "a kitten sleeps")
        assert await finds(memory, "feline")
    vectors_file(tmp_path).write_bytes(b"junk" * 3000)
    if index == "deleted":
        shutil.rmtree(tmp_path / "cache")
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        assert await finds(memory, "kitten") == ["a kitten sleeps"]
        await say(memory, "a cat purrs")
        await settled(memory)
        assert set(await finds(memory, "feline")) == {"a kitten sleeps", "a cat purrs"}


async def test_damage_met_while_open_makes_search_go_by_words_and_say_so_until_the_next_open(tmp_path):
    with store_at(tmp_path) as store:
        for number in range(_ROUND):
            store.record(note("Pets", f"kitten number {number}"), RULES)
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        await finds(memory, "kitten")
        await settled(memory)
    shutil.rmtree(tmp_path / "cache")  # so that the index asks for every vector again
    spoil(vectors_file(tmp_path))
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        for _ in range(2):
            page = await memory.search("kitten", limit=100)
            assert len(page.items) == 100
            assert "found by words only: the kept vectors in" in page.degraded
            assert "are damaged" in page.degraded
        receipt = await say(memory, "a cat purrs")
        assert receipt.pending_embeddings == 2
        assert [hit.text for hit in (await memory.search("purrs")).items] == ["a cat purrs"]
        told = row(await memory.health(), "vectors")
        assert (told.status, "are damaged" in told.detail) == ("warn", True)
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        await memory.search("kitten")
        await settled(memory, 40)
        assert "a cat purrs" in await finds(memory, "feline")
        assert row(await memory.health(), "vectors").status == "ok"


async def test_a_file_of_vectors_that_is_held_costs_the_meaning_only_while_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(vectorfile, "_BUSY_SECONDS", 0.05)
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        await say(memory, "a kitten sleeps")
        await finds(memory, "feline")
    with closing(sqlite3.connect(vectors_file(tmp_path), isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        before = vectors_file(tmp_path).stat()
        again = Slow()
        async with memory_at(tmp_path, embedder=again) as memory:
            page = await memory.search("kitten")
            assert [hit.text for hit in page.items] == ["a kitten sleeps"]
            assert "words only" in page.degraded
            assert "locked" in page.degraded
            (gone,) = [hit.id for hit in page.items]
            holder.execute("COMMIT")
            holder.close()
            page = await recovered(memory, "feline")
            assert [hit.id for hit in page.items] == [gone]
            assert not again.asked, "its vectors were there all the time"
            assert vectors_file(tmp_path).stat().st_ino == before.st_ino


async def test_forgetting_goes_through_though_the_vectors_are_held(tmp_path, monkeypatch):
    monkeypatch.setattr(vectorfile, "_BUSY_SECONDS", 0.05)
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        await say(memory, "a kitten sleeps")
        (gone,) = [hit.id for hit in (await memory.search("kitten")).items]
        with closing(sqlite3.connect(vectors_file(tmp_path), isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            receipt = await memory.forget(ids=[gone])
        assert receipt.ids == (gone,)
        (place,) = [place for place in receipt.places if place.place == "kept vectors"]
        assert place.outcome == "pending"
        assert "locked" in place.note


async def test_a_text_that_is_forgotten_while_it_is_embedded_leaves_no_vector(tmp_path):
    with store_at(tmp_path) as store:
        store.record(note("Pets", "a kitten sleeps", "the automobile is red"), RULES)
    embedder = Waiting()
    async with memory_at(tmp_path, embedder=embedder) as memory:
        page = await memory.search("kitten")
        await asyncio.wait_for(embedder.begun.wait(), 10)
        await memory.forget(ids=[page.items[0].id])
        embedder.go.set()
        await memory.search("automobile")
        await settled(memory)
        kept = memory.provider.opened.search.kept
        assert "a kitten sleeps" in embedder.asked
        assert kept.of("a kitten sleeps") is None
        assert kept.of("the automobile is red")
        assert (await finds(memory, "vehicle"))[0] == "the automobile is red"


async def test_what_a_revision_says_gets_its_vector_though_nobody_searches(tmp_path):
    embedder = Slow()
    async with memory_at(tmp_path, embedder=embedder) as memory:
        await say(memory, "a kitten sleeps")
        (hit, *_) = (await memory.search("kitten")).items
        await memory.revise([{"id": hit.id}], successor={"text": "the automobile is red"})
        end = time.monotonic() + 20
        while "the automobile is red" not in embedder.asked:
            assert time.monotonic() < end
            await asyncio.sleep(0.02)
