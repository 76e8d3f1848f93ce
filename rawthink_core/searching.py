"""How a search is answered, whatever engine retrieves: lists in, a page of hits out.

A provider supplies a `Retrieval` over its store and calls `answer` in a worker thread. Fusion,
neighbours, decay, ties, grouping and the relevance floor happen here, once, for every provider.
Cost: two retrievals and the states of about ``depth`` items; nothing grows with the store but what
the engine itself does.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from rawthink_core.clock import iso
from rawthink_core.model import Hit, Why
from rawthink_core.operations import SearchPage, SearchQuery
from rawthink_core.ranking import REACH, Candidate, Place, Ranked, depth_for, fuse, grouped, order, spread
from rawthink_core.selection import Selection, selection
from rawthink_core.text import content_tokens, document_vector, query_vector, text_tokens

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rawthink_core.rows import State

MAX_DEPTH = 6_400
_TIE = 1e-6


class Retrieved(NamedTuple):
    """One list of (id, raw score), best first, of at most the depth asked for.

    ``passages`` are those of them that are passages; None says that the engine can't tell, and makes every
    state be looked at.
    """

    items: Sequence[tuple[str, float]]
    passages: frozenset[str] | None = None


class Retrieval(Protocol):
    """What `answer` asks of a store. Every method sees one space only and applies filters before top-k."""

    def lexical(self, terms: tuple[list[int], list[float]], chosen: Selection, depth: int) -> Retrieved:
        """Return the best items by BM25 over core's terms, with statistics of this space alone."""
        ...

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        """Return the states of items by id, and of the entities that they belong to."""
        ...

    def passages_at(self, places: Collection[Place], as_of: str | None) -> Mapping[Place, State]:
        """Return the passages at these places of sessions, where there are any."""
        ...

    def last_used(self, ids: Collection[str]) -> Mapping[str, date]:
        """Return the day on which items were last read, where that is known."""
        ...


@dataclass(slots=True)
class _Found:
    scores: dict[str, float]
    ranks: dict[str, int]
    base: dict[str, float]
    states: dict[str, State]
    ranked: list[Ranked]
    total: int | None
    complete: bool


def answer(query: SearchQuery, store: Retrieval, now: datetime, degraded: str | None = None) -> SearchPage:
    """Answer ``query`` (already ``in_zone``). ``degraded`` says what could not be asked, if anything."""
    terms = query_vector(query.text)
    if not terms[0]:
        return SearchPage(degraded=degraded)
    search = _Search(query, selection(query), store, terms, now)
    depth = depth_for(query.limit)
    found = search.find(depth)
    if query.group is None:
        return _page(search, found, [[item] for item in found.ranked], degraded)
    while True:
        groups = grouped(found.ranked, partial(_entity_of, found.states), query.limit + 1)
        if found.complete or len(groups) > query.limit or depth >= MAX_DEPTH:
            every = {_entity_of(found.states, item.id) for item in found.ranked} - {None}
            found.total = len(every) if found.complete else None
            return _page(search, found, groups, degraded)
        depth *= 2
        found = search.find(depth)


@dataclass(frozen=True, slots=True)
class _Search:
    query: SearchQuery
    chosen: Selection
    store: Retrieval
    terms: tuple[list[int], list[float]]
    now: datetime

    def find(self, depth: int) -> _Found:
        """Retrieve, fuse, let neighbours support each other, and order what can be in the answer."""
        chosen = self.chosen
        lexical = self.store.lexical(self.terms, chosen, depth)
        base = fuse(lexical.items, depth=depth)
        early = base.keys() if self._needs_all(lexical) else lexical.passages or frozenset()
        states = dict(self.store.states(early, chosen.as_of))
        kept = {i: s for i, s in base.items() if i not in early or self._passes(states, i)}
        scores, states = _with_neighbours(chosen, self.store, kept, states)
        if self.query.relevant_only:
            asked = content_tokens(self.query.text)
            scores = {
                i: s for i, s in scores.items() if i in kept and asked & text_tokens(text_of(states[i]))
            }
        complete = len(lexical.items) < depth
        return _Found(
            scores=scores,
            ranks={item: rank for rank, (item, _) in enumerate(lexical.items, 1)},
            base=kept,
            states=states,
            ranked=self._order(scores, states),
            total=(len(scores) if self.query.relevant_only else len(kept)) if complete else None,
            complete=complete,
        )

    def _needs_all(self, lexical: Retrieved) -> bool:
        """Tell whether the state of every item found matters, not only of those that reach the answer."""
        query, chosen = self.query, self.chosen
        # no index knows when a field had which value
        past = chosen.as_of is not None and (chosen.needs_entity or "entity" in chosen.items)
        return lexical.passages is None or query.relevant_only or query.group is not None or past

    def _order(self, scores: dict[str, float], states: dict[str, State]) -> list[Ranked]:
        """Return the best items in order; ``states`` grows by those that had to be looked at.

        Decay only lowers a score, so once enough items are known that none of the rest can overtake, the
        rest need not be looked at.
        """
        enough = self.query.limit + 1
        waiting = sorted((i for i in scores if i not in states), key=lambda i: (-scores[i], i))
        ranked = self._rank([i for i in scores if i in states], scores, states)
        while waiting:
            few = enough + 4
            if len(ranked) >= enough:
                bar = ranked[enough - 1].score - _TIE
                few = bisect_right(waiting, -bar, key=lambda i: -scores[i])  # all that could still overtake
            some, waiting = waiting[:few], waiting[few:]
            if not some:
                break
            states.update(self.store.states(some, self.chosen.as_of))
            known = {item.id for item in ranked} | {i for i in some if self._passes(states, i)}
            ranked = self._rank(known, scores, states)
        return ranked

    def _rank(self, ids: Collection[str], scores: dict[str, float], states: dict[str, State]) -> list[Ranked]:
        used = self.store.last_used(ids) if self.chosen.as_of is None else {}
        return order(scores, [_candidate(states[item], states, used, self.chosen, self.now) for item in ids])

    def _passes(self, states: Mapping[str, State], item: str) -> bool:
        state = states.get(item)
        if state is None or not self.chosen.passes(state, owner_of(state, states)):
            return False
        return self.chosen.as_of is None or state.kind != "entity" or self._was_called(state)

    def _was_called(self, entity: State) -> bool:
        """Tell whether an entity is found by a name that it had by then: an index holds later ones too."""
        return not set(self.terms[0]).isdisjoint(document_vector(text_of(entity))[0])


