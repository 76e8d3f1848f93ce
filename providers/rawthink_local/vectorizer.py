"""Texts into vectors that are kept: once each, and none of a text that was forgotten meanwhile."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from rawthink_core.embedding import TextsNotEmbedded, windows
from rawthink_core.errors import BackendError
from rawthink_local.vectors import forget_vectors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from rawthink_core.embedding import Embedder
    from rawthink_local.searchindex import SearchIndex
    from rawthink_local.store import Store

log = logging.getLogger("rawthink.local")

_TOGETHER = 32  # texts of one call


class Vectorizer:
    """Embeds texts that have no vectors yet, and keeps what comes. For one event loop."""

    def __init__(
        self,
        embedder: Embedder,
        store: Store,
        index: SearchIndex,
        in_thread: Callable[..., Awaitable[Any]],
    ) -> None:
        self._embedder = embedder
        self._store = store
        self._index = index
        self._in_thread = in_thread
        self._turn = asyncio.Lock()

    async def missing(self, texts: Iterable[str]) -> list[str]:
        """Return those of the texts that have no vectors yet. Raises VectorsUnusable."""
        kept = self._index.kept
        return [] if kept is None else await self._in_thread(kept.missing, list(texts))

    async def count_missing(self, texts: Sequence[str]) -> int:
        """Count the texts that have no vectors yet: all of them, where nobody can tell."""
        if self._index.kept is None:
            return len(set(texts))
        try:
            return len(await self.missing(texts))
        except BackendError as error:
            log.debug("it is not known which texts have vectors: %s", error)
            return len(set(texts))

    async def embed(self, texts: Sequence[str], generation: str) -> None:
        """Embed texts, given the generation that the store had before they were read or written.

        Raises what the embedder raises, and VectorsUnusable.
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
        kept = self._index.kept
        if kept is None:
            return
        kept.put(made)
        now = self._store.generation()
        if generation != now and not (generation == "none" and now.endswith(":1")):  # the first write made it
            forget_vectors(self._store.derived, made)


def reason_of(error: Exception) -> str:
    """Say what failed: an error that nobody foresaw is named by its kind too."""
    return str(error) if isinstance(error, BackendError) else f"{type(error).__name__}: {error}"
