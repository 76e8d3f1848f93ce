"""The search index: what is found, which may lag behind what is stored; and the score of a match.

The scorer is a plain one: which of the question's words stand in the text. It claims no more than that, so a
test with it says whether a client asks and reads rightly, never whether the server's ranking is good.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

LEAST = 0.20  # what scores less is dropped
STEM = 4  # letters that two words share at their beginning, to count as near
WORDS = re.compile(r"[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]|\w+")
CJK = re.compile(r"[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]")
TEXT_SHARE, KEYWORD_SHARE = 0.65, 0.35


def words(text: str) -> frozenset[str]:
    """Return the words of a text, folded; of Chinese, Japanese and Korean its characters."""
    latin = CJK.sub(lambda match: f" {match[0]} ", text.casefold())
    return frozenset(WORDS.findall(latin))


def score(question: frozenset[str], text: frozenset[str], *, degraded: bool = False) -> tuple[float, str]:
    """Return how well a text answers, 0 to 1, and the reason as the server words it.

    A word that only begins alike counts half; ``degraded`` counts whole words alone.
    """
    if not question:
        return 0.0, ""
    exact = len(question & text) / len(question)
    beginnings = {word[:STEM] for word in text if len(word) >= STEM}
    near = 0.0 if degraded else sum(word[:STEM] in beginnings for word in question - text) / len(question)
    value = TEXT_SHARE * (exact + near / 2) + KEYWORD_SHARE * exact
    return round(value, 4), f"Text Match ({TEXT_SHARE:.0%}) + Keyword Match ({KEYWORD_SHARE:.0%})"


@dataclass(frozen=True)
class Lag:
    """How long a write stays unseen by search: a number of searches, seconds, or until a reindex."""

    searches: int = 0
    seconds: float = 0.0
    never: bool = False


@dataclass(frozen=True)
class Pending:
    """A change that search doesn't see yet."""

    memory_id: str
    words: frozenset[str] | None  # none: taken out
    searches: int
    seconds: float
    never: bool


class Index:
    """Which words each memory is found by. Changes are seen once their lag is over, in order."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.lag = Lag()
        self.degraded = False
        self.searches = 0
        self._now = now
        self._words: dict[str, frozenset[str]] = {}
        self._pending: list[Pending] = []

    @property
    def pending(self) -> int:
        """How many changes search doesn't see."""
        return len(self._pending)

    @property
    def stuck(self) -> bool:
        """Whether a change will not be seen without a reindex."""
        return any(change.never for change in self._pending)

    def put(self, memory_id: str, text: str) -> None:
        """Index a memory's text, in place of the one before."""
        self._write(memory_id, words(text))

    def remove(self, memory_id: str) -> None:
        """Take a memory out."""
        self._write(memory_id, None)

    def reindex(self) -> int:
        """Make every change seen; return how many memories are indexed."""
        pending, self._pending = self._pending, []
        for change in pending:
            self._apply(change)
        return len(self._words)

    def search(self, question: str) -> list[tuple[str, float, str]]:
        """Return id, score and reason of what matches, the best first; counts as one search."""
        self._settle()
        self.searches += 1
        asked = words(question)
        found = []
        for memory_id, text in self._words.items():
            value, reason = score(asked, text, degraded=self.degraded)
            if value >= LEAST:
                found.append((memory_id, value, reason))
        return sorted(found, key=lambda hit: -hit[1])

    def health(self) -> dict[str, object]:
        """Return ``health.embedding``."""
        mode: Literal["local-gguf", "local-hash-fallback"] = (
            "local-hash-fallback" if self.degraded else "local-gguf"
        )
        return {"mode": mode, "degraded": self.degraded, "reindex_needed": self.stuck}

    def _write(self, memory_id: str, text: frozenset[str] | None) -> None:
        lag = self.lag
        due = self._now().timestamp() + lag.seconds
        change = Pending(memory_id, text, self.searches + lag.searches, due, lag.never)
        behind = any(waiting.memory_id == memory_id for waiting in self._pending)
        if behind or lag != Lag():
            self._pending.append(change)
        else:
            self._apply(change)

    def _settle(self) -> None:
        """Apply what is due. A change waits behind an earlier one of the same memory."""
        now = self._now().timestamp()
        waiting: list[Pending] = []
        held: set[str] = set()
        for change in self._pending:
            due = not change.never and self.searches >= change.searches and now >= change.seconds
            if due and change.memory_id not in held:
                self._apply(change)
            else:
                held.add(change.memory_id)
                waiting.append(change)
        self._pending = waiting

    def _apply(self, change: Pending) -> None:
        if change.words is None:
            self._words.pop(change.memory_id, None)
        else:
            self._words[change.memory_id] = change.words
