"""Writes batches: what they create first, then the log that makes them count, then a look at who else wrote.

Planning and writing are apart by some requests, and the API has no transactions. So after a log is written
the list is read again: where another process wrote a batch before ours that ours was not planned on, or
took one back that it was planned on, the plan is made again on top of what stands. The same rows: well.
Others: ours is withdrawn before anybody is answered, and begins anew.
"""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rawthink_core.clock import iso
from rawthink_core.commits import Commit, digest, receipt_of
from rawthink_core.errors import (
    BackendError,
    BackendTimeout,
    BatchIdReused,
    Fault,
    InvalidRequest,
    RawThinkError,
)
from rawthink_core.graph import Slice, needs, plan, prepare
from rawthink_nowledge.api import MAX_CONTENT
from rawthink_nowledge.ledger import Ledger
from rawthink_nowledge.scribe import split

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from rawthink_core.clock import Clock
    from rawthink_core.graph import Rules, Work
    from rawthink_core.operations import Batch, RecordReceipt
    from rawthink_core.rows import Row
    from rawthink_nowledge.entries import Entry
    from rawthink_nowledge.following import Follower
    from rawthink_nowledge.placing import Placer

T = TypeVar("T")

log = logging.getLogger("rawthink.nowledge")

_TRIES: Final = 6
_OLD_PLAN_SECONDS: Final = 0.25  # after so long, a plan is checked before its log is written


