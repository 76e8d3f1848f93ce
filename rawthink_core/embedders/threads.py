"""Blocking work beside an event loop, in threads that nobody has to wait for.

An embedder's server may hang. Whoever awaits it can stop waiting at any moment, a loop can close and the
interpreter can exit meanwhile; the executors of the standard library wait for their threads then.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from rawthink_core.errors import BackendTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    T = TypeVar("T")

_NAME = "rawthink-embedder"


async def in_thread(work: Callable[[], T], *, seconds: float | None = None, late: str = "") -> T:
    """Run ``work`` in a thread of its own and return its result; cancelling lets it run on, unheard.

    Raises BackendTimeout with the sentence ``late`` when it takes longer than ``seconds``.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():  # nobody waits any more
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type] # the result of `work`

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - whoever awaits it gets it
            error = raised
        with suppress(RuntimeError):  # the loop has closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name=_NAME, daemon=True).start()
    try:
        await asyncio.wait([future], timeout=seconds)
    finally:
        future.cancel()  # unless it is done
    if future.cancelled():
        raise BackendTimeout(late)
    return future.result()


def beside(work: Callable[[], object]) -> None:
    """Run ``work`` in a thread of its own, for its effect. It raises nothing."""
    threading.Thread(target=work, name=_NAME, daemon=True).start()
