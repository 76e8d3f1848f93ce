"""A run of the server, from its first line of input to its exit code.

It ends when the input does, when the client can't be reached, or on SIGTERM and SIGINT: what is being written
is finished, what was asked before is answered if that is soon, and the store is closed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_core.config import Configuration
    from rawthink_mcp_server.descriptors import Descriptors
    from rawthink_mcp_server.house import House
    from rawthink_mcp_server.wire import Wire

_ANSWERS = 1.5  # seconds after the end of input for answers that are on their way
_ANSWERS_AT_ONCE = 0.3  # the same after a signal
_WRITES = 10.0  # seconds for what is being written
_CLOSING = 2.0
_VARIABLE = "PYDANTIC_DISABLE_PLUGINS"
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(
    descriptors: Descriptors,
    load: Callable[[], Configuration],
    *,
    profile: str,
    structured: bool,
    version: str,
) -> None:
    """Serve one client to its end. The process should be left right after: threads may still hang."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(0))  # nothing has been acknowledged yet
    gc.disable()  # while modules load: a fifth of the start-up time
    if _VARIABLE not in os.environ:
        os.environ[_VARIABLE] = "__all__"  # to look for plugins of pydantic reads every distribution
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_serve(descriptors, load, profile, structured, version))


async def _serve(
    descriptors: Descriptors,
    load: Callable[[], Configuration],
    profile: str,
    structured: bool,
    version: str,
) -> None:
    from rawthink_mcp_server.house import House  # noqa: PLC0415 - the SDK is half a second of imports
    from rawthink_mcp_server.server import Tools  # noqa: PLC0415
    from rawthink_mcp_server.wire import Wire  # noqa: PLC0415

    house = House(load)
    server = Tools(house, profile, structured=structured).server(version)
    loaded: list[asyncio.Task[None]] = []

    def replied(client: str | None) -> None:
        house.wake(client)
        loaded.append(asyncio.create_task(_collect_again(house)))

    wire = Wire(descriptors, replied)
    hurried = _listen(wire)
    tasks = wire.start()
    options = server.create_initialization_options()
    serving = asyncio.create_task(server.run(wire.incoming, wire.outgoing, options))
    ended = asyncio.create_task(wire.ended.wait())
    await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
    await wire.hang_up(_ANSWERS_AT_ONCE if hurried() else _ANSWERS, lambda: house.busy, _WRITES)
    await asyncio.wait({serving}, timeout=_CLOSING)
    await house.close(_WRITES, _CLOSING)
    await asyncio.wait(tasks[1:], timeout=_ANSWERS_AT_ONCE)  # the last answers leave


def _listen(wire: Wire) -> Callable[[], bool]:
    """End on a signal, and at once on a second one; return what tells whether one came."""
    loop = asyncio.get_running_loop()
    came: list[int] = []

    def end() -> None:
        if came:
            os._exit(0)
        came.append(1)
        wire.end()

    for number in SIGNALS:
        try:
            loop.add_signal_handler(number, end)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(end))
    return lambda: bool(came)


async def _collect_again(house: House) -> None:
    """Turn the collector on once everything is loaded that stays to the end."""
    await house.settled()
    os.environ.pop(_VARIABLE, None)
    gc.collect()
    gc.freeze()
    gc.enable()


def leave() -> None:
    """End the process now, whatever threads still do: a write is whole or absent."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # it may be closed, or missing
            stream.flush()
    os._exit(0)
