"""Transports that put a memory beside a chat API, for clients that are built on `httpx2`, as `openai` is.

They stand before the client's own HTTP client and send through it, so its connections, proxies, time-outs and
hooks stay as they are. Requests that carry no chat go through untouched.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Protocol

import httpx2

from rawthink_chat.calls import RECALL_HEADER, call_of, is_own
from rawthink_chat.requests import api_of
from rawthink_core.errors import InvalidRequest, RawThinkError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from rawthink_chat.answers import Answer
    from rawthink_chat.calls import Call
    from rawthink_chat.exchange import ChatMemory, Exchange
    from rawthink_chat.requests import Api
    from rawthink_core.sync import SyncMemory

log = logging.getLogger("rawthink.chat")

_LENGTHS = frozenset({"content-length", "transfer-encoding"})
_CODED = frozenset({"content-length", "content-encoding", "transfer-encoding"})


class _Response(Protocol):
    status_code: int
    headers: httpx2.Headers


class AsyncMemoryTransport(httpx2.AsyncBaseTransport):
    """Sends through ``client``, with ``chat`` beside it.

    What a request doesn't say of the call, ``call`` does.
    """

    def __init__(self, client: httpx2.AsyncClient, chat: ChatMemory, call: Call) -> None:
        self.client = client
        self._chat, self._call = chat, call

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return the answer as it comes."""
        api = api_of(request.method, request.url.path)
        if api is None:
            return _as_it_is(await self.client.send(_without_own(request), stream=True))
        try:
            call = call_of(request.headers.multi_items()).over(self._call)
            exchange = await self._chat.begin(api, await request.aread(), call)
        except InvalidRequest as error:
            return _refusal(error)
        response = await self.client.send(_with_body(request, exchange.body), stream=True)
        answer = exchange.answer(response.status_code, _lowered(response))
        return _answered(response, exchange, _AsyncBody(response, exchange, answer))

    async def aclose(self) -> None:
        """Close the client beneath."""
        await self.client.aclose()


class _AsyncBody(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, exchange: Exchange, answer: Answer) -> None:
        self._response, self._exchange, self._answer = response, exchange, answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.aiter_bytes():
                if shown := self._answer.feed(piece):
                    yield shown
        except httpx2.HTTPError:  # it broke off: what was held back comes before the client hears of it
            if last := self._answer.finish():
                yield last
            raise
        if last := self._answer.finish():
            yield last
        self._exchange.end()

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
        finally:
            self._exchange.end()


class MemoryTransport(httpx2.BaseTransport):
    """The same for synchronous clients: the memory lives in a thread of its own."""

    def __init__(self, client: httpx2.Client, memory: SyncMemory, chat: ChatMemory, call: Call) -> None:
        self.client = client
        self._memory, self._chat, self._call = memory, chat, call

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return the answer as it comes."""
        api = api_of(request.method, request.url.path)
        if api is None:
            return _as_it_is(self.client.send(_without_own(request), stream=True))
        try:
            call = call_of(request.headers.multi_items()).over(self._call)
            exchange = self._begin(api, request.read(), call)
        except InvalidRequest as error:
            return _refusal(error)
        if exchange is None:
            return _as_it_is(self.client.send(_without_own(request), stream=True))
        response = self.client.send(_with_body(request, exchange.body), stream=True)
        answer = exchange.answer(response.status_code, _lowered(response))
        return _answered(response, exchange, _Body(response, self, exchange, answer))

    def _begin(self, api: Api, body: bytes, call: Call) -> Exchange | None:
        try:
            return self._memory.run(lambda _: self._chat.begin(api, body, call))
        except InvalidRequest:
            raise
        except RawThinkError as error:
            log.warning("the chat goes on without a memory: %s", error)
            return None

    def end(self, exchange: Exchange) -> None:
        """End an exchange where its memory lives; it need not be open any more."""

        async def ended() -> None:
            exchange.end()

        try:
            self._memory.run(lambda _: ended())
        except RawThinkError as error:
            log.warning("a turn is not remembered: %s", error)

    def close(self) -> None:
        """Close the client beneath."""
        self.client.close()


class _Body(httpx2.SyncByteStream):
    def __init__(
        self, response: httpx2.Response, transport: MemoryTransport, exchange: Exchange, answer: Answer
    ) -> None:
        self._response, self._transport, self._answer = response, transport, answer
        self._exchange: Exchange | None = exchange

    def __iter__(self) -> Iterator[bytes]:
        try:
            for piece in self._response.iter_bytes():
                if shown := self._answer.feed(piece):
                    yield shown
        except httpx2.HTTPError:
            if last := self._answer.finish():
                yield last
            raise
        if last := self._answer.finish():
            yield last
        self._end()

    def close(self) -> None:
        try:
            self._response.close()
        finally:
            self._end()

    def _end(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            self._transport.end(exchange)


def _without_own(request: httpx2.Request) -> httpx2.Request:
    for name in {name for name in request.headers if is_own(name)}:
        del request.headers[name]
    return request


def _with_body(request: httpx2.Request, body: bytes) -> httpx2.Request:
    headers = [(name, value) for name, value in request.headers.multi_items() if name not in _LENGTHS]
    sent = httpx2.Request(
        request.method, request.url, headers=headers, content=body, extensions=request.extensions
    )
    return _without_own(sent)


def _as_it_is(response: httpx2.Response) -> httpx2.Response:
    return httpx2.Response(
        response.status_code,
        headers=response.headers.multi_items(),
        stream=response.stream,
        extensions=response.extensions,
    )


def _answered(
    response: httpx2.Response, exchange: Exchange, stream: httpx2.AsyncByteStream | httpx2.SyncByteStream
) -> httpx2.Response:
    """Return the answer that the client gets: decompressed, and saying what was recalled."""
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _CODED]
    headers.append((RECALL_HEADER, exchange.recalled.header()))
    return httpx2.Response(
        response.status_code, headers=headers, stream=stream, extensions=response.extensions
    )


def _lowered(response: _Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _refusal(error: InvalidRequest) -> httpx2.Response:
    """Return a refusal as the API itself would send one."""
    said = {"error": {"message": str(error), "type": "invalid_request_error", "param": None, "code": None}}
    return httpx2.Response(
        400, headers={"content-type": "application/json"}, content=json.dumps(said).encode()
    )
