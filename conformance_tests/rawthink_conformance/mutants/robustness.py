"""Mutants that declare too much, hide that they are down, or stand in the way."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rawthink_conformance.mutants.zoo import breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_conformance.shelf import Shelf
from rawthink_core.errors import BackendUnavailable
from rawthink_core.operations import Health, Items, ScanPage, SearchPage
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from rawthink_core.commits import Commit
    from rawthink_core.operations import (
        AfterChat,
        Batch,
        Get,
        Maintain,
        MaintainReceipt,
        RecordReceipt,
        Scan,
        SearchQuery,
    )
    from rawthink_core.rows import State


class Declares(ReferenceProvider):
    """Base: declares something else. ``changes`` maps capabilities to grades; None takes one away."""

    changes: dict[Capability, str | None]

    def _settle(self, zone: str) -> None:
        super()._settle(zone)
        declared = {
            name: grade
            for name, grade in {**self.info.capabilities, **self.changes}.items()
            if grade is not None
        }
        self.info = replace(self.info, capabilities=declared)


@breaks("info.declares")
class UnknownGrade(Declares):
    """Declares a grade that nobody knows."""

    changes = {Capability.FORGET: "sometimes"}  # noqa: RUF012 - read only


@breaks("unsupported.typed")
class AnswersUndeclared(Declares):
    """Answers a verb that it does not declare."""

    changes = {Capability.GRAPH: None}  # noqa: RUF012 - read only


@breaks("unsupported.typed")
class RefusesDeclared(ReferenceProvider):
    """Refuses a verb that it declares."""

    async def maintain(self, request: Maintain) -> MaintainReceipt:
        """Refuse."""
        raise self._unsupported("maintain", request)


@breaks("unsupported.typed", "graph.walk")
class RefusesInItsOwnWay(Declares):
    """Refuses an undeclared verb with an error of its own."""

    changes = {Capability.GRAPH: None}  # noqa: RUF012 - read only

    async def graph(self, query: Any) -> Any:
        """Refuse, untyped."""
        raise NotImplementedError(query)


@breaks("down.raises")
class EmptyWhenDown(ReferenceProvider):
    """Answers "nothing" when its store can't be opened."""

    async def open(self) -> None:
        """Hide the failure."""
        try:
            await super().open()
        except BackendUnavailable:
            self._opened = None

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(query) if self._opened else SearchPage()

    def _get(self, request: Get) -> Items:
        return super()._get(request) if self._opened else Items()

    def _scan(self, request: Scan) -> ScanPage:
        return super()._scan(request) if self._opened else ScanPage()


@breaks("down.health", "health.absent")
class AlwaysWell(ReferenceProvider):
    """Is always well."""

    async def health(self) -> Health:
        """Say so."""
        return Health(status="ok", location=self.info.location)


@breaks("health.works")
class NeverWell(ReferenceProvider):
    """Can't say how it is."""

    async def health(self) -> Health:
        """Say nothing of use."""
        return Health(status="degraded", location="")


@breaks("health.absent")
class OpensToLook(ReferenceProvider):
    """Opens a store, and so makes one, to see how it is."""

    async def health(self) -> Health:
        """Open first."""
        if self._opened is None and not self._world.path.parent.is_file():
            await self.open()
        return await super().health()


@breaks("maintain.keeps")
class TidiesUp(ReferenceProvider):
    """Takes what was retired for garbage."""

    async def maintain(self, request: Maintain) -> MaintainReceipt:
        """Throw it away."""
        space = request.scope.space
        retired = {i: s for i, s in self._standing(space).items() if s.status != "active"}
        self._erase(space, retired)
        return await super().maintain(request)


@breaks("open.close_twice")
class ClosesOnce(ReferenceProvider):
    """Can be closed once."""

    async def close(self) -> None:
        """Fail the second time."""
        if self._opened is None:
            raise BackendUnavailable("not open")
        self._opened = None


@breaks("open.reopen")
class ForgetsAtClosing(ReferenceProvider):
    """Keeps its memories while it is open."""

    async def open(self) -> None:
        """Begin with nothing."""
        await super().open()
        self._opened = Shelf(self._shelf.zone)


@breaks("writes.read")
class StaleReads(ReferenceProvider):
    """Scans and searches what was there before the last write."""

    behind: dict[str, dict[str, State]]

    def _keep(self, commit: Commit) -> None:
        self.behind = {commit.space: self._states(commit.space)}
        super()._keep(commit)

    def _scan(self, request: Scan) -> ScanPage:
        old = getattr(self, "behind", {}).get(request.scope.space)
        page = super()._scan(request)
        return (
            page if old is None else remade(page, items=tuple(item for item in page.items if item.id in old))
        )


@breaks("writes.second_instance")
class PrivateCopy(Declares):
    """Reads what was there when it was opened, and what it wrote itself."""

    changes = {Capability.PROCESSES: "many"}  # noqa: RUF012 - read only

    async def open(self) -> None:
        """Take a copy."""
        await super().open()
        self._original = self._shelf
        self._opened = Shelf(self._original.zone)
        self._opened.commits = list(self._original.commits)

    def _keep(self, commit: Commit) -> None:
        super()._keep(commit)
        self._original.commits.append(commit)


@breaks("load.loop")
class BlocksTheLoop(ReferenceProvider):
    """Searches on the event loop."""

    async def search(self, query: SearchQuery) -> SearchPage:
        """Take its time."""
        time.sleep(0.08)  # noqa: ASYNC251 - that is the fault
        return await super().search(query)


@breaks("chat.captures")
class CleansTurns(ReferenceProvider):
    """Takes every mention of the tag for an injected block."""

    async def on_after_chat(self, request: AfterChat) -> RecordReceipt:
        """Cut what looks like one."""
        kept = tuple(remade(p, text=p.text.split("<memory-context>")[0]) for p in request.passages)
        return await super().on_after_chat(remade(request, passages=kept))


@breaks("chat.captures")
class TurnsHaveNoId(ReferenceProvider):
    """Stores a turn as often as it is sent."""

    async def on_after_chat(self, request: AfterChat) -> RecordReceipt:
        """Send it under another id."""
        batch: Batch = request.as_batch()
        return await self.record(remade(batch, id=self._world.ids.new()))