def owner_of(state: State, states: Mapping[str, State]) -> State | None:
    """Return the entity that an item belongs to; an entity belongs to itself."""
    return state if state.kind == "entity" else states.get(state.row.get("entity", ""))


def _with_neighbours(
    chosen: Selection, store: Retrieval, scores: dict[str, float], states: dict[str, State]
) -> tuple[dict[str, float], dict[str, State]]:
    places = {
        item: Place(state.row["session"], state.row["ordinal"])
        for item in scores
        if (state := states.get(item)) is not None and state.kind == "passage"
    }
    if not places:
        return scores, states
    around = {
        Place(place.session, place.ordinal + step)
        for place in places.values()
        for step in range(-REACH, REACH + 1)
        if place.ordinal + step >= 0
    }
    standing = {
        place: state
        for place, state in store.passages_at(around, chosen.as_of).items()
        if chosen.passes(state, None)
    }
    states = states | {state.id: state for state in standing.values()}
    return spread(scores, places, {place: state.id for place, state in standing.items()}), states


def _candidate(
    state: State, states: Mapping[str, State], used: Mapping[str, date], chosen: Selection, now: datetime
) -> Candidate:
    owner = owner_of(state, states)
    pinned = owner is not None and bool(owner.value("pinned"))
    if chosen.as_of is not None or pinned:
        return Candidate(state.id, state.recorded_at)
    written = datetime.fromisoformat(state.recorded_at).date()
    last = max(written, used.get(state.id, written))
    return Candidate(state.id, state.recorded_at, max((now.astimezone(UTC).date() - last).days, 0))


def text_of(state: State) -> str:
    """Return the text by which an item is found: an entity's is every name that it answers to."""
    if state.kind == "entity":
        return "\n".join(dict.fromkeys([state.value("name"), *state.value("aliases"), *state.names()]))
    return str(state.row.get("text", ""))


def _entity_of(states: Mapping[str, State], item: str) -> str | None:
    state = states[item]
    return state.id if state.kind == "entity" else state.row.get("entity")


def _page(search: _Search, found: _Found, groups: list[list[Ranked]], degraded: str | None) -> SearchPage:
    query = search.query
    shown = [item for group in groups[: query.limit] for item in group]
    states = found.states
    heirs = {s for item in shown if (s := states[item.id].superseded_by) is not None} - states.keys()
    if heirs:
        states = states | dict(search.store.states(heirs, None))
    return SearchPage(
        items=tuple(_hit(query, found, states, item, search.now) for item in shown),
        total=None if found.total is None else max(found.total, len(groups)),
        truncated=len(groups) > query.limit or not found.complete,
        degraded=degraded,
    )


def _hit(
    query: SearchQuery, found: _Found, states: Mapping[str, State], ranked: Ranked, now: datetime
) -> Hit:
    state = states[ranked.id]
    row, owner = state.row, owner_of(state, states)
    heir = states.get(state.superseded_by or "")
    why = None
    if query.why:
        base = found.base.get(ranked.id, 0.0)
        why = Why(
            lexical_rank=found.ranks.get(ranked.id),
            fused=base,
            neighbours=found.scores[ranked.id] - base,
            decay=ranked.decay,
        )
    return Hit.model_construct(
        item=cast("Any", state.kind),  # relations are not searchable
        id=state.id,
        kind=row.get("kind"),
        text=state.value("name") if state.kind == "entity" else row["text"],
        score=ranked.score,
        entity=owner.id if owner else None,
        entity_name=owner.value("name") if owner else None,
        session=row.get("session"),
        speaker=row.get("speaker"),
        tags=tuple(row.get("tags", ())),
        status=state.status,
        recorded_at=datetime.fromisoformat(state.recorded_at),
        valid_from=_opt(state.valid_from),
        valid_to=_opt(state.valid_to),
        lapsed=state.status == "active" and state.valid_to is not None and state.valid_to <= iso(now),
        superseded_by=state.superseded_by,
        successor=heir.row.get("text") if heir is not None and not heir.forgotten else None,
        reason=state.reason,
        why=why,
    )


def _opt(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
