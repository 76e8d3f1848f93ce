"""The one place that runs calls of the library: a connection, and an event loop of its own for it.

The library is asynchronous, and core's search and planning are not, so verbs work in threads and wait here
for each call. Every failure comes out as an error of core, or as `Vanished` where a file is not there.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rawthink_core.errors import BackendError, BackendUnavailable
from rawthink_lancedb.errors import Raced, Vanished, explained, gone, raced

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    T = TypeVar("T")

_PATIENT: Mapping[str, str] = {  # a store that is down must say so in seconds, not after minutes
    "client_max_retries": "3",
    "client_retry_timeout": "8",
    "connect_timeout": "5s",
    "timeout": "25s",
}
_TRIES = 5
_GRACE = 5.0  # seconds for calls that are cut short


class Engine:
    """A connection to the tables of one store. Safe to use from many threads."""

    def __init__(
        self, uri: str, options: Mapping[str, str], seconds: float, secrets: tuple[str, ...]
    ) -> None:
        self.uri = uri
        self.remote = "://" in uri and not uri.startswith("file://")
        self.folder = None if self.remote else Path(uri.removeprefix("file://"))
        self.options = {**_PATIENT, **options} if self.remote else dict(options)
        self._seconds = seconds
        self._secrets = secrets
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connection: AsyncConnection | None = None

    # --- life -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Connect. Raises a BackendError."""
        os.environ.setdefault("LANCE_LOG", "error")  # it would print warnings to the host's terminal
        import lancedb  # noqa: PLC0415 - takes more than a second to load

        self._loop = loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="rawthink-lancedb-loop", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # a thread of the library must not outlive the interpreter
        self._connection = self.run(
            "opening", lambda: lancedb.connect_async(self.uri, storage_options=self.options or None)
        )

    def close(self) -> None:
        """Let go of everything. May be called again."""
        loop, self._loop = self._loop, None
        self._connection = None
        if loop is None or self._thread is None:
            return
        atexit.unregister(self.close)
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(_GRACE)
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    @property
    def connection(self) -> AsyncConnection:
        """The open connection."""
        if self._connection is None:
            raise BackendUnavailable(f"the memory in {self.uri} is not open; open it first")
        return self._connection

    # --- calls ----------------------------------------------------------------------------------

    def run(self, doing: str, call: Callable[[], Coroutine[Any, Any, T]], seconds: float | None = None) -> T:
        """Wait for a call of the library. Raises Vanished, Raced or a BackendError."""
        if self._loop is None:
            raise BackendUnavailable(f"the memory in {self.uri} is not open; open it first")

        async def work() -> T:
            return await call()

        waiting = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return waiting.result(seconds or self._seconds)
        except concurrent.futures.CancelledError:
            raise BackendUnavailable(f"{doing} {self.uri} was cut short: the memory was closed") from None
        except BackendError:
            raise
        except Exception as error:
            if isinstance(error, TimeoutError):
                waiting.cancel()
            elif raced(error):
                raise Raced(str(explained(doing, self.uri, error, self._secrets))) from error
            elif gone(error):
                raise Vanished(str(explained(doing, self.uri, error, self._secrets))) from error
            raise explained(doing, self.uri, error, self._secrets) from error

    def there(self) -> None:
        """Raise BackendUnavailable where the folder of a local store is gone: nothing must create it anew."""
        if self.folder is not None and not self.folder.is_dir():
            raise BackendUnavailable(
                f"the store in {self.folder} is not there; check the path, and that its disk is mounted"
            )


async def _cancel_all() -> None:
    """Cut short what nobody may wait for any more."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Passed(NamedTuple):
    """What a table went through since it was looked after: versions, and rows written by this process."""

    before: int
    after: int
    rows: int = 0

    def crossed(self, every: int) -> bool:
        """Tell whether a multiple of ``every`` was among the versions: of all processes, one sees it."""
        return self.before // every != self.after // every


async def newest(table: AsyncTable) -> None:
    """Go to the newest version of a table."""
    await table.checkout_latest()  # type: ignore[no-untyped-call] # the library says no more


class Table:
    """One table, opened when it is first asked for. Safe to use from many threads."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.passed: Passed = Passed(-1, -1)
        self._handle: AsyncTable | None = None

    def note(self, version: int, rows: int = 0) -> None:
        """Note that the table is at a version, and how many rows this process wrote to it."""
        before = version if self.passed.before < 0 else self.passed.before
        self.passed = Passed(before, version, self.passed.rows + rows)

    def found(self) -> bool:
        """Tell whether the table is there, opening it. Raises a BackendError where that can't be told."""
        if self._handle is not None:
            return True
        try:
            self._handle = self.engine.run("opening", lambda: self.engine.connection.open_table(self.name))
        except Vanished:
            self.engine.there()
            return False
        return True

    def adopt(self, handle: AsyncTable) -> None:
        """Go by a handle from now on."""
        self._handle = handle

    def drop_handle(self) -> None:
        """Open the table anew at the next call."""
        self._handle = None

    @property
    def handle(self) -> AsyncTable:
        """The open table."""
        if self._handle is None and not self.found():
            raise Vanished(f"there is no table {self.name} in {self.engine.uri}")
        assert self._handle is not None  # noqa: S101 - `found` has opened it
        return self._handle

    def latest(self) -> int:
        """Go to the newest version and return its number. Raises Vanished or a BackendError."""

        async def work() -> int:
            handle = self.handle
            await newest(handle)
            return await handle.version()

        self.handle  # noqa: B018 - opened outside of the loop
        return self.engine.run("reading", work)

    def ask(
        self, doing: str, call: Callable[[AsyncTable], Coroutine[Any, Any, T]], seconds: float | None = None
    ) -> T:
        """Return what a call returns; where upkeep has replaced files meanwhile, ask the newest version."""
        for attempt in range(_TRIES):
            try:
                handle = self.handle
                return self.engine.run(doing, partial(call, handle), seconds)
            except Vanished as error:
                last = error
                time.sleep(0.01 * 2**attempt)
                self._look_again()
        raise BackendUnavailable(str(last))

    def _look_again(self) -> None:
        try:
            self.latest()
        except Vanished:
            self.engine.there()
            self._handle = None
