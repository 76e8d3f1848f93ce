"""Mutants that find too much or too little."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rawthink_conformance.brute import Everything
from rawthink_conformance.mutants.zoo import breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.errors import InvalidRequest
from rawthink_core.searching import Retrieved, text_of
from rawthink_core.text import document_vector

if TYPE_CHECKING:
    from rawthink_core.operations import BeforeChat, Recall, SearchPage, SearchQuery
    from rawthink_core.selection import Selection

Terms = tuple[list[int], list[float]]


class Retrieves(ReferenceProvider):
    """Base: retrieves by other means. ``retrieval`` is a subclass of the reference's."""


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


class _PresentNames(Everything):
    def documents(self) -> dict[str, dict[int, float]]:
        found = super().documents()
        for item, state in self._standing(None).items():
            if state.kind == "entity":
                names = "\n".join([state.value("name"), *state.value("aliases")])
                found[item] = dict(zip(*document_vector(names), strict=True))
        return found


@breaks("search.entities")
class FormerNamesLost(Retrieves):
    """Finds an entity by the names that it has now."""

    retrieval = _PresentNames


class _FirstNames(Everything):
    def documents(self) -> dict[str, dict[int, float]]:
        found = super().documents()
        for item, state in self._standing(None).items():
            if state.kind == "entity":
                found[item] = dict(zip(*document_vector(state.row["name"]), strict=True))
        return found


@breaks("search.entities", "search.stale")
class NamesIndexedOnce(Retrieves):
    """Indexes an entity when it is created, and never again."""

    retrieval = _FirstNames


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
