"""Rows of forgotten items that a merge or an old export has brought back: nothing shows them, they must go.

An entity may be recorded anew after it was forgotten; what was said of it since then stays.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rawthink_local.storeindex import BASE
from rawthink_local.view import View

if TYPE_CHECKING:
    from collections.abc import Collection

    from rawthink_core.rows import Stamped
    from rawthink_local.store import Store

Order = tuple[str, str]
"""When a commit counts: its time and its id."""


class Returned(NamedTuple):
    """What was brought back: how many rows in the journal and in the log of files, and of which items.

    ``gone`` says by space and item from which commit on its rows stay, None where all of them go.
    """

    rows: int
    filed_rows: int
    gone: dict[str, dict[str, Order | None]]


def brought_back(store: Store) -> Returned | None:
    """Return what was brought back of forgotten items, None while that isn't known yet."""
    spots = store.index.of_erased()
    if spots is None:
        return None
    by_space = store.read("", lambda view: view.by_space(spots))
    rows: set[int] = set()
    gone: dict[str, dict[str, Order | None]] = {}
    for space, some in by_space.items():
        items: dict[str, list[Stamped]] = {}
        for stamped in store.read(space, partial(View.rows_at, spots=some)):
            items.setdefault(stamped.row["id"], []).append(stamped)
        for item, told in items.items():
            if all(stamped.row["op"] != "forgotten" for stamped in told):
                continue  # it shares a line with one that was
            stays = _stays(told)
            if back := [s.position for s in told if s.row["op"] != "forgotten" and goes(_order(s), stays)]:
                gone.setdefault(space, {})[item] = stays
                rows.update(back)
    filed = sum(position >= BASE for position in rows)
    return Returned(len(rows) - filed, filed, gone)


def _order(stamped: Stamped) -> Order:
    return stamped.at, stamped.commit


def _stays(told: Collection[Stamped]) -> Order | None:
    """Return the commit that created an entity anew after it was last forgotten."""
    last = max(_order(stamped) for stamped in told if stamped.row["op"] == "forgotten")
    anew = (_order(s) for s in told if s.row["op"] == "entity" and _order(s) > last)
    return min(anew, default=None)


def goes(order: Order, stays: Order | None) -> bool:
    """Tell whether a row of that commit goes."""
    return stays is None or order < stays
