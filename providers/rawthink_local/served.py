"""The search index in a process of its own, so that it never stands in anybody's way: this side of it.

The engine holds Python's global lock through every call, and a full disk that it meets in a memory map ends
its process. `serving` is what that process runs; requests and answers go through pipes, a pickle each. Both
run the same code under one user, so a pickle is as safe as an import.
"""

from __future__ import annotations

import os
import pickle  # both ends are ours
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from rawthink_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rawthink_local.edge import Marker
    from rawthink_local.fields import FieldFilter, IndexPoint, Match, Terms

COMMAND: Final = [sys.executable, "-c", "from rawthink_local.serving import main; main()"]  # -m costs 10 ms


class IndexLost(BackendUnavailable):
    """The process that held the index open has ended. Its files are as after a kill: open them again."""


def our_environment() -> dict[str, str]:
    """Return an environment in which a child imports what this process imports."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class ServedIndex:
    """An `EdgeIndex` that another process holds open. Safe to use from many threads, one call at a time."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._marker: Marker | None = None
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=our_environment()
            )
        except OSError as error:
            raise BackendUnavailable(f"The search index could not start its process: {error}") from error
        self._end = weakref.finalize(self, _end, self._process)

    @classmethod
    def open(cls, folder: Path, dimensions: int = 0) -> ServedIndex:
        """Open or make the index in ``folder``, as `EdgeIndex.open` does; 30 ms more for the process."""
        index = cls()
        try:
            index._marker = index._call("open", folder, dimensions)
        except BaseException:
            index._end()
            raise
        return index

    def _call(self, name: str, *args: object) -> Any:
        process = self._process
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101 - see above
        with self._turn:
            try:
                pickle.dump((name, args), process.stdin, pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                failed, answer = pickle.load(process.stdout)  # noqa: S301 - our own child wrote it
            except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
                self._end()
                raise IndexLost(
                    f"The search index's process has ended: {_how(process.returncode)}"
                ) from error
        if failed:
            raise answer
        return answer

    def apply(
        self, points: Iterable[IndexPoint], deletes: Iterable[str], marker: Mapping[str, str | int]
    ) -> None:
        """Delete, write, and set the marker: see `EdgeIndex.apply`."""
        self._call("apply", list(points), list(deletes), dict(marker))
        self._marker = dict(marker)

    def marker(self) -> Marker | None:
        """Return the marker of the last commit applied; None where there is none yet."""
        return self._marker

    def search(
        self,
        terms: Terms,
        *,
        space: str,
        filters: Sequence[FieldFilter] = (),
        limit: int,
        places: bool = True,
    ) -> list[Match]:
        """Return ids, scores and places, best first: see `EdgeIndex.search`."""
        found: list[Match] = self._call("search", terms, space, tuple(filters), limit, places)
        return found

    def nearest(
        self,
        vector: Sequence[float],
        *,
        space: str,
        filters: Sequence[FieldFilter] = (),
        limit: int,
        places: bool = True,
    ) -> list[Match]:
        """Return ids, similarities and places of the nearest items: see `EdgeIndex.nearest`."""
        found: list[Match] = self._call("nearest", list(vector), space, tuple(filters), limit, places)
        return found

    def both(
        self,
        terms: Terms,
        vector: Sequence[float],
        *,
        space: str,
        filters: Sequence[FieldFilter] = (),
        limit: int,
        places: bool = True,
    ) -> tuple[list[Match], list[Match]]:
        """Return what `search` finds and what `nearest` finds, for one trip to the other process."""
        asked = (terms, list(vector), space, tuple(filters), limit, places)
        found: tuple[list[Match], list[Match]] = self._call("both", *asked)
        return found

    def waiting(self, limit: int) -> list[tuple[str, str]]:
        """Return space and id of points that wait for their vectors, at most so many."""
        found: list[tuple[str, str]] = self._call("waiting", limit)
        return found

    def waiting_count(self) -> int:
        """Count the points that wait for their vectors."""
        return int(self._call("waiting_count"))

    def size(self) -> int:
        """Count the points of all spaces."""
        return int(self._call("size"))

    def pack(self) -> bool:
        """Pack what is worth packing: see `EdgeIndex.pack`. Searches wait meanwhile, nothing else does."""
        return bool(self._call("pack"))

    def close(self) -> None:
        """Flush, let go of the folder and end the process. May be called again."""
        if self._end.alive:
            try:
                with suppress(IndexLost):  # then it has ended already
                    self._call("close")
                assert self._process.stdin is not None  # noqa: S101 - a pipe
                self._process.stdin.close()  # which ends it
                self._process.wait()
            finally:
                self._end()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _how(status: int | None) -> str:
    if status is not None and status < 0:
        with suppress(ValueError):
            name = signal.Signals(-status).name
            return f"{name}, which a full disk causes" if name == "SIGBUS" else name
    return f"status {status}"
