"""Bytes on their way to the client, as ASGI sends them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from rawthink_openai_emulator.failures import on_the_wire, stream_events, whole_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    Send = Callable[[dict[str, Any]], Awaitable[None]]
    Headers = list[tuple[bytes, bytes]]


class ConnectionCut(Exception):  # noqa: N818 - nobody's error: it is meant
    """Raised to make the server close a connection in the middle of an answer."""


async def start(send: Send, status: int, kind: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Send the head of an answer, as the real server marks it."""
    marks: Headers = [
        (b"x-request-id", b"req_emulated"),
        (b"openai-processing-ms", b"1"),
        (b"set-cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
    ]
    own = (b"content-type", kind.encode())
    await send({"type": "http.response.start", "status": status, "headers": [own, *marks, *headers]})


async def send_body(send: Send, status: int, kind: str, body: bytes, headers: Headers | None = None) -> None:
    """Send an answer in one piece."""
    await start(send, status, kind, [(b"content-length", str(len(body)).encode()), *(headers or [])])
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, body: object, headers: Headers | None = None) -> None:
    """Send an answer as JSON."""
    await send_body(send, status, "application/json", json.dumps(body).encode(), headers)


async def send_answer(send: Send, body: object, failure: str, pause: float) -> None:
    """Send a whole completion or response, or what a failure makes of it."""
    await asyncio.sleep(pause)
    data = whole_body(json.dumps(body).encode(), failure)
    if failure in ("cut", "hang-midway"):
        await start(send, 200, "application/json", [(b"content-length", str(len(data)).encode())])
        await send({"type": "http.response.body", "body": data[: len(data) // 2], "more_body": True})
        await _break_off(failure)
    kind = "text/plain" if failure == "plain" else "application/json"
    await send_body(send, 200, kind, data, [(b"content-encoding", b"gzip")] if failure == "gzip" else None)


async def send_stream(
    send: Send, events: Iterator[dict[str, Any]], failure: str, pause: float, *, named: bool
) -> None:
    """Send a streamed answer, piece by piece, or what a failure makes of it."""
    kind = "text/plain" if failure == "plain" else "text/event-stream; charset=utf-8"
    await start(send, 200, kind, [(b"content-encoding", b"gzip")] if failure == "gzip" else [])
    pieces = stream_events(events, failure, named=named, done=not named)
    for n, piece in enumerate(on_the_wire(pieces, failure)):
        if failure in ("cut", "hang-midway") and n == 3:  # noqa: PLR2004 - some have come
            await send({"type": "http.response.body", "body": piece[: len(piece) // 2], "more_body": True})
            await _break_off(failure)
        if pause:
            await asyncio.sleep(pause)
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _break_off(failure: str) -> None:
    if failure == "hang-midway":
        await asyncio.Event().wait()  # until the client leaves
    raise ConnectionCut
