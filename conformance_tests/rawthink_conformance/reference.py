"""The reference provider: a memory in a list of commits, so plain that it is obviously right.

It is the oracle that other providers are compared with, and the first that passes the suite. It keeps
every commit and answers each question by looking at all of it; nothing is indexed, nothing is clever.
What survives `close` belongs to the `World`'s folder and lasts as long as the process, so that reopening
and a second opener can be tried on it. Each verb works in a thread and leaves the event loop alone.
"""

from __future__ import annotations

import threading
from asyncio import to_thread
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rawthink_conformance.brute import Everything, facts
from rawthink_core import searching
from rawthink_core.clock import iso
from rawthink_core.commits import Commit, digest, receipt_of
from rawthink_core.errors import BackendUnavailable, BatchIdReused, InvalidRequest, NotFound
from rawthink_core.graph import Rules, Slice, needs, plan, prepare
from rawthink_core.identity import canonical_id
from rawthink_core.model import Entity, Item, Observation, Passage, Relation, zone_named
from rawthink_core.operations import (
    Check,
    ForgetReceipt,
    GraphPage,
    Health,
    History,
    Items,
    MaintainReceipt,
    Place,
    RestoreReceipt,
    ScanPage,
)
from rawthink_core.provider import BaseProvider, Capability, ProviderInfo
from rawthink_core.rows import Stamped, State, ends_of, fold, noun
from rawthink_core.selection import selection, utc
from rawthink_core.text import identity_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
    from datetime import date

    from rawthink_core.graph import Facts, Needs
    from rawthink_core.operations import (
        Batch,
        Export,
        Forget,
        Get,
        GraphQuery,
        HistoryQuery,
        Maintain,
        RecordReceipt,
        Scan,
        Scope,
        SearchPage,
        SearchQuery,
    )
    from rawthink_core.provider import World
    from rawthink_core.rows import Row

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
    Capability.DURABLE: "process crash",
}


