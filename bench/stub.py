"""A stand-in for Ollama on loopback that embeds at once: the bag of a text's words, hashed.

A word's letters in any order are the same word to it, so that a text with its words spelt backwards is found
by its vector and by nothing else. A model's name ends with the size of its vectors: ``words-384``.
"""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from zlib import crc32

SIZES = (384, 1024)
_DIGITS = 5


def vector(text: str, size: int) -> list[float]:
    """Return the unit vector of a text."""
    numbers = [0.0] * size
    for word in {"".join(sorted(word)) for word in text.casefold().split()}:
        mark = crc32(word.encode())
        numbers[(mark >> 1) % size] += 1.0 if mark & 1 else -1.0
    length = math.hypot(*numbers)
    return [round(number / length, _DIGITS) for number in numbers] if length else [1.0, *numbers[1:]]


def backwards(text: str) -> str:
    """Return a text of the same vector that shares no word with it."""
    return " ".join(word[::-1] for word in text.split())


class Ollama:
    """The server, on a free port while its context lasts. ``texts`` is how many it has embedded."""

    def __init__(self) -> None:
        self.texts = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @staticmethod
    def model(size: int) -> str:
        """Return the name of the model whose vectors have this size."""
        return f"words-{size}"

    def answer(self, path: str, asked: Any) -> Any:
        """Return what a request is answered, None where Ollama has no such address."""
        if path == "/api/tags":
            names = [f"{self.model(size)}:latest" for size in SIZES]
            return {
                "models": [
                    {"name": name, "model": name, "digest": f"{crc32(name.encode()):064x}"} for name in names
                ]
            }
        size = int(asked.get("model", "").partition(":")[0].rpartition("-")[2] or 0)
        if path == "/api/show":
            return {"model_info": {"words.embedding_length": size, "words.context_length": 8192}}
        if path == "/api/embed":
            texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
            self.texts += len(texts)
            return {"model": asked["model"], "embeddings": [vector(text, size) for text in texts]}
        return None

    def cost(self, size: int, text: str, number: int = 50) -> list[float]:
        """Return how many seconds each of some questions took over a kept connection."""
        connection = http.client.HTTPConnection(self.address)
        body = json.dumps({"model": self.model(size), "input": [text]})
        times = []
        for _ in range(number):
            began = time.perf_counter()
            connection.request("POST", "/api/embed", body)
            connection.getresponse().read()
            times.append(time.perf_counter() - began)
        connection.close()
        return times


def _handler(ollama: Ollama) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # headers and body leave together

        def _answer(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            said = ollama.answer(self.path, json.loads(self.rfile.read(size) or b"{}"))
            body = json.dumps({"error": "not found"} if said is None else said).encode()
            self.send_response(404 if said is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        do_GET = do_POST = _answer  # noqa: N815 - as http.server calls them

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
            """Say nothing."""

    return Handler
