"""What is read of one space in one transaction: rows by their keys, and items by their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from rawthink_core.commits import Commit
from rawthink_core.keyed import KeyedReader
from rawthink_core.questions import key
from rawthink_core.retrieval import NOTHING, Retrieved, seats_of
from rawthink_core.rows import Stamped
from rawthink_core.searching import owner_of
from rawthink_core.text import term_id, terms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import date

    from rawthink_core.activity import Activity
    from rawthink_core.retrieval import Terms
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection

AT_ONCE = 500  # items looked at in one go

# CROSS JOIN keeps the order: from the few keys that are asked for to their rows.
ROWS = """
SELECT keys.key, at, commits.id, position, body, by
FROM json_each(?) AS asked CROSS JOIN keys ON keys.key = asked.value
CROSS JOIN rows ON rows.n = keys.row CROSS JOIN commits ON commits.n = committed WHERE space = ?
"""

# BM25 with k1 = 0.9, b = 0.4 and a mean size of 400, as everywhere. {0} is the number of a space.
SCORED = """
WITH matched AS MATERIALIZED (
    SELECT asked.key AS term, asked.value AS worth, doc AS n, count(*) AS times
    FROM json_each(?) AS asked CROSS JOIN places_{0} AS place ON place.term = asked.key
    GROUP BY asked.key, doc
), rarity AS (
    SELECT term, ln(1 + (total - count(*) + 0.5) / (count(*) + 0.5)) AS idf
    FROM matched, (SELECT count(*) AS total FROM items WHERE space = ? AND size > 0)
    GROUP BY term
)
SELECT id, sum(worth * idf * times * 1.9 / (times + 0.9 * (0.6 + 0.4 * size / 400.0))) AS score
FROM matched JOIN rarity USING (term) JOIN items USING (n)
GROUP BY n ORDER BY score DESC, at DESC, id
"""


class Reader(KeyedReader):
    """One space of the store: answers what `needs`, `reading` and `searching` ask."""

    def __init__(self, db: sqlite3.Connection, space: str, activity: Activity) -> None:
        super().__init__(space)
        self.db, self.activity = db, activity
        found = db.execute("SELECT n FROM spaces WHERE name = ?", (space,)).fetchone()
        self.number: int = found[0] if found else 0

    def answers(self, kind: str, asked: Sequence[tuple[object, ...]]) -> list[list[Stamped]]:
        """Return the rows under the key of each question."""
        keys = [key(kind, self.space, *parts) for parts in asked]
        found: dict[int, list[Stamped]] = {wanted: [] for wanted in keys}
        parameters = (orjson.dumps(list(found)).decode(), self.number)
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
        found = self.db.execute("SELECT * FROM commits WHERE space = ? AND id = ?", (self.number, batch_id))
        return next(map(self._commit, found.fetchall()), None)

    def commits(self, after: tuple[str, str]) -> list[Commit]:
        """Return some commits in the order of time, those after a time and an id."""
        some = "SELECT * FROM commits WHERE space = ? AND (at, id) > (?, ?) ORDER BY at, id LIMIT ?"
        return list(map(self._commit, self.db.execute(some, (self.number, *after, AT_ONCE)).fetchall()))

    def _commit(self, columns: tuple[int, int, str, str, str, str]) -> Commit:
        n, _, commit_id, at, by, request = columns
        found = self.db.execute("SELECT body FROM rows WHERE committed = ? ORDER BY position", (n,))
        rows = tuple(orjson.loads(body) for (body,) in found)
        return Commit(commit_id, at, self.space, rows, orjson.loads(by), request)

    def following(self, chosen: Selection, at: str, item: str) -> Iterator[State]:
        """Yield what passes the filters, oldest first, after a time and an id."""
        some = "SELECT at, id FROM items WHERE space = ? AND (at, id) > (?, ?) ORDER BY at, id LIMIT ?"
        while found := self.db.execute(some, (self.number, at, item, AT_ONCE)).fetchall():
            yield from self._passing([item for _, item in found], chosen, {})
            at, item = found[-1]

    def _passing(self, ids: list[str], chosen: Selection, known: dict[str, State]) -> Iterator[State]:
        known |= self.states(ids, chosen.as_of)
        for item in ids:
            if (state := known.get(item)) is not None and chosen.passes(state, owner_of(state, known)):
                yield state

    def retrieve(
        self,
        terms: Terms,
        vector: Sequence[float] | None,  # noqa: ARG002 - a provider that does not declare `dense` is given none
        chosen: Selection,
        depth: int,
    ) -> tuple[Retrieved, Retrieved]:
        """Return the best items that pass the filters: down the list of all that match, until it is full."""
        found: list[tuple[str, float]] = []
        if not self.number or not terms[0]:
            return NOTHING, NOTHING  # nothing was ever written here, or nothing is asked for
        asked = {word(term): worth for term, worth in zip(*terms, strict=True)}
        parameters = (orjson.dumps(asked).decode(), self.number)
        matched = self.db.execute(SCORED.format(self.number), parameters)
        states: dict[str, State] = {}
        while len(found) < depth and (some := dict(matched.fetchmany(max(depth, AT_ONCE)))):
            found += [(state.id, some[state.id]) for state in self._passing(list(some), chosen, states)]
        return Retrieved(found[:depth], seats_of([item for item, _ in found[:depth]], states)), NOTHING

    def last_used(self, ids: Collection[str]) -> Mapping[str, date]:
        """Return the day on which items were last read."""
        return self.activity.last_used(ids)

    def items(self) -> list[str]:
        """Return the ids of all items of the space."""
        every = "SELECT id FROM items WHERE space = ?"
        return [item for (item,) in self.db.execute(every, (self.number,)).fetchall()]


def word(term: int) -> str:
    """Return a term as a word that no tokenizer takes apart."""
    return f"t{term:08x}"


def words(text: str) -> list[str]:
    """Return what FTS5 indexes of a text: our terms, each as often as it occurs."""
    return [word(term_id(term)) for term, times in terms(text).items() for _ in range(round(times))]
