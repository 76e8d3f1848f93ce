"""Settings of hosts that serve over a network: who may come in, and the proxy before a chat API.

Tokens are kept as hashes only; a token is what fixes the space of whoever brings it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

if TYPE_CHECKING:
    from collections.abc import Mapping


class HostSection(BaseModel):
    """A section of the settings: keys that are unknown are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TokenSettings(HostSection):
    """One token: its hash, and what it opens."""

    sha256: str = Field(
        pattern="^[0-9a-f]{64}$", title="Hash", description="SHA-256 of the token, 64 hexadecimal digits"
    )
    space: str = Field(min_length=1, title="Space", description="The one memory that it opens")
    profile: Literal["agent", "recall", "record", "full"] = Field(
        default="agent", title="Profile", description="Tools that it may use, where tools are served"
    )
    read_only: bool = Field(
        default=False, title="Read only", description="Recall with it, but remember nothing"
    )


class ProxySettings(HostSection):
    """How ``rawthink proxy`` listens, where it leads, and what it bounds."""

    upstream: str | None = Field(
        default=None, title="Upstream", description="Address of the chat API, with its /v1"
    )
    host: str = Field(default="127.0.0.1", title="Host", description="Address to listen on")
    port: int = Field(
        default=4411, ge=0, le=65_535, title="Port", description="Port to listen on; 0 for any free one"
    )
    names: tuple[str, ...] = Field(
        default=(),
        title="Names",
        description="Host names beside this machine's own by which programs and pages may call it",
    )
    forbidden: tuple[str, ...] = Field(
        default=(),
        title="Forbidden",
        description="Regular expressions; a turn that one of them matches is not remembered",
    )
    recall_items: int = Field(
        default=8, ge=1, le=100, title="Items", description="Memories that a model is told at most"
    )
    recall_tokens: int = Field(
        default=600, ge=50, title="Tokens", description="Tokens that they may take, by estimate"
    )
    body_mib: int = Field(
        default=64, ge=1, title="Body", description="Largest chat request, in MiB; what is larger gets 413"
    )
    requests: int = Field(
        default=2048, ge=1, title="Requests", description="Requests at the same time; more get 503"
    )
    connect_seconds: float = Field(
        default=10.0, gt=0, title="Connect", description="Seconds until the upstream must accept a connection"
    )
    closing_seconds: float = Field(
        default=20.0,
        ge=0,
        title="Closing",
        description="Seconds that answers on their way have when it is stopped",
    )

    @field_validator("forbidden")
    @classmethod
    def _patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return patterns

    @field_validator("upstream")
    @classmethod
    def _address(cls, upstream: str | None) -> str | None:
        if upstream is None:
            return None
        meant = "an address like https://api.openai.com/v1 is meant"
        try:
            parts = urlsplit(upstream)
            whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            raise ValueError(meant) from None
        if (
            not whole
            or not upstream.isascii()
            or not upstream.isprintable()
            or {" ", "\\", "%"} & {*upstream}
        ):
            raise ValueError(meant)
        if "@" in parts.netloc:
            raise ValueError("no user or password belongs into an address; the client's own key goes through")
        if parts.query or parts.fragment or "?" in upstream or "#" in upstream:
            raise ValueError("no ? and no # belongs into it; queries are the client's")
        return upstream.rstrip("/")


def holder_of(tokens: Mapping[str, TokenSettings], token: str) -> tuple[str, TokenSettings] | None:
    """Return the name and the settings of a token; None for one that is unknown.

    It takes the same time whichever it is.
    """
    import hashlib  # noqa: PLC0415 - only a host that serves over a network needs it
    import hmac  # noqa: PLC0415 - see above

    digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
    found = None
    for name, settings in tokens.items():
        if hmac.compare_digest(settings.sha256, digest):
            found = (name, settings)
    return found
