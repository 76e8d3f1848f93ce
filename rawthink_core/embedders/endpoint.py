"""One HTTP server that embeds: requests that end in time, retries that help, errors that say what to do.

Blocking, for any thread. Redirects are not followed, for a key must not travel on. Keys stand in a header
only, and in no message.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import json
import os
import random
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson

from rawthink_core.embedders.batches import Refused
from rawthink_core.embedders.connection import Connections
from rawthink_core.errors import (
    AuthenticationFailed,
    BackendError,
    BackendProtocolError,
    BackendTimeout,
    BackendUnavailable,
)

if TYPE_CHECKING:
    import httpx2

_PAUSE = 0.25  # seconds before the second try; doubles, and varies so that many clients part
_MOST_BYTES = 256 << 20  # of one answer; a thousand long vectors are 20 MB
_SHOWN = 200  # characters of what a server says
_ABOUT_TEXTS = (400, 413, 422, 500)  # may be for what was sent; other errors are the server's alone
_TOO_LONG: Final = re.compile(
    r"(context|token|input|prompt|sequence|text).{0,60}(exceed|too (long|large)|longer than|maximum)"
    r"|(exceed|too (long|large)|longer than|maximum|must have less than).{0,60}(context|token|batch size)",
    re.IGNORECASE | re.DOTALL,
)
_NOT_A_NUMBER: Final = re.compile(r"\bNaN\b|unsupported value")
_MARKUP: Final = re.compile(r"\s*<")


class Key(NamedTuple):
    """Where a secret is: in a variable of the environment or in a file. Read anew for each request."""

    variable: str | None = None
    file: Path | None = None

    def read(self) -> str | None:
        """Return the secret; None where none is configured. Raises AuthenticationFailed, without it."""
        if self.file is not None:
            try:
                key = (Path.home() / self.file.expanduser()).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError, RuntimeError) as error:
                raise AuthenticationFailed(f"the key file {self.file} can't be read: {error}") from None
            where = f"the key file {self.file}"
        elif self.variable:
            key = os.environ.get(self.variable, "").strip()
            where = f"the variable {self.variable}"
        else:
            return None
        if not key:
            raise AuthenticationFailed(f"{where} holds no key; set it, then try again")
        if not (key.isascii() and key.isprintable()):
            raise AuthenticationFailed(f"{where} holds characters that no key has; is it the right one?")
        return key


class _TryAgainError(Exception):
    """What may go better at once: the error to raise if it does not, and how long the server asks to wait."""

    def __init__(self, error: BackendError, after: float | None = None) -> None:
        self.error = error
        self.after = after


class Cures(NamedTuple):
    """What the user can do, in sentences: when a server does not answer, lacks a model, refuses a key."""

    start: str
    model: str
    key: str


class Endpoint:
    """Requests to one server, all of its errors with their cure. ``connect`` is in seconds."""

    def __init__(self, url: str, *, key: Key, connect: float, cures: Cures) -> None:
        self.url = url.rstrip("/")
        self._key = key
        self._connect = connect
        self._cures = cures
        self._connections = Connections(self.url)

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"

    def close(self) -> None:
        """Close all connections. The next request opens new ones."""
        self._connections.close()

    def ask(self, path: str, body: object = None, *, seconds: float, tries: int = 3) -> Any:
        """Return the JSON that the server answers, to a POST of ``body`` or a GET.

        Ends within ``seconds``, tries included. Raises Refused where what was sent may be to blame, another
        BackendError where it is not.
        """
        end = time.monotonic() + seconds
        attempt = 1
        while True:
            try:
                return self._once(path, body, end)
            except _TryAgainError as again:
                pause = _PAUSE * 2 ** (attempt - 1) * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
                pause = pause if again.after is None else again.after
                if attempt >= tries or time.monotonic() + pause >= end:
                    raise again.error from again.__cause__
                time.sleep(pause)
                attempt += 1

    def _once(self, path: str, body: object, end: float) -> Any:
        import httpx2  # noqa: PLC0415 - as in `connection`

        key = self._key.read()
        headers = {"accept": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        content = None
        if body is not None:
            headers["content-type"] = "application/json"
            content = orjson.dumps(body)
        left = max(0.001, end - time.monotonic())
        try:
            with (
                self._connections.lend() as client,
                client.stream(
                    "GET" if content is None else "POST",
                    self.url + path,
                    content=content,
                    headers=headers,
                    timeout=httpx2.Timeout(left, connect=min(left, self._connect)),
                ) as response,
            ):
                answer = _read(response, end)
        except httpx2.ProxyError as error:
            raise BackendUnavailable(
                f"the proxy that the system has set can't reach {self.url}: {error}; NO_PROXY goes past it"
            ) from error
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise _TryAgainError(self._unreachable(error)) from error
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise BackendTimeout(
                f"the embedder at {self.url} did not answer in time; it may be loading its model"
            ) from error
        except (httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
            raise _TryAgainError(self._unreachable(error)) from error
        except httpx2.HTTPError as error:
            raise BackendProtocolError(
                f"{self.url} does not speak HTTP as it should ({type(error).__name__}); is the address right?"
            ) from None
        return self._judged(response, answer, key)

    def _judged(self, response: httpx2.Response, answer: bytes, key: str | None) -> Any:
        """Return the JSON of a good answer. Raises what a bad one means."""
        status = response.status_code
        if response.is_success:
            return self._parsed(answer, response.headers.get("content-type", "no type"))
        said = _sentence(answer, key)
        told = f"the embedder at {self.url} answered {status}" + (f": {said}" if said else "")
        if status in (401, 403, 407):
            raise AuthenticationFailed(f"{told}. {self._cures.key}")
        if response.is_redirect:
            place = urlsplit(response.headers.get("location", ""))
            place = place._replace(netloc=place.netloc.rpartition("@")[2], query="", fragment="")
            raise BackendProtocolError(f"{told}: it has moved to {place.geturl()}; set that as its address")
        if status == 404 and "model" in said.casefold():  # noqa: PLR2004 - not found
            raise BackendUnavailable(f"{told}. {self._cures.model}")
        if status == 429 or status >= 500:  # noqa: PLR2004 - too many requests
            after = retry_after(response.headers.get("retry-after"))
            if status == 500 and said and (_NOT_A_NUMBER.search(said) or _TOO_LONG.search(said)):  # noqa: PLR2004
                raise _refused(told, said, status)
            wait = f"; it asks to wait {after:.0f} s" if after else "; try again later"
            error = (
                _refused(told, said, status) if status in _ABOUT_TEXTS else BackendUnavailable(told + wait)
            )
            raise _TryAgainError(error, after)
        if status in _ABOUT_TEXTS:
            raise _refused(told, said, status)
        raise BackendProtocolError(f"{told}. Is its address right?")

    def _parsed(self, answer: bytes, kind: str) -> Any:
        try:
            return orjson.loads(answer)
        except orjson.JSONDecodeError:
            with suppress(ValueError):  # Python reads the NaN that no JSON has
                return json.loads(answer)
        what = "nothing" if not answer.strip() else f"no JSON ({kind.partition(';')[0]})"
        raise BackendProtocolError(f"the embedder at {self.url} answered {what}; is its address right?")

    def _unreachable(self, error: Exception) -> BackendUnavailable:
        reason = str(error) or type(error).__name__
        return BackendUnavailable(
            f"the embedder at {self.url} can't be reached ({reason}). {self._cures.start}"
        )


def _read(response: httpx2.Response, end: float) -> bytes:
    """Read an answer, however slowly it drips, until the end of the time."""
    parts: list[bytes] = []
    size = 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if time.monotonic() > end:
            raise TimeoutError
        if size > _MOST_BYTES:
            raise BackendProtocolError("the embedder's answer does not end; is its address right?")
    return b"".join(parts)


def _refused(told: str, said: str, status: int) -> Refused:
    too_long = status == 413 or bool(_TOO_LONG.search(said))  # noqa: PLR2004 - content too large
    return Refused(told, said or "the server refused it", too_long=too_long)


def _sentence(answer: bytes, key: str | None) -> str:
    """Return what a server says about an error, in whichever of the usual places, without our key."""
    text = answer.decode("utf-8", "replace")
    with suppress(orjson.JSONDecodeError):
        found = orjson.loads(answer)
        for name in ("error", "message", "detail"):
            if isinstance(found, dict) and found.get(name):
                found = found[name]
        text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    if _MARKUP.match(text):  # a page, not a sentence
        return ""
    text = " ".join((text.replace(key, "…") if key else text).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def retry_after(header: str | None) -> float | None:
    """Return the seconds that a server asks to wait, given as a number or as a date."""
    if not header:
        return None
    with suppress(ValueError):
        return max(0.0, min(float(header), 86_400.0))
    with suppress(ValueError, TypeError):
        until = email.utils.parsedate_to_datetime(header)
        return max(0.0, (until - dt.datetime.now(tz=until.tzinfo)).total_seconds())
    return None
