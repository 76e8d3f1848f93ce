"""One Space of Nowledge Mem as core's `searching` sees it: our words, and what the server's search found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.retrieval import NOTHING, Retrieved
from rawthink_nowledge.lexicon import passing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from rawthink_core.activity import Activity
    from rawthink_core.ranking import Place
    from rawthink_core.retrieval import Terms
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection
    from rawthink_nowledge.ledger import Ledger
    from rawthink_nowledge.lexicon import Lexicon


class Retrieval:
    """Serves one search. ``found`` is what the server's own search answered: items and scores, best first.

    Of that only what shares no term with the question counts. What does is ranked by our words, for the
    server's score of it hangs on what else the server holds.
    """

    def __init__(
        self, ledger: Ledger, lexicon: Lexicon, activity: Activity, found: Sequence[tuple[str, float]]
    ) -> None:
        self._ledger = ledger
        self._lexicon = lexicon
        self._activity = activity
        self._found = found

    def retrieve(
        self, terms: Terms, vector: Sequence[float] | None, chosen: Selection, depth: int
    ) -> tuple[Retrieved, Retrieved]:
        """Return the best items by their words, and what the server found by its meaning alone.

        The server was asked in words: ``vector`` only tells whether it was.
        """
        words = self._lexicon.search(terms, self._ledger, chosen, depth) if terms[0] else NOTHING
        if vector is None:
            return words, NOTHING
        alone = (hit for hit in self._found if not self._lexicon.shares(hit[0], terms[0]))
        return words, Retrieved(passing(alone, self._ledger, chosen, depth))

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        """Return states and the entities that they belong to."""
        return self._ledger.states(ids, as_of)

    def passages_at(self, places: Collection[Place], as_of: str | None) -> Mapping[Place, State]:
        """Return the passages at places of sessions."""
        return self._ledger.passages_at(places, as_of)

    def last_used(self, ids: Collection[str]) -> Mapping[str, date]:
        """Return the days of last use."""
        return self._activity.last_used(ids)
