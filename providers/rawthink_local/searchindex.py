"""Search by words and by meaning: the index, wherever it lies, kept up with the journal.

A small backlog is applied on the spot, so a search sees every write that came before it. A large one (a
fresh clone, a big import) is worked off beside the searches; until then an answer says ``index n of m``.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from rawthink_core.errors import BackendError, BackendUnavailable
from rawthink_local import replica
from rawthink_local.engine import IndexDamaged
from rawthink_local.lines import Moved
from rawthink_local.places import SlotPlace
from rawthink_local.replica import Replica
from rawthink_local.served import IndexLost

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rawthink_core.clock import Clock
    from rawthink_core.selection import Selection
    from rawthink_core.upkeep import Check
    from rawthink_local.fields import Match, Terms
    from rawthink_local.places import Build, IndexPlace
    from rawthink_local.store import Store
    from rawthink_local.vectors import Kept

log = logging.getLogger("rawthink.local")

_RETRY_SECONDS = 30.0
_FAILURES = 2  # after which neither opening again nor building anew is any help


class SearchIndex:
    """The search index of one process. Safe to use from many threads."""

    def __init__(
        self,
        store: Store,
        root: Path | None,
        clock: Clock,
        kept: Kept | None = None,
        place: IndexPlace | None = None,
    ) -> None:
        self._store = store
        self._place: IndexPlace = place if place is not None else SlotPlace(root, clock)
        self._lock = threading.RLock()
        self.kept = kept
        self._replica = Replica(store, self._place, kept)
        self._builder: Build | None = None
        self._closed = False
        self.changes = 0  # how often anything was opened or applied: may be read without the lock
        self._failures = 0  # searches that failed, one after the other

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
            self.changes += 1
        mine.refresh()
        if mine.fits() and not mine.behind():
            return None
        self.changes += 1
        with mine.turn() as ours:
            if not ours:
                return f"index {mine.size()} of {self._store.index.born_count()}"
            if not mine.fits():
                mine.start_over()
            if mine.behind() <= replica.BACKLOG:
                for _ in mine.apply():
                    pass
                return None
        mine.let_go()
        self._builder = self._place.build(self._store, self.kept)
        return self._builder.progress() or "index being built"

    def keep_up(self) -> None:
        """Apply what was written just now, so that the next search need not; never in anybody's way."""
        mine = self._replica
        if not mine.opened or not self._lock.acquire(blocking=False):
            return
        try:
            if self._closed or self._builder is not None:
                return
            with mine.turn(wait=False) as ours:
                if ours and mine.fits() and mine.behind() <= replica.BACKLOG:
                    self.changes += mine.behind() > 0
                    for _ in mine.apply():
                        pass
                    mine.tidy()
        except (BackendError, Moved) as error:
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
                with self._replica.turn() as ours:
                    if ours:  # else they go on waiting
                        self._replica.write_again(items)

    def lost(self) -> str | None:
        """Say why nothing is asked by its meaning, where that is because the kept vectors can't be used."""
        problem = self.kept.problem if self.kept is not None else None
        return None if problem is None else f"found by words only: {problem}"

    # --- searching ------------------------------------------------------------------------------

    def find(
        self, terms: Terms, vector: Sequence[float] | None, chosen: Selection, depth: int
    ) -> tuple[list[Match], list[Match]]:
        """Return ids, scores and places by words, and by meaning where a vector is given, best first.

        Nothing is found while the index is being built. Raises Moved where it was taken away since
        `catch_up`.
        """
        with self._lock:
            if not self._replica.opened and self._builder is None:
                raise Moved
            try:
                hits = self._replica.find(terms, vector, chosen, depth)
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

    def forget(self) -> tuple[int, str]:
        """Delete the index; return how many other processes still hold one, and what was deleted."""
        with self._lock:
            self._stop_builder()
            self._replica.let_go()
            return self._place.forget()

    def size(self) -> int:
        """Return the number of points, 0 while another process builds them."""
        return self._replica.size()

    def place(self) -> str:
        """Return where this process's index lies."""
        return self._place.name()

    def checks(self) -> list[Check]:
        """Return what there is to say of its place."""
        return self._place.checks()

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
            self._place.close()
