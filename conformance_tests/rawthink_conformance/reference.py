"""The reference provider: a memory in a list of commits, so plain that it is obviously right.

It is the oracle that other providers are compared with, and the first that passes the suite. It keeps
every commit and answers each question by looking at all of it; nothing is indexed, nothing is clever.
What survives `close` belongs to the `World`'s folder and lasts as long as the process, so that reopening
and a second opener can be tried on it. Each verb works in a thread and leaves the event loop alone.
"""

from __future__ import annotations

from asyncio import to_thread
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rawthink_conformance.brute import facts
from rawthink_conformance.recollection import Recollection
from rawthink_conformance.shelf import known_shelf
from rawthink_core.clock import iso
from rawthink_core.commits import Commit, digest, receipt_of
from rawthink_core.embedding import KeptVectors
from rawthink_core.errors import BatchIdReused, EmbedderMismatch, InvalidRequest
from rawthink_core.graph import Slice, needs, plan, prepare
from rawthink_core.identity import canonical_id
from rawthink_core.operations import (
    Check,
    ForgetReceipt,
    Health,
    MaintainReceipt,
    Place,
    RestoreReceipt,
)
from rawthink_core.rows import State, ends_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from rawthink_core.graph import Facts, Needs, Work
    from rawthink_core.operations import (
        Batch,
        Export,
        Forget,
        Maintain,
        RecordReceipt,
        Scope,
    )
    from rawthink_core.rows import Row


