"""Qdrant servers for tests: the client's own memory in the place of a whole one, and HTTP that goes wrong."""

from __future__ import annotations

import json
import threading
import warnings
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from qdrant_client import QdrantClient, models


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
        disable_nagle_algorithm = True  # head and body are two writes

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

    with _running(Handler) as url:
        try:
            yield url, asked
        finally:
            done.set()


def version(number="1.20.0"):
    """Return what a server says of itself."""
    return 200, {"title": "qdrant - vector search engine", "version": number}, "application/json"


# --- a server that works ----------------------------------------------------------------------------


@contextmanager
def qdrant(hold=lambda method, path: None):
    """Serve Qdrant's REST interface on loopback, as far as we use it, from the client's own memory.

    ``hold`` is called before each request, and may raise ValueError. Yields url, the memory, and the requests so far.
    """
    memory, asked = Shared(), []

    def respond(method, path, body):
        asked.append((method, path))
        try:
            hold(method, path)
            return 200, {"result": _plain(_rest(memory, method, path, body)), "status": "ok", "time": 0}
        except ValueError as error:
            status = 404 if "not found" in str(error) else 409 if "already exists" in str(error) else 400
            return status, {"status": {"error": str(error)}, "time": 0}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes

        def _any(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            status, answer = version()[:2] if path == "/" else respond(self.command, path, body)
            data = json.dumps(answer).encode()
            with suppress(ConnectionError):  # whoever asked was killed
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815 - the names that the base class asks for

        def log_message(self, *args):
            """Print nothing."""

    with _running(Handler) as url:
        yield url, memory, asked


@contextmanager
def _running(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda request, address: None  # a client that is killed in the middle is no error
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _rest(memory, method, path, body):
    """Carry out one request: the path says what, the body holds the client's own models."""
    name, *rest = path.removeprefix("/collections").removeprefix("/").split("/")
    if not name:
        return memory.get_collections()
    model, call = _CALLS[" ".join([method, *rest])]
    return call(memory, name, model.model_validate_json(body) if model is not None else None)


def _scrolled(memory, name, asked):
    found, offset = memory.scroll(
        name, scroll_filter=asked.filter, limit=asked.limit, with_payload=asked.with_payload
    )
    return {"points": _plain(found), "next_page_offset": offset}


def _asked(memory, name, asked):
    return memory.query_points(
        name, query=asked.query, using=asked.using, query_filter=asked.filter, limit=asked.limit,
        search_params=asked.params, with_payload=asked.with_payload,
    )  # fmt: skip


_CALLS = {
    "GET": (None, lambda memory, name, _: memory.get_collection(name)),
    "GET exists": (None, lambda memory, name, _: {"exists": memory.collection_exists(name)}),
    "DELETE": (None, lambda memory, name, _: memory.delete_collection(name)),
    "PUT": (
        models.CreateCollection,
        lambda memory, name, made: memory.create_collection(
            name, vectors_config=made.vectors or {}, sparse_vectors_config=made.sparse_vectors
        ),
    ),
    "PUT index": (None, lambda *_: {"operation_id": 1, "status": "completed"}),
    "PUT points": (models.PointsList, lambda memory, name, made: memory.upsert(name, made.points)),
    "POST points": (
        models.PointRequest,
        lambda memory, name, asked: memory.retrieve(name, asked.ids, with_payload=asked.with_payload),
    ),
    "POST points delete": (models.PointIdsList, lambda memory, name, gone: memory.delete(name, gone)),
    "POST points count": (models.CountRequest, lambda memory, name, asked: memory.count(name, asked.filter)),
    "POST points scroll": (models.ScrollRequest, _scrolled),
    "POST points query": (models.QueryRequest, _asked),
}


def _plain(answer):
    if isinstance(answer, list):
        return [_plain(one) for one in answer]
    return answer.model_dump(mode="json") if hasattr(answer, "model_dump") else answer
