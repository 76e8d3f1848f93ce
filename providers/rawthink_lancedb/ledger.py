"""Which rows of a log answer which question: kept in memory, and brought up to date before each reading.

About 30 bytes a key: 100,000 items take 15 MB, read in a moment when a space is first used. It holds hashes
and numbers, no text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

_MERGE_FROM = 20_000  # new keys that are looked up one by one before they are sorted in
PLACES = 24  # bits of a rid that tell a row's place within what was appended together
COLUMNS = ["claim", "rid", "at", "op", "keys", "born", "session", "ordinal"]


def rid_of(claim: int, place: int) -> int:
    """Return the number of a row."""
    return (claim << PLACES) | place


def claim_of(rid: int) -> int:
    """Return the number under which a row was appended."""
    return rid >> PLACES


class Birth(NamedTuple):
    """When something came to be, and in which row."""

    at: int
    rid: int


class Ledger:
    """The keys of one space. Not safe to share between threads without a lock."""

    def __init__(self) -> None:
        self.claim = 0  # the last that is in here
        self.last_at = ""
        self.erasures = 0  # how many rows say that something was erased
        self.rows = 0
        self.commits = 0
        self._keys: NDArray[np.int64] = np.empty(0, np.int64)
        self._rids: NDArray[np.int64] = np.empty(0, np.int64)
        self._fresh: dict[int, list[int]] = {}
        self._fresh_count = 0
        self._ordinals: dict[int, int] = {}
        self._births: list[Birth] = []
        self._ends: list[int] = []  # the last row of each claim
        self._births_sorted = 0

    def learn(self, table: pa.Table) -> None:
        """Take in rows of the log (``COLUMNS``) that were not seen before."""
        if not table.num_rows:
            return
        rids = _numbers(table, "rid")
        self.rows += table.num_rows
        self.claim = max(self.claim, int(_numbers(table, "claim").max()))
        self.last_at = max(self.last_at, *(at for at in table["at"].to_pylist() if at))
        self._learn_ends(rids)
        ops = table["op"].to_pylist()
        self.erasures += ops.count("forgotten")
        self.commits += ops.count("commit")
        self._learn_keys(table, rids)
        for born, rid in zip(table["born"].to_pylist(), rids.tolist(), strict=True):
            if born is not None:
                self._births.append(Birth(born, rid))
        for session, ordinal in zip(table["session"].to_pylist(), table["ordinal"].to_pylist(), strict=True):
            if session is not None:
                self._ordinals[session] = max(self._ordinals.get(session, -1), ordinal)

    def _learn_ends(self, rids: NDArray[np.int64]) -> None:
        ordered = np.sort(rids)
        last = np.flatnonzero(np.diff(ordered >> PLACES, append=-1))
        self._ends += ordered[last].tolist()

    def _learn_keys(self, table: pa.Table, rids: NDArray[np.int64]) -> None:
        column = table["keys"].combine_chunks()
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        keys = column.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
        owners = np.repeat(rids, lengths)
        if len(keys) < _MERGE_FROM:
            for key, rid in zip(keys.tolist(), owners.tolist(), strict=True):
                self._fresh.setdefault(key, []).append(rid)
            self._fresh_count += len(keys)
            if self._fresh_count < _MERGE_FROM:
                return
            keys, owners = np.empty(0, np.int64), np.empty(0, np.int64)
        self._merge(keys, owners)

    def _merge(self, keys: NDArray[np.int64], rids: NDArray[np.int64]) -> None:
        fresh = [(key, rid) for key, found in self._fresh.items() for rid in found]
        extra = np.array(fresh, np.int64).reshape(-1, 2)
        all_keys = np.concatenate([self._keys, keys, extra[:, 0]])
        all_rids = np.concatenate([self._rids, rids, extra[:, 1]])
        order = np.argsort(all_keys, kind="stable")
        self._keys, self._rids = all_keys[order], all_rids[order]
        self._fresh, self._fresh_count = {}, 0

    def find(self, key: int) -> list[int]:
        """Return the rows that may answer a question, oldest first."""
        low = int(np.searchsorted(self._keys, key, "left"))
        high = int(np.searchsorted(self._keys, key, "right"))
        found = self._rids[low:high].tolist() if high > low else []
        return sorted([*found, *self._fresh.get(key, ())])

    def find_all(self, keys: Sequence[int]) -> list[list[int]]:
        """Return the rows that may answer each of some questions."""
        return [self.find(key) for key in keys]

    def last_ordinal(self, session: int) -> int:
        """Return the highest ordinal of a session, given its key; -1 where it has none."""
        return self._ordinals.get(session, -1)

    def born_from(self, at: int, limit: int) -> list[Birth]:
        """Return the next births from a time on: at least ``limit`` if there are so many, whole instants."""
        if self._births_sorted != len(self._births):
            self._births.sort()
            self._births_sorted = len(self._births)
        low = bisect_left(self._births, Birth(at, -1))
        found = self._births[low : low + limit]
        end = low + len(found)
        while end < len(self._births) and found and self._births[end].at == found[-1].at:
            found.append(self._births[end])
            end += 1
        return found

    def slice_after(self, rid: int, rows: int) -> int:
        """Return the last of about so many rows after a row; that row where there are none."""
        for end in self._ends[bisect_right(self._ends, rid) :]:
            start = max(rid, rid_of(claim_of(end), 0) - 1)
            if end - start >= rows:
                return start + rows
            rows -= end - start
            rid = end
        return rid

    def rids_between(self, after: int, last: int) -> list[int]:
        """Return the rows after one row up to another."""
        found: list[int] = []
        for end in self._ends[bisect_right(self._ends, after) :]:
            start = max(after + 1, rid_of(claim_of(end), 0))
            if start > last:
                break
            found += range(start, min(end, last) + 1)
        return found

    def behind(self, rid: int) -> int:
        """Count the rows after a row."""
        later = self._ends[bisect_right(self._ends, rid) :]
        return sum(end - max(rid, rid_of(claim_of(end), 0) - 1) for end in later)

    @property
    def last_rid(self) -> int:
        """The last row that is in here, 0 where there is none."""
        return self._ends[-1] if self._ends else 0

    @property
    def items(self) -> int:
        """The number of items that were ever created."""
        return len(self._births)


def _numbers(table: pa.Table, column: str) -> NDArray[np.int64]:
    found: NDArray[np.int64] = table[column].to_numpy()
    return found
