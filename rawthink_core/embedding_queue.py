"""Vectors for what is written: at once where that takes a moment, else later, and without anybody waiting.

A provider's store knows which items wait for their vectors (its `Shelf`); the queue works them off, in one
process of those that share a store. An embedder that can't be reached is tried again, at longer and longer
intervals; meanwhile search goes by words, and says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rawthink_core.embedding import TextsNotEmbedded, windows
from rawthink_core.embedding_shelf import Model, Shelf
from rawthink_core.errors import BackendError, EmbedderMismatch
from rawthink_core.upkeep import Check

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from rawthink_core.embedding import Embedder

log = logging.getLogger("rawthink.embedding")

_AT_ONCE_SECONDS = 0.25
_TOGETHER = 32  # texts of one call
_ROUND = 256  # items of one round
_SHORTEST, _LONGEST = 1.0, 60.0  # seconds between attempts
_PROBE_SECONDS = 10.0  # the first call may load a model
_FIX = "mend what it says; search goes by words meanwhile"
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
        self._settled = settled
        self._known = asyncio.Event()
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
        self._late: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._mismatch: str | None = None
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
        with suppress(BackendError):
            await self.embedder.close()

    def wake(self) -> None:
        """See whether anything waits for its vectors."""
        self._wake.set()

    async def ready(self, seconds: float) -> bool:
        """Wait until the model is known, so long at most; tell whether it is, and fits."""
        if self.wanted and self._mismatch is None and self.problem is None and not self._known.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._known.wait(), seconds)
        return self.wanted and self._known.is_set() and self._mismatch is None

    async def probe(self) -> Check | None:
        """Embed a word and say how that went, None where there is no embedder and none is missed."""
        if not self.wanted or self._mismatch is not None:
            why = self.why_not()
            return None if why is None else Check(name="embedder", status="warn", detail=why, fix=_FIX)
        start = time.monotonic()
        try:
            await asyncio.wait_for(self.embedder.open(), _PROBE_SECONDS)
            await asyncio.wait_for(self.embedder.embed_query("probe"), _PROBE_SECONDS)
        except (BackendError, TimeoutError) as error:
            detail = str(error) or f"{self.embedder.name} did not answer within {_PROBE_SECONDS:g} s"
            return Check(name="embedder", status="warn", detail=detail, fix=_FIX)
        took = (time.monotonic() - start) * 1e3
        detail = f"{self.embedder.name}, {self.embedder.dimensions} numbers; a word took {took:.0f} ms"
        return Check(name="embedder", status="ok", detail=detail)

    # --- writing --------------------------------------------------------------------------------

    async def soon(self, texts: Sequence[str]) -> int:
        """Embed texts that were just written, within a moment; return how many follow later."""
        if not self.wanted or self._mismatch is not None or not texts:
            return 0
        end = time.monotonic() + _AT_ONCE_SECONDS
        if not await self.ready(_AT_ONCE_SECONDS) or self.problem is not None:
            self.wake()
            return len(await self._missing(texts)) if self._known.is_set() else len(set(texts))
        task = asyncio.get_running_loop().create_task(self._quietly(texts))
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        await asyncio.wait({task}, timeout=max(0.0, end - time.monotonic()))
        missing = await self._missing(texts)
        if missing:
            self.wake()
        return len(missing)

    async def _quietly(self, texts: Sequence[str]) -> None:
        try:
            await self._embed(texts)
        except BackendError as error:
            self.problem = str(error)
            self.wake()

    def waiting(self) -> int:
        """Count what waits for its vectors: everything, where nothing is known of the model yet."""
        if self._shelf.model is None and not self.wanted:
            return 0
        with suppress(BackendError):  # a health report says why
            return self._shelf.waiting_count()
        return 0

    async def _missing(self, texts: Iterable[str]) -> list[str]:
        if self._shelf.model is None:
            return []
        missing: list[str] = await self._in_thread(self._shelf.missing, list(texts))
        return missing

    async def _embed(self, texts: Sequence[str]) -> None:
        async with self._turn:  # so that no text is embedded twice
            missing = await self._missing(texts)
            for start in range(0, len(missing), _TOGETHER):
                await self._embed_some(missing[start : start + _TOGETHER])

    async def _embed_some(self, texts: Sequence[str]) -> None:
        pieces = [(text, piece) for text in texts for piece in windows(text, self.embedder.window)]
        vectors: Mapping[int, Sequence[float]]
        try:
            vectors = dict(enumerate(await self.embedder.embed_passages([piece for _, piece in pieces])))
        except TextsNotEmbedded as error:
            vectors = error.vectors
            log.warning("%s", error)
        made: dict[str, list[Sequence[float]]] = {text: [] for text in texts}
        for number, (text, _) in enumerate(pieces):
            if number in vectors:
                made[text].append(vectors[number])
        if self._shelf.model is not None:
            await self._in_thread(self._shelf.put, made)

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
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything, and the queue outlives it
                if not isinstance(error, self._restless):
                    self._note(error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST)

    def _note(self, error: Exception, pause: float) -> None:
        """Keep in mind why embedding waits; what nobody meant to raise is logged with its place, once."""
        told = str(error) or type(error).__name__
        if isinstance(error, BackendError):
            log.info("embedding waits %.0f s: %s", pause, error)
        elif self.problem != told:
            log.error("embedding waits: %s", told, exc_info=error)
        self.problem = told

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
        items = await self._in_thread(self._shelf.waiting, _ROUND)
        if not items:
            return False
        texts = await self._in_thread(self._shelf.texts, items)
        if await self._missing(texts):
            if not await self._in_thread(self._shelf.begin):
                await asyncio.sleep(_OTHER_SECONDS)
            else:
                try:
                    await self._embed(texts)
                finally:
                    self._shelf.end()
        await self._in_thread(self._shelf.write_again, items)
        return True

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
        if await self._learn():
            await self._in_thread(self._shelf.drop_others)
            self.start()
