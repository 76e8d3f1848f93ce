"""An upstream on loopback that answers as a test says, to the byte, and writes down what it was asked."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Asked:
    """One request as it came."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes = b""

    def values(self, name):
        return [value for own, value in self.headers if own.lower() == name.lower()]

    @property
    def fields(self):
        return json.loads(self.body)

    @property
    def messages(self):
        return self.fields["messages"]


@dataclass
class Upstream:
    """The server. ``script(asked, writer)`` writes one answer; without an answer's end it closes."""

    script: object = None
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    closed: int = 0  # connections that the other side closed while it answered
    connections: int = 0
    reads: bool = True  # whether it reads bodies

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while (asked := await self._request(reader)) is not None:
                self.asked.append(asked)
                watcher = asyncio.create_task(reader.read(1))
                answer = asyncio.create_task(self.script(asked, writer))
                await asyncio.wait({watcher, answer}, return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    self.closed += 1
                    answer.cancel()
                watcher.cancel()
                await asyncio.wait({watcher, answer})
                if answer.cancelled() or answer.result() == "close":
                    return
                if not watcher.cancelled():
                    return  # it closed after its answer
        except (ConnectionError, asyncio.IncompleteReadError):
            self.closed += 1
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _request(self, reader):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = [tuple(line.split(": ", 1)) for line in lines]
        asked = Asked(method, target, headers)
        if asked.values("transfer-encoding"):
            while size := int(await reader.readline(), 16):
                asked.body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        elif (length := asked.values("content-length")) and self.reads:
            asked.body = await reader.readexactly(int(length[0]))
        return asked


@asynccontextmanager
async def upstream(script):
    """Serve a script on a free port."""
    one = Upstream(script)
    tasks = set()

    async def connected(reader, writer):
        tasks.add(asyncio.current_task())
        with suppress(asyncio.CancelledError):  # this test is over
            await one.serve(reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 20)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# --- what scripts say ---------------------------------------------------------------------------


def answer(body, status="200 OK", kind="application/json", *more):
    """Return an answer in one piece, as bytes."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def saying(data):
    """Return a script that always writes these bytes."""

    async def script(asked, writer):
        writer.write(data)
        await writer.drain()

    return script


def completion(text, finish="stop"):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def chunk(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def event(data):
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def events(text, *, finish="stop", done=1):
    """Return the events of a streamed completion, a word each."""
    words = [f"{word} " for word in text.split(" ")]
    words[-1] = words[-1].rstrip()
    pieces = [
        event(chunk({"role": "assistant", "content": ""})),
        *(event(chunk({"content": w})) for w in words),
    ]
    return [*pieces, event(chunk({}, finish)), *[event("[DONE]")] * done]


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(piece):
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def streaming(pieces, *, pause=0.0):
    """Return a script that streams these pieces."""

    async def script(asked, writer):
        writer.write(STREAM)
        for piece in pieces:
            writer.write(chunked(piece))
            await writer.drain()
            await asyncio.sleep(pause)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return script
