"""The catalogue of a store: what it is, which spaces it has, and which model made its vectors.

A key is settled once: of two processes that settle it at a time, one wins, and both read what it wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from rawthink_core.commits import Header
from rawthink_core.errors import BackendError, StoreDamaged, StoreTooNew
from rawthink_lancedb import sql
from rawthink_lancedb.engine import Table, newest
from rawthink_lancedb.errors import raced, taken
from rawthink_lancedb.schema import CATALOGUE, FORMAT, catalogue_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from lancedb.table import AsyncTable

    from rawthink_lancedb.engine import Engine

_STORE, _MODEL, _SPACE, _LOG = "store", "model", "space:", "log:"


class Catalogue:
    """The catalogue of one store. Safe to use from many threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._table = Table(engine, CATALOGUE)
        self._known: set[str] = set()  # spaces that are in it
        self._logs: set[str] = set()  # of these, whose log it knows of

    def exists(self) -> bool:
        """Tell whether there is a store. Raises a BackendError where that can't be told."""
        return self._table.found()

    # --- what the store is ----------------------------------------------------------------------

    def open(self, header: Callable[[], Header]) -> Header:
        """Return the header of the store, creating it where there is none.

        Raises StoreTooNew where a newer version wrote it, StoreDamaged where it can't be read.
        """
        if not self._table.found():
            create_table(self._engine, self._table, catalogue_schema())
        body = self._read(_STORE)
        if body is None:
            self._settle(_STORE, _body(header()))
            body = self._read(_STORE)
        return _header(body, self._engine.uri)

    def header(self) -> Header:
        """Return the header of the store. Raises as `open`."""
        return _header(self._read(_STORE), self._engine.uri)

    # --- spaces ---------------------------------------------------------------------------------

    def note_space(self, space: str) -> None:
        """Note that there is a space."""
        if space not in self._known:
            self._settle(_SPACE + space, {"space": space})
            self._known.add(space)

    def note_log(self, space: str) -> None:
        """Note that the log of a space was made: from now on it must be there."""
        if space not in self._logs:
            self._settle(_LOG + space, {"space": space})
            self._logs.add(space)

    def knows_log(self, space: str) -> bool:
        """Tell whether the log of a space was ever made. Raises a BackendError where that can't be told."""
        return self._read(_LOG + space) is not None

    def spaces(self) -> list[str]:
        """Return every space of the store."""
        rows = self._table.ask("reading", _all)
        found = sorted(row["key"].removeprefix(_SPACE) for row in rows if row["key"].startswith(_SPACE))
        self._known.update(found)
        return found

    # --- the model ------------------------------------------------------------------------------

    def model(self) -> dict[str, Any] | None:
        """Return what made the vectors of the store, None where nothing is settled."""
        return self._read(_MODEL)

    def settle_model(self, body: dict[str, Any], *, anew: bool = False) -> None:
        """Let the store go by this model, unless another is settled; with ``anew``, instead of that."""
        self._settle(_MODEL, body, anew=anew)

    # --- rows -----------------------------------------------------------------------------------

    def _read(self, key: str) -> dict[str, Any] | None:
        rows = self._table.ask("reading", lambda table: _all(table, sql.equals("key", key)))
        try:
            return dict(orjson.loads(rows[0]["value"])) if rows else None
        except (ValueError, TypeError) as error:
            raise StoreDamaged(f"the catalogue of {self._engine.uri} can't be read: {error}") from None

    def _settle(self, key: str, body: dict[str, Any], *, anew: bool = False) -> None:
        import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

        rows = pa.Table.from_pylist([_row(key, body)], schema=catalogue_schema())

        async def work(table: AsyncTable) -> None:
            await newest(table)
            merge = table.merge_insert("key").when_not_matched_insert_all()
            await (merge.when_matched_update_all() if anew else merge).execute(rows)

        self._engine.there()
        self._table.change("writing", work)


def create_table(engine: Engine, table: Table, schema: pa.Schema, rows: pa.Table | None = None) -> None:
    """Create a table, empty or with some rows, unless somebody just did."""

    async def work() -> AsyncTable:
        try:
            return await engine.connection.create_table(table.name, rows, schema=schema)
        except (ValueError, RuntimeError, OSError) as error:
            if not taken(error) and not raced(error):
                raise
        return await engine.connection.open_table(table.name)

    engine.there()
    table.adopt(engine.run("creating a table in", work))


async def _all(table: AsyncTable, where: str = "") -> list[dict[str, Any]]:
    await newest(table)
    query = table.query().where(where) if where else table.query()
    return list((await query.to_arrow()).to_pylist())


def _row(key: str, body: dict[str, Any]) -> dict[str, str]:
    return {"key": key, "value": orjson.dumps(body).decode()}


def _body(header: Header) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "store": header.store,
        "created": header.created,
        "timezone": header.timezone,
    }


def _header(body: dict[str, Any] | None, uri: str) -> Header:
    if body is None:
        raise StoreDamaged(f"the catalogue of {uri} lacks its first row; restore it from a backup")
    found = body.get("format")
    if isinstance(found, int) and found > FORMAT:
        raise StoreTooNew(
            f"the store in {uri} was written in format {found}; this version of rawthink reads format "
            f"{FORMAT}. Upgrade with: pip install --upgrade rawthink"
        )
    if found != FORMAT:
        raise BackendError(
            f"the store in {uri} is of format {found}, which this version of rawthink can't read and leaves "
            f"alone. Export it with the version that wrote it, and import that: rawthink import FILE"
        )
    try:
        return Header(body["store"], body["created"], body["timezone"])
    except KeyError as error:
        raise StoreDamaged(f"the catalogue of {uri} lacks {error}; restore it from a backup") from None
