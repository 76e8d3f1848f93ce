"""Embedders for checks: one that knows a few words by their meaning, and one to which nothing means anything.

The first can be down, slow, or unable to embed some texts. Both give the same vectors on every machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import zlib
from typing import TYPE_CHECKING

from rawthink_core.errors import BackendUnavailable, TextsNotEmbedded

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEANINGS = (
    {"cat", "feline", "kitten", "猫"},
    {"car", "automobile", "vehicle"},
    {"doctor", "physician", "medic"},
)
_OTHERS = 13
_STRENGTH = 4.0


class ToyEmbedder:
    """Texts about the same few things are near each other, whatever their words; all else is far."""

    dimensions = len(_MEANINGS) + _OTHERS
    dense_weight = 0.5
    min_similarity = 0.6
    window = 2_000

    def __init__(self, name: str = "toy") -> None:
        self.name = name
        self.fingerprint = f"{name}; {self.dimensions}"
        self.down = False
        self.delay = 0.0  # seconds that each request for vectors of passages takes
        self.unable = ""  # what a text must hold to have no vector; nothing, when empty
        self.embedded = 0  # texts of passages so far

    async def open(self) -> None:
        """Reach the model. Raises BackendUnavailable while it is down."""
        if self.down:
            raise BackendUnavailable(f"the embedder {self.name!r} is down; start it")

    async def close(self) -> None:
        """Let go of nothing."""

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector of length 1 for each text."""
        await self.open()
        if self.delay:
            await asyncio.sleep(self.delay)
        failed = {n: "too odd" for n, text in enumerate(texts) if self.unable and self.unable in text}
        self.embedded += len(texts) - len(failed)
        if failed:
            made = {n: self._vector(text) for n, text in enumerate(texts) if n not in failed}
            raise TextsNotEmbedded(failed, made)
        return [self._vector(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        await self.open()
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in text.casefold().split():
            for axis, words in enumerate(_MEANINGS):
                if word.strip(".,?!") in words:
                    vector[axis] += _STRENGTH
                    break
            else:
                vector[len(_MEANINGS) + zlib.crc32(word.encode("utf-8", "replace")) % _OTHERS] += 1.0
        length = math.sqrt(sum(x * x for x in vector)) or 1.0
        return [x / length for x in vector]


class MeaninglessEmbedder(ToyEmbedder):
    """The same text has the same vector, and no two texts are near each other."""

    dimensions = 64

    def __init__(self) -> None:
        super().__init__("meaningless")

    def _vector(self, text: str) -> list[float]:
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=64).digest()
        length = math.sqrt(sum((byte - 127.5) ** 2 for byte in digest))
        return [(byte - 127.5) / length for byte in digest]
