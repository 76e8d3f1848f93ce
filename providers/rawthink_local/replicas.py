"""Replica slots: which folder of the user's cache holds this process's copy of the search index.

An index serves one process, so each takes a numbered slot and holds its lock for life. The operating system
frees the lock of a process that dies, however it dies; what it left behind serves the next one. Eight slots
are kept for their next user. A ninth process and any after it get slots that are deleted when they are let
go (after a crash, by whoever next finds them free): they search as well as the others and only build more
often, and no crowd of processes fills a disk for good. A slot knows its store's generation, so that after a
``forget`` no process picks up, or copies, an index from before.

::

    root/slot-0.lock    held by the slot's process
    root/slot-0.used    the generation inside; its date says when the slot was last in use
    root/slot-0/        the index
    root/slot-0.copy/   a copy that is not complete yet

Knows of an index only how to tell that there is one, and how to delete it.
"""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from filelock import FileLock, Timeout

from rawthink_core.errors import BackendUnavailable
from rawthink_local.edge import delete_index, has_index
from rawthink_local.files import FILE_MODE, FOLDER_MODE, explained, make_folder, replace

if TYPE_CHECKING:
    from datetime import datetime

KEPT: Final = 8
LIMIT: Final = 64
IDLE: Final = timedelta(days=14)

_HOLE: Final = bytes(16 << 10)


class Slot:
    """A slot held by this process. ``folder`` is for its index alone and may not exist yet.

    ``kept`` tells whether the index will be there next time. For one thread at a time.
    """

    def __init__(self, root: Path, number: int, lock: FileLock) -> None:
        self.number = number
        self.folder = _folder(root, number)
        self.kept = number < KEPT
        self._root = root
        self._lock = lock

    def empty(self, now: datetime, *, generation: str = "") -> None:
        """Delete the index, to build another of this generation. Close the index first."""
        _empty(self._root, self.number, generation, now)

    def touch(self, now: datetime) -> None:
        """Note that the slot is in use; once a day, so that it is not taken for idle after a crash."""
        _date(self._root, self.number, now)

    def release(self, now: datetime | None = None) -> None:
        """Let go of the slot; with the time, note when. Close the index first. May be called again."""
        if self._lock.is_locked:
            try:
                if not self.kept:
                    _remove(self._root, self.number)
                elif now is not None:
                    self.touch(now)
            finally:
                self._lock.release()


def take_slot(root: Path, now: datetime, *, generation: str = "", idle: timedelta = IDLE) -> Slot:
    """Take the lowest free slot under ``root``, a folder that is made for this user alone if need be.

    What the slot holds stays, unless it is of another generation. On the way, free slots are removed that
    lay idle, are of another generation, or were not to be kept. Raises `BackendUnavailable` when the folder
    cannot be used, or 64 processes hold a slot already. Costs 5 ms, and the time to delete what is removed.
    """
    make_folder(root)
    with explained("preparing", root):
        root.chmod(FOLDER_MODE)
    number, lock = _lowest_free(root)
    try:
        shutil.rmtree(_copy_folder(root, number), ignore_errors=True)
        if number >= KEPT or _generation(root, number) != generation:
            _empty(root, number, generation, now)
        _date(root, number, now)
        for other in _numbers(root):
            if other != number and _useless(root, other, generation, now - idle):
                _remove_if_free(root, other)
    except BaseException:
        lock.release()
        raise
    return Slot(root, number, lock)


def copy_from_free_slot(slot: Slot) -> bool:
    """Fill an empty slot with the index of the free slot used last; tell whether that was done.

    The source is locked meanwhile, holes in its preallocated files stay holes, and the copy comes into place
    whole. It may lag behind, as after any absence; its marker says how far. Not done when the slot has an
    index, no other fits, or copying failed: building is the other way. Costs 0.1 s at 10,000 points, 1.5 s at
    400,000, and the same room on the disk.
    """
    root = slot.folder.parent
    if has_index(slot.folder):
        return False
    wanted = _generation(root, slot.number)
    others = [number for number in _numbers(root) if number < KEPT and number != slot.number]
    for number in sorted(others, key=lambda number: _last_use(root, number), reverse=True):
        if has_index(_folder(root, number)) and (lock := _try_lock(root, number)) is not None:
            try:
                # Asked again under the lock: its process may have emptied it a moment ago.
                fits = has_index(_folder(root, number)) and _generation(root, number) == wanted
                if fits and _copied(root, number, slot.number):
                    return True
            finally:
                lock.release()
    return False


