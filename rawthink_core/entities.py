"""How a batch speaks of entities: it refers to them, creates them, meets them again, changes their fields.

Part of the planner. A name belongs to one entity for good: its current name, its aliases and all former ones
answer, and no other entity may take them, neither in the store nor within the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_core.errors import quoted
from rawthink_core.identity import canonical_id, entity_id, looks_like_id
from rawthink_core.text import identity_key

if TYPE_CHECKING:
    from rawthink_core.planning import Planner
    from rawthink_core.rows import Row, State
    from rawthink_core.work import ChangeItem, EntityItem

# What is never changed in passing; `revise` does it.
_CLOSED = ("entity_type", "domain", "epistemic", "visibility")


class Entities:
    """The entities of a batch and of the store, on behalf of a `Planner`."""

    def __init__(self, planner: Planner) -> None:
        self.plan = planner
        self.known = planner.known
        self._names: dict[str, str] = {}  # identity keys that this batch has used → entity id
        self._new: dict[str, Row] = {}  # entities that this batch creates
        self._said: dict[tuple[str, str], Any] = {}  # what this batch says of others: (id, field) → value

    def resolve(self, reference: str) -> str | None:
        """Return the id of the entity that an id or a name refers to, in this batch or in the store."""
        if looks_like_id(reference) and (state := self.state(canonical_id(reference))) is not None:
            return state.id  # first, so that nobody can take an entity's place by taking its id for a name
        key = identity_key(reference)
        if (own := self._names.get(key)) is not None:
            return own
        named = self.known.entity_named(key)
        return None if named is None else named.id

    def state(self, entity: str) -> State | None:
        """Return an entity of the store by id."""
        state = self.known.item(entity)
        return state if state is not None and state.kind == "entity" and not state.forgotten else None

    def value(self, owner: str, name: str) -> Any:
        """Return the value of a field as this batch leaves it so far."""
        if (owner, name) in self._said:
            return self._said[owner, name]
        if (new := self._new.get(owner)) is not None:
            return new.get(name)
        state = self.state(owner)
        return None if state is None else state.value(name)

    # --- recording ------------------------------------------------------------------------------

    def record(self, item: EntityItem) -> None:
        """Create an entity, or record about the one that has its name."""
        owner = self._names.get(item.key)
        if owner is None and (state := self.known.entity_named(item.key)) is not None:
            owner = state.id
        if owner is None:
            self._create(item)
        else:
            self._names[item.key] = owner
            self._meet_again(item, owner)

    def _create(self, item: EntityItem) -> None:
        vocabulary = self.plan.work.rules.vocabulary
        for name, allowed in (("entity_type", vocabulary.entity_types), ("domain", vocabulary.domains)):
            if name not in item.fields:
                self.plan.fault(
                    f"{item.where}.{name}", f"is required for a new entity. Allowed: {', '.join(allowed)}"
                )
        owner = self._names[item.key] = entity_id(self.plan.space, item.name)
        row: Row = {
            "op": "entity",
            "id": owner,
            "name": item.name,
            "entity_type": item.fields.get("entity_type"),
            "domain": item.fields.get("domain"),
            "epistemic": item.fields.get("epistemic", "unknown"),
            "visibility": item.fields.get("visibility", "private"),
            "aliases": self._fresh_aliases(item, owner),
            "pinned": item.fields.get("pinned") or None,
        }
        self.plan.rows.append(row)
        self._new[owner] = row

    def _fresh_aliases(self, item: EntityItem, owner: str) -> list[str]:
        return [
            alias.strip()
            for index, alias in enumerate(item.aliases)
            if self._claim(f"{item.where}.aliases.{index}", alias, owner)
        ]

    def _claim(self, where: str, name: str, owner: str) -> bool:
        """Take a name for an entity; note it where another has it. True when it is new to the entity."""
        key = identity_key(name)
        holder = self._names.get(key)
        if holder is None and (state := self.known.entity_named(key)) is not None:
            holder = state.id
        if holder is not None and holder != owner:
            self.plan.fault(where, f"{quoted(name)} is already a name of another entity ({holder})")
            return False
        self._names[key] = owner
        return holder is None

    def _meet_again(self, item: EntityItem, owner: str) -> None:
        """Record about an entity that exists: fill what is unset, refuse to change what is set."""
        before = len(self.plan.rows)
        for name, value in item.fields.items():
            old = self.value(owner, name)
            if value is None or value == old:
                continue
            if name in _CLOSED and not self._unset(owner, name, old):
                self.plan.fault(
                    f"{item.where}.{name}",
                    f"{quoted(item.name)} has {name} {old!r}, not {value!r}. A record never changes it in "
                    f"passing; to change it, revise the entity with fields {{{name}: {value!r}}}",
                )
                continue
            self._say(owner, name, value)
        if fresh := self._fresh_aliases(item, owner):
            self._say(owner, "aliases", [*(self.value(owner, "aliases") or ()), *fresh])
        if len(self.plan.rows) == before and owner not in self._new:
            self.plan.rows.append({"op": "same", "of": "entity", "id": owner})

    def _unset(self, owner: str, name: str, old: Any) -> bool:
        """Tell whether a field holds nothing that somebody stated."""
        match name:
            case "entity_type":
                return old == "thing" and bool(self.value(owner, "reconstructed"))
            case "domain":
                return old is None
            case "epistemic":
                return bool(old == "unknown")
            case _:
                return False

    def _say(self, owner: str, name: str, value: Any, reason: str | None = None) -> None:
        if (new := self._new.get(owner)) is not None:
            new[name] = value
            return
        self._said[owner, name] = value
        self.plan.rows.append({"op": "field", "id": owner, "field": name, "value": value, "reason": reason})

    # --- changing fields ------------------------------------------------------------------------

    def change(self, change: ChangeItem, fields: dict[str, Any]) -> None:
        """Give fields of one entity new values; their old ones stay as versions."""
        owner = self._target(change)
        if owner is None:
            return
        if owner in self._new:
            self.plan.fault(
                f"{change.where}.fields", "the entity is created in this batch: state its fields there"
            )
            return
        before = len(self.plan.rows)
        for name, value in fields.items():
            wanted = value
            if name == "name":
                self._claim(f"{change.where}.fields.name", value, owner)
            elif name == "aliases":
                spellings: dict[str, str] = {}
                for index, alias in enumerate(value):
                    self._claim(f"{change.where}.fields.aliases.{index}", alias, owner)
                    spellings.setdefault(identity_key(alias), alias)
                wanted = list(spellings.values())
            if wanted != self.value(owner, name):
                self._say(owner, name, wanted, change.reason)
        if len(self.plan.rows) == before:
            self.plan.rows.append({"op": "same", "of": "entity", "id": owner})

    def _target(self, change: ChangeItem) -> str | None:
        target = change.targets[0]
        if target.given.id is None:
            owner = self.resolve(target.given.entity or "")
        else:
            item = self.known.item(canonical_id(target.given.id))
            if item is not None and item.kind != "entity":
                problem = f"is no entity but of kind {item.kind!r}: only entities have `fields`"
                self.plan.fault(target.where, problem)
                return None
            owner = None if item is None or item.forgotten else item.id
        if owner is None:
            self.plan.not_found(target)
        return owner
