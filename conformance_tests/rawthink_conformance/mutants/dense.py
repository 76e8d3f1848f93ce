"""A reference with vectors, for the checks that need one, and its mutants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_conformance.brute import Everything
from rawthink_conformance.mutants.robustness import Declares
from rawthink_conformance.mutants.zoo import breaks, remade
from rawthink_core import searching
from rawthink_core.errors import BackendError, EmbedderMismatch
from rawthink_core.provider import Capability
from rawthink_core.searching import Retrieved, text_of

if TYPE_CHECKING:
    from rawthink_core.operations import Batch, RecordReceipt, SearchPage, SearchQuery
    from rawthink_core.selection import Selection

_VECTORS: dict[str, tuple[str, dict[str, list[float]]]] = {}  # store → fingerprint and vectors


class DenseReference(Declares):
    """The reference with vectors by brute force: no mutant, but what the following are mutants of."""

    changes = {Capability.DENSE: "yes"}  # noqa: RUF012 - read only

    async def open(self) -> None:
        """Open, and refuse a store with the vectors of another embedder."""
        await super().open()
        embedder = self._world.embedder
        known, self._vectors = _VECTORS.setdefault(str(self._world.path), (embedder.fingerprint, {}))
        if known != embedder.fingerprint:
            self.refuse(known, embedder.fingerprint)

    def refuse(self, known: str, given: str) -> None:
        """Refuse the embedder."""
        raise EmbedderMismatch(f"the store has vectors of {known!r}, not of {given!r}; re-index it")

    async def record(self, batch: Batch) -> RecordReceipt:
        """Write a batch, and embed what can be embedded."""
        receipt = await super().record(batch)
        try:
            await self._embed(batch.scope.space)
        except BackendError:
            return remade(receipt, pending_embeddings=len(receipt.items))
        return receipt

    async def _embed(self, space: str) -> None:
        new = {
            i: text_of(s)
            for i, s in self._standing(space).items()
            if i not in self._vectors and s.kind != "relation"
        }
        vectors = await self._world.embedder.embed_passages(list(new.values()))
        self._vectors.update(zip(new, vectors, strict=True))

    async def search(self, query: SearchQuery) -> SearchPage:
        """Search by words and by meaning, or by words, and say so."""
        query = query.canonical(self._rules)
        degraded, asked = None, list[float]()
        try:
            await self._embed(query.scope.space)
            asked = await self._world.embedder.embed_query(query.text)
        except BackendError as error:
            degraded = f"no vectors: {error}"
        near = _Near(self, query, asked, self.floor())
        return searching.answer(query, near, self._clock.now(), degraded)

    def floor(self) -> float:
        """Return the similarity from which on a text counts as near."""
        return self._world.embedder.min_similarity


class _Near(Everything):
    """Adds to the lexical list what is near."""

    def __init__(self, owner: DenseReference, query: SearchQuery, asked: list[float], floor: float) -> None:
        space = query.scope.space
        super().__init__(lambda as_of: owner._standing(space, as_of), owner._shelf.used)  # noqa: SLF001 - its half
        self._vectors, self._asked, self._floor = owner._vectors, asked, floor  # noqa: SLF001 - see above

    def lexical(self, terms: Any, chosen: Selection, depth: int) -> Retrieved:
        scores = dict(super().lexical(terms, chosen, depth).items)
        states = self._standing(chosen.as_of)
        for item, vector in self._vectors.items():
            near = sum(x * y for x, y in zip(vector, self._asked, strict=False))
            state = states.get(item)
            if (
                state is not None
                and near >= self._floor
                and chosen.passes(state, searching.owner_of(state, states))
            ):
                scores[item] = scores.get(item, 0.0) + near
        return Retrieved(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:depth])


@breaks("dense.finds")
class IgnoresVectors(DenseReference):
    """Declares vectors, and searches words."""

    def floor(self) -> float:
        """Find nothing near."""
        return 2.0


@breaks("dense.floor")
class EverythingIsNear(DenseReference):
    """Finds whatever has a vector."""

    def floor(self) -> float:
        """Find everything near."""
        return -2.0


@breaks("dense.degrades")
class FailsWithItsEmbedder(DenseReference):
    """Can't write while its embedder is down."""

    async def record(self, batch: Batch) -> RecordReceipt:
        """Embed first."""
        await self._world.embedder.embed_passages([passage.text for passage in batch.passages])
        return await super().record(batch)


@breaks("dense.degrades")
class HidesThatVectorsAreMissing(DenseReference):
    """Does not say that it searched by words only."""

    async def search(self, query: SearchQuery) -> SearchPage:
        """Leave the reason out."""
        return remade(await super().search(query), degraded=None)


@breaks("dense.mismatch")
class MixesVectors(DenseReference):
    """Takes the vectors of any embedder."""

    def refuse(self, known: str, given: str) -> None:
        """Do nothing."""
