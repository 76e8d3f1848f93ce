"""Rows of figures: each of ours beside the same one of another server, and as a ratio to it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from servers import Peer
from speed import quantile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")

FEWEST = 5  # calls that count, however slow they are
LABEL, NAME = 41, 20  # characters


def rounds(number: int, seconds: float, warm: int = 20) -> Iterator[bool]:
    """Yield whether the next round counts: ``number`` do, fewer where they take longer than ``seconds``."""
    began = time.perf_counter()
    for _ in range(warm):
        yield False
        if time.perf_counter() - began > seconds / 10:
            break
    began = time.perf_counter()
    for turn in range(number):
        if turn >= FEWEST and time.perf_counter() - began > seconds:
            break
        yield True


def show_times(label: str, by_server: Mapping[str, list[float]]) -> None:
    """Print how long the calls of each server took. Nothing was measured of one whose list is empty."""
    peer = _of_peer(by_server)
    for name, times in by_server.items():
        if not times:
            continue
        middle, high = quantile(times, 0.5), quantile(times, 0.99)
        told = f"p50 {middle * 1e3:8.2f}  p99 {high * 1e3:8.2f} ms  {len(times):4} times"
        if peer and times is not peer:
            told += f"  ratio {middle / quantile(peer, 0.5):.4f}, {high / quantile(peer, 0.99):.4f}"
        print(f"  {label:{LABEL}} {name:{NAME}} {told}", flush=True)
        label = ""


def show_values(label: str, by_server: Mapping[str, float], unit: str) -> None:
    """Print one figure of each server."""
    peer = _of_peer(by_server)
    for name, value in by_server.items():
        ratio = f"  ratio {value / peer:.4f}" if peer and not name.startswith(Peer.name) else ""
        print(f"  {label:{LABEL}} {name:{NAME}} {value:9,.0f} {unit}{ratio}", flush=True)
        label = ""


def _of_peer(by_server: Mapping[str, T]) -> T | None:
    return next((found for name, found in by_server.items() if name.startswith(Peer.name)), None)
