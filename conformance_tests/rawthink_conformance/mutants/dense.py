"""Mutants that don't know what things mean, know too much, or don't say what they miss."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from rawthink_conformance.brute import Everything
from rawthink_conformance.meaning import nearness
from rawthink_conformance.mutants.searching import Retrieves
from rawthink_conformance.mutants.zoo import breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.errors import TextsNotEmbedded
from rawthink_core.searching import Retrieved, ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_conformance.meaning import Windows
    from rawthink_core.commits import Commit
    from rawthink_core.embedding import KeptVectors
    from rawthink_core.operations import (
        Batch,
        BeforeChat,
        Health,
        Recall,
        RecordReceipt,
        RestoreReceipt,
        Scope,
        SearchPage,
        SearchQuery,
    )
    from rawthink_core.searching import Asked
    from rawthink_core.selection import Selection

_MANY = 1_000_000


class _Blind(Everything):
    def dense(self, *_: Any) -> Retrieved:
        return Retrieved([])


@breaks("dense.finds")
class IgnoresVectors(Retrieves):
    """Declares vectors, and searches words."""

    retrieval = _Blind


class _Asks(ReferenceProvider):
    """Base: makes something else of questions."""

    def asks(self, asked: Asked) -> Asked:
        """Return what is asked instead."""
        raise NotImplementedError

    def _answer(self, query: SearchQuery, asked: Asked | None, why: str | None) -> SearchPage:
        return super()._answer(query, None if asked is None else self.asks(asked), why)


@breaks("dense.floor", "dense.recall")
class EverythingIsNear(_Asks):
    """Finds whatever has a vector."""

    def asks(self, asked: Asked) -> Asked:
        """Take the floor away."""
        return asked._replace(floor=-1.0)


@breaks("dense.recall")
class RecallsByWords(ReferenceProvider):
    """Tells a chat only of what shares its words."""

    async def on_before_chat(self, request: BeforeChat) -> Recall:
        """Leave out what has none."""
        recall = await super().on_before_chat(request)
        words = set(request.text.split())
        return remade(recall, items=tuple(hit for hit in recall.items if words & set(hit.text.split())))


class _NearestFirst(Everything):
    def dense(self, vector: Sequence[float], chosen: Selection, depth: int) -> Retrieved:
        passing = dict(super().dense(vector, chosen, _MANY).items)
        everything = {item: score for item, score in self._every(vector)[:depth] if item in passing}
        return Retrieved(list(everything.items()))

    def _every(self, vector: Sequence[float]) -> list[tuple[str, float]]:
        near = [(item, nearness(each, vector)) for item, each in self._vectors.items()]
        return sorted(near, key=lambda pair: (-pair[1], pair[0]))


@breaks("dense.filters_first")
class NearestBeforeFilters(Retrieves):
    """Takes the nearest, and then those of them that pass."""

    retrieval = _NearestFirst


@breaks("dense.spaces")
class NearestOfAllSpaces(ReferenceProvider):
    """Takes the nearest of all spaces, and then those of the space."""

    def _retrieval(self, space: str) -> Everything:
        vectors = self._shelf.vectors.of(self._everywhere())
        return _NearestFirst(lambda as_of: self._standing(space, as_of), self._shelf.used, vectors)


class _PresentOnly(Everything):
    def dense(self, vector: Sequence[float], chosen: Selection, depth: int) -> Retrieved:
        active = {i for i, state in self._standing(None).items() if state.active}
        return Retrieved([pair for pair in super().dense(vector, chosen, depth).items if pair[0] in active])


@breaks("dense.as_of")
class DropsVectorsOfTheRetired(Retrieves):
    """Keeps the vectors of what is believed now."""

    retrieval = _PresentOnly


@breaks("dense.degrades")
class HidesThatVectorsAreMissing(ReferenceProvider):
    """Does not say that it searched by words only."""

    async def search(self, query: SearchQuery) -> SearchPage:
        """Leave the reason out."""
        return remade(await super().search(query), degraded=None)


@breaks("dense.degrades")
class NeverAsksAgain(ReferenceProvider):
    """Gives its embedder up for good when it fails."""

    gave_up: str | None = None

    async def _ask(self, query: SearchQuery) -> tuple[Asked | None, str | None]:
        if self.gave_up is None:
            asked, self.gave_up = await super()._ask(query)
            return asked, self.gave_up
        return None, self.gave_up


@breaks("dense.pending")
class FailsWithItsEmbedder(ReferenceProvider):
    """Can't write while its embedder is down."""

    async def record(self, batch: Batch) -> RecordReceipt:
        """Embed first."""
        await self._world.embedder.embed_passages([passage.text for passage in batch.passages])
        return await super().record(batch)


