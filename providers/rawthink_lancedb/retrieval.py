"""A space as core's `searching` sees it: one view of its log, its index and its activity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rawthink_lancedb.matching import best

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from rawthink_core.activity import Activity
    from rawthink_core.ranking import Place
    from rawthink_core.retrieval import Retrieved, Terms
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection
    from rawthink_lancedb.index import Index
    from rawthink_lancedb.view import View


_SHOWN: Final = 20  # items of each list whose rows are read ahead


class Retrieval:
    """Serves one search."""

    def __init__(self, index: Index, view: View, activity: Activity) -> None:
        self._index = index
        self._view = view
        self._activity = activity

    def retrieve(
        self, terms: Terms, vector: Sequence[float] | None, chosen: Selection, depth: int
    ) -> tuple[Retrieved, Retrieved]:
        """Return the best items by BM25, and by cosine, each by the nearest of its windows."""
        words, near = best(self._index, terms, vector, chosen, depth)
        heads = {item for item, _ in (*words.items[:_SHOWN], *near.items[:_SHOWN])}
        self._view.states(heads, chosen.as_of)  # read at once what would be read bit by bit
        return words, near

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        """Return states and the entities that they belong to."""
        return self._view.states(ids, as_of)

    def passages_at(self, places: Collection[Place], as_of: str | None) -> Mapping[Place, State]:
        """Return the passages at places of sessions."""
        return self._view.passages_at(places, as_of)

    def last_used(self, ids: Collection[str]) -> Mapping[str, date]:
        """Return the days of last use."""
        return self._activity.last_used(ids)
