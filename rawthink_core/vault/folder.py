"""The files of a vault: which there are, reading one, putting one there. Everything here waits for the disk.

Nothing outside the vault is ever read or written: links are not followed, neither to files nor to folders,
and a path is only ever one that was found by walking.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rawthink_core.errors import BackendUnavailable, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SESSIONS, NOTES = "sessions", "qnotes"
LONGEST = 64 * 1024 * 1024  # bytes of a file that is read

_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_READ = os.O_RDONLY | sum(
    getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | sum(getattr(os, flag, 0) for flag in ("O_CLOEXEC", "O_BINARY"))


class Mark(NamedTuple):
    """What changes when a file does: enough to know an id again, not enough to skip an index."""

    inode: int
    size: int
    modified: int
    changed: int


class Problem(NamedTuple):
    """A file or folder that could not be used, by its path in the vault, and why."""

    path: str
    why: str


@dataclass(slots=True)
class Listing:
    """The Markdown files of a vault by path (with ``/``, in order), and what was passed over."""

    files: dict[str, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)  # folders that could not be looked into
    exists: bool = False  # whether either of the two folders is there

    def hides(self, path: str) -> bool:
        """Tell whether a file may be there though it was not found."""
        return any(path.startswith(f"{folder}/") for folder in self.unseen)


def walk(vault: Path) -> Listing:
    """Return what lies in the two folders of a vault. Hidden files and folders are left out."""
    listing = Listing()
    found: dict[str, Mark] = {}
    waiting = [SESSIONS, NOTES]
    while waiting:
        _look_into(vault, waiting.pop(), found, waiting, listing)
    listing.files = {path: found[path] for path in sorted(found)}
    listing.problems.sort()
    return listing


def _look_into(vault: Path, path: str, found: dict[str, Mark], waiting: list[str], listing: Listing) -> None:
    folder = vault / path
    try:
        if folder.is_symlink():
            listing.problems.append(Problem(path, "is a link; links are not followed"))
            return
        with os.scandir(folder) as entries:
            listing.exists = True
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                inside = f"{path}/{entry.name}"
                note = entry.name.lower().endswith(".md")
                if entry.is_symlink():
                    if note or entry.is_dir():
                        listing.problems.append(Problem(_shown(inside), "is a link; links are not followed"))
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(inside)
                elif note and (why := _unusable(entry, inside)):
                    listing.problems.append(Problem(_shown(inside), why))
                elif note:
                    found[inside] = _mark(entry.stat(follow_symlinks=False))
    except FileNotFoundError:
        pass
    except OSError as error:
        listing.problems.append(Problem(_shown(path), f"can't be looked into: {error.strerror}"))
        listing.unseen.append(path)


def _unusable(entry: os.DirEntry[str], path: str) -> str | None:
    if not entry.is_file(follow_symlinks=False):
        return "is no regular file"
    return "has a name that is not UTF-8" if _shown(path) != path else None


def _shown(path: str) -> str:
    """Return a path that can be printed: bytes of its name that are no UTF-8 as question marks."""
    return path.encode("utf-8", "replace").decode()


def _mark(state: os.stat_result) -> Mark:
    return Mark(state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def read(vault: Path, path: str) -> bytes:
    """Return what a file holds. Raises OSError whose ``strerror`` says why it can't be read."""
    handle = os.open(vault / path, _READ)
    with open(handle, "rb") as file:  # noqa: PTH123 - it is open already, so no other file can take its place
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(0, "it is no regular file")
        data = file.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise OSError(0, f"it is longer than {LONGEST // 2**20} MiB")
    return data


# --- writing ------------------------------------------------------------------------------------


def put(vault: Path, folder: str, stem: str, content: Callable[[str], bytes]) -> tuple[str, bytes]:
    """Put a new file into a folder, whole and on the disk; return its path in the vault and what it holds.

    It is called ``stem``, or ``stem_2`` and so on where that is taken, by whatever process. ``content`` makes
    its bytes from the name that it gets. Raises BackendUnavailable.
    """
    try:
        _make(vault)
        _make(vault / folder)
        return _put(vault, folder, stem, content)
    except OSError as error:
        raise BackendUnavailable(
            f"no file can be written into {vault / folder}: {error.strerror}. Nothing was stored"
        ) from error


def _put(vault: Path, folder: str, stem: str, content: Callable[[str], bytes]) -> tuple[str, bytes]:
    number, name = 1, stem
    while True:
        while os.path.lexists(vault / folder / f"{name}.md"):
            number += 1
            name = f"{stem}_{number}"
        data = content(name)
        if _place(vault / folder, f"{name}.md", data):
            return f"{folder}/{name}.md", data


def _place(folder: Path, name: str, data: bytes) -> bool:
    """Write a file that is there whole or not at all; False where its name was taken meanwhile."""
    draft, final = folder / f".{name}.{secrets.token_hex(4)}.tmp", folder / name
    try:
        _write(draft, data)
        try:
            os.link(draft, final)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links: the name first, then what it holds
            if not _claim(final):
                return False
            draft.replace(final)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(folder)
    return True


def _claim(path: Path) -> bool:
    try:
        os.close(os.open(path, _NEW, _PRIVATE_FILE))
    except FileExistsError:
        return False
    return True


def _write(path: Path, data: bytes) -> None:
    with open(os.open(path, _NEW, _PRIVATE_FILE), "wb") as file:  # noqa: PTH123 - opened so that it is new
        file.write(data)
        file.flush()
        _sync(file.fileno())


def _make(folder: Path) -> None:
    """Make a folder for its owner alone. Raises InvalidRequest where a link or a file has its name."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=_PRIVATE_FOLDER, parents=True)
    if folder.name in (SESSIONS, NOTES) and not stat.S_ISDIR(folder.lstat().st_mode):
        raise InvalidRequest(f"{folder} is a link or a file, where a folder should be. Nothing was stored")


def _sync(handle: int) -> None:
    """Bring what was written to the disk itself."""
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 - there, fsync stops at the drive's cache

        with contextlib.suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
            return
    os.fsync(handle)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # there, folders can't be opened
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
