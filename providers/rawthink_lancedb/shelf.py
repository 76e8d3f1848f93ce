"""What the store does for core's queue of embeddings: vectors go into the indexes of its spaces."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rawthink_core.selection import text_of
from rawthink_lancedb.errors import Raced, Vanished
from rawthink_lancedb.vectors import Kept
from rawthink_lancedb.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rawthink_core.embedding_shelf import Model
    from rawthink_lancedb.store import Store

_LOCK: Final = "embedding"


class LanceShelf:
    """One open store, as the queue sees it. Items are pairs of space and id."""

    restless: Sequence[type[Exception]] = (Raced, Vanished)

    def __init__(self, store: Store) -> None:
        self.place = store.engine.uri
        self._store = store
        self._turn: ExitStack | None = None

    @property
    def model(self) -> Model | None:
        """Whose vectors the store takes at present."""
        return self._store.kept.model if self._store.kept is not None else None

    def lost(self) -> str | None:
        """Return None: vectors are in memory and in the indexes, which say for themselves what fails."""
        return None

    def settle(self, model: Model) -> None:
        """Let the store go by this model from now on."""
        self._store.catalogue.settle_model(model._asdict(), anew=True)

    def go_by(self, model: Model | None) -> None:
        """Take vectors of this model."""
        self._store.go_by(None if model is None else Kept(model))

    def drop_others(self) -> None:
        """Delete the vectors of every other model."""
        for space in self._store.spaces():
            space.index.drop_vectors()

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return those of the texts that have no vectors yet, each once."""
        return [] if self._store.kept is None else self._store.kept.missing(texts)

    def put(self, made: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Keep the vectors of texts."""
        if self._store.kept is not None:
            self._store.kept.put(made)

    def generation(self) -> str:
        """Return how often this process let go of what was embedded; what others forget is not kept here."""
        kept = self._store.kept
        return str(kept.forgettings if kept is not None else 0)

    def forgotten_since(self, generation: str) -> bool:
        """Tell whether something was forgotten since."""
        return generation != self.generation()

    def drop(self, texts: Sequence[str]) -> None:
        """Let go of the vectors of texts."""
        if self._store.kept is not None:
            self._store.kept.drop(texts)

    def waiting(self, limit: int) -> list[tuple[str, str]]:
        """Return space and id of some items that wait for their vectors."""
        for space in self._store.spaces():
            if found := space.index.waiting(limit):
                return [(space.log.space, item) for item in found]
        return []

    def waiting_count(self) -> int:
        """Count the items that wait: all, while the store takes no model's vectors."""
        return sum(space.index.waiting_count() for space in self._store.spaces())

    def texts(self, items: Sequence[Any]) -> list[str]:
        """Return the texts by which items are found."""
        found: list[str] = []
        for space, ids in _by_space(items).items():
            states = self._store.read(space, partial(View.states, ids=ids))
            found += [text_of(states[item]) for item in ids if item in states]
        return found

    def late(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """Return the items that this process indexed before their vectors came."""
        return [] if self._store.kept is None else self._store.kept.late.take(texts)

    def write_again(self, items: Sequence[Any]) -> None:
        """Give items that waited the vectors that have come."""
        for space, ids in _by_space(items).items():
            index = self._store.space(space).index
            index.sound(partial(index.write_again, ids))

    def begin(self) -> bool:
        """Become the one process that embeds."""
        with ExitStack() as stack:
            if not stack.enter_context(self._store.locks.held(_LOCK, wait=False)):
                return False
            self._turn = stack.pop_all()
        return True

    def end(self) -> None:
        """Let others embed."""
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.close()


def _by_space(items: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for space, item in items:
        found[space].append(item)
    return found
