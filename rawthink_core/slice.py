"""The slice of a graph that a batch must see: `Needs` names it, `Facts` brings it, `Slice` holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rawthink_core.text import same_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rawthink_core.rows import State


class TextOf(NamedTuple):
    """All observations, retired ones too, of one entity with one text (in its compared form)."""

    entity: str
    text: str


class Link(NamedTuple):
    """All relations, retired ones too, of one type from one entity to another (ids)."""

    source: str
    type: str
    target: str


class Slot(NamedTuple):
    """All passages, retired ones too, under one key of one session."""

    session: str
    key: str


@dataclass(frozen=True, slots=True)
class Needs:
    """The slice of graph that a plan must see. All of it belongs to the batch's space."""

    names: frozenset[str] = frozenset()  # identity keys of entities
    ids: frozenset[str] = frozenset()  # items of any noun, erased ones too
    texts: frozenset[TextOf] = frozenset()
    links: frozenset[Link] = frozenset()
    slots: frozenset[Slot] = frozenset()
    decisions: frozenset[str] = frozenset()  # entity ids: their active `decided` and `because`
    sessions: frozenset[str] = frozenset()  # their highest ordinal, retired passages included
    origins: frozenset[str] = frozenset()  # paths: their active passages

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a provider found for some `Needs`: states in any order, and the highest ordinals.

    Every need counts as answered: what was asked for and is not among the states does not exist.
    """

    needs: Needs
    states: Iterable[State] = ()
    ordinals: dict[str, int] = field(default_factory=dict)


class Slice:
    """What is known of the graph so far. Asking it for something unknown makes it a need."""

    def __init__(self) -> None:
        self._wanted: dict[str, set[object]] = {}
        self._answered: dict[str, set[object]] = {name: set() for name in Needs.__slots__}
        self._names: dict[str, State] = {}
        self._ids: dict[str, State] = {}
        self._groups: dict[tuple[str, object], dict[str, State]] = {}
        self._ordinals: dict[str, int] = {}

    def learn(self, facts: Facts) -> None:
        """Take in what a provider found."""
        for name, answered in self._answered.items():
            answered.update(getattr(facts.needs, name))
        self._ordinals.update(facts.ordinals)
        for state in facts.states:
            self._ids[state.id] = state
            if state.forgotten:
                continue
            for group in _groups(state):
                self._groups.setdefault(group, {})[state.id] = state
            if state.kind == "entity":
                for key in state.identity_keys():
                    self._names[key] = min(state, self._names.get(key, state), key=_age)

    def take_wanted(self) -> Needs:
        """Return what was asked for in vain since the last call."""
        wanted, self._wanted = self._wanted, {}
        return Needs(**{kind: frozenset(keys) for kind, keys in wanted.items()})  # type: ignore[arg-type] # each set holds the keys of its own kind

    def entity_named(self, key: str) -> State | None:
        """Return the entity that answers to an identity key (the oldest, where a merge left two)."""
        return self._names.get(key) if self._known("names", key) else None

    def item(self, item_id: str) -> State | None:
        """Return the item with an id, an erased one too."""
        if item_id not in self._ids:  # what another question brought is known as well
            self._known("ids", item_id)
        return self._ids.get(item_id)

    def observations(self, entity: str, text: str) -> list[State]:
        """Return all observations of an entity with a text (compared form), oldest first."""
        return self._group("texts", TextOf(entity, text))

    def relations(self, source: str, kind: str, target: str) -> list[State]:
        """Return all relations of a type between two entities, oldest first."""
        return self._group("links", Link(source, kind, target))

    def passages(self, session: str, key: str) -> list[State]:
        """Return all passages under a key of a session, oldest first."""
        return self._group("slots", Slot(session, key))

    def decisions(self, entity: str) -> list[State]:
        """Return the active `decided` and `because` of an entity, oldest first."""
        return self._group("decisions", entity)

    def passages_of_file(self, path: str) -> list[State]:
        """Return the active passages whose truth is a file, oldest first."""
        return self._group("origins", path)

    def last_ordinal(self, session: str) -> int:
        """Return the highest ordinal of a session, -1 when it has no passage."""
        return self._ordinals.get(session, -1) if self._known("sessions", session) else -1

    def _known(self, kind: str, key: object) -> bool:
        if key in self._answered[kind]:
            return True
        self._wanted.setdefault(kind, set()).add(key)
        return False

    def _group(self, kind: str, key: object) -> list[State]:
        if not self._known(kind, key):
            return []
        return sorted(self._groups.get((kind, key), {}).values(), key=_age)


def _age(state: State) -> tuple[str, str]:
    return state.recorded_at, state.id


def _groups(state: State) -> list[tuple[str, object]]:
    """Return the questions that a state is part of the answer to."""
    row = state.row
    groups: list[tuple[str, object]] = []
    match state.kind:
        case "observation":
            groups.append(("texts", TextOf(row["entity"], same_text(row["text"]))))
            if state.active and row["kind"] in ("decided", "because"):
                groups.append(("decisions", row["entity"]))
        case "relation":
            groups.append(("links", Link(row["source"], row["type"], row["target"])))
        case "passage":
            groups.append(("slots", Slot(row["session"], row["key"])))
            if state.active and (origin := row.get("origin")):
                groups.append(("origins", origin["path"]))
        case "entity":
            pass
    return groups
