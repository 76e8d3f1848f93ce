"""The reading half of the reference provider: it folds every row of a space, and looks at all of them."""

from __future__ import annotations

from asyncio import Task, ensure_future, to_thread, wait
from collections import defaultdict
from contextlib import suppress
from datetime import UTC
from typing import TYPE_CHECKING

from rawthink_conformance.brute import Everything, chain
from rawthink_conformance.shelf import Shelf, shelf_at
from rawthink_core import searching
from rawthink_core.errors import BackendError, BackendUnavailable, InvalidRequest, NotFound
from rawthink_core.graph import Rules
from rawthink_core.identity import canonical_id
from rawthink_core.model import Entity, Item, Observation, Passage, Relation, zone_named
from rawthink_core.operations import GraphPage, History, Items, ScanPage
from rawthink_core.provider import BaseProvider, Capability, ProviderInfo
from rawthink_core.reading import place_of
from rawthink_core.rows import Stamped, State, ends_of, fold, noun
from rawthink_core.searching import ask
from rawthink_core.selection import selection, utc
from rawthink_core.text import identity_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rawthink_core.operations import Get, GraphQuery, HistoryQuery, Scan, SearchPage, SearchQuery
    from rawthink_core.provider import World
    from rawthink_core.searching import Asked

CAPABILITIES: dict[Capability, str] = {
    Capability.GET: "yes",
    Capability.SCAN: "yes",
    Capability.GRAPH: "yes",
    Capability.HISTORY: "yes",
    Capability.FORGET: "erased",
    Capability.EXPORT: "yes",
    Capability.RESTORE: "yes",
    Capability.MAINTAIN: "yes",
    Capability.ATOMIC_WRITES: "yes",
    Capability.IDEMPOTENT_RECORD: "yes",
    Capability.AS_OF: "yes",
    Capability.VALID_AT: "yes",
    Capability.LEXICAL: "yes",
    Capability.VERBATIM: "yes",
    Capability.ACTIVITY: "yes",
    Capability.READ_YOUR_WRITES: "at once",
    Capability.RANKING: "core",
    Capability.FILTERS: "before_top_k",
    Capability.PROCESSES: "one",
}
AT_ONCE = 0.25  # seconds for which a write waits for vectors


