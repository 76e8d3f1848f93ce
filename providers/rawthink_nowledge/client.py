"""Requests to one Nowledge Mem server: bounded in number and time, every failure typed.

A loopback address is reached past every system proxy. Keys stand in headers only. Redirects are not followed.
A read that fails is tried once more where that may help; a write only where it was certainly not carried out,
for what a second write would do nobody knows.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson

from rawthink_core.embedders.connection import is_loopback
from rawthink_core.errors import (
    AuthenticationFailed,
    BackendError,
    BackendProtocolError,
    BackendTimeout,
    BackendUnavailable,
    RawThinkError,
)
from rawthink_nowledge.faults import ServerFailed, Throttled, fault_of, said_by
from rawthink_nowledge.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

    from rawthink_nowledge.settings import NowledgeSettings, Where

_MOST_BYTES: Final = 256 << 20  # of one answer
_BIG: Final = 1 << 18  # an answer of more bytes is parsed in a thread
_EXEMPT: Final = ("/health",)  # what is answered without a key
_PAUSE: Final = 0.2  # seconds before the second try
_REFUSED_SECONDS: Final = 60.0  # how long a refused key is not sent again: eight refusals lock us out


class NotSentError(Exception):
    """The request never left: it may be sent again. Carries the error to raise if that does not help."""

    def __init__(self, error: BackendError) -> None:
        self.error = error


class _Request(NamedTuple):
    """One call: ``what`` names it in errors, ``changes`` tells a write from a question."""

    method: str
    path: str
    params: Mapping[str, Any] | None
    body: object
    what: str
    changes: bool


class Client:
    """Speaks HTTP with one server, in a thread of its own between `open` and `close`."""

    def __init__(self, place: Where, settings: NowledgeSettings) -> None:
        self.url = place.url
        self._key = place.key
        self._settings = settings
        self._http: httpx2.AsyncClient | None = None
        self._lane: Lane | None = None
        self._slots = asyncio.Semaphore(0)
        self._closed_until = 0.0  # in monotonic time
        self._refusal: tuple[str | None, RawThinkError] | None = None  # what a key, or all of us, got last

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def open(self) -> None:
        """Get ready for requests. Raises BackendUnavailable where a system proxy makes that impossible."""
        if self._http is not None:
            return
        import httpx2  # noqa: PLC0415 - 0.1 s, and only who uses this provider needs it

        parts = urlsplit(self.url)
        try:
            self._http = httpx2.AsyncClient(
                trust_env=not is_loopback(parts.hostname or ""),
                verify=parts.scheme == "https",
                limits=httpx2.Limits(
                    max_connections=None, max_keepalive_connections=self._settings.connections
                ),
            )
        except (ImportError, ValueError) as error:  # a proxy of a kind that it can't use
            raise BackendUnavailable(
                f"the proxy that the system has set is of no use for {self.url}: {error}"
            ) from error
        self._slots = asyncio.Semaphore(self._settings.connections)
        self._lane = Lane("rawthink-nowledge")

    async def close(self) -> None:
        """Close all connections. May be called again."""
        http, self._http = self._http, None
        lane, self._lane = self._lane, None
        if http is not None and lane is not None:
            await lane.run(http.aclose())
            await asyncio.to_thread(lane.stop)

    async def read(
        self, path: str, params: Mapping[str, Any] | None = None, *, body: object = None, what: str
    ) -> Any:
        """Return the JSON of a GET, or of a POST of ``body`` that changes nothing."""
        method = "GET" if body is None else "POST"
        return await self._ask(_Request(method, path, params, body, what, changes=False))

    async def write(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        body: object = None,
        what: str,
    ) -> Any:
        """Return the JSON that confirms a write. An error after it was sent says that it may be done."""
        return await self._ask(_Request(method, path, params, body, what, changes=True))

    async def _ask(self, request: _Request) -> Any:
        if self._lane is None:
            raise BackendUnavailable(f"Nowledge Mem at {self.url} is not open; open the memory first")
        return await self._lane.run(self._sent(request))

    async def _sent(self, request: _Request) -> Any:
        """Send a request, and once more where that can do no harm and may help."""
        settings = self._settings
        async with self._slots:
            end = time.monotonic() + (settings.write_seconds if request.changes else settings.read_seconds)
            try:
                return await self._once(request, end)
            except NotSentError as failed:
                error: BackendError = failed.error
            except Throttled as failed:  # turned away at the door
                error = failed
            except ServerFailed as failed:
                if request.changes and not failed.retryable:
                    raise
                error = failed
            pause = _pause(error)
            if time.monotonic() + pause >= end:
                raise error
            await asyncio.sleep(pause)
            try:
                return await self._once(request, end, again=True)
            except NotSentError as failed:
                raise failed.error from failed.__cause__

    async def _once(self, request: _Request, end: float, *, again: bool = False) -> Any:
        key = self._key.read()
        if self._refusal is not None and not again and request.path not in _EXEMPT:
            refused, error = self._refusal
            if time.monotonic() < self._closed_until and refused in (None, key):
                raise error
            self._refusal = None
        status, headers, answer = await self._exchange(request, end, key)
        if 200 <= status < 300:  # noqa: PLR2004 - success
            return await self._parsed(answer, headers, request.what)
        fault = fault_of(status, headers, said_by(answer, key), request.what, self.url)
        self._remember(fault, key)
        raise fault

    async def _exchange(
        self, request: _Request, end: float, key: str | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        import httpx2  # noqa: PLC0415 - as in `open`

        if self._http is None:
            raise BackendUnavailable(f"Nowledge Mem at {self.url} is not open; open the memory first")
        headers = {"accept": "application/json", "x-nmem-client": "rawthink"}
        if key:
            headers |= {"authorization": f"Bearer {key}", "x-nmem-api-key": key}
        content = None
        if request.body is not None:
            headers["content-type"] = "application/json"
            content = orjson.dumps(request.body)
        left = max(0.001, end - time.monotonic())
        unsure = (
            ". It may have been carried out: repeat the batch with the same id" if request.changes else ""
        )
        try:
            async with (
                asyncio.timeout(left),
                self._http.stream(
                    request.method,
                    self.url + request.path,
                    params=request.params,
                    content=content,
                    headers=headers,
                    timeout=httpx2.Timeout(left, connect=min(left, self._settings.connect_seconds)),
                ) as response,
            ):
                return response.status_code, response.headers, await _whole(response)
        except (httpx2.ProxyError, httpx2.UnsupportedProtocol) as error:
            raise BackendUnavailable(
                f"the proxy that the system has set can't reach {self.url}: {error}; NO_PROXY goes past it"
            ) from error
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise NotSentError(self._unreachable(error)) from error
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise BackendTimeout(
                f"Nowledge Mem at {self.url} did not answer in time to {request.what}{unsure}"
            ) from error
        except (httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
            raise BackendUnavailable(
                f"Nowledge Mem at {self.url} broke off ({_reason(error)}) at {request.what}{unsure}"
            ) from error
        except httpx2.HTTPError as error:
            raise BackendProtocolError(
                f"{self.url} does not speak HTTP as it should ({type(error).__name__}); is the address right?"
            ) from None

    async def _parsed(self, answer: bytes, headers: Mapping[str, str], what: str) -> Any:
        try:
            if len(answer) > _BIG:
                return await asyncio.to_thread(orjson.loads, answer)
            return orjson.loads(answer)
        except orjson.JSONDecodeError:
            kind = headers.get("content-type", "no type").partition(";")[0]
            said = "nothing" if not answer.strip() else f"no JSON ({kind})"
            raise BackendProtocolError(
                f"Nowledge Mem at {self.url} answered {said} to {what}; is the address right?"
            ) from None

    def _remember(self, fault: Exception, key: str | None) -> None:
        """Spare the server calls that it has just refused for a while."""
        if isinstance(fault, Throttled) and fault.after is not None:
            self._refusal, self._closed_until = (None, fault), time.monotonic() + fault.after
        elif type(fault) is AuthenticationFailed:
            self._refusal, self._closed_until = (key, fault), time.monotonic() + _REFUSED_SECONDS

    def _unreachable(self, error: Exception) -> BackendUnavailable:
        return BackendUnavailable(
            f"Nowledge Mem at {self.url} can't be reached ({_reason(error)}). Start it, or set NMEM_API_URL "
            "to where it listens"
        )


async def _whole(response: httpx2.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise BackendProtocolError("the server's answer does not end; is its address right?")
    return b"".join(parts)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _pause(error: BackendError) -> float:
    after = error.after if isinstance(error, Throttled | ServerFailed) else None
    return _PAUSE if after is None else after
