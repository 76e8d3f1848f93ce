"""HTTP/1.1 on loopback over asyncio and h11: keep-alive, chunked bodies, and answers that break off.

Knows nothing of memories. A handler is given a `Request` and returns a `Reply`, which says not only what
is sent but also how much of it: all, half of the body, or nothing at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

import h11

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LOOPBACK = "127.0.0.1"
PIECE = 65536
CLOSE = (("connection", "close"),)
LINGER = 1.0


class Cut(Enum):
    """How much of an answer reaches the client."""

    NOTHING = "nothing"  # the whole answer is sent
    ANSWER = "answer"  # the connection closes, and nothing was sent
    BODY = "body"  # the head is sent and half of the body, then the connection closes


@dataclass(frozen=True)
class Request:
    """One request as it came: header names in lower case, path segments decoded one by one."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path between slashes, percent-decoded: an id may hold an encoded slash."""
        return tuple(unquote(part) for part in self.path.split("/")[1:])


@dataclass(frozen=True)
class Reply:
    """One answer, and how it is delivered."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    cut: Cut = Cut.NOTHING
    chunked: bool = False

    @classmethod
    def of(cls, value: Any, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
        """Return ``value`` as a JSON answer."""
        return cls(status, json.dumps(value, ensure_ascii=False).encode(), headers=headers)

    @classmethod
    def text(cls, text: str, status: int, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
        """Return a plain text answer, as the Rust server refuses with."""
        return cls(status, text.encode(), "text/plain; charset=utf-8", headers)

    def json(self) -> Any:
        """Return the body as JSON value; raise `ValueError` where it is none."""
        return json.loads(self.body)


class TooLarge(Exception):  # noqa: N818 - an answer, not a fault of ours
    """A request's body is larger than the server takes."""


class Wire:
    """A listening socket and its connections. Lives in one event loop; ``close`` ends every connection."""

    def __init__(
        self,
        handler: Callable[[Request], Awaitable[Reply]],
        largest: int,
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._handler = handler
        self._crashed = crashed
        self._largest = largest
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    async def listen(self, port: int) -> int:
        """Listen on loopback, on ``port`` or (0) on a free one, and return which."""
        self._server = await asyncio.start_server(self._accept, LOOPBACK, port, backlog=100)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and drop every connection, answered or not. Does nothing when closed."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for talk in list(self._talks):
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of our own: one that asyncio's streams hold complains when it is cancelled.
        talk = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._end)

    def _end(self, talk: asyncio.Task[None]) -> None:
        self._talks.discard(talk)
        if not talk.cancelled() and (error := talk.exception()) is not None:
            self._crashed(error)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other until either side closes."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=PIECE)
        try:
            while (request := await self._receive(connection, reader, writer)) is not None:
                reply = await self._handler(request)
                if not await _send(connection, writer, reply, head=request.method == "HEAD"):
                    break
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    break
                connection.start_next_cycle()
        except TooLarge:
            await _refuse(connection, reader, writer, Reply.text("length limit exceeded", 413, CLOSE))
        except h11.RemoteProtocolError as error:
            await _refuse(connection, reader, writer, Reply.text(str(error), 400, CLOSE))
        except ConnectionError:
            pass  # the client went away: there is nobody to tell
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _receive(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Request | None:
        """Return the next request whole; none when the client closed."""
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if connection.they_are_waiting_for_100_continue:
                    go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
                    writer.write(connection.send(go_on) or b"")
                connection.receive_data(await reader.read(PIECE))
            elif isinstance(event, h11.Request):
                head = event
                self._check(int(dict(event.headers).get(b"content-length", b"0")))
            elif isinstance(event, h11.Data):
                body += event.data
                self._check(len(body))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return _request(head, bytes(body))
            else:
                return None

    def _check(self, size: int) -> None:
        if size > self._largest:
            raise TooLarge


def _request(head: h11.Request, body: bytes) -> Request:
    path, _, query = head.target.decode("ascii").partition("?")
    headers = {name.decode("ascii").lower(): value.decode("latin-1") for name, value in head.headers}
    pairs = tuple(parse_qsl(query, keep_blank_values=True))
    return Request(head.method.decode("ascii"), path, pairs, headers, body)


async def _refuse(
    connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: Reply
) -> None:
    """Refuse a request that isn't read to its end, and let the client read why before all is closed."""
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    with contextlib.suppress(TimeoutError, ConnectionError):
        await _send(connection, writer, reply)
        async with asyncio.timeout(LINGER):
            while await reader.read(PIECE):  # what is unread when a socket closes resets it
                pass


async def _send(
    connection: h11.Connection, writer: asyncio.StreamWriter, reply: Reply, *, head: bool = False
) -> bool:
    """Send an answer; return whether all of it was sent."""
    if reply.cut is Cut.ANSWER:
        return False
    headers = [("content-type", reply.content_type)] if reply.content_type else []
    headers += list(reply.headers)
    if not reply.chunked:
        headers.append(("content-length", str(len(reply.body))))
    start = h11.Response(status_code=reply.status, headers=headers)
    writer.write(connection.send(start) or b"")
    body = b"" if head else reply.body
    if reply.cut is Cut.BODY:
        writer.write(connection.send(h11.Data(data=body[: len(body) // 2])) or b"")
        await writer.drain()
        return False
    if body:
        writer.write(connection.send(h11.Data(data=body)) or b"")
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    await writer.drain()
    return True
