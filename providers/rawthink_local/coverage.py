"""What `health` says of the search index: whether it is whole, and its vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rawthink_core.errors import RawThinkError
from rawthink_core.upkeep import Check

if TYPE_CHECKING:
    from rawthink_local.searchindex import SearchIndex

_AGAIN: Final = "mend what it says, then look again"
_UNUSABLE: Final = "mend what it says; search goes by words until whoever has this memory open starts anew"


def search(index: SearchIndex) -> Check:
    """Say whether what is written can be found."""
    try:
        behind = index.catch_up()
    except RawThinkError as error:
        return Check(name="search", status="fail", detail=str(error), fix=_AGAIN)
    if behind is not None and behind.startswith("index not built"):
        detail = f"{behind}; tried again in half a minute"
        fix = "mend what it says; rawthink reindex --vectors"
        return Check(name="search", status="warn", detail=detail, fix=fix)
    if behind is not None:
        return Check(name="search", status="note", detail=f"{behind}; answers are incomplete until then")
    return Check(name="search", status="ok", detail=f"{index.size():,} points, up to date ({index.place()})")


def vectors(index: SearchIndex) -> list[Check]:
    """Say how many texts have their vectors, where the store has an embedder."""
    kept = index.kept
    if kept is None:
        return []
    try:
        waiting, count = index.waiting_count(), kept.count()
    except RawThinkError as error:
        return [Check(name="vectors", status="warn", detail=str(error), fix=_UNUSABLE)]
    detail = f"{count:,} texts, by {kept.model.name} ({kept.model.dimensions} numbers each)"
    if not waiting:
        return [Check(name="vectors", status="ok", detail=detail)]
    return [Check(name="vectors", status="note", detail=f"{detail}; {waiting:,} items wait for theirs")]
