"""Texts into vectors that are kept: once each, and none of a text that was forgotten meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from rawthink_core.embedding import TextsNotEmbedded, windows
from rawthink_core.errors import BackendError
from rawthink_core.upkeep import Check

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from rawthink_core.embedding import Embedder
    from rawthink_core.embedding_shelf import Shelf

log = logging.getLogger("rawthink.embedding")

BY_WORDS = "mend what it says; search goes by words meanwhile"
_TOGETHER = 32  # texts of one call
_PROBE_SECONDS = 10.0  # the first call may load a model


class Vectorizer:
    """Embeds texts that have no vectors yet, and keeps what comes. For one event loop."""

    def __init__(self, embedder: Embedder, shelf: Shelf, in_thread: Callable[..., Awaitable[Any]]) -> None:
        self._embedder = embedder
        self._shelf = shelf
        self._in_thread = in_thread
        self._turn = asyncio.Lock()

    async def missing(self, texts: Iterable[str]) -> list[str]:
        """Return those of the texts that have no vectors yet. Raises a BackendError."""
        if self._shelf.model is None:
            return []
        missing: list[str] = await self._in_thread(self._shelf.missing, list(texts))
        return missing

    async def count_missing(self, texts: Sequence[str]) -> int:
        """Count the texts that have no vectors yet: all of them, where nobody can tell."""
        if self._shelf.model is None:
            return len(set(texts))
        try:
            return len(await self.missing(texts))
        except BackendError as error:
            log.debug("it is not known which texts have vectors: %s", error)
            return len(set(texts))

    async def embed(self, texts: Sequence[str], generation: str) -> None:
        """Embed texts, given the generation that the store had before they were read or written.

        Raises what the embedder raises, and what the shelf does.
        """
        async with self._turn:  # so that no text is embedded twice
            missing = await self.missing(texts)
            for start in range(0, len(missing), _TOGETHER):
                await self._embed_some(missing[start : start + _TOGETHER], generation)

    async def _embed_some(self, texts: Sequence[str], generation: str) -> None:
        pieces = [(text, piece) for text in texts for piece in windows(text, self._embedder.window)]
        vectors: Mapping[int, Sequence[float]]
        try:
            vectors = dict(enumerate(await self._embedder.embed_passages([piece for _, piece in pieces])))
        except TextsNotEmbedded as error:
            vectors = error.vectors
            log.warning("%s", error)
        made: dict[str, list[Sequence[float]]] = {text: [] for text in texts}
        for number, (text, _) in enumerate(pieces):
            if number in vectors:
                made[text].append(vectors[number])
        await self._in_thread(self._keep, made, generation)

    def _keep(self, made: Mapping[str, Sequence[Sequence[float]]], generation: str) -> None:
        """Keep vectors, unless something was forgotten since: then those of what still stands come again.

        `forget` changes the generation before it deletes vectors. So either it finds these, or they are seen
        to be late here.
        """
        if self._shelf.model is None:
            return
        self._shelf.put(made)
        if self._shelf.forgotten_since(generation):
            self._shelf.drop(list(made))

    async def index(self, texts: Sequence[str]) -> None:
        """Have the index take the vectors of texts that it was faster than. Raises what the shelf does."""
        items = await self._in_thread(self._shelf.late, texts)
        if items:
            await self._in_thread(self._shelf.write_again, items)


def reason_of(error: Exception) -> str:
    """Say what failed: an error that nobody foresaw is named by its kind too."""
    return str(error) if isinstance(error, BackendError) else f"{type(error).__name__}: {error}"


async def probed(embedder: Embedder) -> Check:
    """Embed a word and say how that went."""
    start = time.monotonic()
    try:
        await asyncio.wait_for(embedder.open(), _PROBE_SECONDS)
        await asyncio.wait_for(embedder.embed_query("probe"), _PROBE_SECONDS)
    except Exception as error:  # noqa: BLE001 - a plugin may fail in any way; the report says so
        late = f"{embedder.name} did not answer within {_PROBE_SECONDS:g} s"
        detail = late if isinstance(error, TimeoutError) else reason_of(error)
        return Check(name="embedder", status="warn", detail=detail, fix=BY_WORDS)
    took = (time.monotonic() - start) * 1e3
    detail = f"{embedder.name}, {embedder.dimensions} numbers; a word took {took:.0f} ms"
    return Check(name="embedder", status="ok", detail=detail)
