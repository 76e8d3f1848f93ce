"""Qdrant servers for tests: the client's own memory in the place of a whole one, and HTTP that goes wrong."""

from __future__ import annotations

import json
import threading
import warnings
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from qdrant_client import QdrantClient


class Shared:
    """A client in memory that many providers share: one call at a time, and closing ends nothing."""

    def __init__(self):
        self._client = QdrantClient(":memory:", force_disable_check_same_thread=True)
        self._turn = threading.RLock()
        self.calls = []

    def __getattr__(self, name):
        what = getattr(self._client, name)

        def call(*args, **named):
            with self._turn, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.calls.append(name)
                return what(*args, **named)

        return call

    def close(self):
        """Stay open for the next provider."""


@contextmanager
def answering(respond):
    """Serve on loopback what ``respond(method, path)`` says: status, body, type. Yields url and requests."""
    asked = []
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self):
            size = int(self.headers.get("Content-Length") or 0)
            asked.append((self.command, self.path, dict(self.headers), self.rfile.read(size)))
            answer = respond(self.command, self.path)
            if answer is None:  # hang until the test is over
                done.wait(30)
                self.close_connection = True
                return
            status, body, kind = answer
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815 - the names that the base class asks for

        def log_message(self, *args):
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        done.set()
        server.shutdown()
        server.server_close()
        thread.join()


def version(number="1.20.0"):
    """Return what a server says of itself."""
    return 200, {"title": "qdrant - vector search engine", "version": number}, "application/json"
