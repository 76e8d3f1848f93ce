"""A log: a file of commits, one a line, that is only ever added to, and rewritten as a whole.

Appending happens under the lock of the store and costs the same at any size. Only the last line of a log
can be torn (a crash in the middle of a write): it is set aside in a file ``….damaged-…`` and cut off by the
next writer. A damaged line elsewhere is never touched without being asked: reads go on without it and say
so, writes are refused until `repair`.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from rawthink_core.commits import Header, LineDamaged, decode, encode_header
from rawthink_core.disk import sync
from rawthink_local.files import explained, replace, sync_folder, write_all, write_new
from rawthink_local.lines import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from pathlib import Path

NOBODY = Header(store="", created="", timezone="UTC")  # what a log without a header says of its store


class LogFile:
    """One log of a store. Safe to use from many threads and processes; the owner holds the lock to write."""

    absent: tuple[type[OSError], ...] = (FileNotFoundError,)  # what says that there is no such log

    def __init__(self, path: Path) -> None:
        self.path = path

    # --- reading --------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Tell whether there is such a log yet; an empty file is none."""
        state = self.stat()
        return state is not None and state.st_size > 0

    def stat(self) -> os.stat_result | None:
        """Return the file's state, or None where there is no log."""
        try:
            return self.path.stat()
        except self.absent:
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
            except self.absent:
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
        return found or NOBODY

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
            sync_folder(self.path.parent)
        return kept

    def set_aside(self, data: bytes, now: datetime) -> Path:
        """Keep damaged bytes in a file of their own beside the log and return its path."""
        stem = f"{self.path.name}.damaged-{now:%Y%m%dT%H%M%S}"
        for number in range(1000):
            kept = self.path.with_name(stem if number == 0 else f"{stem}-{number}")
            with explained("setting aside", kept):
                if write_new(kept, [data]):
                    return kept
                if kept.read_bytes() == data:
                    return kept
        raise AssertionError("a thousand repairs in one second")

    def aside(self) -> list[Path]:
        """Return the files of damaged bytes that were set aside."""
        return sorted(self.path.parent.glob(f"{self.path.name}.damaged-*"))

    def rewrite(self, header: Header, lines: Iterable[bytes]) -> None:
        """Put a new log in place of the old one, in one step."""
        with explained("rewriting", self.path):
            replace(self.path, chain([encode_header(header)], lines), self._unfinished)

    @property
    def _unfinished(self) -> Path:
        """Where a rewritten log grows: one name, as the lock lets only one process do it."""
        return self.path.with_name(f".{self.path.name}.tmp")

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
