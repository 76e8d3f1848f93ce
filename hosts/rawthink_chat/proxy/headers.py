"""Headers on their way: what belongs to one connection, or to us, stays; all else goes on as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rawthink_chat.calls import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]  # names in lower case

MAX_HEADERS: Final = 64 * 1024  # bytes of a request's headers
CHUNKED: Final = (b"transfer-encoding", b"chunked")
_OWN: Final = PREFIX.encode()
_HOPS: Final = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer "
    b"transfer-encoding upgrade http2-settings".split()
)
# Written anew for each connection, whatever the client says of them.
_ANEW: Final = frozenset((b"host", b"content-length", b"expect"))


def values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return the values of a header, in their order; the name is in lower case."""
    return [value for own, value in headers if own == name]


def tokens(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return the words of a header that lists some, in lower case."""
    listed = b",".join(values(headers, name)).lower().split(b",")
    return [word for part in listed if (word := part.strip(b" \t"))]


def to_upstream(headers: Headers) -> Headers:
    """Return the headers of a request that go on; the upstream's host and the length are added later."""
    named = {*tokens(headers, b"connection")}
    return [
        (name, value)
        for name, value in headers
        if name not in _HOPS and name not in _ANEW and name not in named and not name.startswith(_OWN)
    ]


def to_client(headers: Iterable[tuple[bytes, bytes]], *, without: Iterable[bytes] = ()) -> Headers:
    """Return the headers of an answer that go on, duplicates and order kept; ``without`` names some more."""
    lower = [(name.lower(), value) for name, value in headers]
    dropped = _HOPS | {*tokens(lower, b"connection"), *without}
    return [(name, value) for name, value in lower if name not in dropped and not name.startswith(_OWN)]


def accepted(headers: Headers, known: Iterable[str]) -> bytes:
    """Return what to accept of an upstream whose answer is to be read: what the client takes and we know."""
    codings = {coding.encode() for coding in known}
    taken = [
        word for word in tokens(headers, b"accept-encoding") if word.partition(b";")[0].strip() in codings
    ]
    return b", ".join(taken) or b"identity"
