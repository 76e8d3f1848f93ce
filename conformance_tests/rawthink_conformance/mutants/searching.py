"""Mutants that find too much, too little, or in the wrong order."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rawthink_conformance.brute import Everything
from rawthink_conformance.mutants.zoo import breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core import searching
from rawthink_core.errors import InvalidRequest
from rawthink_core.ranking import activity
from rawthink_core.searching import Retrieved, text_of
from rawthink_core.text import document_vector

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rawthink_core.operations import BeforeChat, Recall, SearchPage, SearchQuery
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection

Terms = tuple[list[int], list[float]]


class Retrieves(ReferenceProvider):
    """Base: retrieves by other means. ``retrieval`` is a subclass of the reference's."""

    retrieval: type[Everything] = Everything

    def _retrieval(self, space: str) -> Everything:
        return self.retrieval(lambda as_of: self._standing(space, as_of), self._shelf.used)


class _Indexed(Everything):
    """Base: indexes something else than the text."""

    def indexed(self, text: str) -> str:
        raise NotImplementedError

    def documents(self) -> dict[str, dict[int, float]]:
        known = self._standing(None)
        return {
            item: dict(zip(*document_vector(self.indexed(text_of(known[item]))), strict=True))
            for item in super().documents()
        }


class _AsciiOnly(_Indexed):
    def indexed(self, text: str) -> str:
        return text.encode("ascii", "ignore").decode()


class _WordsOnly(_Indexed):
    def indexed(self, text: str) -> str:
        return re.sub(r"[^\w\s]", " ", text)


@breaks("search.languages")
class AsciiIndex(Retrieves):
    """Indexes ASCII words."""

    retrieval = _AsciiOnly


@breaks("search.code")
class WordIndex(Retrieves):
    """Drops symbols before it indexes."""

    retrieval = _WordsOnly


class _NoEntities(Everything):
    def documents(self) -> dict[str, dict[int, float]]:
        known = self._standing(None)
        return {i: d for i, d in super().documents().items() if known[i].kind != "entity"}


@breaks("search.entities")
class NamesNotIndexed(Retrieves):
    """Finds what is said of entities, and not the entities."""

    retrieval = _NoEntities


class _FormerNames(Everything):
    def documents(self) -> dict[str, dict[int, float]]:
        found = super().documents()
        for item, state in self._standing(None).items():
            if state.kind == "entity":
                found[item] = dict(zip(*document_vector("\n".join(state.names())), strict=True))
        return found


@breaks("search.stale")
class StaleNames(Retrieves):
    """Finds an entity by names that it had once."""

    retrieval = _FormerNames


class _Late(Everything):
    def lexical(self, terms: Terms, chosen: Selection, depth: int) -> Retrieved:
        everything = replace(
            chosen,
            statuses=("active", "ended", "invalidated"),
            observation_kinds=(),
            entity_types=(),
            domains=(),
            tags=(),
            sessions=(),
            since=None,
            until=None,
        )
        best = super().lexical(terms, everything, depth).items
        passing = {item for item, _ in super().lexical(terms, chosen, 1_000_000).items}
        return Retrieved([pair for pair in best if pair[0] in passing])


@breaks("search.filters_first")
class FiltersAfterTopK(Retrieves):
    """Takes the best, and then those of them that pass."""

    retrieval = _Late


class _Shallow(Everything):
    def lexical(self, terms: Terms, chosen: Selection, depth: int) -> Retrieved:
        return super().lexical(terms, chosen, min(depth, 100))


@breaks("search.group")
class ShallowGroups(Retrieves):
    """Groups the first hundred hits."""

    retrieval = _Shallow


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


# --- what comes of it ---------------------------------------------------------------------------


class ChangesPages(ReferenceProvider):
    """Base: answers something else than was found."""

    def changed(self, query: SearchQuery, page: SearchPage) -> SearchPage:
        """Return the page that is answered instead."""
        raise NotImplementedError

    def _search(self, query: SearchQuery) -> SearchPage:
        return self.changed(query, super()._search(query))


@breaks("search.punctuation")
class ParsesQuestions(ReferenceProvider):
    """Takes quotes and brackets in a question for its grammar."""

    def _search(self, query: SearchQuery) -> SearchPage:
        if query.text.count('"') % 2 or query.text.count("(") != query.text.count(")"):
            raise InvalidRequest("syntax error in the question")
        return super()._search(query)


@breaks("search.hit")
class BareHits(ChangesPages):
    """Leaves tags and speakers out of hits."""

    def changed(self, query: SearchQuery, page: SearchPage) -> SearchPage:  # noqa: ARG002 - the base's signature
        """Drop them."""
        return remade(page, items=tuple(remade(hit, tags=(), speaker=None) for hit in page.items))


@breaks("search.limit")
class OneMore(ReferenceProvider):
    """Answers one more than was asked for."""

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(remade(query, limit=query.limit + 1))


@breaks("search.limit")
class NeverTruncated(ChangesPages):
    """Does not say that there is more."""

    def changed(self, query: SearchQuery, page: SearchPage) -> SearchPage:  # noqa: ARG002 - the base's signature
        """Claim to be complete."""
        return remade(page, truncated=False)


@breaks("search.limit")
class CountsThePage(ChangesPages):
    """Counts the hits of the page."""

    def changed(self, query: SearchQuery, page: SearchPage) -> SearchPage:  # noqa: ARG002 - the base's signature
        """Count what is shown."""
        return remade(page, total=len(page.items))


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
class NotesNothing(ReferenceProvider):
    """Does not note what is read."""

    def _use(self, ids: Collection[str]) -> None:
        """Do nothing."""


@breaks("search.why")
class ExplainsNothing(ReferenceProvider):
    """Does not say how a hit came to its place."""

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(remade(query, why=False))


@breaks("search.relevant_only", "chat.relevant")
class AnythingIsRelevant(ReferenceProvider):
    """Recalls whatever comes near."""

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(remade(query, relevant_only=False))


@breaks("chat.relevant")
class RecallsTooMuch(ReferenceProvider):
    """Recalls twice as much as it was asked for."""

    async def on_before_chat(self, request: BeforeChat) -> Recall:
        """Ask for more."""
        return await super().on_before_chat(remade(request, limit=2 * request.limit))
