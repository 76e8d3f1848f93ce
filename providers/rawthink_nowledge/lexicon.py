"""An index of the words of one space, in memory: BM25 over core's terms (Robertson & Zaragoza 2009).

The statistics are those of the space alone, so nothing in another space moves an order.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from typing import TYPE_CHECKING

from rawthink_core.retrieval import Retrieved
from rawthink_core.selection import SEARCHABLE, owner_of, text_of
from rawthink_core.text import document_vector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rawthink_core.rows import State
    from rawthink_core.selection import Selection
    from rawthink_nowledge.ledger import Ledger


class Lexicon:
    """Which items hold which terms, and with what weight."""

    def __init__(self) -> None:
        self._postings: defaultdict[int, dict[str, float]] = defaultdict(dict)
        self._texts: dict[str, str] = {}

    def follow(self, ledger: Ledger) -> None:
        """Index what has changed since the last look."""
        while ledger.dirty:
            item = ledger.dirty.pop()
            state = ledger.state(item)
            found = state is not None and not state.forgotten and state.kind in SEARCHABLE
            text = text_of(state) if found and state is not None else None
            if text == self._texts.get(item):
                continue
            self._remove(item)
            if text is not None:
                self._add(item, text)

    def _add(self, item: str, text: str) -> None:
        self._texts[item] = text
        for term, weight in zip(*document_vector(text), strict=True):
            self._postings[term][item] = weight

    def _remove(self, item: str) -> None:
        text = self._texts.pop(item, None)
        if text is None:
            return
        for term in document_vector(text)[0]:
            self._postings[term].pop(item, None)
            if not self._postings[term]:
                del self._postings[term]

    def search(
        self, terms: tuple[list[int], list[float]], ledger: Ledger, chosen: Selection, depth: int
    ) -> Retrieved:
        """Return the best items that pass, by BM25."""
        scores: defaultdict[str, float] = defaultdict(float)
        number = len(self._texts)
        for term, weight in zip(*terms, strict=True):
            held = self._postings.get(term)
            if held is None:
                continue
            idf = math.log(1 + (number - len(held) + 0.5) / (len(held) + 0.5))
            for item, share in held.items():
                scores[item] += weight * share * idf
        ranked = [(-score, item) for item, score in scores.items() if score > 0]
        return Retrieved(_first(ranked, ledger, chosen, depth))

    def shares(self, item: str, terms: Collection[int]) -> bool:
        """Tell whether an item holds any of these terms."""
        return any(item in self._postings.get(term, ()) for term in terms)


def _first(
    ranked: list[tuple[float, str]], ledger: Ledger, chosen: Selection, depth: int
) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    heapq.heapify(ranked)
    while ranked and len(found) < depth:
        score, item = heapq.heappop(ranked)
        if passes(item, ledger, chosen):
            found.append((item, -score))
    return found


def passes(item: str, ledger: Ledger, chosen: Selection) -> bool:
    """Tell whether an item passes the filters of a search, as of the time that it asks about."""
    states: Mapping[str, State] = ledger.states([item], chosen.as_of)
    state = states.get(item)
    return state is not None and chosen.passes(state, owner_of(state, states))


def passing(
    hits: Iterator[tuple[str, float]], ledger: Ledger, chosen: Selection, depth: int
) -> list[tuple[str, float]]:
    """Return the first ``depth`` hits that pass, each item once."""
    found: dict[str, float] = {}
    for item, score in hits:
        if item not in found and passes(item, ledger, chosen):
            found[item] = score
            if len(found) == depth:
                break
    return list(found.items())
