"""The store: what its files and their row index do together. Synchronous; the provider runs it in threads.

Reading takes no lock. Writing happens under the lock of the store: look what is new, plan, append one
line, done. Its cost does not grow with the store. The line goes into the journal, or, where all of it is
about passages of files, into the log of files, which can be made again from them.
"""

from __future__ import annotations

import time
import uuid
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from rawthink_core.commits import Commit, Header, new_header, next_instant
from rawthink_core.config import machine_zone
from rawthink_core.draft import Draft
from rawthink_core.errors import BackendError, BackendUnavailable
from rawthink_core.searching import text_of
from rawthink_local.journal import Journal
from rawthink_local.lines import Line, Moved, read_line
from rawthink_local.lock import StoreLock
from rawthink_local.lookup import OVERLAY
from rawthink_local.passagelog import PassageLog, is_filed
from rawthink_local.storeindex import StoreIndex
from rawthink_local.view import View
from rawthink_local.writing import append, append_filed, put_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from rawthink_core.graph import Rules
    from rawthink_core.operations import Batch, RecordReceipt
    from rawthink_core.provider import World
    from rawthink_local.adoption import Adoption

    T = TypeVar("T")

_TRIES = 3
_PATIENCE = 5.0  # seconds of looking again while others put one journal after the other in place


