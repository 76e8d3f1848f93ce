"""The store: what one journal and its row index do together. Synchronous; the provider runs it in threads.

Reading takes no lock. Writing happens under the lock of the store: look what is new, plan, append one
line, done. Its cost does not grow with the store.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rawthink_core.clock import iso, to_micros
from rawthink_core.commits import Commit, Header, digest, encode, new_header, receipt_of
from rawthink_core.config import machine_zone
from rawthink_core.errors import BackendUnavailable, BatchIdReused, InvalidRequest
from rawthink_core.graph import Slice, needs, plan, prepare
from rawthink_core.identity import looks_like_id
from rawthink_core.operations import RestoreReceipt
from rawthink_core.text import identity_key
from rawthink_local.journal import Journal, Line, read_line
from rawthink_local.lookup import OVERLAY, RowIndex
from rawthink_local.view import Moved, View

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from rawthink_core.graph import Rules, Work
    from rawthink_core.operations import Batch, Forget, RecordReceipt
    from rawthink_core.provider import World
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection
    from rawthink_local.adoption import Adoption

    T = TypeVar("T")

_RESTORE_AT_ONCE = 4 * 2**20  # bytes appended and synced together
_TRIES = 3


class Store:
    """One store folder, for one process. Safe to use from many threads."""

    def __init__(self, folder: Path, index_file: Path | None, world: World, lock_seconds: float) -> None:
        self.journal = Journal(folder, lock_seconds)
        self.index = RowIndex(self.journal, index_file)
        self._world = world
        self._header: Callable[[], Header] | None = None
        self._adoption: Adoption | None = None
        self._adopting = threading.RLock()
        self._adopted = False
        self._overlay: Commit | None = None

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
        return found

    def adopt_from(self, adoption: Adoption) -> None:
        """Read a foreign file in place, as part of its space, until the first write adopts it."""
        self._adoption = adoption

    @property
    def adoption(self) -> Adoption | None:
        """The foreign file, for reports."""
        return self._adoption

    def _see_foreign(self) -> Commit | None:
        """Return what is still to be adopted, laid over the index so that reads see it."""
        adoption = self._adoption
        if adoption is None or self._adopted:
            return None
        with self._adopting:
            changed = adoption.changed()
            if self.index.end and self._has_adopted(adoption):
                self._adopted, self._overlay = True, None
                self.index.lay_over(None)
            elif changed:
                self._overlay = adoption.commit(self._world.clock.now())
                self.index.lay_over(self._overlay)
            return self._overlay

    def _has_adopted(self, adoption: Adoption) -> bool:
        spots = self.index.find("commit", adoption.space, adoption.commit_id)
        return any(spot.position < OVERLAY for spot in spots)

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

    def look(self) -> None:
        """See what was written since the last look, by whomever, the foreign file included."""
        self.index.refresh()
        self._see_foreign()

    @property
    def overlay(self) -> Commit | None:
        """What is read in place of a foreign file, until it is adopted."""
        return self._overlay

    @property
    def adopted(self) -> bool:
        """Whether the foreign file has been copied into the journal."""
        return self._adopted

    def adopted_digest(self) -> str | None:
        """Return the digest of the foreign file as it was when it was adopted."""
        adoption = self._adoption
        if adoption is None:
            return None
        commit = self.read(adoption.space, lambda view: view.commit(adoption.commit_id))
        return commit.request if commit else None

    def lay_over(self, line: bytes) -> None:
        """Read on as if a line stood at the end of the journal."""
        commit = read_line(Line(0, line))
        if isinstance(commit, Commit):
            self._overlay = commit
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
        self.look()
        for _ in range(_TRIES):
            try:
                with self.view(space) as view:
                    return ask(view)
            except Moved:
                continue
        raise BackendUnavailable(
            f"{self.journal.path} changed {_TRIES} times while it was read: something rewrites it. Try again"
        )

    def scan(
        self, chosen: Selection, after: tuple[int, str], limit: int
    ) -> tuple[list[State], tuple[int, str] | None]:
        """Return the next items that pass, and where to go on (None: that was all)."""

        def ask(view: View) -> tuple[list[State], tuple[int, str] | None]:
            found: list[State] = []
            last = after
            while True:
                born = self.index.born_after(chosen.space, *last, limit)
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
        """Yield every commit of a space, in the order of time."""
        self.index.refresh()
        places = []
        for line in self.index.lines():
            commit = read_line(line)
            if isinstance(commit, Commit) and commit.space == space:
                places.append((commit.at, commit.id, line.position, len(line.data)))
        for _, _, position, length in sorted(places):
            commit = read_line(Line(position, self.journal.read(position, position + length)))
            if isinstance(commit, Commit):
                yield commit

    # --- writing --------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock, having seen what is new; set a torn tail aside, refuse where lines are damaged."""
        if not self.journal.exists() and self._header is not None:
            self.journal.create(self._header)
        with self.journal.locked():
            self.index.refresh()
            self.index.refuse_damage()
            if self.index.torn:
                self.journal.cut_torn_tail(self.index.end, self._world.clock.now())
                self.index.refresh()
            yield

    def next_instant(self) -> datetime:
        """Return the time of the next commit: the clock's, but later than every commit before."""
        now = self._world.clock.now()
        last = self.index.last_at
        if iso(now) > last:
            return now
        return datetime.fromisoformat(last) + timedelta(microseconds=1)

    def append(self, *commits: Commit) -> None:
        """Append commits, synced; before the first of our own, what is to be adopted."""
        lines = [encode(commit) for commit in commits]
        position = self.index.end
        state = self.journal.append(b"".join(lines), position)
        for line, commit in zip(lines, commits, strict=True):
            self.index.appended(Line(position, line[:-1]), commit, state)
            position += len(line)
        self.index.refresh()

    def record(self, batch: Batch, rules: Rules) -> RecordReceipt:
        """Write a batch. Raises what `plan` raises, BatchIdReused or a BackendError."""
        work, request = prepare(batch, rules), digest(batch)
        with self._writing():
            return self.read(batch.scope.space, lambda view: self._record(view, batch, request, work))

    def _record(self, view: View, batch: Batch, request: str, work: Work) -> RecordReceipt:
        known_commit = view.commit(batch.id)
        if known_commit is not None:
            if known_commit.request != request:
                raise BatchIdReused(f"batch id {batch.id!r} was used for other content; use a new id")
            return receipt_of(known_commit)
        known = Slice()
        while wanted := needs(work, known):
            known.learn(view.facts(wanted))
        at = self.next_instant()
        rows = plan(work, known, at)
        by = batch.provenance.model_dump(mode="json", exclude_none=True) if batch.provenance else None
        commit = Commit(batch.id, iso(at), batch.scope.space, rows, by, request)
        foreign = self._see_foreign()
        self.append(*((foreign,) if foreign else ()), commit)
        return receipt_of(commit)

    def restore(self, space: str, commits: Sequence[Commit]) -> RestoreReceipt:
        """Add commits as they are; those already there are skipped, and what was forgotten stays so."""
        if any(commit.space != space for commit in commits):
            raise InvalidRequest("a commit of another space can't be restored into this one")
        restored = skipped = size = 0
        seen: set[str] = set()
        waiting: list[Commit] = []
        with self._writing():
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
                    self.append(*waiting)
                    waiting, size = [], 0
            if waiting:
                self.append(*waiting)
        return RestoreReceipt(restored=restored, skipped=skipped)

    def repair(self) -> list[tuple[str, Path]]:
        """Set damaged lines and a torn tail aside, keeping the rest; return what went where."""
        if not self.journal.exists():
            return []
        kept: list[tuple[str, Path]] = []
        with self.journal.locked():
            self.index.refresh()
            now = self._world.clock.now()
            if self.index.torn:
                kept.append(("a torn tail", self.journal.cut_torn_tail(self.index.end, now)))
                self.index.refresh()
            damage = self.index.damage()
            if damage:
                bad = {item.position for item in damage}
                aside = b"".join(line.data + b"\n" for line in self.index.lines() if line.position in bad)
                kept.append((f"{len(damage)} damaged line(s)", self.journal.set_aside(aside, now)))
                good = (line.data + b"\n" for line in self.index.lines() if line.position not in bad)
                headless = (line for line in good if not line.startswith(b'{"v":1,"store":'))
                self.journal.rewrite(self.journal.header(), headless)
                self.index.refresh()
        return kept

    # --- forgetting -----------------------------------------------------------------------------

    def forget(self, request: Forget) -> tuple[list[State], list[str]]:
        """Erase items from the journal; return what they were, and what was not found."""
        space = request.scope.space
        with self._writing():
            if (pending := self._see_foreign()) is not None:
                self.append(pending)
            chosen, missing = self.read(space, lambda view: self._to_forget(view, request))
            if not chosen:
                return [], missing
            at = self.next_instant()
            marks = tuple({"op": "forgotten", "of": chosen[item].kind, "id": item} for item in sorted(chosen))
            mark = Commit(self._world.ids.new(), iso(at), space, marks)
            header = self.journal.header()
            following = Header(header.store, header.created, header.timezone, header.generation + 1)
            self.journal.rewrite(following, self._lines_without(space, chosen.keys(), mark))
            self.index.refresh()
        return list(chosen.values()), missing

    def _to_forget(self, view: View, request: Forget) -> tuple[dict[str, State], list[str]]:
        if request.everything:
            return self._everything(request.scope.space, view), []
        wanted = {item.lower() if looks_like_id(item) else item for item in request.ids}
        found = {s.id: s for item in wanted if (s := view.state(item)) is not None and not s.forgotten}
        missing = sorted(wanted - found.keys())
        keys = {name: identity_key(name) for name in request.names}
        named = view.named(set(keys.values()))
        missing += [name for name, key in keys.items() if key not in named]
        found |= dict(view.states(set(named.values())))
        for session in request.sessions:
            inside = {s.id: s for s in view.session(session)}
            missing += [] if inside else [session]
            found |= inside
        entities = {item for item, state in found.items() if state.kind == "entity"}
        for state in (*view.about(entities), *view.links(entities)):
            found[state.id] = state
        return found, missing

    def _everything(self, space: str, view: View) -> dict[str, State]:
        ids = {row["id"] for commit in self.commits(space) for row in commit.rows}
        states = ((item, view.state(item)) for item in ids)
        return {item: state for item, state in states if state is not None and not state.forgotten}

    def _lines_without(self, space: str, gone: Collection[str], mark: Commit) -> Iterator[bytes]:
        for line in self.index.lines():
            commit = read_line(line)
            if not isinstance(commit, Commit):
                continue  # the header is written anew; damaged lines were refused before
            if commit.space == space and any(row["id"] in gone for row in commit.rows):
                rows = tuple(row for row in commit.rows if row["id"] not in gone or row["op"] == "forgotten")
                kept = Commit(commit.id, commit.at, commit.space, rows, commit.by, commit.request)
                yield encode(kept)
            else:
                yield line.data + b"\n"
        yield encode(mark)


def _unknown_part(view: View, commit: Commit) -> Commit | None:
    """Return a commit without rows of forgotten items; None where the store has the commit already."""
    if view.commit(commit.id) is not None:
        return None
    ids = {row["id"] for row in commit.rows}
    gone = {item for item in ids if (state := view.state(item)) is not None and state.forgotten}
    if not gone:
        return commit
    rows = tuple(row for row in commit.rows if row["id"] not in gone or row["op"] == "forgotten")
    return Commit(commit.id, commit.at, commit.space, rows, commit.by, commit.request)


def header_of(world: World) -> Header:
    """Return the header of a new store, in the zone of the settings or of this machine."""
    return new_header(str(uuid.uuid4()), world.clock.now(), world.timezone or machine_zone())
