"""Restoring: commits of an export put into a store as they are, each into the file where it belongs."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from rawthink_core.commits import encode
from rawthink_core.operations import RestoreReceipt
from rawthink_local.erasure import erase_returned, without
from rawthink_local.lines import Moved
from rawthink_local.passagelog import is_filed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.commits import Commit
    from rawthink_local.store import Store
    from rawthink_local.view import View

_AT_ONCE = 4 * 2**20  # bytes appended and synced together


def restore(store: Store, space: str, commits: Sequence[Commit]) -> RestoreReceipt:
    """Add commits of a space as they are; those there are skipped, and what was forgotten stays so."""
    restored = skipped = 0
    seen: set[str] = set()
    waiting = _Waiting(store, space)
    forgets = any(row["op"] == "forgotten" for commit in commits for row in commit.rows)
    with store.writing():
        if forgets:
            store.index.refuse_damage()  # of both files: a line that can't be read may hold the text
        for commit in commits:
            fresh = None if commit.id in seen else store.read(space, partial(_unknown_part, commit=commit))
            if fresh is None:
                skipped += 1
                continue
            seen.add(commit.id)
            waiting.add(fresh)
            restored += 1
        waiting.write()
        if forgets:
            erase_returned(store)
    return RestoreReceipt(restored=restored, skipped=skipped)


class _Waiting:
    """Commits that are written together."""

    def __init__(self, store: Store, space: str) -> None:
        self._store = store
        self._space = space
        self._begin()

    def _begin(self) -> None:
        self._commits: list[Commit] = []
        self._filed: list[Commit] = []
        self._created: dict[
            str, bool
        ] = {}  # passages → whether they go into the log of files, and only there
        self._size = 0

    def add(self, commit: Commit) -> None:
        """Let a commit wait, or write what waits where that is much."""
        filed = is_filed(commit, self._which_are_filed)
        (self._filed if filed else self._commits).append(commit)
        for row in commit.rows:
            if row["op"] == "passage":
                self._created[row["id"]] = filed and self._created.get(row["id"], True)
        self._size += len(encode(commit))
        if self._size > _AT_ONCE:
            self.write()

    def _which_are_filed(self, items: set[str]) -> set[str]:
        def ask(view: View) -> set[str]:
            waiting = {item for item in items if self._created.get(item) and not view.mentions(item)}
            return waiting | view.filed({item for item in items if self._created.get(item, True)})

        return self._store.read(self._space, ask)

    def write(self) -> None:
        """Write what waits."""
        store = self._store
        if self._filed and store.index.filed is not None:
            store.index.filed.refuse_damage()  # before anything is written
        if self._commits:
            store.append(store.look(), self._commits)
        if self._filed:
            self._write_filed()
        self._begin()

    def _write_filed(self) -> None:
        store = self._store
        for _ in store.attempts():
            with suppress(Moved):  # somebody deletes the log just now: it is begun anew
                store.append(store.look(), (), self._filed)
                return
        raise store.restless()


def _unknown_part(view: View, commit: Commit) -> Commit | None:
    """Return a commit without rows of forgotten items; None where the store has the commit already."""
    if view.commit(commit.id) is not None:
        return None
    gone = {item for item in {row["id"] for row in commit.rows} if _was_forgotten(view, item, commit)}
    return without(commit, gone) if gone else commit


def _was_forgotten(view: View, item: str, commit: Commit) -> bool:
    """Tell whether an item is forgotten, or was after this commit and has come to be anew since."""
    state = view.state(item)
    if state is None or state.forgotten:
        return state is not None
    rows = view.rows([item])[item]
    marks = [(row.at, row.commit) for row in rows if row.row["op"] == "forgotten"]
    return bool(marks) and (commit.at, commit.id) < max(marks)
