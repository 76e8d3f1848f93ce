"""Recall that meets its deadline and fails open: a chat never waits for its memory.

`Recaller` runs each call as a task of its own and waits with `asyncio.wait`, because a cancelled call
can hang and `asyncio.wait_for` would wait for it. Late results are dropped. After four abandoned
calls in a row it stops asking for a while: 30 seconds, doubling to 5 minutes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from rawthink_core.errors import RawThinkError
from rawthink_core.operations import Recall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any, TypeVar

    T = TypeVar("T")

log = logging.getLogger("rawthink.recall")

DEADLINE = 1.2  # seconds that a recall may take
WRITE_DEADLINE = 30.0
MAX_ABANDONED = 4
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 300.0


class Recaller:
    """Asks for memories under a deadline. One per `Memory`; belongs to one event loop."""

    def __init__(self, deadline: float = DEADLINE, now: Callable[[], float] = time.monotonic) -> None:
        self.deadline = deadline
        self._now = now
        self._abandoned: set[asyncio.Task[Recall]] = set()
        self._strikes = 0
        self._pause = FIRST_PAUSE
        self._closed_until = 0.0

    @property
    def abandoned(self) -> int:
        """How many calls past their deadline have not ended yet."""
        return len(self._abandoned)

    async def __call__(self, ask: Callable[[], Coroutine[Any, Any, Recall]]) -> Recall:
        """Return what ``ask`` recalls, or an empty `Recall` whose ``degraded`` says why there is none."""
        wait = self._closed_until - self._now()
        if wait > 0:
            return Recall(degraded=f"memory did not answer lately; asking again in {wait:.0f} s")
        if len(self._abandoned) >= MAX_ABANDONED:
            self._trip()
            return Recall(degraded=f"{len(self._abandoned)} recalls are still running; not asking for more")
        task = asyncio.ensure_future(ask())
        try:
            done, _ = await asyncio.wait({task}, timeout=self.deadline)
        except asyncio.CancelledError:
            self._abandon(task)
            raise
        if not done:
            self._abandon(task)
            if (
                self._now() >= self._closed_until
            ):  # of many calls late at once, those after the trip don't count
                self._strikes += 1
                if self._strikes >= MAX_ABANDONED:
                    self._trip()
            return Recall(degraded=f"memory did not answer within {self.deadline:g} s")
        return self._result(task)

    def _result(self, task: asyncio.Task[Recall]) -> Recall:
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            if not isinstance(error, RawThinkError):
                log.warning("recall failed in an unforeseen way", exc_info=error)
            return Recall(degraded=f"memory could not be asked: {error or 'the call was cancelled'}")
        self._strikes, self._pause = 0, FIRST_PAUSE
        return task.result()

    def _abandon(self, task: asyncio.Task[Recall]) -> None:
        self._abandoned.add(task)
        task.add_done_callback(self._ended)
        task.cancel()

    def _ended(self, task: asyncio.Task[Recall]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("an abandoned recall ended with: %s", error)

    def _trip(self) -> None:
        self._closed_until = self._now() + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        self._strikes = MAX_ABANDONED - 1  # after the pause, one late call is enough to pause again


async def within(seconds: float, call: Awaitable[T], late: Callable[[], Exception]) -> T:
    """Return what ``call`` returns, or raise ``late()`` after ``seconds``; the call then ends on its own."""
    task = asyncio.ensure_future(call)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        _let_go(task)
        raise
    if done:
        return task.result()
    _let_go(task)
    raise late()


def _let_go(task: asyncio.Future[Any]) -> None:
    task.add_done_callback(_forget_result)
    task.cancel()


def _forget_result(task: asyncio.Future[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.info("a call past its deadline ended with: %s", error)