@breaks("dense.pending")
class ClaimsToHaveEmbedded(ReferenceProvider):
    """Says of no vector that it is still to come."""

    async def record(self, batch: Batch) -> RecordReceipt:
        """Leave the number out."""
        return remade(await super().record(batch), pending_embeddings=0)


@breaks("dense.pending")
class HealthyAllTheSame(ReferenceProvider):
    """Counts no vector that is still to come in its health."""

    async def health(self) -> Health:
        """Leave the number out."""
        return remade(await super().health(), pending_embeddings=0)


@breaks("dense.pending")
class NeverCatchesUp(ReferenceProvider):
    """Embeds what is written when it is written, or not at all."""

    async def _ask(self, query: SearchQuery) -> tuple[Asked | None, str | None]:
        return await ask(self._world.embedder, query.text)


@breaks("dense.slow")
class WaitsForVectors(ReferenceProvider):
    """Returns from a write when everything has its vector."""

    async def record(self, batch: Batch) -> RecordReceipt:
        """Wait for the embedder, however long it takes."""
        receipt = await super().record(batch)
        if self._embedding is not None:
            await self._embedding
        return receipt


@breaks("dense.unable")
class OneSpoilsAll(ReferenceProvider):
    """Keeps no vector of a request in which one text has none."""

    async def _embed(self, space: str) -> int:
        """Embed all or nothing."""
        texts = self._shelf.vectors.waiting(self._standing(space))
        try:
            await self._world.embedder.embed_passages(list(texts.values()))
        except TextsNotEmbedded:
            return len(texts)
        return await super()._embed(space)


@breaks("dense.meaningless")
class FillsItsPages(_Asks):
    """Finds whatever points half-way in the same direction."""

    def asks(self, asked: Asked) -> Asked:
        """Lower the floor."""
        return asked._replace(floor=0.05)


class _ChangesVectors(ReferenceProvider):
    """Base: compares other vectors than were made."""

    def changed(self, windows: Windows) -> Windows:
        """Return the vectors of an item instead of these."""
        raise NotImplementedError

    def _retrieval(self, space: str) -> Everything:
        vectors = self._shelf.vectors.of(self._standing(space))
        changed = {item: self.changed(each) for item, each in vectors.items()}
        return self.retrieval(lambda as_of: self._standing(space, as_of), self._shelf.used, changed)


@breaks("dense.windows")
class ReadsTheBeginning(_ChangesVectors):
    """Embeds the first window of a long text."""

    def changed(self, windows: Windows) -> Windows:
        """Drop the others."""
        return windows[:1]


@breaks("dense.windows")
class BlursLongTexts(_ChangesVectors):
    """Takes the mean of a text's windows for its meaning."""

    def changed(self, windows: Windows) -> Windows:
        """Take the mean."""
        return [[sum(numbers) / len(windows) for numbers in zip(*windows, strict=True)]]


@breaks("dense.forget")
class KeepsVectorsInAFile(ReferenceProvider):
    """Keeps the vectors of all that was ever embedded in a file."""

    async def _embed(self, space: str) -> int:
        left = await super()._embed(space)
        vectors = self._shelf.vectors.of(self._standing(space))
        with (self._world.path / "vectors").open("ab") as file:
            for windows in vectors.values():
                file.write(b"".join(_packed(window) for window in windows))
        return left


def _packed(window: list[float]) -> bytes:
    return struct.pack(f"<{len(window)}f", *window)


@breaks("dense.agrees")
class WordsCountForNothing(_Asks):
    """Ranks by meaning alone."""

    def asks(self, asked: Asked) -> Asked:
        """Give the vectors all the weight."""
        return asked._replace(weight=1.0)


class _Squared(Everything):
    def dense(self, vector: Sequence[float], chosen: Selection, depth: int) -> Retrieved:
        return Retrieved(
            [(item, score * abs(score)) for item, score in super().dense(vector, chosen, depth).items]
        )


@breaks("dense.agrees")
class AnotherSimilarity(Retrieves):
    """Returns something else than cosines."""

    retrieval = _Squared


@breaks("dense.mismatch")
class MixesVectors(ReferenceProvider):
    """Takes the vectors of any embedder."""

    @property
    def _mismatch(self) -> str | None:
        return None


@breaks("dense.carried")
class KeepsVectorsToItself(ReferenceProvider):
    """Embeds again whatever is copied."""

    async def restore(
        self, scope: Scope, commits: Sequence[Commit], vectors: KeptVectors | None = None
    ) -> RestoreReceipt:
        """Add commits, and let their vectors be made anew."""
        del vectors
        return await super().restore(scope, commits)
