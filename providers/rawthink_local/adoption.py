"""A memory graph of another server that lies in the store's folder: read in place, never written.

Its own server rewrites that file and would drop our lines, so what we write goes into our journal. Until
our first write the file is read as it is, changes included; that write copies it into one `adopt` commit.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rawthink_core.clock import iso
from rawthink_core.commits import Commit
from rawthink_core.foreign import ForeignGraph, Settled, read_graph, rows_of
from rawthink_core.identity import derived_batch_id
from rawthink_local.files import explained

if TYPE_CHECKING:
    from pathlib import Path

    from rawthink_core.graph import Rules

FILE = "memory.jsonl"


class Adoption:
    """The foreign file of a store, if there is one. ``space`` is where its memories are."""

    def __init__(self, path: Path, space: str, rules: Rules) -> None:
        self.path = path
        self.space = space
        self._rules = rules
        self._seen: tuple[int, int, int] | None = None
        self.graph: ForeignGraph | None = None
        self.settled: Settled | None = None

    @property
    def commit_id(self) -> str:
        """The id of the commit that adopts the file: once adopted, it stays adopted."""
        return derived_batch_id("adopt", self.space, self.path.name)

    def changed(self) -> bool:
        """Read the file where it is new or has changed since the last call; tell whether it was."""
        try:
            state = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            changed, self._seen = self._seen is not None, None
            self.graph = self.settled = None
            return changed
        seen = (state.st_ino, state.st_size, state.st_mtime_ns)
        if seen == self._seen:
            return False
        with explained("reading", self.path):
            data = self.path.read_bytes()
        self.graph = read_graph(data, self.path.name)
        self.settled = rows_of(
            self.graph,
            space=self.space,
            vocabulary=self._rules.vocabulary,
            zone=self._rules.zone,
            fallback=datetime.fromtimestamp(state.st_mtime, UTC),
        )
        self._seen = seen
        return True

    def commit(self, now: datetime) -> Commit | None:
        """Return the commit that adopts the file as it is now, or None where it holds nothing usable."""
        if self.graph is None or self.settled is None or self._seen is None or not self.settled.rows:
            return None
        at = min(datetime.fromtimestamp(self._seen[2] / 1e9, UTC), now)
        by = {"host": "adopt", "client": self.path.name}
        return Commit(self.commit_id, iso(at), self.space, self.settled.rows, by, self.graph.sha256)
