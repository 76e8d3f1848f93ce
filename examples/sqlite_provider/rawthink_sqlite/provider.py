"""The provider: what it declares, where its store lies, and how that is."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from rawthink_core.config import absolute
from rawthink_core.errors import BackendError
from rawthink_core.operations import Check, Health
from rawthink_core.provider import Capability, ProviderInfo
from rawthink_core.store_provider import READS, StoreProvider
from rawthink_sqlite.store import FORMAT, Store, failures

if TYPE_CHECKING:
    from pathlib import Path

    from rawthink_core.provider import World

CAPABILITIES = {
    **READS,
    Capability.FORGET: "erased",
    Capability.EXPORT: "yes",
    Capability.RESTORE: "yes",
    Capability.MAINTAIN: "yes",
    Capability.ATOMIC_WRITES: "yes",
    Capability.IDEMPOTENT_RECORD: "yes",
    Capability.LEXICAL: "yes",
    Capability.VERBATIM: "yes",
    Capability.READ_YOUR_WRITES: "at once",
    Capability.RANKING: "core",
    Capability.FILTERS: "before_top_k",
    Capability.PROCESSES: "many",
    Capability.DURABLE: "power loss",
}


class SqliteSettings(BaseModel):
    """Where a store lies."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = Field(default=None, title="Folder", description="Folder of the store")


class SqliteProvider(StoreProvider[Store]):
    """A memory in one file of SQLite."""

    readers = 0  # a connection is for one thread: the one that writes

    def __init__(self, settings: SqliteSettings, world: World) -> None:
        folder = world.path if settings.path is None else absolute(settings.path)
        self._file = folder / "rawthink.sqlite"
        super().__init__(ProviderInfo("sqlite", "0.1.0", CAPABILITIES, location=str(self._file)), world)

    def open_store(self) -> Store:
        """Open the file or create it."""
        return Store(self._file, self._world)

    async def health(self) -> Health:
        """Say how the store is, by a look of its own: it need not be open, nor be there."""
        return await asyncio.to_thread(health_of, self._file)


def health_of(file: Path) -> Health:
    """Return how the store in a file is. Creates nothing."""
    exists = file.exists() or (file.parent.exists() and not file.parent.is_dir())
    status: Literal["ok", "fail"] = "fail"
    detail, fix = f"no store at {file} yet", "rawthink init"
    if exists:
        fix = "see that the file can be read and written; upgrade, or restore an export"
        try:
            with failures(file), closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True)) as db:
                (detail,) = db.execute("PRAGMA quick_check(1)").fetchone()
                (version,) = db.execute("PRAGMA user_version").fetchone()
                if version > FORMAT:
                    detail = f"{file} has format {version}; rawthink-sqlite here reads {FORMAT}"
                elif detail == "ok":
                    (count,) = db.execute("SELECT count(*) FROM commits").fetchone()
                    status, detail, fix = "ok", f"{count} commits", ""
        except BackendError as error:
            detail = str(error)
    check = Check(name="store", status=status, detail=detail, fix=fix)
    return Health(
        status="ok" if status == "ok" else "down", location=str(file), checks=(check,), exists=exists
    )
