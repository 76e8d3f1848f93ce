"""What is written gets its vectors without anybody waiting, and what can't be embedded is found by its words."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
import time
from contextlib import closing

import pytest

from rawthink_conformance.toys import ToyEmbedder
from rawthink_core import asking
from rawthink_core.embedders import auto
from rawthink_core.embedders.ollama import OllamaSettings
from rawthink_core.embedding import EmbedderPlugin
from rawthink_core.errors import BackendUnavailable, EmbedderMismatch
from rawthink_local import embedding, vectorfile
from rawthink_local.embedding import _ROUND
from rawthink_local.vectors import read_model

from .house import RULES, finds, memory_at, note, row, spoil, store_at, thing

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Wait for what takes a moment, however busy the machine; nobody has asked anything before."""
    monkeypatch.setattr(embedding, "_AT_ONCE_SECONDS", 5.0)
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


async def test_a_slow_embedder_holds_nobody_up_and_the_rest_follows(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "_AT_ONCE_SECONDS", 0.25)
    slow = Slow(0.6)
    async with memory_at(tmp_path, embedder=slow) as memory:
        began = time.monotonic()
        receipt = await say(memory, "a kitten sleeps")
        assert time.monotonic() - began < 0.55
        assert receipt.pending_embeddings == 2
        assert await finds(memory, "sleeps") == ["a kitten sleeps"]
        await asyncio.sleep(1.5)
        await settled(memory)
        assert "a kitten sleeps" in await finds(memory, "feline")
    assert len(slow.asked) == len(set(slow.asked)), "no text twice"


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


async def test_a_model_that_changed_behind_its_name_is_refused(tmp_path):
    async with memory_at(tmp_path, embedder=ToyEmbedder()) as memory:
        await say(memory, "a kitten sleeps")
    changed = ToyEmbedder()
    changed.fingerprint = "toy; another digest"
    async with memory_at(tmp_path, embedder=changed) as memory:
        await memory.search("kitten")
        with pytest.raises(EmbedderMismatch, match="another digest"):
            await say(memory, "a cat purrs")


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
        kept = memory.provider._parts.search.kept
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


async def test_closing_does_not_wait_for_an_embedder_that_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "_AT_ONCE_SECONDS", 0.25)

    class Hanging(Slow):
        async def open(self):
            await asyncio.sleep(60)

    async with memory_at(tmp_path, embedder=Hanging()) as memory:
        began = time.monotonic()
        await say(memory, "a kitten sleeps")
        assert (await memory.search("kitten")).items
    assert time.monotonic() - began < 5


async def test_a_failing_embedder_never_fails_a_write(tmp_path):
    class Broken(Slow):
        async def embed_passages(self, texts):
            raise BackendUnavailable("broken for good")

    async with memory_at(tmp_path, embedder=Broken()) as memory:
        assert (await say(memory, "a kitten sleeps")).status == "stored"
        assert (await memory.health()).pending_embeddings == 2


async def test_auto_is_what_it_found_when_the_store_was_made(tmp_path, monkeypatch):
    chosen = []

    async def choose(settings=None):
        chosen.append(settings)
        return auto.CHOICES["offline" if len(chosen) == 1 else "none"]

    toys = {"offline": EmbedderPlugin("offline", "a toy", lambda _: ToyEmbedder("offline"))}
    monkeypatch.setattr(auto, "CHOICES", {**auto.CHOICES, **toys})
    monkeypatch.setattr(auto, "resolve_auto", choose)
    for _ in range(2):
        async with memory_at(tmp_path, embedder=auto.AutoEmbedder(OllamaSettings())) as memory:
            await say(memory, "a kitten sleeps")
            assert "a kitten sleeps" in await finds(memory, "feline")
    assert len(chosen) == 1
    for _ in range(2):
        async with memory_at(tmp_path / "other", embedder=auto.AutoEmbedder(OllamaSettings())) as memory:
            await say(memory, "a kitten sleeps")
            assert await finds(memory, "kitten") == ["a kitten sleeps"]
            await memory.provider._embedding.ready(1)
    assert len(chosen) == 2
    async with memory_at(
        tmp_path / "other", embedder=ToyEmbedder()
    ) as memory:  # none was no choice to keep to
        await say(memory, "a cat purrs")
        assert "a cat purrs" in await finds(memory, "feline")


