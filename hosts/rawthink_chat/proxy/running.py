"""A run of the proxy, from binding its address to its exit code.

On SIGTERM and SIGINT it takes no more connections, lets answers on their way end for a while, writes down the
turns that are in the background and delivers what can be; on a second signal it stops at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Final

from rawthink_chat.exchange import ChatMemory
from rawthink_chat.proxy.admission import Doorkeeper, is_loopback
from rawthink_chat.proxy.app import Proxy
from rawthink_chat.proxy.house import House
from rawthink_chat.proxy.server import server_of
from rawthink_chat.proxy.upstream import Upstream
from rawthink_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rawthink_core.config import Configuration
    from rawthink_core.hosting import ProxySettings
    from rawthink_core.memory import Memory

log = logging.getLogger("rawthink.proxy")

HOST: Final = "rawthink-proxy"  # written with everything that is recorded here
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_OPENING: Final = 10.0  # seconds for the store, before requests are taken without it
_WRITING: Final = 25.0  # seconds for turns to be written, and the store to be closed
_BACKLOG: Final = 1024


def run(configuration: Configuration, tell: Callable[[str], None]) -> None:
    """Serve until a signal comes. ``tell`` is given the lines for whoever starts it.

    Raises ConfigError, PluginError, StoreTooNew or EmbedderMismatch. The process should be left right after:
    threads may still hang.
    """
    settings = configuration.settings.proxy
    check(configuration)
    listening = bound(settings)
    try:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_serve(configuration, listening, tell))
    finally:
        listening.close()


def check(configuration: Configuration) -> None:
    """Refuse settings that can't be meant. Raises ConfigError."""
    settings = configuration.settings.proxy
    if settings.upstream is None:
        raise ConfigError(
            "where to? name the chat API: rawthink proxy --upstream https://api.openai.com/v1, "
            "or upstream in [proxy]"
        )
    if not configuration.settings.tokens and not _is_own(settings.host):
        raise ConfigError(
            f"{settings.host} can be reached by others: give each a token first "
            "(rawthink proxy --new-token NAME)"
        )


def bound(settings: ProxySettings) -> socket.socket:
    """Return a socket that listens at the configured address. Raises ConfigError where that is not free."""
    host = "127.0.0.1" if settings.host == "localhost" else settings.host
    try:
        family = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM)[0][0]
        # Where the protocol is named, asyncio sends small pieces at once; else they wait for 40 ms.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise ConfigError(
            f"host in [proxy]: {settings.host} is no address of this machine: {error}"
        ) from None
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, settings.port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"{settings.host}:{settings.port} can't be listened on: {error.strerror}; "
            "choose another --port, or 0 for any free one"
        ) from None
    return listening


async def _serve(configuration: Configuration, listening: socket.socket, tell: Callable[[str], None]) -> None:
    settings = configuration.settings.proxy
    address, port = listening.getsockname()[:2]
    upstream = Upstream(settings.upstream or "", connect_seconds=settings.connect_seconds)
    if upstream.is_local and upstream.port == port:
        raise ConfigError(f"{upstream.address} is the proxy itself; --upstream is the API behind it")
    house = House(lambda: build_memory(configuration), lambda memory: furnished(memory, settings))
    await house.open(_OPENING)
    gc.collect()
    gc.freeze()  # what is loaded now stays to the end; to look it through again holds up every answer
    names = settings.names if _is_anywhere(address) else (*settings.names, _written(address))
    proxy = Proxy(
        upstream,
        house,
        Doorkeeper(configuration.settings.tokens, names),
        limit=settings.body_mib << 20,
        most=settings.requests,
    )
    server = server_of(proxy, closing_seconds=settings.closing_seconds)
    with _stopping(server.handle_exit):
        for line in greeting(configuration, f"http://{_written(address)}:{port}/v1"):
            tell(line)
        await server.serve(sockets=[listening])
        left = [task for task in server.server_state.tasks if not task.done()]
        if left:  # they were told to stop
            await asyncio.wait(left, timeout=1)
        await house.close(_WRITING)
    await upstream.close()


def greeting(configuration: Configuration, address: str) -> list[str]:
    """Return what to tell whoever starts it: where it listens, where it leads, and what to set."""
    chosen = configuration.settings
    spaces = sorted({token.space for token in chosen.tokens.values()})
    space = f"{len(chosen.tokens)} tokens for {', '.join(spaces)}" if spaces else f"space {chosen.space}"
    return [
        f"rawthink proxy: {address} -> {chosen.proxy.upstream} (provider {chosen.provider}, {space})",
        f"set OPENAI_BASE_URL={address}",
    ]


def build_memory(configuration: Configuration) -> Memory:
    """Return the memory that the settings describe, not opened yet. Raises ConfigError or PluginError."""
    from rawthink_core.model import Provenance  # noqa: PLC0415 - in a thread, while the server starts
    from rawthink_core.opening import memory_of  # noqa: PLC0415

    return memory_of(configuration, provenance=Provenance(host=HOST))


def furnished(memory: Memory, settings: ProxySettings) -> ChatMemory:
    """Return the chat beside a memory."""
    return ChatMemory(
        memory, forbidden=settings.forbidden, limit=settings.recall_items, tokens=settings.recall_tokens
    )


@contextlib.contextmanager
def _stopping(stop: Callable[[int, None], None]) -> Iterator[None]:
    """Stop on a signal; on a second one at once."""
    loop = asyncio.get_running_loop()
    came: list[int] = []

    def end(number: int) -> None:
        if came:
            leave(0)
        came.append(number)
        stop(number, None)

    for number in SIGNALS:
        try:
            loop.add_signal_handler(number, end, number)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda signum, _: loop.call_soon_threadsafe(end, signum))
    try:
        yield
    finally:
        for number in SIGNALS:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)


def _is_own(host: str) -> bool:
    return host == "localhost" or is_loopback(host)


def _is_anywhere(address: str) -> bool:
    return address in ("0.0.0.0", "::")  # noqa: S104 - asked, not bound


def _written(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def leave(code: int) -> None:
    """End the process now, whatever threads still do: a write is whole or absent."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # it may be closed, or missing
            stream.flush()
    os._exit(code)