class Shelf:
    """What one store holds: its zone, commits in order, and the day on which items were last read."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self.lock = threading.Lock()
        self.commits: list[Commit] = []
        self.used: dict[str, date] = {}


_SHELVES: dict[str, Shelf] = {}


class ReferenceProvider(BaseProvider):
    """All of the contract, in memory."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clock = world.clock
        self._opened: Shelf | None = None
        self._settle(world.timezone or "UTC")

    def _settle(self, zone: str) -> None:
        self._zone = zone_named(zone)
        self._rules = Rules(self._world.vocabulary, self._zone)
        self.info = ProviderInfo(
            name="reference",
            version="1",
            capabilities=CAPABILITIES,
            location=f"memory of this process ({self._world.path})",
            timezone=zone,
        )

    async def open(self) -> None:
        """Take up what this process keeps for the folder; the folder is made where there is none."""
        self._opened = self._shelf_of(self._world.path)
        self._settle(self._opened.zone)

    def _shelf_of(self, path: Path) -> Shelf:
        for known in [known for known in _SHELVES if not Path(known).is_dir()]:
            del _SHELVES[known]  # its folder is gone, and so is the store
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BackendUnavailable(
                f"{path} can't be made a folder: {error.strerror}. Choose another path"
            ) from error
        return _SHELVES.setdefault(str(path), Shelf(str(self._zone)))

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

    # --- writing --------------------------------------------------------------------------------

    async def record(self, batch: Batch) -> RecordReceipt:
        """Write a batch."""
        return await to_thread(self._record, batch)

    def _record(self, batch: Batch) -> RecordReceipt:
        with self._shelf.lock:
            if (known := self._committed(batch)) is not None:
                if known.request != digest(batch):
                    raise BatchIdReused(f"batch id {batch.id!r} was used for other content; use a new id")
                return receipt_of(known)
            at = self._next_instant()
            rows = self._plan(batch, at)
            commit = Commit(batch.id, iso(at), batch.scope.space, rows, _by(batch), digest(batch))
            self._keep(commit)
            return receipt_of(commit)

    def _committed(self, batch: Batch) -> Commit | None:
        for commit in self._shelf.commits:
            if commit.space == batch.scope.space and commit.id == batch.id:
                return commit
        return None

    def _plan(self, batch: Batch, at: datetime) -> tuple[Row, ...]:
        states = self._states(batch.scope.space)
        work, known = prepare(batch, self._rules), Slice()
        while wanted := needs(work, known, at):
            known.learn(self._facts(wanted, states))
        return plan(work, known, at)

    def _facts(self, wanted: Needs, states: Mapping[str, State]) -> Facts:
        return facts(wanted, states)

    def _keep(self, commit: Commit) -> None:
        self._shelf.commits.append(commit)

    def _next_instant(self) -> datetime:
        last = max((commit.at for commit in self._shelf.commits), default="")
        now = self._clock.now()
        return now if iso(now) > last else datetime.fromisoformat(last) + timedelta(microseconds=1)

    async def restore(self, scope: Scope, commits: Sequence[Commit]) -> RestoreReceipt:
        """Add commits as they are."""
        return await to_thread(self._restore, scope, commits)

    def _restore(self, scope: Scope, commits: Sequence[Commit]) -> RestoreReceipt:
        with self._shelf.lock:
            if any(commit.space != scope.space for commit in commits):
                raise InvalidRequest("a commit of another space can't be restored into this one")
            known = {commit.id for commit in self._shelf.commits if commit.space == scope.space}
            fresh = [commit for commit in commits if commit.id not in known]
            self._shelf.commits = sorted([*self._shelf.commits, *fresh], key=lambda c: (c.at, c.id))
            return RestoreReceipt(restored=len(fresh), skipped=len(commits) - len(fresh))

    async def forget(self, request: Forget) -> ForgetReceipt:
        """Erase items: their rows go, and a mark stays so that their ids are never used again."""
        return await to_thread(self._forget, request)

    def _forget(self, request: Forget) -> ForgetReceipt:
        with self._shelf.lock:
            space = request.scope.space
            states = self._standing(space)
            chosen, missing = self._to_forget(request, states)
            if chosen:
                self._erase(space, {item: states[item] for item in chosen})
            places = (Place(place="memory", outcome="erased"),)
            return ForgetReceipt(ids=tuple(sorted(chosen)), missing=missing, places=places)

    def _erase(self, space: str, chosen: Mapping[str, State]) -> None:
        at = self._next_instant()
        self._shelf.commits = [_without(commit, space, chosen) for commit in self._shelf.commits]
        marks = tuple({"op": "forgotten", "of": chosen[i].kind, "id": i} for i in sorted(chosen))
        self._shelf.commits.append(Commit(self._world.ids.new(), iso(at), space, marks))
        for item in chosen:
            self._shelf.used.pop(item, None)

    def _to_forget(self, request: Forget, states: dict[str, State]) -> tuple[set[str], tuple[str, ...]]:
        if request.everything:
            return set(states), ()
        wanted = {canonical_id(item) for item in request.ids}
        chosen = wanted & states.keys()
        missing = sorted(wanted - chosen)
        for name in request.names:
            state = self._named(request.scope.space, name)
            if state is None:
                missing.append(name)
            else:
                chosen.add(state.id)
        for session in request.sessions:
            inside = {i for i, s in states.items() if s.row.get("session") == session}
            missing += [] if inside else [session]
            chosen |= inside
        chosen |= {i for i, s in states.items() if any(end in chosen for end in ends_of(s))}
        return chosen, tuple(missing)

    # --- reading --------------------------------------------------------------------------------

    async def get(self, request: Get) -> Items:
        """Look items up by id and entities by name."""
        return await to_thread(self._get, request.in_zone(self._zone))

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
        return await to_thread(self._scan, request.in_zone(self._zone))

    def _scan(self, request: Scan) -> ScanPage:
        chosen = selection(request, ("entity", "observation", "relation", "passage"))
        states = self._standing(request.scope.space, chosen.as_of)
        passing = [s for s in states.values() if chosen.passes(s, searching.owner_of(s, states))]
        passing.sort(key=lambda s: (s.recorded_at, s.id))
        if request.cursor is not None:
            passing = [s for s in passing if f"{s.recorded_at}|{s.id}" > request.cursor]
        page, rest = passing[: request.limit], passing[request.limit :]
        cursor = f"{page[-1].recorded_at}|{page[-1].id}" if rest else None
        return ScanPage(items=tuple(self._nouns(page, states)), cursor=cursor)

    async def graph(self, query: GraphQuery) -> GraphPage:
        """Walk the relations from some entities."""
        return await to_thread(self._graph, query.in_zone(self._zone))

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
        said = [s for s in states.values() if s.kind == "observation" and s.row["entity"] in roots]
        said = sorted((s for s in said if s.status in query.statuses), key=lambda s: s.told)
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
            related = [states[i] for i in _chain(state.id, states)]
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
        return await to_thread(self._search, query.in_zone(self._zone))

    def _search(self, query: SearchQuery) -> SearchPage:
        return searching.answer(query, self._retrieval(query.scope.space), self._clock.now())

    def _retrieval(self, space: str) -> Everything:
        return Everything(lambda as_of: self._standing(space, as_of), self._shelf.used)

    # --- upkeep ---------------------------------------------------------------------------------

    async def export(self, request: Export) -> AsyncIterator[Commit]:
        """Yield every commit of the space."""
        for commit in sorted(self._shelf.commits, key=lambda c: (c.at, c.id)):
            if commit.space == request.scope.space:
                yield commit

    async def maintain(self, request: Maintain) -> MaintainReceipt:  # noqa: ARG002 - nothing to keep up
        """Do nothing: a list needs no upkeep."""
        return MaintainReceipt()

    async def health(self) -> Health:
        """Report the number of commits, or why the store can't be opened."""
        path = self._world.path
        if any(place.is_file() for place in (path, *path.parents)):
            broken = Check(
                name="store", status="fail", detail=f"{path} is no folder", fix="choose another path"
            )
            return Health(status="down", location=self.info.location, checks=(broken,))
        shelf = self._opened or _SHELVES.get(str(path))
        held = Check(
            name="store", status="ok", detail=f"{len(shelf.commits) if shelf else 0} commits in memory"
        )
        return Health(status="ok", location=self.info.location, checks=(held,))


def _by(batch: Batch) -> dict[str, Any] | None:
    given = batch.provenance
    return None if given is None else given.model_dump(mode="json", exclude_none=True, warnings=False)


def _chain(start: str, states: Mapping[str, State]) -> set[str]:
    """Return everything that an item replaced or was replaced by, however far back or forth."""
    chain, size = {start}, 0
    while len(chain) != size:
        size = len(chain)
        for other in states.values():
            links = {*other.supersedes, *([other.superseded_by] if other.superseded_by else [])}
            if other.id in chain:
                chain |= {link for link in links if link in states}
            elif links & chain:
                chain.add(other.id)
    return chain


def _without(commit: Commit, space: str, erased: Collection[str]) -> Commit:
    if commit.space != space:
        return commit
    rows = tuple(row for row in commit.rows if row["id"] not in erased or row["op"] == "forgotten")
    return Commit(commit.id, commit.at, commit.space, rows, commit.by, commit.request)
