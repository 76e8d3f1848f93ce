"""Upkeep of tables: many small files become one, indexes take in what is new, what was replaced is deleted.

Every write leaves a small file, and every reading looks at each of them. So after every few dozen writes the
small files are gathered into one, which costs little whatever the table's size; the engine's own optimizing,
which may rewrite a table, comes after a thousand writes or when much is not in an index yet. Nothing of this
changes an answer. Thresholds were measured; see the page for operators.
"""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rawthink_lancedb import sql
from rawthink_lancedb.engine import Passed, newest
from rawthink_lancedb.errors import Raced
from rawthink_lancedb.point_table import words_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lancedb.table import AsyncTable

    from rawthink_lancedb.engine import Table

SMALL: Final = 1_024  # rows of a file that is small
MANY: Final = 24  # larger files after which they become one
OPTIMIZE_LEAST, OPTIMIZE_MOST = 64, 4_000  # versions after which the engine optimizes: few of a small table
UNINDEXED_ROWS: Final = 1_000  # rows outside of an index that a search may look at one by one
UNINDEXED_SHARE: Final = 20  # or one in so many of all rows: each time, all of them are written anew
PATIENCE: Final = 900.0  # seconds that optimizing may take
_TOGETHER: Final = 256  # small files that are written anew together


class Files(NamedTuple):
    """The files of a table: how many rows each holds."""

    small: list[int]  # numbers of files
    large: list[int]


def tidy(table: Table, key: str, *, gather_every: int, keep: float) -> list[str]:
    """Do what is due in a table after what was written; say what was done. Raises a BackendError.

    ``key`` names the column that tells rows apart. ``keep`` seconds old files stay for others that read them.
    Where others write at the same time, the engine lets their work in and not this: it stays due.
    """
    passed = table.passed
    if not passed.crossed(gather_every) and passed.rows <= UNINDEXED_ROWS:
        return []
    table.passed = Passed(passed.after, passed.after)
    try:
        return _tidy(table, key, passed, gather_every, keep)
    except Raced as error:
        table.passed = Passed(passed.before, table.passed.after, passed.rows + table.passed.rows)
        return [f"left {table.name} for later: {error}"]


def _tidy(table: Table, key: str, passed: Passed, gather_every: int, keep: float) -> list[str]:
    rows = table.ask("looking after", lambda handle: handle.count_rows())
    files = table.ask("looking after", _files)
    unindexed = table.ask("looking after", _unindexed)
    every = min(OPTIMIZE_MOST, max(OPTIMIZE_LEAST, rows // 16))
    late = unindexed > max(UNINDEXED_ROWS, rows // UNINDEXED_SHARE)
    if passed.crossed(every) or len(files.large) > MANY or late:
        optimize(table, keep)
        return [f"optimized {table.name}: {rows:,} rows"]
    if len(files.small) >= gather_every:
        gathered = gather(table, key, files.small)
        return [f"gathered {gathered:,} rows of {len(files.small)} small files of {table.name}"]
    return []


async def _files(table: AsyncTable) -> Files:
    await newest(table)
    addresses = await table.query().select(["_rowaddr"]).with_row_address().to_arrow()
    numbers = addresses["_rowaddr"].to_numpy() >> np.uint64(32)
    found, counts = np.unique(numbers, return_counts=True)
    small = found[counts < SMALL].tolist()
    return Files(small, found[counts >= SMALL].tolist())


async def _unindexed(table: AsyncTable) -> int:
    worst = 0
    for index in await table.list_indices():
        if index.columns == ["tokens"] and (stats := await table.index_stats(index.name)) is not None:
            worst = max(worst, stats.num_unindexed_rows)
    return worst


def gather(table: Table, key: str, files: list[int]) -> int:
    """Write the rows of some files into one; return how many there were. Costs nothing for other rows.

    Rows that somebody deletes meanwhile stay deleted.
    """

    async def work(handle: AsyncTable) -> int:
        rows = await handle.query().where(_rows_in(files)).to_arrow()
        # the engine keeps bytes of deleted rows beside those of an empty value; taken one by one, none stay
        rows = rows.combine_chunks().take(np.arange(rows.num_rows))
        merge = handle.merge_insert(key).when_matched_update_all()
        return int((await merge.execute(rows)).num_updated_rows)

    return table.ask("looking after", work, PATIENCE)


def _rows_in(files: list[int]) -> str:
    """Return the condition for the rows of some files: the upper half of a row's address is its file."""
    return sql.some_of(sql.between("_rowaddr", file << 32, ((file + 1) << 32) - 1) for file in files)


def optimize(table: Table, keep: float, *, unverified: bool = False) -> None:
    """Let the engine compact a table, index what is new, and delete files replaced ``keep`` seconds ago."""

    async def work(handle: AsyncTable) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about keeping nothing, which `forget` means
            return await handle.optimize(
                cleanup_older_than=timedelta(seconds=keep), delete_unverified=unverified
            )

    table.ask("looking after", work, PATIENCE)


def index_vectors(table: Table, column: str, exact_up_to: int) -> list[str]:
    """Build an index of vectors where so many are compared one by one that it takes too long; say so."""

    async def work(handle: AsyncTable) -> bool:
        from lancedb.index import IvfFlat  # noqa: PLC0415 - loaded with the engine

        if any(index.columns == [column] for index in await handle.list_indices()):
            return False
        if await handle.count_rows(f"{column} IS NOT NULL") <= exact_up_to:
            return False
        await handle.create_index(column, config=IvfFlat(distance_type="cosine"))
        return True

    built = table.ask("building an index in", work, PATIENCE)
    return [f"built an index of vectors for {table.name}"] if built else []


def purge(table: Table, key: str, *, remote: bool) -> None:
    """Make what was deleted from a table leave the disk too, with every index and old version that held it.

    Every row is written anew, so no old file stays in use. In a folder nobody else may write meanwhile; in an
    object store it begins again where somebody does.
    """
    for _ in table.engine.tries():
        try:
            files = table.ask("erasing from", _files)
            for some in _groups(files.small, files.large):
                gather(table, key, some)
            table.ask("erasing from", _indexes_anew, PATIENCE)
            optimize(table, 0, unverified=not remote)
            optimize(table, 0, unverified=not remote)  # what the first has replaced itself
        except Raced:
            continue
        return


def _groups(small: list[int], large: list[int]) -> Iterator[list[int]]:
    """Yield files some at a time, so that their rows fit into memory."""
    yield from ([file] for file in large)
    for start in range(0, len(small), _TOGETHER):
        yield small[start : start + _TOGETHER]


async def _indexes_anew(handle: AsyncTable) -> None:
    await newest(handle)
    for index in await handle.list_indices():
        await handle.create_index(index.columns[0], config=_config(index.index_type), replace=True)


def _config(kind: str) -> Any:
    from lancedb.index import BTree, IvfFlat  # noqa: PLC0415 - loaded with the engine

    match kind.upper():
        case "FTS":
            return words_index()
        case "BTREE":
            return BTree()
        case _:
            return IvfFlat(distance_type="cosine")
