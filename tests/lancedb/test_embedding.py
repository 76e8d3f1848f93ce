"""Vectors: with the commit's index where that takes a moment, else later; kept, carried, and of one model."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

from rawthink_conformance.toys import ToyEmbedder
from rawthink_core import asking, embedding_queue
from rawthink_core.errors import EmbedderMismatch
from rawthink_core.operations import Maintain, Scope

from .house import RULES, SPACE, finds, memory_at, note, say, store_at, tell

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Wait for what takes a moment, however busy the machine; nobody has asked anything before."""
    monkeypatch.setattr(embedding_queue, "_AT_ONCE_SECONDS", 5.0)
    asking._asked_lately._vectors.clear()


class Counting(ToyEmbedder):
    """Counts what it was asked."""

    def __init__(self, seconds=0.0, name="toy"):
        super().__init__(name)
        self.asked, self.seconds = [], seconds

    async def embed_passages(self, texts):
        await asyncio.sleep(self.seconds)
        self.asked += texts
        return await super().embed_passages(texts)

    async def embed_query(self, text):
        return (await ToyEmbedder.embed_passages(self, [text]))[0]


class Waiting(Counting):
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


def index_of(memory):
    return memory.provider.opened.store.space(SPACE).index


async def test_what_was_just_written_is_found_by_its_meaning_and_no_text_is_embedded_twice(tmp_path):
    embedder = Counting()
    async with memory_at(tmp_path, embedder) as memory:
        receipt = await memory.record(
            entities=[{"name": "Pets", "entity_type": "thing", "domain": "software"}],
            observations=[{"entity": "Pets", "text": t} for t in ("a kitten sleeps", "the car is red")],
        )
        assert receipt.pending_embeddings == 0
        assert (await finds(memory, "feline"))[0] == "a kitten sleeps"
        await settled(memory)
    async with memory_at(tmp_path, embedder) as memory:
        assert (await finds(memory, "vehicle"))[0] == "the car is red"
        await settled(memory)
    assert len(embedder.asked) == len(set(embedder.asked)) == 3


async def test_what_happens_while_texts_are_embedded_is_seen_when_their_vectors_come(tmp_path):
    embedder = Waiting()
    async with memory_at(tmp_path, embedder) as memory:
        said = asyncio.ensure_future(tell(memory, "a kitten sleeps", "the car is red"))
        await asyncio.wait_for(embedder.begun.wait(), 10)
        hit = (await memory.search("kitten")).items[0]  # which indexes both without vectors
        await memory.forget(ids=[hit.id])
        embedder.go.set()
        await said
        await settled(memory)
        assert await finds(memory, "vehicle") == ["the car is red"]
        assert index_of(memory).vectors.kept.of("a kitten sleeps") is None
        embedder.go.clear()
        embedder.begun.clear()
        said = asyncio.ensure_future(tell(memory, "a feline purrs", session="other"))
        await asyncio.wait_for(embedder.begun.wait(), 10)
        await memory.search("feline")
        embedder.go.set()
        await said
        assert await finds(memory, "cat") == ["a feline purrs"]


async def test_a_slow_embedder_holds_nobody_up(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding_queue, "_AT_ONCE_SECONDS", 0.25)
    async with memory_at(tmp_path, Counting(0.7)) as memory:
        receipt = await memory.record(passages=[{"session": "s", "text": "a kitten sleeps"}])
        assert receipt.pending_embeddings == 1
        assert await finds(memory, "sleeps") == ["a kitten sleeps"]
        await settled(memory)
        assert await finds(memory, "feline") == ["a kitten sleeps"]


async def test_what_was_written_without_an_embedder_gets_its_vectors_by_the_next_process(tmp_path):
    with store_at(tmp_path) as store:
        for number in range(30):
            store.record(note("Pets", f"a kitten {number}"), RULES)
    async with memory_at(tmp_path, Counting()) as memory:
        await settled(memory)
        assert len(await finds(memory, "feline", limit=50)) == 30


