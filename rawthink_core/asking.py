"""What a question means: its vector, made by the embedder that made those of the store.

A provider awaits `ask` before it searches, and hands what comes back to `searching.answer`: the vector, or
why there is none. A question that was asked lately is not embedded again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from array import array
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from rawthink_core.errors import BackendError, BackendProtocolError, BackendTimeout
from rawthink_core.text import has_substance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.embedding import Embedder

log = logging.getLogger("rawthink.search")

SECONDS = 1.0  # of the 1.2 that a recall has
_KEPT = 128


class Asked(NamedTuple):
    """What an embedder made of a question."""

    vector: Sequence[float]  # of length 1
    weight: float  # the share of the dense list
    floor: float  # the similarity from which on a hit that shares no word counts


async def ask(embedder: Embedder, text: str, seconds: float = SECONDS) -> tuple[Asked | None, str | None]:
    """Return what ``embedder`` makes of a question, or why it can be asked by its words only. Never raises.

    Neither is there where no embedder is used, or the text has nothing to embed.
    """
    if (not embedder.dimensions and embedder.name == "none") or not has_substance(text):
        return None, None
    vector = _asked_lately.get(embedder.fingerprint, text)
    if vector is None:
        try:
            vector = _unit(await _within(seconds, embedder, text), embedder)
        except BackendError as error:
            return None, _without(embedder, str(error))
        except Exception as error:  # a plugin may fail in any way, and no search with it
            log.warning("embedder %s failed in an unforeseen way", embedder.name, exc_info=True)
            return None, _without(embedder, f"{type(error).__name__}: {error}")
        _asked_lately.keep(embedder.fingerprint, text, vector)
    return Asked(vector, embedder.dense_weight, embedder.min_similarity), None


def _without(embedder: Embedder, why: str) -> str:
    return f"embedder {embedder.name}: {why.rstrip('. ')}; found by words only"


async def _within(seconds: float, embedder: Embedder, text: str) -> list[float]:
    """Return the vector, or raise BackendTimeout. A call past its time ends on its own, however it ends."""
    task = asyncio.ensure_future(embedder.embed_query(text))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if done:
            return task.result()
    finally:
        if not task.done():
            task.add_done_callback(_forget_result)
            task.cancel()
    raise BackendTimeout(f"no answer within {seconds:g} s")


def _forget_result(task: asyncio.Future[list[float]]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.info("an embedding past its time ended with: %s", error)


def _unit(vector: Sequence[float], embedder: Embedder) -> array[float]:
    """Return a vector at length 1. Raises BackendProtocolError where nothing can be compared with it."""
    length = math.sqrt(sum(x * x for x in vector))
    if len(vector) != embedder.dimensions or not math.isfinite(length) or length == 0:
        raise BackendProtocolError(
            f"promised {embedder.dimensions} numbers, gave {len(vector)} of length {length:g} for a question"
        )
    return array("d", (x / length for x in vector))  # a quarter of a tuple's size


class _Lately:
    """The vectors of the last questions, by embedder and text. Safe to use from many threads."""

    def __init__(self) -> None:
        self._vectors: OrderedDict[tuple[str, str], array[float]] = OrderedDict()
        self._lock = Lock()

    def get(self, fingerprint: str, text: str) -> array[float] | None:
        with self._lock:
            vector = self._vectors.pop((fingerprint, text), None)
            if vector is not None:
                self._vectors[fingerprint, text] = vector
            return vector

    def keep(self, fingerprint: str, text: str, vector: array[float]) -> None:
        with self._lock:
            self._vectors[fingerprint, text] = vector
            while len(self._vectors) > _KEPT:
                self._vectors.popitem(last=False)


_asked_lately = _Lately()