class ReferenceProvider(Recollection):
    """All of the contract, in memory."""

    # --- writing --------------------------------------------------------------------------------

    async def record(self, batch: Batch) -> RecordReceipt:
        """Write a batch, and embed it where the embedder can be reached."""
        if (mismatch := self._mismatch) is not None:
            raise EmbedderMismatch(f"{mismatch}. Nothing was written")
        receipt = await to_thread(self._record, batch)
        if self._embeds and (pending := await self._embed(batch.scope.space)):
            return receipt.model_copy(update={"pending_embeddings": pending})
        return receipt

    def _record(self, batch: Batch) -> RecordReceipt:
        with self._shelf.lock:
            if (known := self._committed(batch)) is not None:
                if known.request != digest(batch):
                    raise BatchIdReused(f"batch id {batch.id!r} was used for other content; use a new id")
                return receipt_of(known)
            at = self._next_instant()
            work = prepare(batch, self._rules)
            rows = self._plan(work, at)
            commit = Commit(batch.id, iso(at), batch.scope.space, rows, work.by, digest(batch))
            self._keep(commit)
            return receipt_of(commit)

    def _committed(self, batch: Batch) -> Commit | None:
        for commit in self._shelf.commits:
            if commit.space == batch.scope.space and commit.id == batch.id:
                return commit
        return None

    def _plan(self, work: Work, at: datetime) -> tuple[Row, ...]:
        states, known = self._states(work.space), Slice()
        while wanted := needs(work, known, at):
            known.learn(self._facts(wanted, states))
        return plan(work, known, at)

    def _facts(self, wanted: Needs, states: Mapping[str, State]) -> Facts:
        return facts(wanted, states)

    def _keep(self, commit: Commit) -> None:
        self._shelf.commits.append(commit)

    def _next_instant(self) -> datetime:
        last = max((commit.at for commit in self._shelf.commits), default="")
        now = self._clock.now()
        return now if iso(now) > last else datetime.fromisoformat(last) + timedelta(microseconds=1)

    async def restore(
        self, scope: Scope, commits: Sequence[Commit], vectors: KeptVectors | None = None
    ) -> RestoreReceipt:
        """Add commits as they are, and the vectors that came with them where they are of this model."""
        receipt = await to_thread(self._restore, scope, commits)
        if vectors is not None and self._embeds and vectors.fingerprint == self._world.embedder.fingerprint:
            states = await to_thread(self._standing, scope.space)
            self._shelf.vectors.take(states, vectors.of)
        return receipt

    async def kept_vectors(self, texts: Sequence[str]) -> KeptVectors:
        """Return the vectors of these texts."""
        model = self._shelf.model
        return KeptVectors(model[1], self._shelf.vectors.of_texts(texts)) if model else KeptVectors()

    def _restore(self, scope: Scope, commits: Sequence[Commit]) -> RestoreReceipt:
        with self._shelf.lock:
            if any(commit.space != scope.space for commit in commits):
                raise InvalidRequest("a commit of another space can't be restored into this one")
            known = {commit.id for commit in self._shelf.commits if commit.space == scope.space}
            gone = self._gone(scope.space)
            fresh = [_without(commit, scope.space, gone) for commit in commits if commit.id not in known]
            self._shelf.commits = sorted([*self._shelf.commits, *fresh], key=lambda c: (c.at, c.id))
            return RestoreReceipt(restored=len(fresh), skipped=len(commits) - len(fresh))

    def _gone(self, space: str) -> set[str]:
        """Return the ids of what is forgotten; an entity may have been made again since."""
        rows = (row for commit in self._shelf.commits if commit.space == space for row in commit.rows)
        return {row["id"] for row in rows if row["op"] == "forgotten"} - self._standing(space).keys()

    async def forget(self, request: Forget) -> ForgetReceipt:
        """Erase items: their rows go, and a mark stays so that their ids are never used again."""
        return await to_thread(self._forget, request)

    def _forget(self, request: Forget) -> ForgetReceipt:
        with self._shelf.lock:
            space = request.scope.space
            states = self._standing(space)
            chosen, missing = self._to_forget(request, states)
            if chosen:
                self._erase(space, {item: states[item] for item in chosen})
            places = (Place(place="memory", outcome="erased"),)
            return ForgetReceipt(ids=tuple(sorted(chosen)), missing=missing, places=places)

    def _erase(self, space: str, chosen: Mapping[str, State]) -> None:
        at = self._next_instant()
        self._shelf.commits = [_without(commit, space, chosen) for commit in self._shelf.commits]
        marks = tuple({"op": "forgotten", "of": chosen[i].kind, "id": i} for i in sorted(chosen))
        self._shelf.commits.append(Commit(self._world.ids.new(), iso(at), space, marks))
        for item in chosen:
            self._shelf.used.pop(item, None)
            self._shelf.vectors.forget(item)

    def _to_forget(self, request: Forget, states: dict[str, State]) -> tuple[set[str], tuple[str, ...]]:
        if request.everything:
            return set(states), ()
        wanted = {canonical_id(item) for item in request.ids}
        chosen = wanted & states.keys()
        missing = sorted(wanted - chosen)
        for name in request.names:
            state = self._named(request.scope.space, name)
            if state is None:
                missing.append(name)
            else:
                chosen.add(state.id)
        for session in request.sessions:
            inside = {i for i, s in states.items() if s.row.get("session") == session}
            missing += [] if inside else [session]
            chosen |= inside
        chosen |= {i for i, s in states.items() if any(end in chosen for end in ends_of(s))}
        return chosen, tuple(missing)

    # --- upkeep ---------------------------------------------------------------------------------

    async def export(self, request: Export) -> AsyncIterator[Commit]:
        """Yield every commit of the space."""
        for commit in sorted(self._shelf.commits, key=lambda c: (c.at, c.id)):
            if commit.space == request.scope.space:
                yield commit

    async def maintain(self, request: Maintain) -> MaintainReceipt:  # noqa: ARG002 - nothing to keep up
        """Do nothing: a list needs no upkeep."""
        return MaintainReceipt()

    async def health(self) -> Health:
        """Report the number of commits, or why there is no store or it can't be opened."""
        path = self._world.path
        if any(place.is_file() for place in (path, *path.parents)):
            broken = Check(
                name="store", status="fail", detail=f"{path} is no folder", fix="choose another path"
            )
            return Health(status="down", location=self.info.location, checks=(broken,))
        shelf = self._opened or known_shelf(path)
        if shelf is None:
            none = Check(name="store", status="fail", detail=f"no store at {path} yet", fix="rawthink init")
            return Health(status="down", location=self.info.location, checks=(none,), exists=False)
        held = Check(name="store", status="ok", detail=f"{len(shelf.commits)} commits in memory")
        pending = len(shelf.vectors.waiting(self._everywhere())) if self._embeds and self._opened else 0
        return Health(status="ok", location=self.info.location, checks=(held,), pending_embeddings=pending)

    def _everywhere(self) -> dict[str, State]:
        spaces = {commit.space for commit in self._shelf.commits}
        return {item: state for space in spaces for item, state in self._standing(space).items()}


def _without(commit: Commit, space: str, erased: Collection[str]) -> Commit:
    if commit.space != space:
        return commit
    rows = tuple(row for row in commit.rows if row["id"] not in erased or row["op"] == "forgotten")
    return Commit(commit.id, commit.at, commit.space, rows, commit.by, commit.request)
