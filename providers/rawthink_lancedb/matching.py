"""What a search asks of the index: the best points by words and by meaning.

The engine finds by words what comes into question; the order is made here, from core's weights and the
statistics of the space, so that it is that of every other provider and nothing but what is stored changes it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from rawthink_core.ranking import Place
from rawthink_core.retrieval import NOTHING, Retrieved, Seat
from rawthink_lancedb.filters import ACTIVE, condition
from rawthink_lancedb.points import token_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import pyarrow as pa
    from lancedb.table import AsyncTable
    from numpy.typing import NDArray

    from rawthink_core.selection import Selection
    from rawthink_lancedb.index import Index

    Floats: TypeAlias = NDArray[np.float64]
    Ids: TypeAlias = NDArray[np.uint32]

_SEAT: Final = ["session", "ordinal", "speaker"]
_WIDER: Final = 2  # times the depth: what is looked at to find the best by our own measure
_MOST_TERMS: Final = 24  # of a question, the rarest, find the candidates; all put these in order
_MOST_TIMES: Final = 8  # that one term is given to the engine


class Terms(NamedTuple):
    """The terms of a question: ids, ascending, and what a match of each is worth."""

    ids: Sequence[int]
    weights: Sequence[float]


class Query(NamedTuple):
    """One of the two questions: what the engine is asked, and what is made of its rows."""

    ask: Callable[[AsyncTable], Awaitable[pa.Table]]
    read: Callable[[pa.Table], Retrieved]


def best(
    index: Index,
    terms: tuple[list[int], list[float]],
    vector: Sequence[float] | None,
    chosen: Selection,
    depth: int,
) -> tuple[Retrieved, Retrieved]:
    """Return the best points by BM25 over core's terms, and by cosine: both are looked for at once."""
    where: str | None = condition(chosen)
    if where == ACTIVE and index.all_active():
        where = None
    words = _by_words(index, terms, where, chosen, depth) if terms[0] else None
    tag = index.vectors.searched() if vector is not None else None
    meaning = None if vector is None or tag is None else _by_meaning(tag, vector, where, chosen, depth)
    asked = [query for query in (words, meaning) if query is not None]

    async def work(table: AsyncTable) -> list[pa.Table]:
        return await asyncio.gather(*(query.ask(table) for query in asked))

    found = iter(index.table.ask("searching", work) if asked else ())
    return (
        words.read(next(found)) if words is not None else NOTHING,
        meaning.read(next(found)) if meaning is not None else NOTHING,
    )


def _by_words(
    index: Index, terms: tuple[list[int], list[float]], where: str | None, chosen: Selection, depth: int
) -> Query:
    ids = np.array(terms[0], np.uint32)
    worth = index.statistics.rarity(terms[0]) * np.array(terms[1], np.float64)
    words = _words(Terms(*terms), worth)

    async def work(table: AsyncTable) -> pa.Table:
        from lancedb.query import MatchQuery  # noqa: PLC0415 - loaded with the engine

        asked = MatchQuery(words, "tokens")  # type: ignore[call-arg] # the rest has defaults
        query = table.query().nearest_to_text(asked)
        query = query if where is None else query.where(where)
        columns = ["point", "terms", "weights", "_score", *_SEAT]
        return await query.select(columns).limit(_WIDER * depth).to_arrow()

    def read(found: pa.Table) -> Retrieved:
        scores = _scores(found, ids, worth)
        order = np.argsort(-scores, kind="stable")[:depth]
        return _retrieved(found, order.tolist(), scores[order].tolist(), chosen)

    return Query(work, read)


def _words(terms: Terms, worth: Floats) -> str:
    """Return a question as the engine takes it: a term that is worth twice as much stands there twice."""
    best = np.argsort(-worth, kind="stable")[:_MOST_TERMS].tolist()
    least = min(terms.weights)
    words: list[str] = []
    for place in sorted(best):
        times = min(_MOST_TIMES, max(1, round(terms.weights[place] / least)))
        words += [token_of(terms.ids[place])] * times
    return " ".join(words)


def _scores(found: pa.Table, ids: Ids, worth: Floats) -> Floats:
    """Return the score of each row: the weights of the terms that were asked for, times their worth."""
    terms = found["terms"].combine_chunks()
    lengths = terms.value_lengths().to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(found.num_rows), lengths)
    flat = terms.flatten().to_numpy()
    weights = found["weights"].combine_chunks().flatten().to_numpy()
    where = np.minimum(np.searchsorted(ids, flat), len(ids) - 1)
    hit = ids[where] == flat
    gained = weights[hit] * worth[where[hit]]
    scores: Floats = np.bincount(rows[hit], weights=gained, minlength=found.num_rows).astype(np.float64)
    return scores


def _by_meaning(tag: str, vector: Sequence[float], where: str | None, chosen: Selection, depth: int) -> Query:
    """Each point counts by the nearest of its windows."""
    asked = np.array(vector, np.float32)

    async def work(table: AsyncTable) -> pa.Table:
        query = table.query().nearest_to(asked).column(tag).distance_type("cosine")
        query = query if where is None else query.where(where)
        return await query.select(["point", "_distance", *_SEAT]).limit(depth).to_arrow()

    def read(found: pa.Table) -> Retrieved:
        near = 1.0 - found["_distance"].to_numpy().astype(np.float64)
        order = np.argsort(-near, kind="stable")
        return _retrieved(found, order.tolist(), near[order].tolist(), chosen)

    return Query(work, read)


def _retrieved(found: pa.Table, order: list[int], scores: list[float], chosen: Selection) -> Retrieved:
    points = found["point"].to_pylist()
    items = [(points[n], score) for n, score in zip(order, scores, strict=True)]
    if chosen.as_of is not None and chosen.valid_at is not None:
        return Retrieved(items)  # columns can't tell what held, as it was believed then
    seats = {name: found[name].to_pylist() for name in _SEAT}
    return Retrieved(
        items,
        {
            points[n]: Seat(Place(seats["session"][n], seats["ordinal"][n]), seats["speaker"][n])
            for n in order
            if seats["session"][n] is not None
        },
    )
