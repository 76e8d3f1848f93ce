"""What the local store does for core's queue of embeddings: it keeps vectors, its index waits for them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from rawthink_local.files import FILE_MODE
from rawthink_local.lines import Moved
from rawthink_local.vectors import Kept, drop_other_models, forget_vectors, settle_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rawthink_core.embedding_shelf import Model
    from rawthink_local.searchindex import SearchIndex
    from rawthink_local.store import Store

_NO_JOURNAL, _FIRST = "none", ":1"  # generations of a store before and after the first write


class LocalShelf:
    """One open store, as the queue sees it. Items are pairs of space and id."""

    restless: Sequence[type[Exception]] = (Moved,)

    def __init__(self, store: Store, index: SearchIndex) -> None:
        self.place = str(store.derived.parent)
        self._store = store
        self._index = index
        self._derived = store.derived
        self._turn = FileLock(self._derived / "embedding.lock", mode=FILE_MODE, thread_local=False)

    @property
    def model(self) -> Model | None:
        """Whose vectors the store takes at present."""
        kept = self._index.kept
        return kept.model if kept is not None else None

    def lost(self) -> str | None:
        """Say why the file of vectors can't be used, if so."""
        kept = self._index.kept
        return kept.problem if kept is not None else None

    def settle(self, model: Model) -> None:
        """Let the store go by this model from now on."""
        settle_model(self._derived, model)

    def go_by(self, model: Model | None) -> None:
        """Take vectors of this model; the index is built anew where it has others."""
        former = self._index.kept
        self._index.go_by(None if model is None else Kept(self._derived, model))
        if former is not None:
            former.close()

    def drop_others(self) -> None:
        """Delete the vectors of every other model. Raises VectorsUnusable where that can't be done now."""
        if (model := self.model) is not None:
            drop_other_models(self._derived, model)

    # --- vectors --------------------------------------------------------------------------------

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return those of the texts that have no vectors yet, each once. Raises VectorsUnusable."""
        kept = self._index.kept
        return [] if kept is None else kept.missing(texts)

    def put(self, made: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Keep the vectors of texts. Raises VectorsUnusable."""
        if (kept := self._index.kept) is not None:
            kept.put(made)

    def generation(self) -> str:
        """Return the generation of the journal: `forget` writes it anew before it deletes vectors."""
        return self._store.generation()

    def forgotten_since(self, generation: str) -> bool:
        """Tell whether the journal was written anew since then; that the first write made it is no sign."""
        now = self._store.generation()
        return generation != now and not (generation == _NO_JOURNAL and now.endswith(_FIRST))

    def drop(self, texts: Sequence[str]) -> None:
        """Delete the vectors of texts, of every model. Raises VectorsUnusable."""
        forget_vectors(self._derived, texts)

    # --- items ----------------------------------------------------------------------------------

    def waiting(self, limit: int) -> list[tuple[str, str]]:
        """Return some items that wait; before that, see whether vectors that were lost are back."""
        if (kept := self._index.kept) is not None:
            kept.retry()
        return self._index.waiting(limit)

    def waiting_count(self) -> int:
        """Count the items that wait: all, while the store takes no model's vectors."""
        if self._index.kept is None:
            return self._store.index.born_count()
        return self._index.waiting_count()

    def texts(self, items: Sequence[Any]) -> list[str]:
        """Return the texts by which items are found."""
        return self._store.texts(items)

    def late(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """Return the items that this process indexed before their vectors came."""
        kept = self._index.kept
        return [] if kept is None else kept.late.take(texts)

    def write_again(self, items: Sequence[Any]) -> None:
        """Give items that waited the vectors that have come."""
        self._index.write_again(items)

    # --- processes ------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Become the one process that embeds."""
        with suppress(Timeout):
            self._turn.acquire(0)
            return True
        return False

    def end(self) -> None:
        """Let others embed."""
        self._turn.release()