class Instants:
    """The times of commits: each is later than all before, in whichever Space."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = ""

    def next(self, last: str) -> datetime:
        """Return a time for a commit, after ``last`` and all that were taken."""
        last, now = max(last, self._last), self._clock.now()
        return now if iso(now) > last else datetime.fromisoformat(last) + timedelta(microseconds=1)

    def take(self, commit: Commit) -> None:
        """Note the time of a commit that is written."""
        self._last = max(self._last, commit.at)


class Writer:
    """Writes to one Space of the server. One batch at a time: `turn` is held by whoever writes."""

    def __init__(self, placer: Placer, follower: Follower, instants: Instants) -> None:
        self.turn = asyncio.Lock()
        self.placer = placer
        self.follower = follower
        self.mirror = follower.mirror
        self.instants = instants
        self._tasks: set[asyncio.Task[Any]] = set()

    async def record(self, batch: Batch, rules: Rules) -> tuple[RecordReceipt, Commit]:
        """Write a batch. Raises what `plan` raises, BatchIdReused or a BackendError."""
        work = await asyncio.to_thread(prepare, batch, rules)
        _refuse_long(batch)
        # whoever stops waiting does not stop it half-way: a race that was lost must be made undone
        return await self.to_the_end(self._record(batch, work))

    async def to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for some writing, which goes on to its end even where nobody waits any more."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("a write to Nowledge Mem ended with: %s", error)

    async def close(self) -> None:
        """End what is under way: what has no log yet does not count."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _record(self, batch: Batch, work: Work) -> tuple[RecordReceipt, Commit]:
        request = await asyncio.to_thread(digest, batch)
        async with self.turn:
            for attempt in range(_TRIES):
                if attempt:
                    await asyncio.sleep(random.uniform(0, 0.05) * 2**attempt)  # noqa: S311 - no secret
                await self.follower.refresh()
                known = await asyncio.to_thread(self._known, batch)
                if known is not None:
                    if known.request != request:
                        raise BatchIdReused(f"batch id {batch.id!r} was used for other content; use a new id")
                    return await asyncio.to_thread(receipt_of, known), known
                base = await asyncio.to_thread(self.mirror.logs, work.space)
                commit = await asyncio.to_thread(self._plan, work, request)
                commit, entry = await self._put(commit, work)
                self.instants.take(commit)
                if await self._stands(work, commit, entry, base):
                    return await asyncio.to_thread(receipt_of, commit), commit
                await self.placer.withdraw(entry)
        raise BackendTimeout(
            "other programs kept writing to this memory at the same time; nothing of this batch was written. "
            "Repeat it with the same id"
        )

    def _known(self, batch: Batch) -> Commit | None:
        with self.mirror.ledger(batch.scope.space) as ledger:
            return ledger.commits.get(batch.id)

    # --- planning -------------------------------------------------------------------------------

    def next_instant(self) -> datetime:
        """Return the time of the next commit: the clock's, but later than every commit before."""
        return self.instants.next(self.mirror.last_at())

    def _plan(self, work: Work, request: str) -> Commit:
        with self.mirror.ledger(work.space) as ledger:
            return _planned(work, ledger, self.next_instant(), request)

    # --- one attempt ----------------------------------------------------------------------------

    async def _put(self, commit: Commit, work: Work) -> tuple[Commit, Entry]:
        """Write a commit; return it, planned anew on the way where that took long, and what holds its log."""
        made, others = split(commit)
        if len(made) == 1 and not others:
            return commit, await self.placer.put_alone(commit)
        begun = asyncio.get_running_loop().time()
        held = await self.placer.items(commit)
        if made and asyncio.get_running_loop().time() - begun > _OLD_PLAN_SECONDS:
            await self.follower.refresh()
            later = await asyncio.to_thread(self._plan, work, commit.request)
            if split(later)[0] == made:
                commit = later
        return commit, await self.placer.put_log(commit, held)

    # --- races ----------------------------------------------------------------------------------

    async def _stands(self, work: Work, commit: Commit, mine: Entry, base: Mapping[str, Entry]) -> bool:
        """Tell whether a commit that was just written holds beside what others wrote meanwhile."""
        try:
            await self.follower.refresh()
        except BackendError as error:
            raise type(error)(
                f"the batch was written, but whether another one came first could not be seen: {error}"
            ) from error
        logs = await asyncio.to_thread(self.mirror.logs, work.space)
        # one that lost a race is taken back and comes again in the same memory, with other rows
        rivals = [
            entry
            for memory, entry in logs.items()
            if entry.commit != commit.id and not _same(base.get(memory), entry)
        ]
        # of the same instant: nobody knows, so both look as if they were second
        earlier = [rival for rival in rivals if not rival.created or rival.created <= mine.created]
        if not earlier and logs.keys() >= base.keys():
            return True
        return await asyncio.to_thread(self._holds, work, commit, {rival.commit for rival in rivals}, earlier)

    def _holds(self, work: Work, commit: Commit, rivals: set[str], earlier: list[Entry]) -> bool:
        before = {entry.commit for entry in earlier}
        with self.mirror.ledger(work.space) as ledger:
            others = [
                each
                for each in ledger.commits.values()
                if each.id != commit.id and (each.id not in rivals or each.id in before)
            ]
        if any(each.at >= commit.at for each in others):
            return False
        try:
            again = _planned(work, Ledger(others), datetime.fromisoformat(commit.at), commit.request)
        except RawThinkError:
            return False  # the next attempt says it, once ours is out of the way
        return again.rows == commit.rows


def _same(known: Entry | None, entry: Entry) -> bool:
    """Tell whether an entry says what was known of it. Most of them are not even read anew."""
    if known is None or known is entry:
        return known is entry
    return (known.created, known.row, known.log) == (entry.created, entry.row, entry.log)


def _planned(work: Work, ledger: Ledger, at: datetime, request: str) -> Commit:
    known = Slice()
    while wanted := needs(work, known, at):
        known.learn(ledger.facts(wanted))
    rows: tuple[Row, ...] = plan(work, known, at)
    return Commit(work.batch.id, iso(at), work.space, rows, work.by, request)


def _refuse_long(batch: Batch) -> None:
    """Refuse texts that no memory of the server can hold."""
    texts = {f"observations.{n}.text": said.text for n, said in enumerate(batch.observations)}
    texts |= {f"passages.{n}.text": said.text for n, said in enumerate(batch.passages)}
    for n, change in enumerate(batch.revisions):
        if change.successor is not None and change.successor.text is not None:
            texts[f"revisions.{n}.successor.text"] = change.successor.text
    long = [
        Fault(where, f"has {len(text)} characters; Nowledge Mem holds {MAX_CONTENT} in one memory. Split it")
        for where, text in texts.items()
        if len(text) > MAX_CONTENT
    ]
    if long:
        raise InvalidRequest(long)
