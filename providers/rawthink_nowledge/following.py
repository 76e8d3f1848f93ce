"""Keeps a mirror of one Space up to date: one small page of the list, the newest first, before each answer.

By id and in the list a write can be read as soon as it is confirmed, which search does not promise. What is
new stands at the top; what the mirror knows and the top of the list lacks is asked for by id before it
counts as gone. Memories that a log names and no list shows (servers may hide what was superseded) are asked
for by id as well.

The first look reads the whole list, page by page and the newest first, and the mirror takes in each page at
once: what was retired or forgotten is known to be so before it is known itself. Until the end a search may
use what is there, and must say how much that is; nothing else may.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from rawthink_core.errors import BackendProtocolError, BackendTimeout
from rawthink_nowledge.api import PAGE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Sequence

    from rawthink_nowledge.api import Api, Memory, Page
    from rawthink_nowledge.mirror import Mirror

log = logging.getLogger("rawthink.nowledge")

FIRST: Final = 20  # memories of the first page: mostly none of them is new
_AGAIN_SECONDS: Final = 60.0  # at least so long between two looks at everything
_TRIES: Final = 3
_FEW: Final = 20  # memories that are asked for to complete what a search has found


class Follower:
    """Reads one Space of the server into a mirror. Belongs to one event loop."""

    def __init__(self, api: Api, server_space: str, mirror: Mirror, abreast: int) -> None:
        self.space = server_space
        self.mirror = mirror
        self.loaded = False
        self.read = 0  # memories that the first look has read so far
        self.of: int | None = None  # how many there are, where the server says so
        self.read_at = 0.0  # monotonic: when the mirror was last known to be up to date
        self._api = api
        self._ahead = max(1, abreast - 1)  # pages asked for at a time: one connection is for others
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
            raise BackendTimeout(self._late(patience))
        task.result()

    def _late(self, patience: float | None) -> str:
        url = self._api.client.url
        if self.loaded or not self.read:
            return f"Nowledge Mem at {url} did not answer in {patience:g} s"
        return f"the memories at {url} are read for the first time, the newest first; ask again in a moment"

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
            if not page.memories and not offset and known:
                page = await self._first_page()
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
        """Read the whole list, several pages at a time, and take in each page in its turn."""
        listed: dict[str, None] = {}
        for _ in range(_TRIES):
            first = await self._first_page()
            listed = {}
            async with aclosing(self._pages(first)) as pages:
                async for page in pages:
                    await asyncio.to_thread(self.mirror.absorb, page.memories)
                    listed |= dict.fromkeys(memory["id"] for memory in page.memories)
                    self.read, self.of = max(self.read, len(listed)), first.total
            if first.total is None or len(listed) >= first.total:
                break  # else the list moved while it was read
        await asyncio.to_thread(self.mirror.in_order, list(listed))
        await self._gone([entry.memory for entry in self.mirror.entries() if entry.memory not in listed])
        self._total, self._whole_at, self.loaded = first.total, time.monotonic(), True

    async def _pages(self, first: Page) -> AsyncGenerator[Page]:
        """Yield the pages of the list in their order; some are asked for ahead where its length is known."""
        yield first
        if first.total is None:
            offset, page = PAGE, first
            while page.more:
                page = await self._api.page(self.space, offset, PAGE)
                yield page
                offset += PAGE
            return
        ahead: deque[asyncio.Task[Page]] = deque()
        try:
            for offset in range(PAGE, first.total, PAGE) if first.more else ():
                ahead.append(asyncio.create_task(self._later_page(offset, first.total)))
                if len(ahead) == self._ahead:
                    yield await ahead.popleft()
            while ahead:
                yield await ahead.popleft()
        finally:
            for task in ahead:
                task.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)

    async def _first_page(self) -> Page:
        """Return the first page; an empty one only where that is certain, for servers hide failures so."""
        page = await self._api.page(self.space, 0, PAGE)
        if page.memories:
            return page
        held = page.total or await self._api.held(self.space)
        if held:
            if (again := await self._api.page(self.space, 0, PAGE)).memories:
                return again  # the first of them was written just now
            raise self._listed_none(held)
        return page

    def _listed_none(self, held: int) -> BackendProtocolError:
        return BackendProtocolError(
            f"Nowledge Mem at {self._api.client.url} listed no memory of Space {self.space!r} though it "
            f"holds {held}; its own log says more"
        )

    async def _later_page(self, offset: int, total: int) -> Page:
        page = await self._api.page(self.space, offset, PAGE)
        if not page.memories and not page.total:
            raise self._listed_none(total)  # a failure, hidden as a list that is empty
        return page

    async def take_in(self, found: Sequence[Memory]) -> None:
        """Take in what the server's search found, before the list has come to it. Raises BackendError.

        Only what the server itself calls current: the log that retired it may not be read yet. What belongs
        to a batch counts with its log and the rest of it, which are asked for where they are few.
        """
        current = [memory for memory in found if memory.get("is_latest") is True]
        await asyncio.to_thread(self.mirror.absorb, current)
        ids = [memory["id"] for memory in current]
        for _ in ("logs", "what else they name"):
            wanted = await asyncio.to_thread(self.mirror.wanted, ids, _FEW)
            there = await asyncio.gather(*(self._api.get(memory) for memory in wanted))
            await asyncio.to_thread(self.mirror.absorb, [memory for memory in there if memory is not None])

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
