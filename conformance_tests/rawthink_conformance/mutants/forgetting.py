"""Mutants that forget too little, too much, or not for good."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rawthink_conformance.mutants.zoo import breaks, remade
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.commits import Commit, encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rawthink_core.operations import Forget, ForgetReceipt, Get, Items
    from rawthink_core.rows import State


@breaks("forget.verbs")
class ForgetsFromGet(ReferenceProvider):
    """Hides what was forgotten from `get`, and from nothing else."""

    hidden: frozenset[str] = frozenset()

    def _erase(self, space: str, chosen: Mapping[str, State]) -> None:  # noqa: ARG002 - that is the fault
        self.hidden |= chosen.keys()

    def _get(self, request: Get) -> Items:
        items = super()._get(request)
        shown = tuple(item for item in items.items if item.id not in self.hidden)
        missing = (*items.missing, *(item.id for item in items.items if item.id in self.hidden))
        return remade(items, items=shown, missing=missing)


@breaks("forget.export")
class HidesFromReads(ReferenceProvider):
    """Marks what was forgotten, and erases nothing."""

    def _erase(self, space: str, chosen: Mapping[str, State]) -> None:
        before = list(self._shelf.commits)
        super()._erase(space, chosen)
        self._shelf.commits = [*before, self._shelf.commits[-1]]


@breaks("forget.files")
class KeepsAFile(ReferenceProvider):
    """Keeps a file of all that was ever written."""

    def _keep(self, commit: Commit) -> None:
        super()._keep(commit)
        with (self._world.path / "debug.jsonl").open("ab") as file:
            file.write(encode(commit))


@breaks("forget.files")
class LogsTexts(ReferenceProvider):
    """Writes what it stores into the log."""

    def _keep(self, commit: Commit) -> None:
        super()._keep(commit)
        logging.getLogger("rawthink.mutant").debug("stored %s", commit.rows)


@breaks("forget.names")
class LeavesWhatWasSaid(ReferenceProvider):
    """Forgets an entity, and not what was said of it."""

    def _to_forget(self, request: Forget, states: dict[str, State]) -> tuple[set[str], tuple[str, ...]]:
        chosen, missing = super()._to_forget(request, states)
        return {i for i in chosen if states[i].kind == "entity" or not request.names}, missing


@breaks("forget.sessions")
class ForgetsWhatStands(ReferenceProvider):
    """Forgets the passages of a session that still stand."""

    def _to_forget(self, request: Forget, states: dict[str, State]) -> tuple[set[str], tuple[str, ...]]:
        chosen, missing = super()._to_forget(request, states)
        return {i for i in chosen if states[i].active or not request.sessions}, missing


@breaks("forget.receipt")
class SilentReceipt(ReferenceProvider):
    """Does not say from where it was erased."""

    def _forget(self, request: Forget) -> ForgetReceipt:
        return remade(super()._forget(request), places=())


@breaks("forget.links")
class BringsTheOldBack(ReferenceProvider):
    """Erases with an item also the note that it replaced another."""

    def _erase(self, space: str, chosen: Mapping[str, State]) -> None:
        super()._erase(space, chosen)
        self._shelf.commits = [
            Commit(
                commit.id,
                commit.at,
                commit.space,
                tuple(row for row in commit.rows if row.get("superseded_by") not in chosen),
                commit.by,
                commit.request,
            )
            for commit in self._shelf.commits
        ]


@breaks("forget.retry")
class ForgetsTheBatch(ReferenceProvider):
    """Forgets with the text that its batch was ever sent."""

    def _erase(self, space: str, chosen: Mapping[str, State]) -> None:
        super()._erase(space, chosen)
        self._shelf.commits = [commit for commit in self._shelf.commits if commit.rows]


@breaks("forget.restore")
class RestoresWhatWasForgotten(ReferenceProvider):
    """Takes rows of forgotten items from a copy that still speaks of them."""

    def _gone(self, space: str) -> set[str]:
        del space
        return set()
