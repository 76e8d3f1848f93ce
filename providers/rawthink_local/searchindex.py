"""Search by words and by meaning: this process's replica of the index, kept up with the journal.

A small backlog is applied on the spot, so a search sees every write that came before it. A large one (a
fresh clone, a big import) is worked off by a process of its own; until then an answer says ``index n of m``.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from rawthink_core.errors import BackendUnavailable
from rawthink_local import replica
from rawthink_local.building import Builder
from rawthink_local.engine import IndexDamaged
from rawthink_local.files import make_folder
from rawthink_local.lines import Moved
from rawthink_local.replica import Replica
from rawthink_local.replicas import drop_free_slots
from rawthink_local.served import IndexLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rawthink_core.clock import Clock
    from rawthink_core.selection import Selection
    from rawthink_local.fields import Match
    from rawthink_local.store import Store
    from rawthink_local.vectors import Kept

log = logging.getLogger("rawthink.local")

_RETRY_SECONDS = 30.0
_FAILURES = 2  # after which neither opening again nor building anew is any help


class SearchIndex:
    """The search index of one process. Safe to use from many threads."""

    def __init__(self, store: Store, root: Path | None, clock: Clock, kept: Kept | None = None) -> None:
        self._store = store
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._root = self._place(root)
        self._lock = threading.RLock()
        self.kept = kept
        self._replica = Replica(store, self._root, clock, kept)
        self._builder: Builder | None = None
        self._closed = False
        self._failures = 0  # searches that failed, one after the other

    def _place(self, root: Path | None) -> Path:
        """Return the folder for replicas: one of this process alone where the user's cache can't be used."""
        try:
            if root is not None:
                make_folder(root)
                return root
        except BackendUnavailable as error:
            log.warning("no place for a search index: %s. It is built anew in each process", error)
        self._temporary = tempfile.TemporaryDirectory(prefix="rawthink-")
        return Path(self._temporary.name)

    # --- keeping up -----------------------------------------------------------------------------

    def catch_up(self) -> str | None:
        """Apply what was written since; say what is missing where that takes longer than a search may.

        Raises Moved where the journal was replaced meanwhile.
        """
        with self._lock:
            if self._closed:
                raise BackendUnavailable("the memory is closed")
            self._store.look()
            if self._builder is not None:
                progress = self._builder.progress()
                if progress is not None and not self._builder.failed_for(_RETRY_SECONDS):
                    return progress
                self._builder = None
            try:
                return self._caught_up()
            except IndexLost as error:
                log.warning("%s. It is opened again.", error)
                self._replica.close_index()
            except IndexDamaged as error:
                log.warning("%s. It is built anew.", error)
                self._replica.start_over()
            return self._caught_up()

    def _caught_up(self) -> str | None:
        mine = self._replica
        if not mine.opened:
            mine.open()
        if not mine.fits():
            mine.start_over()
        if mine.behind() > replica.BACKLOG:
            mine.let_go()
            self._builder = Builder(self._store, self._root, self.kept)
            return self._builder.progress() or "index being built"
        for _ in mine.apply():
            pass
        return None

    def keep_up(self) -> None:
        """Apply what was written just now, so that the next search need not; never in anybody's way."""
        mine = self._replica
        if not mine.opened or not self._lock.acquire(blocking=False):
            return
        try:
            if (
                not self._closed
                and self._builder is None
                and mine.fits()
                and mine.behind() <= replica.BACKLOG
            ):
                for _ in mine.apply():
                    pass
                mine.tidy()
        except (BackendUnavailable, Moved) as error:
            log.info("the search index could not keep up: %s", error)
        finally:
            self._lock.release()

    # --- vectors --------------------------------------------------------------------------------

    def go_by(self, kept: Kept | None) -> None:
        """Take vectors from elsewhere from now on; an index that has others is built anew."""
        with self._lock:
            self._stop_builder()
            self.kept = kept
            self._replica.go_by(kept)

    def waiting(self, limit: int) -> list[tuple[str, str]]:
        """Return space and id of items that wait for their vectors, as far as the index is built."""
        with self._lock:
            return self._replica.waiting(limit) if self.catch_up() is None else []

    def waiting_count(self) -> int:
        """Count the items that wait for their vectors, as far as the index is built."""
        with self._lock:
            return self._replica.waiting_count()

    def write_again(self, items: Iterable[tuple[str, str]]) -> None:
        """Give items that waited the vectors that have come."""
        with self._lock:
            if self.catch_up() is None:
                self._replica.write_again(items)

    def lost(self) -> str | None:
        """Say why nothing is asked by its meaning, where that is because the kept vectors can't be used."""
        problem = self.kept.problem if self.kept is not None else None
        return None if problem is None else f"found by words only: {problem}"

    # --- searching ------------------------------------------------------------------------------

    def search(self, terms: tuple[list[int], list[float]], chosen: Selection, depth: int) -> list[Match]:
        """Return ids, scores and places by words, best first; nothing while the index is being built.

        Raises Moved where the index was taken away since `catch_up`.
        """
        return self._asked(lambda: self._replica.search(terms, chosen, depth))

    def nearest(self, vector: Sequence[float], chosen: Selection, depth: int) -> list[Match]:
        """Return ids, similarities and places by meaning, best first. Raises Moved, as `search` does."""
        return self._asked(lambda: self._replica.nearest(vector, chosen, depth))

    def _asked(self, ask: Callable[[], list[Match]]) -> list[Match]:
        with self._lock:
            if not self._replica.opened and self._builder is None:
                raise Moved
            try:
                hits = ask()
            except (IndexDamaged, IndexLost) as error:
                self._failures += 1
                if self._failures > _FAILURES:
                    raise
                log.warning("%s. It is asked once more.", error)
                if isinstance(error, IndexLost) and self._failures < _FAILURES:
                    self._replica.close_index()
                else:
                    self._replica.start_over()
                raise Moved from error
            self._failures = 0
            return hits

    # --- upkeep ---------------------------------------------------------------------------------

    def forget(self) -> int:
        """Delete every replica that can be; return how many other processes still hold one."""
        with self._lock:
            self._stop_builder()
            self._replica.let_go()
            return drop_free_slots(self._root)

    @property
    def root(self) -> Path:
        """The folder of all replicas."""
        return self._root

    def size(self) -> int:
        """Return the number of points, 0 while another process builds them."""
        return self._replica.size()

    def place(self) -> str:
        """Return where this process's replica lies."""
        return str(self._replica.slot.folder) if self._replica.slot is not None else "not open"

    def _stop_builder(self) -> None:
        if self._builder is not None:
            self._builder.stop()
            self._builder = None

    def close(self) -> None:
        """Flush and release the slot. May be called again."""
        with self._lock:
            self._closed = True
            self._stop_builder()
            self._replica.let_go()
            if self._temporary is not None:
                self._temporary.cleanup()
