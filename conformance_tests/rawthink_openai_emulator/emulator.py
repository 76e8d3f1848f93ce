"""The emulator as a server on loopback, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from typing import TYPE_CHECKING, Self

import uvicorn

from rawthink_openai_emulator.app import App
from rawthink_openai_emulator.models import scripted

if TYPE_CHECKING:
    from rawthink_openai_emulator.app import Received
    from rawthink_openai_emulator.models import Function

_BACKLOG = 4_096
_LAST_WORDS = 5


class Emulator:
    """A server to be used as a context manager. ``url`` is what a client takes as its base URL.

    ``model`` says what is answered (`models.scripted`: by the model's name); ``key`` is the only one that is
    taken, None takes any. ``requests`` are the requests as they came.
    """

    def __init__(self, model: Function = scripted, *, key: str | None = None, port: int = 0) -> None:
        self._app = App(model, key)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self._socket.listen(_BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._app,
                log_config=None,
                lifespan="off",
                ws="none",
                backlog=_BACKLOG,
                timeout_graceful_shutdown=_LAST_WORDS,
                timeout_keep_alive=60,
            )
        )
        self._thread: threading.Thread | None = None

    @property
    def requests(self) -> list[Received]:
        """The requests so far, the last 20,000, oldest first."""
        return list(self._app.requests)

    @property
    def open(self) -> int:
        """How many answers are under way."""
        return self._app.open

    def next(self, *failures: str) -> None:
        """Let the next requests fail so, each by one of these names; an empty one lets it succeed."""
        self._app.failures.extend(failures)

    def forget(self) -> None:
        """Forget the requests so far."""
        self._app.requests.clear()

    def run(self) -> None:
        """Serve in this thread until a signal comes; in any but the main one, until the block ends."""
        asyncio.run(self._server.serve([self._socket]))

    def __enter__(self) -> Self:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # connections are cut on purpose
        self._thread = threading.Thread(target=self.run, name="openai-emulator", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        if self._thread is not None:
            self._thread.join()
        self._socket.close()
