"""Keeps a mirror of one Space up to date: one small page of the list, the newest first, before each answer.

By id and in the list a write can be read as soon as it is confirmed, which search does not promise. What is
new stands at the top; what the mirror knows and the top of the list lacks is asked for by id before it
counts as gone. Memories that a log names and no list shows (servers may hide what was superseded) are asked
for by id as well.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from rawthink_core.errors import BackendProtocolError, BackendTimeout
from rawthink_nowledge.api import PAGE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rawthink_nowledge.api import Api, Memory, Page
    from rawthink_nowledge.mirror import Mirror

log = logging.getLogger("rawthink.nowledge")

FIRST: Final = 20  # memories of the first page: mostly none of them is new
_AGAIN_SECONDS: Final = 60.0  # at least so long between two looks at everything
_TRIES: Final = 3


class Follower:
    """Reads one Space of the server into a mirror. Belongs to one event loop."""

    def __init__(self, api: Api, server_space: str, mirror: Mirror) -> None:
        self.space = server_space
        self.mirror = mirror
        self.loaded = False
        self.read_at = 0.0  # monotonic: when the mirror was last known to be up to date
        self._api = api
        self._turn = asyncio.Lock()
        self._asked = 0
        self._seen_from = 0  # what was asked for before this is answered by the last look
        self._total: int | None = None  # how long the list should be
        self._whole_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None  # the one whose turn it is
        self._hidden: set[str] = set()  # logs that are there and in no list

    async def refresh(self, patience: float | None = None) -> None:
        """See what was written before this call, by whomever. Raises BackendError.

        Past ``patience`` seconds it raises BackendTimeout, and the look goes on for those who come later.
        """
        self._asked += 1
        task = asyncio.create_task(self._refresh(self._asked))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        done, _ = await asyncio.wait({task}, timeout=patience)
        if not done:
            if task is not self._looking:
                task.cancel()
            raise BackendTimeout(f"Nowledge Mem at {self._api.client.url} did not answer in {patience:g} s")
        task.result()

    async def close(self) -> None:
        """End what is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("a look at Nowledge Mem ended with: %s", error)

    async def _refresh(self, asked: int) -> None:
        async with self._turn:
            if self._seen_from >= asked:
                return
            self._looking = asyncio.current_task()
            begun, now = self._asked, time.monotonic()
            if self.loaded:
                await self._follow()
            else:
                await self._load()
            await self._fetch_hidden()
            self._seen_from, self.read_at = begun, now

    async def whole(self) -> None:
        """Look at everything again, whatever is known. Raises BackendError."""
        async with self._turn:
            begun = self._asked
            await self._load()
            await self._fetch_hidden()
            self._seen_from, self.read_at = begun, time.monotonic()

    def count(self, change: int | None) -> None:
        """Say that this process made the list longer or shorter; None where nobody can tell by how much."""
        self._total = None if change is None or self._total is None else self._total + change

    # --- the top of the list --------------------------------------------------------------------

    async def _follow(self) -> None:
        known = self.mirror.seen
        window: list[Memory] = []
        offset, limit, total, more = 0, FIRST, None, True
        while more:
            page = await self._api.page(self.space, offset, limit)
            if offset and page.memories and page.memories[0]["id"] != window[-1]["id"]:
                window, offset, limit = [], 0, PAGE  # the list moved between two pages
                continue
            window += page.memories[1:] if offset else page.memories
            total, more = page.total, page.more
            if not page.memories or page.memories[-1]["id"] in known:
                break
            offset, limit = max(len(window) - 1, 0), PAGE
        fresh = {memory["id"] for memory in window} - known
        missing = self._missing_from(window, whole=not more)
        await asyncio.to_thread(self.mirror.absorb, window)
        gone = await self._gone(missing)
        expected = None if self._total is None else self._total + len(fresh) - len(gone)
        self._total = total
        if expected is not None and total is not None and total < expected and self._may_look_again():
            await self._load()  # something further down was deleted

    def _missing_from(self, window: Sequence[Memory], *, whole: bool) -> list[str]:
        """Return logs that should stand in the top of the list, by their time, and do not."""
        listed = {memory["id"] for memory in window}
        times = [time for memory in window if (time := _created(memory))]
        oldest = "" if whole or not times else min(times)
        if not window and not whole:
            return []
        recent = self.mirror.recent_logs()
        return [m for m, at in recent.items() if at > oldest and m not in listed and m not in self._hidden]

    async def _gone(self, memories: Collection[str]) -> set[str]:
        """Ask for memories by id; let the mirror drop those that are gone, and return them."""
        found = await asyncio.gather(*(self._api.get(memory) for memory in memories))
        gone = {memory for memory, there in zip(memories, found, strict=True) if there is None}
        self._hidden |= set(memories) - gone
        if gone:
            await asyncio.to_thread(self.mirror.drop, gone)
        return gone

    def _may_look_again(self) -> bool:
        return time.monotonic() - self._whole_at > _AGAIN_SECONDS

    # --- everything -----------------------------------------------------------------------------

    async def _load(self) -> None:
        """Read the whole list, several pages at a time."""
        memories: dict[str, Memory] = {}
        for _ in range(_TRIES):
            first = await self._first_page()
            memories = {memory["id"]: memory for memory in first.memories}
            rest = range(PAGE, first.total or 0, PAGE) if first.more else range(0)
            for page in await asyncio.gather(*(self._api.page(self.space, offset) for offset in rest)):
                memories |= {memory["id"]: memory for memory in page.memories}
            if first.more and first.total is None:
                await self._one_by_one(memories)
            if first.total is None or len(memories) >= first.total:
                break  # else the list moved while it was read
        gone = [entry.memory for entry in self.mirror.entries() if entry.memory not in memories]
        await asyncio.to_thread(self.mirror.absorb, memories.values())
        await self._gone(gone)
        self._total, self._whole_at, self.loaded = first.total, time.monotonic(), True

    async def _first_page(self) -> Page:
        """Return the first page; an empty one only where that is certain, for servers hide failures so."""
        page = await self._api.page(self.space, 0)
        if page.memories:
            return page
        held = page.total or await self._api.held(self.space)
        if held:
            if (again := await self._api.page(self.space, 0)).memories:
                return again  # the first of them was written just now
            raise BackendProtocolError(
                f"Nowledge Mem at {self._api.client.url} listed no memory of Space {self.space!r} though it "
                f"holds {held}; its own log says more"
            )
        return page

    async def _one_by_one(self, memories: dict[str, Memory]) -> None:
        offset, more = PAGE, True
        while more:
            page = await self._api.page(self.space, offset)
            memories |= {memory["id"]: memory for memory in page.memories}
            offset, more = offset + PAGE, page.more

    async def _fetch_hidden(self) -> None:
        """Ask by id for what logs name and no list shows."""
        while missing := sorted(await asyncio.to_thread(self.mirror.missing)):
            found = await asyncio.gather(*(self._api.get(memory) for memory in missing))
            there = [memory for memory in found if memory is not None]
            await asyncio.to_thread(self.mirror.absorb, there)
            await asyncio.to_thread(self.mirror.lose, missing)


def _created(memory: Memory) -> str:
    created = memory.get("created_at") or (memory.get("metadata") or {}).get("created_at")
    return created if isinstance(created, str) else ""
