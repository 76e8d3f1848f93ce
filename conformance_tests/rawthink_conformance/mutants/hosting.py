"""Mutants that are bad guests: they print, leave tasks behind, and answer or fail in ways of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rawthink_conformance.mutants.zoo import breaks
from rawthink_conformance.reference import ReferenceProvider

if TYPE_CHECKING:
    from rawthink_core.operations import HistoryQuery, RecordReceipt, Revision


@breaks("host.answers")
class AnswersInPlainData(ReferenceProvider):
    """Answers a revision with a dictionary."""

    async def revise(self, revision: Revision) -> Any:
        """Dump the receipt."""
        return (await super().revise(revision)).model_dump()


@breaks("host.errors")
class FailsInItsOwnWay(ReferenceProvider):
    """Lets the error of a look-up through."""

    async def history(self, query: HistoryQuery) -> Any:
        """Look the id up first."""
        if query.id is not None:
            return {item.id: item for item in self._nouns(self._standing(query.scope.space).values(), {})}[
                query.id
            ]
        return await super().history(query)


@breaks("host.stdout")
class Chatty(ReferenceProvider):
    """Tells everyone who listens what it does."""

    async def revise(self, revision: Revision) -> RecordReceipt:
        """Print."""
        print(f"revising {len(revision.change.targets)} beliefs")  # noqa: T201 - that is the fault
        return await super().revise(revision)


@breaks("host.tasks")
class RunsOn(ReferenceProvider):
    """Starts a task that looks for work, and never ends it."""

    async def open(self) -> None:
        """Start it."""
        await super().open()
        self._worker = asyncio.ensure_future(self._look_for_work())

    async def _look_for_work(self) -> None:
        await asyncio.Event().wait()