async def test_a_retired_item_and_a_renamed_entity_keep_or_change_their_vectors(tmp_path):
    embedder = Counting()
    async with memory_at(tmp_path, embedder) as memory:
        (said,) = await say(memory, "Kitten", "a kitten sleeps")
        await settled(memory)
        before = len(embedder.asked)
        await memory.revise([{"id": said}], cause="changed")
        assert await finds(memory, "feline", statuses=("ended",)) == ["a kitten sleeps"]
        assert len(embedder.asked) == before
        await memory.revise([{"entity": "Kitten"}], fields={"name": "Automobile"})
        await settled(memory)
        assert "Automobile" in await finds(memory, "vehicle")
        assert len(embedder.asked) == before + 1


async def test_another_model_is_refused_and_a_reindex_takes_it(tmp_path):
    async with memory_at(tmp_path, Counting()) as memory:
        await tell(memory, "a kitten sleeps")
        await settled(memory)
        old = list(index_of(memory).points.columns)
    async with memory_at(tmp_path, Counting(name="another")) as memory:
        with pytest.raises(EmbedderMismatch, match=r"toy.*another"):
            await tell(memory, "the car is red")
        page = await memory.search("sleeps")
        assert [hit.text for hit in page.items] == ["a kitten sleeps"]
        assert "found by words only" in page.degraded
        await memory.provider.maintain(Maintain(scope=Scope(space=SPACE), reindex=True))
        await tell(memory, "the car is red", session="other")
        await settled(memory)
        assert await finds(memory, "feline") == ["a kitten sleeps"]
        assert set(index_of(memory).points.columns).isdisjoint(old)


async def test_a_process_without_embedder_writes_beside_one_that_has_one(tmp_path):
    async with memory_at(tmp_path, Counting()) as one, memory_at(tmp_path) as two:
        await tell(one, "a kitten sleeps")
        await settled(one)
        hit = (await two.search("kitten")).items[0]
        await two.revise([{"id": hit.id}], successor={"text": "a feline woke up"})
        await two.search("feline")
        for _ in range(200):
            if "a feline woke up" in await finds(one, "cat"):
                break
            await asyncio.sleep(0.05)
        assert await finds(one, "cat") == ["a feline woke up"]
        assert await finds(one, "cat", statuses=("invalidated",)) == ["a kitten sleeps"]


async def test_an_index_of_vectors_finds_what_comparing_each_finds(tmp_path):
    embedder = Counting()
    async with memory_at(tmp_path, embedder, exact_up_to=256, gather_every=2) as memory:
        source = np.random.default_rng(1)
        words = ("cat", "car", "doctor")
        for start in range(0, 600, 100):
            texts = [
                f"{words[n % 3]} {source.integers(1_000_000)} number {n}" for n in range(start, start + 100)
            ]
            await memory.record(passages=[{"session": f"s{start}", "text": text} for text in texts])
        await settled(memory)
        index = index_of(memory)
        for _ in range(100):
            indexes = index.table.ask("looking", lambda table: table.list_indices())
            if any(one.columns == [index.vectors.kept.tag] for one in indexes):
                break
            await tell(memory, f"filler {time.monotonic_ns()}", session="filler")
            await asyncio.sleep(0.1)
        assert any(one.columns == [index.vectors.kept.tag] for one in indexes), (
            "the index of vectors was built"
        )
        page = await memory.search("feline", limit=100)
        assert all(hit.text.startswith("cat") for hit in page.items)
        assert len(page.items) == 100
        await tell(memory, "a kitten after that", session="late")
        assert await finds(memory, "kitten", sessions=("late",)) == ["a kitten after that"]


async def test_what_the_index_takes_in_while_one_counts_is_not_missed(tmp_path, monkeypatch):
    async with memory_at(tmp_path, Counting()) as memory:
        await say(memory, "Kitten", "a kitten sleeps")
        await settled(memory)
        index = index_of(memory)
        counting = index.vectors.waiting_count

        def overtaken():
            found = counting()
            index.catch_up()
            return found

        monkeypatch.setattr(index.vectors, "waiting_count", overtaken)
        monkeypatch.setattr(memory.provider._embedding, "wake", lambda: None)
        store = memory.provider.opened.store
        store.record(note("the car is red"), RULES)
        assert index.waiting_count() > 0
