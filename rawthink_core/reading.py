"""How `get`, `graph`, `history` and `scan` are answered over any store that can look up states.

A provider supplies a `Reader` and calls these functions in a worker thread. Costs grow with the answer,
never with the store.
"""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Protocol, cast, get_args

from rawthink_core.clock import iso
from rawthink_core.errors import InvalidRequest, NotFound, quoted
from rawthink_core.identity import canonical_id, looks_like_id
from rawthink_core.model import Entity, ItemKind, Observation, Passage, Relation
from rawthink_core.operations import (
    Forget,
    Get,
    GraphPage,
    GraphQuery,
    History,
    HistoryQuery,
    Items,
    Scan,
    ScanPage,
)
from rawthink_core.rows import State, ends_of, noun
from rawthink_core.selection import Selection, selection, utc
from rawthink_core.text import identity_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from rawthink_core.model import Item


class Reader(Protocol):
    """Lookups in one space of a store. States are folded up to ``as_of`` where that is given."""

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        """Return the states of items by id, and of the entities that they belong to."""
        ...

    def named(self, keys: Collection[str]) -> Mapping[str, str]:
        """Return the ids of the entities that answer to identity keys."""
        ...

    def about(self, entities: Collection[str], as_of: str | None) -> list[State]:
        """Return every observation of these entities, retired ones too."""
        ...

    def links(self, entities: Collection[str], as_of: str | None) -> list[State]:
        """Return every relation that touches these entities, retired ones too."""
        ...


class SpaceReader(Reader, Protocol):
    """Lookups of all that there is, in the order of time, too."""

    def following(self, chosen: Selection, at: str, item: str, limit: int) -> Iterator[State]:
        """Yield the states that pass a selection in the order of (``recorded_at``, id), from a place on.

        A place is such a pair, and what is there does not come again; ``("", "")`` is before all. Of what is
        yielded, ``limit`` are looked at, at most.
        """
        ...


class SessionReader(Reader, Protocol):
    """Lookups of passages by their session, too."""

    def session(self, session: str) -> list[State]:
        """Return every passage of a session."""
        ...


def nouns(reader: Reader, states: Iterable[State], as_of: str | None = None) -> list[Item]:
    """Return the nouns of states, with the names of their entities."""
    listed = list(states)
    wanted = {entity for state in listed for entity in ends_of(state)}
    known = reader.states(wanted, as_of) if wanted else {}
    return [noun(state, _namer(known)) for state in listed]


def _namer(known: Mapping[str, State]) -> Callable[[str], str]:
    def name_of(entity: str) -> str:
        state = known.get(entity)
        return entity if state is None or state.forgotten else str(state.value("name"))

    return name_of


def get(reader: Reader, request: Get) -> Items:
    """Return items by id and entities by name, in the order asked for."""
    as_of = utc(request.as_of)
    keys = {name: identity_key(name) for name in request.names}
    named = reader.named(set(keys.values()))
    wanted = [(reference, canonical_id(reference)) for reference in request.ids]
    wanted += [(name, named.get(key, "")) for name, key in keys.items()]
    states = reader.states({item for _, item in wanted}, as_of)
    found = {item: s for _, item in wanted if (s := states.get(item)) is not None and not s.forgotten}
    return Items(
        items=tuple(nouns(reader, found.values(), as_of)),
        missing=tuple(ref for ref, item in wanted if item not in found),
    )


