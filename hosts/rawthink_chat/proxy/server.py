"""The server before the application: uvicorn with h11, which is strict, and with bounds for what is slow."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TYPE_CHECKING, Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rawthink_chat.proxy.faults import error_body
from rawthink_chat.proxy.headers import MAX_HEADERS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

HEADER_SECONDS: Final = 30.0  # until a request's headers must have come, once the connection is open
IDLE_SECONDS: Final = 75  # that a connection may rest between two requests
_PLAIN: Final = {431: "the headers are too large", 501: "this transfer coding is not served"}


class Protocol(H11Protocol):
    """One connection. Slow or silent ones are closed; what is no HTTP is answered in OpenAI's form."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes of requests."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._stop_waiting()

    def on_response_complete(self) -> None:
        """Go on with what came behind the request."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.conn.trailing_data[0]:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, where nothing has been answered yet, and close."""
        error = sys.exception()
        hint = getattr(error, "error_status_hint", 400)
        status = hint if hint in _PLAIN else 400
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = error_body(status, "bad_request", _PLAIN.get(status, f"{msg} ({error})"))
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
                (b"connection", b"close"),
            ]
            for event in (
                h11.Response(status_code=status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait(self) -> None:
        """Count the time while a request has not come with all its headers."""
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(HEADER_SECONDS, self._close_late)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _close_late(self) -> None:
        self._waiting = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """The server, without signal handlers of its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield


def server_of(app: Any, *, closing_seconds: float) -> Server:
    """Return the server of an application; serve it on sockets that are bound already."""
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what is worth a line is in our own log
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # who is on this machine is known by its address, not by what it says
        server_header=False,
        date_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=int(closing_seconds),
        h11_max_incomplete_event_size=MAX_HEADERS,
    )
    return Server(config)
