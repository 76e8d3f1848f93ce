"""Who may come in, to which memory: Host, Origin, token and space, before any byte of a body is read."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from rawthink_chat.calls import Call, call_of, is_own
from rawthink_chat.proxy.faults import Refused, bad
from rawthink_chat.proxy.headers import MAX_HEADERS, values
from rawthink_chat.proxy.headers import tokens as words
from rawthink_core.errors import InvalidRequest
from rawthink_core.hosting import TokenSettings, holder_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

    from rawthink_chat.proxy.headers import Headers

TOKEN_HEADER: Final = b"x-rawthink-token"
_KEYS: Final = (b"authorization", b"api-key", b"x-api-key")
_KEY: Final = re.compile(rb"(?i:(bearer +)?)rawthink-([^\s:]+)(?::(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may go on: what it says of the call, and its headers without anything of ours."""

    call: Call
    headers: Headers


class Doorkeeper:
    """Lets requests in. ``tokens`` may be empty: then who is on this machine may come in.

    ``names`` are host names beside this machine's own by which it may be called.
    """

    def __init__(self, tokens: Mapping[str, TokenSettings], names: Iterable[str] = ()) -> None:
        self._tokens = tokens
        self._names = frozenset(_bare(name) for name in names)

    def admit(self, scope: MutableMapping[str, Any]) -> Admitted:
        """Return what is to be known of a request (an ASGI scope). Raises Refused."""
        headers: Headers = scope["headers"]
        if sum(len(name) + len(value) for name, value in headers) > MAX_HEADERS:
            raise Refused(
                431, "headers_too_large", f"headers may have {MAX_HEADERS >> 10} KiB in all", closes=True
            )
        if values(headers, b"transfer-encoding") and values(headers, b"content-length"):
            raise bad("bad_request", "a request has a Content-Length or a Transfer-Encoding, not both")
        self._check_names(headers)
        if b"upgrade" in words(headers, b"connection") and b"websocket" in words(headers, b"upgrade"):
            raise Refused(501, "no_websockets", "websockets are not passed on; use the HTTP API", closes=True)
        headers, token = _without_token(headers)
        call = self._call(headers, local=_is_local(scope.get("client")))
        if not self._tokens:
            return Admitted(call, headers)
        holder = holder_of(self._tokens, token) if token else None
        if holder is None:
            what = "this token is unknown" if token else "a token is needed"
            raise Refused(
                401,
                "invalid_token",
                f"{what}; send yours in X-RAWThink-Token, or as the API key rawthink-TOKEN:UPSTREAM_KEY",
                headers=((b"www-authenticate", b"Bearer"),),
            )
        settings = holder[1]
        wish = "no" if settings.read_only else call.remember
        return Admitted(replace(call, space=settings.space, remember=wish), headers)

    def _call(self, headers: Headers, *, local: bool) -> Call:
        try:
            own = [
                (name.decode("latin-1"), value.decode())
                for name, value in headers
                if is_own(name.decode("latin-1"))
            ]
            call = call_of(own)
        except (UnicodeDecodeError, InvalidRequest) as error:
            why = str(error) if isinstance(error, InvalidRequest) else "a header of ours is no UTF-8"
            raise Refused(400, "bad_header", why) from None
        if call.space is not None and (self._tokens or not local):
            raise Refused(
                403,
                "space_by_header",
                "the space comes from the token; leave the header X-RAWThink-Space out",
            )
        return call

    def _check_names(self, headers: Headers) -> None:
        """Refuse what a web page sends that has no business here: a name that was turned to this machine."""
        hosts = values(headers, b"host")
        if len(hosts) != 1 or not self._is_ours(hosts[0].decode("latin-1")):
            raise Refused(
                403,
                "unknown_host",
                "it is not called by this name; call it by 127.0.0.1, or add the name to names in [proxy]",
                closes=True,
            )
        for origin in values(headers, b"origin"):
            scheme, _, name = origin.decode("latin-1").partition("://")
            if scheme not in ("http", "https") or not self._is_ours(name):
                raise Refused(
                    403,
                    "unknown_origin",
                    "pages of this origin may not call it; add its host to names in [proxy]",
                    closes=True,
                )

    def _is_ours(self, host: str) -> bool:
        name = _bare(host)
        return name in self._names or name == "localhost" or name.endswith(".localhost") or is_loopback(name)


def _without_token(headers: Headers) -> tuple[Headers, str]:
    """Return the headers without a token of ours, and the token; "" where there is none.

    The header counts more than a key. A key that begins like a token of ours never goes on whole.
    """
    kept: Headers = []
    found = [value.decode("latin-1").strip() for value in values(headers, TOKEN_HEADER)]
    for name, value in headers:
        key = _KEY.fullmatch(value.strip()) if name in _KEYS else None
        if name == TOKEN_HEADER:
            continue
        if key is None:
            kept.append((name, value))
            continue
        found.append(key[2].decode("latin-1"))
        if key[3]:
            kept.append((name, (key[1] or b"") + key[3]))
    return kept, found[0] if found else ""


def _bare(host: str) -> str:
    """Return the name in a Host header, without port and brackets; "" for what is none."""
    try:
        parts = urlsplit(f"//{host.strip().lower()}")
        _ = parts.port
    except ValueError:
        return ""
    odd = "@" in parts.netloc or parts.path or parts.query or parts.fragment
    return "" if odd else (parts.hostname or "").removesuffix(".")


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _is_local(client: object) -> bool:
    return isinstance(client, list | tuple) and bool(client) and is_loopback(str(client[0]))
