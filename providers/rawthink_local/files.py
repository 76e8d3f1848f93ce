"""What the provider asks of the file system: folders and files for this user alone, synced writes, swaps.

One `sync` for the whole provider. Errors of the operating system become sentences with the path in them.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rawthink_core.disk import sync
from rawthink_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o700, 0o600

_HINTS = {
    errno.ENOSPC: "the disk is full; free some space and try again",
    errno.EDQUOT: "your disk quota is used up; free some space and try again",
    errno.EROFS: "the file system is read-only; mount it writable or choose another path",
    errno.EACCES: "this user may not; check the owner and mode (chmod u+rwX)",
    errno.EPERM: "this user may not; check the owner and mode (chmod u+rwX)",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "it is a folder, not a file",
    errno.EEXIST: "a file is in the way, where a folder belongs; move it away or choose another path",
    errno.EIO: "the disk reports an input/output error",
    errno.EMFILE: "too many files are open in this process",
}


@contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Turn an OSError into a BackendUnavailable that says what was being done, where, and what to do."""
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, error.strerror or str(error))
        raise BackendUnavailable(f"{doing} {path} failed: {hint}. Nothing was lost") from error


def sync_folder(folder: Path) -> None:
    """Make creating, renaming and truncating files of a folder outlive a power loss."""
    if os.name == "nt":
        return  # Windows has no handle of a folder to flush
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, new ones for this user alone."""
    with explained("creating", folder):
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def write_new(path: Path, pieces: Iterable[bytes]) -> bool:
    """Create a file with these bytes, synced, unless it exists; tell whether it was created."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except FileExistsError:
        return False
    try:
        for piece in pieces:
            write_all(descriptor, piece)
        sync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    sync_folder(path.parent)
    return True


def replace(path: Path, pieces: Iterable[bytes], temporary: Path | None = None) -> None:
    """Put these bytes in a file's place in one step: readers see the old file or the new one, whole.

    They grow in ``temporary``, which a kill leaves behind.
    """
    temporary = temporary or path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        write_new(temporary, pieces)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, in one system call where the system takes them so."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def tighten(folder: Path) -> None:
    """Take everybody else's rights to what lies below a folder: for files that another library made."""
    for path in folder.rglob("*"):
        path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
