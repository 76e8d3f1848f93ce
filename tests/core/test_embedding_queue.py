"""What waits is embedded without anybody waiting, by one process, once, whatever its embedder does."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from rawthink_conformance.toys import ToyEmbedder
from rawthink_core import embedding_queue
from rawthink_core.embedding_queue import _ROUND, EmbeddingQueue
from rawthink_core.embedding_shelf import Late, Model
from rawthink_core.errors import BackendUnavailable, EmbedderMismatch

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def times(monkeypatch):
    """Wait for what takes a moment, however busy the machine; try again soon."""
    monkeypatch.setattr(embedding_queue, "_AT_ONCE_SECONDS", 10.0)
    monkeypatch.setattr(embedding_queue, "_SHORTEST", 0.01)
    monkeypatch.setattr(embedding_queue, "_LONGEST", 0.02)
    monkeypatch.setattr(embedding_queue, "_OTHER_SECONDS", 0.01)


class RestlessError(Exception):
    """Means no more than: look again."""


class Disk:
    """What all processes share: items, what vectors are kept, and who embeds."""

    def __init__(self, *texts):
        self.items = dict(enumerate(texts))
        self.vectors = {}
        self.settled = None
        self.generation = 1
        self.turn = threading.Lock()

    def write(self, text):
        self.items[len(self.items)] = text

    def forget(self, text):
        self.generation += 1
        self.items = {item: said for item, said in self.items.items() if said != text}
        self.vectors.pop(text, None)


class Shelf:
    """A store in memory with an index of its own."""

    place, restless = "memory", (RestlessError,)

    def __init__(self, disk):
        self.disk = disk
        self.index = {}
        self.model = disk.settled if disk.settled and disk.settled.dimensions else None
        self.problem = None
        self.moves = 0  # how often it is restless before it answers
        self._noted = Late()

    def lost(self):
        return self.problem

    def settle(self, model):
        self.disk.settled = model

    def go_by(self, model):
        self.model, self.index = model, {}

    def drop_others(self):
        kept = {text: made for text, made in self.disk.vectors.items() if made[0] == self.model}
        self.disk.vectors = kept

    def of(self, text):
        made = self.disk.vectors.get(text)
        return made[1] if made is not None and made[0] == self.model else None

    def missing(self, texts):
        return [text for text in dict.fromkeys(texts) if self.of(text) is None]

    def put(self, made):
        self.disk.vectors |= {text: (self.model, vectors) for text, vectors in made.items()}

    def generation(self):
        return str(self.disk.generation)

    def forgotten_since(self, generation):
        return generation != self.generation()

    def drop(self, texts):
        for text in texts:
            self.disk.vectors.pop(text, None)

    def keep_up(self):
        self.write_again([item for item in self.disk.items if item not in self.index])

    def waiting(self, limit):
        if self.moves:
            self.moves -= 1
            raise RestlessError
        self.keep_up()
        return [item for item, vectors in self.index.items() if vectors is None][:limit]

    def waiting_count(self):
        return sum(self.index.get(item) is None for item in self.disk.items)

    def texts(self, items):
        return [self.disk.items[item] for item in items if item in self.disk.items]

    def late(self, texts):
        return self._noted.take(texts)

    def write_again(self, items):
        for item in items:
            if item in self.disk.items:
                self.index[item] = self._noted.ask(self.of, self.disk.items[item], item)
            else:
                self.index.pop(item, None)

    def begin(self):
        return self.disk.turn.acquire(blocking=False)

    def end(self):
        self.disk.turn.release()


class Counting(ToyEmbedder):
    """Takes its time, and counts what it was asked."""

    def __init__(self, name="toy", seconds=0.0):
        super().__init__(name)
        self.seconds, self.asked, self.closed = seconds, [], False

    async def embed_passages(self, texts):
        await asyncio.sleep(self.seconds)
        self.asked += texts
        return await super().embed_passages(texts)

    async def close(self):
        self.closed = True


class Waiting(Counting):
    """Waits in the middle of its work until it may go on."""

    def __init__(self):
        super().__init__()
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def embed_passages(self, texts):
        self.begun.set()
        await self.go.wait()
        return await super().embed_passages(texts)


class Process:
    """A queue over a disk, started and closed."""

    def __init__(self, disk, embedder):
        self.shelf = Shelf(disk)
        self.queue = EmbeddingQueue(embedder, self.shelf, disk.settled, asyncio.to_thread)

    async def __aenter__(self):
        self.queue.start()
        return self

    async def __aexit__(self, *_):
        await self.queue.close()

    async def say(self, *texts):
        generation = await self.queue.generation()
        for text in texts:
            self.shelf.disk.write(text)
        return await self.queue.soon(texts, generation)

    async def settled(self, seconds=20):
        self.queue.wake()
        await until(lambda: not self.queue.waiting(), seconds)


async def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come about"
        await asyncio.sleep(0.005)


# --- when it is done ----------------------------------------------------------------------------


async def test_what_was_just_written_has_its_vectors_when_the_write_returns():
    disk, toy = Disk(), Counting()
    async with Process(disk, toy) as process:
        assert await process.say("a kitten sleeps", "the car is red") == 0
        assert await process.say("a kitten sleeps") == 0
        assert process.queue.why_not() is None
    assert toy.asked == ["a kitten sleeps", "the car is red"]
    assert disk.settled == Model("toy", toy.fingerprint, toy.dimensions)
    assert toy.closed


async def test_an_index_that_is_faster_than_the_embedder_takes_the_vectors_before_the_write_returns():
    toy = Waiting()
    async with Process(Disk(), toy) as process:
        await process.queue.ready(5)
        said = asyncio.ensure_future(process.say("a kitten sleeps"))
        await asyncio.wait_for(toy.begun.wait(), 5)
        process.shelf.keep_up()
        assert process.shelf.index == {0: None}
        toy.go.set()
        assert await said == 0
        assert process.shelf.index[0] is not None


async def test_vectors_that_come_while_an_item_is_noted_as_late_are_not_missed():
    late, answers = Late(), iter([None, "vectors"])
    assert late.ask(lambda _: next(answers), "a kitten sleeps", 7) == "vectors"
    assert (late.take(["a dog", "a kitten sleeps"]), late.take(["a kitten sleeps"])) == ([7], [])


async def test_a_slow_embedder_holds_nobody_up_and_no_text_is_embedded_twice(monkeypatch):
    monkeypatch.setattr(embedding_queue, "_AT_ONCE_SECONDS", 0.05)
    toy = Waiting()
    async with Process(Disk(), toy) as process:
        await process.queue.ready(5)
        assert await asyncio.wait_for(process.say("a kitten sleeps"), 5) == 1
        toy.go.set()
        await process.settled()
    assert toy.asked == ["a kitten sleeps"]


async def test_more_than_a_round_that_waits_is_worked_off():
    disk, toy = Disk(*(f"kitten {number}" for number in range(_ROUND + 9))), Counting()
    async with Process(disk, toy) as process:
        await process.settled()
        assert len(process.shelf.index) == len(toy.asked) == _ROUND + 9


async def test_closing_does_not_wait_for_an_embedder_that_hangs(monkeypatch):
    monkeypatch.setattr(embedding_queue, "_AT_ONCE_SECONDS", 0.05)

    class Hanging(Counting):
        async def open(self):
            await asyncio.sleep(60)

    async with asyncio.timeout(10), Process(Disk(), Hanging()) as process:
        assert await process.say("a kitten sleeps") == 1
        assert "has not answered yet" in process.queue.why_not()


# --- one of many processes ----------------------------------------------------------------------


async def test_while_another_process_embeds_its_vectors_are_waited_for():
    disk, toy = Disk("a kitten sleeps"), Counting()
    disk.turn.acquire()
    async with Process(disk, toy) as process:
        await until(lambda: process.shelf.index.get(0, 0) is None)
        await asyncio.sleep(0.05)
        assert toy.asked == []
        process.shelf.put({"a kitten sleeps": [[1.0]]})
        disk.turn.release()
        await process.settled()
    assert toy.asked == []


async def test_a_turn_that_is_taken_while_closing_is_given_back():
    disk = Disk("a kitten sleeps")
    process = Process(disk, Counting())
    entered, go = threading.Event(), threading.Event()
    begin = process.shelf.begin

    def slowly():
        entered.set()
        go.wait(10)
        return begin()

    process.shelf.begin = slowly
    async with process:
        await asyncio.to_thread(entered.wait, 10)
        asyncio.get_running_loop().call_later(0.05, go.set)
    assert not disk.turn.locked()


# --- forgetting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["just written", "worked off"])
async def test_a_text_that_is_forgotten_while_it_is_embedded_leaves_no_vector(monkeypatch, when):
    monkeypatch.setattr(embedding_queue, "_AT_ONCE_SECONDS", 0.05)
    texts = ("a kitten sleeps", "the car is red")
    disk, toy = Disk(*(texts if when == "worked off" else ())), Waiting()
    async with Process(disk, toy) as process:
        await process.queue.ready(5)
        if when == "just written":
            assert await process.say(*texts) == 2
        await asyncio.wait_for(toy.begun.wait(), 10)
        disk.forget("a kitten sleeps")
        toy.go.set()
        await until(lambda: "a kitten sleeps" in toy.asked)
        await process.settled()
    assert list(disk.vectors) == ["the car is red"]


# --- which model --------------------------------------------------------------------------------


async def test_another_embedder_is_refused_until_all_vectors_are_made_anew():
    disk = Disk("a kitten sleeps")
    async with Process(disk, Counting()) as process:
        await process.settled()
    async with Process(disk, Counting("other")) as process:
        with pytest.raises(EmbedderMismatch, match=r"toy.*other.*reindex"):
            process.queue.refuse_writes()
        assert "words only" in process.queue.why_not()
        assert not await process.queue.ready(0.1)
        await process.queue.adopt()
        process.queue.refuse_writes()
        await process.settled()
    assert disk.settled.name == "other"
    assert [model.name for model, _ in disk.vectors.values()] == ["other"]


async def test_a_model_that_changed_behind_its_name_is_refused():
    disk, toy = Disk(), Counting()
    disk.settled = Model("toy", "toy; an older digest", toy.dimensions)
    async with Process(disk, toy) as process:
        assert not await process.queue.ready(5)
        with pytest.raises(EmbedderMismatch, match="older digest"):
            process.queue.refuse_writes()


async def test_making_vectors_anew_needs_an_embedder_that_answers_and_else_changes_nothing():
    disk = Disk("a kitten sleeps")
    async with Process(disk, Counting()) as process:
        await process.settled()
    settled, vectors = disk.settled, dict(disk.vectors)
    down = Counting("other")
    down.down = True
    async with Process(disk, down) as process:
        with pytest.raises(BackendUnavailable, match="is down"):
            await process.queue.adopt()
        with pytest.raises(EmbedderMismatch):
            process.queue.refuse_writes()
    assert (disk.settled, disk.vectors) == (settled, vectors)


class Auto(Counting):
    """Chooses an embedder when it is opened, unless it is told which."""

    def __init__(self, found):
        super().__init__("auto")
        self.found, self.told = found, None

    def settle(self, name):
        self.told = self.name = name

    async def open(self):
        self.name = self.told or self.found
        self.fingerprint = self.name
        self.dimensions = 0 if self.name == "none" else ToyEmbedder.dimensions


async def test_auto_stays_what_it_found_and_having_found_none_is_no_choice_for_others():
    disk = Disk("a kitten sleeps")
    for found in ("offline", "none"):
        async with Process(disk, Auto(found)) as process:
            await process.settled()
            assert process.queue.embedder.name == disk.settled.name == "offline"
    disk = Disk("a kitten sleeps")
    for found in ("none", "offline"):
        async with Process(disk, Auto(found)) as process:
            await until(lambda: disk.settled is not None)
            assert await process.say("a cat purrs") == 0
            assert process.queue.why_not() is None
            assert disk.settled.name == "none"
    async with Process(disk, Counting()) as process:
        await process.settled()
    assert disk.settled.name == "toy"


# --- what goes wrong ----------------------------------------------------------------------------


async def test_an_embedder_that_is_down_is_said_and_recovers_by_itself():
    disk, toy = Disk(), Counting()
    async with Process(disk, toy) as process:
        await process.say("a kitten sleeps")
        toy.down = True
        assert await process.say("a cat purrs", "a cat purrs") == 1
        assert "words only: the embedder 'toy' is down" in process.queue.why_not()
        assert (await process.queue.probe()).status == "warn"
        toy.down = False
        await process.settled()
        await until(lambda: process.queue.why_not() is None)
        assert (await process.queue.probe()).status == "ok"


async def test_a_plugin_that_fails_in_its_own_way_is_logged_once_and_tried_again(caplog):
    class Odd(Counting):
        opened = tries = 0
        odd = True

        async def open(self):
            self.opened += 1
            if self.opened < 3:
                raise KeyError("weights")

        async def embed_passages(self, texts):
            self.tries += 1
            if self.odd:
                raise ValueError("no such axis")
            return await super().embed_passages(texts)

        async def embed_query(self, text):
            raise ValueError("no such axis")

        async def close(self):
            raise RuntimeError("already gone")

    caplog.set_level(logging.INFO, logger="rawthink.embedding")
    odd = Odd()
    async with Process(Disk(), odd) as process:
        await until(lambda: process.shelf.model is not None)
        await process.queue.ready(5)
        assert await process.say("a kitten sleeps") == 1
        await until(lambda: odd.tries >= 5)
        assert process.queue.problem == "ValueError: no such axis"
        assert "ValueError: no such axis" in (await process.queue.probe()).detail
        traced = [record.exc_info[0] for record in caplog.records if record.exc_info]
        assert traced == [KeyError, ValueError]
        odd.odd = False
        await process.settled()
        await until(lambda: process.queue.problem is None)
    assert "closing the embedder failed: already gone" in caplog.text


async def test_vectors_that_are_lost_make_search_go_by_words_until_they_are_back():
    async with Process(Disk(), Counting()) as process:
        await process.say("a kitten sleeps")
        process.shelf.problem = "the file is held"
        assert process.queue.why_not() == "found by words only: the file is held"
        assert not await process.queue.ready(5)
        process.shelf.problem = None
        assert await process.queue.ready(5)


async def test_a_store_that_is_restless_is_looked_at_again_and_nobody_is_told():
    async with Process(Disk("a kitten sleeps"), Counting()) as process:
        process.shelf.moves = 3
        while process.shelf.moves:
            assert process.queue.problem is None
            await asyncio.sleep(0.005)
        await process.settled()
