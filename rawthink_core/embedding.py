"""The `Embedder` protocol, and the one that ships with the core: none.

An embedder turns text into vectors of a fixed size. It also says how far its scores are to be trusted:
``dense_weight`` is its share when lists are fused, ``min_similarity`` the similarity below which a hit
that shares no word with the query means nothing. Both are measured per model, never guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence


@runtime_checkable
class Embedder(Protocol):
    """Turns text into vectors. Implementations are safe to call from several threads at once."""

    name: str
    dimensions: int  # 0: there are no vectors
    fingerprint: str  # implementation, model, digest, size, prefixes and pooling, in one line
    dense_weight: float  # 0..1, the share of the dense list in fusion
    min_similarity: float  # cosine below which a dense-only hit does not count

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector a text, for storing. Raises BackendError when the model can't be reached."""
        ...

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question. Raises BackendError when the model can't be reached."""
        ...


class NoEmbedder:
    """No vectors: search is lexical. A supported mode, and what an unreachable embedder degrades to."""

    name = "none"
    dimensions = 0
    fingerprint = "none"
    dense_weight = 0.0
    min_similarity = 1.0

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Return an empty vector for each text."""
        return [[] for _ in texts]

    async def embed_query(self, text: str) -> list[float]:  # noqa: ARG002 - the protocol's signature
        """Return an empty vector."""
        return []
