"""A memory graph of another server that lies in the store's folder: read in place, never written.

Its own server rewrites that file and would drop our lines, so what we write goes into our journal. Until
our first write the file is read as it is, changes included; that write copies it into one `adopt` commit.
"""

from __future__ import annotations

import os
import stat
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rawthink_core.clock import iso
from rawthink_core.commits import Commit
from rawthink_core.errors import BackendUnavailable
from rawthink_core.foreign import ForeignGraph, Settled, read_graph, rows_of
from rawthink_core.identity import derived_batch_id
from rawthink_local.files import explained
from rawthink_local.lookup import OVERLAY

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from rawthink_core.clock import Clock
    from rawthink_core.graph import Rules
    from rawthink_local.storeindex import StoreIndex

FILE = "memory.jsonl"
_TRIES = 5


class Adoption:
    """The foreign file of a store, if there is one, and whether it was adopted. It belongs to ``space``.

    Safe to use from many threads. Until it is adopted, its memories are laid over the row index.
    """

    def __init__(self, path: Path, space: str, rules: Rules, index: StoreIndex, clock: Clock) -> None:
        self.path = path
        self.space = space
        self._rules = rules
        self._index = index
        self._clock = clock
        self._lock = threading.RLock()
        self._seen: tuple[int, int, int] | None = None
        self._adopted_in: tuple[int, ...] | None = None
        self.graph: ForeignGraph | None = None
        self.settled: Settled | None = None
        self.pending: Commit | None = None

    @property
    def commit_id(self) -> str:
        """The id of the commit that adopts the file: once adopted, it stays adopted."""
        return derived_batch_id("adopt", self.space, self.path.name)

    @property
    def adopted(self) -> bool:
        """Whether the file was copied into the journal, as of the last look."""
        return self._adopted_in is not None

    def look(self) -> Commit | None:
        """See the file as it is now; return the commit that would adopt it, while none has."""
        if self._adopted_in == self._index.identity:
            return None
        with self._lock:
            if self.pending is None and self._state() is None:
                return None
            if self._index.end and self._was_adopted():
                self._show(None)
                self._adopted_in = self._index.identity
                return None
            self._adopted_in = None
            self.read()
            found = self._commit()
            if (found is None) != (self.pending is None) or (found and found.request != self._shown()):
                self._show(found)
            return self.pending

    def _shown(self) -> str:
        return self.pending.request if self.pending is not None else ""

    def _show(self, commit: Commit | None) -> None:
        if commit is not None or self.pending is not None:
            self.pending = commit
            self._index.lay_over(commit)

    def _was_adopted(self) -> bool:
        spots = self._index.find("commit", self.space, self.commit_id)
        return any(spot.position < OVERLAY for spot in spots)

    def read(self) -> None:
        """Read the file where it is new or has changed since the last call."""
        with self._lock:
            state = self._state()
            if state is None:
                self._seen = self.graph = self.settled = None
                return
            if _marks(state) == self._seen:
                return
            data, state = self._whole(state)
            self.graph = read_graph(data, self.path.name)
            self.settled = rows_of(
                self.graph,
                space=self.space,
                vocabulary=self._rules.vocabulary,
                zone=self._rules.zone,
                fallback=datetime.fromtimestamp(state.st_mtime, UTC),
            )
            self._seen = _marks(state)

    def _state(self) -> os.stat_result | None:
        """Return the file's state; None where there is none, or something that is no file."""
        with explained("reading", self.path):
            try:
                state = self.path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        return state if stat.S_ISREG(state.st_mode) else None

    def _whole(self, state: os.stat_result) -> tuple[bytes, os.stat_result]:
        """Return the file's bytes, not half of what its own server is writing just now."""
        with explained("reading", self.path):
            for _ in range(_TRIES):
                with self.path.open("rb") as file:
                    data = file.read()
                    after = os.fstat(file.fileno())
                if _marks(after) == _marks(state) and len(data) == after.st_size:
                    return data, after
                state = after
        raise BackendUnavailable(f"{self.path} changes while it is read: its own server writes it. Try again")

    def _commit(self) -> Commit | None:
        """Return the commit that adopts the file as it is now, or None where it holds nothing usable."""
        if self.graph is None or self.settled is None or self._seen is None or not self.settled.rows:
            return None
        at = min(datetime.fromtimestamp(self._seen[2] / 1e9, UTC), self._clock.now())
        by = {"host": "adopt", "client": self.path.name}
        return Commit(self.commit_id, iso(at), self.space, self.settled.rows, by, self.graph.sha256)

    def holds(self, ids: Collection[str]) -> bool:
        """Tell whether the file, as it is now, holds any of these items."""
        self.read()
        return self.settled is not None and any(row["id"] in ids for row in self.settled.rows)


def _marks(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_ino, state.st_size, state.st_mtime_ns
