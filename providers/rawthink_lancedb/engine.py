"""The one place that runs calls of the library: a connection, and an event loop of its own for it.

The library is asynchronous, and core's search and planning are not, so verbs work in threads and wait here
for each call. Every failure comes out as an error of core, which is `Vanished` where a file is not there and
`Raced` where others wrote at the same time.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import random
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rawthink_core.errors import BackendError, BackendTimeout, BackendUnavailable
from rawthink_lancedb.errors import Raced, Vanished, explained

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

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
_LEAST, _MOST = 0.1, 3.0  # seconds between tries of what others came before
_CALM = 5.0  # seconds after which others count half as much
_GRACE = 5.0  # seconds for calls that are cut short


class Engine:
    """A connection to the tables of one store. Safe to use from many threads."""

    def __init__(
        self,
        uri: str,
        options: Mapping[str, str],
        seconds: float,
        secrets: tuple[str, ...],
        patience: float = 20.0,
    ) -> None:
        self.uri = uri
        self.remote = "://" in uri and not uri.startswith("file://")
        self.folder = None if self.remote else Path(uri.removeprefix("file://"))
        self.options = {**_PATIENT, **options} if self.remote else dict(options)
        self._seconds = seconds
        self._patience = patience
        self._secrets = secrets
        self._crowd = 0.0  # seconds to make room for others, when last met
        self._met = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connection: AsyncConnection | None = None

    # --- life -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Connect. Raises a BackendError."""
        os.environ.setdefault("LANCEDB_LOG", "error")  # it would print warnings to the host's terminal
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
            raise explained(doing, self.uri, error, self._secrets) from error

    def tries(self) -> Iterator[int]:
        """Yield again and again, as long as one may wait for others; between tries a random while passes.

        A while is half as long again after each try that came too late and a quarter shorter after one that
        did not, so most succeed however many there are. It passes before the first try too, or whoever won
        would win again and again; and it is far shorter for whoever has waited long.
        """
        begun = time.monotonic()
        self._make_room(1.0)
        for attempt in count(1):
            try:
                yield attempt
            except GeneratorExit:  # nobody needs another try
                self._crowd *= 0.75
                raise
            now = time.monotonic()
            if now - begun > self._patience:
                raise BackendTimeout(
                    f"others wrote to {self.uri} first, {attempt} times in {self._patience:g} s; "
                    f"try again later"
                )
            self._crowd, self._met = min(_MOST, max(_LEAST, 1.5 * self._crowd)), now
            self._make_room((1 - (now - begun) / self._patience) ** 2)

    def _make_room(self, share: float) -> None:
        crowd = self._crowd * 0.5 ** ((time.monotonic() - self._met) / _CALM)
        if crowd >= _LEAST:
            time.sleep(random.uniform(0, crowd * share))  # noqa: S311 - so that two don't meet again

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
        before, after, written = self.passed
        if self.engine.remote and before == after:  # nobody takes turns there: who wrote a version sees to it
            before = version - 1 if rows else version
        elif before < 0:
            before = version
        elif self.engine.remote and not rows:
            version = after
        self.passed = Passed(before, version, written + rows)

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
        """Return what a call returns; where upkeep has replaced files meanwhile, ask the newest version.

        Raises Vanished where files are not there even so, Raced, or a BackendError.
        """
        for attempt in range(_TRIES):
            try:
                handle = self.handle
                return self.engine.run(doing, partial(call, handle), seconds)
            except Vanished as error:
                last = error
                time.sleep(0.01 * 2**attempt)
                self._look_again(attempt)
        last.table = self.name
        raise last

    def change(
        self, doing: str, call: Callable[[AsyncTable], Coroutine[Any, Any, T]], seconds: float | None = None
    ) -> T:
        """Do what changes the table; where others came first, the same again on what they made of it.

        ``call`` must be one that may be done twice. Raises Vanished or a BackendError.
        """
        for _ in self.engine.tries():
            try:
                return self.ask(doing, call, seconds)
            except Raced:
                self.ask("reading", newest)
        raise AssertionError  # `tries` has no end but an error

    def _look_again(self, attempt: int) -> None:
        """Go to the newest version; where that did not help, open the table anew.

        A handle never goes back, so where a table was deleted and made again it would stay at the old one.
        """
        try:
            if attempt == 0:
                self.latest()
                return
        except Vanished:
            pass
        self.engine.there()
        self._handle = None
