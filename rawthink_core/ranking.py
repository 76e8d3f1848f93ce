"""Ranking as pure functions: fusion of lists, neighbours in a session, decay, ties, grouping.

A provider retrieves; the order of its answer is made here, so that every provider ranks alike::

    share = dense_share(0.4, matched=1, asked=5)       # words that match little count for little
    scores = fuse(lexical, dense, dense_weight=share, depth=100)
    scores = spread(scores, places, neighbours)        # turns of one session support each other
    ranked = order(scores, candidates)                 # decay, ties; best first

Scores are 0..1 and comparable within one answer. Figures behind the constants: ``docs/ranking.md``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

Fusion: TypeAlias = Literal["minmax", "rrf"]

HALF_LIFE_DAYS = 23
DECAY_WEIGHT = 0.1
TO_NEXT = (0.45, 0.25, 0.12)  # what a turn lends to the turns after it, by distance
TO_PREVIOUS = (0.30, 0.15, 0.06)
_SHARES = [
    pair
    for distance, (after, before) in enumerate(zip(TO_NEXT, TO_PREVIOUS, strict=True), 1)
    for pair in ((distance, after), (-distance, before))
]
SPEAKER = 0.1  # what a turn gains when the question names who speaks in it
COVERED = 0.5  # of a question's words, in the best hit by words: then that list has its whole weight
MANY_WORDS = 8  # a question of more is taken to be of so many
RRF_K = 10
_PRECISION = 6


def depth_for(limit: int) -> int:
    """Return how many hits to take from each retriever for an answer of ``limit``."""
    return max(100, 4 * limit)


def min_max(ranked: Sequence[tuple[str, float]], depth: int, nothing: float = 0.0) -> dict[str, float]:
    """Scale the scores of one list to 0..1.

    In a full list the last score is the floor. A list shorter than ``depth`` holds all that there is, so its
    floor is ``nothing``, the score of what is beside the point, or its last score where that is lower.
    """
    if not ranked:
        return {}
    top = max(score for _, score in ranked)
    last = min(score for _, score in ranked)
    floor = last if len(ranked) >= depth else min(nothing, last)
    width = top - floor
    return {item: (score - floor) / width if width > 0 else 1.0 for item, score in ranked}


def dense_share(weight: float, matched: int, asked: int) -> float:
    """Return the share of the dense list in fusion, where its embedder asks for ``weight``.

    ``matched`` of the ``asked`` words of the question are in the best hit by words. Scaled to 1 as any first
    hit is, a chance match would outweigh what the question means, most of all in another language.
    """
    coverage = matched / min(asked, MANY_WORDS) if asked else 1.0  # stop words only: they were looked for
    words = (1.0 - weight) * min(1.0, coverage / COVERED)
    return weight / (weight + words) if weight > 0 else 0.0


def fuse(
    lexical: Sequence[tuple[str, float]],
    dense: Sequence[tuple[str, float]] = (),
    *,
    dense_weight: float = 0.0,
    depth: int = 100,
    method: Fusion = "minmax",
    nothing: float = 0.0,
) -> dict[str, float]:
    """Return one score an item from two lists of (id, raw score), best first.

    ``minmax`` adds the scaled scores by weight (``nothing`` as in `min_max`, of the dense list); ``rrf`` adds
    weighted reciprocal ranks (Cormack et al. 2009, with k = 10) scaled so that first in both is 1.
    """
    weight = 0.0 if not dense else dense_weight if lexical else 1.0
    scores: defaultdict[str, float] = defaultdict(float)
    for ranked, share, bottom in ((lexical, 1.0 - weight, 0.0), (dense, weight, nothing)):
        if method == "rrf":
            scaled = {item: (RRF_K + 1) / (RRF_K + rank) for rank, (item, _) in enumerate(ranked, 1)}
        else:
            scaled = min_max(ranked, depth, bottom)
        for item, score in scaled.items():
            scores[item] += share * score
    return dict(scores)


class Place(NamedTuple):
    """Where a passage stands: its session and ordinal."""

    session: str
    ordinal: int


def spread(
    scores: Mapping[str, float],
    places: Mapping[str, Place],
    neighbours: Mapping[Place, str],
    beside: dict[tuple[str, int], float] | None = None,
) -> dict[str, float]:
    """Let the turns of one session support each other; return new scores, which may exceed 1.

    ``places`` gives the place of each scored passage that lends (other items have none), ``neighbours`` the
    id of the passage at each place that may enter the answer. What goes to others is added up in ``beside``.
    """
    spread_scores: defaultdict[str, float] = defaultdict(float, scores)
    elsewhere: defaultdict[tuple[str, int], float] = defaultdict(float)
    for item, (session, ordinal) in places.items():
        score = scores.get(item, 0.0)
        if score <= 0:
            continue
        for step, share in _SHARES:
            place = (session, ordinal + step)
            other = neighbours.get(place)  # type: ignore[call-overload] # a Place
            if other is not None:
                spread_scores[other] += score * share
            elif ordinal + step >= 0:
                elsewhere[place] += score * share
    if beside is not None:
        beside.update(elsewhere)
    return dict(spread_scores)


def favour(scores: Mapping[str, float], named: Collection[str]) -> dict[str, float]:
    """Raise the scored passages whose speaker the question names."""
    return {item: score + SPEAKER if item in named else score for item, score in scores.items()}


def scale_of(scores: Iterable[float]) -> float:
    """Return the factor by which scores come to lie within 0 and 1."""
    return 1.0 / max(1.0, max(scores, default=0.0))


def activity(days_since_use: int) -> float:
    """Return how warm an item is: 1 when just used, half after 23 days. Future dates count as now."""
    return float(0.5 ** (max(days_since_use, 0) / HALF_LIFE_DAYS))


def decayed(score: float, days_since_use: int | None) -> float:
    """Return a score with decay. It orders near-ties and can't bury an answer; None means no decay."""
    if days_since_use is None:
        return score
    return score * (1 - DECAY_WEIGHT + DECAY_WEIGHT * activity(days_since_use))


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the order of an answer depends on besides the score. ``recorded_at`` is ISO 8601 in UTC."""

    id: str
    recorded_at: str
    days_since_use: int | None = None  # None: pinned, or a question about the past


class Ranked(NamedTuple):
    """One item in its final place."""

    id: str
    score: float
    decay: float


def order(scores: Mapping[str, float], candidates: Iterable[Candidate]) -> list[Ranked]:
    """Return the candidates best first: by score to six digits, then newest, then id."""
    rows: list[tuple[float, str, str, float]] = []
    for candidate in candidates:
        fused = scores.get(candidate.id, 0.0)
        final = decayed(fused, candidate.days_since_use)
        factor = final / fused if fused else 1.0
        rows.append((round(final, _PRECISION), candidate.recorded_at, candidate.id, factor))
    rows.sort(key=lambda row: row[2])
    rows.sort(key=lambda row: (row[0], row[1]), reverse=True)
    return [Ranked(item, score, factor) for score, _, item, factor in rows]


def grouped(
    ranked: Sequence[Ranked], group_of: Callable[[str], str | None], limit: int
) -> list[list[Ranked]]:
    """Return at most ``limit`` groups in the order of their best item; ungrouped items are left out."""
    groups: dict[str, list[Ranked]] = {}
    for item in ranked:
        name = group_of(item.id)
        if name is None or (name not in groups and len(groups) == limit):
            continue
        groups.setdefault(name, []).append(item)
    return list(groups.values())
