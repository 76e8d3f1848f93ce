"""The process that serves the search index: requests on its standard input, answers on its standard output.

It ends when its input does, however the process on the other side ended, and may be killed at any moment.
Imports little: a first search waits for it.
"""

from __future__ import annotations

import os
import pickle  # both ends are ours, see `served`
import signal
import sys
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final

from rawthink_core.errors import BackendUnavailable
from rawthink_local.edge import EdgeIndex
from rawthink_local.engine import IndexBusy
from rawthink_local.files import explained, make_folder
from rawthink_local.resident import let_go

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rawthink_local.edge import Marker
    from rawthink_local.fields import FieldFilter, IndexPoint, Match, Terms

_BUSY_SECONDS: Final = 5.0  # a process whose parent was killed flushes before it lets go of the folder


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until this process ends, if nobody else has.

    The engine lets go of its own lock before all is flushed. Not by `filelock`: a first search would wait
    longer for its import than for all the rest.
    """
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - there alone

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415 - not there

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


class _Server:
    """What a request is carried out by: the index, once it is open."""

    def __init__(self) -> None:
        self._index: EdgeIndex | None = None
        self._lock: IO[bytes] | None = None

    def open(self, folder: Path, dimensions: int) -> Marker | None:
        make_folder(folder)
        with explained("locking", folder):
            self._lock = (folder / "serving.lock").open("ab")
            end = time.monotonic() + _BUSY_SECONDS
            while not _lock(self._lock):
                if time.monotonic() > end:
                    raise IndexBusy(f"The search index in {folder} is in use by another process")
                time.sleep(0.02)
        self._index = EdgeIndex.open(folder, dimensions)
        let_go(folder / "shard" / "wal")  # opening reads all of it, some 60 MB; nobody does again
        return self._index.marker()

    def search(
        self, terms: Terms, space: str, filters: Sequence[FieldFilter], limit: int, places: bool
    ) -> list[Match]:
        return self._opened.search(terms, space=space, filters=filters, limit=limit, places=places)

    def nearest(
        self, vector: Sequence[float], space: str, filters: Sequence[FieldFilter], limit: int, places: bool
    ) -> list[Match]:
        return self._opened.nearest(vector, space=space, filters=filters, limit=limit, places=places)

    def both(
        self,
        terms: Terms,
        vector: Sequence[float],
        space: str,
        filters: Sequence[FieldFilter],
        limit: int,
        places: bool,
    ) -> tuple[list[Match], list[Match]]:
        return self._opened.both(terms, vector, space=space, filters=filters, limit=limit, places=places)

    def waiting(self, limit: int) -> list[tuple[str, str]]:
        return self._opened.waiting(limit)

    def waiting_count(self) -> int:
        return self._opened.waiting_count()

    def apply(self, points: list[IndexPoint], deletes: list[str], marker: Marker) -> None:
        self._opened.apply(points, deletes, marker)

    def size(self) -> int:
        return self._opened.size()

    def pack(self) -> bool:
        return self._opened.pack()

    def close(self) -> None:
        """Flush and close, where there is anything to flush."""
        index, self._index = self._index, None
        if index is not None and index.changed:
            index.close()

    @property
    def _opened(self) -> EdgeIndex:
        if self._index is None:
            raise BackendUnavailable("the search index is not open")
        return self._index


def main() -> None:
    """Serve one index until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to a whole group; the parent decides
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    server = _Server()
    with suppress(EOFError, BrokenPipeError):
        while True:
            name, args = pickle.load(requests)  # noqa: S301 - our own parent wrote it
            try:
                answer = (False, getattr(server, name)(*args))
            except Exception as error:  # noqa: BLE001 - the parent raises it
                answer = (True, error)
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
    with suppress(BackendUnavailable):  # nobody listens any more; the next to open it will notice
        server.close()
    os._exit(0)  # without the engine's own ending: what there was to keep is kept
