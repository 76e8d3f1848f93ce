"""The search index of one space: points in a table, kept up with the log by whoever searches or has written.

A large backlog (a big import) is worked off beside the searches, which say meanwhile how far it is. The index
is derived: where files of it are gone, by whose hand ever, it is built anew and nobody need know.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from rawthink_core.errors import BackendError
from rawthink_lancedb import sql
from rawthink_lancedb.errors import Raced, Vanished
from rawthink_lancedb.filters import RETIRED
from rawthink_lancedb.point_table import PointTable
from rawthink_lancedb.point_vectors import PointVectors
from rawthink_lancedb.points import bodies, changes, states_again
from rawthink_lancedb.statistics import COLUMNS, Statistics
from rawthink_lancedb.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rawthink_lancedb.engine import Engine
    from rawthink_lancedb.locks import Locks
    from rawthink_lancedb.log import Log
    from rawthink_lancedb.points import Changes
    from rawthink_lancedb.vectors import Vectors

    T = TypeVar("T")

log = logging.getLogger("rawthink.lancedb")

BACKLOG: Final = 2_000  # rows that a search applies before it answers
_SLICE: Final = 2_000


class Index:
    """The search index of one space. Safe to use from many threads."""

    def __init__(self, engine: Engine, space_log: Log, locks: Locks) -> None:
        self.log = space_log
        self.points = PointTable(engine, space_log.space, locks)
        self.table = self.points.table
        self.vectors = PointVectors(space_log.space, self.points)
        self.statistics = Statistics()
        self.grown: Callable[[], None] = lambda: None  # told of what this process has written
        self.trouble: str | None = None  # why the last upkeep did not succeed
        self._engine = engine
        self._locks = locks
        self._lock = threading.Lock()
        self._applying = threading.Lock()
        self._counted = (0, 0)  # the making of the table and the erasures that the statistics are of
        self._active: tuple[tuple[int, int], bool] = ((-1, -1), False)
        self._builder: threading.Thread | None = None
        self._stop = threading.Event()

    def close(self) -> None:
        """Stop what works beside the searches. May be called again."""
        self._stop.set()
        if self._builder is not None:
            self._builder.join()
            self._builder = None

    # --- files that are gone --------------------------------------------------------------------

    def sound(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns; where files of the index are gone, look anew, then build it anew.

        Raises Vanished where they go again and again, or a BackendError.
        """
        for attempt in range(3):
            try:
                return work()
            except Vanished as error:
                if error.table != self.table.name or attempt == 2:  # noqa: PLR2004 - the last
                    raise
                log.info("files of the search index %s are gone; looking anew", self.table.name)
                making = self.points.making
                self.points.look_anew()
                if attempt:
                    self.points.make_anew(making)
        raise AssertionError  # the third attempt returns or raises

    # --- keeping up -----------------------------------------------------------------------------

    def catch_up(self) -> str | None:
        """Apply what the log has more; say how far it is where that takes longer than a search may.

        The log was looked at just before. Raises Vanished or a BackendError.
        """
        target = self.log.ledger.last_rid
        if not target:
            return None
        self.points.look()
        if self.points.applied < target:
            if self.log.ledger.behind(self.points.applied) > BACKLOG:
                self._build()
                self._count()
                return self.progress()
            self.apply(target)
        self._count()
        return None

    def progress(self) -> str | None:
        """Say how much of the log is applied, None where that is all."""
        rows, behind = self.log.ledger.rows, self.log.ledger.behind(self.points.applied)
        return f"index {rows - behind:,} of {rows:,} rows" if behind else None

    def look(self) -> str | None:
        """See how far it is, without applying anything; making no table where there is none."""
        if self.table.found():
            self.sound(self.points.look)
        return self.progress()

    def drop(self) -> None:
        """Empty the index: the next search builds it anew."""
        if self.table.found():
            self.points.make_anew()

    def _count(self) -> None:
        """Count the terms of what is new in the index; all of it anew where something was erased."""
        counted = (self.points.making, self.log.ledger.erasures)
        if counted != self._counted:
            self._counted = counted
            self.statistics.forget()
        seen, until = self.statistics.seen, self.points.applied
        if until <= seen or self.statistics.settled:
            return
        where = f"created > {sql.number(seen)} AND created <= {sql.number(until)}"
        self.statistics.learn(self.points.rows(where, COLUMNS), until)

    def all_active(self) -> bool:
        """Tell whether no point was ever retired: then to ask for active ones costs time and changes nothing.

        Looked at once after each change, until one was. Should others retire one meanwhile, core sees that in
        the log.
        """
        making, applied = self.points.making, self.points.applied
        (seen, until), active = self._active
        if seen != making or (active and until != applied):
            active = not self.table.ask("reading", lambda table: table.count_rows(RETIRED))
            self._active = ((making, applied), active)
        return active

    # --- a large backlog ------------------------------------------------------------------------

    def _build(self) -> None:
        with self._lock:
            if self._stop.is_set() or (self._builder is not None and self._builder.is_alive()):
                return
            self._builder = threading.Thread(
                target=self._work_off, name="rawthink-lancedb-index", daemon=True
            )
            self._builder.start()

    def _work_off(self) -> None:
        try:
            while not self._stop.is_set() and self.points.applied < (target := self.log.ledger.last_rid):
                end = self.log.ledger.slice_after(self.points.applied, _SLICE) or target
                self.sound(lambda end=end: self.apply(end))  # type: ignore[misc] # bound in this round
        except BackendError as error:  # the next search starts it again
            log.warning("the search index of %s stopped growing: %s", self.table.name, error)

    # --- applying -------------------------------------------------------------------------------

    def apply(self, until: int, seconds: float | None = None) -> None:
        """Apply the log up to a row; wait for others so long. Raises Vanished or a BackendError."""
        with self._applying, self._locks.held(self.table.name, seconds=seconds):
            for _ in self._engine.tries():
                try:
                    self.points.look()
                    while (before := self.points.applied) < until:
                        self._apply_slice(min(until, self.log.ledger.slice_after(before, _SLICE)))
                        if self.points.applied == before:  # others wrote too: see what they did
                            self.points.look()
                except Raced:
                    continue
                return

    def _apply_slice(self, end: int) -> None:
        view = View(self.log)
        self._write(view, changes(view, self.log.span(self.points.applied, end)), end)

    def write_again(self, items: Iterable[str]) -> None:
        """Write points as they are now, with vectors that have come. Raises Vanished or a BackendError."""
        self.log.look()
        wanted = list(items)
        with self._applying, self._locks.held(self.table.name):
            for _ in self._engine.tries():
                try:
                    self.points.look()
                    view = View(self.log)
                    self._write(view, states_again(view, wanted), None)
                except Raced:
                    continue
                return

    def _write(self, view: View, found: Changes, end: int | None) -> None:
        self.vectors.prepare()
        states = list(found.states.values())
        rows = bodies(view, states, self.log.ledger.last_rid)
        known = self.vectors.known([state.id for state in states if state.id not in found.fresh])
        for row, state in zip(rows, states, strict=True):
            self.vectors.give(row, state, known.get(state.id))
        if found.deletes:
            self.points.delete(found.deletes)
        if self.points.merge(rows, end):
            self.grown()

    # --- vectors --------------------------------------------------------------------------------

    def waiting(self, limit: int) -> list[str]:
        """Return ids of items that wait for their vectors."""

        def work() -> list[str]:
            return self.vectors.waiting(limit) if self.catch_up() is None else []

        return self.sound(work) if self.vectors.kept is not None and self.log.look() else []

    def waiting_count(self) -> int:
        """Count the items that wait for their vectors; what is not in the index yet waits too."""
        if not self.log.look() or self.vectors.kept is None:
            return self.log.ledger.items

        def work() -> int:
            self.points.look()
            behind = self.log.ledger.behind(self.points.applied)  # first: what is applied meanwhile may wait
            return behind + self.vectors.waiting_count()

        return self.sound(work)

    def vectors_of(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of those of some texts by which items are found."""

        def work() -> dict[str, Vectors]:
            return self.vectors.of(texts) if self.catch_up() is None else {}

        return self.sound(work) if self.log.look() else {}

    def drop_vectors(self) -> None:
        """Delete the vectors of every model but the present one."""

        def work() -> None:
            with self._applying, self._locks.held(self.table.name):
                self.points.look()
                self.vectors.drop_others()

        if self.log.look():
            self.sound(work)
