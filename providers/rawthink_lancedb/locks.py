"""Who writes: one process at a time where the store is a folder, all at once where it is an object store.

In a folder writers queue, so that none loses its turn to others over and over. In an object store there is
nothing to queue at; there a writer that came too late waits a random while and tries again (`Engine.tries`).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from filelock import FileLock

from rawthink_core.errors import BackendTimeout, BackendUnavailable
from rawthink_core.locking import take

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rawthink_lancedb.engine import Engine

OWN: Final = ".rawthink"
CREATE: Final = "create"  # whoever makes a store
WRITE: Final = "write"  # whoever appends to any log
_UNIT: Final = 0.01  # seconds: see `locking.take`


class Locks:
    """The locks of one store."""

    def __init__(self, engine: Engine, seconds: float) -> None:
        self._engine = engine
        self._seconds = seconds

    def path(self, name: str) -> Path | None:
        """Return the file that stands for a lock, None in an object store."""
        folder = self._engine.folder
        return None if folder is None else folder / OWN / f"{name}.lock"

    @contextmanager
    def held(self, name: str, *, wait: bool = True, seconds: float | None = None) -> Iterator[bool]:
        """Hold a lock; without ``wait``, tell whether it was to be had. Raises BackendTimeout.

        ``seconds`` is for whoever may wait for upkeep, too, which takes long in a large table.
        """
        patience = seconds or self._seconds
        path = self.path(name)
        if path is None:
            yield True
            return
        self._engine.there()
        lock = FileLock(path, mode=0o600, thread_local=False)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            taken = take(lock, patience if wait else 0, _UNIT)
        except OSError as error:
            raise BackendUnavailable(f"locking {path} failed: {error.strerror or error}") from error
        if not taken and wait:
            raise BackendTimeout(
                f"another process has written to {self._engine.uri} for {patience:g} s; try again later"
            )
        if not taken:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()
