"""A server that does not answer is left alone for a while, so that not every search waits for it again."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from rawthink_core.errors import BackendError, BackendTimeout, BackendUnavailable
from rawthink_local.served import IndexLost
from rawthink_local.server import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

SHORTEST: Final = 1.0  # seconds; after a call that took longer, as long as that
LONGEST: Final = 30.0


class Patient:
    """A client that is not asked while its server is known to be down. Safe to use from many threads.

    After a failure that others would share (no connection, no answer in time, 429, 5xx) calls raise the same
    at once, for a second, then for twice as long after each further failure, half a minute at most.
    """

    def __init__(self, client: Any, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._failed = f"The Qdrant server at {url} could not be reached"
        self._clock = clock
        self._lock = threading.Lock()
        self._pause = 0.0
        self._until = 0.0
        self._why: BackendError | None = None

    def __getattr__(self, name: str) -> Any:
        what = getattr(self._client, name)

        def call(*args: Any, **named: Any) -> Any:
            self._refuse()
            start = self._clock()
            try:
                answer = what(*args, **named)
            except Exception as error:
                self._note(error, start)
                raise
            self.ask_again()
            return answer

        return call

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask_again(self) -> None:
        """Ask the server again from now on, whatever it did."""
        with self._lock:
            self._pause, self._until, self._why = 0.0, 0.0, None

    def _refuse(self) -> None:
        with self._lock:
            left = self._until - self._clock()
            if self._why is not None and left > 0:
                raise type(self._why)(f"{self._why} Asked again in {max(left, 1):.0f} s")

    def _note(self, error: Exception, start: float) -> None:
        kind, now = kind_of(error, self._failed), self._clock()
        if not isinstance(kind, BackendUnavailable | BackendTimeout) or isinstance(kind, IndexLost):
            return
        with self._lock:
            if start >= self._until:  # else another call has told of it while this one waited
                self._pause = min(max(2 * self._pause, SHORTEST, now - start), LONGEST)
                self._until, self._why = now + self._pause, kind
