"""Passages of files that ended: erased from the log of files by upkeep, as their files are the truth.

A passage whose place was taken by another stays as long as that one does, so that its history has no holes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rawthink_core.commits import Commit
from rawthink_core.errors import BackendError
from rawthink_local.erasure import lines_without, rewrite
from rawthink_local.lines import read_line
from rawthink_local.vectors import forget_vectors
from rawthink_local.writing import put_in_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rawthink_core.rows import Row
    from rawthink_local.lookup import RowIndex
    from rawthink_local.parts import Parts
    from rawthink_local.store import Store
    from rawthink_local.view import View


def erase_ended(parts: Parts) -> list[str]:
    """Erase ended passages of files, and what is derived from them; say what was done.

    A log with damaged lines is left as it is: nobody can tell what they hold. Raises BackendError.
    """
    store = parts.store
    with store.lock.held():
        store.index.refresh()
        filed = store.index.filed
        if filed is None or not filed.end or not filed.ended():
            return []
        if (why := store.degraded()) is not None:
            return [f"left the passages of files as they are: {why}"]
        put_in_order(filed, store.world.clock.now())
        gone = _ended(store, filed)
        if not gone:
            return []
        texts = _texts_of(filed, gone)
        rewrite(filed, lines_without(filed, {space: dict.fromkeys(ids) for space, ids in gone.items()}))
    ids = set().union(*gone.values())
    done = [f"erased {len(ids)} passage(s) that are no longer in their files"]
    parts.activity.forget(ids)
    try:
        forget_vectors(store.derived, texts)
    except BackendError as error:
        done.append(f"their vectors are still there: {error}")
    return done


def _rows(filed: RowIndex) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a log, with the space of each."""
    for line in filed.lines():
        commit = read_line(line)
        if isinstance(commit, Commit):
            yield from ((commit.space, row) for row in commit.rows)


def _ended(store: Store, filed: RowIndex) -> dict[str, set[str]]:
    """Return by space the ids of the passages that can go."""
    retired: dict[str, set[str]] = {}
    for space, row in _rows(filed):
        if row["op"] == "retire" and row["status"] == "ended":
            retired.setdefault(space, set()).add(row["id"])
    found = {}
    for space, ids in retired.items():
        if ended := store.read(space, partial(_without_heir, ids=ids)):
            found[space] = ended
    return found


def _without_heir(view: View, ids: Collection[str]) -> set[str]:
    """Return those of some passages that ended, lie in the log of files alone, and leave no heir."""
    states = {item: state for item, state in view.states(ids).items() if state.kind == "passage"}
    apart = view.only_in_files(states.keys())
    goes: dict[str, bool] = {}
    for item in states:
        line: list[str] = []
        heir: str | None = item
        while heir is not None and heir not in goes and heir not in line:
            line.append(heir)
            state = view.states([heir]).get(heir)
            if state is not None and (state.status != "ended" or heir not in apart):
                goes[heir] = False
                break
            heir = state.superseded_by if state is not None else None
        end = goes.get(heir, True) if heir is not None else True
        goes |= {each: end for each in line if each not in goes}
    return {item for item in states if goes[item]}


def _texts_of(filed: RowIndex, gone: dict[str, set[str]]) -> set[str]:
    """Return the texts of what goes, but for those that another passage has too."""
    texts: set[str] = set()
    others: set[str] = set()
    for space, row in _rows(filed):
        if row["op"] == "passage":
            (texts if row["id"] in gone.get(space, ()) else others).add(row["text"])
    return texts - others
