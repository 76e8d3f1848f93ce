"""What the local store does for core's queue of embeddings: it keeps vectors, its index waits for them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from rawthink_core.embedding_queue import EmbeddingQueue
from rawthink_local.files import FILE_MODE
from rawthink_local.lines import Moved
from rawthink_local.vectors import Kept, drop_other_models, read_model, settle_model

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rawthink_core.embedding import Embedder
    from rawthink_core.embedding_shelf import Model
    from rawthink_local.searchindex import SearchIndex
    from rawthink_local.store import Store


class LocalShelf:
    """One open store, as the queue sees it."""

    restless: Sequence[type[Exception]] = (Moved,)

    def __init__(self, store: Store, index: SearchIndex) -> None:
        self.place = str(store.journal.folder)
        self._store = store
        self._index = index
        self._derived = store.derived
        self._lock = FileLock(self._derived / "embedding.lock", mode=FILE_MODE, thread_local=False)

    @property
    def model(self) -> Model | None:
        """Whose vectors the store takes at present."""
        return self._index.kept.model if self._index.kept is not None else None

    def settle(self, model: Model) -> None:
        """Let the store go by this model from now on."""
        settle_model(self._derived, model)

    def go_by(self, model: Model | None) -> None:
        """Take vectors of this model."""
        self._index.go_by(None if model is None else Kept(self._derived, model))

    def drop_others(self) -> None:
        """Delete the vectors of every other model."""
        if (model := self.model) is not None:
            drop_other_models(self._derived, model)

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return those of the texts that have no vectors yet, each once."""
        return [] if self._index.kept is None else self._index.kept.missing(texts)

    def put(self, made: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Keep the vectors of texts."""
        if self._index.kept is not None:
            self._index.kept.put(made)

    def waiting(self, limit: int) -> list[tuple[str, str]]:
        """Return space and id of some items that wait for their vectors."""
        return self._index.waiting(limit)

    def waiting_count(self) -> int:
        """Count the items that wait: all, while the store takes no model's vectors."""
        if self._index.kept is None:
            return self._store.index.born_count()
        return self._index.waiting_count()

    def texts(self, items: Sequence[Any]) -> list[str]:
        """Return the texts by which items are found."""
        return self._store.texts(items)

    def write_again(self, items: Sequence[Any]) -> None:
        """Give items that waited the vectors that have come."""
        self._index.write_again(items)

    def begin(self) -> bool:
        """Become the one process that embeds."""
        with suppress(Timeout):
            self._lock.acquire(0)
            return True
        return False

    def end(self) -> None:
        """Let others embed."""
        self._lock.release()


def embedding_of(
    embedder: Embedder, store: Store, index: SearchIndex, in_thread: Callable[..., Awaitable[Any]]
) -> EmbeddingQueue:
    """Return the queue of an open store."""
    return EmbeddingQueue(embedder, LocalShelf(store, index), read_model(store.derived), in_thread)
