"""The lock of a store: one writer at a time, of all threads and processes.

It lies in the folder of what is derived, which may be deleted at any time; who writes next makes it again.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock

from rawthink_core.errors import BackendTimeout
from rawthink_core.locking import take
from rawthink_local.files import FILE_MODE, explained, make_folder, write_new

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DERIVED = ".rawthink"
LOCK_SECONDS = 20.0


class StoreLock:
    """The lock of one store folder. Safe to use from many threads and processes."""

    def __init__(self, folder: Path, seconds: float = LOCK_SECONDS) -> None:
        self.derived = folder / DERIVED
        self._seconds = seconds
        self._in_process = threading.RLock()
        self._lock: FileLock | None = None

    def make_derived(self) -> None:
        """Create the folder of what is derived where there is none, and keep it out of git."""
        ignored = self.derived / ".gitignore"
        with explained("creating", self.derived):
            if not ignored.exists():
                make_folder(self.derived)
                write_new(ignored, [b"*\n"])

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock against other threads and processes. Raises BackendTimeout."""
        with self._in_process:
            self.make_derived()
            if self._lock is None:
                self._lock = FileLock(self.derived / "lock", mode=FILE_MODE, thread_local=False)
            with explained("locking", self.derived):
                if not take(self._lock, self._seconds):
                    raise self._late(self._lock.lock_file)
            try:
                yield
            finally:
                self._lock.release()

    def _late(self, file: str) -> BackendTimeout:
        return BackendTimeout(
            f"another process has held {file} for {self._seconds:g} s. Nothing was "
            f"written. It may hang: `lsof {file}` finds it; end it, then try again"
        )
