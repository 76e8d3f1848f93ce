"""How a batch retires beliefs: explicit changes, new decisions that end old ones, files that shrank.

Part of the planner: `Reviser` runs after all items of a batch, so a successor may be one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.errors import AlreadyRevised, NotFound
from rawthink_core.identity import looks_like_id, successor_id
from rawthink_core.rows import Row, State
from rawthink_core.text import identity_key, same_text

if TYPE_CHECKING:
    from rawthink_core.planning import Planner
    from rawthink_core.validation import ChangeItem, EntityItem, TargetItem


class Reviser:
    """Plans what a batch retires, on behalf of a `Planner`."""

    def __init__(self, planner: Planner) -> None:
        self.plan = planner
        self.work = planner.work
        self.known = planner.known

    def run(self) -> None:
        """Plan the explicit changes first: what they settle is left alone by the rest."""
        for change in self.work.changes:
            if change.fields is not None:
                self._change_fields(change)
            else:
                self._change(change)
        for entity in self.work.entities:
            if entity.supersedes is not None:
                self._supersede(entity)
        self._end_former_decisions()
        if (path := self.work.batch.replaces_origin) is not None:
            self._end_missing_passages(path)

    # --- explicit changes -----------------------------------------------------------------------

    def _change_fields(self, change: ChangeItem) -> None:
        assert change.fields is not None  # noqa: S101 - the caller looked
        target = change.targets[0]
        owner = self.plan.resolve(target.given.id or target.given.entity or "")
        state = None if owner is None else self.plan.entity_state(owner)
        if owner is None or state is None:
            if owner is None:
                self.plan.refusals.append(_not_found(target))
            return
        for name, value in change.fields.items():
            wanted = value
            if name == "name":
                self._claim(change, value, owner)
            elif name == "aliases":
                names = {identity_key(known) for known in state.names()}
                others = tuple(alias for alias in value if identity_key(alias) not in names)
                self.plan.free_aliases(f"{change.where}.fields", others, owner, "")
                wanted = [alias.strip() for alias in value]
            if wanted == state.value(name):
                self.plan.rows.append({"op": "same", "of": "entity", "id": owner})
            else:
                self.plan.rows.append(
                    {"op": "field", "id": owner, "field": name, "value": wanted, "reason": change.reason}
                )

    def _claim(self, change: ChangeItem, name: str, owner: str) -> None:
        holder = self.plan.resolve(name)
        if holder is not None and holder != owner and not looks_like_id(name):
            self.plan.fault(
                f"{change.where}.fields.name", f"{name!r} is already a name of another entity ({holder})"
            )

    def _change(self, change: ChangeItem) -> None:
        states = self._targets(change)
        if not states:
            return
        if any(self.plan.retired(state.id) for state in states):
            self.plan.fault(change.where, "retires something that this batch retires already")
            return
        if len({state.kind for state in states}) > 1:
            self.plan.fault(change.where, "mixes kinds; revise observations, relations and passages separately")
            return
        status = "ended" if change.cause == "changed" else "invalidated"
        effective = change.effective or (self.plan.at if change.cause == "changed" else None)
        successor = self._successor(change, states, effective)
        for state in states:
            if effective and self.plan.at and state.valid_from is not None and state.valid_from >= effective:
                self.plan.fault(
                    f"{change.where}.effective",
                    f"{effective} is not after {state.valid_from}, when it began to hold; "
                    f"what never held is `corrected`",
                )
            valid_to = effective
            if state.valid_to is not None and valid_to is not None:
                valid_to = min(valid_to, state.valid_to)
            self.plan.retire(state, status, successor, change.reason, valid_to)

    def _targets(self, change: ChangeItem) -> list[State]:
        found: dict[str, State] = {}
        for target in change.targets:
            candidates = self._candidates(change, target)
            active = [state for state in candidates if state.active]
            if not candidates:
                self.plan.refusals.append(_not_found(target))
            elif not active:
                last = max(candidates, key=lambda state: (state.invalidated_at or "", state.id))
                self.plan.refusals.append(AlreadyRevised(last.id, last.superseded_by))
            found.update((state.id, state) for state in active)
        return list(found.values())

    def _candidates(self, change: ChangeItem, target: TargetItem) -> list[State]:
        given = target.given
        if given.id is not None:
            state = self.known.item(given.id.lower() if looks_like_id(given.id) else given.id)
            if state is None or state.forgotten:
                return []
            if state.kind == "entity":
                self.plan.fault(target.where, "is an entity: revise it with `fields`, or name what is said about it")
                return []
            return [state]
        if given.entity is not None:
            owner = self.plan.resolve(given.entity)
            if owner is None:
                return []
            if given.text is None:
                self.plan.fault(f"{target.where}.text", "is required: the exact text of the observation")
                return []
            return [
                state
                for state in self.known.observations(owner, same_text(given.text))
                if target.kind in (None, state.row["kind"]) and target.valid_from in (None, state.valid_from)
            ]
        if target.source is None or target.target is None or target.type is None:
            return []
        source, end = self.plan.resolve(target.source), self.plan.resolve(target.target)
        if source is None or end is None:
            return []
        return self.known.relations(source, target.type, end)

    # --- successors -----------------------------------------------------------------------------

    def _successor(self, change: ChangeItem, states: list[State], effective: str | None) -> str | None:
        if change.successor is None:
            return None
        first = states[0]
        row = self._successor_row(change, first, effective)
        if row is None:
            return None
        retired = [state.id for state in states]
        if (standing := self._standing(row)) is not None:
            if standing in retired:
                self.plan.fault(f"{change.where}.successor", "says what the target says already")
                return None
            if (new := self.plan.new_row(standing)) is not None:
                new["supersedes"] = [*(new.get("supersedes") or []), *retired]
            else:
                self.plan.rows.append({"op": "link", "of": first.kind, "id": standing, "supersedes": retired})
            return standing
        row["id"] = successor_id(first.id)
        row["supersedes"] = retired
        if self.known.item(row["id"]) is None:
            self.plan.rows.append(row)
        return str(row["id"])

    def _successor_row(self, change: ChangeItem, first: State, effective: str | None) -> Row | None:
        given, old = change.successor, first.row
        assert given is not None  # noqa: S101 - the caller looked
        valid_from, valid_to = change.successor_times
        if valid_from is None:
            valid_from = change.effective if change.cause == "changed" else old.get("valid_from")
        if effective is None and valid_to is None:
            valid_to = old.get("valid_to")
        if first.kind == "relation":
            ends = [self._end(change, "source", given.source, old), self._end(change, "target", given.target, old)]
            kind = change.successor_type or old["type"]
            if ends[0] is None or ends[1] is None:
                return None
            if ends[0] == ends[1]:
                self.plan.fault(f"{change.where}.successor", "a relation from an entity to itself says nothing")
                return None
            row: Row = {"op": "relation", "source": ends[0], "type": kind, "target": ends[1]}
        else:
            if given.text is None:
                self.plan.fault(f"{change.where}.successor.text", "is required")
                return None
            if first.kind == "passage":
                kept = {k: old[k] for k in ("speaker", "tags", "visibility") if k in old}
                row = {
                    "op": "passage",
                    "session": old["session"],
                    "ordinal": old["ordinal"],
                    "key": old["key"],
                    "text": given.text,
                    **kept,
                }
            else:
                owner = self._end(change, "entity", given.entity, old)
                if owner is None:
                    return None
                kind = change.successor_kind or old["kind"]
                row = {"op": "observation", "entity": owner, "kind": kind, "text": given.text}
        return {**row, "valid_from": valid_from, "valid_to": valid_to}

    def _end(self, change: ChangeItem, name: str, reference: str | None, old: Row) -> str | None:
        if reference is None:
            return str(old[name])
        found = self.plan.resolve(reference)
        if found is None:
            self.plan.fault(
                f"{change.where}.successor.{name}",
                f"no entity {reference!r} here; create it in the same batch, or check the name",
            )
        return found

    def _standing(self, row: Row) -> str | None:
        """Return the id of the active item that already says what ``row`` says, in the store or this batch."""
        match row["op"]:
            case "observation":
                text = same_text(row["text"])
                same = self.known.observations(row["entity"], text)
                states = [s for s in same if s.row["kind"] == row["kind"] and s.valid_from == row["valid_from"]]
                own = [
                    new["id"]
                    for new in self.plan.rows
                    if new["op"] == "observation"
                    and (new["entity"], new["kind"]) == (row["entity"], row["kind"])
                    and same_text(new["text"]) == text
                    and (new["valid_from"] == row["valid_from"] or row["valid_from"] == self.plan.at)
                ]
            case "relation":
                states = self.known.relations(row["source"], row["type"], row["target"])
                own = [
                    new["id"]
                    for new in self.plan.rows
                    if new["op"] == "relation"
                    and (new["source"], new["type"], new["target"]) == (row["source"], row["type"], row["target"])
                ]
            case _:
                former = self.known.passages(row["session"], row["key"])
                states = [s for s in former if same_text(s.row["text"]) == same_text(row["text"])]
                own = []
        standing = [s.id for s in states if s.active and not self.plan.retired(s.id)]
        return next(iter([*standing, *own]), None)

    # --- decisions and files --------------------------------------------------------------------

    def _supersede(self, entity: EntityItem) -> None:
        assert entity.supersedes is not None  # noqa: S101 - the caller looked
        new, old = self.plan.resolve(entity.name), self.plan.resolve(entity.supersedes)
        where = f"{entity.where}.supersedes"
        if old is None:
            self.plan.fault(where, f"no decision {entity.supersedes!r} here; check the name")
        if new is None or old is None:
            return
        self.plan.relate(where, new, "supersedes", old)
        self._end_decisions(old, self.plan.stated.get(new, ()), f"superseded by {entity.name}")

    def _end_former_decisions(self) -> None:
        for owner, said in list(self.plan.stated.items()):
            if any(self._kind(item) == "decided" and self.plan.new_row(item) for item in said):
                self._end_decisions(owner, said, None)

    def _end_decisions(self, owner: str, said: list[str] | tuple[str, ...], reason: str | None) -> None:
        """End the active `decided` and `because` of ``owner`` that were not said again just now."""
        for state in self.known.decisions(owner):
            if state.id in said or self.plan.retired(state.id):
                continue
            kind = state.row["kind"]
            heirs = [item for item in said if self._kind(item) == kind] or [
                item for item in said if self._kind(item) == "decided"
            ]
            heir = heirs[0] if heirs else None
            new = self.plan.new_row(heir) if heir else None
            effective = (new or {}).get("valid_from") or self.plan.at
            if state.valid_from is not None and state.valid_from >= effective:
                effective = self.plan.at
            valid_to = min(effective, state.valid_to) if state.valid_to else effective
            if new is not None:
                new["supersedes"] = [*(new.get("supersedes") or []), state.id]
            elif heir is not None:
                self.plan.rows.append({"op": "link", "of": "observation", "id": heir, "supersedes": [state.id]})
            self.plan.retire(state, "ended", heir, reason, valid_to)

    def _kind(self, item_id: str) -> str:
        row = self.plan.new_row(item_id)
        if row is None:
            state = self.known.item(item_id)
            row = state.row if state is not None else {}
        return str(row.get("kind", ""))

    def _end_missing_passages(self, path: str) -> None:
        repeated = {row["id"] for row in self.plan.rows if row["op"] in ("passage", "same")}
        for state in self.known.passages_of_file(path):
            if state.id not in repeated and not self.plan.retired(state.id):
                self.plan.retire(state, "ended", None, "no longer in its file")


def _not_found(target: TargetItem) -> NotFound:
    given = target.given
    what = given.id or (f"{given.entity!r} with exactly this text" if given.entity else "such relation")
    if given.source is not None:
        what = f"{given.source!r} {given.type} {given.target!r}"
    return NotFound(f"{target.where}: nothing here is {what}. Nothing was written.")
