"""Servers on a free loopback port, whose answers a test decides; and an Ollama among them."""

from __future__ import annotations

import hashlib
import json
import math
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = 8


def vector_of(text: str) -> list[float]:
    """Return a vector of length 1 that no other text has."""
    numbers = [byte - 127.5 for byte in hashlib.blake2b(text.encode(), digest_size=SIZE).digest()]
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


@dataclass
class Asked:
    """One request that arrived."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Reply:
    """One answer: what is not bytes is sent as JSON."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    after: float = 0.0
    drip: float = 0.0  # seconds between the bytes
    hang_up: bool = False


class Server:
    """A running server: its address, and what it was asked."""

    def __init__(self, answer: Callable[[Asked], Reply], *, host: str = "127.0.0.1") -> None:
        asked = self.asked = []  # type: list[Asked]
        outer = self
        self.answer = answer
        self.ending = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer in one piece: two would wait for each other's acknowledgement

            def log_message(self, *_: object) -> None: ...

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked.append(Asked(self.path, headers, json.loads(body) if body else None))
                reply = outer.answer(asked[-1])
                outer.ending.wait(reply.after)
                if reply.hang_up or outer.ending.is_set():
                    self.close_connection = True
                    return
                sent = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                with suppress(OSError):  # nobody waits for it any more
                    self.send_response(reply.status)
                    for name, value in {"content-type": "application/json", **reply.headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(sent)))
                    self.end_headers()
                    for part in [sent[i : i + 1] for i in range(len(sent))] if reply.drip else [sent]:
                        outer.ending.wait(reply.drip)
                        self.wfile.write(part)
                        self.wfile.flush()

            do_POST = do_GET  # noqa: N815 - the base class calls it so

        class Http(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

            def handle_error(self, *_: object) -> None: ...  # a client that went away

        self._http = Http((host, 0), Handler)
        self.port = self._http.server_address[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.ending.set()
        self._http.shutdown()
        self._http.server_close()

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]


@contextmanager
def serving(answer: Callable[[Asked], Reply], **where: str) -> Iterator[Server]:
    server = Server(answer, **where)
    try:
        yield server
    finally:
        server.close()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Ollama:
    """What Ollama answers. ``broken`` texts make the model fail, ``longest`` is in characters."""

    def __init__(self) -> None:
        self.model = "bge-m3:latest"
        self.digest = "7907646426070047a77226ac3e684fbbe8410524f7b4a74d02837e43f2146bab"
        self.size = SIZE
        self.info: dict[str, Any] = {
            "general.architecture": "bert",
            "bert.context_length": 8192,
            "bert.embedding_length": SIZE,
        }
        self.broken: set[str] = set()
        self.longest = 10**9
        self.cold = 0.0  # seconds to load, given up when the one who asked hangs up
        self.loading: dict[int, float] = {}

    def __call__(self, asked: Asked) -> Reply:
        if asked.path == "/api/tags":
            return Reply({"models": [{"name": self.model, "model": self.model, "digest": self.digest}]})
        if asked.path == "/api/show":
            return Reply({"model_info": self.info})
        if asked.path != "/api/embed":
            return Reply(b"404 page not found", 404, {"content-type": "text/plain"})
        texts = asked.body["input"]
        assert asked.body["truncate"] is False
        if self.cold:
            time.sleep(self.cold)
        if any(word in text for text in texts for word in self.broken):
            return Reply({"error": "failed to encode response: json: unsupported value: NaN"}, 500)
        if any(len(text) > self.longest for text in texts):
            return Reply({"error": "the input length exceeds the context length"}, 400)
        return Reply({"model": asked.body["model"], "embeddings": [vector_of(text) for text in texts]})


def openai(asked: Asked) -> Reply:
    """Answer as OpenAI's endpoint does."""
    if asked.path != "/v1/embeddings":
        return Reply({"error": {"message": "Not found"}}, 404)
    data = [
        {"object": "embedding", "index": i, "embedding": vector_of(text)}
        for i, text in enumerate(asked.body["input"])
    ]
    return Reply({"object": "list", "model": asked.body["model"], "data": data})
