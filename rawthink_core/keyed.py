"""A reader of one space over an index of keys: states, names, links and all else that core asks, from rows.

A store that keeps, for each row, the keys of the `questions` that it answers, subclasses `KeyedReader` and
says which rows answer a question (and, where that is cheaper, which items do); looking at each of them,
folding, and sorting out what only shares a key happens here. One reader serves one operation: what it has
read, it does not read again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from rawthink_core.graph import Facts, Needs
from rawthink_core.ranking import Place
from rawthink_core.rows import Stamped, State, ends_of, fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


class KeyedReader(ABC):
    """Reads states of one space (core's `Reader`, and what a plan and a search ask). For one thread."""

    def __init__(self, space: str) -> None:
        self.space = space
        self._states: dict[tuple[str, str | None], State | None] = {}

    @abstractmethod
    def answers(self, kind: str, asked: Sequence[tuple[object, ...]]) -> list[list[Stamped]]:
        """Return, for each of some questions of a kind, the rows that may answer it; each row once.

        These are the rows for which `questions` yields ``key(kind, space, *parts)``, ``parts`` being an
        element of ``asked``.
        """

    @abstractmethod
    def last_ordinal(self, session: str) -> int:
        """Return the highest ordinal of a session, -1 where it has no passage."""

    def ids(self, kind: str, asked: Sequence[tuple[object, ...]]) -> set[str]:
        """Return the ids of the items that may answer any of some questions of a kind."""
        return {stamped.row["id"] for found in self.answers(kind, asked) for stamped in found}

    def _ids(self, kind: str, asked: Iterable[tuple[object, ...]]) -> set[str]:
        wanted = list(asked)
        return self.ids(kind, wanted) if wanted else set()

    # --- states ---------------------------------------------------------------------------------

    def rows(self, ids: Collection[str]) -> dict[str, list[Stamped]]:
        """Return the rows of items as they are now, in no order; erased items have their marks."""
        found = zip(ids, self.answers("id", [(item,) for item in ids]), strict=True)
        return {item: [row for row in rows if row.row["id"] == item] for item, rows in found}

    def state(self, item: str, as_of: str | None = None) -> State | None:
        """Return the state of one item, an erased one too."""
        return self.load([item], as_of).get(item)

    def load(self, ids: Iterable[str], as_of: str | None = None) -> dict[str, State]:
        """Return the states of items, erased ones too."""
        wanted = list(dict.fromkeys(ids))
        fresh = [item for item in wanted if (item, as_of) not in self._states]
        for item, rows in self.rows(fresh).items() if fresh else ():
            self._states[item, as_of] = fold(rows, as_of)
        return {item: state for item in wanted if (state := self._states[item, as_of]) is not None}

    def _all(self, ids: Iterable[str], as_of: str | None) -> list[State]:
        return [state for state in self.load(ids, as_of).values() if not state.forgotten]

    def states(self, ids: Collection[str], as_of: str | None = None) -> Mapping[str, State]:
        """Return the states of items by id, and of the entities that they belong to."""
        found = {state.id: state for state in self._all(ids, as_of)}
        owners = {end for state in found.values() for end in ends_of(state)} - found.keys()
        return found | {state.id: state for state in self._all(owners, as_of)}

    # --- questions ------------------------------------------------------------------------------

    def named(self, keys: Collection[str]) -> Mapping[str, str]:
        """Return the ids of the entities that answer to identity keys."""
        ids = self._ids("name", ((key,) for key in keys))
        entities = [state for state in self._all(sorted(ids), None) if state.kind == "entity"]
        return {key: state.id for state in entities for key in state.identity_keys() if key in keys}

    def about(self, entities: Collection[str], as_of: str | None = None) -> list[State]:
        """Return every observation of these entities, retired ones too."""
        states = self._all(self._ids("about", ((entity,) for entity in entities)), as_of)
        return [state for state in states if state.kind == "observation" and state.row["entity"] in entities]

    def links(self, entities: Collection[str], as_of: str | None = None) -> list[State]:
        """Return every relation that touches these entities, retired ones too."""
        states = self._all(self._ids("touch", ((entity,) for entity in entities)), as_of)
        return [s for s in states if s.kind == "relation" and any(end in entities for end in ends_of(s))]

    def passages_at(self, places: Collection[Place], as_of: str | None = None) -> Mapping[Place, State]:
        """Return the active passages at these places of sessions."""
        found: dict[Place, State] = {}
        for state in self._all(sorted(self._ids("place", places)), as_of):
            if state.kind == "passage" and state.active:
                found[Place(state.row["session"], state.row["ordinal"])] = state
        return {place: found[place] for place in places if place in found}

    def session(self, session: str) -> list[State]:
        """Return every passage of a session."""
        states = self._all(self._ids("session", [(session,)]), None)
        return [state for state in states if state.row.get("session") == session]

    def facts(self, wanted: Needs) -> Facts:
        """Return what a plan needs to see."""
        ids = set(wanted.ids)
        ids |= self._ids("name", ((key,) for key in wanted.names))
        ids |= self._ids("said", wanted.texts)
        ids |= self._ids("link", wanted.links)
        ids |= self._ids("slot", wanted.slots)
        ids |= self._ids("decision", ((entity,) for entity in wanted.decisions))
        ids |= self._ids("origin", ((path,) for path in wanted.origins))
        ordinals = {session: self.last_ordinal(session) for session in wanted.sessions}
        return Facts(wanted, self.load(ids).values(), ordinals)
