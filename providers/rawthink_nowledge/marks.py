"""Marks of what was forgotten: which rows of earlier batches they erase."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rawthink_core.rows import Row
    from rawthink_nowledge.entries import Log


class Mark(NamedTuple):
    """When an item was forgotten: in the order of commits, and by the server's clock."""

    at: str
    commit: str
    created: str


def erased(row: Row, log: Log, gone: Mapping[str, Mark]) -> bool:
    """Tell whether a row of a batch is about what was forgotten after it; an entity may be back since."""
    mark = gone.get(row["id"])
    return mark is not None and row["op"] != "forgotten" and (log.at, log.commit) < mark[:2]
