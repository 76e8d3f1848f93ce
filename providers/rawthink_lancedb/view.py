"""A view of one space: from questions to states, by way of its log. One view serves one operation."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from rawthink_core.clock import to_micros
from rawthink_core.keyed import KeyedReader
from rawthink_core.selection import owner_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rawthink_core.rows import Stamped, State
    from rawthink_core.selection import Selection
    from rawthink_lancedb.log import Log

_FIRST: Final = -(2**62)  # microseconds: before all that is


class View(KeyedReader):
    """Reads states of one space. For one thread."""

    def __init__(self, log: Log) -> None:
        super().__init__(log.space)
        self.log = log

    def answers(self, kind: str, asked: Sequence[tuple[object, ...]]) -> list[list[Stamped]]:
        """Return the rows that may answer questions."""
        return self.log.answers(kind, asked)

    def last_ordinal(self, session: str) -> int:
        """Return the highest ordinal of a session, -1 where it has no passage."""
        if self.log.ledger.erasures:  # the ledger still counts what was erased
            return max((state.row["ordinal"] for state in self.session(session)), default=-1)
        return self.log.last_ordinal(session)

    def following(self, chosen: Selection, at: str, item: str, limit: int) -> Iterator[State]:
        """Yield the states that pass, in the order of (recorded at, id), after the given pair."""
        lower = (to_micros(datetime.fromisoformat(at)) if at else _FIRST, item)
        while births := self.log.born_from(lower[0], limit):
            rows = self.log.rows(birth.rid for birth in births)
            states = self.states({stamped.row["id"] for stamped in rows.values()}, chosen.as_of)
            last = births[-1].at
            placed = {(to_micros(datetime.fromisoformat(s.recorded_at)), s.id): s for s in states.values()}
            for place in sorted(placed):
                state = placed[place]
                if lower < place and place[0] <= last and chosen.passes(state, owner_of(state, states)):
                    yield state
            if len(births) < limit:
                return
            lower = (last + 1, "")
