"""Vectors, kept once for all processes, so that a rebuilt or copied index never embeds again.

``.rawthink/vectors.sqlite`` holds them by a hash of the text and the model that made them; `Model`, in
``.rawthink/embedder.json``, is the one that this store goes by. Both are derived: without them texts are
embedded again. A vector is kept in half precision, as the index holds it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import struct
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from rawthink_core.embedding_shelf import Model
from rawthink_core.errors import BackendUnavailable
from rawthink_local.files import FILE_MODE, explained, make_folder, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rawthink_local.fields import Vectors

_FILE, _MODEL = "vectors.sqlite", "embedder.json"
_TABLES = """
CREATE TABLE IF NOT EXISTS models (id INTEGER PRIMARY KEY, fingerprint TEXT UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS vectors (
    model INTEGER NOT NULL, key BLOB NOT NULL, data BLOB NOT NULL, PRIMARY KEY (model, key)
) WITHOUT ROWID;
"""


def read_model(derived: Path) -> Model | None:
    """Return the model that a store goes by, None where none was settled (or its note can't be read)."""
    try:
        noted = json.loads((derived / _MODEL).read_bytes())
        return Model(str(noted["name"]), str(noted["fingerprint"]), int(noted["dimensions"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def settle_model(derived: Path, model: Model) -> None:
    """Let a store go by this model from now on."""
    make_folder(derived)
    with explained("writing", derived / _MODEL):
        replace(derived / _MODEL, [json.dumps(model._asdict(), ensure_ascii=False).encode()])


class Kept:
    """The vectors of one model. Safe to use from many threads and processes."""

    def __init__(self, derived: Path, model: Model) -> None:
        self.model = model
        self.file = derived / _FILE
        self._layout = struct.Struct(f"<{model.dimensions}e")
        self._lock = threading.Lock()
        make_folder(derived)
        with explained("opening", self.file), _spoken(self.file):
            new = not self.file.exists()
            self._db = sqlite3.connect(self.file, timeout=5, isolation_level=None, check_same_thread=False)
            if new:
                self.file.chmod(FILE_MODE)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")  # a power cut costs an embedding, nothing else
            self._db.execute("PRAGMA secure_delete = ON")
            self._db.executescript(_TABLES)
            self._db.execute("INSERT OR IGNORE INTO models (fingerprint) VALUES (?)", (model.fingerprint,))
            asked = self._db.execute("SELECT id FROM models WHERE fingerprint = ?", (model.fingerprint,))
            self._id = int(asked.fetchone()[0])

    def of(self, text: str) -> Vectors | None:
        """Return the vectors of a text's windows, None where they are still to come."""
        with self._lock, _spoken(self.file):
            asked = self._db.execute(
                "SELECT data FROM vectors WHERE model = ? AND key = ?", (self._id, _key(text))
            )
            row = asked.fetchone()
        return None if row is None else list(self._layout.iter_unpack(row[0]))

    def some(self, texts: Iterable[str]) -> dict[str, Vectors]:
        """Return the vectors of those of the texts that have any."""
        return {text: vectors for text in dict.fromkeys(texts) if (vectors := self.of(text)) is not None}

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Return those of the texts that have no vectors yet, each once."""
        return [text for text in dict.fromkeys(texts) if self.of(text) is None]

    def put(self, made: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Keep the vectors of texts."""
        rows = [
            (self._id, _key(text), b"".join(self._layout.pack(*vector) for vector in vectors))
            for text, vectors in made.items()
        ]
        with self._lock, _spoken(self.file), self._db:  # all or none
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def count(self) -> int:
        """Count the texts that have vectors of this model."""
        with self._lock, _spoken(self.file):
            return int(
                self._db.execute("SELECT count(*) FROM vectors WHERE model = ?", (self._id,)).fetchone()[0]
            )

    def close(self) -> None:
        """Close the file. May be called again."""
        with self._lock:
            self._db.close()


def forget_vectors(derived: Path, texts: Iterable[str]) -> bool:
    """Delete the vectors of texts, of every model; tell whether there is a file of vectors."""
    file = derived / _FILE
    if not file.exists():
        return False
    with (
        explained("erasing from", file),
        _spoken(file),
        closing(sqlite3.connect(file, timeout=5, isolation_level=None)) as db,
    ):
        db.execute("PRAGMA secure_delete = ON")
        db.executemany("DELETE FROM vectors WHERE key = ?", [(_key(text),) for text in texts])
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return True


def drop_other_models(derived: Path, model: Model) -> None:
    """Delete the vectors of every model but this one."""
    file = derived / _FILE
    if file.exists():
        with _spoken(file), closing(sqlite3.connect(file, timeout=5, isolation_level=None)) as db:
            db.execute(
                "DELETE FROM vectors WHERE model NOT IN (SELECT id FROM models WHERE fingerprint = ?)",
                (model.fingerprint,),
            )
            db.execute("VACUUM")


@contextmanager
def _spoken(file: Path) -> Iterator[None]:
    """Turn an error of SQLite into a sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise BackendUnavailable(
            f"the kept vectors in {file} can't be used: {error}. "
            f"They may be deleted; texts are then embedded again"
        ) from error


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
