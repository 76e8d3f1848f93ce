"""How a search is answered, whatever engine retrieves: lists in, a page of hits out.

A provider supplies a `Retrieval` over its store, embeds the question (`asking.ask`) and calls `answer` in a
worker thread. Fusion, neighbours, decay, ties, grouping and the relevance floor happen here, once, for every
provider. Cost: two retrievals and the states of about ``depth`` items; nothing grows with the store but what
the engine itself does.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from rawthink_core.asking import Asked, ask
from rawthink_core.hits import Reasons, hit_of
from rawthink_core.operations import SearchPage, SearchQuery
from rawthink_core.ranking import (
    SPEAKER,
    Candidate,
    Fusion,
    Place,
    Ranked,
    dense_share,
    depth_for,
    favour,
    fuse,
    grouped,
    order,
    scale_of,
    spread,
)
from rawthink_core.retrieval import Retrieval, Retrieved, Seat, seats_of
from rawthink_core.selection import Selection, owner_of, selection, text_of
from rawthink_core.text import content_tokens, document_vector, query_vector, text_tokens

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rawthink_core.rows import State

__all__ = ["Asked", "Retrieval", "Retrieved", "Seat", "answer", "ask", "owner_of", "text_of"]

MAX_DEPTH = 6_400
_TIE = 1e-6
_NEVER = 2.0  # no cosine is as high
_READ = 1 << 14  # characters of the best hit that are compared with the question
_NOBODY = frozenset({"user", "用户"})  # what speakers are called whose name is not known


_NONE = Retrieved((), {})


@dataclass(slots=True)
class _Found:
    lexical: Retrieved
    dense: Retrieved
    near: dict[str, float]  # similarities
    base: dict[str, float] = field(default_factory=dict)  # after fusion
    scores: dict[str, float] = field(default_factory=dict)  # after neighbours and speakers
    beside: dict[tuple[str, int], float] = field(
        default_factory=dict
    )  # the same, of places where nothing was retrieved
    speakers: set[str] = field(default_factory=set)  # whom the question names
    named: set[str] = field(default_factory=set)  # the items in which they speak
    scale: float = 1.0
    states: dict[str, State] = field(default_factory=dict)
    ranked: list[Ranked] = field(default_factory=list)
    total: int | None = None
    complete: bool = False


def answer(
    query: SearchQuery,
    store: Retrieval,
    now: datetime,
    degraded: str | None = None,
    asked: Asked | None = None,
    fusion: Fusion = "minmax",
) -> SearchPage:
    """Answer ``query`` (already ``canonical``) by its words, and by its meaning where that was ``asked``.

    ``degraded`` says what could not be asked, if anything. ``total`` counts what has a matched term or is
    near enough in meaning; it is None where a list is full, so that there may be more.
    """
    terms = query_vector(query.text)
    if not terms[0] and asked is None:
        return SearchPage(degraded=degraded)
    words = content_tokens(query.text)
    floor = _NEVER if asked is None else asked.floor
    search = _Search(query, selection(query), store, terms, now, asked, fusion, words, floor)
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
    asked: Asked | None
    fusion: Fusion
    words: frozenset[str]  # what the question is about
    floor: float  # the similarity from which on a hit counts that shares no word with it

    def find(self, depth: int) -> _Found:
        """Retrieve, fuse, let neighbours support each other, and order what can be in the answer."""
        asked, chosen, query = self.asked, self.chosen, self.query
        lexical = self.store.lexical(self.terms, chosen, depth) if self.terms[0] else _NONE
        dense = self.store.dense(asked.vector, chosen, depth) if asked is not None else _NONE
        found = _Found(lexical, dense, dict(dense.items))
        base = self._fused(found, depth)
        early = self._early(found, base)
        found.states.update(self.store.states(early, chosen.as_of))
        found.base = {i: s for i, s in base.items() if i not in early or self._passes(found, i)}
        self._support(found, depth)
        if query.relevant_only:
            found.scores = {i: s for i, s in found.scores.items() if i in found.base and self._told(found, i)}
        hidden = len(dense.items) >= depth and dense.items[-1][1] >= self.floor
        found.complete = len(lexical.items) < depth and not hidden
        if found.complete:
            found.total = len(found.scores if query.relevant_only else found.base)
        found.ranked = self._order(found)
        return found

    def _fused(self, found: _Found, depth: int) -> dict[str, float]:
        """Return one score for what has a matched term or is near enough."""
        asked, words, near = self.asked, dict(found.lexical.items), found.near
        if asked is None:
            return fuse(found.lexical.items, depth=depth, method=self.fusion)
        fused = fuse(
            found.lexical.items,
            found.dense.items,
            dense_weight=self._share(found, asked.weight),
            depth=depth,
            method=self.fusion,
            nothing=self.floor,
        )
        # scaled with the whole list: among the near alone, the least near would be worth nothing
        return {i: s for i, s in fused.items() if i in words or near[i] >= self.floor}

    def _share(self, found: _Found, weight: float) -> float:
        """Return the share of the dense list: more where the best hit by words has little of it."""
        if not found.lexical.items or not found.dense.items:
            return weight
        best = found.lexical.items[0][0]
        state = self.store.states([best], self.chosen.as_of).get(best)
        text = "" if state is None else text_of(state)
        if not 0 < len(text) <= _READ:
            return weight
        return dense_share(weight, len(self.words & text_tokens(text)), len(self.words))

    def _early(self, found: _Found, base: dict[str, float]) -> Collection[str]:
        """Return the items whose state matters though they may not reach the answer: all or none."""
        query, chosen = self.query, self.chosen
        # no index knows when a field had which value
        past = chosen.as_of is not None and (chosen.needs_entity or "entity" in chosen.items)
        blind = found.lexical.seats is None or found.dense.seats is None
        return base.keys() if blind or query.relevant_only or query.group is not None or past else ()

    def _support(self, found: _Found, depth: int) -> None:
        """Let turns of one session support each other, and favour those of a speaker who is named."""
        seats = seats_of(found.base, found.states, found.dense, found.lexical)
        # only the best lend, so two lists lend no more than one
        lenders = heapq.nlargest(depth, seats, key=found.base.__getitem__) if len(seats) > depth else seats
        places = {item: seats[item].place for item in lenders}
        called = {seat.place: item for item, seat in seats.items()}
        beside: dict[tuple[str, int], float] = {}
        found.scores = spread(found.base, places, called, beside)
        who = {seat.speaker for seat in seats.values() if seat.speaker is not None}
        found.speakers = {one for one in who - _NOBODY if (said := _name(one)) and said <= self.words}
        found.named = {item for item, seat in seats.items() if seat.speaker in found.speakers}
        if found.named:
            found.scores = favour(found.scores, found.named)
        if not self.query.relevant_only and self.query.group is None:  # both are about what was retrieved
            found.beside = beside

    def _order(self, found: _Found) -> list[Ranked]:
        """Return the best items in order; ``states`` grows by those that had to be looked at.

        Decay only lowers a score, so once enough items are known that none of the rest can overtake, the
        rest need not be looked at. Most places around a hit are never looked at.
        """
        scores, states = found.scores, found.states
        enough = self.query.limit + 1
        more = SPEAKER if found.speakers else 0.0  # who speaks at a place is not known yet
        rest: list[tuple[float, str | tuple[str, int]]] = [(scores[i], i) for i in scores if i not in states]
        rest += [(score + more, place) for place, score in found.beside.items()]
        rest.sort(key=lambda pair: -pair[0])
        ranked = self._rank([i for i in scores if i in states], scores, states)
        while rest:
            few = enough + 4
            if len(ranked) >= enough:
                bar = ranked[enough - 1].score - _TIE
                few = bisect_right(rest, -bar, key=lambda pair: -pair[0])  # all that could still overtake
            some, rest = rest[:few], rest[few:]
            if not some:
                break
            known = {item.id for item in ranked} | self._look(found, [key for _, key in some])
            ranked = self._rank(known, scores, states)
        found.scale = scale_of(scores[item.id] for item in ranked)
        return [Ranked(item.id, min(1.0, item.score * found.scale), item.decay) for item in ranked]

    def _look(self, found: _Found, keys: Sequence[str | tuple[str, int]]) -> set[str]:
        """Look at items and at what stands at places; return those that pass."""
        ids = [key for key in keys if isinstance(key, str)]
        found.states.update(self.store.states(ids, self.chosen.as_of))
        passed = {item for item in ids if self._passes(found, item)}
        places = [Place(*key) for key in keys if not isinstance(key, str)]
        for place, state in self.store.passages_at(places, self.chosen.as_of).items() if places else ():
            if not self.chosen.passes(state, None):
                continue
            speaks = state.row.get("speaker") in found.speakers
            found.states[state.id] = state
            found.scores[state.id] = found.beside[place] + (SPEAKER if speaks else 0.0)
            if speaks:
                found.named.add(state.id)
            passed.add(state.id)
        return passed

    def _rank(self, ids: Collection[str], scores: dict[str, float], states: dict[str, State]) -> list[Ranked]:
        used = self.store.last_used(ids) if self.chosen.as_of is None else {}
        ageless, today = self.chosen.as_of is not None, self.now.astimezone(UTC).date()
        return order(
            scores, [_candidate(states[item], states, used, None if ageless else today) for item in ids]
        )

    def _told(self, found: _Found, item: str) -> bool:
        """Tell whether a chat is told of an item unasked: it is near, or shares a word with a meaning."""
        if found.near.get(item, -_NEVER) >= self.floor:
            return True
        return not self.words.isdisjoint(text_tokens(text_of(found.states[item])))

    def _passes(self, found: _Found, item: str) -> bool:
        state = found.states.get(item)
        if state is None or not self.chosen.passes(state, owner_of(state, found.states)):
            return False
        return self.chosen.as_of is None or state.kind != "entity" or self._was_called(found, state)

    def _was_called(self, found: _Found, entity: State) -> bool:
        """Tell whether an entity is found by names that it had by then: an index holds later ones too.

        Its vector is that of all its names, so it speaks for then only where none was added since.
        """
        if not set(self.terms[0]).isdisjoint(document_vector(text_of(entity))[0]):
            return True
        if found.near.get(entity.id, -_NEVER) < self.floor:
            return False
        today = self.store.states([entity.id], None).get(entity.id)
        return today is not None and set(today.names()) == set(entity.names())


@lru_cache(maxsize=1 << 10)
def _name(speaker: str) -> frozenset[str]:
    return content_tokens(speaker)


def _candidate(
    state: State, states: Mapping[str, State], used: Mapping[str, date], today: date | None
) -> Candidate:
    owner = owner_of(state, states)
    if today is None or (owner is not None and owner.value("pinned")):
        return Candidate(state.id, state.recorded_at)
    written = date.fromisoformat(state.recorded_at[:10])  # times in states are in UTC
    last = max(written, used.get(state.id, written))
    return Candidate(state.id, state.recorded_at, max((today - last).days, 0))


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
    reasons = Reasons(found.lexical.items, found.dense.items) if query.why else None
    hits = []
    for item in shown:
        state = states[item.id]
        why = None
        if reasons is not None:
            why = reasons.of(
                item.id,
                fused=found.base.get(item.id, 0.0),
                speaker=SPEAKER * found.scale if item.id in found.named else 0.0,
                total=found.scores[item.id] * found.scale,
                decay=item.decay,
            )
        owner, heir = owner_of(state, states), states.get(state.superseded_by or "")
        hits.append(hit_of(state, owner, heir, score=item.score, now=search.now, why=why))
    return SearchPage(
        items=tuple(hits),
        total=None if found.total is None else max(found.total, len(groups)),
        truncated=len(groups) > query.limit or not found.complete,
        degraded=degraded,
    )
