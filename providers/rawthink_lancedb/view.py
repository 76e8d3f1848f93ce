"""A view of one space: from questions to states, by way of its log. One view serves one operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.keyed import KeyedReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.rows import Stamped
    from rawthink_lancedb.log import Log


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
