"""The journal `rawthink.jsonl`: the truth of a store, one commit a line, appended and synced.

Appending happens under a lock between processes and costs the same at any size. Only the last line of
a journal can be torn (a crash in the middle of a write): it is set aside in `rawthink.jsonl.damaged-…`
and cut off by the next writer. A damaged line elsewhere is never touched without being asked: reads go
on without it and say so, writes are refused until `repair`.
"""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import IO, TYPE_CHECKING, NamedTuple

from filelock import FileLock, Timeout

from rawthink_core.commits import FORMAT, Header, LineDamaged, checksum_fits, decode, encode_header
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime
    from pathlib import Path

    from rawthink_core.commits import Commit

NAME = "rawthink.jsonl"
DERIVED = ".rawthink"
LOCK_SECONDS = 20.0
_POLL_SECONDS = 0.003
TAIL_BYTES = 64
_PIECE = 4 * 2**20
_OURS = b'{"v":%d,' % FORMAT
ATTRIBUTES = f"{NAME} merge=union -text\n"


class Moved(Exception):  # noqa: N818 - a signal to look again, not an error
    """The journal was replaced while it was being read."""


class Stamp(NamedTuple):
    """Which file a position belongs to: the same stamp, the same bytes before the position."""

    device: int
    inode: int
    tail: str


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that can't be read: where it starts, how long it is, and why."""

    position: int
    length: int
    why: str


class Line(NamedTuple):
    """One whole line of the journal, without its line break."""

    position: int
    data: bytes


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
                    timeout=self._lock_seconds,
                    mode=FILE_MODE,
                    poll_interval=_POLL_SECONDS,
                    thread_local=False,
                )
            with explained("locking", self.derived):
                self._take(self._lock)
            try:
                yield
            finally:
                self._lock.release()

    def _take(self, lock: FileLock) -> None:
        try:
            lock.acquire()
        except Timeout:
            raise BackendTimeout(
                f"another process has held {lock.lock_file} for {self._lock_seconds:g} s. Nothing was "
                f"written. It may hang: `lsof {lock.lock_file}` finds it; end it, then try again"
            ) from None

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

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes between two positions (to the end of the file where ``end`` is None)."""
        with explained("reading", self.path), self.path.open("rb") as file:
            file.seek(start)
            return file.read() if end is None else file.read(end - start)

    def stamp(self, position: int) -> Stamp:
        """Return the stamp of the bytes before a position."""
        with explained("reading", self.path), self.path.open("rb") as file:
            state = os.fstat(file.fileno())
            start = max(0, position - TAIL_BYTES)
            file.seek(start)
            tail = file.read(position - start)
        return stamp_of(state, position, tail)

    def unsound(self, end: int) -> set[int]:
        """Return the positions of the lines before ``end`` whose checksum is wrong. Reads all of it."""
        with explained("reading", self.path), self.path.open("rb") as file:
            return {line.position for line in journal_lines(file, end, whole=False) if not is_whole(line)}

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


def stamp_of(state: os.stat_result, position: int, before: bytes) -> Stamp:
    """Return the stamp of a position, given the file's state and at least the last bytes before it."""
    digest = hashlib.blake2b(b"%d:" % position + before[-TAIL_BYTES:], digest_size=8).hexdigest()
    return Stamp(state.st_dev, state.st_ino, digest)


def lines_of(data: bytes, start: int) -> tuple[list[Line], int]:
    """Split bytes that begin at position ``start`` into whole lines; return them and where they end.

    What an editor or git makes of line breaks does no harm: a carriage return is no part of a line, and a
    last line whose checksum is right is whole without its line break.
    """
    lines: list[Line] = []
    begin = 0
    while (end := data.find(b"\n", begin)) >= 0:
        if text := data[begin:end].removesuffix(b"\r"):
            lines.append(Line(start + begin, text))
        begin = end + 1
    if checksum_fits(rest := data[begin:]):
        lines.append(Line(start + begin, rest))
        begin = len(data)
    return lines, start + begin


def journal_lines(file: IO[bytes], end: int, *, whole: bool = True) -> Iterator[Line]:
    """Yield the lines of an open journal before ``end``; with ``whole`` off, what is left of one too."""
    start, rest = 0, b""
    while piece := file.read(max(0, min(_PIECE, end - start - len(rest)))):
        data = rest + piece
        lines, after = lines_of(data, start)
        yield from lines
        rest, start = data[after - start :], after
    if rest and not whole:
        yield Line(start, rest)


def is_whole(line: Line) -> bool:
    """Tell whether a line is of this format and its checksum right, without reading what the line says."""
    return line.data.startswith(_OURS) and checksum_fits(line.data)


def read_line(line: Line) -> Commit | Header | Damage:
    """Decode a line; a damaged one is returned as `Damage`, not raised. Raises StoreTooNew."""
    try:
        return decode(line.data)
    except LineDamaged as error:
        return Damage(line.position, len(line.data), str(error))
