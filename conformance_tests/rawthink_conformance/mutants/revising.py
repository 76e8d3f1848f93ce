"""Mutants that revise and decide wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_conformance.brute import facts
from rawthink_conformance.mutants.zoo import ChangesBatches, ChangesRows, breaks, remade, without
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.errors import AlreadyRevised, InvalidRequest, NotFound
from rawthink_core.identity import successor_id
from rawthink_core.operations import RecordReceipt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rawthink_core.graph import Facts, Needs, Work
    from rawthink_core.operations import Batch, SearchPage, SearchQuery
    from rawthink_core.rows import Row, State

EVERY = ("active", "ended", "invalidated")


@breaks("revise.keeps", "ids.stable")
class RevisesInPlace(ReferenceProvider):
    """Overwrites the text of what is revised."""

    def _plan(self, *args: Any) -> tuple[Row, ...]:
        rows = super()._plan(*args)
        heirs = {
            row["superseded_by"]: row["id"]
            for row in rows
            if row["op"] == "retire" and "superseded_by" in row
        }
        new = {heirs[row["id"]]: row for row in rows if row["id"] in heirs and "text" in row}
        for commit in self._shelf.commits:
            for row in commit.rows:
                if row["id"] in new and "text" in row:
                    row["text"] = new[row["id"]]["text"]
        return rows


@breaks("revise.keeps")
class DestroysTheOld(ReferenceProvider):
    """Deletes what is retired."""

    def _standing(self, space: str, as_of: str | None = None) -> dict[str, State]:
        return {i: s for i, s in super()._standing(space, as_of).items() if s.active or s.kind == "entity"}


@breaks("revise.keeps", "revise.in_batch")
class NoLinksBack(ChangesRows):
    """Does not note on a successor what it replaced."""

    def changed(self, row: Row) -> Row:
        """Drop the links."""
        return without(row, "supersedes")


@breaks("revise.keeps", "revise.retraction")
class NoReasons(ChangesRows):
    """Does not keep why something was retired."""

    def changed(self, row: Row) -> Row:
        """Drop the reason."""
        return without(row, "reason")


@breaks("revise.by_text")
class RevisesTheFirstOnly(ReferenceProvider):
    """Takes an exact text for the first observation that has it."""

    def _plan(self, work: Work, at: Any) -> tuple[Row, ...]:
        rows = super()._plan(work, at)
        by_text = any(target.text for change in work.batch.revisions for target in change.targets)
        retired = [row for row in rows if row["op"] == "retire"]
        return tuple(row for row in rows if not by_text or row not in retired[1:])


@breaks("revise.by_text")
class IgnoresNarrowing(ChangesBatches):
    """Ignores the kind that narrows a text."""

    def changed(self, batch: Batch) -> Batch:
        """Drop the kinds of targets."""
        changes = tuple(
            remade(change, targets=tuple(remade(target, kind=None) for target in change.targets))
            for change in batch.revisions
        )
        return remade(batch, revisions=changes)


@breaks("revise.changed", "revise.relation")
class NothingEverChanges(ChangesRows):
    """Takes all that is retired for a mistake."""

    def changed(self, row: Row) -> Row:
        """Invalidate what ended."""
        return without(row, "valid_to") | {"status": "invalidated"} if row["op"] == "retire" else row


@breaks("revise.changed")
class NeverCloses(ChangesRows):
    """Does not note when something ended."""

    def changed(self, row: Row) -> Row:
        """Leave the interval open."""
        return without(row, "valid_to") if row["op"] == "retire" else row


@breaks("revise.changed_now", "decision.ends_the_former")
class HeldForEver(ChangesRows):
    """Takes no begin for granted."""

    def changed(self, row: Row) -> Row:
        """Drop what nobody stated."""
        return without(row, "assumed", "valid_from") if row.get("assumed") else row


@breaks("revise.changed_now", "decision.said_again")
class TakesItForStated(ChangesRows):
    """Forgets that a begin was not stated."""

    def changed(self, row: Row) -> Row:
        """Drop the mark."""
        return without(row, "assumed")


@breaks("revise.standing")
class NoLinksToStanding(ChangesRows):
    """Does not link to a successor that stood already."""

    def changed(self, row: Row) -> Row | None:
        """Drop `link` rows."""
        return None if row["op"] == "link" else row


@breaks("revise.many")
class RevisesWhatIsLeft(ReferenceProvider):
    """Revises those targets that still stand."""

    def _record(self, batch: Batch) -> RecordReceipt:
        try:
            return super()._record(batch)
        except AlreadyRevised as error:
            changes = tuple(
                remade(change, targets=tuple(t for t in change.targets if t.id != error.target))
                for change in batch.revisions
            )
            if not all(change.targets for change in changes):
                raise
            return super()._record(remade(batch, revisions=changes))


@breaks("revise.retraction")
class NeverRetracts(ReferenceProvider):
    """Demands a successor."""

    def _record(self, batch: Batch) -> RecordReceipt:
        if any(change.successor is None and change.fields is None for change in batch.revisions):
            raise InvalidRequest("a revision needs a successor")
        return super()._record(batch)


@breaks("revise.already")
class RevisesTwiceInSilence(ReferenceProvider):
    """Answers a revision that came too late as if it had been made."""

    def _record(self, batch: Batch) -> RecordReceipt:
        try:
            return super()._record(batch)
        except AlreadyRevised:
            return RecordReceipt(batch_id=batch.id)


@breaks("revise.not_found")
class ShrugsAtNothing(ReferenceProvider):
    """Answers a revision of what is not there as if it had been made."""

    def _record(self, batch: Batch) -> RecordReceipt:
        try:
            return super()._record(batch)
        except NotFound:
            return RecordReceipt(batch_id=batch.id)


@breaks("revise.relation")
class RelationsForever(ChangesRows):
    """Never retires a relation."""

    def changed(self, row: Row) -> Row | None:
        """Drop what retires relations."""
        return None if row["op"] == "retire" and row["of"] == "relation" else row


@breaks("revise.passage")
class MovesPassages(ReferenceProvider):
    """Puts a revised passage at the end of its session."""

    def _plan(self, *args: Any) -> tuple[Row, ...]:
        heirs = {successor_id(row["id"]) for row in super()._plan(*args) if row["op"] == "retire"}
        rows = (dict(row) for row in super()._plan(*args))
        return tuple(
            row | ({"ordinal": 99} if row["op"] == "passage" and row["id"] in heirs else {}) for row in rows
        )


@breaks("revise.search", "search.stale")
class LeaksTheRetired(ReferenceProvider):
    """Finds what was retired, asked or not."""

    def _search(self, query: SearchQuery) -> SearchPage:
        return super()._search(remade(query, statuses=EVERY))


@breaks("revise.search")
class HidesSuccessors(ReferenceProvider):
    """Shows what was retired without what replaced it."""

    def _search(self, query: SearchQuery) -> SearchPage:
        page = super()._search(query)
        return remade(page, items=tuple(remade(hit, successor=None) for hit in page.items))


# --- decisions ----------------------------------------------------------------------------------


@breaks("decision.ends_the_former")
class DecisionsPileUp(ReferenceProvider):
    """Lets an old decision stand beside the new one."""

    def _facts(self, wanted: Needs, states: Mapping[str, State]) -> Facts:
        found = facts(wanted, states)
        texts = {text for _, text in wanted.texts}
        said = [
            s for s in found.states if s.kind != "observation" or s.row["text"] in texts or s.id in wanted.ids
        ]
        return type(found)(wanted, said, found.ordinals)


@breaks("decision.said_again")
class AnyReasonEndsTheFormer(ReferenceProvider):
    """Ends a decision with every record of it."""

    def _plan(self, work: Work, at: Any) -> tuple[Row, ...]:
        rows = super()._plan(work, at)
        touched = {row["id"] for row in rows}
        owners = {row["entity"] for row in rows if row.get("kind") == "because"}
        ended = [
            {"op": "retire", "of": "observation", "id": state.id, "status": "ended"}
            for state in self._standing(work.space).values()
            if state.active and state.row.get("entity") in owners and state.id not in touched
        ]
        return (*rows, *ended)


@breaks("decision.supersedes")
class DropsSupersedes(ChangesBatches):
    """Ignores that one decision replaces another."""

    def changed(self, batch: Batch) -> Batch:
        """Drop `supersedes`."""
        return remade(batch, entities=tuple(remade(entity, supersedes=None) for entity in batch.entities))


@breaks("decision.forgotten")
class NamesInReasons(ReferenceProvider):
    """Names the new decision in the reason of the old one."""

    def _plan(self, work: Work, at: Any) -> tuple[Row, ...]:
        name = next((entity.name for entity in work.batch.entities if entity.supersedes), None)
        rows = super()._plan(work, at)
        if name is None:
            return rows
        return tuple(
            row | {"reason": f"superseded by {name}"} if row["op"] == "retire" else row for row in rows
        )
