"""Search by words: this process's replica of the index, kept up with the journal.

A small backlog is applied on the spot, so a search sees every write that came before it. A large one (a
fresh clone, a big import) is worked off by a process of its own, because the engine would hold up this
one; until then an answer says ``index n of m``.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from rawthink_core.commits import encode
from rawthink_core.errors import BackendUnavailable
from rawthink_core.searching import Retrieved
from rawthink_core.text import TEXT_RULES
from rawthink_local.building import Builder
from rawthink_local.edge import EdgeIndex, IndexDamaged
from rawthink_local.journal import Line, lines_of
from rawthink_local.lookup import OVERLAY
from rawthink_local.points import Changes, PointMaker, filters_of
from rawthink_local.replicas import Slot, copy_from_free_slot, drop_free_slots, take_slot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import date

    from rawthink_core.clock import Clock
    from rawthink_core.ranking import Place
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection
    from rawthink_local.activity import Activity
    from rawthink_local.store import Store
    from rawthink_local.view import View

log = logging.getLogger("rawthink.local")

BACKLOG = 512 * 2**10  # bytes of journal that are applied on the spot: about a thousand observations
_PIECE = 128 * 2**10
_PIECES_A_LOOK = 4
_RETRY_SECONDS = 30.0


class Lexical:
    """The search index of one process. Safe to use from many threads."""

    def __init__(self, store: Store, root: Path | None, clock: Clock) -> None:
        self._store = store
        self._temporary = tempfile.TemporaryDirectory(prefix="rawthink-") if root is None else None
        self._root = root or Path(self._temporary.name if self._temporary else "")
        self._clock = clock
        self._lock = threading.RLock()
        self._slot: Slot | None = None
        self._index: EdgeIndex | None = None
        self._builder: Builder | None = None
        self._makes = PointMaker(store)
        self._position = 0
        self._overlaid = ""
        self._generation = ""
        self._closed = False

    # --- keeping up -----------------------------------------------------------------------------

    def catch_up(self) -> str | None:
        """Apply what was written since; say what is missing where that takes longer than a search may."""
        with self._lock:
            if self._closed:
                raise BackendUnavailable("the memory is closed")
            self._store.look()
            if self._builder is not None:
                progress = self._builder.progress()
                if progress is not None and not self._builder.failed_for(_RETRY_SECONDS):
                    return progress
                self._builder = None
            if self._index is None:
                self._open()
            if not self._fits():
                self._start_over()
            if self._behind() > BACKLOG:
                return self._hand_over()
            self._apply()
            return None

    def keep_up(self) -> None:
        """Apply what was written just now, so that the next search need not; never in anybody's way."""
        if self._index is None or not self._lock.acquire(blocking=False):
            return
        try:
            ready = not self._closed and self._index is not None and self._builder is None
            if ready and self._fits() and self._behind() <= BACKLOG:
                self._apply()
        except BackendUnavailable as error:
            log.info("the search index could not keep up: %s", error)
        finally:
            self._lock.release()

    def _open(self) -> None:
        self._generation = self._store.generation()
        self._slot = take_slot(self._root, self._clock.now(), generation=self._generation)
        if self._store.index.end > BACKLOG:
            copy_from_free_slot(self._slot)
        try:
            self._index = EdgeIndex.open(self._slot.folder)
        except IndexDamaged as error:
            log.info("%s It is built anew.", error)
            self._slot.empty(self._clock.now(), generation=self._generation)
            self._index = EdgeIndex.open(self._slot.folder)
        marker = self._index.marker() or {}
        self._position = int(marker.get("position", 0))
        self._overlaid = str(marker.get("overlay", ""))

    def _let_go(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
        if self._slot is not None:
            self._slot.release(self._clock.now())
            self._slot = None

    def _fits(self) -> bool:
        """Tell whether the index belongs to this journal, these text rules and this foreign file."""
        assert self._index is not None  # noqa: S101 - the caller opened it
        marker = self._index.marker()
        if marker is None:
            return True
        if marker.get("rules") != TEXT_RULES or self._position > self._store.index.end:
            return False
        if self._overlaid and self._overlaid != self._overlay_name() and not self._store.adopted:
            return False
        return marker.get("stamp") == self._stamp(self._position)

    def _stamp(self, position: int) -> str:
        if position == 0:
            return ""
        stamp = self._store.journal.stamp(position)
        return f"{stamp.device}|{stamp.inode}|{stamp.tail}"

    def _start_over(self) -> None:
        assert self._slot is not None  # noqa: S101 - the caller opened it
        if self._index is not None:
            self._index.close()
        self._generation = self._store.generation()
        self._slot.empty(self._clock.now(), generation=self._generation)
        self._index = EdgeIndex.open(self._slot.folder)
        self._position, self._overlaid = 0, ""
        self._makes = PointMaker(self._store)

    def _overlay_name(self) -> str:
        overlay = self._store.overlay
        return overlay.request if overlay is not None else ""

    def _behind(self) -> int:
        overlay = self._store.overlay
        waiting = 0
        if overlay is not None and overlay.request != self._overlaid:
            waiting = len(self._store.index.overlay_line)
        return self._store.index.end - self._position + waiting

    def _apply(self) -> None:
        for _ in self.apply():
            pass

    def apply(self) -> Iterator[int]:
        """Apply the backlog piece by piece, yielding the number of points after each."""
        assert self._index is not None  # noqa: S101 - the caller opened it
        end = self._store.index.end
        while self._position < end:
            lines, rest = lines_of(
                self._store.journal.read(self._position, min(end, self._position + _PIECE)), self._position
            )
            if not lines:
                lines, rest = lines_of(self._store.journal.read(self._position, end), self._position)
            self._write(self._makes.changes(lines), rest)
            yield self._index.size()
        overlay = self._store.overlay
        if overlay is not None and overlay.request != self._overlaid:
            self._overlaid = overlay.request
            line = Line(OVERLAY, encode(overlay).rstrip(b"\n"))
            self._write(self._makes.changes([line]), self._position)
            yield self._index.size()

    def _write(self, changes: Changes, position: int) -> None:
        assert self._index is not None  # noqa: S101 - the caller opened it
        marker: dict[str, str | int] = {
            "rules": TEXT_RULES,
            "position": position,
            "stamp": self._stamp(position),
            "overlay": self._overlaid,
        }
        self._index.apply(changes.points.values(), changes.deletes, marker)
        self._position = position

    def build(self) -> Iterator[int]:
        """Work off the whole backlog here, packing on the way; yield the number of points so far."""
        with self._lock:
            self._open()
            if not self._fits():
                self._start_over()
            assert self._index is not None  # noqa: S101 - just opened
            for number, done in enumerate(self.apply(), 1):
                if number % _PIECES_A_LOOK == 0:
                    self._index.pack()
                yield done
            self._index.pack()

    def _hand_over(self) -> str:
        self._let_go()
        self._builder = Builder(self._store, self._root)
        return self._builder.progress() or "index being built"

    # --- searching ------------------------------------------------------------------------------

    def retrieval(self, view: View, activity: Activity) -> Retrieval:
        """Return what `answer` asks of this store, over one view of it."""
        return Retrieval(self, view, activity)

    def search(
        self, terms: tuple[list[int], list[float]], chosen: Selection, depth: int
    ) -> list[tuple[str, float, str]]:
        """Return ids, scores and kinds, best first; nothing while the index is being built."""
        index = self._index
        if index is None:
            return []
        return index.search(terms, space=chosen.space, filters=filters_of(chosen), limit=depth)

    # --- upkeep ---------------------------------------------------------------------------------

    def forget(self) -> int:
        """Delete every replica that can be; return how many other processes still hold one."""
        with self._lock:
            self._stop_builder()
            self._let_go()
            return drop_free_slots(self._root)

    def size(self) -> int:
        """Return the number of points, 0 while another process builds them."""
        return self._index.size() if self._index is not None else 0

    def place(self) -> str:
        """Return where this process's replica lies."""
        return str(self._slot.folder) if self._slot is not None else "not open"

    def reindex(self) -> None:
        """Delete every free replica; the next search builds this process's own anew."""
        self.forget()

    def _stop_builder(self) -> None:
        if self._builder is not None:
            self._builder.stop()
            self._builder = None

    def close(self) -> None:
        """Flush and release the slot. May be called again."""
        with self._lock:
            self._closed = True
            self._stop_builder()
            self._let_go()
            if self._temporary is not None:
                self._temporary.cleanup()


class Retrieval:
    """The local store as `searching.answer` sees it."""

    def __init__(self, lexical: Lexical, view: View, activity: Activity) -> None:
        self._lexical = lexical
        self._view = view
        self._activity = activity

    def lexical(self, terms: tuple[list[int], list[float]], chosen: Selection, depth: int) -> Retrieved:
        """Return the best items by BM25."""
        hits = self._lexical.search(terms, chosen, depth)
        return Retrieved(
            [(i, score) for i, score, _ in hits], frozenset(i for i, _, kind in hits if kind == "passage")
        )

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        """Return states and the entities that they belong to."""
        return self._view.states(ids, as_of)

    def passages_at(self, places: Collection[Place], as_of: str | None) -> Mapping[Place, State]:
        """Return the passages at places of sessions."""
        return self._view.passages_at(places, as_of)

    def last_used(self, ids: Collection[str]) -> Mapping[str, date]:
        """Return the days of last use."""
        return self._activity.last_used(ids)
