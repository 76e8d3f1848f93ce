r"""A file of checked lines that several processes add to: nothing in it is changed, it is replaced whole.

The first line names the file's generation, which each replacement renews, so that whoever has read a
part of it knows whether to go on or to start anew. Writers hold a lock between processes. A line that was
cut off or damaged is kept in a file of its own beside.
"""

from __future__ import annotations

import os
import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson

from rawthink_core.commits import checksum_fits, line_of
from rawthink_core.disk import sync
from rawthink_core.errors import BackendTimeout, BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LOCK_SECONDS = 10.0
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700


class LineFile:
    """One such file and its locks: who writes holds `held`, who reads at most ``in_process``."""

    def __init__(self, path: Path, seconds: float = LOCK_SECONDS) -> None:
        self.path = path
        self._seconds = seconds
        self.in_process = threading.RLock()
        self._lock = lock_at(path.with_name("lock"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock against other threads and processes. Raises BackendTimeout, BackendUnavailable."""
        from filelock import Timeout  # noqa: PLC0415 - see `lock_at`

        with self.in_process:
            with explained("locking", self.path):
                make_folder(self.path.parent)
                try:
                    self._lock.acquire(timeout=self._seconds, poll_interval=0.005)
                except Timeout:
                    raise BackendTimeout(
                        f"another process has held {self._lock.lock_file} for {self._seconds:g} s"
                    ) from None
            try:
                with explained("writing", self.path):
                    yield
            finally:
                self._lock.release()

    def lines(self, generation: str | None, start: int) -> Iterator[tuple[str, int, bytes]]:
        r"""Yield generation, place and bytes of each line: from ``start`` on, or all of a new generation.

        A last line without ``\n`` is being written, or was cut off.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            now = str((body_of(file.readline()) or {}).get("spool", "damaged"))
            if now != generation:
                start = 0
            file.seek(start)
            for line in file:
                yield now, start, line
                start += len(line)

    def lines_at(self, places: Iterable[int]) -> Iterator[bytes]:
        """Yield the lines that start at these places."""
        with self.path.open("rb") as file:
            for place in places:
                file.seek(place)
                yield file.readline()

    def add(self, bodies: Iterable[dict[str, Any]], *, durable: bool) -> None:
        """Append lines: all, or none where that fails. ``durable`` waits for the disk."""
        data = b"".join(map(line_of, bodies))
        if not self.path.exists() or not self.path.stat().st_size:
            self.replace([data])
            return
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND)
        try:
            end = os.lseek(descriptor, -1, os.SEEK_END) + 1
            if os.read(descriptor, 1) != b"\n":  # never go on in what a crash cut off
                data = b"\n" + data
            try:
                _write_all(descriptor, data)
                if durable:
                    sync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)

    def replace(self, pieces: Iterable[bytes]) -> None:
        """Put a new generation with these lines in the file's place, in one step."""
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
        try:
            _write_all(descriptor, header())
            for piece in pieces:
                _write_all(descriptor, piece)
            sync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(self.path)
        sync_folder(self.path.parent)

    def remove(self) -> None:
        """Delete the file for good, if there is one."""
        self.path.with_name(f".{self.path.name}.tmp").unlink(missing_ok=True)
        if self.path.exists():
            self.path.unlink()
            sync_folder(self.path.parent)

    def cut(self, place: int) -> None:
        """End the file at a place: drops what a crash left of a last line."""
        descriptor = os.open(self.path, os.O_WRONLY)
        try:
            os.ftruncate(descriptor, place)
            sync(descriptor)
        finally:
            os.close(descriptor)


def header() -> bytes:
    """Return the first line of a new generation."""
    return line_of({"v": 1, "spool": uuid.uuid4().hex})


def body_of(line: bytes) -> dict[str, Any] | None:
    """Return what a line says, None where it is damaged or cut off."""
    if not line.endswith(b"\n") or not checksum_fits(line[:-1]):
        return None
    try:
        body = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(body, dict):
        return None
    del body["crc32"]
    return body


def lock_at(path: Path) -> Any:
    """Return a lock between processes that belongs to no thread; not taken yet."""
    from filelock import FileLock  # noqa: PLC0415 - not on the way of a start that spools nothing

    return FileLock(path, mode=_FILE_MODE, thread_local=False)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, new ones for this user alone."""
    if folder.exists():
        return
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def write_beside(path: Path, data: bytes) -> None:
    """Keep bytes in a new file, synced."""
    make_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    try:
        _write_all(descriptor, data)
        sync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make creating, renaming and deleting files of a folder outlive a power loss."""
    if os.name == "nt":
        return  # Windows has no handle of a folder to flush
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Turn an OSError into a BackendUnavailable that says what was being done, and where."""
    try:
        yield
    except OSError as error:
        raise BackendUnavailable(f"{doing} {path} failed: {error.strerror or error}") from error


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
