"""A ledger: every commit of one space, held in memory, with look-ups that need not look at everything.

It is what `graph.plan` and `reading` ask. Not safe to share between threads: its `Mirror` holds the lock.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from rawthink_core.graph import Facts, Needs
from rawthink_core.ranking import Place
from rawthink_core.rows import Row, Stamped, State, ends_of, fold
from rawthink_core.selection import owner_of
from rawthink_core.slice import Link, Slot, TextOf
from rawthink_core.text import identity_key, same_text

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

    from rawthink_core.commits import Commit
    from rawthink_core.selection import Selection


class Ledger:
    """The commits of one space, and what they amount to."""

    def __init__(self, commits: Iterable[Commit] = ()) -> None:
        self.commits: dict[str, Commit] = {}
        self.last_at = ""
        self.dirty: set[str] = set()  # items that an index of texts has not seen as they are now
        self._rows: defaultdict[str, list[Stamped]] = defaultdict(list)
        self._states: dict[str, State | None] = {}
        self._index: defaultdict[Hashable, set[str]] = defaultdict(set)
        for commit in commits:
            self.add(commit)

    def add(self, commit: Commit) -> None:
        """Take in a commit that was not here yet."""
        self.commits[commit.id] = commit
        self.last_at = max(self.last_at, commit.at)
        for stamped in commit.stamped():
            item = stamped.row["id"]
            self._rows[item].append(stamped)
            self._states.pop(item, None)
            self.dirty.add(item)
            for question in _questions(stamped.row):
                self._index[question].add(item)

    def ids(self) -> set[str]:
        """Return the ids of all items that there ever were."""
        return set(self._rows)

    def in_order(self) -> Iterator[Commit]:
        """Yield every commit in the order of time."""
        yield from sorted(self.commits.values(), key=lambda commit: (commit.at, commit.id))

    # --- states ---------------------------------------------------------------------------------

    def state(self, item: str, as_of: str | None = None) -> State | None:
        """Return the state of one item, an erased one too."""
        if as_of is not None:
            return fold(self._rows.get(item, ()), as_of)
        if item not in self._states:
            if item not in self._rows:
                return None
            self._states[item] = fold(self._rows[item])
        return self._states[item]

    def all(self, as_of: str | None = None) -> list[State]:
        """Return every item that stands, retired ones too."""
        return self._standing(self._rows, as_of)

    def following(self, chosen: Selection, at: str, item: str, limit: int) -> Iterator[State]:
        """Yield the states that pass, in the order of (recorded at, id), after the given pair."""
        del limit  # all is in memory
        known = {state.id: state for state in self.all(chosen.as_of)}
        later = (state for state in known.values() if (state.recorded_at, state.id) > (at, item))
        passed = (state for state in later if chosen.passes(state, owner_of(state, known)))
        yield from sorted(passed, key=lambda state: (state.recorded_at, state.id))

    def _standing(self, ids: Iterable[str], as_of: str | None = None) -> list[State]:
        states = (self.state(item, as_of) for item in ids)
        return [state for state in states if state is not None and not state.forgotten]

    def _about(self, *questions: Hashable) -> set[str]:
        return {item for question in questions for item in self._index.get(question, ())}

    # --- what reading and searching ask ---------------------------------------------------------

    def states(self, ids: Collection[str], as_of: str | None = None) -> Mapping[str, State]:
        """Return the states of items by id, and of the entities that they belong to."""
        found = {state.id: state for state in self._standing(ids, as_of)}
        owners = {end for state in found.values() for end in ends_of(state)} - found.keys()
        return found | {state.id: state for state in self._standing(owners, as_of)}

    def named(self, keys: Collection[str]) -> Mapping[str, str]:
        """Return the ids of the entities that answer to identity keys."""
        entities = self._standing(sorted(self._about(*(("name", key) for key in keys))))
        entities.sort(key=lambda state: (state.recorded_at, state.id), reverse=True)
        return {key: state.id for state in entities for key in state.identity_keys() if key in keys}

    def about(self, entities: Collection[str], as_of: str | None = None) -> list[State]:
        """Return every observation of these entities, retired ones too."""
        return self._standing(self._about(*(("about", entity) for entity in entities)), as_of)

    def links(self, entities: Collection[str], as_of: str | None = None) -> list[State]:
        """Return every relation that touches these entities, retired ones too."""
        return self._standing(self._about(*(("touch", entity) for entity in entities)), as_of)

    def session(self, session: str) -> list[State]:
        """Return every passage of a session."""
        return self._standing(self._about(("session", session)))

    def passages_at(self, places: Collection[Place], as_of: str | None = None) -> Mapping[Place, State]:
        """Return the active passages at these places of sessions."""
        found: dict[Place, State] = {}
        for state in self._standing(sorted(self._about(*(("place", *place) for place in places))), as_of):
            if state.active:
                found[Place(state.row["session"], state.row["ordinal"])] = state
        return found

    # --- what a plan asks -----------------------------------------------------------------------

    def facts(self, wanted: Needs) -> Facts:
        """Return what a plan needs to see."""
        ids = set(wanted.ids)
        ids |= self._about(*(("name", key) for key in wanted.names))
        ids |= self._about(*(("text", *text) for text in wanted.texts))
        ids |= self._about(*(("link", *link) for link in wanted.links))
        ids |= self._about(*(("slot", *slot) for slot in wanted.slots))
        ids |= self._about(*(("decision", entity) for entity in wanted.decisions))
        ids |= self._about(*(("origin", path) for path in wanted.origins))
        states = [state for item in ids if (state := self.state(item)) is not None]
        ordinals = {
            session: max((int(state.row["ordinal"]) for state in self.session(session)), default=-1)
            for session in wanted.sessions
        }
        return Facts(wanted, states, ordinals)


def _questions(row: Row) -> list[Hashable]:
    """Return the questions that a row may be part of the answer to."""
    match row["op"]:
        case "entity":
            return [("name", identity_key(name)) for name in (row["name"], *row.get("aliases", ()))]
        case "field":
            return [("name", identity_key(name)) for name in _names(row)]
        case "observation":
            owner = row["entity"]
            said: list[Hashable] = [("about", owner), ("text", *TextOf(owner, same_text(row["text"])))]
            return [*said, ("decision", owner)] if row["kind"] in ("decided", "because") else said
        case "relation":
            ends = (row["source"], row["type"], row["target"])
            return [("touch", ends[0]), ("touch", ends[2]), ("link", *Link(*ends))]
        case "passage":
            session = row["session"]
            place: list[Hashable] = [("session", session), ("place", session, row["ordinal"])]
            place.append(("slot", *Slot(session, row["key"])))
            return [*place, ("origin", row["origin"]["path"])] if row.get("origin") else place
        case _:
            return []


def _names(row: Row) -> list[str]:
    value: Any = row["value"]
    if row["field"] == "name":
        return [value]
    return list(value) if row["field"] == "aliases" else []
