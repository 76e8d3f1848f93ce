"""Which items a query is about: the filters of `search` and `scan`, and what they mean on a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rawthink_core.clock import iso
from rawthink_core.rows import State, holds_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from rawthink_core.model import ItemKind
    from rawthink_core.operations import Filters

SEARCHABLE: tuple[ItemKind, ...] = ("entity", "observation", "passage")


@dataclass(frozen=True, slots=True)
class Selection:
    """The filters of a query in the form in which stores compare: texts, and ISO 8601 times in UTC.

    Empty tuples do not filter. ``needs_entity`` says that the entity of an item must be looked at.
    """

    space: str
    items: tuple[str, ...]
    statuses: tuple[str, ...]
    observation_kinds: tuple[str, ...] = ()
    entity_types: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    as_of: str | None = None
    valid_at: str | None = None

    @property
    def needs_entity(self) -> bool:
        """Whether a filter looks at the entity that an item belongs to."""
        return bool(self.entity_types or self.domains)

    def passes(self, state: State, owner: State | None) -> bool:
        """Tell whether an item passes. ``owner`` is the entity of an observation (an entity is its own)."""
        if state.forgotten or state.kind not in self.items or state.status not in self.statuses:
            return False  # entities, which nothing retires, are active
        row = state.row
        if self.observation_kinds and row.get("kind") not in self.observation_kinds:
            return False
        if self.sessions and row.get("session") not in self.sessions:
            return False
        if self.tags and not set(self.tags).intersection(row.get("tags", ())):
            return False
        if self.needs_entity and not self._entity_passes(owner):
            return False
        return self._dates_pass(state)

    def _entity_passes(self, owner: State | None) -> bool:
        if owner is None:
            return False
        if self.entity_types and owner.value("entity_type") not in self.entity_types:
            return False
        return not self.domains or owner.value("domain") in self.domains

    def _dates_pass(self, state: State) -> bool:
        date = state.valid_from or state.recorded_at
        if self.since is not None and date < self.since:
            return False
        if self.until is not None and date >= self.until:
            return False
        return self.valid_at is None or holds_at(state, self.valid_at)


def selection(filters: Filters, default_items: tuple[ItemKind, ...] = SEARCHABLE) -> Selection:
    """Return the selection that a query asks for (its times already in UTC: ``in_zone`` first).

    A question about what held at some time means active and ended items, unless it says otherwise.
    """
    statuses: tuple[str, ...] = filters.statuses
    if filters.valid_at is not None and "statuses" not in filters.model_fields_set:
        statuses = ("active", "ended")
    return Selection(
        space=filters.scope.space,
        items=filters.items or default_items,
        statuses=statuses,
        observation_kinds=filters.observation_kinds,
        entity_types=filters.entity_types,
        domains=filters.domains,
        tags=filters.tags,
        sessions=filters.sessions,
        since=utc(filters.since),
        until=utc(filters.until),
        as_of=utc(filters.as_of),
        valid_at=utc(filters.valid_at),
    )


def utc(value: datetime | date | None) -> str | None:
    """Return the canonical text of a time that `in_zone` has made an instant."""
    return None if value is None else iso(value)  # type: ignore[arg-type] # dates are gone after in_zone


def owner_of(state: State, states: Mapping[str, State]) -> State | None:
    """Return the entity that an item belongs to; an entity belongs to itself."""
    return state if state.kind == "entity" else states.get(state.row.get("entity", ""))


def text_of(state: State) -> str:
    """Return the text by which an item is found: an entity's is every name that it answers to."""
    if state.kind == "entity":
        return "\n".join(dict.fromkeys([state.value("name"), *state.value("aliases"), *state.names()]))
    return str(state.row.get("text", ""))
