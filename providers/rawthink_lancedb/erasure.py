"""Forgetting: out of the log and the index, out of their files, and what becomes of the text elsewhere.

First a commit says that the items are erased: from then on no verb yields them, whatever happens. Then their
rows are deleted, and the tables written anew without them; what a process that was killed has left of that,
`finish` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rawthink_core.commits import forgetting
from rawthink_core.errors import BackendError
from rawthink_core.operations import Place
from rawthink_core.reading import meant
from rawthink_lancedb.errors import Raced
from rawthink_lancedb.locks import WRITE
from rawthink_lancedb.upkeep import purge

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rawthink_core.activity import Activity
    from rawthink_core.operations import Forget
    from rawthink_core.rows import State
    from rawthink_lancedb.store import Space, Store

TIDY: Final = "tidy"


def forget(store: Store, request: Forget) -> tuple[list[State], list[str]]:
    """Erase items from the log; return what they were, and what was not found."""
    name = request.scope.space
    space = store.space(name)
    with store.locks.held(WRITE):
        for _ in store.engine.tries():
            chosen, missing = store.read(name, lambda view: meant(view, request, view.log.items))
            if not chosen:
                return [], missing
            at = store.next_instant(space.log)
            try:
                store.append(space, [forgetting(store.world.ids.new(), at, name, chosen)])
                break
            except Raced:
                continue
        space.log.delete(chosen)
    return list(chosen.values()), missing


def finish(store: Store, space: Space) -> int:
    """Delete what is still there of erased items (brought by a restore, left by a crash); count it."""
    if not space.log.look() or not space.log.ledger.erasures:
        return 0
    with store.locks.held(WRITE):
        gone = space.log.erased()
        left = space.log.count_of(gone)
        if left:
            space.log.delete(gone)
            _leave_files(store, space, gone)
    return left


def _leave_files(store: Store, space: Space, gone: Collection[str]) -> None:
    """Make deleted rows leave the files. Under the lock of the log."""
    remote = store.engine.remote
    purge(space.log.table, "rid", remote=remote)
    index = space.index

    def clear() -> None:
        with store.locks.held(index.table.name):
            index.points.look()
            index.points.delete(gone)
            purge(index.table, "point", remote=remote)
            index.statistics.forget()

    if index.table.found():
        index.sound(clear)


def places_of(store: Store, name: str, erased: Sequence[State], activity: Activity) -> list[Place]:
    """Erase what the files still hold of forgotten items, and say of each place what became of it there."""
    space, gone = store.space(name), [state.id for state in erased]
    places: list[Place] = []
    try:
        with store.locks.held(TIDY), store.locks.held(WRITE):
            _leave_files(store, space, gone)
    except BackendError as error:
        note = f"no verb yields it, files still do: {error}; try: rawthink maintain"
        places += [Place(place=place, outcome="pending", note=note) for place in ("log", "search index")]
    else:
        places += _tables(store, space)
    if store.kept is not None:
        store.kept.forget()
        places.append(Place(place="vectors", outcome="erased", note="they were in the search index"))
    activity.forget(gone)
    places.append(Place(place="activity", outcome="erased"))
    places += [
        Place(place="vault file", outcome="kept", note=f"{path} holds the text as well; delete it there")
        for path in sorted({state.row["origin"]["path"] for state in erased if state.row.get("origin")})
    ]
    return places


def _tables(store: Store, space: Space) -> list[Place]:
    found = [("log", space.log.table), ("search index", space.index.table)]
    places = [Place(place=place, outcome="erased", note=table.name) for place, table in found]
    if store.versioned is not None:
        note = (
            f"{store.versioned}; delete the old versions of objects there, or let a rule of the bucket do it"
        )
        places.append(Place(place="old versions in the bucket", outcome="kept", note=note))
    return places
