"""Waiting for a lock that many processes want, so that none of them loses every draw."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from filelock import Timeout

if TYPE_CHECKING:
    from filelock import BaseFileLock

# How long to wait, and how often to ask meanwhile, in units: whoever has waited longer asks more often, and
# is the more likely to get it. A holder that hangs is not worth the asking.
_WAITING = ((10, 4), (10, 2), (200, 0.5), (float("inf"), 20))


def take(lock: BaseFileLock, seconds: float, unit: float = 0.001) -> bool:
    """Take a lock within so many seconds; tell whether that succeeded.

    ``unit`` is about how long the lock is usually held, in seconds.
    """
    left = seconds
    for units, interval in _WAITING:
        with suppress(Timeout):
            lock.acquire(timeout=min(units * unit, left), poll_interval=interval * unit)
            return True
        left -= units * unit
        if left <= 0:
            break
    return False
