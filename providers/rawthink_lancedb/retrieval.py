"""A space as core's `searching` sees it: one view of its log, its index and its activity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_lancedb.matching import by_meaning, by_words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from rawthink_core.activity import Activity
    from rawthink_core.ranking import Place
    from rawthink_core.retrieval import Retrieved
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection
    from rawthink_lancedb.index import Index
    from rawthink_lancedb.view import View


class Retrieval:
    """Serves one search."""

    def __init__(self, index: Index, view: View, activity: Activity) -> None:
        self._index = index
        self._view = view
        self._activity = activity

    def lexical(self, terms: tuple[list[int], list[float]], chosen: Selection, depth: int) -> Retrieved:
        """Return the best items by BM25."""
        return by_words(self._index, terms, chosen, depth)

    def dense(self, vector: Sequence[float], chosen: Selection, depth: int) -> Retrieved:
        """Return the best items by cosine, each by the nearest of its windows."""
        return by_meaning(self._index, vector, chosen, depth)

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        """Return states and the entities that they belong to."""
        return self._view.states(ids, as_of)

    def passages_at(self, places: Collection[Place], as_of: str | None) -> Mapping[Place, State]:
        """Return the passages at places of sessions."""
        return self._view.passages_at(places, as_of)

    def last_used(self, ids: Collection[str]) -> Mapping[str, date]:
        """Return the days of last use."""
        return self._activity.last_used(ids)
