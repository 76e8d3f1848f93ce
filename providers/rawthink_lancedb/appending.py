"""How rows come to stand at the end of a log: all or none, and never two appends with one number.

In a folder writers take turns by a lock, so rows are simply added. In an object store the engine lets one of
two appends with the same number in, whole, and the other not at all. Either way whoever came late knows it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from rawthink_core.errors import BackendProtocolError
from rawthink_lancedb import sql
from rawthink_lancedb.engine import newest
from rawthink_lancedb.errors import Raced, Vanished

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb._lancedb import MergeResult
    from lancedb.table import AsyncTable

    from rawthink_lancedb.engine import Table

_PATIENCE: Final = 0.15  # seconds before it is seen whether a merge still makes sense


def append(table: Table, claim: int, rows: pa.Table, seen: int) -> int:
    """Append rows to a log that was seen at a version; return the version that they made.

    Raises Raced where others came first, or took away what it was based on; nothing is written then.
    """
    way = merge if table.engine.remote else add
    try:
        return way(table, claim, rows, seen)
    except Vanished as error:
        raise Raced(str(error)) from error


def merge(table: Table, claim: int, rows: pa.Table, seen: int) -> int:  # noqa: ARG001 - as `add`
    """Append in an object store, where others may do so at the same time.

    The engine begins a merge again each time that others commit, and goes on though all that it can find is
    that the number is taken; where many write that takes half a minute. So it is given up as soon as rows of
    somebody are there. Should they be ours after all, the next look finds them.
    """

    async def work() -> MergeResult:
        handle = table.handle
        before = await handle.count_rows()
        merging = asyncio.ensure_future(_execute(handle, rows))
        try:
            pause = _PATIENCE
            while not (await asyncio.wait({merging}, timeout=pause))[0]:
                await newest(handle)
                if await handle.count_rows() > before:  # by somebody's append, ours or that of others
                    await asyncio.wait({merging}, timeout=pause)
                    break
                pause *= 2
            if not merging.done():
                raise Raced(f"claim {claim} of {table.name} was taken")
            return merging.result()
        finally:
            merging.cancel()

    result = table.engine.run("writing", work)
    if result.num_inserted_rows == 0:
        raise Raced(f"claim {claim} of {table.name} was taken")
    if result.num_inserted_rows != rows.num_rows:
        raise BackendProtocolError(
            f"{result.num_inserted_rows} of {rows.num_rows} rows of one append are in {table.name}; "
            f"this version of lancedb does not keep its promise"
        )
    return int(result.version)


async def _execute(handle: AsyncTable, rows: pa.Table) -> MergeResult:
    merge = handle.merge_insert("claim").when_not_matched_insert_all()
    return cast("MergeResult", await merge.execute(rows))


def add(table: Table, claim: int, rows: pa.Table, seen: int) -> int:
    """Append under the lock of writers, a third of the work of a merge.

    Where a file system does not keep its locks, both who met see it, withdraw, and try again.
    """
    mine = sql.all_of([sql.equals("claim", claim), sql.one_of("commit", set(rows["commit"].to_pylist()))])

    async def work() -> tuple[int, bool]:
        handle: AsyncTable = table.handle
        version = (await handle.add(rows)).version
        if version == seen + 1 or await handle.count_rows(sql.equals("claim", claim)) == rows.num_rows:
            return version, True
        await handle.delete(mine)
        return version, False

    version, alone = table.engine.run("writing", work)
    if not alone:
        raise Raced(f"claim {claim} of {table.name} was taken, though it was locked")
    return version
