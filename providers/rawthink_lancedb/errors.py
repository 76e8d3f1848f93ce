"""What the engine says when something fails, turned into one of core's errors: what, where, what next.

The library raises bare `ValueError`, `RuntimeError` and `OSError` with long texts; which it is can be told
by their words only. The provider goes on after `Vanished` and `Raced`; where it does not expect one, that is
an error like any other. No secret of the storage options leaves this module.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rawthink_core.errors import AuthenticationFailed, BackendError, BackendTimeout, BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN: Final = 240
_PLACE: Final = re.compile(r",?\s*(?:location: Location \{|/\S*\.cargo/|/rustc/|backtrace:).*", re.DOTALL)
_TAGS: Final = re.compile(r"<[^<>]{1,80}>")
_REFUSED: Final = (
    "accessdenied",
    "access denied",
    "invalidaccesskeyid",
    "signaturedoesnotmatch",
    "expiredtoken",
    "invalidtoken",
    "unauthorized",
    "forbidden",
    "status: 401",
    "status: 403",
    "credential",
)
_LATE: Final = ("timed out", "timeout", "deadline")
_GONE: Final = ("not found", "no such file", "does not exist", "was not found")
_FULL: Final = ("no space left", "disk quota")
_RACED: Final = (  # what the engine says where commits meet, whichever two they are
    "commit conflict",
    "incompatible transaction",
    "concurrent transaction",
    "concurrent update",
    "too many concurrent",
    "transaction was preempted",
    "conditionalrequestconflict",
    "preconditionfailed",
    "request precondition failure",
)


class Vanished(BackendUnavailable):
    """A file or table is not there (any more): replaced by upkeep, or the store is gone."""

    table = ""  # of which table, where that is known


class Raced(BackendUnavailable):
    """Others wrote just then: look again, and try again."""


def raced(error: BaseException) -> bool:
    """Tell whether an error of the engine says that others wrote meanwhile, too often for it to go on."""
    said = str(error).casefold()
    return any(word in said for word in _RACED)


def gone(error: BaseException) -> bool:
    """Tell whether an error of the engine says that something is not there."""
    said = str(error).casefold()
    refused = any(word in said for word in _REFUSED)  # "the access key does not exist"
    return any(word in said for word in _GONE) and "nosuchbucket" not in said and not refused


def taken(error: BaseException) -> bool:
    """Tell whether an error of the engine says that somebody else has created the same just now."""
    return "already exists" in str(error).casefold()


def explained(doing: str, where: str, error: BaseException, secrets: Iterable[str] = ()) -> BackendError:
    """Return the error of ours that an error of the engine means."""
    said = str(error)
    low = said.casefold()
    told = _told(said, secrets)
    if isinstance(error, TimeoutError):
        return BackendTimeout(f"{doing} {where} took too long; try again later, or raise timeout_seconds")
    if any(word in low for word in _REFUSED):
        return AuthenticationFailed(
            f"{doing} {where} was refused ({told}); check AWS_ACCESS_KEY_ID and the other credentials"
        )
    if raced(error):
        return Raced(f"{doing} {where} met others who wrote at the same time ({told}); try again")
    if any(word in low for word in _LATE):
        return BackendTimeout(f"{doing} {where} took too long ({told}); try again later")
    if any(word in low for word in _FULL):
        return BackendUnavailable(f"{doing} {where} failed: the disk is full; free some space and try again")
    if "permission denied" in low or "read-only file system" in low:
        return BackendUnavailable(f"{doing} {where} failed: this user may not; check its owner and mode")
    if any(word in low for word in _GONE):
        kind = Vanished if gone(error) else BackendUnavailable
        return kind(
            f"{doing} {where} failed: it is not there ({told}); check the address, and that it is mounted"
        )
    return BackendUnavailable(f"{doing} {where} failed: {told}; see `rawthink doctor`")


def _told(said: str, secrets: Iterable[str]) -> str:
    """Return what an error says, short, in one line, without secrets."""
    for secret in secrets:
        if secret:
            said = said.replace(secret, "…")
    line = " ".join(_TAGS.sub(" ", _PLACE.sub("", said)).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
