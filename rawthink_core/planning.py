"""The planner: turns a prepared batch and a slice of graph into rows, or into every fault at once.

It is run dry to learn what it needs to see (`graph.needs`) and once more for the rows (`graph.plan`).
Items are taken in the order of the request, so that receipts can follow it; what a batch retires
comes last. Nothing is ever overwritten: an old belief gets a `retire` row and stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_core.errors import AlreadyRevised, Fault, InvalidRequest, NotFound
from rawthink_core.identity import entity_id, looks_like_id, observation_id, passage_id, relation_id
from rawthink_core.revising import Reviser
from rawthink_core.rows import Row, State, compact
from rawthink_core.text import identity_key, same_text

if TYPE_CHECKING:
    from rawthink_core.slice import Slice
    from rawthink_core.validation import EntityItem, ObservationItem, PassageItem, RelationItem, Work

_FILLABLE = {"entity_type": "thing", "domain": None, "epistemic": "unknown"}  # field → its unset value
_CLOSED = ("entity_type", "domain", "epistemic", "visibility")


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
        self._names: dict[str, str] = {}  # identity keys that this batch settles → entity id
        self._new: dict[str, Row] = {}  # rows that this batch creates, by id
        self._fields: dict[tuple[str, str], Any] = {}  # what this batch says of entities: (id, field) → value
        self._taken: set[str] = set()  # ids that this batch uses up
        self._retired: set[str] = set()
        self._superseding: set[tuple[str, str]] = set()  # `supersedes` relations of this batch
        self._ordinals: dict[str, int] = {}
        self.stated: dict[str, list[str]] = {}  # entity → ids of `decided` and `because` said in this batch

    def run(self) -> None:
        """Plan everything, noting faults on the way."""
        for entity in self.work.entities:
            self._entity(entity)
        for observation in self.work.observations:
            self._observation(observation)
        for relation in self.work.relations:
            self._relation(relation)
        for passage in self.work.passages:
            self._passage(passage)
        Reviser(self).run()

    def finish(self) -> tuple[Row, ...]:
        """Return the rows, or raise what is wrong."""
        if self.faults:
            raise InvalidRequest([*self.faults, *(Fault("", str(refusal)) for refusal in self.refusals)])
        if self.refusals:
            raise self.refusals[0]
        return tuple(compact(row) for row in self.rows)

    def fault(self, where: str, problem: str) -> None:
        """Note something wrong."""
        self.faults.append(Fault(where, problem))

    # --- entities -------------------------------------------------------------------------------

    def resolve(self, reference: str) -> str | None:
        """Return the id of the entity that a name or id refers to: one of this batch, else of the store."""
        key = identity_key(reference)
        if (own := self._names.get(key)) is not None:
            return own
        state = self.known.entity_named(key)
        if state is None and looks_like_id(reference):
            state = self.entity_state(reference.lower())
        return None if state is None else state.id

    def entity_state(self, entity: str) -> State | None:
        """Return an entity of the store by id."""
        state = self.known.item(entity)
        return state if state is not None and state.kind == "entity" and not state.forgotten else None

    def _entity(self, item: EntityItem) -> None:
        if (own := self._names.get(item.key)) is not None:
            self._meet_again(item, own, None)
            return
        state = self.known.entity_named(item.key)
        if state is None:
            self._create_entity(item)
        else:
            self._names[item.key] = state.id
            self._meet_again(item, state.id, state)

    def _create_entity(self, item: EntityItem) -> None:
        new_id = entity_id(self.space, item.name)
        vocabulary = self.work.rules.vocabulary
        if "entity_type" not in item.fields:
            allowed = ", ".join(vocabulary.entity_types)
            self.fault(f"{item.where}.entity_type", f"is required for a new entity. Allowed: {allowed}")
        if "domain" not in item.fields:
            allowed = ", ".join(vocabulary.domains)
            self.fault(f"{item.where}.domain", f"is required for a new entity. Allowed: {allowed}")
        self._names[item.key] = new_id
        row: Row = {
            "op": "entity",
            "id": new_id,
            "name": item.name,
            "entity_type": item.fields.get("entity_type"),
            "domain": item.fields.get("domain"),
            "epistemic": item.fields.get("epistemic", "unknown"),
            "visibility": item.fields.get("visibility", "private"),
            "aliases": self.free_aliases(item.where, item.aliases, new_id, item.key),
            "pinned": item.fields.get("pinned") or None,
        }
        self.rows.append(row)
        self._new[new_id] = row

    def free_aliases(self, where: str, aliases: tuple[str, ...], owner: str, own_key: str) -> list[str]:
        """Return the aliases that are new to ``owner``, claiming them; note those that belong to another."""
        fresh: list[str] = []
        for index, alias in enumerate(aliases):
            key = identity_key(alias)
            holder = self._names.get(key)
            if holder is None and (state := self.known.entity_named(key)) is not None:
                holder = state.id
            if holder is not None and holder != owner:
                self.fault(f"{where}.aliases.{index}", f"{alias!r} is already a name of another entity ({holder})")
            elif key != own_key and self._names.get(key) is None:
                self._names[key] = owner
                fresh.append(alias.strip())
        return fresh

    def _meet_again(self, item: EntityItem, owner: str, state: State | None) -> None:
        """Record about an entity that exists: fill what is unset, refuse to change what is set."""
        before = len(self.rows)
        for name, value in item.fields.items():
            old = self._value(owner, state, name)
            if value is None or value == old:
                continue
            if name in _CLOSED and not self._unset(owner, state, name, old):
                self.fault(
                    f"{item.where}.{name}",
                    f"{item.name!r} has {name} {old!r}, not {value!r}. A record never changes it in passing; "
                    f"to change it, revise the entity with fields {{{name}: {value!r}}}",
                )
                continue
            self._say_field(owner, name, value)
        known_aliases = self._value(owner, state, "aliases") or []
        stored = {identity_key(name) for name in state.names()} if state else set()
        aliases = tuple(alias for alias in item.aliases if identity_key(alias) not in stored)
        if fresh := self.free_aliases(item.where, aliases, owner, item.key):
            self._say_field(owner, "aliases", [*known_aliases, *fresh])
        if len(self.rows) == before:
            self.rows.append({"op": "same", "of": "entity", "id": owner})

    def _say_field(self, owner: str, name: str, value: Any) -> None:
        if (new := self._new.get(owner)) is not None:
            new[name] = value
            self.rows.append({"op": "same", "of": "entity", "id": owner})
        else:
            self._fields[owner, name] = value
            self.rows.append({"op": "field", "id": owner, "field": name, "value": value})

    def _value(self, owner: str, state: State | None, name: str) -> Any:
        if (owner, name) in self._fields:
            return self._fields[owner, name]
        if (new := self._new.get(owner)) is not None:
            return new.get(name)
        state = state or self.entity_state(owner)
        return None if state is None else state.value(name)

    def _unset(self, owner: str, state: State | None, name: str, old: Any) -> bool:
        if name == "entity_type":
            return old == _FILLABLE[name] and bool(self._value(owner, state, "reconstructed"))
        return name in _FILLABLE and old == _FILLABLE[name]

    # --- observations, relations, passages ------------------------------------------------------

    def _observation(self, item: ObservationItem) -> None:
        owner = self.resolve(item.entity)
        if owner is None:
            self._unknown_entity(f"{item.where}.entity", item.entity)
            return
        said = self.observe(owner, item.text, item.kind, item.valid_from, item.valid_to)
        if item.kind in ("decided", "because"):
            self.stated.setdefault(owner, []).append(said)

    def observe(
        self, owner: str, text: str, kind: str, valid_from: str | None, valid_to: str | None
    ) -> str:
        """Say something about an entity and return the observation's id, a standing one's where it was said."""
        compared = same_text(text)
        same = [
            state
            for state in self.known.observations(owner, compared)
            if state.row["kind"] == kind and state.valid_from == valid_from
        ]
        if (standing := next((state for state in same if state.active), None)) is not None:
            self.rows.append({"op": "same", "of": "observation", "id": standing.id})
            return standing.id
        new_id, again = self._free_id(
            lambda n: observation_id(self.space, owner, kind, text, valid_from, n), {state.id for state in same}
        )
        if again:
            self.rows.append({"op": "same", "of": "observation", "id": new_id})
            return new_id
        self._create(
            {
                "op": "observation",
                "id": new_id,
                "entity": owner,
                "kind": kind,
                "text": text,
                "valid_from": valid_from,
                "valid_to": valid_to,
            }
        )
        return new_id

    def _free_id(self, mint: Any, used: set[str]) -> tuple[str, bool]:
        """Return the first id never used in the store, and whether this very batch has taken it already."""
        n = 0
        while True:
            candidate: str = mint(n)
            if candidate in self._taken:
                return candidate, True
            if candidate not in used and self.known.item(candidate) is None:
                self._taken.add(candidate)
                return candidate, False
            n += 1

    def _create(self, row: Row) -> None:
        self._taken.add(row["id"])
        self._new[row["id"]] = row
        self.rows.append(row)

    def new_row(self, item_id: str) -> Row | None:
        """Return the row that this batch creates under an id."""
        return self._new.get(item_id)

    def _relation(self, item: RelationItem) -> None:
        source, target = self.resolve(item.source), self.resolve(item.target)
        if source is None:
            self._unknown_entity(f"{item.where}.source", item.source)
        if target is None:
            self._unknown_entity(f"{item.where}.target", item.target)
        if source is not None and target is not None:
            self.relate(item.where, source, item.type, target, item.valid_from, item.valid_to)

    def relate(
        self,
        where: str,
        source: str,
        kind: str,
        target: str,
        valid_from: str | None = None,
        valid_to: str | None = None,
    ) -> str | None:
        """Relate two entities and return the relation's id; None where that is refused."""
        if source == target:
            self.fault(where, "a relation from an entity to itself says nothing")
            return None
        if kind == "supersedes":
            reverse = self.known.relations(target, kind, source)
            if (target, source) in self._superseding or any(state.active for state in reverse):
                self.fault(where, "the reverse stands already: of two things, only one can supersede the other")
                return None
            self._superseding.add((source, target))
        same = self.known.relations(source, kind, target)
        if (standing := next((state for state in same if state.active), None)) is not None:
            self.rows.append({"op": "same", "of": "relation", "id": standing.id})
            return standing.id
        new_id, again = self._free_id(
            lambda n: relation_id(self.space, source, kind, target, n), {state.id for state in same}
        )
        if again:
            self.rows.append({"op": "same", "of": "relation", "id": new_id})
            return new_id
        self._create(
            {
                "op": "relation",
                "id": new_id,
                "source": source,
                "type": kind,
                "target": target,
                "valid_from": valid_from,
                "valid_to": valid_to,
            }
        )
        return new_id

    def _passage(self, item: PassageItem) -> None:
        former = self.known.passages(item.session, item.key)
        standing = [state for state in former if state.active]
        if any(same_text(state.row["text"]) == same_text(item.text) for state in standing):
            self.rows.append({"op": "same", "of": "passage", "id": standing[-1].id})
            return
        new_id, again = self._free_id(
            lambda n: passage_id(self.space, item.session, item.key, n), {state.id for state in former}
        )
        if again:
            if self._new[new_id]["text"] != item.text:
                self.fault(f"{item.where}.key", f"{item.key!r} stands twice in this batch with different texts")
            self.rows.append({"op": "same", "of": "passage", "id": new_id})
            return
        self._create(
            {
                "op": "passage",
                "id": new_id,
                "session": item.session,
                "ordinal": self._ordinal(item, standing),
                "key": item.key,
                "text": item.text,
                "supersedes": [state.id for state in standing],
                **item.rest,
            }
        )
        for state in standing:
            self.retire(state, "ended", new_id, None)

    def _ordinal(self, item: PassageItem, standing: list[State]) -> int:
        if item.ordinal is not None:
            ordinal = item.ordinal
        elif standing:
            ordinal = int(standing[-1].row["ordinal"])
        else:
            ordinal = max(self._ordinals.get(item.session, -1), self.known.last_ordinal(item.session)) + 1
        self._ordinals[item.session] = max(ordinal, self._ordinals.get(item.session, -1))
        return ordinal

    def retire(
        self,
        state: State,
        status: str,
        successor: str | None,
        reason: str | None,
        valid_to: str | None = None,
    ) -> None:
        """Retire an item of the store."""
        self._retired.add(state.id)
        self.rows.append(
            {
                "op": "retire",
                "of": state.kind,
                "id": state.id,
                "status": status,
                "superseded_by": successor,
                "reason": reason,
                "valid_to": valid_to,
            }
        )

    def retired(self, item_id: str) -> bool:
        """Tell whether this batch retires an item."""
        return item_id in self._retired

    def _unknown_entity(self, where: str, reference: str) -> None:
        self.fault(where, f"no entity {reference!r} here; create it in the same batch, or check the name")
