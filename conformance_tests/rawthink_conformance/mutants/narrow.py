"""Mutants with a narrow fault: each breaks one requirement that coarser ones break beside another."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rawthink_conformance.mutants.writing import Unlocked
from rawthink_conformance.mutants.zoo import ChangesRows, breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.clock import iso
from rawthink_core.model import Entity, Observation

if TYPE_CHECKING:
    from datetime import datetime

    from rawthink_core.commits import Commit
    from rawthink_core.operations import (
        Batch,
        Get,
        Items,
        RecordReceipt,
        Scan,
        ScanPage,
        SearchPage,
        SearchQuery,
    )
    from rawthink_core.rows import Row

_THIRTEENTH = 12


@breaks("ids.stable")
class IdsOfFirstNames(ReferenceProvider):
    """Loses an entity's id when it gets another name."""

    def _get(self, request: Get) -> Items:
        page = super()._get(request)
        gone = {i.id for i in page.items if isinstance(i, Entity) and i.id in request.ids and _renamed(i)}
        kept = tuple(item for item in page.items if item.id not in gone)
        return remade(page, items=kept, missing=(*page.missing, *sorted(gone)))


def _renamed(entity: Entity) -> bool:
    return any(version.field == "name" and version.invalidated_at for version in entity.versions)


@breaks("revise.race")
class RevisesWithoutLock(Unlocked):
    """Plans revisions on what it read a moment ago, and all else under its lock."""

    def _record(self, batch: Batch) -> RecordReceipt:
        return super()._record(batch) if batch.revisions else ReferenceProvider._record(self, batch)  # noqa: SLF001


@breaks("revise.retry")
class RevisesAgain(ReferenceProvider):
    """Remembers batches, but no revisions."""

    def _committed(self, batch: Batch) -> Commit | None:
        return None if batch.revisions else super()._committed(batch)


@breaks("revise.in_batch")
class OneLinkBack(ChangesRows):
    """Notes on a successor the first only of those that it replaced."""

    def changed(self, row: Row) -> Row:
        """Keep one."""
        links = row.get("supersedes")
        return {**row, "supersedes": links[:1]} if row["op"] == "observation" and links else row


@breaks("search.stale")
class FindsFormerTurns(ReferenceProvider):
    """Finds what a turn said before it was edited."""

    def _search(self, query: SearchQuery) -> SearchPage:
        page = super()._search(query)
        if page.items or query.statuses not in ((), ("active",)):
            return page
        former = super()._search(remade(query, statuses=("ended",), items=("passage",)))
        return remade(former, items=tuple(hit for hit in former.items if hit.item == "passage"))


@breaks("search.past_is_ageless")
class ThePastAges(ReferenceProvider):
    """Ranks what was believed then by its age."""

    def _search(self, query: SearchQuery) -> SearchPage:
        page = super()._search(query)
        if query.as_of is None:
            return page
        return remade(page, items=tuple(sorted(page.items, key=lambda hit: hit.recorded_at, reverse=True)))


@breaks("restore.times")
class ForgetsWhenItWasRestored(ReferenceProvider):
    """Takes the time of what it wrote itself for that of its last commit."""

    written = ""

    def _next_instant(self) -> datetime:
        now = self._clock.now()
        while iso(now) <= self.written:
            now += timedelta(microseconds=1)
        return now

    def _keep(self, commit: Commit) -> None:
        super()._keep(commit)
        self.written = max(self.written, commit.at)

    async def open(self) -> None:
        """Look up when it wrote last."""
        await super().open()
        self.written = max((commit.at for commit in self._shelf.commits), default="")


@breaks("machine.agrees")
class Superstitious(ReferenceProvider):
    """Does not show what the thirteenth commit of a space said, until there is a fourteenth."""

    def _scan(self, request: Scan) -> ScanPage:
        page = super()._scan(request)
        commits = [commit.at for commit in self._shelf.commits if commit.space == request.scope.space]
        if len(commits) != _THIRTEENTH + 1:
            return page
        return remade(page, items=tuple(item for item in page.items if not self._unlucky(item, commits[-1])))

    def _unlucky(self, item: Any, at: str) -> bool:
        return isinstance(item, Observation) and iso(item.recorded_at) == at
