"""Look-ups of the reference provider by brute force: every question is put to every item of a space."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from rawthink_conformance.meaning import Windows, nearness
from rawthink_core import ranking, searching
from rawthink_core.graph import Facts, Needs
from rawthink_core.retrieval import NOTHING, Retrieved, Terms
from rawthink_core.rows import State, ends_of
from rawthink_core.searching import text_of
from rawthink_core.selection import SEARCHABLE
from rawthink_core.text import document_vector, same_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    from rawthink_core.selection import Selection


def facts(wanted: Needs, states: Mapping[str, State]) -> Facts:
    """Answer the needs of a plan by looking at every state of the space, erased ones too."""
    ordinals: dict[str, int] = {}
    for state in states.values():
        if state.kind == "passage" and not state.forgotten and state.row["session"] in wanted.sessions:
            session = state.row["session"]
            ordinals[session] = max(ordinals.get(session, -1), state.row["ordinal"])
    return Facts(wanted, [state for state in states.values() if _asked_for(wanted, state)], ordinals)


def _asked_for(wanted: Needs, state: State) -> bool:
    row = state.row
    if state.id in wanted.ids:
        return True
    if state.forgotten:
        return False
    match state.kind:
        case "entity":
            return bool(state.identity_keys() & wanted.names)
        case "observation":
            decides = state.active and row["kind"] in ("decided", "because")
            said = (row["entity"], same_text(row["text"])) in wanted.texts
            return said or (decides and row["entity"] in wanted.decisions)
        case "relation":
            return (row["source"], row["type"], row["target"]) in wanted.links
        case "passage":
            filed = state.active and (row.get("origin") or {}).get("path") in wanted.origins
            return filed or (row["session"], row["key"]) in wanted.slots


def chain(start: str, states: Mapping[str, State]) -> set[str]:
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


class Everything:
    """Retrieval by brute force: BM25 of every searchable item of one space (Robertson & Zaragoza 2009).

    ``standing`` gives the states of the space as of a time; ``used`` the days on which items were read;
    ``vectors`` what the windows of items mean.
    """

    def __init__(
        self,
        standing: Callable[[str | None], Mapping[str, State]],
        used: Mapping[str, date],
        vectors: Mapping[str, Windows],
    ) -> None:
        self._standing = standing
        self._used = used
        self._vectors = vectors

    def retrieve(
        self, terms: Terms, vector: Sequence[float] | None, chosen: Selection, depth: int
    ) -> tuple[Retrieved, Retrieved]:
        """Return both lists."""
        words = self.lexical(terms, chosen, depth) if terms[0] else NOTHING
        return words, self.dense(vector, chosen, depth) if vector is not None else NOTHING

    def lexical(self, terms: Terms, chosen: Selection, depth: int) -> Retrieved:
        """Score everything, then take the best."""
        documents = self.documents()
        frequency: defaultdict[int, int] = defaultdict(int)
        for document in documents.values():
            for term in document:
                frequency[term] += 1
        idf = {term: math.log(1 + (len(documents) - n + 0.5) / (n + 0.5)) for term, n in frequency.items()}
        scores = {
            item: sum(w * document[t] * idf[t] for t, w in zip(*terms, strict=True) if t in document)
            for item, document in documents.items()
        }
        return self._best({item: score for item, score in scores.items() if score > 0}, chosen, depth)

    def dense(self, vector: Sequence[float], chosen: Selection, depth: int) -> Retrieved:
        """Compare everything with the question, then take the best."""
        near = {item: nearness(each, vector) for item, each in self._vectors.items()}
        return self._best(near, chosen, depth)

    def _best(self, scores: Mapping[str, float], chosen: Selection, depth: int) -> Retrieved:
        states = self._standing(chosen.as_of)
        passing = [
            (item, score)
            for item, score in scores.items()
            if (state := states.get(item)) is not None
            and chosen.passes(state, searching.owner_of(state, states))
        ]
        return Retrieved(sorted(passing, key=lambda pair: (-pair[1], pair[0]))[:depth])

    def documents(self) -> dict[str, dict[int, float]]:
        """Return the terms of every searchable item, retired ones too, with their weights."""
        return {
            item: dict(zip(*document_vector(text_of(state)), strict=True))
            for item, state in self._standing(None).items()
            if state.kind in SEARCHABLE
        }

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        """Return states and their entities."""
        states = self._standing(as_of)
        wanted = {i for i in ids if i in states}
        wanted |= {end for i in wanted for end in ends_of(states[i]) if end in states}
        return {item: states[item] for item in wanted}

    def passages_at(
        self, places: Collection[ranking.Place], as_of: str | None
    ) -> Mapping[ranking.Place, State]:
        """Return the active passages at these places; where several share one, that with the highest id."""
        passages = [s for s in self._standing(as_of).values() if s.kind == "passage" and s.active]
        passages.sort(key=lambda s: s.id)
        found = {ranking.Place(s.row["session"], s.row["ordinal"]): s for s in passages}
        return {place: found[place] for place in places if place in found}

    def last_used(self, ids: Collection[str]) -> Mapping[str, date]:
        """Return the days of last use."""
        return {item: self._used[item] for item in ids if item in self._used}
