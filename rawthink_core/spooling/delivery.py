"""The spool at work: a turn is on the disk before anything is tried, and delivered at once where that works.

Turns of one conversation go one after the other; one that is stuck keeps no other conversation waiting. Of
several processes, one delivers what the others could not, and what those left that were ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from rawthink_core.errors import BackendError
from rawthink_core.operations import RecordReceipt
from rawthink_core.spooling.courier import PARALLEL, Courier, log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rawthink_core.operations import AfterChat, Forget
    from rawthink_core.provider import Provider
    from rawthink_core.spooling.pacing import Pace
    from rawthink_core.spooling.spool import Dropped, Report, Spool

_LAST_WORDS = 1.0  # seconds that a cancelled delivery has to end


class Delivery(Courier):
    """Takes turns in, and empties the spool of one store."""

    def __init__(
        self,
        provider: Provider,
        spool: Spool,
        committed: Callable[[RecordReceipt], Awaitable[None]],
        pace: Pace,
    ) -> None:
        super().__init__(provider, spool, committed, pace)
        self._taken: list[tuple[AfterChat, str, asyncio.Future[tuple[bool, str]]]] = []
        self._writing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._draining: asyncio.Task[None] | None = None
        self._passes = 0

    # --- one turn -------------------------------------------------------------------------------

    async def keep(self, request: AfterChat, session: str) -> RecordReceipt | None:
        """Spool a turn and return its receipt: ``stored`` where the store is prompt, else ``queued``.

        None where the spool itself can't be written. Raises what the store says of a turn that it will never
        take.
        """
        waiter = self._waiters.setdefault(request.id, asyncio.get_running_loop().create_future())
        try:
            try:
                alone, talk = await asyncio.shield(self._accept(request, session))
            except BackendError as error:
                log.warning("a chat turn can't be spooled: %s", error)
                return None
            if (alone or talk in self._working) and not self._pacing.paused:
                await asyncio.wait({waiter}, timeout=self._pace.prompt)
                if waiter.done():
                    return waiter.result()
            return RecordReceipt(batch_id=request.id, status="queued")
        finally:
            if self._waiters.get(request.id) is waiter:
                del self._waiters[request.id]

    def _accept(self, request: AfterChat, session: str) -> asyncio.Task[tuple[bool, str]]:
        """Write a turn down and set about delivering it, whatever becomes of who asked."""

        async def accept() -> tuple[bool, str]:
            mine: asyncio.Future[tuple[bool, str]] = asyncio.get_running_loop().create_future()
            self._taken.append((request, session, mine))
            async with self._writing:
                if not mine.done():
                    await self._write_down()
            alone, talk = mine.result()
            if alone and not self._pacing.paused:
                self._start(talk)
            else:
                self.start()
            return alone, talk

        task = asyncio.ensure_future(accept())
        self._hold(task)
        return task

    async def _write_down(self) -> None:
        """Write all turns that were taken while others were written: one wait for the disk serves all."""
        taken, self._taken = self._taken, []
        try:
            told = await self.do(self._spool.append, *((request, session) for request, session, _ in taken))
        except Exception as error:  # noqa: BLE001 - whoever brought one of them is told
            for *_, future in taken:
                future.set_exception(error)
        else:
            for (*_, future), answer in zip(taken, told, strict=True):
                future.set_result(answer)

    # --- what waits -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to deliver what waits, in the background, until nothing does."""
        self._wake.set()
        if self._draining is None or self._draining.done():
            self._draining = asyncio.ensure_future(self._drain())
            self._hold(self._draining)

    async def _drain(self) -> None:
        try:
            while True:
                self._wake.clear()
                try:
                    if not await self.do(self._spool.waits) and not self._wake.is_set():
                        return
                    if not self._pacing.paused and await self.do(self._spool.start_draining):
                        await self._pass()
                except BackendError as error:
                    log.warning("the spool can't be used now: %s", error)
                await self._rest()
        finally:
            self._spool.stop_draining()

    async def _pass(self) -> None:
        """Try each conversation once, some at a time; one alone where the store was down."""
        talks = deque(await self.do(self._spool.talks))
        probing = self._pacing.probing

        async def deliver() -> None:
            while talks and not self._pacing.paused:
                talk = talks.popleft()
                if talk not in self._working and self._pacing.may(talk):
                    await asyncio.wait({self._start(talk)})
                    if probing:
                        return

        await asyncio.gather(*(deliver() for _ in range(1 if probing else PARALLEL)))
        self._passes += 1

    async def _rest(self) -> None:
        waking = asyncio.ensure_future(self._wake.wait())
        await asyncio.wait({waking}, timeout=self._pace.poll)
        waking.cancel()

    # --- others ask -----------------------------------------------------------------------------

    async def flush(self, seconds: float) -> int:
        """Deliver what can be delivered within ``seconds``; return how many turns still wait."""
        now = asyncio.get_running_loop().time
        end = now() + seconds
        self._pacing.start_afresh()
        self.start()
        if under_way := set(self._working.values()):
            await asyncio.wait(under_way, timeout=seconds)
            self._pacing.start_afresh()  # what failed just now was tried before this was asked
        whole = self._passes + 2  # a pass that has begun may have left out what was not due
        while (left := end - now()) > 0 and (busy := [*self._working.values(), self._draining]):
            running = {task for task in busy if task is not None and not task.done()}
            if not running or (self._passes >= whole and not self._working) or self._pacing.paused:
                break
            self._wake.set()
            await asyncio.wait(running, timeout=min(left, 0.02), return_when=asyncio.FIRST_COMPLETED)
        return await self.do(self._spool.waits)

    async def forget(self, request: Forget) -> Dropped:
        """Take what a request names out of the spool, and let deliveries in its space end first."""
        dropped = await self.do(self._spool.forget, request)
        if calls := {call for call, turn in self._calls.items() if turn.request.scope == request.scope}:
            await asyncio.wait(calls, timeout=self._pace.closing)
        return dropped

    async def report(self) -> Report:
        """Return how the spool is."""
        return await self.do(self._spool.report)

    async def put_back(self) -> int:
        """Let what was set aside wait again; return how many turns that are."""
        return await self.do(self._spool.put_back)

    async def close(self) -> None:
        """Deliver what can be delivered at once, and stop. What still waits stays on the disk."""
        if self._draining is not None or self._working:
            left = await self.flush(self._pace.closing)
            if left:
                log.info("%d chat turns wait on the disk for the next start", left)
        self._closed = True
        tasks = {task for task in (*self._working.values(), self._draining) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS)
        try:
            await self.do(self._spool.stop_draining)  # in its thread: the lock may just have been taken there
            await self.do(self._spool.tidy)
        except BackendError as error:
            log.warning("the spool could not be tidied: %s", error)
        self._thread.shutdown(wait=False)
