"""When anything was last written in a store, in whichever space: no commit may be as old as another.

In a folder that is noted in a file, under the lock of writers. In an object store, where there is neither, a
process looks through the spaces before its first write; two processes that write in two spaces at one moment
may then give the same time, those of one space never do.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rawthink_lancedb.engine import Table
from rawthink_lancedb.locks import OWN
from rawthink_lancedb.schema import log_name

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from lancedb.table import AsyncTable

    from rawthink_lancedb.catalogue import Catalogue
    from rawthink_lancedb.engine import Engine

_FILE: Final = "last"
_LENGTH: Final = len("2026-01-01T00:00:00.000000Z")
_SPACES: Final = 32  # that are looked through


class Moments:
    """The last moments of one store."""

    def __init__(self, engine: Engine, catalogue: Catalogue) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._looked: str | None = None

    def last(self) -> str:
        """Return when anything was written last, as far as that is known; under the lock of writers."""
        noted = self._noted()
        if noted is None and self._looked is None:
            self._looked = self._look()
        return max(noted or "", self._looked or "")

    def note(self, at: str) -> None:
        """Note when something was written; under the lock of writers."""
        if (path := self._path()) is not None:
            with suppress(OSError):  # the next process looks through the spaces
                path.write_text(at, encoding="ascii")

    def _path(self) -> Path | None:
        folder = self._engine.folder
        return None if folder is None else folder / OWN / _FILE

    def _noted(self) -> str | None:
        path = self._path()
        if path is None:
            return None
        try:
            noted = path.read_text(encoding="ascii")
        except (OSError, ValueError):
            return None
        return noted if len(noted) == _LENGTH else None  # half written, by a process that was killed

    def _look(self) -> str:
        last = ""
        for space in self._catalogue.spaces()[:_SPACES]:
            table = Table(self._engine, log_name(space))
            if table.found():
                last = max([last, *table.ask("reading", _times)["at"].to_pylist()])
        return last


async def _times(table: AsyncTable) -> pa.Table:
    return await table.query().where("op = 'commit'").select(["at"]).to_arrow()