class Recollection(BaseProvider):
    """Opens a store and reads it."""

    retrieval: type[Everything] = Everything

    def __init__(self, world: World) -> None:
        self._world = world
        self._clock = world.clock
        self._opened: Shelf | None = None
        self._embedding: Task[None] | None = None
        self._settle(world.timezone or "UTC")

    def _settle(self, zone: str) -> None:
        self._zone = zone_named(zone)
        self._rules = Rules(self._world.vocabulary, self._zone)
        self.info = ProviderInfo(
            name="reference",
            version="1",
            capabilities={**CAPABILITIES, Capability.DENSE: "yes"} if self._embeds else CAPABILITIES,
            location=f"memory of this process ({self._world.path})",
            timezone=zone,
        )

    async def open(self) -> None:
        """Take up what this process keeps for the folder; the folder is made where there is none."""
        self._opened = shelf_at(self._world.path, str(self._zone))
        self._settle(self._opened.zone)
        embedder = self._world.embedder
        with suppress(BackendError):
            await embedder.open()
        if self._embeds and self._opened.model is None:
            self._opened.model = embedder.name, embedder.fingerprint

    @property
    def _embeds(self) -> bool:
        return self._world.embedder.name != "none"

    @property
    def _mismatch(self) -> str | None:
        """Why vectors of this embedder may not be mixed with the store's."""
        model, given = self._shelf.model, self._world.embedder
        if not self._embeds or model is None or model[1] == given.fingerprint:
            return None
        return (
            f"the vectors are of {model[0]} ({model[1]}), not of {given.name} ({given.fingerprint}); "
            "use that one, or re-index"
        )

    @property
    def _shelf(self) -> Shelf:
        if self._opened is None:
            raise BackendUnavailable("the store is not open; call `open` first")
        return self._opened

    # --- looking at everything ------------------------------------------------------------------

    def _states(self, space: str, as_of: str | None = None) -> dict[str, State]:
        rows: defaultdict[str, list[Stamped]] = defaultdict(list)
        for commit in self._shelf.commits:
            if commit.space == space:
                for stamped in commit.stamped():
                    rows[stamped.row["id"]].append(stamped)
        folded = {item: fold(stamped, as_of) for item, stamped in rows.items()}
        return {item: state for item, state in folded.items() if state is not None}

    def _standing(self, space: str, as_of: str | None = None) -> dict[str, State]:
        return {i: s for i, s in self._states(space, as_of).items() if not s.forgotten}

    def _named(self, space: str, name: str) -> State | None:
        key = identity_key(name)
        for state in self._standing(space).values():
            if state.kind == "entity" and {key} & state.identity_keys():
                return state
        return None

    def _nouns(self, states: Iterable[State], known: Mapping[str, State]) -> list[Item]:
        def name_of(entity: str) -> str:
            return str(known[entity].value("name")) if entity in known else entity

        return [noun(state, name_of) for state in states]

    # --- reading --------------------------------------------------------------------------------

    async def get(self, request: Get) -> Items:
        """Look items up by id and entities by name."""
        return await to_thread(self._get, request.canonical(self._rules))

    def _get(self, request: Get) -> Items:
        states = self._standing(request.scope.space, utc(request.as_of))
        found: dict[str, State] = {}
        missing: list[str] = []
        for reference in request.ids:
            state = states.get(canonical_id(reference))
            missing += [] if state else [reference]
            found |= {state.id: state} if state else {}
        for name in request.names:
            entity = self._named(request.scope.space, name)
            state = states.get(entity.id) if entity else None
            missing += [] if state else [name]
            found |= {state.id: state} if state else {}
        self._use(found)
        return Items(items=tuple(self._nouns(found.values(), states)), missing=tuple(missing))

    def _use(self, ids: Collection[str]) -> None:
        today = self._clock.now().astimezone(UTC).date()
        self._shelf.used.update(dict.fromkeys(ids, today))

    async def scan(self, request: Scan) -> ScanPage:
        """Return one page of everything that passes the filters."""
        return await to_thread(self._scan, request.canonical(self._rules))

    def _scan(self, request: Scan) -> ScanPage:
        chosen = selection(request, ("entity", "observation", "relation", "passage"))
        states = self._standing(request.scope.space, chosen.as_of)
        passing = [s for s in states.values() if chosen.passes(s, searching.owner_of(s, states))]
        passing.sort(key=lambda s: (s.recorded_at, s.id))
        if request.cursor is not None:
            last = place_of(request.cursor)
            passing = [s for s in passing if (s.recorded_at, s.id) > last]
        page, rest = passing[: request.limit], passing[request.limit :]
        cursor = f"{page[-1].recorded_at}|{page[-1].id}" if rest else None
        return ScanPage(items=tuple(self._nouns(page, states)), cursor=cursor)

    async def graph(self, query: GraphQuery) -> GraphPage:
        """Walk the relations from some entities."""
        return await to_thread(self._graph, query.canonical(self._rules))

    def _graph(self, query: GraphQuery) -> GraphPage:
        states = self._standing(query.scope.space, utc(query.as_of))
        named = {name: self._named(query.scope.space, name) for name in query.names}
        start = [*map(canonical_id, query.ids), *(state.id for state in named.values() if state)]
        missing = [name for name, state in named.items() if state is None]
        missing += [i for i in dict.fromkeys(start) if i not in states or states[i].kind != "entity"]
        seen = [i for i in dict.fromkeys(start) if i in states and states[i].kind == "entity"]
        roots, frontier, relations = list(seen), list(seen), dict[str, State]()
        links = [s for s in states.values() if s.kind == "relation" and s.status in query.statuses]
        links.sort(key=lambda s: s.told)
        truncated = False
        for _ in range(query.depth):
            touching = [
                s for s in links if any(end in frontier for end in ends_of(s)) and s.id not in relations
            ]
            room = query.limit - len(relations)
            truncated = truncated or len(touching) > room
            relations |= {s.id: s for s in touching[:room]}
            ends = [end for s in touching[:room] for end in ends_of(s)]
            frontier = [end for end in dict.fromkeys(ends) if end not in seen and end in states]
            seen += frontier
        whom = roots if query.observations else ()
        said = [s for s in states.values() if s.kind == "observation" and s.row["entity"] in whom]
        said = sorted((s for s in said if s.status in query.statuses), key=lambda s: s.told)
        if not query.listing:
            self._use([*roots, *(s.id for s in said)])
        return GraphPage(
            entities=tuple(
                i for i in self._nouns([states[i] for i in seen], states) if isinstance(i, Entity)
            ),
            observations=tuple(i for i in self._nouns(said, states) if isinstance(i, Observation)),
            relations=tuple(i for i in self._nouns(relations.values(), states) if isinstance(i, Relation)),
            missing=tuple(missing),
            truncated=truncated,
        )

    async def history(self, query: HistoryQuery) -> History:
        """Return everything about an entity, or the chain of what an item replaced and was replaced by."""
        return await to_thread(self._history, query)

    def _history(self, query: HistoryQuery) -> History:
        if (query.id is None) == (query.name is None):
            raise InvalidRequest("history takes an id or a name")
        states = self._standing(query.scope.space)
        named = self._named(query.scope.space, query.name) if query.name else None
        state = named or states.get(canonical_id(query.id or ""))
        if state is None:
            raise NotFound(f"nothing called {query.id or query.name!r} is in this space; search for it first")
        if state.kind == "entity":
            related = [s for s in states.values() if s.id == state.id or state.id in ends_of(s)]
        else:
            related = [states[i] for i in chain(state.id, states)]
        self._use([s.id for s in related])
        items = self._nouns(sorted(related, key=lambda s: s.told), states)
        return History(
            entity=next((i for i in items if isinstance(i, Entity)), None),
            observations=tuple(i for i in items if isinstance(i, Observation)),
            relations=tuple(i for i in items if isinstance(i, Relation)),
            passages=tuple(i for i in items if isinstance(i, Passage)),
        )

    async def search(self, query: SearchQuery) -> SearchPage:
        """Search by scoring every item of the space."""
        query = query.canonical(self._rules)
        asked, why = await self._ask(query)
        if asked is None and why is None:
            return await to_thread(self._search, query)
        return await to_thread(self._answer, query, asked, why)

    async def _ask(self, query: SearchQuery) -> tuple[Asked | None, str | None]:
        if self._embeds and self._mismatch is None:
            await self._embed(query.scope.space)
            return await ask(self._world.embedder, query.text)
        return None, self._mismatch

    async def _embed(self, space: str) -> int:
        """Make the vectors that are missing in a space; return how many still are after a moment."""
        states, vectors = await to_thread(self._standing, space), self._shelf.vectors
        if self._embedding is None or self._embedding.done():
            self._embedding = ensure_future(vectors.embed(states, self._world.embedder))
        await wait({self._embedding}, timeout=AT_ONCE)
        if self._embedding.done():
            with suppress(BackendError):
                self._embedding.result()
        return len(vectors.waiting(states))

    async def close(self) -> None:
        """Leave what has no vector yet for the next time."""
        if self._embedding is not None:
            self._embedding.cancel()
            await wait({self._embedding})
            self._embedding = None

    def _search(self, query: SearchQuery) -> SearchPage:
        return self._answer(query, None, None)

    def _answer(self, query: SearchQuery, asked: Asked | None, why: str | None) -> SearchPage:
        retrieval, now = self._retrieval(query.scope.space), self._clock.now()
        return searching.answer(query, retrieval, now, why, asked, self._world.fusion)

    def _retrieval(self, space: str) -> Everything:
        vectors = self._shelf.vectors.of(self._standing(space))
        return self.retrieval(lambda as_of: self._standing(space, as_of), self._shelf.used, vectors)
