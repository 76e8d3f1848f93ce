"""The local store as core's `searching` sees it: one view of one space, its index and its activity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.ranking import Place
from rawthink_core.searching import Retrieved, Seat

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from rawthink_core.activity import Activity
    from rawthink_core.retrieval import Terms
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection
    from rawthink_local.fields import Match
    from rawthink_local.searchindex import SearchIndex
    from rawthink_local.view import View


class Retrieval:
    """Serves one search."""

    def __init__(self, index: SearchIndex, view: View, activity: Activity) -> None:
        self._index = index
        self._view = view
        self._activity = activity

    def retrieve(
        self, terms: Terms, vector: Sequence[float] | None, chosen: Selection, depth: int
    ) -> tuple[Retrieved, Retrieved]:
        """Return the best items by BM25, and by cosine, each by the nearest of its windows."""
        words, near = self._index.find(terms, vector, chosen, depth)
        return _retrieved(words, chosen), _retrieved(near, chosen)

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        """Return states and the entities that they belong to."""
        return self._view.states(ids, as_of)

    def passages_at(self, places: Collection[Place], as_of: str | None) -> Mapping[Place, State]:
        """Return the passages at places of sessions."""
        return self._view.passages_at(places, as_of)

    def last_used(self, ids: Collection[str]) -> Mapping[str, date]:
        """Return the days of last use."""
        return self._activity.last_used(ids)


def _retrieved(hits: Sequence[Match], chosen: Selection) -> Retrieved:
    scores = [(i, score) for i, score, _ in hits]
    if chosen.as_of is not None and chosen.valid_at is not None:
        return Retrieved(scores)  # the index can't tell what held, as it was believed then
    return Retrieved(
        scores, {i: Seat(Place(*place[:2]), place[2]) for i, _, place in hits if place is not None}
    )
