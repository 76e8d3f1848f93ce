"""The memory behind the tools: loaded and opened in the background, and anew after that has failed.

The core, the provider and the engine are imported in a thread, after the client has had its first reply;
calls that come meanwhile wait. Whatever writes runs to its end, also where nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rawthink_core.vocabulary import DEFAULT_VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from rawthink_core.config import Configuration
    from rawthink_core.memory import Memory
    from rawthink_core.vault import Vault
    from rawthink_core.vocabulary import Vocabulary
    from rawthink_mcp_server.telling import Teller

    T = TypeVar("T")

log = logging.getLogger("rawthink.mcp")

HOST = "rawthink-mcp"  # written with everything that is recorded here
_HANDLERS = ("asking", "erasing", "graphs", "sessions", "writing")


Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Tells the client how far a long call is: done, total, and a sentence."""


async def _quiet(done: float, total: float | None, text: str | None) -> None:
    """Tell nobody."""


class Open(NamedTuple):
    """An open memory, and what a tool needs beside it.

    ``pages`` remembers where pages of the graph begin: a cursor by entity type and offset.
    """

    memory: Memory
    vault: Vault
    words: Vocabulary
    tell: Teller
    pages: dict[tuple[str | None, int], str]
    report: Report = _quiet


class House:
    """Opens the memory when it is first needed. Belongs to one event loop."""

    def __init__(
        self,
        load: Callable[[], Configuration],
        build: Callable[[Configuration, str | None], Memory] | None = None,
    ) -> None:
        self._load = load
        self._build = build or build_memory
        self._client: str | None = None
        self._settings: asyncio.Task[Configuration] | None = None
        self._opening: asyncio.Task[Open] | None = None
        self._writes: set[asyncio.Future[Any]] = set()
        self._told: set[str] = set()
        self._closed = False

    def wake(self, client: str | None = None) -> None:
        """Begin to load. ``client`` is what the client calls itself, and is written with what it records."""
        self._client = self._client or client
        self._begin()

    async def words(self) -> Vocabulary:
        """Return the vocabulary of the store; the usual one where the settings can't be read."""
        self._begin()
        assert self._settings is not None  # noqa: S101 - begun
        try:
            return (await asyncio.shield(self._settings)).vocabulary()
        except Exception as error:  # noqa: BLE001 - each call tells it; the list of tools must not fail
            log.warning("the usual vocabulary is listed, because the settings can't be read: %s", error)
            return DEFAULT_VOCABULARY

    async def open(self) -> Open:
        """Return the open memory, once it is. Raises what opening it raises; the next call tries again."""
        return await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[Open]:
        if self._opening is None or _failed(self._opening):
            self._settings = _started(asyncio.to_thread(self._load))  # anew: they may have been mended
            self._opening = _started(self._open(self._settings))
        return self._opening

    async def _open(self, settings: asyncio.Task[Configuration]) -> Open:
        configuration = await asyncio.shield(settings)
        for notice in configuration.notices:
            if notice not in self._told:
                self._told.add(notice)
                log.warning("%s", notice)
        memory = await asyncio.to_thread(self._build, configuration, self._client)
        if self._closed:
            raise asyncio.CancelledError
        await memory.open()
        return await asyncio.to_thread(_furnished, memory, configuration)

    # --- writing to the end ---------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether something is being written, or the store is being opened."""
        return bool(self._writes) or (self._opening is not None and not self._opening.done())

    async def settled(self) -> None:
        """Return once the store is open, or could not be opened."""
        if self._opening is not None:
            await asyncio.wait({self._opening})

    async def to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what ``work`` returns; where the caller is cancelled, it goes on to its end."""
        task = asyncio.ensure_future(work)
        self._writes.add(task)
        task.add_done_callback(self._written)
        return await asyncio.shield(task)

    def _written(self, task: asyncio.Future[Any]) -> None:
        self._writes.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a write ended with: %s", error)

    async def close(self, writes: float, closing: float) -> None:
        """Wait for what is being written, and close the memory: for so many seconds at most, each."""
        self._closed = True
        if self._writes:
            await asyncio.wait(self._writes, timeout=writes)
        opening = self._opening
        if opening is None:
            return
        if opening.done() and not _failed(opening):
            await asyncio.wait({_started(opening.result().memory.close())}, timeout=closing)
        else:
            opening.cancel()


def build_memory(configuration: Configuration, client: str | None) -> Memory:
    """Return the memory that the settings describe, not opened yet. Raises ConfigError or PluginError."""
    from rawthink_core.model import Provenance  # noqa: PLC0415 - after the first reply
    from rawthink_core.opening import memory_of  # noqa: PLC0415

    for name in _HANDLERS:
        importlib.import_module(f"rawthink_mcp_server.{name}")
    return memory_of(configuration, provenance=Provenance(host=HOST, client=client))


def _furnished(memory: Memory, configuration: Configuration) -> Open:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - after the first reply

    from rawthink_core.vault import Vault  # noqa: PLC0415
    from rawthink_mcp_server.telling import Teller  # noqa: PLC0415

    return Open(
        memory=memory,
        vault=Vault(configuration.vault, memory),
        words=configuration.vocabulary(),
        tell=Teller(ZoneInfo(memory.info.timezone)),
        pages={},
    )


def _started(work: Awaitable[T]) -> asyncio.Task[T]:
    """Start a task whose error is asked for by whoever comes next, or by nobody."""

    async def run() -> T:
        return await work

    task = asyncio.create_task(run())
    task.add_done_callback(_failed)
    return task


def _failed(task: asyncio.Task[Any]) -> bool:
    """Tell whether a task has ended without a result."""
    return task.done() and (task.cancelled() or task.exception() is not None)
