"""One clock and one source of ids, both replaceable.

Everything that asks for the time or mints a random id asks a `Clock` or an `IdSource`, so tests,
replays and the conformance suite are exact. Times are integers of microseconds since 1970 in UTC
inside, aware `datetime` values at the contract.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Says what time it is."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        ...


class IdSource(Protocol):
    """Mints ids for what has no content to derive one from (batches)."""

    def new(self) -> str:
        """Return an id never returned before."""
        ...


class SystemClock:
    """The machine's clock, to the microsecond."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        return from_micros(time.time_ns() // 1000)


class RandomIds:
    """Random version 4 UUIDs."""

    def new(self) -> str:
        """Return a new UUID in its canonical text form."""
        return str(uuid.uuid4())


class ManualClock:
    """A clock that stands still until told to move: for tests, replays and the conformance suite."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time that was set last."""
        return self._now

    def set(self, moment: datetime) -> None:
        """Set the time, forwards or backwards."""
        self._now = moment.astimezone(UTC)

    def tick(self, step: timedelta = timedelta(seconds=1)) -> datetime:
        """Move by ``step`` and return the new time."""
        self._now += step
        return self._now


class CountingIds:
    """Ids in a fixed sequence, the same in every run: for tests and the conformance suite."""

    def __init__(self, prefix: str = "batch") -> None:
        self._prefix = prefix
        self._count = 0

    def new(self) -> str:
        """Return the next id of the sequence, as a UUID."""
        self._count += 1
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._prefix}:{self._count}"))


def to_micros(moment: datetime) -> int:
    """Return microseconds since 1970 in UTC; exact, unlike ``timestamp()``."""
    return (moment - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the aware UTC time of ``micros`` microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)


def iso(moment: datetime) -> str:
    """Return ISO 8601 in UTC with microseconds and ``Z``, so that text order is time order."""
    # not strftime: on Linux it writes the year 476 with three digits, which sorts after 2026
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
