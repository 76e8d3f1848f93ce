"""The same memory for people without an event loop: `open_memory_sync` and `SyncMemory`.

One thread with an event loop of its own runs the asynchronous `Memory`; every method here is generated
from the method of the same name there. It therefore works inside a running loop, across several
`asyncio.run`, and from many threads. `close` (also at interpreter exit) flushes and ends the thread.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread
import functools
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rawthink_core.errors import BackendUnavailable
from rawthink_core.memory import Memory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from pathlib import Path

    from rawthink_core.vault import Vault

    T = TypeVar("T")

_LAST_WORDS = 5.0  # seconds that calls still running have to end when the loop does


class _LoopThread:
    """A thread that runs an event loop until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rawthink-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` in the loop's thread and return its result. Raises BackendUnavailable after `stop`."""
        if not self._thread.is_alive():  # closed; or in the child of a fork, which has no such thread
            work.close()
            raise BackendUnavailable("this memory is closed in this process; open it anew")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        thread = threading.current_thread()
        _asking.add(thread)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if _exiting.is_set() and thread.daemon:
                threading.Event().wait()  # the interpreter ends such a thread without a word
            raise BackendUnavailable("this memory was closed while it was asked") from None
        except KeyboardInterrupt:
            future.cancel()  # nobody waits for it any more
            raise
        finally:
            _asking.discard(thread)

    def stop(self) -> None:
        """End the loop and its thread, and whatever still runs in it."""
        asyncio.run_coroutine_threadsafe(_end_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_LAST_WORDS)
    await asyncio.get_running_loop().shutdown_asyncgens()


class SyncMemory:
    """A `Memory` whose methods return results instead of awaitables. Use as a context manager."""

    def __init__(self, memory: Memory, loop: _LoopThread, *, owner: bool = True) -> None:
        self._memory = memory
        self._loop = loop
        self._open = owner
        self._closing = threading.Lock()
        if owner:
            _OPEN.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Flush, release the store and end the thread. May be called again."""
        with self._closing:
            if not self._open:
                return
            self._open = False
            _OPEN.discard(self)
            try:
                self._loop.run(self._memory.close())
            finally:
                self._loop.stop()

    def run(self, ask: Callable[[Memory], Coroutine[Any, Any, T]]) -> T:
        """Return what a coroutine function makes of the asynchronous memory, run in the thread it lives in.

        Raises what that raises, and BackendUnavailable after `close`.
        """
        return self._loop.run(ask(self._memory))

    def in_space(self, space: str) -> SyncMemory:
        """Return the same memory in another space. It closes with this one."""
        return type(self)(self._memory.in_space(space), self._loop, owner=False)

    @property
    def vault(self) -> SyncVault:
        """The notes and sessions beside this memory. Raises ConfigError where it has no folder for them."""
        return SyncVault(self._memory.vault, self._loop)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the generated methods


class SyncVault:
    """A `Vault` whose calls wait: the same names and arguments, without ``await``."""

    def __init__(self, vault: Vault, loop: _LoopThread) -> None:
        self._vault = vault
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._vault, name)
        if not inspect.iscoroutinefunction(member):
            return member

        @functools.wraps(member)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._loop.run(member(*args, **kwargs))

        return call


# --- the end of the program ---------------------------------------------------------------------

_OPEN: set[SyncMemory] = set()
_asking: set[threading.Thread] = set()
_exiting = threading.Event()
_QUIET = 3


def _close_all() -> None:
    """Close what is still open, when what the program waits for has been done: threads, and work in pools."""
    if not _OPEN:
        return
    pools = getattr(concurrent.futures.thread, "_threads_queues", {})  # their threads end only after this
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread() and thread not in pools:
            thread.join()
    quiet = 0
    while pools and quiet < _QUIET:  # more than once, for what a thread has taken up and not yet asked
        waiting = any(not queue.empty() for queue in tuple(pools.values()))
        busy = waiting or any(thread in pools for thread in tuple(_asking))
        quiet = 0 if busy else quiet + 1
        time.sleep(0.005)
    _exiting.set()
    for memory in tuple(_OPEN):
        memory.close()


# Before `atexit`, which runs when thread pools take no more work: closing a store may need one. The pools'
# own hook is registered by their import, and hooks run last come, first served. CPython alone has it.
getattr(threading, "_register_atexit", atexit.register)(_close_all)


def _awaited(name: str, method: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: SyncMemory, *args: Any, **kwargs: Any) -> Any:
        return self._loop.run(getattr(self._memory, name)(*args, **kwargs))

    return call


def _iterated(name: str, method: Callable[..., AsyncIterator[Any]]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: SyncMemory, *args: Any, **kwargs: Any) -> Iterator[Any]:
        items = getattr(self._memory, name)(*args, **kwargs)
        done = object()

        async def following() -> Any:
            return await anext(items, done)

        while (item := self._loop.run(following())) is not done:
            yield item

    return call


def _generate() -> None:
    for name, member in inspect.getmembers(Memory):
        if name.startswith("_") or hasattr(SyncMemory, name):
            continue
        if inspect.iscoroutinefunction(member):
            setattr(SyncMemory, name, _awaited(name, member))
        elif name == "export":
            setattr(SyncMemory, name, _iterated(name, member))
        elif isinstance(member, property):
            setattr(SyncMemory, name, property(functools.partial(_property, name)))


def _property(name: str, self: SyncMemory) -> Any:
    return getattr(self._memory, name)


_generate()


def open_memory_sync(
    provider: str | None = None, *, space: str | None = None, config: Path | None = None, **settings: Any
) -> SyncMemory:
    """Open a memory for synchronous use; arguments and errors as `open_memory`. Close it, or use ``with``."""
    from rawthink_core.opening import build  # noqa: PLC0415 - configuration is for those who open by name

    memory = build(provider, space=space, config=config, **settings)
    loop = _LoopThread()
    try:
        loop.run(memory.open())
    except BaseException:
        loop.stop()
        raise
    return SyncMemory(memory, loop)
