"""Vectors, kept once for all processes, so that a rebuilt or copied index never embeds again.

``.rawthink/vectors.sqlite`` holds them by a hash of the text and the model that made them; `Model`, in
``.rawthink/embedder.json``, is the one that this store goes by. Both are derived: without them texts are
embedded again. A vector is kept in half precision, as the index holds it.

Where the file can't be used, there are no vectors to be had, and none are made (see `vectorfile`).
"""

from __future__ import annotations

import json
import logging
import struct
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from rawthink_core.embedding_shelf import Late, Model, key_of
from rawthink_core.errors import BackendUnavailable
from rawthink_local.files import explained, make_folder, replace
from rawthink_local.vectorfile import (
    VectorsDamaged,
    VectorsUnusable,
    connected,
    delete,
    mending,
    note_damage,
    opened,
    spoken,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rawthink_local.fields import Vectors

log = logging.getLogger("rawthink.local")

_FILE, _MODEL = "vectors.sqlite", "embedder.json"


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
    """The vectors of one model. Safe to use from many threads and processes.

    Making one never fails. Where the file can't be used, ``problem`` says why, and every question raises
    `VectorsUnusable` at once, until `retry` finds it in order.
    """

    def __init__(self, derived: Path, model: Model) -> None:
        self.model = model
        self.file = derived / _FILE
        self.problem: str | None = None
        self.late = Late()
        self._damaged = False
        self._layout = struct.Struct(f"<{model.dimensions}e")
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._id = 0
        self._place = (0, 0)  # device and inode
        try:
            self._open()
        except BackendUnavailable as error:
            self._give_up(error)

    def _open(self) -> None:
        make_folder(self.file.parent)
        with explained("opening", self.file), spoken(self.file):
            db = opened(self.file)
            try:
                self._id = _number_of(db, self.model)
                state = self.file.stat()
            except BaseException:
                db.close()
                raise
            self._db, self._place = db, (state.st_dev, state.st_ino)

    def _give_up(self, error: BackendUnavailable) -> None:
        if self.problem is None:
            log.warning("%s", error)
        self.problem = str(error)
        if isinstance(error, VectorsDamaged) and not self._damaged:
            self._damaged = True
            note_damage(self.file, self._place)

    def retry(self) -> None:
        """See whether the file can be used again. Raises VectorsUnusable where not."""
        if self.problem is None:
            return
        if self._damaged:
            raise VectorsDamaged(self.problem)
        with self._lock:
            try:
                if self._db is None:
                    self._open()
                else:
                    with spoken(self.file):
                        self._db.execute("SELECT 1 FROM vectors LIMIT 1").fetchone()
            except BackendUnavailable as error:
                self._give_up(error)
                raise
        self.problem = None

    @contextmanager
    def _asked(self, *, reading: bool = True) -> Iterator[sqlite3.Connection]:
        """Give the open file. What fails to be read isn't asked for again before `retry`."""
        with self._lock:
            if self.problem is not None or self._db is None:
                raise VectorsUnusable(self.problem or f"{self.file} is closed")
            try:
                with spoken(self.file):
                    yield self._db
            except VectorsUnusable as error:
                if reading or isinstance(error, VectorsDamaged):
                    self._give_up(error)
                raise

    def of(self, text: str) -> Vectors | None:
        """Return the vectors of a text's windows, None where they are still to come."""
        with self._asked() as db:
            asked = db.execute(
                "SELECT data FROM vectors WHERE model = ? AND key = ?", (self._id, key_of(text))
            )
            row = asked.fetchone()
            return None if row is None else list(self._layout.iter_unpack(row[0]))

    def of_item(self, text: str, item: tuple[str, str]) -> Vectors | None:
        """Return the vectors for an item that is indexed; where they are to come, remember it in `late`."""
        return self.late.ask(self.of, text, item)

    def some(self, texts: Iterable[str]) -> dict[str, Vectors]:
        """Return the vectors of those of the texts that have any."""
        return {text: vectors for text in dict.fromkeys(texts) if (vectors := self.of(text)) is not None}

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Return those of the texts that have no vectors yet, each once."""
        return [text for text in dict.fromkeys(texts) if self.of(text) is None]

    def put(self, made: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Keep the vectors of texts."""
        rows = [
            (self._id, key_of(text), b"".join(self._layout.pack(*vector) for vector in vectors))
            for text, vectors in made.items()
        ]
        with self._asked(reading=False) as db, db:  # all or none
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def count(self) -> int:
        """Count the texts that have vectors of this model."""
        with self._asked() as db:
            return int(db.execute("SELECT count(*) FROM vectors WHERE model = ?", (self._id,)).fetchone()[0])

    def close(self) -> None:
        """Close the file. May be called again."""
        with self._lock:
            db, self._db = self._db, None
            if db is not None:
                db.close()


def forget_vectors(derived: Path, texts: Iterable[str]) -> bool:
    """Delete the vectors of texts, of every model; tell whether there is a file of vectors.

    A damaged file is deleted as a whole. Raises VectorsUnusable where it can't be written now.
    """
    file = derived / _FILE
    if not file.exists():
        return False
    try:
        with explained("erasing from", file), spoken(file), closing(connected(file)) as db:
            db.execute("PRAGMA secure_delete = ON")
            db.executemany("DELETE FROM vectors WHERE key = ?", [(key_of(text),) for text in texts])
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except VectorsDamaged as error:
        log.warning("%s", error)
        with explained("deleting", file), mending(file):
            delete(file)
    return True


def drop_other_models(derived: Path, model: Model) -> None:
    """Delete the vectors of every model but this one. Raises VectorsUnusable where that can't be done now."""
    file = derived / _FILE
    if file.exists():
        with spoken(file), closing(connected(file)) as db:
            db.execute(
                "DELETE FROM vectors WHERE model NOT IN (SELECT id FROM models WHERE fingerprint = ?)",
                (model.fingerprint,),
            )
            db.execute("VACUUM")


def _number_of(db: sqlite3.Connection, model: Model) -> int:
    """Return the number under which a model's vectors lie. Writes only where it is new."""
    asked = "SELECT id FROM models WHERE fingerprint = ?"
    row = db.execute(asked, (model.fingerprint,)).fetchone()
    if row is None:
        db.execute("INSERT OR IGNORE INTO models (fingerprint) VALUES (?)", (model.fingerprint,))
        row = db.execute(asked, (model.fingerprint,)).fetchone()
    return int(row[0])
