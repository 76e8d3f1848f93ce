"""Which model a store's vectors are of, and the vectors that were made and are not in an index yet."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from rawthink_core.embedding_shelf import Late, Model, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rawthink_lancedb.catalogue import Catalogue

Vectors: TypeAlias = "Sequence[Sequence[float]]"
_KEPT = 4_000  # texts


def read_model(catalogue: Catalogue) -> Model | None:
    """Return the model that a store goes by, None where none was settled. Raises a BackendError."""
    body = catalogue.model()
    try:
        return None if body is None else Model(body["name"], body["fingerprint"], int(body["dimensions"]))
    except (KeyError, ValueError, TypeError):
        return None


class Kept:
    """Vectors of one model, until they are in an index. Safe to use from many threads."""

    def __init__(self, model: Model) -> None:
        self.model = model
        # a short word for it: the name of its column, and what its points say
        self.tag = "v_" + hashlib.blake2b(model.fingerprint.encode(), digest_size=6).hexdigest()
        self.late = Late()
        self.forgettings = 0  # how often `forget` let go of all
        self._lock = Lock()
        self._vectors: OrderedDict[bytes, Vectors] = OrderedDict()

    def of(self, text: str) -> Vectors | None:
        """Return the vectors of a text's windows, which may be none; None where they are still to come."""
        with self._lock:
            return self._vectors.get(key_of(text))

    def of_item(self, text: str, item: tuple[str, str]) -> Vectors | None:
        """Return the vectors for an item that is indexed; where they are to come, remember it in `late`."""
        return self.late.ask(self.of, text, item)

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Return those of the texts that have no vectors yet, each once."""
        return [text for text in dict.fromkeys(texts) if self.of(text) is None]

    def put(self, made: Mapping[str, Vectors]) -> None:
        """Keep the vectors of texts, the latest some thousand."""
        with self._lock:
            for text, vectors in made.items():
                self._vectors[key_of(text)] = vectors
            while len(self._vectors) > _KEPT:
                self._vectors.popitem(last=False)

    def drop(self, texts: Iterable[str]) -> None:
        """Let go of the vectors of texts."""
        with self._lock:
            for text in texts:
                self._vectors.pop(key_of(text), None)

    def forget(self) -> None:
        """Let go of all vectors."""
        with self._lock:
            self._vectors.clear()
            self.forgettings += 1
