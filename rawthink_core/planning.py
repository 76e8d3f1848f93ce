"""The planner: turns a prepared batch and a slice of graph into rows, or into every fault at once.

It is run dry to learn what it needs to see (`graph.needs`); the run that lacks nothing gives the rows
(`graph.plan`).
Items are taken in the order of the request, so that receipts can follow it; what a batch retires
comes last. Nothing is ever overwritten: an old belief gets a `retire` row and stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_core.entities import Entities
from rawthink_core.errors import AlreadyRevised, Fault, InvalidRequest, NotFound, quoted
from rawthink_core.identity import observation_id, passage_id, relation_id
from rawthink_core.revising import Reviser
from rawthink_core.rows import Row, State, begins, compact
from rawthink_core.text import same_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rawthink_core.slice import Slice
    from rawthink_core.work import ObservationItem, PassageItem, RelationItem, TargetItem, Work

_AHEAD = 16  # how many further ids are asked for at once where one was erased


def _claims_of(row: Row) -> list[tuple[str | None, ...]]:
    """Return what makes an observation or a relation of a batch the same as another: one in common."""
    if row["op"] == "relation":
        return [(row["source"], row["type"], row["target"])]
    return [(row["entity"], row["kind"], same_text(row["text"]), begin) for begin in begins(row)]


class Planner:
    """Plans one batch. Makes no change outside itself and asks nothing but the slice."""

    def __init__(self, work: Work, known: Slice, at: str) -> None:
        self.work = work
        self.known = known
        self.at = at
        self.space = work.space
        self.rows: list[Row] = []
        self.faults: list[Fault] = list(work.faults)
        self.refusals: list[NotFound | AlreadyRevised] = []
        self.entities = Entities(self)
        self.stated: dict[str, list[str]] = {}  # entity → ids of `decided` and `because` said in this batch
        self._new: dict[str, Row] = {}  # what this batch creates but for entities, by id
        self._claims: dict[tuple[str | None, ...], str] = {}  # what its observations and relations claim → id
        self._superseding: set[tuple[str, str]] = set()  # `supersedes` relations of this batch
        self._slots: dict[tuple[str, str], str] = {}  # session and key → text under it in this batch
        self._ordinals: dict[str, int] = {}
        self._endings: dict[str, Row] = {}  # what this batch retires, by id

    def run(self) -> None:
        """Plan everything, noting faults on the way."""
        for entity in self.work.entities:
            self.entities.record(entity)
        for observation in self.work.observations:
            self._observation(observation)
        for relation in self.work.relations:
            self._relation(relation)
        for passage in self.work.passages:
            self._passage(passage)
        Reviser(self).run()

    def finish(self) -> tuple[Row, ...]:
        """Return the rows, or raise what is wrong."""
        if self.faults or len({type(refusal) for refusal in self.refusals}) > 1:
            raise InvalidRequest([*self.faults, *(Fault("", str(refusal)) for refusal in self.refusals)])
        if self.refusals:
            first = self.refusals[0]
            raise NotFound("\n".join(map(str, self.refusals))) if isinstance(first, NotFound) else first
        return tuple(compact(row) for row in (*self.rows, *self._endings.values()))

    # --- what is wrong --------------------------------------------------------------------------

    def fault(self, where: str, problem: str) -> None:
        """Note something wrong."""
        self.faults.append(Fault(where, problem))

    def not_found(self, target: TargetItem) -> None:
        """Note that nothing is what a target names."""
        given = target.given
        what = repr(given.id)
        if given.entity is not None:
            what = f"{quoted(given.entity)} with exactly this text" if given.text else quoted(given.entity)
        elif given.source is not None or given.target is not None:
            what = f"{quoted(given.source or '')} {given.type} {quoted(given.target or '')}"
        self.refusals.append(NotFound(f"{target.where}: nothing here is {what}. Nothing was written."))

    def end(self, where: str, reference: str) -> str | None:
        """Return the id of the entity that a name or id refers to, noting where there is none."""
        found = self.entities.resolve(reference)
        if found is None:
            problem = f"no entity {quoted(reference)} here; create it in the same batch, or check the name"
            self.fault(where, problem)
        return found

    # --- observations, relations, passages ------------------------------------------------------

    def _observation(self, item: ObservationItem) -> None:
        owner = self.end(f"{item.where}.entity", item.entity)
        if owner is None:
            return
        said = self._observe(owner, item)
        if item.kind in ("decided", "because"):
            self.stated.setdefault(owner, []).append(said)

    def _observe(self, owner: str, item: ObservationItem) -> str:
        """Say something about an entity; return the observation's id, a standing one's where it was said."""
        row: Row = {
            "op": "observation",
            "entity": owner,
            "kind": item.kind,
            "text": item.text,
            "valid_from": item.valid_from,
            "valid_to": item.valid_to,
            "assumed": None,
        }
        same = [
            state
            for state in self.known.observations(owner, same_text(item.text))
            if state.row["kind"] == item.kind and item.valid_from in begins(state.row)
        ]
        return self._claim(
            row,
            same,
            lambda n: observation_id(self.space, owner, item.kind, item.text, item.valid_from, n),
        )

    def _claim(self, row: Row, same: list[State], mint: Callable[[int], str]) -> str:
        """Create what ``row`` claims unless it stands already, and return the id of what stands then."""
        if (standing := next((state for state in same if state.active), None)) is not None:
            self.rows.append({"op": "same", "of": standing.kind, "id": standing.id})
            return standing.id
        if (own := self.claimed(row)) is not None:
            return own
        row["id"] = self._free_id(mint, {state.id for state in same})
        self.create(row)
        return str(row["id"])

    def _free_id(self, mint: Callable[[int], str], used: set[str]) -> str:
        """Return the first id that was never used in the store, not even for what was erased since."""
        n = 0
        while (candidate := mint(n)) in used or self.known.item(candidate) is not None:
            n += 1
            if candidate not in used:  # erased: it may have been said and erased often, so ask for several
                for later in range(n, n + _AHEAD):
                    self.known.item(mint(later))
        return candidate

    def create(self, row: Row) -> None:
        """Create what a complete row says."""
        self.rows.append(row)
        self._new[row["id"]] = row
        for claim in _claims_of(row) if row["op"] != "passage" else ():
            self._claims.setdefault(claim, row["id"])

    def new_row(self, item_id: str) -> Row | None:
        """Return the row that this batch creates under an id."""
        return self._new.get(item_id)

    def claimed(self, row: Row) -> str | None:
        """Return the id of what this batch creates and that claims the same as ``row``."""
        if row["op"] == "passage":
            return None
        return next((own for claim in _claims_of(row) if (own := self._claims.get(claim))), None)

    def _relation(self, item: RelationItem) -> None:
        source = self.end(f"{item.where}.source", item.source)
        target = self.end(f"{item.where}.target", item.target)
        if source is None or target is None or item.type is None:
            return
        if item.type.turned:
            source, target = target, source
        times = {"valid_from": item.valid_from, "valid_to": item.valid_to}
        self.relate(item.where, source, item.type.type, target, times)

    def relate(
        self, where: str, source: str, kind: str, target: str, times: Mapping[str, str | None] | None = None
    ) -> None:
        """Relate two entities, or note why that is refused."""
        same = self.known.relations(source, kind, target)
        if not self.may_relate(where, source, kind, target):
            return
        row: Row = {"op": "relation", "source": source, "type": kind, "target": target, **(times or {})}
        self._claim(row, same, lambda n: relation_id(self.space, source, kind, target, n))

    def may_relate(
        self, where: str, source: str, kind: str, target: str, leaving: frozenset[str] = frozenset()
    ) -> bool:
        """Tell whether a relation makes sense, noting where not. ``leaving`` are ids that make way for it."""
        if source == target:
            self.fault(where, "a relation from an entity to itself says nothing")
            return False
        if kind != "supersedes":
            return True
        reverse = self.known.relations(target, kind, source)
        if (target, source) in self._superseding or any(s.active and s.id not in leaving for s in reverse):
            self.fault(where, "the reverse stands already: of two things, only one can supersede the other")
            return False
        self._superseding.add((source, target))
        return True

    def _passage(self, item: PassageItem) -> None:
        slot, text = (item.session, self._key(item)), same_text(item.text)
        former = self.known.passages(*slot)
        if (own := self._slots.get(slot)) is not None:
            if own != text:
                problem = f"{quoted(slot[1])} stands twice in this batch with different texts"
                self.fault(f"{item.where}.key", problem)
            return
        self._slots[slot] = text
        standing = [state for state in former if state.active]
        same = next((state for state in standing if same_text(state.row["text"]) == text), None)
        if same is not None and not _restated(same.row, item.rest):
            self.rows.append({"op": "same", "of": "passage", "id": same.id})
            return
        former_fields = {} if same is None else {name: same.row.get(name) for name in item.rest}
        fields = former_fields | {name: value for name, value in item.rest.items() if value or same is None}
        new_id = self._free_id(lambda n: passage_id(self.space, *slot, n), {state.id for state in former})
        self.create(
            {
                "op": "passage",
                "id": new_id,
                "session": item.session,
                "ordinal": self._ordinal(item, standing),
                "key": slot[1],
                "text": item.text,
                "supersedes": [state.id for state in standing],
                **fields,
            }
        )
        for state in standing:
            self.retire(state, "ended", new_id, None)

    def _key(self, item: PassageItem) -> str:
        """Return the key of a passage: its place, where what it goes on from is stored."""
        known = [state for key in item.after for state in self.known.passages(item.session, key)]
        return item.place if item.place is not None and any(not s.forgotten for s in known) else item.key

    def _ordinal(self, item: PassageItem, standing: list[State]) -> int:
        if item.ordinal is not None:
            ordinal = item.ordinal
        elif standing:
            ordinal = int(standing[-1].row["ordinal"])
        else:
            ordinal = max(self._ordinals.get(item.session, -1), self.known.last_ordinal(item.session)) + 1
        self._ordinals[item.session] = max(ordinal, self._ordinals.get(item.session, -1))
        return ordinal

    # --- retiring -------------------------------------------------------------------------------

    def retire(
        self,
        state: State,
        status: str,
        successor: str | None,
        reason: str | None,
        valid_to: str | None = None,
    ) -> None:
        """Retire an item of the store."""
        self._endings[state.id] = {
            "op": "retire",
            "of": state.kind,
            "id": state.id,
            "status": status,
            "superseded_by": successor,
            "reason": reason,
            "valid_to": valid_to,
        }

    def retired(self, item_id: str) -> bool:
        """Tell whether this batch retires an item."""
        return item_id in self._endings


def _restated(row: Row, rest: Mapping[str, Any]) -> bool:
    """Tell whether a passage is another version of itself though its text is the same."""
    if any(rest.get(name) and rest[name] != row.get(name) for name in ("tags", "visibility")):
        return True
    origin = rest.get("origin")  # the rest of a file may change around it
    return origin is not None and origin["path"] != (row.get("origin") or {}).get("path")
