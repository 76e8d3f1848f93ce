"""The chat API behind the proxy: one pool of connections, requests as bytes, answers as they come.

No cookies, no redirects that are followed, no key of its own: what a client sends is what the upstream gets.
"""

from __future__ import annotations

from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx2

from rawthink_chat.proxy.admission import is_loopback
from rawthink_chat.proxy.faults import Refused, bad
from rawthink_chat.proxy.headers import CHUNKED, tokens
from rawthink_chat.proxy.targets import OURS, path_below

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rawthink_chat.proxy.headers import Headers

_STATUSES: Final = range(200, 600)
_IDLE_CONNECTIONS, _IDLE_SECONDS = 100, 20.0  # servers of APIs close idle ones after a minute or more


class Upstream:
    """One upstream. ``address`` is an http(s) URL; its path is what ``/v1`` of ours stands for.

    Belongs to one event loop; `close` it.
    """

    def __init__(self, address: str, *, connect_seconds: float = 10.0) -> None:
        self.address = address
        self._base = httpx2.URL(address)
        self._prefix = self._base.path.rstrip("/")
        self._origin = (self._base.scheme, self._base.host, self._base.port)
        self._client = httpx2.AsyncClient(
            # The number of requests is bounded where they come in; none ever waits for a connection.
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=_IDLE_CONNECTIONS,
                keepalive_expiry=_IDLE_SECONDS,
            ),
            timeout=httpx2.Timeout(None, connect=connect_seconds),  # a model may think for minutes
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=False,
            trust_env=not self.is_local,  # HTTPS_PROXY, as the client's own library would
        )
        known = self._client.headers.get("accept-encoding", "")
        self.codings = tuple(coding for word in known.split(",") if (coding := word.strip()))

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine."""
        return self._base.host == "localhost" or is_loopback(self._base.host)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._base.port or (443 if self._base.scheme == "https" else 80)

    def url(self, path: str, query: bytes) -> httpx2.URL:
        """Return the address that a path of ours, already checked, leads to. Raises Refused."""
        target = path_below(path, self._prefix).encode("latin-1") + (b"?" + query if query else b"")
        try:
            url = self._base.copy_with(raw_path=target)
        except httpx2.InvalidURL:
            raise bad("bad_target", "the target can't be read as a path and a query") from None
        if url.raw_path != target or (url.scheme, url.host, url.port) != self._origin:
            raise bad("bad_target", "the target holds a character that must be percent-encoded")
        return url

    def location(self, value: bytes) -> bytes:
        """Return where a redirect leads, as the client is to be told: our paths for those of the upstream.

        A client that followed the upstream's own address would go past its memory, our headers in its hands.
        """
        try:
            url = self._base.join(value.decode("latin-1"))
            there = (url.scheme, url.host, url.port)
            parts = urlsplit(value.decode("latin-1"))
        except (httpx2.InvalidURL, ValueError):
            return value
        path = url.raw_path.decode("latin-1")
        below = path == self._prefix or path.startswith(f"{self._prefix}/")
        whole = bool(parts.netloc) or value.startswith(b"/")
        if there != self._origin or not below or not whole:
            return value
        return ((OURS if self._prefix else "") + path.removeprefix(self._prefix)).encode("latin-1")

    async def open(
        self,
        method: str,
        url: httpx2.URL,
        headers: Headers,
        body: bytes | AsyncIterator[bytes] | None,
        length: bytes | None = None,
    ) -> httpx2.Response:
        """Send a request and return its answer, of which nothing has been read yet; `aclose` it.

        A ``body`` that comes piece by piece is sent so, with ``length`` where that is known. Raises Refused
        with 502 where no answer comes.
        """
        framing: Headers = []
        if length is not None:
            framing = [(b"content-length", length)]
        elif body is not None and not isinstance(body, bytes):
            framing = [CHUNKED]
        request = httpx2.Request(method, url, headers=[*headers, *framing], content=body)
        try:
            response = await self._client.send(request, stream=True)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise Refused(502, "upstream_unreachable", self._reason(error)) from error
        if response.status_code not in _STATUSES:
            await response.aclose()
            raise Refused(
                502, "bad_upstream", f"{self.address} answered with the status {response.status_code}"
            )
        return response

    def _reason(self, error: Exception) -> str:
        kind = type(error).__name__
        if isinstance(error, httpx2.ConnectTimeout | httpx2.ConnectError):
            why = f"can't be reached ({kind}: {error})"
            return f"{self.address} {why}; is it running, and is --upstream its address?"
        return f"{self.address} gave no answer ({kind}: {error}); try again"

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def is_readable(self, response: httpx2.Response) -> bool:
        """Whether the body of an answer can be freed of its encodings."""
        return all(coding.decode("latin-1") in self.codings for coding in codings_of(response))


def codings_of(response: httpx2.Response) -> list[bytes]:
    """Return the encodings of an answer's body, but for those that change nothing."""
    named = tokens([(name.lower(), value) for name, value in response.headers.raw], b"content-encoding")
    return [coding for coding in named if coding != b"identity"]
