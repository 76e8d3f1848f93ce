"""When to try again: a conversation waits longer after each failure, and all wait while a store is down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_STRIKES = 4  # failures in a row after which the store counts as down


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient a delivery is, in seconds and tries."""

    prompt: float = 1.0  # what a caller waits for `stored`
    first: float = 1.0  # before the second try; doubles
    longest: float = 900.0
    tries: int = 20  # of one turn, before it is set aside
    poll: float = 1.0  # how often to look for what other processes left
    closing: float = 2.0
    deadline: float = 30.0  # of one delivery


class Pacing:
    """Keeps count of failures and says who may be tried."""

    def __init__(self, pace: Pace, now: Callable[[], float]) -> None:
        self._pace = pace
        self._now = now
        self._due: dict[str, float] = {}
        self._strikes = 0
        self._closed_until = 0.0

    @property
    def paused(self) -> bool:
        """Whether the store is down and nobody is to be tried yet."""
        return self._now() < self._closed_until

    @property
    def probing(self) -> bool:
        """Whether the store was down last: one try will tell."""
        return self._strikes >= _STRIKES

    def may(self, talk: str) -> bool:
        """Tell whether a conversation has waited long enough."""
        return self._due.get(talk, 0.0) <= self._now()

    def failed(self, talk: str, tries: int) -> None:
        """Let a conversation wait after its ``tries``-th failure in a row."""
        now = self._now()
        self._due[talk] = now + self._wait(tries - 1)
        self._strikes += 1
        if self.probing:
            self._closed_until = now + self._wait(self._strikes - _STRIKES)

    def _wait(self, doublings: int) -> float:
        return min(self._pace.first * 2.0 ** min(max(doublings, 0), 30), self._pace.longest)

    def succeeded(self, talk: str) -> None:
        """Note that the store works; where it was down, nobody needs to wait any longer."""
        if self.probing:
            self._due.clear()
        self._due.pop(talk, None)
        self._strikes, self._closed_until = 0, 0.0

    def start_afresh(self) -> None:
        """Let everybody be tried now."""
        self._due.clear()
        self._strikes, self._closed_until = 0, 0.0
