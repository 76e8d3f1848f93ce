"""The store: the logs and indexes of its spaces, opened when they are first asked for. Synchronous.

The provider runs this in threads. Reading takes no lock. Writing: look what is new, plan, append; where
others came first, the same again.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rawthink_core.commits import Commit, encode, left_of, next_instant
from rawthink_core.draft import Draft
from rawthink_core.operations import RestoreReceipt
from rawthink_lancedb.errors import Raced
from rawthink_lancedb.index import Index
from rawthink_lancedb.locks import WRITE
from rawthink_lancedb.log import Log
from rawthink_lancedb.moments import Moments
from rawthink_lancedb.upkeep import PATIENCE
from rawthink_lancedb.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from rawthink_core.graph import Rules
    from rawthink_core.operations import Batch, RecordReceipt
    from rawthink_core.provider import World
    from rawthink_lancedb.catalogue import Catalogue
    from rawthink_lancedb.engine import Engine
    from rawthink_lancedb.locks import Locks
    from rawthink_lancedb.vectors import Kept, Vectors

    T = TypeVar("T")

_RESTORE_AT_ONCE = 8 * 2**20  # bytes appended together
_EXPORT_AT_ONCE = 500  # commits read together


class Space:
    """One space of a store: its log and its index."""

    def __init__(self, log: Log, index: Index) -> None:
        self.log = log
        self.index = index


class Store:
    """One store, for one process. Safe to use from many threads."""

    def __init__(self, engine: Engine, catalogue: Catalogue, locks: Locks, world: World) -> None:
        self.engine = engine
        self.catalogue = catalogue
        self.locks = locks
        self.world = world
        self.kept: Kept | None = None
        self.versioned: str | None = None  # why deleted text may stay in the bucket
        self.grown: Callable[[str], None] = lambda _: None  # told of each space that this process wrote in
        self._spaces: dict[str, Space] = {}
        self._lock = threading.Lock()
        self._last_at = ""
        self.moments = Moments(engine, catalogue)

    def close(self) -> None:
        """Stop what works beside the verbs. May be called again."""
        for space in list(self._spaces.values()):
            space.index.close()

    def space(self, name: str) -> Space:
        """Return a space, which need not exist."""
        with self._lock:
            found = self._spaces.get(name)
            if found is None:
                log = Log(self.engine, self.catalogue, name)
                found = self._spaces[name] = Space(log, Index(self.engine, log, self.locks))
                found.index.vectors.kept = self.kept
                found.index.grown = partial(self._tell, name)
            return found

    def spaces(self) -> list[Space]:
        """Return every space of the store. Raises a BackendError."""
        return [self.space(name) for name in self.catalogue.spaces()]

    def go_by(self, kept: Kept | None) -> None:
        """Take vectors of this model from now on."""
        with self._lock:
            self.kept = kept
            for space in self._spaces.values():
                space.index.vectors.kept = kept

    # --- reading --------------------------------------------------------------------------------

    def read(self, space: str, ask: Callable[[View], T]) -> T:
        """Return what ``ask`` reads from a view that sees every write before. Raises a BackendError."""
        log = self.space(space).log
        log.look()
        return ask(View(log))

    def commits(self, space: str) -> Iterator[Commit]:
        """Yield every commit of a space once, in the order of time, as of when the first is asked for."""
        log = self.space(space).log
        if not log.look():
            return
        heads = log.heads()
        for start in range(0, len(heads), _EXPORT_AT_ONCE):
            some = heads[start : start + _EXPORT_AT_ONCE]
            yield from log.commits_at([head for _, _, head, _ in some], [size for _, _, _, size in some])

    def vectors_of(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors that are kept of texts, whichever space they are in."""
        found: dict[str, Vectors] = {}
        for space in self.spaces():
            found |= space.index.vectors_of([text for text in texts if text not in found])
        return found

    def applied(self) -> dict[str, tuple[int, int]]:
        """Return the making of the index of each space that is in use, and how far it is."""
        with self._lock:
            spaces = dict(self._spaces)
        points = {name: space.index.points for name, space in spaces.items()}
        return {name: (table.making, table.applied) for name, table in points.items()}

    def apply(self, name: str) -> None:
        """Bring the index of a space up with its log, however long it takes."""
        space = self.space(name)
        if space.log.look():
            space.index.sound(lambda: space.index.apply(space.log.ledger.last_rid, PATIENCE))

    # --- writing --------------------------------------------------------------------------------

    def next_instant(self, log: Log) -> datetime:
        """Return the time of the next commit: the clock's, but later than every commit before."""
        self._last_at = max(self._last_at, self.moments.last())
        return next_instant(self.world.clock, max(log.ledger.last_at, self._last_at))

    def append(self, space: Space, commits: Sequence[Commit]) -> None:
        """Append commits, and tell of it. Raises Raced where others came first."""
        space.log.append(commits)
        self._last_at = max(self._last_at, *(commit.at for commit in commits))
        self.moments.note(self._last_at)
        self._tell(space.log.space)

    def _tell(self, name: str) -> None:
        self.grown(name)

    def record(self, batch: Batch, rules: Rules) -> RecordReceipt:
        """Write a batch. Raises what `plan` raises, BatchIdReused or a BackendError."""
        draft = Draft(batch, rules)
        space = self.space(draft.space)
        with self.locks.held(WRITE):
            for _ in self.engine.tries():
                try:
                    return self._record(space, draft)
                except Raced:
                    continue
        raise AssertionError  # `tries` has no end but an error

    def _record(self, space: Space, draft: Draft) -> RecordReceipt:
        space.log.look()
        if (known := space.log.commit(draft.id)) is not None:
            return draft.receipt(known)
        commit = draft.commit(View(space.log), self.next_instant(space.log))
        self.append(space, [commit])
        return draft.receipt(commit)

    def restore(self, name: str, commits: Sequence[Commit]) -> RestoreReceipt:
        """Add commits of a space as they are; those there are skipped, and what was forgotten stays so."""
        space = self.space(name)
        restored, left = 0, list(commits)
        with self.locks.held(WRITE):
            for _ in self.engine.tries():
                if not left:
                    break
                try:
                    restored += self._restore_some(space, left)
                except Raced:
                    continue
        return RestoreReceipt(restored=restored, skipped=len(commits) - restored)

    def _restore_some(self, space: Space, left: list[Commit]) -> int:
        """Take commits off the list and append what is new of them, piece by piece; return how many were."""
        restored = 0
        while left:
            space.log.look()
            piece: dict[str, Commit] = {}
            taken = size = 0
            for commit in left:
                taken += 1
                if commit.id not in piece and (fresh := unknown_part(space.log, commit)) is not None:
                    piece[commit.id] = fresh
                    size += len(encode(fresh))
                if size > _RESTORE_AT_ONCE:
                    break
            if piece:
                self.append(space, list(piece.values()))
            restored += len(piece)
            del left[:taken]
        return restored


def unknown_part(log: Log, commit: Commit) -> Commit | None:
    """Return a commit without rows of forgotten items; None where the log has the commit already."""
    if log.knows("commit", commit.id) and log.commit(commit.id) is not None:
        return None
    known = [item for item in {row["id"] for row in commit.rows} if log.mentions(item)]
    gone = {state.id for state in View(log).load(known).values() if state.forgotten} if known else ()
    return left_of(commit, gone) if gone else commit
