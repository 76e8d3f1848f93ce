"""The proxy as an ASGI application: lets a request in, sends it on, and the answer back.

Nothing is gathered that need not be: a chat request is read whole, since something is put into it; all other
bodies, and all answers, go on piece by piece, as fast as the slower side takes them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import httpx2

from rawthink_chat.calls import RECALL_HEADER
from rawthink_chat.exchange import Exchange, Recalled
from rawthink_chat.proxy.client import Client, ClientLeft, Room
from rawthink_chat.proxy.faults import Refused
from rawthink_chat.proxy.headers import accepted, to_client, to_upstream, values
from rawthink_chat.proxy.targets import checked_path
from rawthink_chat.proxy.upstream import codings_of
from rawthink_chat.requests import api_of
from rawthink_core.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping

    from rawthink_chat.calls import Call
    from rawthink_chat.proxy.admission import Admitted, Doorkeeper
    from rawthink_chat.proxy.client import Receive, Send
    from rawthink_chat.proxy.headers import Headers
    from rawthink_chat.proxy.house import House
    from rawthink_chat.proxy.upstream import Upstream
    from rawthink_chat.requests import Api

log = logging.getLogger("rawthink.proxy")

_LEFT: Final = 499  # in the log, where a client left before its answer began; as nginx writes it
_BODIES_AT_ONCE: Final = 16  # as large as one may be, that all together may take
_BODIES: Final = (b"content-encoding", b"content-length")


class Proxy:
    """The application. ``limit`` is the largest chat request in bytes, ``most`` requests run at a time."""

    def __init__(
        self, upstream: Upstream, house: House, doorkeeper: Doorkeeper, *, limit: int, most: int
    ) -> None:
        self._upstream = upstream
        self._house = house
        self._doorkeeper = doorkeeper
        self._limit, self._most = limit, most
        self._room = Room(_BODIES_AT_ONCE * limit)
        self.running = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']!r} is not served")
        client, entry = Client(scope, receive, send), _Entry(scope)
        self.running += 1
        try:
            await self._answer(client, scope, entry)
        except Refused as refused:
            entry.outcome = refused.code
            if client.status is None:
                await client.refuse(refused)
        except ClientLeft:
            entry.outcome = "the client left"
        except asyncio.CancelledError:
            entry.outcome = "stopped"
            raise
        except Exception:  # a fault of ours ends one request, not the proxy
            entry.outcome = "a fault of rawthink"
            log.exception("a request failed in an unforeseen way; please report this")
            if client.status is None:
                await client.refuse(
                    Refused(500, "fault", "a fault of rawthink; its log says more", closes=True)
                )
        finally:
            self.running -= 1
            self._room.give_back(client.held)
            entry.write(client.status or _LEFT)

    async def _answer(self, client: Client, scope: MutableMapping[str, Any], entry: _Entry) -> None:
        if self.running > self._most:
            raise Refused(
                503,
                "too_many_requests",
                f"{self._most} requests are running; try again in a moment, or raise requests in [proxy]",
                headers=((b"retry-after", b"1"),),
                closes=client.has_body,
            )
        admitted = self._doorkeeper.admit(scope)
        path = checked_path(scope["raw_path"])
        url = self._upstream.url(path, scope["query_string"])
        api = api_of(client.method, path)
        body = None if api is None else await client.whole_body(self._limit, self._room)
        work = asyncio.create_task(
            self._pass_on(client, admitted, url, entry)
            if api is None or body is None
            else self._chat(client, api, body, admitted, url, entry)
        )
        gone = asyncio.create_task(client.gone())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                if not client.complete:
                    work.cancel()  # nobody waits for the answer: the upstream need not go on either
                await asyncio.wait({work})
        finally:
            gone.cancel()
            work.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({work, gone})
        if work.cancelled():
            raise ClientLeft
        work.result()

    # --- what is no chat ------------------------------------------------------------------------

    async def _pass_on(self, client: Client, admitted: Admitted, url: httpx2.URL, entry: _Entry) -> None:
        """Send a request and its answer through as they are."""
        body = client.body() if client.has_body else None
        headers = to_upstream(admitted.headers)
        response = await self._upstream.open(client.method, url, headers, body, client.length)
        client.leave_body()
        try:
            await client.begin(response.status_code, self._headers(response))
            await self._relay(client, response.aiter_raw())
            entry.outcome = "passed on"
        except httpx2.HTTPError as error:
            entry.broke(error)
        finally:
            await response.aclose()

    # --- chats ----------------------------------------------------------------------------------

    async def _chat(
        self, client: Client, api: Api, body: bytes, admitted: Admitted, url: httpx2.URL, entry: _Entry
    ) -> None:
        """Send a request with what is remembered, the answer back, and keep the turn."""
        exchange = await self._begin(api, body, admitted.call)
        entry.recalled = exchange.recalled
        headers = [
            (name, value) for name, value in to_upstream(admitted.headers) if name != b"accept-encoding"
        ]
        headers.append((b"accept-encoding", accepted(admitted.headers, self._upstream.codings)))
        sent = exchange.body
        response = await self._upstream.open(client.method, url, headers, sent, b"%d" % len(sent))
        try:
            await self._answer_chat(client, response, exchange, entry)
        finally:
            await response.aclose()

    async def _begin(self, api: Api, body: bytes, call: Call) -> Exchange:
        chat = self._house.chat
        if chat is None:
            return Exchange(body, Recalled(degraded=self._house.why), None, scrubs=False)
        try:
            return await chat.begin(api, body, call)
        except InvalidRequest as error:
            raise Refused(400, "bad_header", str(error)) from None

    async def _answer_chat(
        self, client: Client, response: httpx2.Response, exchange: Exchange, entry: _Entry
    ) -> None:
        readable = self._upstream.is_readable(response)
        read = {name.lower(): value for name, value in response.headers.items()} if readable else {}
        answer = exchange.answer(response.status_code if readable else 0, read)
        changed = not answer.same or (readable and bool(codings_of(response)))
        headers = self._headers(response, without=_BODIES if readable and changed else ())
        headers.append((RECALL_HEADER.encode(), exchange.recalled.header().encode("latin-1", "replace")))
        await client.begin(response.status_code, headers)
        had = True  # whether the client has all that the answer was fed with
        try:
            async for piece in response.aiter_bytes() if readable else response.aiter_raw():
                had = False
                await client.send(answer.feed(piece))
                had = True
        except httpx2.HTTPError as error:
            await client.send(answer.finish())
            entry.broke(error)  # and the client's answer ends without its end, as this one did
        except asyncio.CancelledError:
            if had:
                exchange.end()  # a client may leave as soon as it has read that this is the end
            raise
        else:
            await client.end(answer.finish())
            entry.outcome = exchange.end()

    async def _relay(self, client: Client, pieces: AsyncIterator[bytes]) -> None:
        async for piece in pieces:
            await client.send(piece)
        await client.end()

    def _headers(self, response: httpx2.Response, *, without: tuple[bytes, ...] = ()) -> Headers:
        headers = to_client(response.headers.raw, without=without)
        if not values(headers, b"location"):
            return headers
        return [
            (name, self._upstream.location(value) if name == b"location" else value)
            for name, value in headers
        ]


class _Entry:
    """One line of the log: never what was said, never a key or a query."""

    def __init__(self, scope: MutableMapping[str, Any]) -> None:
        self._method = scope["method"]
        self._path = scope["raw_path"].decode("latin-1")[:200]
        self._began = time.perf_counter()
        self.recalled: Recalled | None = None
        self.outcome = ""

    def broke(self, error: Exception) -> None:
        """Note that the upstream's answer broke off."""
        self.outcome = f"the upstream broke off ({type(error).__name__})"

    def write(self, status: int) -> None:
        """Write the line."""
        seconds = time.perf_counter() - self._began
        recalled = f"; {self.recalled}" if self.recalled is not None else ""
        line = f"{self._method} {self._path} {status} {seconds * 1000:.0f} ms; {self.outcome}{recalled}"
        log.info("%s", _printable(line))


def _printable(text: str) -> str:
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
