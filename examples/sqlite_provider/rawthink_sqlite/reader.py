"""What is read of one space in one transaction: rows by their keys, and items by their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from rawthink_core.commits import Commit
from rawthink_core.keyed import KeyedReader
from rawthink_core.questions import key
from rawthink_core.retrieval import NOTHING, Retrieved
from rawthink_core.rows import Stamped
from rawthink_core.selection import owner_of
from rawthink_core.text import term_id, terms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import date

    from rawthink_core.activity import Activity
    from rawthink_core.retrieval import Terms
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection

AT_ONCE = 500  # looked at in one go

# CROSS JOIN keeps the order: from the few keys that are asked for to their rows.
ROWS = """
SELECT keys.key, at, commits.id, position, body, by
FROM json_each(?) AS asked CROSS JOIN keys ON keys.key = asked.value
CROSS JOIN rows ON rows.n = keys.row CROSS JOIN commits ON commits.n = committed WHERE space = ?
"""
COMMIT = "SELECT n, at, by, request FROM commits WHERE space = ? AND id = ?"
FOLLOWING = "SELECT at, id FROM items WHERE space = ? AND (at, id) > (?, ?) ORDER BY at, id LIMIT ?"

# BM25 with k1 = 0.9, b = 0.4 and a mean size of 400, as everywhere.
SCORED = """
WITH matched AS MATERIALIZED (
    SELECT term, asked.value AS worth, doc AS n, count(*) AS times
    FROM json_each(?) AS asked CROSS JOIN places ON term = asked.key GROUP BY term, doc
), rarity AS (
    SELECT term, ln(1 + (total - count(*) + 0.5) / (count(*) + 0.5)) AS idf
    FROM matched, (SELECT count(*) AS total FROM items WHERE space = ? AND size > 0) GROUP BY term
)
SELECT id, sum(worth * idf * times * 1.9 / (times + 0.9 * (0.6 + 0.4 * size / 400.0))) AS score
FROM matched JOIN rarity USING (term) JOIN items USING (n) WHERE space = ?
GROUP BY n ORDER BY score DESC, at DESC, id
"""


class Reader(KeyedReader):
    """One space of the store: answers what a draft, `reading` and `searching` ask."""

    def __init__(self, db: sqlite3.Connection, space: str, activity: Activity) -> None:
        super().__init__(space)
        self.db, self.activity = db, activity

    def answers(self, kind: str, asked: Sequence[tuple[object, ...]]) -> list[list[Stamped]]:
        """Return the rows under the key of each question."""
        keys = [key(kind, self.space, *parts) for parts in asked]
        found: dict[int, list[Stamped]] = {wanted: [] for wanted in keys}
        parameters = (orjson.dumps(list(found)).decode(), self.space)
        for wanted, at, commit, position, row, by in self.db.execute(ROWS, parameters):
            found[wanted].append(Stamped(at, commit, position, orjson.loads(row), orjson.loads(by)))
        return [found[wanted] for wanted in keys]

    def last_ordinal(self, session: str) -> int:
        """Return the highest ordinal of a session."""
        highest = "SELECT max(ordinal) FROM keys WHERE key = ? AND ordinal IS NOT NULL"
        (last,) = self.db.execute(highest, (key("session", self.space, session),)).fetchone()
        return -1 if last is None else int(last)

    def commit(self, batch_id: str) -> Commit | None:
        """Return the commit of a batch, where it was committed."""
        for n, at, by, request in self.db.execute(COMMIT, (self.space, batch_id)).fetchall():
            found = self.db.execute("SELECT body FROM rows WHERE committed = ? ORDER BY position", (n,))
            rows = tuple(orjson.loads(body) for (body,) in found)
            return Commit(batch_id, at, self.space, rows, orjson.loads(by), request)
        return None

    def every(self, ids: str) -> list[str]:
        """Return ids of the space, by a statement that selects them."""
        return [found for (found,) in self.db.execute(ids, (self.space,))]

    def following(self, chosen: Selection, at: str, item: str, limit: int) -> Iterator[State]:
        """Yield what passes the filters, oldest first, after a time and an id."""
        while found := self.db.execute(FOLLOWING, (self.space, at, item, limit)).fetchall():
            yield from self._passing([item for _, item in found], chosen)
            at, item = found[-1]

    def _passing(self, ids: list[str], chosen: Selection) -> Iterator[State]:
        known = self.states(ids, chosen.as_of)
        for item in ids:
            if (state := known.get(item)) is not None and chosen.passes(state, owner_of(state, known)):
                yield state

    def retrieve(
        self, terms: Terms, vector: Sequence[float] | None, chosen: Selection, depth: int
    ) -> tuple[Retrieved, Retrieved]:
        """Return the best items that pass the filters: down the list of all that match, until it is full."""
        del vector  # a provider that does not declare `dense` is given none
        found: list[tuple[str, float]] = []
        asked = {word(self.space, term): worth for term, worth in zip(*terms, strict=True)}
        matched = self.db.execute(SCORED, (orjson.dumps(asked).decode(), self.space, self.space))
        while len(found) < depth and (some := dict(matched.fetchmany(max(depth, AT_ONCE)))):
            found += [(state.id, some[state.id]) for state in self._passing(list(some), chosen)]
        return Retrieved(found[:depth]), NOTHING

    def last_used(self, ids: Collection[str]) -> Mapping[str, date]:
        """Return the day on which items were last read."""
        return self.activity.last_used(ids)


def word(space: str, term: int) -> str:
    """Return a term in a space as a word that no tokenizer takes apart."""
    return f"{key('word', space, term) % 2**48:012x}"


def words(space: str, text: str) -> list[str]:
    """Return what FTS5 indexes of a text: our terms, each as often as it occurs."""
    return [word(space, term_id(term)) for term, times in terms(text).items() for _ in range(round(times))]
