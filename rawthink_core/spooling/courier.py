"""Takes the turns of one conversation after the other from the spool to the store, and says how it went.

A turn leaves the spool when the store has confirmed it; its batch id makes it safe to try again. A call
that gives no answer is given up after a while; what the store says of it later still counts.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rawthink_core.errors import (
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    HookRefused,
    InvalidRequest,
    NotFound,
    RawThinkError,
    UnsupportedOperation,
)
from rawthink_core.operations import Forget, RecordReceipt
from rawthink_core.spooling.pacing import Pace, Pacing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rawthink_core.provider import Provider
    from rawthink_core.spooling.index import Waiting
    from rawthink_core.spooling.spool import Spool

    T = TypeVar("T")

log = logging.getLogger("rawthink.spool")

HOPELESS = (InvalidRequest, HookRefused, UnsupportedOperation, NotFound)  # trying again changes nothing
PARALLEL = 8  # conversations that are delivered at the same time


class Courier(ABC):
    """Delivers the turns of a spool through one provider. Belongs to one event loop.

    ``committed`` is told of each receipt of the store.
    """

    def __init__(
        self,
        provider: Provider,
        spool: Spool,
        committed: Callable[[RecordReceipt], Awaitable[None]],
        pace: Pace,
    ) -> None:
        self._provider = provider
        self._spool = spool
        self._committed = committed
        self._pace = pace
        self._pacing = Pacing(pace, asyncio.get_running_loop().time)
        self._thread = ThreadPoolExecutor(1, "rawthink-spool")  # its own: the store needs the loop's pool
        self._slots = asyncio.Semaphore(PARALLEL)
        self._waiters: dict[str, asyncio.Future[RecordReceipt]] = {}
        self._working: dict[str, asyncio.Task[None]] = {}
        self._calls: dict[asyncio.Future[RecordReceipt], Waiting] = {}
        self._held: set[asyncio.Future[Any]] = set()  # so that nobody collects what nobody waits for
        self._closed = False

    @abstractmethod
    def start(self) -> None:
        """Go on with what waits, in the background: called whenever something is left in the spool."""

    async def do(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run a call of the spool in its thread: one after the other, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _settle(self, turn: Waiting, receipt: RecordReceipt | None, error: Exception | None = None) -> None:
        waiter = self._waiters.pop(turn.request.id, None)
        if waiter is None or waiter.done():
            return
        if error is not None:
            waiter.set_exception(error)
            waiter.exception()  # it counts as seen: the caller may be gone
        elif receipt is not None:
            waiter.set_result(receipt)

    # --- one conversation -----------------------------------------------------------------------

    def _start(self, talk: str) -> asyncio.Task[None]:
        """Deliver what waits of a conversation, after whoever is at it already."""
        task = asyncio.ensure_future(self._work(talk, self._working.get(talk)))
        self._working[talk] = task
        self._hold(task)

        def ended(_: object) -> None:
            if self._working.get(talk) is task:
                del self._working[talk]

        task.add_done_callback(ended)
        return task

    async def _work(self, talk: str, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            while (turn := await self.do(self._spool.head, talk)) is not None:
                async with self._slots:
                    if not await self._deliver(turn):
                        break
        except BackendError as error:
            log.warning("the spool can't be used now: %s", error)
            self._pacing.failed(talk, 1)
            self.start()

    async def _deliver(self, turn: Waiting) -> bool:
        """Try one turn; tell whether the next of its conversation may follow."""
        call = asyncio.ensure_future(self._provider.on_after_chat(turn.request))
        self._calls[call] = turn
        call.add_done_callback(self._called)
        error: BaseException | None
        try:
            await asyncio.wait({call}, timeout=self._pace.deadline)
        finally:
            if not call.done():
                call.cancel()
        if not call.done():
            call.add_done_callback(partial(self._came_late, turn))
            error = BackendTimeout(f"no answer within {self._pace.deadline:g} s")
        elif call.cancelled():
            error = BackendUnavailable("the call was cancelled")
        elif (error := call.exception()) is None:
            await self._delivered(turn, call.result())
            return True
        if not isinstance(error, Exception):
            raise error
        return await self._failed(turn, error)

    async def _delivered(self, turn: Waiting, receipt: RecordReceipt) -> None:
        self._pacing.succeeded(turn.talk)
        if await self.do(self._spool.delivered, turn):
            await self._committed(receipt)
        else:
            await self._take_back(turn, receipt)
        self._settle(turn, receipt)

    async def _take_back(self, turn: Waiting, receipt: RecordReceipt) -> None:
        """Erase what was forgotten while it was on its way."""
        ids = tuple(receipt.ids("passage", "created"))
        try:
            await self._provider.forget(Forget(scope=turn.request.scope, ids=ids))
        except RawThinkError as error:
            log.warning("a turn was forgotten while it was written, and can't be erased: %s", error)

    async def _failed(self, turn: Waiting, error: Exception) -> bool:
        foreseen = isinstance(error, RawThinkError)
        why = str(error) if foreseen else f"it failed with {type(error).__name__}"  # that may quote the text
        if isinstance(error, HOPELESS):
            await self.do(self._spool.put_aside, turn, why)
            log.warning("a chat turn was set aside: %s", why)
            self._settle(turn, None, error)
            return True
        tries = await self.do(self._spool.failed, turn, why)
        if tries >= self._pace.tries:
            await self.do(self._spool.put_aside, turn, f"after {tries} tries: {why}")
            log.warning("a chat turn was set aside after %d tries: %s", tries, why)
            tries = 1  # the next one's first failure, as it were
        else:
            log.info("a chat turn waits: %s", why)
        self._pacing.failed(turn.talk, tries)
        self._settle(turn, RecordReceipt(batch_id=turn.request.id, status="queued"))
        self.start()
        return False

    def _called(self, call: asyncio.Future[RecordReceipt]) -> None:
        self._calls.pop(call, None)

    def _came_late(self, turn: Waiting, call: asyncio.Future[RecordReceipt]) -> None:
        """Take in what a store says of a delivery that was given up."""
        if call.cancelled():
            return
        if (error := call.exception()) is not None:
            log.info("a delivery past its deadline ended with: %s", type(error).__name__)
        elif not self._closed:
            self._hold(asyncio.ensure_future(self._delivered(turn, call.result())))

    def _hold(self, task: asyncio.Future[Any]) -> None:
        """Keep a task until it ends, and log that it failed."""

        def ended(task: asyncio.Future[Any]) -> None:
            self._held.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("a task of the spool ended with %s", type(error).__name__)

        self._held.add(task)
        task.add_done_callback(ended)
