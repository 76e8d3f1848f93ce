"""A question gets its vector, or a sentence that says why it has none; a search never waits for long."""

from __future__ import annotations

import asyncio
import itertools
import math
import time

import pytest

from rawthink_conformance.toys import ToyEmbedder
from rawthink_core import asking
from rawthink_core.asking import ask
from rawthink_core.embedding import NoEmbedder
from rawthink_core.errors import BackendUnavailable

pytestmark = pytest.mark.asyncio

NUMBERS = itertools.count()


class Counting(ToyEmbedder):
    """Counts what it is asked, and answers as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.fingerprint = f"counting {next(NUMBERS)}"
        self.calls = 0
        self.answer: list[float] | BaseException | None = None
        self.seconds = 0.0

    async def embed_query(self, text: str) -> list[float]:
        self.calls += 1
        await asyncio.sleep(self.seconds)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return await super().embed_query(text) if self.answer is None else self.answer


async def test_a_question_becomes_a_vector_with_what_it_is_worth() -> None:
    embedder = Counting()
    asked, why = await ask(embedder, "cat")
    assert asked is not None
    assert (*asked.vector, asked.weight, asked.floor) == (1.0, *[0.0] * (embedder.dimensions - 1), 0.5, 0.6)
    assert why is None


async def test_vectors_have_length_1_whatever_the_embedder_gives() -> None:
    embedder = Counting()
    embedder.answer = [3.0, 4.0, *[0.0] * (embedder.dimensions - 2)]
    asked, _ = await ask(embedder, "cat")
    assert asked is not None
    assert tuple(asked.vector[:2]) == (0.6, 0.8)


@pytest.mark.parametrize("text", ["", "  \n", "\0", "\u200b"])
async def test_nothing_is_not_embedded(text: str) -> None:
    embedder = Counting()
    assert await ask(embedder, text) == (None, None)
    assert embedder.calls == 0


async def test_without_an_embedder_nothing_is_missing() -> None:
    assert await ask(NoEmbedder(), "cat") == (None, None)


async def test_what_was_asked_lately_is_not_embedded_again() -> None:
    embedder, other = Counting(), Counting()
    for _ in range(3):
        await ask(embedder, "cat")
    assert embedder.calls == 1
    await ask(other, "cat")
    assert other.calls == 1
    for number in range(200):
        await ask(embedder, f"question {number}")
    await ask(embedder, "cat")
    assert embedder.calls == 202


async def test_a_failure_says_why_and_the_next_question_is_tried_anew() -> None:
    embedder = Counting()
    embedder.answer = BackendUnavailable("nobody listens on port 1; start it.")
    asked, why = await ask(embedder, "cat")
    assert asked is None
    assert why == "embedder toy: nobody listens on port 1; start it; found by words only"
    embedder.answer = None
    asked, why = await ask(embedder, "cat")
    assert (asked is not None, why) == (True, None)


async def test_a_plugin_may_fail_in_any_way(caplog: pytest.LogCaptureFixture) -> None:
    embedder = Counting()
    embedder.answer = ZeroDivisionError("division by zero")
    asked, why = await ask(embedder, "cat")
    assert asked is None
    assert why == "embedder toy: ZeroDivisionError: division by zero; found by words only"
    assert "unforeseen" in caplog.text


@pytest.mark.parametrize("vector", [[], [1.0], [0.0] * 16, [math.nan] * 16, [math.inf] * 16])
async def test_a_vector_that_nothing_compares_with_is_refused(vector: list[float]) -> None:
    embedder = Counting()
    embedder.answer = vector
    asked, why = await ask(embedder, "cat")
    assert asked is None
    assert why is not None
    assert "promised 16 numbers" in why


async def test_a_slow_embedder_is_not_waited_for_nor_one_that_can_not_be_cancelled() -> None:
    class Stubborn(Counting):
        async def embed_query(self, text: str) -> list[float]:
            for _ in range(20):
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue
            raise BackendUnavailable("too late")

    slow = Counting()
    slow.seconds = 60.0
    for embedder in (slow, Stubborn()):
        start = time.monotonic()
        asked, why = await ask(embedder, "cat", 0.05)
        assert time.monotonic() - start < 0.5
        assert asked is None
        assert why == "embedder toy: no answer within 0.05 s; found by words only"
    slow.seconds = 0.0
    assert (await ask(slow, "cat", 0.5))[1] is None
    await asyncio.sleep(1.2)  # what was late ends on its own


async def test_who_stops_waiting_stops_the_embedder_too() -> None:
    embedder = Counting()
    embedder.seconds = 60.0
    task = asyncio.create_task(ask(embedder, "cat"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_is_remembered_is_bounded() -> None:
    embedder = Counting()
    for number in range(300):
        await ask(embedder, f"question {number}")
    assert len(asking._asked_lately._vectors) <= 128
