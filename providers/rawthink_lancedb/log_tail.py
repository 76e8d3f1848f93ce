"""What was appended to a log since it was seen, without looking through all of it.

New rows come last, so as many rows as there are more are taken from the end. That they are those, and that
nothing is missing between what was known and them, is seen from their numbers; where it is not so (rows were
deleted, or files gathered in another order) the caller has to look through the log.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rawthink_lancedb.ledger import claim_of, rid_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from lancedb.table import AsyncTable

    from rawthink_lancedb.engine import Table

MOST: Final = 2_000  # rows that are taken one by one


def appended(table: Table, last: int, before: int, columns: Sequence[str]) -> tuple[pa.Table | None, int]:
    """Return the rows after the row ``last``, and how many rows there are now; there were ``before``.

    ``columns`` must name ``rid``. None where the rows are not simply the last ones. Raises a BackendError.
    """

    async def work(handle: AsyncTable) -> tuple[pa.Table | None, int]:
        rows = await handle.count_rows()
        fresh = rows - before
        if not last or not before or not 0 < fresh <= MOST:
            return None, rows
        offsets = list(range(before - 1, rows))
        return await handle.take_offsets(offsets).select(list(columns)).to_arrow(), rows

    found, rows = table.ask("reading", work)
    if found is None or not follow(last, found["rid"].to_pylist()):
        return None, rows
    return found.slice(1), rows


def follow(last: int, rids: Sequence[int]) -> bool:
    """Tell whether rows are a known row and those that were appended after it, none left out."""
    return rids[0] == last and all(
        (then == now + 1 and claim_of(then) == claim_of(now)) or then == rid_of(claim_of(now) + 1, 0)
        for now, then in pairwise(rids)
    )
