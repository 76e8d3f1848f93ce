"""Mutants that find the right things in the wrong order."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rawthink_conformance.brute import Everything
from rawthink_conformance.mutants.searching import ChangesPages, Retrieves, Terms
from rawthink_conformance.mutants.zoo import breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core import searching
from rawthink_core.ranking import activity
from rawthink_core.searching import Retrieved

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rawthink_core.operations import GraphPage, GraphQuery, SearchPage, SearchQuery
    from rawthink_core.provider import World
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection


class _EqualTerms(Everything):
    def lexical(self, terms: Terms, chosen: Selection, depth: int) -> Retrieved:
        documents = self.documents()
        found = super().lexical(terms, chosen, 1_000_000).items
        counted = [(item, float(len(documents[item].keys() & set(terms[0])))) for item, _ in found]
        return Retrieved(sorted(counted, key=lambda pair: (pair[1], pair[0]))[:depth])


@breaks("search.first")
class RareIsNothingSpecial(Retrieves):
    """Prefers texts with fewer of the words."""

    retrieval = _EqualTerms

    def _search(self, query: SearchQuery) -> SearchPage:
        page = super()._search(query)
        return remade(page, items=tuple(reversed(page.items)))


class _Lonely(Everything):
    def passages_at(self, *_: Any) -> Mapping[Any, State]:
        return {}


@breaks("search.neighbours")
class NoNeighbours(Retrieves):
    """Looks at each turn alone."""

    retrieval = _Lonely


class _Crowded(Everything):
    def passages_at(self, places: Collection[Any], as_of: str | None) -> Mapping[Any, State]:
        passages = [s for s in self._standing(as_of).values() if s.kind == "passage" and s.active]
        near = {place: s for place in places for s in reversed(passages) if s.row["ordinal"] == place.ordinal}
        return near | dict(super().passages_at(places, as_of))


@breaks("search.neighbours")
class NeighboursOfAnySession(Retrieves):
    """Takes turns of other sessions for neighbours where a session has none."""

    retrieval = _Crowded


class _Nameless(Everything):
    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        found = super().states(ids, as_of)
        return {i: replace(state, row={**state.row, "speaker": None}) for i, state in found.items()}

    def passages_at(self, places: Collection[Any], as_of: str | None) -> Mapping[Any, State]:
        found = super().passages_at(places, as_of)
        return {place: replace(s, row={**s.row, "speaker": None}) for place, s in found.items()}


@breaks("search.speaker")
class HearsNobody(Retrieves):
    """Does not know who speaks."""

    retrieval = _Nameless


@breaks("search.fusion")
class FusesItsOwnWay(ReferenceProvider):
    """Fuses by score, whatever the world says."""

    def __init__(self, world: World) -> None:
        super().__init__(replace(world, fusion="minmax"))


class _Unpinned(Everything):
    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        return {
            item: replace(
                state,
                row={**state.row, "pinned": None},
                versions=[version for version in state.versions if version.field != "pinned"],
            )
            for item, state in super().states(ids, as_of).items()
        }


@breaks("search.pinned")
class IgnoresPins(Retrieves):
    """Lets pinned things age like others."""

    retrieval = _Unpinned


@breaks("search.repeatable", "search.ties")
class RandomTies(ChangesPages):
    """Orders hits as it happens."""

    def changed(self, query: SearchQuery, page: SearchPage) -> SearchPage:  # noqa: ARG002 - the base's signature
        """Shuffle."""
        return remade(page, items=tuple(random.sample(page.items, len(page.items))))


@breaks("search.ties")
class OldestFirst(ChangesPages):
    """Prefers the oldest of equals."""

    def changed(self, query: SearchQuery, page: SearchPage) -> SearchPage:  # noqa: ARG002 - the base's signature
        """Order otherwise."""
        ordered = sorted(page.items, key=lambda hit: (-hit.score, hit.recorded_at, hit.id))
        return remade(page, items=tuple(ordered))


@breaks("search.scores")
class RawScores(ChangesPages):
    """Shows scores of the engine."""

    def changed(self, query: SearchQuery, page: SearchPage) -> SearchPage:  # noqa: ARG002 - the base's signature
        """Scale them."""
        return remade(page, items=tuple(remade(hit, score=hit.score * 7) for hit in page.items))


@breaks("search.decay")
class NothingAges(ReferenceProvider):
    """Takes everything for new."""

    def _search(self, query: SearchQuery) -> SearchPage:
        return searching.answer(query, self._retrieval(query.scope.space), datetime(1970, 1, 1, tzinfo=UTC))


@breaks("search.decay")
class BuriesTheOld(ChangesPages):
    """Multiplies scores by activity outright."""

    def changed(self, query: SearchQuery, page: SearchPage) -> SearchPage:  # noqa: ARG002 - the base's signature
        """Bury."""
        now = self._clock.now()
        hits = (remade(hit, score=hit.score * activity((now - hit.recorded_at).days)) for hit in page.items)
        return remade(page, items=tuple(sorted(hits, key=lambda hit: -hit.score)))


@breaks("search.decay")
class ListingIsUse(ChangesPages):
    """Takes being listed for being read."""

    def changed(self, query: SearchQuery, page: SearchPage) -> SearchPage:  # noqa: ARG002 - the base's signature
        """Note the hits."""
        self._use([hit.id for hit in page.items])
        return page


@breaks("search.use")
class ListedGraphIsRead(ReferenceProvider):
    """Takes the graph that is only listed for one that is read."""

    async def graph(self, query: GraphQuery) -> GraphPage:
        """Note it all the same."""
        return await super().graph(query.model_copy(update={"listing": False}))


@breaks("search.use")
class NotesNothing(ReferenceProvider):
    """Does not note what is read."""

    def _use(self, ids: Collection[str]) -> None:
        """Do nothing."""


@breaks("search.why")
class ExplainsNothing(ReferenceProvider):
    """Does not say how a hit came to its place."""

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(remade(query, why=False))
