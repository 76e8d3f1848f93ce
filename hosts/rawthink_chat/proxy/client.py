"""The client's side of one request: its body piece by piece, its answer, and whether it is still there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from rawthink_chat.proxy.faults import Refused
from rawthink_chat.proxy.headers import values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping

    from rawthink_chat.proxy.headers import Headers

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

PIECE_SECONDS: Final = 60.0  # that a client may take for the next piece of its body
_SLOW: Final = 408
_LINGER_SECONDS, _LINGER_BYTES = 2.0, 64 * 1024 * 1024


class ClientLeft(Exception):  # noqa: N818 - nothing is wrong with it
    """The client has closed its connection."""


class Room:
    """What the bodies of all requests that are held may take together, in bytes."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> None:
        """Take some of it. Raises Refused with 503 where there isn't as much."""
        if size > self._left:
            raise Refused(
                503,
                "too_much_at_once",
                "the bodies of all requests take too much memory; try again in a moment",
                headers=((b"retry-after", b"1"),),
                closes=True,
            )
        self._left -= size

    def give_back(self, size: int) -> None:
        """Give some back."""
        self._left += size


class Client:
    """A request as the server hands it over (ASGI)."""

    def __init__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.headers: Headers = scope["headers"]
        self.status: int | None = None  # of the answer that has begun
        self.held = 0  # bytes of its body that are held
        self.complete = False  # whether its last piece was sent
        self._receive, self._send = receive, send
        self._read = asyncio.Event()
        lengths = values(self.headers, b"content-length")
        self.length = lengths[0] if lengths else None
        self.has_body = bool(values(self.headers, b"transfer-encoding")) or self.length not in (None, b"0")
        if not self.has_body:
            self._read.set()

    # --- the request ----------------------------------------------------------------------------

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises ClientLeft, and Refused with 408."""
        more = self.has_body
        while more:
            try:
                async with asyncio.timeout(PIECE_SECONDS):
                    message = await self._receive()
            except TimeoutError:
                raise Refused(
                    _SLOW, "slow_body", f"no more of the body came for {PIECE_SECONDS:g} s", closes=True
                ) from None
            if message["type"] == "http.disconnect":
                raise ClientLeft
            more = message.get("more_body", False)
            if not more:
                self._read.set()
            if piece := message.get("body", b""):
                yield piece

    async def whole_body(self, limit: int, room: Room) -> bytes:
        """Return the body; `held` of it are to be given back to the room.

        Raises Refused with 413 as soon as it is known to be too large, and as `Room`.
        """
        too_large = Refused(
            413,
            "body_too_large",
            f"a chat request may have {limit >> 20} MiB; raise body_mib in [proxy] where it must be more",
            closes=True,
        )
        if self.length is not None and int(self.length) > limit:
            raise too_large
        come = bytearray()
        async for piece in self.body():
            if len(come) + len(piece) > limit:
                raise too_large
            room.take(len(piece))
            self.held += len(piece)
            come += piece
        return bytes(come)

    async def gone(self) -> None:
        """Return when the client has left, or has its answer. Counts from the end of its body on."""
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def leave_body(self) -> None:
        """Read no more of the body: the answer is there already."""
        self._read.set()

    # --- the answer -----------------------------------------------------------------------------

    async def begin(self, status: int, headers: Headers) -> None:
        """Send status and headers."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, piece: bytes) -> None:
        """Send a piece of the body; waits as long as the client is behind."""
        if piece:
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self, last: bytes = b"") -> None:
        """Send the last piece, and say that it was the last."""
        self.complete = True
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    async def refuse(self, refused: Refused) -> None:
        """Answer with an error of ours.

        What a client still sends is read for a moment: closed at once, the connection would be reset, and the
        answer be lost.
        """
        body = refused.body()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.begin(refused.status, [*headers, *refused.headers])
        await self.send(body)
        waits = refused.status == _SLOW or bool(values(self.headers, b"expect"))  # sends nothing more
        if not self._read.is_set() and not waits:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LINGER_SECONDS):
                    await self._linger()
        await self.end()

    async def _linger(self) -> None:
        rest = _LINGER_BYTES
        while rest > 0:
            message = await self._receive()
            rest -= len(message.get("body", b""))
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                return
