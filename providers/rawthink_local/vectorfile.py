"""The file of the kept vectors as SQLite sees it: opening it, and what its failures mean.

A damaged file is dropped when it is opened. Damage that is met later is noted beside it, for the next to open
it. A file that is only held by another process, or closed to this user, is left alone.
"""

from __future__ import annotations

import logging
import sqlite3
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock

from rawthink_core.errors import BackendUnavailable
from rawthink_local.files import FILE_MODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

log = logging.getLogger("rawthink.local")

_LOCK = "vectors.lock"
_BUSY_SECONDS = 5.0  # that another process may hold the file
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FOREIGN = (*_DAMAGED, sqlite3.SQLITE_ERROR)  # when it is opened: its tables are not ours
_TABLES = """
CREATE TABLE IF NOT EXISTS models (id INTEGER PRIMARY KEY, fingerprint TEXT UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS vectors (
    model INTEGER NOT NULL, key BLOB NOT NULL, data BLOB NOT NULL, PRIMARY KEY (model, key)
) WITHOUT ROWID;
"""


class VectorsUnusable(BackendUnavailable):
    """The kept vectors can't be used: the file is damaged, or held or closed to this process."""


class VectorsDamaged(VectorsUnusable):
    """The file is damaged: the next to open it drops it."""


def connected(file: Path) -> sqlite3.Connection:
    """Return a connection to the file as it is."""
    return sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def opened(file: Path) -> sqlite3.Connection:
    """Open the file; where it is damaged, drop it and begin it anew."""
    if not _marker(file).exists():
        try:
            return _prepared(file)
        except sqlite3.Error as error:
            if not _is_one_of(error, _FOREIGN):
                raise
    with mending(file):
        why = "as was noted when it was last used"
        if not _marker(file).exists():
            try:
                return _prepared(file)  # another process was faster
            except sqlite3.Error as error:
                if not _is_one_of(error, _FOREIGN):
                    raise
                why = str(error)
        log.warning("the kept vectors in %s are damaged (%s): dropped, texts are embedded again", file, why)
        delete(file)
        return _prepared(file)


def _prepared(file: Path) -> sqlite3.Connection:
    new = not file.exists()
    db = connected(file)
    try:
        if new:
            file.chmod(FILE_MODE)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")  # a power cut costs an embedding, nothing else
        db.execute("PRAGMA secure_delete = ON")
        db.executescript(_TABLES)
        db.execute("SELECT model, key, data FROM vectors LIMIT 1").fetchone()
    except (sqlite3.Error, OSError):
        db.close()
        raise
    return db


def _marker(file: Path) -> Path:
    return file.with_name(f"{file.name}.damaged")


def note_damage(file: Path, place: tuple[int, int]) -> None:
    """Tell the next to open the file that it is damaged, unless another lies there already."""
    try:
        state = file.stat()
        if place in ((0, 0), (state.st_dev, state.st_ino)):
            _marker(file).touch(FILE_MODE)
    except OSError as error:
        log.info("the damage of %s could not be noted: %s", file, error)


def mending(file: Path) -> FileLock:
    """Return the lock under which a damaged file is dropped, so that nobody drops the one that follows."""
    return FileLock(file.with_name(_LOCK), timeout=_BUSY_SECONDS, mode=FILE_MODE, thread_local=False)


def delete(file: Path) -> None:
    """Delete the file and what lies beside it."""
    for path in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm")), _marker(file)):
        path.unlink(missing_ok=True)


def _is_one_of(error: sqlite3.Error, codes: Sequence[int]) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in codes  # the rest tells what kind of the kind


@contextmanager
def spoken(file: Path) -> Iterator[None]:
    """Turn an error of SQLite, or of a vector that is none, into a sentence."""
    try:
        yield
    except (sqlite3.Error, struct.error) as error:
        damaged = isinstance(error, struct.error) or _is_one_of(error, _DAMAGED)
        what = "are damaged" if damaged else "can't be used"
        follows = "texts are embedded again after the next open" if damaged else "tried again by and by"
        kind = VectorsDamaged if damaged else VectorsUnusable
        raise kind(f"the kept vectors in {file} {what} ({error}); {follows}") from error
