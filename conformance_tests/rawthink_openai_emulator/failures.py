"""How a server goes wrong, for one request: by the header ``x-emulate``, or by `Emulator.next`.

| name | what happens |
|---|---|
| ``429``, ``500``, ``503`` | that status, with OpenAI's error object (429 with ``Retry-After``) |
| ``html`` | 502 with a page of HTML |
| ``redirect`` | 307 to another path of this server |
| ``hang``, ``hang-midway`` | nothing comes, at all or after half the answer, until the client leaves |
| ``cut`` | the connection closes in the middle of a piece |
| ``no-done``, ``two-dones`` | the stream ends without ``[DONE]``, or with two |
| ``crlf`` | its lines end in CR LF |
| ``comments`` | comments and an unknown field stand between its events |
| ``bytes`` | it comes byte by byte |
| ``bad-json`` | one event, or the whole body, is no JSON |
| ``gzip`` | the answer is compressed |
| ``plain`` | its media type is ``text/plain`` |
| ``huge`` | one event has a megabyte of an unknown field |
"""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STATUSES: Final = {"429": 429, "500": 500, "503": 503, "html": 502, "redirect": 307}
WIRE: Final = frozenset(
    {"hang", "hang-midway", "cut", "no-done", "two-dones", "crlf", "comments", "bytes", "bad-json", "gzip"}
    | {"plain", "huge"}
)


def known(name: str) -> bool:
    """Whether this is the name of a failure."""
    return name in STATUSES or name in WIRE


def stream_events(
    events: Iterable[dict[str, object]], failure: str, *, named: bool, done: bool
) -> Iterator[bytes]:
    """Yield the bytes of each event. ``named`` ones say their type; ``done`` streams end in ``[DONE]``."""
    end = b"\r\n" if failure == "crlf" else b"\n"
    for n, told in enumerate(events):
        if failure == "comments":
            yield b": keep-alive" + end + end + b"x-unknown: 1" + end
        event = {**told, "padding": "x" * 2**20} if failure == "huge" and n == 1 else told
        head = b"event: " + str(event["type"]).encode() + end if named else b""
        yield head + b"data: " + json.dumps(event, ensure_ascii=False).encode() + end + end
        if failure == "bad-json" and n == 1:
            yield b'data: {"choices": [' + end + end
    if done:
        yield from [b"data: [DONE]" + end + end] * {"no-done": 0, "two-dones": 2}.get(failure, 1)


def on_the_wire(pieces: Iterable[bytes], failure: str) -> Iterator[bytes]:
    """Yield the pieces as they are sent."""
    if failure == "gzip":
        packer = zlib.compressobj(wbits=31)
        for piece in pieces:
            yield packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)
        yield packer.flush()
    elif failure == "bytes":
        for piece in pieces:
            for at in range(len(piece)):
                yield piece[at : at + 1]
    else:
        yield from pieces


def whole_body(body: bytes, failure: str) -> bytes:
    """Return the bytes of a whole answer."""
    if failure == "bad-json":
        return body[: len(body) // 2]
    return gzip.compress(body, mtime=0) if failure == "gzip" else body
