"""How a search is answered, whatever engine retrieves: lists in, a page of hits out.

A provider supplies a `Retrieval` over its store, embeds the question (`asking.ask`) and calls `answer` in a
worker thread. Fusion, neighbours, decay, ties, grouping and the relevance floor happen here, once, for every
provider. Cost: two retrievals and the states of what is shown, or of about ``depth`` items where more must be
known; nothing grows with the store but what the engine itself does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rawthink_core.asking import Asked, ask
from rawthink_core.finding import NEVER, Found, Search
from rawthink_core.frame import MAX_LIMIT
from rawthink_core.hits import Reasons, hit_of
from rawthink_core.operations import SearchPage, SearchQuery
from rawthink_core.ranking import SPEAKER, Fusion, Ranked, depth_for, grouped
from rawthink_core.retrieval import Retrieval, Retrieved, Seat
from rawthink_core.selection import owner_of, selection, text_of
from rawthink_core.text import content_tokens, query_vector, subject_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rawthink_core.rows import State

__all__ = ["Asked", "Retrieval", "Retrieved", "Seat", "answer", "ask", "owner_of", "text_of"]

MAX_DEPTH = 6_400


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
    near enough in meaning; it is None where a list is full, so that there may be more, and for groups where
    enough of them were found before all was looked at.
    """
    terms = query_vector(query.text)
    if not terms[0] and asked is None:
        return SearchPage(degraded=degraded)
    words = content_tokens(query.text)
    subject = subject_tokens(query.text) if query.unasked else words
    floor = NEVER if asked is None else asked.floor
    search = Search(query, selection(query), store, terms, now, asked, fusion, words, subject, floor)
    if query.group is not None:
        return _by_entity(search, degraded)
    found = search.find(depth_for(query.limit), query.limit + 1)
    return _page(search, found, [[item] for item in found.ranked], degraded)


def _by_entity(search: Search, degraded: str | None) -> SearchPage:
    """Group hits by entity: the best two a group where these are of enough entities, else all that there are.

    To look at what else each entity has would cost more than all the rest. Lists that are full, and hold too
    few entities, are asked for twice as deep.
    """
    limit = search.query.limit
    few = min(2 * limit, MAX_LIMIT)
    depth = depth_for(few)
    found = search.find(depth, few + 1)
    groups, whole = _groups(found, few), found.complete and len(found.ranked) <= few
    if not whole and len(groups) < limit:
        search.order(found, 2 * depth)  # two lists hold no more
        while len(groups := _groups(found)) < limit and not found.complete and depth < MAX_DEPTH:
            depth *= 2
            found = search.find(depth, 2 * depth)
        whole = found.complete
    found.total, found.complete = len(groups) if whole else None, whole
    return _page(search, found, groups, degraded)


def _groups(found: Found, most: int | None = None) -> list[list[Ranked]]:
    """Return the best hits, or all of them, by their entities."""
    ranked = found.ranked[:most]
    return grouped(ranked, partial(_entity_of, found.states), len(ranked))


def _entity_of(states: Mapping[str, State], item: str) -> str | None:
    state = states[item]
    return state.id if state.kind == "entity" else state.row.get("entity")


def _page(search: Search, found: Found, groups: list[list[Ranked]], degraded: str | None) -> SearchPage:
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
