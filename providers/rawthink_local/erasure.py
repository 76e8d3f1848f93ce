"""What becomes of forgotten text in each place that may have held it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from rawthink_core.operations import Place
from rawthink_core.searching import text_of
from rawthink_local.files import explained, replace
from rawthink_local.journal import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rawthink_core.rows import State
    from rawthink_local.activity import Activity
    from rawthink_local.lexical import Lexical
    from rawthink_local.store import Store


def places_of(
    store: Store, lexical: Lexical | None, activity: Activity | None, erased: Sequence[State]
) -> list[Place]:
    """Erase what is derived from forgotten items and say of each place what became of it there."""
    places = [
        Place(place="journal", outcome="erased", note=str(store.journal.path)),
        Place(place="row index", outcome="erased", note="holds no text; built anew from the journal"),
    ]
    busy = lexical.forget() if lexical is not None else 0
    if busy:
        note = (
            f"{busy} other process(es) hold a replica (no text in it); each builds it anew at its next search"
        )
        places.append(Place(place="search index", outcome="pending", note=note))
    else:
        places.append(Place(place="search index", outcome="erased", note="replicas deleted"))
    if activity is not None:
        activity.forget(state.id for state in erased)
        places.append(Place(place="activity", outcome="erased"))
    places += _set_aside(store.journal.folder, erased)
    if store.adoption is not None and store.adoption.path.exists():
        note = f"{store.adoption.path} belongs to another server and is never written; delete it there"
        places.append(Place(place="foreign file", outcome="kept", note=note))
    if (tree := _work_tree(store.journal.folder)) is not None:
        note = f"{tree} is a git repository; its history may hold the text (git filter-repo removes it)"
        places.append(Place(place="git history", outcome="kept", note=note))
    return places


def _set_aside(folder: Path, erased: Sequence[State]) -> list[Place]:
    """Erase from the files of damaged lines every line that holds a forgotten id or text."""
    needles = {state.id.encode() for state in erased}
    for state in erased:
        for text in text_of(state).split("\n"):
            if text.strip():
                needles |= {text.encode(), orjson.dumps(text)[1:-1]}
    places = []
    for path in sorted(folder.glob(f"{NAME}.damaged-*")):
        with explained("erasing from", path):
            lines = path.read_bytes().split(b"\n")
            kept = [line for line in lines if not any(needle in line for needle in needles)]
            if len(kept) != len(lines):
                replace(path, [b"\n".join(kept)])
                places.append(Place(place="set-aside lines", outcome="erased", note=str(path)))
    return places


def _work_tree(folder: Path) -> Path | None:
    """Return the git work tree that a folder lies in."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
