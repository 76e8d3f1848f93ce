"""A chat never waits for its memory, however it fails; and a memory that recovers is asked again."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import TYPE_CHECKING, Any

import pytest

from rawthink_core.errors import BackendTimeout, BackendUnavailable
from rawthink_core.operations import Recall
from rawthink_core.recall import Recaller, within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

pytestmark = pytest.mark.asyncio

DEADLINE = 0.02
ANSWER = Recall(degraded=None)


class Time:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def recaller(time: Time) -> Recaller:
    return Recaller(DEADLINE, time)


@pytest.fixture(autouse=True)
def nothing_left_unsaid() -> Iterator[None]:
    """Fail on what asyncio complains of when a task is collected: exceptions that nobody looked at."""
    complaints: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            complaints.append(record.getMessage())

    listener = Listener()
    logging.getLogger("asyncio").addHandler(listener)
    yield
    gc.collect()
    logging.getLogger("asyncio").removeHandler(listener)
    assert complaints == []


def hanging(released: asyncio.Event) -> Callable[[], Coroutine[Any, Any, Recall]]:
    """Return a call that can't be cancelled: it ends when it is released."""

    async def call() -> Recall:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return Recall(degraded="too late")

    return call


async def sleeping() -> Recall:
    await asyncio.sleep(60)
    return ANSWER


async def answering() -> Recall:
    return ANSWER


async def failing() -> Recall:
    raise BackendUnavailable("the disk is gone")


async def stumbling() -> Recall:
    raise ValueError("a bug")


async def failing_when_cancelled() -> Recall:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise ValueError("could not even stop") from None
    return ANSWER


async def test_what_comes_in_time_is_passed_on(recaller: Recaller) -> None:
    assert await recaller(answering) is ANSWER


@pytest.mark.parametrize("call", [sleeping, failing_when_cancelled])
async def test_a_slow_call_is_let_go_at_the_deadline(
    recaller: Recaller, call: Callable[[], Coroutine[Any, Any, Recall]]
) -> None:
    began = asyncio.get_running_loop().time()
    recall = await recaller(call)
    assert asyncio.get_running_loop().time() - began < 1
    assert recall.degraded == "memory did not answer within 0.02 s"
    assert recall.items == ()
    await asyncio.sleep(0.01)
    assert recaller.abandoned == 0


async def test_a_call_that_cannot_be_cancelled_is_let_go_too_and_its_late_answer_dropped(
    recaller: Recaller,
) -> None:
    released = asyncio.Event()
    assert (await recaller(hanging(released))).degraded == "memory did not answer within 0.02 s"
    assert recaller.abandoned == 1
    released.set()
    await asyncio.sleep(0.01)
    assert recaller.abandoned == 0
    assert await recaller(answering) is ANSWER


@pytest.mark.parametrize("call", [failing, stumbling])
async def test_a_fault_is_told_and_not_raised(
    recaller: Recaller, call: Callable[[], Coroutine[Any, Any, Recall]]
) -> None:
    recall = await recaller(call)
    assert (recall.degraded or "").startswith("memory could not be asked: ")


async def test_a_fault_that_nobody_foresaw_is_logged(
    recaller: Recaller, caplog: pytest.LogCaptureFixture
) -> None:
    await recaller(failing)
    assert caplog.records == []
    await recaller(stumbling)
    assert [record.name for record in caplog.records] == ["rawthink.recall"]


async def test_a_call_that_was_cancelled_from_within_is_a_fault_too(recaller: Recaller) -> None:
    async def cancelled() -> Recall:
        raise asyncio.CancelledError

    assert (await recaller(cancelled)).degraded == "memory could not be asked: the call was cancelled"


async def trip(recaller: Recaller) -> None:
    for _ in range(4):
        assert "did not answer within" in ((await recaller(sleeping)).degraded or "")


async def test_after_four_late_calls_nothing_is_asked_for_half_a_minute(
    recaller: Recaller, time: Time
) -> None:
    await trip(recaller)
    asked = 0

    async def counting() -> Recall:
        nonlocal asked
        asked += 1
        return ANSWER

    assert (await recaller(counting)).degraded == "memory did not answer lately; asking again in 30 s"
    time.seconds += 29.9
    assert (await recaller(counting)).degraded is not None
    assert asked == 0
    time.seconds += 0.2
    assert await recaller(counting) is ANSWER


async def test_the_pause_doubles_up_to_five_minutes_while_calls_stay_late(
    recaller: Recaller, time: Time
) -> None:
    await trip(recaller)
    for pause in (30, 60, 120, 240, 300, 300):
        told = (await recaller(answering)).degraded
        assert told == f"memory did not answer lately; asking again in {pause} s"
        time.seconds += pause
        assert (await recaller(sleeping)).degraded == "memory did not answer within 0.02 s"


async def test_one_good_answer_makes_all_well_again(recaller: Recaller, time: Time) -> None:
    await trip(recaller)
    time.seconds += 30
    assert await recaller(answering) is ANSWER
    await trip(recaller)
    assert (await recaller(answering)).degraded == "memory did not answer lately; asking again in 30 s"


async def test_three_late_calls_and_a_good_one_are_no_reason_to_pause(recaller: Recaller) -> None:
    for _ in range(3):
        for _ in range(3):
            await recaller(sleeping)
        assert await recaller(answering) is ANSWER


async def test_no_more_than_four_calls_hang_at_once(recaller: Recaller, time: Time) -> None:
    released = asyncio.Event()
    for _ in range(4):
        await recaller(hanging(released))
    assert recaller.abandoned == 4
    time.seconds += 30
    assert (await recaller(answering)).degraded == "4 recalls are still running; not asking for more"
    time.seconds += 60
    released.set()
    await asyncio.sleep(0.01)
    assert await recaller(answering) is ANSWER


async def test_many_calls_late_at_once_are_one_reason_to_pause(recaller: Recaller) -> None:
    await asyncio.gather(*(recaller(sleeping) for _ in range(12)))
    assert (await recaller(answering)).degraded == "memory did not answer lately; asking again in 30 s"


async def test_a_chat_that_gives_up_takes_its_call_along(recaller: Recaller) -> None:
    for call in (sleeping, failing_when_cancelled):
        turn = asyncio.ensure_future(Recaller(60)(call))
        await asyncio.sleep(0)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
    await asyncio.sleep(0.01)


async def test_late_answers_do_not_reach_another_turn(recaller: Recaller) -> None:
    released = asyncio.Event()
    await recaller(hanging(released))
    slow = asyncio.ensure_future(recaller(answering))
    released.set()
    assert (await slow).degraded is None


# --- writes -------------------------------------------------------------------------------------


def late() -> Exception:
    return BackendTimeout("late")


async def test_a_write_in_time_returns_or_raises_as_it_would() -> None:
    assert await within(1, answering(), late) is ANSWER
    with pytest.raises(BackendUnavailable):
        await within(1, failing(), late)


@pytest.mark.parametrize("call", [sleeping, failing_when_cancelled])
async def test_a_write_past_its_deadline_raises(call: Callable[[], Awaitable[Recall]]) -> None:
    with pytest.raises(BackendTimeout, match="late"):
        await within(DEADLINE, call(), late)
    await asyncio.sleep(0.01)


async def test_a_write_that_was_given_up_ends_unseen() -> None:
    for call in (sleeping, failing_when_cancelled):
        write = asyncio.ensure_future(within(60, call(), late))
        await asyncio.sleep(0)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        await asyncio.sleep(0.01)