def drop_free_slots(root: Path, *, mine: Slot | None = None) -> int:
    """Delete every free slot, for ``forget``; return how many are in use by others and so were left.

    Those are rebuilt when their processes see the new generation. ``mine``, the caller's own, is neither
    deleted nor counted. Raises `BackendUnavailable` when something could not be deleted.
    """
    others = [number for number in _numbers(root) if mine is None or number != mine.number]
    return sum(not _remove_if_free(root, number) for number in others)


def examine_slots(root: Path) -> tuple[int, int, int]:
    """Return how many slots are in use, free and kept, and left over (nobody's, or half copied)."""
    used = free = left_over = 0
    for number in _numbers(root):
        if (lock := _try_lock(root, number)) is None:
            used += 1
            continue
        try:
            if _copy_folder(root, number).exists() or (number >= KEPT and _folder(root, number).exists()):
                left_over += 1
            elif has_index(_folder(root, number)):
                free += 1
        finally:
            lock.release()
    return used, free, left_over


def _lowest_free(root: Path) -> tuple[int, FileLock]:
    for number in range(LIMIT):
        if (lock := _try_lock(root, number)) is not None:
            return number, lock
    raise BackendUnavailable(f"{LIMIT} processes search this store already ({root}). Close some of them")


def _try_lock(root: Path, number: int) -> FileLock | None:
    path = root / f"slot-{number}.lock"
    lock = FileLock(path, mode=FILE_MODE, thread_local=False)
    with explained("locking", path):
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
    return lock


def _numbers(root: Path) -> list[int]:
    with explained("reading", root):
        names = [path.stem.removeprefix("slot-") for path in root.glob("slot-*.lock")]
    return sorted(int(name) for name in names if name.isdecimal())


def _useless(root: Path, number: int, generation: str, oldest: datetime) -> bool:
    if not (_folder(root, number).exists() or _use_file(root, number).exists()):
        return False
    idle = _last_use(root, number) < oldest.timestamp()
    return number >= KEPT or idle or _generation(root, number) != generation


def _remove_if_free(root: Path, number: int) -> bool:
    if (lock := _try_lock(root, number)) is None:
        return False
    try:
        _remove(root, number)
    finally:
        lock.release()
    return True


def _remove(root: Path, number: int) -> None:
    # The lock file stays: with a new one in its place, two processes could each hold "the" lock.
    delete_index(_folder(root, number))
    shutil.rmtree(_copy_folder(root, number), ignore_errors=True)
    with explained("deleting", _use_file(root, number)):
        _use_file(root, number).unlink(missing_ok=True)


def _empty(root: Path, number: int, generation: str, now: datetime) -> None:
    delete_index(_folder(root, number))
    with explained("writing", _use_file(root, number)):
        replace(_use_file(root, number), [generation.encode()])
    _date(root, number, now)


def _copied(root: Path, source: int, target: int) -> bool:
    part = _copy_folder(root, target)
    try:
        shutil.copytree(_folder(root, source), part, copy_function=_copy_with_holes)
        delete_index(_folder(root, target))
        part.rename(_folder(root, target))
    except (OSError, shutil.Error, BackendUnavailable):
        shutil.rmtree(part, ignore_errors=True)
        return False
    return True


def _copy_with_holes(source: str, target: str) -> str:
    # Edge preallocates: 195 MB of file for 1 MB of data. Asking where the holes are differs by system.
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), FILE_MODE)
    with Path(source).open("rb", buffering=0) as given, os.fdopen(descriptor, "wb") as made:
        while block := given.read(len(_HOLE)):
            if block == _HOLE[: len(block)]:
                made.seek(len(block), os.SEEK_CUR)
            else:
                made.write(block)
        made.truncate()
    return target


def _folder(root: Path, number: int) -> Path:
    return root / f"slot-{number}"


def _copy_folder(root: Path, number: int) -> Path:
    return root / f"slot-{number}.copy"


def _use_file(root: Path, number: int) -> Path:
    return root / f"slot-{number}.used"


def _date(root: Path, number: int, now: datetime) -> None:
    with explained("dating", _use_file(root, number)):
        os.utime(_use_file(root, number), (now.timestamp(), now.timestamp()))


def _last_use(root: Path, number: int) -> float:
    try:
        return _use_file(root, number).stat().st_mtime
    except OSError:
        return 0.0


def _generation(root: Path, number: int) -> str | None:
    try:
        return _use_file(root, number).read_text("utf-8")
    except (OSError, ValueError):
        return None
