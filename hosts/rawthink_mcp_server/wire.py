"""JSON-RPC lines over two descriptors, as the streams that the SDK's server speaks on.

One thread reads, one writes, so neither a slow client nor a long message holds up the event loop. When the
input ends, requests that are still being worked on are answered before the server hears of it: who pipes in
three calls gets three answers. A line that is no message is logged, and answered where it has an id.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    CLIENT_INFO_META_KEY,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp_types import JSONRPCMessage

    from rawthink_mcp_server.descriptors import Descriptors

log = logging.getLogger("rawthink.mcp")

_CHUNK = 1 << 16
_BOM = b"\xef\xbb\xbf"
_TICK = 0.02  # seconds between looks at what is still unanswered


class Wire:
    """The connection to one client. Belongs to one event loop.

    ``replied`` is called once, after the first reply has been written, with the client's name for itself.
    """

    def __init__(self, descriptors: Descriptors, replied: Callable[[str | None], None]) -> None:
        self._descriptors = descriptors
        self._replied: Callable[[str | None], None] | None = replied
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[JSONRPCMessage | None] = asyncio.Queue()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="rawthink-mcp-write")
        self._open: dict[int | str, int] = {}  # requests that have no answer yet
        self._client: str | None = None
        self._idle = asyncio.Event()  # while there are none
        self._idle.set()
        self.ended = asyncio.Event()  # the client sends no more, or can't be reached
        to_server: MemoryObjectSendStream[SessionMessage | Exception]
        from_server: MemoryObjectReceiveStream[SessionMessage]
        to_server, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
        self.outgoing, from_server = anyio.create_memory_object_stream[SessionMessage]()
        self._to_server, self._from_server = to_server, from_server

    def start(self) -> list[asyncio.Task[None]]:
        """Begin to read and write; return the tasks that do."""
        threading.Thread(target=self._read, name="rawthink-mcp-read", daemon=True).start()
        return [asyncio.create_task(self._feed()), asyncio.create_task(self._drain())]

    def end(self) -> None:
        """Hear nothing more of the client."""
        self.ended.set()

    async def hang_up(self, seconds: float, going_on: Callable[[], bool], at_most: float) -> None:
        """End the server's input once everything is answered.

        It waits for ``seconds``, and for ``at_most`` while ``going_on`` says that it is worth it.
        """
        began = self._loop.time()
        await _until(self._idle, seconds)
        while not self._idle.is_set() and going_on() and self._loop.time() - began < at_most:
            await _until(self._idle, _TICK)
        self._to_server.close()

    # --- in -------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read lines until the input ends. Runs in a thread of its own."""
        begun: list[bytes] = []  # of the line that is not whole yet
        start = _BOM
        while data := self._some():
            first, *others = data.split(b"\n")
            begun.append(first)
            for part in others:
                self._take(b"".join(begun).removeprefix(start))
                begun, start = [part], b""
        self._take(b"".join(begun).removeprefix(start))
        self._hand_over(None)

    def _some(self) -> bytes:
        try:
            return os.read(self._descriptors.read, _CHUNK)
        except OSError:
            return b""

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        message: JSONRPCMessage | None
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            message = self._second_look(line)
        if message is not None:
            self._hand_over(message)

    def _second_look(self, line: bytes) -> JSONRPCMessage | None:
        """Read a line that is no message at first sight; answer it where it asks for that.

        Half of a character in a text is no reason to leave a caller without an answer: the store refuses it.
        """
        try:
            whole = line.decode()
        except UnicodeDecodeError:
            whole = ""
        try:
            data: Any = json.loads(whole or line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            log.warning("a line of input is no JSON and was left out (%s bytes)", len(line))
            return None
        problem = ErrorData(code=PARSE_ERROR, message="the line is not valid UTF-8; send UTF-8")
        if whole:
            try:
                return jsonrpc_message_adapter.validate_python(data, by_name=False)
            except ValueError:
                problem = ErrorData(
                    code=INVALID_REQUEST, message="not a JSON-RPC 2.0 message, one object a line"
                )
        number = data.get("id") if isinstance(data, dict) else None
        log.warning("a line of input is no message and was left out: %s", problem.message)
        if isinstance(number, str | int) and not isinstance(number, bool):
            error = JSONRPCError(jsonrpc="2.0", id=number, error=problem)
            asyncio.run_coroutine_threadsafe(self._write(error), self._loop)
        return None

    def _hand_over(self, message: JSONRPCMessage | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, message)
        except RuntimeError:
            return  # the loop has ended

    async def _feed(self) -> None:
        """Hand messages to the server in their order."""
        while (message := await self._lines.get()) is not None and not self.ended.is_set():
            if isinstance(message, JSONRPCRequest):
                self._open[message.id] = self._open.get(message.id, 0) + 1
                self._idle.clear()
                self._client = self._client or _name(message.params or {})
            elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                self._settle((message.params or {}).get("requestId", ""))  # it is never answered
            try:
                await self._to_server.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                break
        self.ended.set()

    # --- out ------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Write what the server says."""
        async with self._from_server:
            async for said in self._from_server:
                await self._write(said.message)
                number = getattr(said.message, "id", None)
                if number is not None and not isinstance(said.message, JSONRPCRequest):
                    self._answered(number)

    def _settle(self, number: int | str) -> None:
        left = self._open.pop(number, 1) - 1
        if left > 0:
            self._open[number] = left
        if not self._open:
            self._idle.set()

    def _answered(self, number: int | str) -> None:
        self._settle(number)
        if self._replied is not None:
            replied, self._replied = self._replied, None
            replied(self._client)

    async def _write(self, message: JSONRPCMessage) -> None:
        try:
            line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        except ValueError:  # half of a character in what the client sent and now gets back
            line = json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode() + b"\n"
        if not await self._loop.run_in_executor(self._writer, self._send, line):
            self._open.clear()  # nobody is there to answer
            self._idle.set()
            self.ended.set()

    def _send(self, line: bytes) -> bool:
        """Write a line whole; tell whether somebody took it. Runs in the writing thread."""
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._descriptors.write, view) :]
        except OSError:
            return False
        return True


async def _until(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, and not longer."""
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait({waiting}, timeout=seconds)
    waiting.cancel()


def _name(params: dict[str, Any]) -> str | None:
    """Return what a client calls itself, in either era of the protocol."""
    meta = params.get("_meta")
    info = params.get("clientInfo") or (meta.get(CLIENT_INFO_META_KEY) if isinstance(meta, dict) else None)
    if not isinstance(info, dict):
        return None
    return f"{info.get('name', '')} {info.get('version', '')}".strip()[:100] or None
