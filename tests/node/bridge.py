"""A stdio server behind Streamable HTTP on this machine, for checkers that speak nothing else.

Each MCP session has a server process of its own, and so has each request of the era without sessions. Messages
pass as they came, byte for byte, but for line breaks between tokens. Of a message the bridge reads only whose
it is: answers go to the request with their id, progress to the one that asked for it, all else to who listens,
or else to who asked last. How it speaks HTTP says nothing about the server.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import uvicorn
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator
    from pathlib import Path

    from starlette.requests import Request

    Queue = asyncio.Queue[bytes | None]

_IDLE = 3.0  # seconds without an open HTTP request after which a session ends: clients don't say that they go
_ENDING = 15.0  # seconds for a server after its input has ended
_LONGEST = 1 << 26  # bytes of a line
_SESSION = "mcp-session-id"


class Started(NamedTuple):
    """How a server is started, and where its stderr goes."""

    command: list[str]
    environment: dict[str, str]
    folder: Path
    errors: Path


class Session:
    """A server process, and who waits for what it says. ``faults`` takes what a server must not do."""

    def __init__(self, process: asyncio.subprocess.Process, faults: list[str]) -> None:
        self.number = secrets.token_hex(16)
        self.open = 0  # answers that are still being sent
        self.visits = 0
        self._process = process
        self._faults = faults
        self._waiting: dict[int | str, Queue] = {}
        self._progress: dict[int | str, int | str] = {}  # who asked for it, by token
        self._listener: Queue | None = None
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, how: Started, faults: list[str]) -> Session:
        """Start a server."""
        with how.errors.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *how.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors,
                env=how.environment, cwd=how.folder, limit=_LONGEST,
            )  # fmt: skip
        return cls(process, faults)

    async def send(self, body: bytes) -> None:
        """Hand a message to the server, as one line."""
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # it has ended: whoever waits is told so
            self._process.stdin.write(body.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
            await self._process.stdin.drain()

    def wait_for(self, request: dict[str, Any]) -> Queue:
        """Return where the answer to a request will come, after the progress that it asked for."""
        queue = self._waiting[request["id"]] = asyncio.Queue()
        if self._reading.done():
            queue.put_nowait(None)
        meta = (request.get("params") or {}).get("_meta") or {}
        if "progressToken" in meta:
            self._progress[meta["progressToken"]] = request["id"]
        return queue

    def listen(self) -> Queue | None:
        """Return where all else will come; None where somebody listens already."""
        if self._listener is not None:
            return None
        self._listener = asyncio.Queue()
        return self._listener

    async def messages(self, queue: Queue) -> AsyncGenerator[bytes]:
        """Send what comes as events."""
        try:
            while (line := await queue.get()) is not None:
                yield b"event: message\ndata: " + line + b"\n\n"
        finally:
            if queue is self._listener:
                self._listener = None
            for number in [number for number, other in self._waiting.items() if other is queue]:
                del self._waiting[number]

    def cancel(self, number: int | str) -> None:
        """Wait no more for an answer that will not come."""
        if (queue := self._waiting.pop(number, None)) is not None:
            queue.put_nowait(None)

    async def end(self) -> None:
        """End the server's input, and see that it ends as it should."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = await asyncio.wait_for(self._process.wait(), _ENDING)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
            self._faults.append(f"a server still ran {_ENDING:.0f} seconds after its input had ended")
        else:
            if code:
                self._faults.append(f"a server ended with exit code {code}")
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._route(line.rstrip(b"\n"))
        for queue in (*self._waiting.values(), *filter(None, [self._listener])):
            queue.put_nowait(None)

    def _route(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            self._faults.append(f"a server wrote what is no message: {line[:200]!r}")
            return
        if "method" not in message:
            if (asking := self._waiting.pop(message.get("id", ""), None)) is not None:
                asking.put_nowait(line)
                asking.put_nowait(None)
            return
        whose = self._progress.get((message.get("params") or {}).get("progressToken", ""), "")
        queue = self._waiting.get(whose) or self._listener or next(reversed(self._waiting.values()), None)
        if queue is not None:
            queue.put_nowait(line)


class Bridge:
    """The HTTP side: a session for each `initialize`, found again by its header."""

    def __init__(self, how: Started, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.faults: list[str] = []
        self._how = how
        self._names = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._sessions: dict[str, Session] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def answer(self, request: Request) -> Response:
        """Answer an HTTP request."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in self._names or (origin and origin.removeprefix("http://") not in self._names):
            return _refusal(403, "only this machine is served")
        name = request.headers.get(_SESSION)
        if name is not None and name not in self._sessions:
            return _refusal(404, "there is no such session, or no more")
        session = self._sessions.get(name or "")
        if request.method == "POST":
            return await self._post(request, session)
        if session is None:
            return _refusal(400, f"the header {_SESSION} is missing")
        if request.method == "DELETE":
            self._end(session)
            return Response()
        queue = session.listen()
        return _refusal(409, "somebody listens already") if queue is None else self._stream(session, queue)

    async def _post(self, request: Request, session: Session | None) -> Response:
        body = await request.body()
        try:
            message = json.loads(body)
        except ValueError:
            return _refusal(400, "the body is no JSON", PARSE_ERROR)
        if not isinstance(message, dict):
            return _refusal(400, "the body is no JSON-RPC message")
        if session is None:
            greets = message.get("method") == "initialize"
            version = request.headers.get("mcp-protocol-version", HANDSHAKE_PROTOCOL_VERSIONS[0])
            if not greets and version in HANDSHAKE_PROTOCOL_VERSIONS:
                return _refusal(400, f"the header {_SESSION} is missing")
            session = await Session.start(self._how, self.faults)
            self._sessions[session.number] = session
        self._visited(session)
        if "method" in message and "id" in message:
            response: Response = self._stream(session, session.wait_for(message))
        else:
            response = Response(status_code=202, headers={_SESSION: session.number})
            if message.get("method") == "notifications/cancelled":
                session.cancel((message.get("params") or {}).get("requestId", ""))
        await session.send(body)
        return response

    def _stream(self, session: Session, queue: Queue) -> StreamingResponse:
        async def events() -> AsyncIterator[bytes]:
            session.open += 1
            try:
                async with aclosing(session.messages(queue)) as messages:
                    async for event in messages:
                        yield event
            finally:
                session.open -= 1
                self._visited(session)

        headers = {_SESSION: session.number, "cache-control": "no-cache"}
        return StreamingResponse(events(), media_type="text/event-stream", headers=headers)

    def _visited(self, session: Session) -> None:
        """End a session unless it is visited again soon."""
        session.visits += 1
        asyncio.get_running_loop().call_later(_IDLE, self._end_if_idle, session, session.visits)

    def _end_if_idle(self, session: Session, visits: int) -> None:
        if session.visits == visits and not session.open:
            self._end(session)

    def _end(self, session: Session) -> None:
        if self._sessions.pop(session.number, None) is not None:
            task = asyncio.create_task(session.end())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """End all sessions."""
        for session in list(self._sessions.values()):
            self._end(session)
        await asyncio.gather(*self._ending)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to who serves."""
        yield


@asynccontextmanager
async def bridge(how: Started) -> AsyncIterator[Bridge]:
    """Serve on a free port of the loopback until the block is left; then end every server."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        made = Bridge(how, listening.getsockname()[1])
        app = Starlette(routes=[Route("/mcp", made.answer, methods=["GET", "POST", "DELETE"])])
        config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield made
        finally:
            await made.close()
            server.should_exit = True
            await serving


def _refusal(status: int, sentence: str, code: int = INVALID_REQUEST) -> JSONResponse:
    error = {"code": code, "message": sentence}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=status)
