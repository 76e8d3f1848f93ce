"""An event loop in a thread of its own: a thousand requests keep it busy, and not the loop of the host."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    T = TypeVar("T")


class Lane:
    """Runs coroutines beside the caller's event loop, from its start until `stop`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what some work returns. Who stops waiting cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def stop(self) -> None:
        """Cancel what is left and end the thread. Blocks until it has ended."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
