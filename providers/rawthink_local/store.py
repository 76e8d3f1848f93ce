"""The store: what one journal and its row index do together. Synchronous; the provider runs it in threads.

Reading takes no lock. Writing happens under the lock of the store: look what is new, plan, append one
line, done. Its cost does not grow with the store.
"""

from __future__ import annotations

import time
import uuid
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from rawthink_core.clock import iso, to_micros
from rawthink_core.commits import Commit, Header, digest, encode, new_header, receipt_of
from rawthink_core.config import machine_zone
from rawthink_core.errors import BackendError, BackendUnavailable, BatchIdReused, InvalidRequest
from rawthink_core.graph import Slice, needs, plan, prepare
from rawthink_core.operations import RestoreReceipt
from rawthink_core.searching import text_of
from rawthink_local.erasure import erase_returned, without
from rawthink_local.journal import Journal
from rawthink_local.lines import Line, Moved, read_line
from rawthink_local.lookup import OVERLAY, RowIndex
from rawthink_local.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from rawthink_core.graph import Rules, Work
    from rawthink_core.operations import Batch, RecordReceipt
    from rawthink_core.provider import World
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection
    from rawthink_local.adoption import Adoption

    T = TypeVar("T")

_RESTORE_AT_ONCE = 4 * 2**20  # bytes appended and synced together
_TRIES = 3
_PATIENCE = 5.0  # seconds of looking again while others put one journal after the other in place


