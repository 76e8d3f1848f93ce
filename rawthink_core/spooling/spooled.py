"""The verbs that know of the spool: to open, close, erase, mend and look covers what waits there too."""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from rawthink_core.errors import BackendError, BackendTimeout
from rawthink_core.operations import Check, Forget, Health, Maintain, MaintainReceipt, Place, parse
from rawthink_core.provider import Capability
from rawthink_core.recall import WRITE_DEADLINE, within
from rawthink_core.spooling.delivery import Delivery
from rawthink_core.spooling.pacing import Pace
from rawthink_core.spooling.spool import Spool
from rawthink_core.turns import Retakes
from rawthink_core.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from rawthink_core.guard import Guard
    from rawthink_core.operations import AfterChat, ForgetReceipt, RecordReceipt
    from rawthink_core.provider import Provider
    from rawthink_core.spooling.spool import Dropped, Report

T = TypeVar("T")

FLUSH_SECONDS = 10.0
_FILE = "turns.jsonl"


class Post:
    """The way of chat turns into one store, shared by all memories of it.

    ``state`` is the folder of what belongs to this user; without it, or without a store that says where it
    lies, there is no spool.
    """

    def __init__(self, provider: Provider, guard: Guard, state: Path | None, pace: Pace) -> None:
        self._provider = provider
        self._guard = guard
        self._state = state
        self._pace = pace
        self._delivery: Delivery | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._behind: set[asyncio.Task[Any]] = set()
        self.retakes = Retakes()

    @property
    def folder(self) -> Path | None:
        """Where the spool of this store lies, or would lie."""
        info = self._provider.info
        if self._state is None or not info.location:
            return None
        place = info.location.encode("utf-8", "surrogatepass")
        return self._state / f"{info.name}-{hashlib.blake2b(place, digest_size=12).hexdigest()}" / "spool"

    @property
    def exists(self) -> bool:
        """Whether anything was ever spooled here."""
        folder = self.folder
        return folder is not None and os.path.exists(folder)  # noqa: PTH110 - False where we may not look

    def delivery(self) -> Delivery | None:
        """Return what delivers turns from the spool, None where there is none."""
        loop = asyncio.get_running_loop()
        if (self._delivery is None or self._loop is not loop) and (folder := self.folder) is not None:
            self._loop = loop  # one that was left in another loop can't go on there
            self._delivery = Delivery(self._provider, Spool(folder), self._guard.after_commit, self._pace)
        return self._delivery

    def running(self) -> Delivery | None:
        """Return it only where something was spooled."""
        return self.delivery() if self._delivery is not None or self.exists else None

    def hold(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run some work in the background; `settle` and `close` wait for it."""
        task = asyncio.ensure_future(work)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        return task

    async def settle(self, seconds: float) -> None:
        """Wait for what runs in the background, for so many seconds at most."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until:
            here = {task for task in self._behind if task.get_loop() is loop and not task.done()}
            if not here:
                return
            await asyncio.wait(here, timeout=until - loop.time())

    async def close(self) -> None:
        """Let what runs in the background end, deliver what can be delivered at once, and stop."""
        await self.settle(FLUSH_SECONDS)
        delivery, self._delivery = self._delivery, None
        if delivery is not None and self._loop is asyncio.get_running_loop():
            await delivery.close()


class Spooled(Verbs):
    """One space of a provider, and the turns that wait for it."""

    def __init__(
        self,
        provider: Provider,
        space: str,
        guard: Guard,
        *,
        state: Path | None = None,
        write_deadline: float = WRITE_DEADLINE,
        pace: Pace | None = None,
    ) -> None:
        super().__init__(provider, space)
        self.guard = guard
        self._write_deadline = write_deadline
        self.post = Post(provider, guard, state, replace(pace or Pace(), deadline=write_deadline))

    async def open(self) -> None:
        """Open the store, and begin to deliver turns that an earlier process left. Raises as the provider."""
        await self.provider.open()
        if (delivery := self.post.running()) is not None:
            delivery.start()

    async def close(self) -> None:
        """Deliver what can be delivered in a moment, and close the store. May be called again."""
        await self.post.close()
        await super().close()

    async def flush(self, seconds: float = FLUSH_SECONDS) -> int:
        """Deliver the chat turns that wait, for so many seconds at most; return how many still wait."""
        await self.post.settle(seconds)
        delivery = self.post.running()
        return 0 if delivery is None else await delivery.flush(seconds)

    async def _keep(self, request: AfterChat, session: str) -> RecordReceipt:
        """Write a turn down, then hand it to the store; without a spool, the store gets it at once."""
        if (delivery := self.post.delivery()) is not None:
            receipt = await delivery.keep(request, session)
            if receipt is not None:
                return receipt
        receipt = await within(self._write_deadline, self.provider.on_after_chat(request), self._late)
        await self.guard.after_commit(receipt)
        return receipt

    def _late(self) -> BackendTimeout:
        return BackendTimeout(
            f"{self.info.name} did not confirm the write within {self._write_deadline:g} s. It may still be "
            f"written: repeat it with the same batch id"
        )

    async def forget(self, **what: Any) -> ForgetReceipt:
        """Erase items for good (the fields of `Forget`). To change your mind, `revise` instead.

        Chat turns that wait are erased with their session or their space, and by the id of their batch.
        """
        request = parse(Forget, {"scope": self.scope, **what})
        dropped = None
        if self.info.can(Capability.FORGET) and (delivery := self.post.running()) is not None:
            dropped = await delivery.forget(request)  # first, so that nothing is written behind our back
        receipt = await self.provider.forget(request)
        return receipt if dropped is None else _with_spool(receipt, dropped)

    async def maintain(self, **what: bool) -> MaintainReceipt:
        """Do upkeep (the fields of `Maintain`); ``repair`` also tries again what the spool has set aside."""
        receipt = await self.provider.maintain(parse(Maintain, {"scope": self.scope, **what}))
        delivery = self.post.running() if what.get("repair") else None
        if delivery is None:
            return receipt
        before = await delivery.report()
        if not before.aside and not before.waiting:
            return receipt
        await delivery.put_back()
        await delivery.flush(FLUSH_SECONDS)
        after = await delivery.report()
        stored = before.aside + before.waiting - after.aside - after.waiting
        said = f"tried the spool again: {stored} stored, {after.waiting} waiting, {after.aside} set aside"
        return receipt.model_copy(update={"done": (*receipt.done, said)})

    async def health(self) -> Health:
        """Return how the store is, and how to mend what is not well. Creates nothing."""
        health = await self.provider.health()
        folder = self.post.folder
        if folder is None or not self.post.exists:
            return health
        spool = Spool(folder)
        try:
            rows = _rows(spool, await asyncio.to_thread(spool.report))
        except BackendError as error:
            rows = [Check(name="spool", status="warn", detail=str(error), fix=f"ls -l {folder}")]
        bad = health.status == "ok" and any(row.status == "warn" for row in rows)
        changed = {"checks": (*health.checks, *rows), "status": "degraded" if bad else health.status}
        return health.model_copy(update=changed)


def _with_spool(receipt: ForgetReceipt, dropped: Dropped) -> ForgetReceipt:
    turns = dropped.turns
    note = f"{turns} chat turn{'' if turns == 1 else 's'} that waited" if turns else "nothing of it waited"
    places = [*receipt.places, Place(place="spool", outcome="erased", note=note)]
    if dropped.unreadable:
        places.append(
            Place(
                place="spool/aside/damaged-*",
                outcome="kept",
                note="bytes that can't be read; delete them yourself",
            )
        )
    missing = tuple(name for name in receipt.missing if name not in dropped.named)
    return receipt.model_copy(update={"places": tuple(places), "missing": missing})


def _rows(spool: Spool, report: Report) -> list[Check]:
    """Return what a health report says of a spool."""
    rows = []
    if report.waiting:
        detail = f"{_turns(report.waiting)} for the store since {report.since}"
        why = f"; last: {report.why}" if report.why else ""
        rows.append(Check(name="spool", status="note", detail=detail + why))
    if report.aside:
        turns = "1 chat turn" if report.aside == 1 else f"{report.aside} chat turns"
        detail = f"{turns} could not be stored, set aside in {spool.set_aside}: "
        rows.append(
            Check(
                name="spool",
                status="warn",
                detail=detail + "; ".join(report.reasons[:3]),
                fix="rawthink doctor --fix",
            )
        )
    if report.damaged:
        detail = f"a crash cut off what lies in {', '.join(report.damaged[:3])}; nothing confirmed is lost"
        rows.append(Check(name="spool", status="note", detail=detail))
    if not rows:
        rows.append(Check(name="spool", status="ok", detail=f"no chat turn waits in {spool.folder}"))
    return rows


def _turns(count: int) -> str:
    return "1 chat turn waits" if count == 1 else f"{count} chat turns wait"
