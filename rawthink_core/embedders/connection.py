"""Connections to one HTTP server, for many threads: kept open between requests, closed by their last user.

A loopback address is reached past every proxy that the system has set: no proxy can reach it for us.
"""

from __future__ import annotations

import ipaddress
import os
import threading
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rawthink_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine."""
    name = host.strip("[]").rstrip(".").casefold()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    with suppress(ValueError):
        address = ipaddress.ip_address(name)
        return address.is_loopback or address.is_unspecified
    return False


class Connections:
    """Lends a client of this process: after a fork, not the parent's. `close` waits for nobody."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._turn = threading.Lock()
        self._shared: _Shared | None = None

    @contextmanager
    def lend(self) -> Iterator[httpx2.Client]:
        """Lend the client for one request. Raises BackendUnavailable where a proxy makes that impossible."""
        with self._turn:
            if self._shared is None or self._shared.process != os.getpid():
                self._shared = _Shared(self._url)
            shared = self._shared
            shared.join()
        try:
            yield shared.client
        finally:
            shared.leave()

    def close(self) -> None:
        """Close all connections, those in use once they are not. The next request opens new ones."""
        with self._turn:
            shared, self._shared = self._shared, None
        if shared is not None:
            shared.leave()


class _Shared:
    """A client and the number of its users: who lends it, and the requests under way."""

    def __init__(self, url: str) -> None:
        import httpx2  # noqa: PLC0415 - 0.1 s, and only who embeds over HTTP needs it

        parts = urlsplit(url)
        try:
            self.client = httpx2.Client(
                trust_env=not is_loopback(parts.hostname or ""),
                verify=parts.scheme == "https",  # no redirect is followed: http needs no authorities
            )
        except (ImportError, ValueError) as error:  # a proxy of a kind that it can't use
            raise BackendUnavailable(
                f"the proxy that the system has set is of no use for {url}: {error}"
            ) from error
        self.process = os.getpid()
        self._users = 1
        self._counting = threading.Lock()
        self._end = weakref.finalize(self, _close, self.client, self.process)

    def join(self) -> None:
        """Count one more user."""
        with self._counting:
            self._users += 1

    def leave(self) -> None:
        """Count one user less; the last one closes."""
        with self._counting:
            self._users -= 1
            last = not self._users
        if last:
            self._end()


def _close(client: httpx2.Client, process: int) -> None:
    if process == os.getpid():  # a fork leaves its parent's connections alone
        client.close()
