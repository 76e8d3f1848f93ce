"""Vectors for what is written: at once where that takes a moment, else later, and without anybody waiting.

A provider's store knows which items wait for their vectors (its `Shelf`); the queue works them off, in one
process of those that share a store. An embedder that can't be reached is tried again, at longer and longer
intervals; meanwhile search goes by words, and says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from rawthink_core.embedding_shelf import Model, Shelf
from rawthink_core.errors import BackendError, EmbedderMismatch
from rawthink_core.upkeep import Check
from rawthink_core.vectorizer import BY_WORDS, Vectorizer, probed, reason_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from rawthink_core.embedding import Embedder

log = logging.getLogger("rawthink.embedding")

_AT_ONCE_SECONDS = 0.25
_ROUND = 256  # items of one round
_SHORTEST, _LONGEST = 1.0, 60.0  # seconds between attempts
_OTHER_SECONDS = 0.5  # between looks while another process embeds


class EmbeddingQueue:
    """The vectors of one open store, which goes by the model ``settled``. For one event loop."""

    def __init__(
        self,
        embedder: Embedder,
        shelf: Shelf,
        settled: Model | None,
        in_thread: Callable[..., Awaitable[Any]],
    ) -> None:
        self.embedder = embedder
        self.problem: str | None = None
        self._shelf = shelf
        self._restless = tuple(shelf.restless)
        self._in_thread = in_thread
        self._vectorizer = Vectorizer(embedder, shelf, in_thread)
        self._settled = settled
        self._known = asyncio.Event()
        self._wake = asyncio.Event()
        self._late: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._mismatch: str | None = None
        self._told = ""  # the failure that was last logged with its traceback
        self._choose()

    def _choose(self) -> None:
        """Let `auto` be what was chosen when the store was made; refuse another embedder."""
        settled, embedder = self._settled, self.embedder
        if settled is None:
            return
        settle: Callable[[str], None] | None = getattr(embedder, "settle", None)
        if settle is not None and settled.name in ("ollama", "offline", "none"):
            settle(settled.name)
        elif not settled.dimensions:  # nothing was there to choose then, so no vector stands in the way
            self._settled = None
        elif self.wanted and settled.name != embedder.name:
            self._refuse_model(embedder.name)

    @property
    def wanted(self) -> bool:
        """Whether this process has an embedder at all."""
        return self.embedder.name != "none"

    def why_not(self) -> str | None:
        """Say why questions are answered by words only, where the store has vectors or should have."""
        if not self.wanted:
            settled = self._settled
            return (
                None
                if settled is None or not settled.dimensions
                else f"found by words only: no embedder, and {settled.name} made the vectors"
            )
        if self._mismatch is not None:
            return f"found by words only: {self._mismatch}"
        if (lost := self._shelf.lost()) is not None:
            return f"found by words only: {lost}"
        if self.problem is None and not self._known.is_set():
            return f"found by words only: {self.embedder.name} has not answered yet"
        return None if self.problem is None else f"found by words only: {self.problem}"

    def refuse_writes(self) -> None:
        """Raise EmbedderMismatch where another model made this store's vectors: the two don't mix."""
        if self._mismatch is not None:
            raise EmbedderMismatch(f"{self._mismatch}. Nothing was written")

    def _refuse_model(self, name: str) -> None:
        assert self._settled is not None  # noqa: S101 - nothing else can differ
        self._mismatch = (
            f"the vectors of {self._shelf.place} come from {self._settled.name} "
            f"({self._settled.fingerprint}), this process has {name}. Configure the former, or make all "
            f"vectors anew: rawthink reindex --vectors"
        )

    # --- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to work, where there is an embedder that fits."""
        if self.wanted and self._mismatch is None and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="rawthink-embedding")

    async def close(self) -> None:
        """Stop. What is not embedded yet waits for the next process."""
        tasks = [task for task in (self._task, *self._late) if task is not None]
        self._task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self.embedder.close()
        except Exception as error:  # a plugin may fail in any way, and its store closes all the same
            log.info("closing the embedder failed: %s", error, exc_info=not isinstance(error, BackendError))

    def wake(self) -> None:
        """See whether anything waits for its vectors."""
        self._wake.set()

    async def ready(self, seconds: float) -> bool:
        """Wait until the model is known, so long at most; tell whether it is, fits, and has its vectors."""
        if self.wanted and self._mismatch is None and self.problem is None and not self._known.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._known.wait(), seconds)
        known = self.wanted and self._known.is_set() and self._mismatch is None
        return known and self._shelf.lost() is None

    async def probe(self) -> Check | None:
        """Embed a word and say how that went, None where there is no embedder and none is missed."""
        if not self.wanted or self._mismatch is not None:
            why = self.why_not()
            return None if why is None else Check(name="embedder", status="warn", detail=why, fix=BY_WORDS)
        return await probed(self.embedder)

    # --- writing --------------------------------------------------------------------------------

    async def generation(self) -> str:
        """Return what `soon` wants to know, before anything is written."""
        return str(await self._in_thread(self._shelf.generation)) if self.wanted else ""

    async def soon(self, texts: Sequence[str], generation: str) -> int:
        """Embed texts that were just written, within a moment; return how many follow later.

        ``generation`` is what `generation` returned before they were written.
        """
        if not self.wanted or self._mismatch is not None or not texts:
            return 0
        end = time.monotonic() + _AT_ONCE_SECONDS
        if not await self.ready(_AT_ONCE_SECONDS) or self.problem is not None:
            self.wake()
            return await self._vectorizer.count_missing(texts)
        task = asyncio.get_running_loop().create_task(self._quietly(texts, generation))
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        await asyncio.wait({task}, timeout=max(0.0, end - time.monotonic()))
        missing = await self._vectorizer.count_missing(texts)
        if not task.done():
            missing = max(missing, 1)  # where none is missing, the index has still to take one
        if missing:
            self.wake()
        return missing

    async def _quietly(self, texts: Sequence[str], generation: str) -> None:
        try:
            await self._vectorizer.embed(texts, generation)
            await self._vectorizer.index(texts)
        except Exception as error:  # noqa: BLE001 - noted, and the texts are tried again
            self._note(error)
            self.wake()

    def _note(self, error: Exception) -> bool:
        """Note what failed, tell whether anything did; log with its traceback, once, what nobody foresaw."""
        if isinstance(error, self._restless):
            return False
        self.problem = reason_of(error)
        if not isinstance(error, BackendError) and self._told != self.problem:
            self._told = self.problem
            log.error("embedder %s failed in an unforeseen way", self.embedder.name, exc_info=error)
        return True

    def waiting(self) -> int:
        """Count what waits for its vectors: everything, where nothing is known of the model yet."""
        if self._shelf.model is None and not self.wanted:
            return 0
        with suppress(BackendError):  # a health report says why
            return self._shelf.waiting_count()
        return 0

    # --- working off ----------------------------------------------------------------------------

    async def _run(self) -> None:
        pause = _SHORTEST
        while True:
            try:
                if not self._known.is_set() and not await self._learn():
                    return
                while await self._round():
                    self.problem = None
                self.problem, pause = None, _SHORTEST
                await self._wake.wait()
                self._wake.clear()
            except Exception as error:  # noqa: BLE001 - a plugin may fail in any way, and recover
                if self._note(error):
                    log.info("embedding waits %.0f s: %s", pause, self.problem)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST)

    async def _learn(self) -> bool:
        """Reach the embedder and see what it is; tell whether this store can go by it."""
        await self.embedder.open()
        model = Model(self.embedder.name, self.embedder.fingerprint, self.embedder.dimensions)
        if not self.wanted:  # `auto` found none
            await self._in_thread(self._shelf.settle, model)
            self._known.set()
            return False
        if self._settled is None:
            await self._in_thread(self._shelf.settle, model)
            self._settled = model
        elif self._settled.fingerprint != model.fingerprint:
            self._refuse_model(f"{model.name} ({model.fingerprint})")
            self._known.set()
            return False
        if self._shelf.model is None:
            await self._in_thread(self._shelf.go_by, model)
        self._known.set()
        return True

    async def _round(self) -> bool:
        """Give some items that wait their vectors; tell whether there were any."""
        generation = await self._in_thread(self._shelf.generation)  # before the texts are read
        items = await self._in_thread(self._shelf.waiting, _ROUND)
        if not items:
            return False
        texts = await self._in_thread(self._shelf.texts, items)
        if await self._vectorizer.missing(texts):
            async with self._alone() as alone:
                if alone:
                    await self._vectorizer.embed(texts, generation)
                else:
                    await asyncio.sleep(_OTHER_SECONDS)
        await self._in_thread(self._shelf.write_again, items)
        return True

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[bool]:
        """Be the one process that embeds; yield False where another is."""
        begun = asyncio.ensure_future(self._in_thread(self._shelf.begin))
        try:
            await asyncio.wait({begun})
            yield begun.result()
        finally:
            await asyncio.wait({begun})  # in a thread it begins even where this task is cancelled
            if begun.exception() is None and begun.result():
                self._shelf.end()

    async def adopt(self) -> None:
        """Make all vectors anew with this process's embedder; without one, leave them to those who have it.

        Raises BackendError, and changes nothing, where it can't be reached.
        """
        if not self.wanted:
            return
        await self.embedder.open()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._settled, self._mismatch, self.problem = None, None, None
        self._known.clear()
        await self._in_thread(self._shelf.go_by, None)
        try:
            if await self._learn():
                await self._in_thread(self._shelf.drop_others)
        finally:
            self.start()  # it goes on by itself where this failed
