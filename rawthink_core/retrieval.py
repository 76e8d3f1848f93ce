"""What a search asks of a store: the two lists, and the states behind them.

A provider implements `Retrieval` over one space; `searching.answer` does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from rawthink_core.ranking import Place

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import date

    from rawthink_core.rows import State
    from rawthink_core.selection import Selection


Terms: TypeAlias = "tuple[list[int], list[float]]"
"""Core's terms of a question, with their weights: see `text.query_vector`."""


class Seat(NamedTuple):
    """Where a passage stands, and who speaks in it."""

    place: Place
    speaker: str | None = None


class Retrieved(NamedTuple):
    """One list of (id, raw score), best first, of at most the depth asked for.

    ``seats`` are those of the passages among them; None says that the engine can't tell, and makes every
    state be looked at.
    """

    items: Sequence[tuple[str, float]]
    seats: Mapping[str, Seat] | None = None


NOTHING = Retrieved((), {})


class Retrieval(Protocol):
    """What `answer` asks of a store. Every method sees one space only and applies filters before top-k."""

    def retrieve(
        self, terms: Terms, vector: Sequence[float] | None, chosen: Selection, depth: int
    ) -> tuple[Retrieved, Retrieved]:
        """Return the best items by their words, and the best by what they mean.

        By words: BM25 over core's terms, with statistics of this space alone; nothing for no terms. By
        meaning: cosine; what is embedded in windows counts once, with its best window, what has no vector
        yet is not in the list, and no vector finds nothing.
        """
        ...

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        """Return the states of items by id, and of the entities that they belong to."""
        ...

    def passages_at(self, places: Collection[Place], as_of: str | None) -> Mapping[Place, State]:
        """Return the passages at these places of sessions, where there are any."""
        ...

    def last_used(self, ids: Collection[str]) -> Mapping[str, date]:
        """Return the day on which items were last read, where that is known."""
        ...


def seats_of(items: Iterable[str], states: Mapping[str, State], *lists: Retrieved) -> dict[str, Seat]:
    """Return where the passages among ``items`` stand: by their states where known, else by a list."""
    listed: dict[str, Seat] = {}
    for retrieved in lists:
        listed.update(retrieved.seats or {})
    seats: dict[str, Seat] = {}
    for item in items:
        if (state := states.get(item)) is not None:
            if state.kind == "passage":
                place = Place(state.row["session"], state.row["ordinal"])
                seats[item] = Seat(place, state.row.get("speaker"))
        elif item in listed:
            seats[item] = listed[item]
    return seats
