"""A batch on its way to its commit: what every store does under whatever makes its writes exclusive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rawthink_core.clock import iso
from rawthink_core.commits import Commit, digest, receipt_of
from rawthink_core.errors import BatchIdReused, quoted
from rawthink_core.graph import Slice, needs, plan, prepare

if TYPE_CHECKING:
    from datetime import datetime

    from rawthink_core.graph import Facts, Needs
    from rawthink_core.model import Rules
    from rawthink_core.operations import Batch, RecordReceipt


class FactReader(Protocol):
    """Looks up what a plan needs to see, in one state of a space."""

    def facts(self, wanted: Needs) -> Facts:
        """Return what was asked for."""
        ...


class Draft:
    """A batch, and what can be judged of it without a store. Made before anything is locked."""

    def __init__(self, batch: Batch, rules: Rules) -> None:
        self.id, self.space = batch.id, batch.scope.space
        self._work, self._request = prepare(batch, rules), digest(batch)

    def commit(self, reader: FactReader, at: datetime) -> Commit:
        """Return the commit to write, anew where others came first. Raises every fault, as `plan` does."""
        known = Slice()
        while wanted := needs(self._work, known, at):
            known.learn(reader.facts(wanted))
        rows = plan(self._work, known, at)
        return Commit(self.id, iso(at), self.space, rows, self._work.by, self._request)

    def receipt(self, commit: Commit) -> RecordReceipt:
        """Return the receipt of the commit with the id. Raises BatchIdReused where that was other content."""
        if commit.request != self._request:
            raise BatchIdReused(f"batch id {quoted(self.id)} was used for other content; use a new id")
        return receipt_of(commit)
