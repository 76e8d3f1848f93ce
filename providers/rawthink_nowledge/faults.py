"""What an answer of the server that is no success means to us: one table from status to exception.

====== ============================== ==============================================================
status body                           raised
====== ============================== ==============================================================
400    JSON or text                   `Refused`: it can't read or won't take what was sent
401    JSON                           `AuthenticationFailed`: no key, or not the right one
402    JSON                           `LimitReached`: the plan's number of memories is used up
403    JSON                           `AccessDenied`: an allowlist, or not open to remote callers
404    "Memory not found"             `MemoryMissing`
404    "Not Found", or no JSON        `RouteMissing`: an older server, or not a Nowledge Mem at all
404    an unknown Space, by its code  `SpaceMissing`
409    JSON with a code               `Conflicting`: what the server knows stands against it
413    text or HTML                   `Refused`: more than it takes
415    text                           `Refused`
422    text (0.10) or JSON (0.9)      `Refused`, with each fault where JSON names them
429    JSON, Retry-After              `Throttled`, with the seconds to wait
5xx    JSON, text or HTML             `ServerFailed`, with what it says of trying again
3xx    any                            `BackendProtocolError`: moved; a key does not travel on
200    empty, HTML, another shape     `BackendProtocolError`
none   no connection                  `BackendUnavailable`
none   no answer in time              `BackendTimeout`
====== ============================== ==============================================================

Messages name the server, what it said (never a key) and what to do next.
"""
# ruff: noqa: N818 - these names say what happened, like those of core

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from rawthink_core.embedders.endpoint import retry_after
from rawthink_core.errors import (
    AuthenticationFailed,
    BackendError,
    BackendProtocolError,
    BackendUnavailable,
    NotFound,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN = 200  # characters of what the server says
_MARKUP: Final = re.compile(r"\s*<")
_SPACES: Final = frozenset(
    {"write_space_unavailable", "invalid_space_selector", "write_destination_required"}
)
_MANY = 3  # faults of a refusal that are quoted


class LimitReached(BackendUnavailable):
    """The server's plan takes no more memories."""


class AccessDenied(AuthenticationFailed):
    """The server does not serve this machine, or not this far."""


class Refused(BackendProtocolError):
    """The server did not take what was sent. Nothing was written by this call."""


class MemoryMissing(NotFound):
    """The server has no memory under an id (any more)."""


class RouteMissing(BackendProtocolError):
    """The server does not know an address of the API."""


class SpaceMissing(BackendError):
    """The server has no such Space."""


class Conflicting(BackendError):
    """What the server holds stands against a change. ``code`` is the server's word for it."""

    def __init__(self, message: str, code: str = "") -> None:
        self.code = code
        super().__init__(message)


class Throttled(BackendUnavailable):
    """The server wants to be left alone for ``after`` seconds (None: it does not say)."""

    def __init__(self, message: str, after: float | None = None) -> None:
        self.after = after
        super().__init__(message)


class ServerFailed(BackendUnavailable):
    """The server failed. ``retryable`` where it says that the same call may do better later."""

    def __init__(self, message: str, *, retryable: bool = False, after: float | None = None) -> None:
        self.retryable = retryable
        self.after = after
        super().__init__(message)


_REFUSED: Final = (Refused, "Nothing was written by this call; is the server's version supported?")
_ADDRESS: Final = "Is the address right?"
_PLAIN: Final[Mapping[int, tuple[type[BackendError], str]]] = {
    3: (BackendProtocolError, "It has moved, and a key does not travel on; set its new address"),
    400: _REFUSED,
    401: (
        AuthenticationFailed,
        "Set NMEM_API_KEY, or apiKey in ~/.nowledge-mem/config.json, to a key of this server",
    ),
    402: (LimitReached, "Delete memories in Nowledge Mem or upgrade its plan, then repeat it"),
    403: (AccessDenied, "Allow this machine in its settings, under Access Anywhere"),
    413: _REFUSED,
    415: _REFUSED,
    422: _REFUSED,
}


class Said(NamedTuple):
    """What an answer says about an error."""

    detail: str = ""
    code: str = ""
    retryable: bool = False
    is_json: bool = False


def said_by(answer: bytes, key: str | None) -> Said:
    """Return what an answer says, in whichever of the shapes of either generation, without our key."""
    text = answer.decode("utf-8", "replace")
    code, retryable, is_json = "", False, False
    with suppress(orjson.JSONDecodeError):
        body = orjson.loads(answer)
        is_json = True
        if isinstance(body, dict):
            code = str(body.get("error_code") or body.get("type") or "")
            retryable = body.get("retryable") is True
            body = body.get("detail") or body.get("message") or body.get("error") or ""
        text = _sentence(body)
    if _MARKUP.match(text):  # a page, not a sentence
        return Said()
    text = " ".join((text.replace(key, "…") if key else text).split())
    return Said(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…", code[:_SHOWN], retryable, is_json)


def _sentence(body: Any) -> str:
    """Return a detail as a sentence: a text as it is, FastAPI's list of faults with their places."""
    if isinstance(body, str):
        return body
    if isinstance(body, list):
        faults = [fault for fault in body if isinstance(fault, dict) and "msg" in fault]
        if faults:
            lines = (
                f"{'.'.join(str(part) for part in fault.get('loc', ()))}: {fault['msg']}" for fault in faults
            )
            return "; ".join(list(lines)[:_MANY])
    return json.dumps(body, ensure_ascii=False) if body else ""


def fault_of(status: int, headers: Mapping[str, str], said: Said, what: str, url: str) -> Exception:
    """Return the exception that an answer means. ``what`` names the call, ``url`` the server."""
    told = f"Nowledge Mem at {url} answered {status} to {what}" + (f": {said.detail}" if said.detail else "")
    wait = retry_after(headers.get("retry-after"))
    if status in (400, 404, 422) and _about_space(said):
        return SpaceMissing(f"{told}. Check [providers.nowledge.spaces] against the server's Spaces")
    if status == 404:  # noqa: PLR2004 - not found
        if said.is_json and said.detail not in ("Not Found", ""):
            return MemoryMissing(told)
        return RouteMissing(f"{told}: no such address. Is it a Nowledge Mem, and recent enough?")
    if status == 409:  # noqa: PLR2004 - conflict
        return Conflicting(f"{told}. Look at both memories in Nowledge Mem", said.code)
    if status == 429:  # noqa: PLR2004 - too many requests
        later = f"in {wait:.0f} s" if wait is not None else "later"
        return Throttled(f"{told}. Check the key, then try again {later}", wait)
    if status >= 500:  # noqa: PLR2004 - the server's own faults
        return ServerFailed(f"{told}. Try again; its own log says more", retryable=said.retryable, after=wait)
    kind, cure = _PLAIN.get(status // 100 if status // 100 == 3 else status, (BackendProtocolError, _ADDRESS))  # noqa: PLR2004 - moved
    return kind(f"{told}. {cure}")


def _about_space(said: Said) -> bool:
    text = said.detail.casefold()
    return said.code in _SPACES or "unknown space" in text or "space not found" in text
