"""The routes of the emulator, as an ASGI application."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from rawthink_openai_emulator import completions, responses
from rawthink_openai_emulator.failures import STATUSES, known
from rawthink_openai_emulator.refusals import Refused
from rawthink_openai_emulator.sending import send_answer, send_body, send_json, send_stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rawthink_openai_emulator.models import Answer, Function, Question
    from rawthink_openai_emulator.sending import Send

    Receive = Callable[[], Awaitable[dict[str, Any]]]

MODELS: Final = ("echo", "parrot", "recall", "count", "tools")
_DIMENSIONS: Final = 8
_KEPT: Final = 20_000


@dataclass
class Received:
    """A request as it came."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    left: bool = False  # the client closed the connection before the answer was complete

    def header(self, name: str) -> str | None:
        """Return the first header of a name, None without one."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclass
class App:
    """An ASGI application that answers as the API does, below ``/v1``; ``key`` is the one it takes."""

    model: Function
    key: str | None = None
    requests: deque[Received] = field(default_factory=lambda: deque(maxlen=_KEPT))
    failures: deque[str] = field(default_factory=deque)
    open: int = 0  # answers under way
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _kept: responses.Kept = field(default_factory=responses.Kept)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]]
        path = scope["raw_path"].decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        received = Received(scope["method"], f"{path}?{query}" if query else path, headers)
        self.requests.append(received)
        received.body = await _body_of(receive)
        self.open += 1
        answering = asyncio.ensure_future(self._answer(received, path, send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                received.left = True
            else:
                answering.result()
        finally:
            self.open -= 1
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    async def _answer(self, received: Received, path: str, send: Send) -> None:
        failure = received.header("x-emulate") or (self.failures.popleft() if self.failures else "")
        try:
            self._check(received, failure)
            if failure in STATUSES:
                await _fail(send, failure)
            elif failure == "hang":
                await asyncio.Event().wait()
            else:
                await self._route(received, path, send, failure)
        except Refused as refused:
            await send_json(send, refused.status, refused.body())

    def _check(self, received: Received, failure: str) -> None:
        if failure and not known(failure):
            raise Refused(f"the emulator knows no failure {failure!r}")
        given = received.header("authorization") or ""
        if not given.startswith("Bearer ") or (self.key is not None and given != f"Bearer {self.key}"):
            raise Refused("Incorrect API key provided.", status=401, code="invalid_api_key")

    async def _route(self, received: Received, path: str, send: Send, failure: str) -> None:
        match received.method, path.removeprefix("/v1").rstrip("/").split("/")[1:]:
            case "POST", ["chat", "completions"]:
                await self._complete(_object(received.body), send, failure)
            case "POST", ["responses"]:
                await self._respond(_object(received.body), send, failure)
            case "GET", ["models"]:
                await send_json(send, 200, {"object": "list", "data": [_model(name) for name in MODELS]})
            case "GET", ["models", name]:
                await send_json(send, 200, _model(name))
            case "POST", ["embeddings"]:
                await send_json(send, 200, _embeddings(_object(received.body)))
            case "POST", ["audio", "speech"]:
                await send_body(send, 200, "audio/mpeg", bytes(range(256)) * 64)
            case "POST", ["files"]:
                said = {"id": "file-1", "object": "file", "bytes": len(received.body), "filename": "f"}
                await send_json(
                    send, 200, said | {"created_at": 1, "purpose": "user_data", "status": "processed"}
                )
            case method, _:
                raise Refused(f"Invalid URL ({method} {path})", status=404)

    async def _complete(self, body: dict[str, Any], send: Send, failure: str) -> None:
        question = completions.question_of(body)
        answers = [self._say(question) for _ in range(body.get("n") or 1)]
        number, pause = next(self._numbers), answers[0].pause
        if body.get("stream"):
            events = completions.chunks(number, body, answers)
            await send_stream(send, events, failure, pause, named=False)
        else:
            await send_answer(send, completions.completion(number, body, answers), failure, pause)

    async def _respond(self, body: dict[str, Any], send: Send, failure: str) -> None:
        items = [*self._kept.before(body), *responses.items_of(body)]
        answer = self._say(responses.question_of(body, items))
        number = next(self._numbers)
        self._kept.keep(body, responses.response(number, body, answer), items)
        if body.get("stream"):
            events = responses.events(number, body, answer)
            await send_stream(send, events, failure, answer.pause, named=True)
        else:
            await send_answer(send, responses.response(number, body, answer), failure, answer.pause)

    def _say(self, question: Question) -> Answer:
        try:
            return self.model(question)
        except ValueError as error:
            raise Refused(str(error), status=404, code="model_not_found") from None


async def _fail(send: Send, failure: str) -> None:
    status = STATUSES[failure]
    if failure == "html":
        await send_body(send, status, "text/html", b"<html><body>502 Bad Gateway</body></html>")
    elif failure == "redirect":
        await send_body(send, status, "text/plain", b"", [(b"location", b"/v1/elsewhere")])
    else:
        refused = Refused("The server says no.", status=status, code="emulated", kind="server_error")
        headers = [(b"retry-after", b"0")] if status == STATUSES["429"] else None
        await send_json(send, status, refused.body(), headers)


async def _body_of(receive: Receive) -> bytes:
    pieces = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _object(body: bytes) -> dict[str, Any]:
    try:
        read = json.loads(body)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise Refused("We could not parse the JSON body of your request.")
    return read


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_764_000_000, "owned_by": "emulator"}


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    given = body.get("input")
    texts = [given] if isinstance(given, str) else given or []
    vectors = [_vector(str(text)) for text in texts]
    data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    return {
        "object": "list",
        "data": data,
        "model": body.get("model"),
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


def _vector(text: str) -> list[float]:
    return [(byte - 128) / 128 for byte in hashlib.blake2b(text.encode()).digest()[:_DIMENSIONS]]