def _start(reader: Reader, ids: Iterable[str], names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the ids of the entities that were asked for, and what was not found by name."""
    named = {name: identity_key(name) for name in names}
    known = reader.named(set(named.values()))
    found = [*map(canonical_id, ids), *(known[key] for key in named.values() if key in known)]
    return list(dict.fromkeys(found)), [name for name, key in named.items() if key not in known]


def graph(reader: Reader, query: GraphQuery) -> GraphPage:
    """Walk the relations from some entities, each entity visited once, ``query.limit`` relations at most."""
    as_of = utc(query.as_of)
    start, missing = _start(reader, query.ids, query.names)
    visited: dict[str, State] = {}
    relations: dict[str, State] = {}
    frontier, truncated = start, False
    for step in range(query.depth + 1):
        states = reader.states(frontier, as_of)
        fresh = {i: s for i in frontier if (s := states.get(i)) is not None and _is_entity(s)}
        if step == 0:
            missing += [item for item in start if item not in fresh]
        visited |= fresh
        if step == query.depth or not fresh:
            break
        following: dict[str, None] = {}
        for link in sorted(reader.links(fresh.keys(), as_of), key=lambda link: link.told):
            if link.status not in query.statuses or link.id in relations:
                continue
            if len(relations) == query.limit:
                truncated = True
                break
            relations[link.id] = link
            following.update((end, None) for end in ends_of(link) if end not in visited)
        frontier = list(following)
    whom = [item for item in start if item in visited] if query.observations else []
    said = [s for s in (reader.about(whom, as_of) if whom else ()) if s.status in query.statuses]
    said.sort(key=lambda state: state.told)
    return GraphPage(
        entities=tuple(cast("list[Entity]", nouns(reader, visited.values(), as_of))),
        observations=tuple(cast("list[Observation]", nouns(reader, said, as_of))),
        relations=tuple(cast("list[Relation]", nouns(reader, relations.values(), as_of))),
        missing=tuple(missing),
        truncated=truncated,
    )


def scan(reader: SpaceReader, request: Scan) -> ScanPage:
    """Return a page of what passes the filters, oldest first; its cursor is the place of its last item.

    Raises InvalidRequest for a cursor of no scan.
    """
    chosen = selection(request, get_args(ItemKind))
    at, item = ("", "") if request.cursor is None else place_of(request.cursor)
    more = request.limit + 1
    states = list(islice(reader.following(chosen, at, item, more), more))
    shown = states[: request.limit]
    return ScanPage(
        items=tuple(nouns(reader, shown, chosen.as_of)),
        cursor=f"{shown[-1].recorded_at}|{shown[-1].id}" if len(states) > len(shown) else None,
    )


def place_of(cursor: str) -> tuple[str, str]:
    """Return the time and id that the cursor of a scan stands for. Raises InvalidRequest."""
    at, _, item = cursor.partition("|")
    try:
        if iso(datetime.fromisoformat(at)) == at and looks_like_id(item):
            return at, item
    except ValueError:
        pass
    raise InvalidRequest("the cursor is not one that a scan returned; start again without it")


def _is_entity(state: State) -> bool:
    return state.kind == "entity" and not state.forgotten


def history(reader: Reader, query: HistoryQuery) -> History:
    """Return how an item, or everything said about an entity, came to be. Raises NotFound."""
    if (query.id is None) == (query.name is None):
        raise InvalidRequest("history takes an id or a name")
    wanted, _ = _start(
        reader,
        [query.id] if query.id is not None else [],
        [query.name] if query.name is not None else [],
    )
    state = next((s for i in wanted if (s := reader.states([i], None).get(i)) is not None), None)
    if state is None or state.forgotten:
        asked = quoted(query.id if query.id is not None else query.name or "")
        raise NotFound(f"nothing called {asked} is in this space; search for it first")
    if state.kind == "entity":
        return _history(reader, [state, *reader.about([state.id], None), *reader.links([state.id], None)])
    return _history(reader, _chain(reader, state))


def _chain(reader: Reader, state: State) -> list[State]:
    """Return everything that an item replaced or was replaced by, however far back or forth."""
    chain, todo = {state.id: state}, [state]
    while todo:
        linked = {i for s in todo for i in (*s.supersedes, *([s.superseded_by] if s.superseded_by else []))}
        found = reader.states(linked - chain.keys(), None)
        todo = [s for i in linked - chain.keys() if (s := found.get(i)) is not None and not s.forgotten]
        chain |= {s.id: s for s in todo}
    return list(chain.values())


def _history(reader: Reader, states: list[State]) -> History:
    items = nouns(reader, sorted((s for s in states if not s.forgotten), key=lambda s: s.told))
    return History(
        entity=next((i for i in items if isinstance(i, Entity)), None),
        observations=tuple(i for i in items if isinstance(i, Observation)),
        relations=tuple(i for i in items if isinstance(i, Relation)),
        passages=tuple(i for i in items if isinstance(i, Passage)),
    )


# --- forget -------------------------------------------------------------------------------------


def meant(
    reader: SessionReader, request: Forget, everything: Callable[[], Iterable[str]]
) -> tuple[dict[str, State], list[str]]:
    """Return what is to be forgotten, by id, and what of the request is not in this space.

    With an entity goes all that is said of it, and every relation that touches it. ``everything`` gives the
    ids of all items of the space; it is asked only where all of it is to be forgotten.
    """
    if request.everything:
        ids = set(everything())
        return {item: state for item, state in reader.states(ids, None).items() if item in ids}, []
    named = reader.named({identity_key(name) for name in request.names})
    wanted = [(item, canonical_id(item)) for item in request.ids]
    wanted += [(name, named.get(identity_key(name), "")) for name in request.names]
    ids = {item for _, item in wanted if item}
    found = {item: state for item, state in reader.states(ids, None).items() if item in ids}
    missing = [asked for asked, item in wanted if item not in found]
    for session in request.sessions:
        inside = [state for state in reader.session(session) if not state.forgotten]
        missing += [] if inside else [session]
        found |= {state.id: state for state in inside}
    entities = {item for item, state in found.items() if state.kind == "entity"}
    return found | {s.id: s for s in (*reader.about(entities, None), *reader.links(entities, None))}, missing