async def test_making_vectors_anew_needs_an_embedder_that_answers_and_else_changes_nothing(tmp_path):
    async with memory_at(tmp_path, embedder=ToyEmbedder()) as memory:
        await say(memory, "a kitten sleeps")
    model = read_model(tmp_path / "vault" / ".rawthink")
    async with memory_at(tmp_path) as memory:
        await memory.maintain(reindex=True)
        assert (await memory.search("kitten")).items
    down = ToyEmbedder("other")
    down.down = True
    async with memory_at(tmp_path, embedder=down) as memory:
        with pytest.raises(BackendUnavailable, match="is down"):
            await memory.maintain(reindex=True)
        with pytest.raises(EmbedderMismatch):
            await say(memory, "a cat purrs")
    assert read_model(tmp_path / "vault" / ".rawthink") == model
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        assert await finds(memory, "feline") == ["a kitten sleeps"]
        assert not memory.provider._embedding.embedder.asked, "nothing was embedded again"


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


async def test_a_plugin_that_fails_in_its_own_way_is_logged_once_and_tried_again(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(embedding, "_SHORTEST", 0.01)
    monkeypatch.setattr(embedding, "_LONGEST", 0.02)

    class Odd(Slow):
        odd, tries = True, 0

        async def embed_passages(self, texts):
            self.tries += 1
            if self.odd:
                raise ValueError("no such axis")
            return await super().embed_passages(texts)

    odd = Odd()
    caplog.set_level(logging.INFO, logger="rawthink.local")
    async with memory_at(tmp_path, embedder=odd) as memory:
        assert (await say(memory, "a kitten sleeps")).status == "stored"
        await memory.search("kitten")
        end = time.monotonic() + 15
        while odd.tries < 5:
            assert time.monotonic() < end
            await asyncio.sleep(0.01)
        assert memory.provider._embedding.problem == "ValueError: no such axis"
        traced = [record for record in caplog.records if record.exc_info]
        assert len(traced) == 1
        assert traced[0].exc_info[0] is ValueError
        odd.odd = False
        await settled(memory)
        page = await recovered(memory, "feline")
        assert [hit.text for hit in page.items] == ["a kitten sleeps"]


async def test_a_plugin_that_fails_to_open_in_its_own_way_is_opened_again(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "_SHORTEST", 0.01)

    class Odd(Slow):
        tries = 0

        async def open(self):
            self.tries += 1
            if self.tries < 3:
                raise KeyError("weights")
            await super().open()

        async def close(self):
            raise RuntimeError("already gone")

    async with memory_at(tmp_path, embedder=Odd()) as memory:
        await say(memory, "a kitten sleeps")
        page = await recovered(memory, "feline")
        assert [hit.text for hit in page.items] == ["a kitten sleeps"]


class Waiting(Slow):
    """Waits in the middle of its work until it may go on."""

    def __init__(self):
        super().__init__()
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def embed_passages(self, texts):
        self.begun.set()
        await self.go.wait()
        return await super().embed_passages(texts)


@pytest.mark.parametrize("when", ["just written", "worked off"])
async def test_a_text_that_is_forgotten_while_it_is_embedded_leaves_no_vector(tmp_path, monkeypatch, when):
    monkeypatch.setattr(embedding, "_AT_ONCE_SECONDS", 0.2)
    if when == "worked off":
        with store_at(tmp_path) as store:
            store.record(note("Pets", "a kitten sleeps", "the automobile is red"), RULES)
    embedder = Waiting()
    async with memory_at(tmp_path, embedder=embedder) as memory:
        await memory.provider._embedding.ready(5)
        if when == "just written":
            await say(memory, "a kitten sleeps", "the automobile is red")
        page = await memory.search("kitten")
        await asyncio.wait_for(embedder.begun.wait(), 10)
        await memory.forget(ids=[page.items[0].id])
        embedder.go.set()
        await memory.search("automobile")
        await settled(memory)
        kept = memory.provider._parts.search.kept
        assert "a kitten sleeps" in embedder.asked
        assert kept.of("a kitten sleeps") is None
        assert kept.of("the automobile is red")
        assert (await finds(memory, "vehicle"))[0] == "the automobile is red"
