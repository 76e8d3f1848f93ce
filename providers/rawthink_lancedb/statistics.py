"""How rare terms are in a space: what the weight of a match goes by, exact and the same in every process.

The engine's own figures change with what it has merged and deleted; going by them, upkeep would change the
order of answers. So terms are counted here, over the items of the space in the order in which they were made,
until there are so many that more would say nothing new.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

COLUMNS: Final = ["created", "terms", "told"]
ENOUGH: Final = 200_000  # items after which the frequencies of terms are taken to be known
_MERGE_FROM: Final = 50_000


class Statistics:
    """Counts of terms in one space. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.forget()

    def forget(self) -> None:
        """Begin anew: something was erased."""
        self.seen = 0  # the last row of the log whose items are counted
        self.items = 0
        self._terms: NDArray[np.uint32] = np.empty(0, np.uint32)
        self._counts: NDArray[np.int64] = np.empty(0, np.int64)
        self._fresh: dict[int, int] = {}

    @property
    def settled(self) -> bool:
        """Whether enough is counted."""
        return self.items >= ENOUGH

    def learn(self, table: pa.Table, until: int) -> None:
        """Count the items of a table (``COLUMNS``), which has all that were made up to ``until``."""
        with self._lock:
            if until <= self.seen or self.settled:
                return
            created = table["created"].to_numpy()
            keep = np.flatnonzero(created > self.seen)
            if (
                len(keep) > ENOUGH - self.items
            ):  # whoever counts, at once or bit by bit, stops at the same item
                keep = keep[np.argsort(created[keep], kind="stable")][: ENOUGH - self.items]
            if len(keep):
                self._count(table.take(keep))
            self.items += len(keep)
            self.seen = until

    def _count(self, table: pa.Table) -> None:
        told = table["told"].combine_chunks()
        changed = told.is_valid().to_numpy(zero_copy_only=False)
        same = table["terms"].filter(~changed) if changed.any() else table["terms"]
        terms = [same.combine_chunks().flatten().to_numpy()]
        if changed.any():
            terms.append(told.filter(changed).flatten().to_numpy())
        found, counts = np.unique(np.concatenate(terms), return_counts=True)
        if len(found) < _MERGE_FROM and len(self._fresh) < _MERGE_FROM:
            for term, count in zip(found.tolist(), counts.tolist(), strict=True):
                self._fresh[term] = self._fresh.get(term, 0) + count
            return
        self._merge(found, counts)

    def _merge(self, found: NDArray[np.uint32], counts: NDArray[np.int64]) -> None:
        fresh = np.fromiter(self._fresh, np.uint32, len(self._fresh))
        fresh_counts = np.fromiter(self._fresh.values(), np.int64, len(self._fresh))
        terms = np.concatenate([self._terms, found, fresh])
        self._terms, where = np.unique(terms, return_inverse=True)
        every = np.concatenate([self._counts, counts, fresh_counts])
        self._counts = np.bincount(where, weights=every, minlength=len(self._terms)).astype(np.int64)
        self._fresh = {}

    def rarity(self, terms: Sequence[int]) -> NDArray[np.float64]:
        """Return the inverse document frequency of terms: ln(1 + (N - n + ½) / (n + ½))."""
        with self._lock:
            asked = np.array(terms, np.uint32)
            counts = np.array([self._fresh.get(term, 0) for term in terms], np.float64)
            if len(self._terms):
                where = np.minimum(np.searchsorted(self._terms, asked), len(self._terms) - 1)
                counts += np.where(self._terms[where] == asked, self._counts[where], 0)
            counts = np.minimum(counts, self.items)
            rare: NDArray[np.float64] = np.log1p((self.items - counts + 0.5) / (counts + 0.5))
            return rare
