"""Blocking work beside a loop: its result, its error, its end; and nobody has to wait for it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from rawthink_core.embedders.threads import beside, in_thread
from rawthink_core.errors import BackendTimeout


@pytest.mark.asyncio
async def test_a_result_or_an_error_comes_back() -> None:
    assert await in_thread(lambda: 5) == 5
    assert await in_thread(threading.current_thread) is not threading.main_thread()
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 / 0)


@pytest.mark.asyncio
async def test_what_takes_too_long_is_left_alone() -> None:
    done = threading.Event()
    with pytest.raises(BackendTimeout, match="too slow"):
        await in_thread(lambda: time.sleep(0.2) or done.set(), seconds=0.05, late="too slow")
    assert await asyncio.to_thread(done.wait, 5)


@pytest.mark.asyncio
async def test_an_error_that_comes_too_late_is_not_complained_about(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        time.sleep(0.1)
        raise ValueError("late")

    task = asyncio.ensure_future(in_thread(fail))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(BackendTimeout):
        await in_thread(fail, seconds=0.02, late="too slow")
    await asyncio.sleep(0.3)
    gc.collect()
    assert caplog.text == ""


def test_a_loop_may_end_before_the_work_does() -> None:
    go_on, done = threading.Event(), threading.Event()

    async def start() -> None:
        task = asyncio.ensure_future(in_thread(lambda: go_on.wait(60) and done.set()))
        await asyncio.wait([task], timeout=0.02)

    asyncio.run(start())
    assert not done.is_set()
    go_on.set()
    assert done.wait(5)


def test_work_beside_is_done() -> None:
    done = threading.Event()
    beside(done.set)
    assert done.wait(5)