class Store:
    """One store folder, for one process. Safe to use from many threads."""

    def __init__(self, folder: Path, index_file: Path | None, world: World, lock_seconds: float) -> None:
        self.journal = Journal(folder, lock_seconds)
        self.index = RowIndex(self.journal, index_file)
        self.world = world
        self.adoption: Adoption | None = None
        self._header: Callable[[], Header] | None = None
        self._laid: Commit | None = None

    def open(self, header: Callable[[], Header], *, keep_out: bool = False) -> Header:
        """Open the store, creating it where there is none. Raises StoreTooNew or a BackendError.

        With ``keep_out`` (a foreign file lies there) nothing is created before the first write.
        """
        self._header = header
        if not self.journal.exists():
            if keep_out:
                return header()
            self.journal.create(header)
        found = self.journal.header()
        self.index.refresh()
        if self.journal.unfinished():
            self._tidy()
        return found

    def _tidy(self) -> None:
        """Delete what a `forget` that was killed has left, or leave that to the next write."""
        with suppress(BackendError), self.journal.locked():
            self.journal.tidy()

    def degraded(self) -> str | None:
        """Say what can't be read, if anything."""
        damage = self.index.damage()
        if not damage:
            return None
        return f"{len(damage)} line(s) of {self.journal.path} can't be read; see `rawthink doctor`"

    def close(self) -> None:
        """Release everything. May be called again."""
        self.index.close()

    # --- reading --------------------------------------------------------------------------------

    def look(self) -> Commit | None:
        """See what was written since the last look, by whomever; return what is still to be adopted."""
        for _ in self._attempts():
            with suppress(Moved):
                self.index.refresh()
                return self.adoption.look() if self.adoption is not None else None
        raise self._restless()

    @staticmethod
    def _attempts() -> Iterator[int]:
        end = time.monotonic() + _PATIENCE
        for attempt in count():
            if attempt > _TRIES and time.monotonic() > end:
                return
            yield attempt

    def _restless(self) -> BackendUnavailable:
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
        return View(self.journal, self.index, space)

    def read(self, space: str, ask: Callable[[View], T]) -> T:
        """Return what ``ask`` reads from a view, looking again where the journal was replaced meanwhile."""
        for attempt in self._attempts():
            try:
                self.look()
                with self.view(space) as view:
                    return ask(view)
            except Moved:
                if attempt == 1:
                    self.index.check()  # not moved, maybe, but damaged where it was whole
        raise self._restless()

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

    def scan(
        self, chosen: Selection, after: tuple[int, str], limit: int
    ) -> tuple[list[State], tuple[int, str] | None]:
        """Return the next items that pass, and where to go on (None: that was all)."""

        def ask(view: View) -> tuple[list[State], tuple[int, str] | None]:
            found: list[State] = []
            last = after
            while True:
                born = view.born_after(*last, limit)
                states = view.states({item for _, item in born}, chosen.as_of)
                for at, item in born:
                    state = states.get(item)
                    if state is None or to_micros(datetime.fromisoformat(state.recorded_at)) != at:
                        continue
                    owner = state if state.kind == "entity" else states.get(state.row.get("entity", ""))
                    if not chosen.passes(state, owner):
                        continue
                    if len(found) == limit:
                        return found, last
                    found.append(state)
                    last = (at, item)
                if len(born) < limit:
                    return found, None
                last = (born[-1][0], born[-1][1])

        return self.read(chosen.space, ask)

    def commits(self, space: str) -> Iterator[Commit]:
        """Yield every commit of a space once, in the order of time: as they are when the first is asked for.

        Raises StoreDamaged where lines can't be read, because a part would pass for the whole.
        """
        for _ in self._attempts():
            with suppress(Moved):
                pending = self.look()
                view = self.view(space).__enter__()
                break
        else:
            raise self._restless()
        with closing(view):
            self.index.refuse_damage()
            if pending is not None and pending.space == space:
                yield pending
            yield from view.commits()

    # --- writing --------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock, having seen what is new; set a torn tail aside, refuse where lines are damaged."""
        if not self.journal.exists() and self._header is not None:
            self.journal.create(self._header)
        with self.journal.locked():
            self.journal.tidy()
            self.index.refresh()
            self.index.refuse_damage()
            if self.index.torn:
                self.journal.cut_torn_tail(self.index.end, self.world.clock.now())
                self.index.refresh()
            if self.index.end == 0 and self._header is not None:  # the header itself was torn
                self.journal.rewrite(self._header(), ())
                self.index.refresh()
            if self.journal.read(self.index.end - 1, self.index.end) != b"\n":
                self.journal.append(b"\n", self.index.end)  # an editor took the last line break away
                self.index.refresh()
            yield

    def next_instant(self) -> datetime:
        """Return the time of the next commit: the clock's, but later than every commit before."""
        now = self.world.clock.now()
        pending = self.overlay
        last = max(self.index.last_at, pending.at if pending is not None else "")
        if iso(now) > last:
            return now
        return datetime.fromisoformat(last) + timedelta(microseconds=1)

    def append(self, *commits: Commit) -> None:
        """Append commits, synced. Under the lock."""
        lines = [encode(commit) for commit in commits]
        position = self.index.end
        state = self.journal.append(b"".join(lines), position)
        for line, commit in zip(lines, commits, strict=True):
            self.index.appended(Line(position, line[:-1]), commit, state)
            position += len(line)
        self.index.refresh()

    def _adopt_and_append(self, foreign: Commit | None, commits: Sequence[Commit]) -> None:
        """Append commits; before the first of our own, what is to be adopted."""
        self.append(*((foreign,) if foreign is not None else ()), *commits)

    def record(self, batch: Batch, rules: Rules) -> RecordReceipt:
        """Write a batch. Raises what `plan` raises, BatchIdReused or a BackendError."""
        work, request = prepare(batch, rules), digest(batch)
        with self.writing():
            return self.read(batch.scope.space, lambda view: self._record(view, batch, request, work))

    def _record(self, view: View, batch: Batch, request: str, work: Work) -> RecordReceipt:
        foreign = self.overlay
        known_commit = view.commit(batch.id)
        if known_commit is not None:
            if known_commit.request != request:
                raise BatchIdReused(f"batch id {batch.id!r} was used for other content; use a new id")
            return receipt_of(known_commit)
        known, at = Slice(), self.next_instant()
        while wanted := needs(work, known, at):
            known.learn(view.facts(wanted))
        rows = plan(work, known, at)
        commit = Commit(batch.id, iso(at), batch.scope.space, rows, work.by, request)
        if self.look() is not foreign:
            raise Moved  # the foreign file changed since it was looked at
        self._adopt_and_append(foreign, [commit])
        return receipt_of(commit)

    def restore(self, space: str, commits: Sequence[Commit]) -> RestoreReceipt:
        """Add commits as they are; those already there are skipped, and what was forgotten stays so."""
        if any(commit.space != space for commit in commits):
            raise InvalidRequest("a commit of another space can't be restored into this one")
        restored = skipped = size = 0
        seen: set[str] = set()
        waiting: list[Commit] = []
        with self.writing():
            for commit in commits:
                fresh = None if commit.id in seen else self.read(space, partial(_unknown_part, commit=commit))
                if fresh is None:
                    skipped += 1
                    continue
                seen.add(commit.id)
                waiting.append(fresh)
                restored += 1
                size += len(encode(fresh))
                if size > _RESTORE_AT_ONCE:
                    self._adopt_and_append(self.look(), waiting)
                    waiting, size = [], 0
            if waiting:
                self._adopt_and_append(self.look(), waiting)
            if any(row["op"] == "forgotten" for commit in commits for row in commit.rows):
                erase_returned(self)
        return RestoreReceipt(restored=restored, skipped=skipped)


def _unknown_part(view: View, commit: Commit) -> Commit | None:
    """Return a commit without rows of forgotten items; None where the store has the commit already."""
    if view.commit(commit.id) is not None:
        return None
    ids = {row["id"] for row in commit.rows}
    gone = {item for item in ids if (state := view.state(item)) is not None and state.forgotten}
    return without(commit, gone) if gone else commit


def header_of(world: World) -> Header:
    """Return the header of a new store, in the zone of the settings or of this machine."""
    return new_header(str(uuid.uuid4()), world.clock.now(), world.timezone or machine_zone())
