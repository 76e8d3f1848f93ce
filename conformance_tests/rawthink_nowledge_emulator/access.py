"""Who may ask: the key in either header, the exempt paths, and the block after wrong keys."""

from __future__ import annotations

import hmac
import math
from typing import TYPE_CHECKING, Any

from rawthink_nowledge_emulator.refusals import Refusal

if TYPE_CHECKING:
    from rawthink_nowledge_emulator.state import Clock
    from rawthink_nowledge_emulator.wire import Request

EXEMPT = ("/livez", "/health", "/capabilities")
EXEMPT_BELOW = "/app"
MOST_FAILURES = 8
WITHIN = 300.0
BLOCKED = 600.0

MISSING = "Missing API key (use Authorization: Bearer <key> or X-NMEM-API-Key)"
INVALID = "Invalid API key"
TOO_MANY = "Too many invalid auth attempts. Retry later or provide the correct API key."


class Access:
    """The gate of a server with a key; without one everybody on loopback passes."""

    def __init__(self, key: str | None, clock: Clock, assumed: dict[str, Any]) -> None:
        self._key = key
        self._clock = clock
        self._assumed = assumed
        self._failures: list[float] = []
        self._blocked_until = 0.0

    def check(self, request: Request) -> None:
        """Raise `Refusal` for who may not ask. A right key passes and ends a block."""
        if self._key is None or (request.method == "GET" and self._exempt(request.path)):
            return
        key = _key_of(request)
        if key is not None and hmac.compare_digest(key.encode(), self._key.encode()):
            self._failures, self._blocked_until = [], 0.0
            return
        now = self._clock.now().timestamp()
        if now < self._blocked_until:
            wait = str(math.ceil(self._blocked_until - now))
            raise Refusal(429, TOO_MANY, headers=(("retry-after", wait),))
        if key is not None or self._assumed["missing_key_counts"]:
            self._count(now)
        raise Refusal(401, MISSING if key is None else INVALID)

    @staticmethod
    def _exempt(path: str) -> bool:
        return path in EXEMPT or path == EXEMPT_BELOW or path.startswith(EXEMPT_BELOW + "/")

    def _count(self, now: float) -> None:
        """Note a failure: the eighth is still answered with 401, and blocks what comes after."""
        self._failures = [then for then in self._failures if now - then < WITHIN] + [now]
        if len(self._failures) >= MOST_FAILURES:
            self._failures, self._blocked_until = [], now + BLOCKED


def _key_of(request: Request) -> str | None:
    """Return the key in a header. In a query or a cookie it is honoured on tunnels only: here it is none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    return request.headers.get("x-nmem-api-key") or None
