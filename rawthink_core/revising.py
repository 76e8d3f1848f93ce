"""How a batch retires beliefs: explicit changes, new decisions that end old ones, files that shrank.

Part of the planner: `Reviser` runs after all items of a batch, so a successor may be one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_core.errors import AlreadyRevised, quoted
from rawthink_core.identity import canonical_id, successor_id
from rawthink_core.rows import begins
from rawthink_core.text import same_text

if TYPE_CHECKING:
    from rawthink_core.operations import Successor
    from rawthink_core.planning import Planner
    from rawthink_core.rows import Row, State
    from rawthink_core.work import ChangeItem, EntityItem, TargetItem

# Which fields of a successor each kind has.
_SUCCEEDS = {
    "observation": ("text", "entity", "kind", "valid_from", "valid_to"),
    "relation": ("source", "type", "target", "valid_from", "valid_to"),
    "passage": ("text", "valid_from", "valid_to"),
}
_CONTENT = ("text", "entity", "kind", "source", "type", "target")


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
                self.plan.entities.change(change, change.fields)
            else:
                self._change(change)
        for entity in self.work.entities:
            if entity.supersedes is not None:
                self._supersede(entity, entity.supersedes)
        for owner, said in self.plan.stated.items():
            if any(self._kind(item) == "decided" and self.plan.new_row(item) for item in said):
                self._end_decisions(owner, said, None)
        if (path := self.work.batch.replaces_origin) is not None:
            self._end_missing_passages(path)

    # --- explicit changes -----------------------------------------------------------------------

    def _change(self, change: ChangeItem) -> None:
        given = change.successor
        ends = {
            name: self.plan.end(f"{change.where}.successor.{name}", reference)
            for name in ("entity", "source", "target")
            if given is not None and (reference := getattr(given, name)) is not None
        }
        states = self._targets(change)
        if not states or None in ends.values():
            return
        if any(self.plan.retired(state.id) for state in states):
            self.plan.fault(change.where, "retires something that this batch retires already")
            return
        if len({state.kind for state in states}) > 1:
            problem = "mixes kinds; revise observations, relations and passages separately"
            self.plan.fault(change.where, problem)
            return
        effective = change.effective or (self.plan.at if change.cause == "changed" else None)
        heir = None
        known_type = given is None or given.type is None or change.successor_type is not None
        if given is not None and self._fits(change.where, given, states[0]) and known_type:
            heir = self._successor(change, states, self._row(change, given, ends, states[0], effective))
        status = "ended" if change.cause == "changed" else "invalidated"
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
            self.plan.retire(state, status, heir, change.reason, valid_to)

    def _targets(self, change: ChangeItem) -> list[State]:
        found: dict[str, State] = {}
        for target in change.targets:
            candidates = self._candidates(target)
            active = [state for state in candidates or () if state.active]
            if candidates is None:
                continue
            if not candidates:
                self.plan.not_found(target)
            elif not active:
                last = max(candidates, key=lambda state: (state.invalidated_at or "", state.id))
                self.plan.refusals.append(AlreadyRevised(last.id, last.superseded_by))
            found.update((state.id, state) for state in active)
        return list(found.values())

    def _candidates(self, target: TargetItem) -> list[State] | None:
        """Return what a target may mean, retired ones too; None where a fault says why it means nothing."""
        if target.given.id is not None:
            return self._by_id(target, target.given.id)
        if target.given.entity is not None:
            return self._by_text(target, target.given.entity)
        if target.source is None or target.target is None or target.type is None:
            return None
        source, end = (self.plan.entities.resolve(name) for name in (target.source, target.target))
        return [] if source is None or end is None else self.known.relations(source, target.type, end)

    def _by_id(self, target: TargetItem, item_id: str) -> list[State] | None:
        state = self.known.item(canonical_id(item_id))
        if state is None or state.forgotten:
            return []
        if state.kind == "entity":
            problem = "is an entity: revise it with `fields`, or name what is said about it"
            self.plan.fault(target.where, problem)
            return None
        return [state]

    def _by_text(self, target: TargetItem, entity: str) -> list[State] | None:
        if target.given.text is None:
            self.plan.fault(f"{target.where}.text", "is required: the exact text of the observation")
            return None
        owner = self.plan.entities.resolve(entity)
        said = [] if owner is None else self.known.observations(owner, same_text(target.given.text))
        return [
            state
            for state in said
            if target.kind in (None, state.row["kind"]) and target.valid_from in (None, state.valid_from)
        ]

    # --- successors -----------------------------------------------------------------------------

    def _fits(self, where: str, given: Successor, first: State) -> bool:
        """Tell whether a successor states what its kind has and no more, noting what it has not."""
        strange = sorted(given.model_fields_set - set(_SUCCEEDS[first.kind]))
        strange = [name for name in strange if getattr(given, name) is not None]
        for name in strange:
            self.plan.fault(f"{where}.successor.{name}", f"is nothing that {first.kind}s have")
        return not strange

    def _row(
        self,
        change: ChangeItem,
        given: Successor,
        ends: dict[str, str | None],
        first: State,
        effective: str | None,
    ) -> Row:
        """Return the row of a successor, but for its id. What is left out is as in the first target.

        A successor of what changed begins when that ended.
        """
        old = first.row
        valid_from, valid_to = change.successor_times
        assumed = False
        if valid_from is None and effective is not None:
            valid_from, assumed = effective, change.effective is None
        elif valid_from is None:
            valid_from, assumed = old.get("valid_from"), bool(old.get("assumed"))
        if effective is None and valid_to is None:
            valid_to = old.get("valid_to")
        if valid_from is not None and valid_to is not None and valid_to <= valid_from:
            problem = f"ends at {valid_to}, not after {valid_from}, its start"
            if assumed and effective is not None:
                problem += "; say with `effective` when it changed"
            self.plan.fault(f"{change.where}.successor", problem)
        times: dict[str, Any] = {"valid_from": valid_from, "valid_to": valid_to}
        text = given.text if given.text is not None else old.get("text")
        match first.kind:
            case "relation":
                source, target = ends.get("source") or old["source"], ends.get("target") or old["target"]
                kind = change.successor_type
                if kind is not None and kind.turned:
                    source, target = target, source
                kind_name = old["type"] if kind is None else kind.type
                return {"op": "relation", "source": source, "type": kind_name, "target": target, **times}
            case "passage":
                kept = ("session", "ordinal", "key", "speaker", "tags", "visibility")
                return {"op": "passage", **{name: old.get(name) for name in kept}, "text": text, **times}
            case _:
                owner, said = ends.get("entity") or old["entity"], change.successor_kind or old["kind"]
                times["assumed"] = assumed or None
                return {"op": "observation", "entity": owner, "kind": said, "text": text, **times}

    def _successor(self, change: ChangeItem, states: list[State], row: Row) -> str | None:
        """Return the id of the successor: of what says so already, else of ``row``, which is then created."""
        where = f"{change.where}.successor"
        retired = [state.id for state in states]
        if (standing := self._standing(row)) is not None:
            if standing in retired:
                self.plan.fault(where, "says what the target says already")
                return None
            self._link(standing, states[0].kind, retired)
            if row["valid_from"] == self.plan.at:
                self._begins_now(standing)
            return standing
        if row["op"] == "relation":
            leaving = frozenset(retired)
            ends = row["source"], row["type"], row["target"]
            if not self.plan.may_relate(where, *ends, leaving):
                return None
        row["id"] = successor_id(retired[0])
        row["supersedes"] = retired
        taken = self.known.item(row["id"])
        if taken is None:
            self.plan.create(row)
        elif not taken.forgotten and all(taken.row.get(name) == row.get(name) for name in _CONTENT):
            # a store without atomic writes was stopped half-way, and is asked to complete what it began
            self.plan.rows.append({"op": "same", "of": taken.kind, "id": taken.id})
        else:
            self.plan.refusals.append(AlreadyRevised(retired[0], taken.id))
        return str(row["id"])

    def _standing(self, row: Row) -> str | None:
        """Return the id of what says the same as ``row`` already, in the store or this batch."""
        if row["op"] == "observation":
            said = self.known.observations(row["entity"], same_text(row["text"]))
            begin = set(begins(row))
            same = [s for s in said if s.row["kind"] == row["kind"] and begin.intersection(begins(s.row))]
        elif row["op"] == "relation":
            same = self.known.relations(row["source"], row["type"], row["target"])
        else:
            former = self.known.passages(row["session"], row["key"])
            same = [s for s in former if same_text(s.row["text"]) == same_text(row["text"])]
        standing = (s.id for s in same if s.active and not self.plan.retired(s.id))
        return next(standing, None) or self.plan.claimed(row)

    def _link(self, heir: str, kind: str, retired: list[str]) -> None:
        """Note on an item, new or standing, what it replaces."""
        if (new := self.plan.new_row(heir)) is not None:
            new["supersedes"] = [*(new.get("supersedes") or ()), *retired]
        else:
            self.plan.rows.append({"op": "link", "of": kind, "id": heir, "supersedes": retired})

    # --- decisions and files --------------------------------------------------------------------

    def _supersede(self, entity: EntityItem, former: str) -> None:
        new, old = self.plan.entities.resolve(entity.name), self.plan.entities.resolve(former)
        where = f"{entity.where}.supersedes"
        if old is None:
            self.plan.fault(where, f"no decision {quoted(former)} here; check the name")
        if new is None or old is None:
            return
        self.plan.relate(where, new, "supersedes", old)
        self._end_decisions(old, self.plan.stated.get(new, []), "superseded by another decision")

    def _end_decisions(self, owner: str, said: list[str], reason: str | None) -> None:
        """End the active `decided` and `because` of ``owner`` that were not said again just now.

        What was said instead holds from now on, where nobody states another begin.
        """
        former = [s for s in self.known.decisions(owner) if s.id not in said and not self.plan.retired(s.id)]
        for state in former:
            decided = [item for item in said if self._kind(item) == "decided"]
            alike = [item for item in said if self._kind(item) == state.row["kind"]]
            heir = next(iter([*alike, *decided]), None)
            new = self.plan.new_row(heir) if heir else None
            effective = (new or {}).get("valid_from") or self.plan.at
            if state.valid_from is not None and state.valid_from >= effective:
                effective = self.plan.at
            if heir is not None:
                self._link(heir, "observation", [state.id])
            valid_to = min(effective, state.valid_to) if state.valid_to else effective
            # what was decided for later and ended before that never held
            valid_to = max(valid_to, state.valid_from or "")
            self.plan.retire(state, "ended", heir, reason, valid_to)
        for item in said if former else ():
            self._begins_now(item)

    def _begins_now(self, item_id: str) -> None:
        """Let what this batch says hold from its commit on, where nobody has stated another time."""
        row, at = self.plan.new_row(item_id), self.plan.at
        if row is None or row.get("valid_from") is not None:
            return
        if (ends := row.get("valid_to")) is None or ends > at:
            row.update(valid_from=at, assumed=row["op"] == "observation" or None)

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