class Store:
    """One store folder, for one process. Safe to use from many threads."""

    def __init__(self, folder: Path, index_file: Path | None, world: World, lock_seconds: float) -> None:
        self.lock = StoreLock(folder, lock_seconds)
        self.journal = Journal(folder)
        self.passages = PassageLog(self.lock.derived, self._id)
        self.index = StoreIndex(self.journal, self.passages, index_file)
        self.world = world
        self.adoption: Adoption | None = None
        self._header: Callable[[], Header] | None = None
        self._laid: Commit | None = None
        self._known_as: tuple[tuple[int, ...], str | None] = ((), None)
        self._was_there = False

    @property
    def derived(self) -> Path:
        """The folder of what is derived and shared by all who open this store."""
        return self.lock.derived

    def _id(self) -> str | None:
        """Return the id of the store, as its journal says it: None without one, empty without a header."""
        identity = self.index.main.identity
        if self._known_as[0] != identity:
            self._known_as = identity, self.journal.header().store if any(identity[1:]) else None
        return self._known_as[1]

    def open(self, header: Callable[[], Header], *, keep_out: bool = False) -> Header:
        """Open the store, creating it where there is none. Raises StoreTooNew or a BackendError.

        With ``keep_out`` (a foreign file lies there) nothing is created before the first write.
        """
        self._header = header
        if not self.journal.exists():
            if keep_out:
                return header()
            self.journal.create(header, self.lock)
        found = self.journal.header()
        self._was_there = True
        self.index.refresh()
        if self.journal.unfinished() or self.passages.unfinished():
            self._tidy()
        return found

    def notice(self, *, there: bool) -> None:
        """Take note of whether there is a journal. Raises BackendUnavailable where there was one.

        Read on, it would pass for an empty memory; written on, a new one would take its place.
        """
        if self._was_there and not there:
            raise BackendUnavailable(
                f"{self.journal.path} was there and is gone: moved, deleted, or on a disk that is not there. "
                "Bring it back; to begin an empty memory in its place, start anew"
            )
        self._was_there = there

    def _tidy(self) -> None:
        """Delete what a `forget` that was killed has left, or leave that to the next write."""
        with suppress(BackendError), self.lock.held():
            self.journal.tidy()
            self.passages.tidy()

    def degraded(self) -> str | None:
        """Say what can't be read, if anything."""
        damaged = [(len(damage), part.journal.path) for part in self.index.parts if (damage := part.damage())]
        if not damaged:
            return None
        told = " and ".join(f"{lines} line(s) of {path}" for lines, path in damaged)
        return f"{told} can't be read; see `rawthink doctor`"

    def close(self) -> None:
        """Release everything. May be called again."""
        self.index.close()

    # --- reading --------------------------------------------------------------------------------

    def look(self) -> Commit | None:
        """See what was written since the last look, by whomever; return what is still to be adopted."""
        for _ in self.attempts():
            with suppress(Moved):
                self.index.refresh()
                self.notice(there=any(self.index.main.identity[1:]))
                return self.adoption.look() if self.adoption is not None else None
        raise self.restless()

    @staticmethod
    def attempts() -> Iterator[int]:
        """Count the attempts that are worth making while files are put in place of others."""
        end = time.monotonic() + _PATIENCE
        for attempt in count():
            if attempt > _TRIES and time.monotonic() > end:
                return
            yield attempt

    def restless(self) -> BackendUnavailable:
        """Return what to raise where no attempt was any use."""
        return BackendUnavailable(
            f"{self.journal.path} changes whenever it is read: something rewrites it over and over. Try later"
        )

    @property
    def overlay(self) -> Commit | None:
        """What is read in place of a foreign file, until it is adopted."""
        return self._laid or (self.adoption.pending if self.adoption is not None else None)

    def adopted(self) -> Commit | None:
        """Return the commit that adopted the foreign file."""
        adoption = self.adoption
        if adoption is None or not adoption.adopted:
            return None
        return self.read(adoption.space, lambda view: view.commit(adoption.commit_id))

    def lay_over(self, line: bytes) -> None:
        """Read on as if a line stood at the end of the journal."""
        commit = read_line(Line(OVERLAY, line))
        if isinstance(commit, Commit):
            self._laid = commit
            self.index.lay_over(commit)

    def generation(self) -> str:
        """Return what changes whenever a journal is rewritten: its store and generation."""
        if not self.journal.exists():
            return "none"
        header = self.journal.header()
        return f"{header.store}:{header.generation}"

    def view(self, space: str) -> View:
        """Return a view of a space, to be entered."""
        return View(self.index, space)

    def read(self, space: str, ask: Callable[[View], T]) -> T:
        """Return what ``ask`` reads from a view, looking again where the journal was replaced meanwhile."""
        for attempt in self.attempts():
            try:
                self.look()
                with self.view(space) as view:
                    return ask(view)
            except Moved:
                if attempt == 1:
                    self.index.check()  # not moved, maybe, but damaged where it was whole
        raise self.restless()

    def texts(self, items: Iterable[tuple[str, str]]) -> list[str]:
        """Return the texts by which items are found, given their spaces and ids; erased ones left out."""
        by_space: dict[str, list[str]] = {}
        for space, item in items:
            by_space.setdefault(space, []).append(item)
        found: list[str] = []
        for space, ids in by_space.items():
            states = self.read(space, partial(View.states, ids=ids))
            found += [text_of(states[item]) for item in ids if item in states]
        return found

    def commits(self, space: str) -> Iterator[Commit]:
        """Yield every commit of a space once, in the order of time: as they are when the first is asked for.

        Raises StoreDamaged where lines can't be read, because a part would pass for the whole.
        """
        for _ in self.attempts():
            with suppress(Moved):
                pending = self.look()
                view = self.view(space).__enter__()
                break
        else:
            raise self.restless()
        with closing(view):
            self.index.refuse_damage()
            if pending is not None and pending.space == space:
                yield pending
            yield from view.commits()

    # --- writing --------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock, having seen what is new; set a torn tail aside, refuse where lines are damaged."""
        self.notice(there=self.journal.exists())
        if not self._was_there and self._header is not None:
            self.journal.create(self._header, self.lock)
        with self.lock.held():
            self.notice(there=self.journal.exists())
            self.journal.tidy()
            self.passages.tidy()
            self.index.refresh()
            if self.passages.drop_untrusted():
                self.index.refresh()
            put_in_order(self.index.main, self.world.clock.now())
            if self.index.end == 0 and self._header is not None:  # the header itself was torn
                self.journal.rewrite(self._header(), ())
                self.index.refresh()
            yield

    def next_instant(self) -> datetime:
        """Return the time of the next commit: the clock's, but later than every commit before."""
        pending = self.overlay
        last = max(self.index.last_at, pending.at if pending is not None else "")
        return next_instant(self.world.clock, last)

    def append(self, foreign: Commit | None, commits: Sequence[Commit], filed: Sequence[Commit] = ()) -> None:
        """Append commits to the journal, and ``filed`` to the log of files, synced. Under the lock.

        Before the first of our own goes what is to be adopted.
        """
        if ours := [*((foreign,) if foreign is not None else ()), *commits]:
            append(self.index.main, ours)
        if filed:
            append_filed(self.passages, self.index, self.journal, filed, self.world.clock.now())

    def record(self, batch: Batch, rules: Rules) -> RecordReceipt:
        """Write a batch. Raises what `plan` raises, BatchIdReused or a BackendError."""
        draft = Draft(batch, rules)
        with self.writing():
            return self.read(draft.space, lambda view: self._record(view, draft))

    def _record(self, view: View, draft: Draft) -> RecordReceipt:
        foreign = self.overlay
        if (known := view.commit(draft.id)) is not None:
            return draft.receipt(known)
        commit = draft.commit(view, self.next_instant())
        if self.look() is not foreign:
            raise Moved  # the foreign file changed since it was looked at
        if is_filed(commit, view.filed):
            self.append(foreign, (), [commit])
        else:
            self.append(foreign, [commit])
        return draft.receipt(commit)


def header_of(world: World) -> Header:
    """Return the header of a new store, in the zone of the settings or of this machine."""
    return new_header(str(uuid.uuid4()), world.clock.now(), world.timezone or machine_zone())
