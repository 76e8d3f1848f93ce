"""The search index as this process has it open: where it lies, and how far it has come in each log."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rawthink_core.commits import encode
from rawthink_core.errors import BackendUnavailable
from rawthink_core.text import TEXT_RULES
from rawthink_local.lines import Line, Moved, lines_of
from rawthink_local.lookup import OVERLAY
from rawthink_local.points import Changes, PointMaker, filters_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rawthink_core.selection import Selection
    from rawthink_local.fields import Match, Terms
    from rawthink_local.lookup import RowIndex
    from rawthink_local.places import Index, IndexPlace
    from rawthink_local.store import Store
    from rawthink_local.vectors import Kept

BACKLOG = 512 * 2**10  # bytes of journal that are applied on the spot: about a thousand observations
_PIECE = 128 * 2**10
_PIECES_A_LOOK = 4
_MARKS = (("position", "stamp"), ("filed_position", "filed_stamp"))  # in the marker, for each log
_LINES_A_LOOK = 1_000  # applied since it was last asked whether packing is worth it


class Replica:
    """One place and the index in it. Not safe to share between threads."""

    def __init__(self, store: Store, place: IndexPlace, kept: Kept | None = None) -> None:
        self._store = store
        self._kept = kept
        self._place = place
        self._makes = PointMaker(store, kept)
        self._index: Index | None = None
        self._positions = [0, 0]  # up to where it holds the journal, and the log of files
        self._stamps = ["", ""]
        self._overlaid = ""
        self._passages = False  # whether it ever held any: without, nobody need ask what a hit is
        self._applied = 0

    @property
    def opened(self) -> bool:
        """Whether the index is open."""
        return self._index is not None

    # --- life -----------------------------------------------------------------------------------

    @property
    def _dimensions(self) -> int:
        return self._kept.model.dimensions if self._kept is not None else 0

    def go_by(self, kept: Kept | None) -> None:
        """Take vectors from elsewhere from now on. An index that has others is built anew."""
        self.close_index()
        self._kept = kept
        self._makes = PointMaker(self._store, kept)

    def open(self) -> None:
        """Open the index in its place, made where there is none."""
        much = self._store.index.size > BACKLOG
        self._index = self._place.open(self._store.generation(), self._dimensions, much=much)
        self._remember()

    def _remember(self) -> None:
        marker = (self._index.marker() if self._index is not None else None) or {}
        self._positions = [int(marker.get(name, 0)) for name, _ in _MARKS]
        self._stamps = [str(marker.get(name, "")) for _, name in _MARKS]
        self._overlaid = str(marker.get("overlay", ""))
        self._passages = bool(marker.get("passages", 0))

    def refresh(self) -> None:
        """See what others have written into an index that is shared. Raises IndexLost where it is gone."""
        if self._index is not None and self._place.look(self._index):
            self._remember()

    @contextmanager
    def turn(self, *, wait: bool = True) -> Iterator[bool]:
        """Keep others from writing to the same index; yield False where another one kept us from it."""
        with self._place.turn(wait=wait) as ours:
            if ours:
                self.refresh()
                if self._place.shared:
                    self._store.look()  # another process may have applied what this one has not seen
            yield ours

    def close_index(self) -> None:
        """Flush and close the index; its place stays this process's."""
        index, self._index = self._index, None
        if index is not None:
            with suppress(BackendUnavailable):  # the next to open it will notice
                index.close()

    def let_go(self) -> None:
        """Close the index and release its place. May be called again."""
        self.close_index()
        self._place.release()

    def start_over(self) -> None:
        """Delete the index and make an empty one."""
        self.close_index()
        self._index = self._place.renew(self._store.generation(), self._dimensions)
        self._remember()
        self._makes = PointMaker(self._store, self._kept)

    # --- keeping up -----------------------------------------------------------------------------

    def fits(self) -> bool:
        """Tell whether the index belongs to these logs, these text rules and this foreign file."""
        assert self._index is not None  # noqa: S101 - the caller opened it
        marker = self._index.marker()
        if marker is None:
            return True
        if not self._place.intact():
            return False  # deleted under it
        if marker.get("rules") != TEXT_RULES or marker.get("model") != self._model():
            return False
        return self._overlay_fits() and all(map(self._follows, range(len(_MARKS))))

    def _model(self) -> str:
        return self._kept.model.fingerprint if self._kept is not None else ""

    def _overlay_fits(self) -> bool:
        """Tell whether what was indexed of the foreign file is what is read of it now, or was adopted."""
        overlay = self._store.overlay
        if self._overlaid in ("", overlay.request if overlay is not None else ""):
            return True
        adopted = self._store.adopted()
        if adopted is None or adopted.request != self._overlaid:
            return False
        self._overlaid = ""
        return True

    def _logs(self) -> tuple[RowIndex | None, RowIndex | None]:
        return self._store.index.main, self._store.index.filed

    def _follows(self, number: int) -> bool:
        """Tell whether what the index holds of a log is what still stands there."""
        log, position = self._logs()[number], self._positions[number]
        if not position:
            return True
        if log is None or position > log.end:
            return False
        with log.journal.opened() as file:
            return file is not None and file.stamp(position).text == self._stamps[number]

    def behind(self) -> int:
        """Return how many bytes wait to be applied."""
        overlay = self._store.overlay
        waiting = 0
        if overlay is not None and overlay.request != self._overlaid:
            waiting = len(self._store.index.overlay_line)
        return self._store.index.size - sum(self._positions) + waiting

    def apply(self) -> Iterator[int]:
        """Apply what waits, piece by piece, yielding the number of points after each. Raises Moved."""
        assert self._index is not None  # noqa: S101 - the caller opened it
        for number, log in enumerate(self._logs()):
            if log is not None:
                yield from self._apply(self._index, log, number)
        overlay = self._store.overlay
        if overlay is not None and overlay.request != self._overlaid:
            changes = self._makes.changes([Line(OVERLAY, encode(overlay).rstrip(b"\n"))])
            self._overlaid = overlay.request
            self._write(changes, self._positions, self._stamps)
            yield self._index.size()

    def _apply(self, index: Index, log: RowIndex, number: int) -> Iterator[int]:
        end, identity = log.end, log.identity
        if self._positions[number] >= end:
            return
        with log.journal.opened() as file:
            if file is None or (file.state.st_dev, file.state.st_ino) != identity[1:]:
                raise Moved
            while (start := self._positions[number]) < end:
                lines, rest = lines_of(file.read(start, min(end, start + _PIECE)), start)
                if not lines:
                    lines, rest = lines_of(file.read(start, end), start)  # a long line
                if rest == start:
                    raise Moved  # cut short meanwhile
                positions, stamps = self._positions.copy(), self._stamps.copy()
                positions[number], stamps[number] = rest, file.stamp(rest).text
                self._write(self._makes.changes(lines), positions, stamps)
                self._applied += len(lines)
                yield index.size()

    def _write(self, changes: Changes, positions: list[int], stamps: list[str]) -> None:
        assert self._index is not None  # noqa: S101 - the caller opened it
        points = changes.points.values()
        self._passages = self._passages or any(point.place for point in points)
        marker: dict[str, str | int] = {
            "rules": TEXT_RULES,
            "model": self._model(),
            "overlay": self._overlaid,
            "passages": int(self._passages),
        }
        for (position, stamp), at, said in zip(_MARKS, positions, stamps, strict=True):
            marker |= {position: at, stamp: said}
        self._index.apply(points, changes.deletes, marker)
        self._positions, self._stamps = positions, stamps

    def waiting(self, limit: int) -> list[tuple[str, str]]:
        """Return space and id of items that wait for their vectors, at most so many."""
        return self._index.waiting(limit) if self._index is not None else []

    def waiting_count(self) -> int:
        """Count the items that wait for their vectors, 0 while the index is not open."""
        return self._index.waiting_count() if self._index is not None else 0

    def write_again(self, items: Iterable[tuple[str, str]]) -> None:
        """Write the points of items anew, given their space and id: their vectors may have come."""
        assert self._index is not None  # noqa: S101 - the caller opened it
        by_space: dict[str, list[str]] = {}
        for space, item in items:
            by_space.setdefault(space, []).append(item)
        for space, ids in by_space.items():
            changes = self._makes.again(space, ids)
            marker = self._index.marker() or {}
            self._index.apply(changes.points.values(), changes.deletes, marker)

    def tidy(self) -> None:
        """Do what can wait for a quiet moment: note that the place is in use, pack where that is worth it."""
        self._place.tidy()
        if self._index is not None and self._applied >= _LINES_A_LOOK:
            self._applied = 0
            self._index.pack()

    def build(self) -> Iterator[int]:
        """Work off the whole backlog, packing on the way; yield the number of points so far."""
        self.open()
        if not self.fits():
            self.start_over()
        assert self._index is not None  # noqa: S101 - just opened
        for number, done in enumerate(self.apply(), 1):
            if number % _PIECES_A_LOOK == 0:
                self._index.pack()
            yield done
        self._index.pack()

    # --- asking ---------------------------------------------------------------------------------

    def find(
        self, terms: Terms, vector: Sequence[float] | None, chosen: Selection, depth: int
    ) -> tuple[list[Match], list[Match]]:
        """Return ids, scores and places by words, and by meaning, best first; nothing while not open."""
        index = self._index
        if index is None:
            return [], []
        space, filters, places = chosen.space, filters_of(chosen), self._passages
        if vector is None:
            return index.search(terms, space=space, filters=filters, limit=depth, places=places), []
        return index.both(terms, vector, space=space, filters=filters, limit=depth, places=places)

    def size(self) -> int:
        """Return the number of points, 0 while the index is not open."""
        return self._index.size() if self._index is not None else 0
