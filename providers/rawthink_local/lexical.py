"""Search by words: this process's replica of the index, kept up with the journal.

A small backlog is applied on the spot, so a search sees every write that came before it. A large one (a
fresh clone, a big import) is worked off by a process of its own, because the engine would hold up this
one; until then an answer says ``index n of m``.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rawthink_core.commits import encode
from rawthink_core.errors import BackendUnavailable
from rawthink_core.text import TEXT_RULES
from rawthink_local.building import Builder
from rawthink_local.edge import EdgeIndex, IndexDamaged, has_index
from rawthink_local.files import make_folder
from rawthink_local.lines import Line, Moved, lines_of
from rawthink_local.lookup import OVERLAY
from rawthink_local.points import Changes, PointMaker, filters_of
from rawthink_local.replicas import Slot, copy_from_free_slot, drop_free_slots, take_slot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_core.clock import Clock
    from rawthink_core.selection import Selection
    from rawthink_local.lines import Stamp
    from rawthink_local.store import Store

log = logging.getLogger("rawthink.local")

BACKLOG = 512 * 2**10  # bytes of journal that are applied on the spot: about a thousand observations
_PIECE = 128 * 2**10
_PIECES_A_LOOK = 4
_RETRY_SECONDS = 30.0
_FAILURES = 2  # after which building anew is no help


class Lexical:
    """The search index of one process. Safe to use from many threads."""

    def __init__(self, store: Store, root: Path | None, clock: Clock) -> None:
        self._store = store
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._root = self._place(root)
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
            except IndexDamaged as error:
                log.warning("%s. It is built anew.", error)
                self._start_over()
                return self._caught_up()

    def _caught_up(self) -> str | None:
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
        except (BackendUnavailable, Moved) as error:
            log.info("the search index could not keep up: %s", error)
        finally:
            self._lock.release()

    def _take(self) -> Slot:
        if self._slot is None:
            self._slot = take_slot(self._root, self._clock.now(), generation=self._generation)
        return self._slot

    def _open(self) -> None:
        self._generation = self._store.generation()
        slot = self._take()
        if self._store.index.end > BACKLOG:
            copy_from_free_slot(slot)
        try:
            self._index = EdgeIndex.open(slot.folder)
        except IndexDamaged as error:
            log.info("%s. It is built anew.", error)
            slot.empty(self._clock.now(), generation=self._generation)
            self._index = EdgeIndex.open(slot.folder)
        marker = self._index.marker() or {}
        self._position = int(marker.get("position", 0))
        self._overlaid = str(marker.get("overlay", ""))

    def _close_index(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            with suppress(BackendUnavailable):  # the next to open it will notice
                index.close()

    def _let_go(self) -> None:
        self._close_index()
        slot, self._slot = self._slot, None
        if slot is not None:
            with suppress(BackendUnavailable):  # its lock is free all the same
                slot.release(self._clock.now())

    def _fits(self) -> bool:
        """Tell whether the index belongs to this journal, these text rules and this foreign file."""
        assert self._index is not None  # noqa: S101 - the caller opened it
        assert self._slot is not None  # noqa: S101 - see above
        marker = self._index.marker()
        if marker is None:
            return True
        if not has_index(self._slot.folder):
            return False  # deleted under it
        if marker.get("rules") != TEXT_RULES or self._position > self._store.index.end:
            return False
        return self._overlay_fits() and marker.get("stamp") == self._stamp()

    def _overlay_fits(self) -> bool:
        """Tell whether what was indexed of the foreign file is what is read of it now, or was adopted."""
        if self._overlaid in ("", self._overlay_name()):
            return True
        adopted = self._store.adopted()
        if adopted is None or adopted.request != self._overlaid:
            return False
        self._overlaid = ""
        return True

    def _stamp(self) -> str:
        with self._store.journal.opened() as file:
            return "" if file is None else _text(self._position, file.stamp(self._position))

    def _start_over(self) -> None:
        self._close_index()
        self._generation = self._store.generation()
        try:
            self._take().empty(self._clock.now(), generation=self._generation)
        except BackendUnavailable:  # the whole folder was deleted, its lock included
            self._let_go()
            self._take().empty(self._clock.now(), generation=self._generation)
        self._index = EdgeIndex.open(self._take().folder)
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
        index = self._store.index
        end, identity = index.end, index.identity
        with self._store.journal.opened() as file:
            if file is not None and (file.state.st_dev, file.state.st_ino) != identity[1:]:
                raise Moved
            while file is not None and self._position < end:
                start = self._position
                lines, rest = lines_of(file.read(start, min(end, start + _PIECE)), start)
                if not lines:
                    lines, rest = lines_of(file.read(start, end), start)  # a long line
                if rest == start:
                    raise Moved  # cut short meanwhile
                self._write(self._makes.changes(lines), rest, _text(rest, file.stamp(rest)))
                yield self._index.size()
        overlay = self._store.overlay
        if overlay is not None and overlay.request != self._overlaid:
            self._overlaid = overlay.request
            line = Line(OVERLAY, encode(overlay).rstrip(b"\n"))
            self._write(self._makes.changes([line]), self._position, self._stamp())
            yield self._index.size()

    def _write(self, changes: Changes, position: int, stamp: str) -> None:
        assert self._index is not None  # noqa: S101 - the caller opened it
        marker: dict[str, str | int] = {
            "rules": TEXT_RULES,
            "position": position,
            "stamp": stamp,
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

    def search(
        self, terms: tuple[list[int], list[float]], chosen: Selection, depth: int
    ) -> list[tuple[str, float, str]]:
        """Return ids, scores and kinds, best first; nothing while the index is being built.

        Raises Moved where the index was taken away since `catch_up`.
        """
        with self._lock:
            if self._index is None and self._builder is None:
                raise Moved
            if self._index is None:
                return []
            try:
                hits = self._index.search(terms, space=chosen.space, filters=filters_of(chosen), limit=depth)
            except IndexDamaged as error:
                self._failures += 1
                if self._failures > _FAILURES:
                    raise
                log.warning("%s. It is built anew.", error)
                self._start_over()
                raise Moved from error
            self._failures = 0
            return hits

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


def _text(position: int, stamp: Stamp) -> str:
    return f"{stamp.device}|{stamp.inode}|{stamp.tail}" if position else ""
