"""What a search finds: two lists from an engine, fused and ordered, and no more states looked at than needed.

`Search.find` retrieves, fuses, lets neighbours support each other, and orders as many hits as are asked for;
`Search.order` goes on to more of the same lists. What becomes of them is `searching`'s.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from rawthink_core.ranking import (
    SPEAKER,
    Candidate,
    Fusion,
    Place,
    Ranked,
    dense_share,
    favour,
    fuse,
    order,
    scale_of,
    spread,
)
from rawthink_core.retrieval import Retrieval, Retrieved, Terms, seats_of
from rawthink_core.selection import Selection, owner_of, text_of
from rawthink_core.text import content_tokens, document_vector, text_tokens

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rawthink_core.asking import Asked
    from rawthink_core.operations import SearchQuery
    from rawthink_core.rows import State

NEVER = 2.0  # no cosine is as high
_TIE = 1e-6
_READ = 1 << 14  # characters of the best hit that are compared with the question
_FEW_WORDS = 2  # that a message is about, of which one is enough
_COMMON = 16  # hits with a word from which on it tells none of them from the others
_SURELY = 0.25  # of the way from the floor to 1: from there on the nearest of many is near by no chance
_FAR = 0.13  # as much below the floor: what is less near has nothing to do with the question
_NOBODY = frozenset({"user", "用户"})  # what speakers are called whose name is not known


@dataclass(slots=True)
class Found:
    """What was retrieved, and what became of it. ``ranked`` holds the best; `Search.order` looks at more.

    ``complete`` says that the lists hold all that there is, ``total`` how much that is, where it is known.
    """

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
    looked: set[str] = field(default_factory=set)  # the items whose state was looked at
    passed: set[str] = field(default_factory=set)  # those of them that may be in the answer
    ranked: list[Ranked] = field(default_factory=list)
    total: int | None = None
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """One question, and the store that it is asked of."""

    query: SearchQuery
    chosen: Selection
    store: Retrieval
    terms: Terms
    now: datetime
    asked: Asked | None
    fusion: Fusion
    words: frozenset[str]  # what the question is about
    subject: frozenset[str]  # of these, what an item must share for a chat to be told of it
    floor: float  # the similarity from which on a hit counts that shares no word with it

    def find(self, depth: int, enough: int) -> Found:
        """Retrieve, fuse, let neighbours support each other, and order as many hits as are enough."""
        asked, chosen, query = self.asked, self.chosen, self.query
        vector = None if asked is None else asked.vector
        lexical, dense = self.store.retrieve(self.terms, vector, chosen, depth)
        found = Found(lexical, dense, dict(dense.items))
        base = self._fused(found, depth)
        early = self._early(found, base)
        found.states.update(self.store.states(early, chosen.as_of))
        found.looked, found.passed = set(early), {item for item in early if self._passes(found, item)}
        found.base = {i: s for i, s in base.items() if i not in found.looked or i in found.passed}
        self._support(found, depth)
        if query.relevant_only:
            told = self._told(found, depth)
            found.scores = {i: s for i, s in found.scores.items() if i in told}
            found.passed &= found.scores.keys()
        hidden = len(dense.items) >= depth and dense.items[-1][1] >= self.floor
        found.complete = len(lexical.items) < depth and not hidden
        if found.complete:
            found.total = len(found.scores if query.relevant_only else found.base)
        self.order(found, enough)
        return found

    def _fused(self, found: Found, depth: int) -> dict[str, float]:
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

    def _share(self, found: Found, weight: float) -> float:
        """Return the share of the dense list: more where the best hit by words has little of it."""
        if not found.lexical.items or not found.dense.items:
            return weight
        best = found.lexical.items[0][0]
        state = self.store.states([best], self.chosen.as_of).get(best)
        text = "" if state is None else text_of(state)
        if not 0 < len(text) <= _READ:
            return weight
        return dense_share(weight, len(self.words & text_tokens(text)), len(self.words))

    def _early(self, found: Found, base: dict[str, float]) -> Collection[str]:
        """Return the items whose state matters though they may not reach the answer: all or none."""
        query, chosen = self.query, self.chosen
        # no index knows when a field had which value
        past = chosen.as_of is not None and (chosen.needs_entity or "entity" in chosen.items)
        blind = found.lexical.seats is None or found.dense.seats is None
        return base.keys() if blind or query.relevant_only or past else ()

    def _support(self, found: Found, depth: int) -> None:
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

    def order(self, found: Found, enough: int) -> None:
        """Put the best hits in order: as many as are enough, or all that there are. May be called for more.

        Decay only lowers a score, so once enough items are known that none of the rest can overtake, the
        rest need not be looked at. Most places around a hit are never looked at.
        """
        scores = found.scores
        more = SPEAKER if found.speakers else 0.0  # who speaks at a place is not known yet
        rest: list[tuple[float, str | tuple[str, int]]]
        rest = [(scores[i], i) for i in scores if i not in found.looked]
        rest += [(score + more, place) for place, score in found.beside.items()]
        rest.sort(key=lambda pair: -pair[0])
        ranked = self._rank(found)
        while rest:
            few = enough + 4
            if len(ranked) >= enough:
                bar = ranked[enough - 1].score - _TIE
                few = bisect_right(rest, -bar, key=lambda pair: -pair[0])  # all that could still overtake
            some, rest = rest[:few], rest[few:]
            if not some:
                break
            self._look(found, [key for _, key in some])
            ranked = self._rank(found)
        found.scale = scale_of(scores[item.id] for item in ranked)
        found.ranked = [Ranked(item.id, min(1.0, item.score * found.scale), item.decay) for item in ranked]

    def _look(self, found: Found, keys: Sequence[str | tuple[str, int]]) -> None:
        """Look at items and at what stands at places, and take those that pass."""
        ids = [key for key in keys if isinstance(key, str)]
        found.states.update(self.store.states(ids, self.chosen.as_of))
        found.looked.update(ids)
        found.passed.update(item for item in ids if self._passes(found, item))
        places = [Place(*key) for key in keys if not isinstance(key, str)]
        for place, state in self.store.passages_at(places, self.chosen.as_of).items() if places else ():
            score = found.beside.pop(place)
            if not self.chosen.passes(state, None):
                continue
            speaks = state.row.get("speaker") in found.speakers
            found.states[state.id] = state
            found.scores[state.id] = score + (SPEAKER if speaks else 0.0)
            if speaks:
                found.named.add(state.id)
            found.looked.add(state.id)
            found.passed.add(state.id)

    def _rank(self, found: Found) -> list[Ranked]:
        """Return what has passed so far, in order."""
        states = found.states
        used = self.store.last_used(found.passed) if self.chosen.as_of is None else {}
        today = None if self.chosen.as_of is not None else self.now.astimezone(UTC).date()
        return order(found.scores, [_candidate(states[item], states, used, today) for item in found.passed])

    def _told(self, found: Found, depth: int) -> set[str]:
        """Return the items that are to the point: near, or sharing a word with a meaning.

        Where nobody asked the memory, it takes more. A word that many items have is not enough by itself,
        unless it is half of what there is to find, and a lone word of an item that is far isn't either.
        Nor is the floor, which one of twenty pairs passes by chance, and there are thousands. (Measured with
        the offline model by ``bench/chat_recall.py``: 36 % of unrelated messages got a block without this.)
        """
        shared = {i: self.subject & text_tokens(text_of(found.states[i])) for i in found.base}
        often = Counter(word for words in shared.values() for word in words)
        lone = len(self.subject) <= _FEW_WORDS or not self.query.unasked
        near, far = self.floor, -NEVER
        if self.query.unasked and self.floor < 1.0:  # else nobody knows what is near
            near, far = (self.floor + share * (1.0 - self.floor) for share in (_SURELY, -_FAR))
        told = {i for i in shared if found.near.get(i, -NEVER) >= near}
        # what a full list does not hold is no nearer than its last, or waits for its vector: nobody can tell
        full = len(found.dense.items) >= depth
        unknown = found.dense.items[-1][1] if full else NEVER
        for item, words in shared.items():
            tells = lone or often[next(iter(words), "")] <= _COMMON
            if len(words) > 1 or (words and tells and found.near.get(item, unknown) >= far):
                told.add(item)
        return told

    def _passes(self, found: Found, item: str) -> bool:
        state = found.states.get(item)
        if state is None or not self.chosen.passes(state, owner_of(state, found.states)):
            return False
        return self.chosen.as_of is None or state.kind != "entity" or self._was_called(found, state)

    def _was_called(self, found: Found, entity: State) -> bool:
        """Tell whether an entity is found by names that it had by then: an index holds later ones too.

        Its vector is that of all its names, so it speaks for then only where none was added since.
        """
        if not set(self.terms[0]).isdisjoint(document_vector(text_of(entity))[0]):
            return True
        if found.near.get(entity.id, -NEVER) < self.floor:
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
