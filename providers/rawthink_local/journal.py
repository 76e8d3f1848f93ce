"""The journal `rawthink.jsonl`: the truth of a store, one commit a line, appended and synced.

Appending happens under a lock between processes and costs the same at any size. Only the last line of
a journal can be torn (a crash in the middle of a write): it is set aside in `rawthink.jsonl.damaged-…`
and cut off by the next writer. A damaged line elsewhere is never touched without being asked: reads go
on without it and say so, writes are refused until `repair`.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from rawthink_core.commits import Header, LineDamaged, decode, encode_header
from rawthink_core.errors import BackendTimeout
from rawthink_local.files import (
    FILE_MODE,
    explained,
    make_folder,
    replace,
    sync,
    sync_folder,
    write_all,
    write_new,
)
from rawthink_local.lines import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime
    from pathlib import Path

NAME = "rawthink.jsonl"
DERIVED = ".rawthink"
LOCK_SECONDS = 20.0
# How long to wait for the lock and how often to ask meanwhile, in seconds. Whoever has waited longer asks
# more often, else one of many writers may lose every draw; a holder that hangs is not worth the asking.
_WAITING = ((0.010, 0.004), (0.010, 0.002), (0.2, 0.0005), (float("inf"), 0.02))
ATTRIBUTES = f"{NAME} merge=union -text\n"


class Journal:
    """The journal file of one store folder. Safe to use from many threads and processes."""

    def __init__(self, folder: Path, lock_seconds: float = LOCK_SECONDS) -> None:
        self.folder = folder
        self.path = folder / NAME
        self.derived = folder / DERIVED
        self._lock_seconds = lock_seconds
        self._in_process = threading.RLock()
        self._lock: FileLock | None = None

    # --- life -----------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Tell whether the store has a journal yet; an empty file is none."""
        state = self.stat()
        return state is not None and state.st_size > 0

    def create(self, header: Callable[[], Header]) -> None:
        """Create the folder and the journal where there are none."""
        make_folder(self.folder)
        if self.exists():
            return
        with explained("creating", self.path):
            self._make_derived()
            write_new(self.folder / ".gitattributes", [ATTRIBUTES.encode()])
            with self.locked():
                if not self.exists():
                    self.rewrite(header(), ())

    def _make_derived(self) -> None:
        make_folder(self.derived)
        write_new(self.derived / ".gitignore", [b"*\n"])

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the store against other threads and processes. Raises BackendTimeout."""
        with self._in_process:
            if self._lock is None:
                with explained("creating", self.derived):
                    self._make_derived()
                self._lock = FileLock(
                    self.derived / "lock",
                    mode=FILE_MODE,
                    thread_local=False,
                )
            with explained("locking", self.derived):
                self._take(self._lock)
            try:
                yield
            finally:
                self._lock.release()

    def _take(self, lock: FileLock) -> None:
        left = self._lock_seconds
        for seconds, interval in _WAITING:
            with suppress(Timeout):
                lock.acquire(timeout=min(seconds, left), poll_interval=interval)
                return
            left -= seconds
            if left <= 0:
                break
        raise BackendTimeout(
            f"another process has held {lock.lock_file} for {self._lock_seconds:g} s. Nothing was "
            f"written. It may hang: `lsof {lock.lock_file}` finds it; end it, then try again"
        )

    # --- reading --------------------------------------------------------------------------------

    def stat(self) -> os.stat_result | None:
        """Return the file's state, or None where there is no journal."""
        try:
            return self.path.stat()
        except FileNotFoundError:
            return None
        except OSError:
            with explained("reading", self.path):
                raise

    @contextmanager
    def opened(self) -> Iterator[Snapshot | None]:
        """Open the file to read from it, None where there is none: all reads are of one file."""
        with explained("reading", self.path):
            try:
                file = self.path.open("rb")
            except FileNotFoundError:
                yield None
                return
            with file:
                yield Snapshot(file)

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes between two positions (to the end of the file where ``end`` is None)."""
        with self.opened() as file:
            if file is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return file.read(start, file.size if end is None else end)

    def header(self) -> Header:
        """Return the header of the store. Raises StoreTooNew where a newer version wrote it.

        It stands first; after a merge of two clones there can be two, and the later generation counts.
        """
        with explained("reading", self.path), self.path.open("rb") as file:
            found: Header | None = None
            for data in file:
                try:
                    entry = decode(data.rstrip(b"\r\n"))
                except LineDamaged:
                    continue
                if isinstance(entry, Header):
                    if found is None or entry.generation > found.generation:
                        found = entry
                elif found is not None:
                    break
        return found or Header(store="", created="", timezone="UTC")

    # --- writing (under the lock) ---------------------------------------------------------------

    def append(self, line: bytes, expected: int) -> os.stat_result:
        """Append a line at position ``expected`` (the end of the file), synced; return the file's new state.

        Where the disk takes only a part of it, the part is taken back: nothing was written.
        """
        with explained("writing", self.path):
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
            try:
                try:
                    write_all(descriptor, line)
                    sync(descriptor)
                except OSError:
                    os.ftruncate(descriptor, expected)
                    raise
                return os.fstat(descriptor)
            finally:
                os.close(descriptor)

    def cut_torn_tail(self, position: int, now: datetime) -> Path:
        """Set what stands after ``position`` aside and cut it off; return where it was put."""
        torn = self.read(position)
        kept = self.set_aside(torn, now)
        with explained("repairing", self.path):
            descriptor = os.open(self.path, os.O_WRONLY)
            try:
                os.ftruncate(descriptor, position)
                sync(descriptor)
            finally:
                os.close(descriptor)
            sync_folder(self.folder)
        return kept

    def set_aside(self, data: bytes, now: datetime) -> Path:
        """Keep damaged bytes in a file of their own beside the journal and return its path."""
        stem = f"{NAME}.damaged-{now:%Y%m%dT%H%M%S}"
        for number in range(1000):
            kept = self.folder / (stem if number == 0 else f"{stem}-{number}")
            with explained("setting aside", kept):
                if write_new(kept, [data]):
                    return kept
                if kept.read_bytes() == data:
                    return kept
        raise AssertionError("a thousand repairs in one second")

    def rewrite(self, header: Header, lines: Iterable[bytes]) -> None:
        """Put a new journal in place of the old one, in one step."""
        with explained("rewriting", self.path):
            replace(self.path, chain([encode_header(header)], lines), self._unfinished)

    @property
    def _unfinished(self) -> Path:
        """Where a rewritten journal grows: one name, as the lock lets only one process do it."""
        return self.folder / f".{NAME}.tmp"

    def tidy(self) -> bool:
        """Delete what a rewriting that was cut short has left; tell whether there was something."""
        with explained("deleting", self._unfinished):
            try:
                self._unfinished.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def unfinished(self) -> bool:
        """Tell whether a rewriting goes on or was cut short."""
        return self._unfinished.exists()
