"""Mutants that write too much, too little or twice."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from rawthink_conformance.brute import facts
from rawthink_conformance.mutants.zoo import ChangesBatches, ChangesRows, breaks, remade, without
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.clock import iso
from rawthink_core.commits import Commit, digest, receipt_of
from rawthink_core.errors import InvalidRequest
from rawthink_core.graph import prepare
from rawthink_core.text import same_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rawthink_core.graph import Facts, Needs
    from rawthink_core.operations import Batch, RecordReceipt
    from rawthink_core.rows import Row, State


@breaks("batch.retry", "revise.retry")
class IgnoresBatchIds(ReferenceProvider):
    """Writes a batch as often as it is sent."""

    def _committed(self, batch: Batch) -> Commit | None:  # noqa: ARG002 - that is the fault
        return None


@breaks("batch.reused")
class AnyContent(ReferenceProvider):
    """Answers with the first receipt, whatever else stands in the batch."""

    def _record(self, batch: Batch) -> RecordReceipt:
        known = self._committed(batch)
        return super()._record(batch) if known is None else receipt_of(known)


@breaks("batch.unchanged")
class ForgetsIdleBatches(ReferenceProvider):
    """Does not remember a batch that changed nothing."""

    def _keep(self, commit: Commit) -> None:
        if any(row["op"] != "same" for row in commit.rows):
            super()._keep(commit)


class Unlocked(ReferenceProvider):
    """Base: reads, thinks for a while, and writes what it thought of, whatever was written meanwhile."""

    def _record(self, batch: Batch) -> RecordReceipt:
        if (known := self._committed(batch)) is not None:
            return receipt_of(known)
        rows = self._plan(prepare(batch, self._rules), self._next_instant())
        before = list(self._shelf.commits)
        time.sleep(0.3)  # long enough for the others to have looked too, on any machine
        with self._shelf.lock:
            at = self._next_instant()
            commit = Commit(batch.id, iso(at), batch.scope.space, rows, None, digest(batch))
            self._merge(before, commit)
        return receipt_of(commit)

    def _merge(self, before: list[Commit], commit: Commit) -> None:  # noqa: ARG002 - for its subclass
        self._keep(commit)


@breaks("batch.concurrent", "revise.race")
class PlansWithoutLock(Unlocked):
    """Plans on what it read a moment ago."""


@breaks("write.parallel")
class LosesUpdates(Unlocked):
    """Writes back the whole store as it read it, with its own commit added."""

    def _merge(self, before: list[Commit], commit: Commit) -> None:
        self._shelf.commits = [*before, commit]


@breaks("write.atomic")
class WritesWhatItCan(ReferenceProvider):
    """Writes the good part of a bad batch, and then complains."""

    def _record(self, batch: Batch) -> RecordReceipt:
        try:
            return super()._record(batch)
        except InvalidRequest:
            part = remade(batch, observations=(), relations=(), revisions=())
            super()._record(remade(part, id=f"{batch.id} (part)"))
            raise


@breaks("write.faults")
class StopsAtTheFirstFault(ReferenceProvider):
    """Reports one fault at a time."""

    def _record(self, batch: Batch) -> RecordReceipt:
        try:
            return super()._record(batch)
        except InvalidRequest as error:
            raise type(error)(error.faults[:1]) from None


@breaks("write.limits")
class SmallBatches(ReferenceProvider):
    """Takes a hundred items at once."""

    def _record(self, batch: Batch) -> RecordReceipt:
        if batch.size > 100:  # noqa: PLR2004 - the fault
            raise InvalidRequest("a batch holds at most 100 items, not 1000")
        return super()._record(batch)


@breaks("write.receipt")
class ShuffledReceipts(ReferenceProvider):
    """Lists the items of a receipt in no order."""

    def _record(self, batch: Batch) -> RecordReceipt:
        receipt = super()._record(batch)
        return remade(receipt, items=tuple(reversed(receipt.items)))


@breaks("write.cancelled")
class TornByCancel(ReferenceProvider):
    """Writes a batch in two halves, and can be cancelled between them."""

    async def record(self, batch: Batch) -> RecordReceipt:
        """Write the first half of the observations, then all."""
        half = remade(batch, observations=batch.observations[: len(batch.observations) // 2])
        if self._committed(batch) is None:
            self._record(half)
            await asyncio.sleep(0)
            self._shelf.commits.pop()
            return self._record(batch)
        return receipt_of(self._committed(batch) or self._shelf.commits[-1])


@breaks("write.provenance")
class Anonymous(ReferenceProvider):
    """Does not keep who said it."""

    def _keep(self, commit: Commit) -> None:
        super()._keep(Commit(commit.id, commit.at, commit.space, commit.rows, None, commit.request))


# --- the same content again ---------------------------------------------------------------------


@breaks("same.once")
class AlwaysNew(ReferenceProvider):
    """Does not look whether something was said before."""

    def _facts(self, wanted: Needs, states: Mapping[str, State]) -> Facts:
        found = facts(wanted, states)
        for state in found.states:
            _unlike_any(state)
        return found


@breaks("same.compared")
class ComparesLetters(ReferenceProvider):
    """Compares texts letter by letter."""

    def _facts(self, wanted: Needs, states: Mapping[str, State]) -> Facts:
        found = facts(wanted, states)
        for state in found.states:
            if state.row.get("text", "") != same_text(state.row.get("text", "")):
                _unlike_any(state)
        return found


def _unlike_any(state: State) -> None:
    """Change a state, for a plan only, so that nothing is the same as it."""
    if "text" in state.row:
        state.row = state.row | {"text": f"{state.row['text']} (of {state.id})"}


@breaks("same.compared")
class StoresComparedForm(ChangesRows):
    """Stores texts in the form in which they are compared."""

    def changed(self, row: Row) -> Row:
        """Normalise the text."""
        return row | ({"text": same_text(row["text"])} if "text" in row else {})


@breaks("same.again")
class ForgetsTheRetired(ReferenceProvider):
    """Plans with what stands only."""

    def _facts(self, wanted: Needs, states: Mapping[str, State]) -> Facts:
        found = facts(wanted, states)
        return type(found)(wanted, [s for s in found.states if s.active], found.ordinals)


@breaks("same.never_reused")
class LeavesNoMark(ReferenceProvider):
    """Does not remember which ids were erased."""

    def _erase(self, space: str, chosen: Mapping[str, State]) -> None:
        super()._erase(space, chosen)
        self._shelf.commits.pop()


# --- passages -----------------------------------------------------------------------------------


@breaks("passage.key")
class IgnoresKeys(ChangesBatches):
    """Takes every passage for its own."""

    def changed(self, batch: Batch) -> Batch:
        """Drop the keys."""
        return remade(batch, passages=tuple(remade(passage, key=None) for passage in batch.passages))


@breaks("passage.place")
class IgnoresPlaces(ChangesBatches):
    """Takes every edited question for another one."""

    def changed(self, batch: Batch) -> Batch:
        """Drop the places."""
        return remade(batch, passages=tuple(remade(passage, place=None) for passage in batch.passages))


@breaks("passage.keyless")
class OneKeyASession(ChangesBatches):
    """Takes every passage without a key for the same place."""

    def changed(self, batch: Batch) -> Batch:
        """Give all the same key."""
        keyed = (
            remade(passage, key=passage.key or f"the key of {passage.session}") for passage in batch.passages
        )
        return remade(batch, passages=tuple(keyed))


@breaks("passage.ordinals")
class CountsWhatStands(ReferenceProvider):
    """Numbers turns by how many of them stand."""

    def _facts(self, wanted: Needs, states: Mapping[str, State]) -> Facts:
        found = facts(wanted, states)
        standing = [s.row["session"] for s in states.values() if s.kind == "passage" and s.active]
        counted = {session: standing.count(session) - 1 for session in wanted.sessions}
        return type(found)(wanted, found.states, counted)


@breaks("passage.fields")
class LosesTags(ChangesRows):
    """Drops the tags of passages."""

    def changed(self, row: Row) -> Row:
        """Drop the tags."""
        return without(row, "tags")


@breaks("passage.file")
class IgnoresFiles(ChangesBatches):
    """Keeps what a file no longer holds."""

    def changed(self, batch: Batch) -> Batch:
        """Take the batch for any other."""
        return remade(batch, replaces_origin=None)


@breaks("passage.file")
class FilesByPrefix(ReferenceProvider):
    """Takes every file whose path begins alike for the one that shrank."""

    def _facts(self, wanted: Needs, states: Mapping[str, State]) -> Facts:
        found = facts(wanted, states)
        renamed: list[State] = []
        for path in wanted.origins:
            for state in states.values():
                origin = None if state.forgotten else state.row.get("origin")
                if state.active and origin and origin["path"].startswith(path):
                    state.row = state.row | {"origin": {"path": path}}
                    renamed.append(state)
        return type(found)(wanted, [*found.states, *renamed], found.ordinals)


@breaks("session.none")
class CurrentSession(ChangesBatches):
    """Keeps the session that was written first as the current one."""

    current: str | None = None

    def changed(self, batch: Batch) -> Batch:
        """Write every passage into the current session."""
        if batch.passages and self.current is None:
            self.current = batch.passages[0].session
        moved: tuple[Any, ...] = tuple(remade(passage, session=self.current) for passage in batch.passages)
        return remade(batch, passages=moved)
