"""What a store does for the queue of embeddings: which items wait for vectors, and where vectors go."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rawthink_core.writes import Batch

T = TypeVar("T")

_LATE = 4_000  # texts whose items are remembered


class Model(NamedTuple):
    """What made the vectors of a store."""

    name: str
    fingerprint: str
    dimensions: int


class Shelf(Protocol):
    """What a store does for the queue. Called in threads; each may raise a BackendError."""

    place: str  # where the store lies, for people
    restless: Sequence[type[Exception]]  # errors that mean no more than: look again later

    @property
    def model(self) -> Model | None:
        """Whose vectors the store takes at present. Never raises."""
        ...

    def lost(self) -> str | None:
        """Say why no vectors are to be had although there is a model, if that is so. Never raises."""
        ...

    def settle(self, model: Model) -> None:
        """Let the store go by this model from now on, in every process."""
        ...

    def go_by(self, model: Model | None) -> None:
        """Take vectors of this model in this process; what has others waits for new ones."""
        ...

    def drop_others(self) -> None:
        """Delete the vectors of every other model."""
        ...

    # --- vectors ----------------------------------------------------------------------------------

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return those of the texts that have no vectors yet, each once."""
        ...

    def put(self, made: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Keep the vectors of texts: one a window, none where a text has none and will have none."""
        ...

    def generation(self) -> str:
        """Return what `forget` changes before it deletes vectors."""
        ...

    def forgotten_since(self, generation: str) -> bool:
        """Tell whether anything was forgotten since `generation` returned this."""
        ...

    def drop(self, texts: Sequence[str]) -> None:
        """Delete the vectors of texts: some of them were forgotten while they were embedded."""
        ...

    # --- items ------------------------------------------------------------------------------------

    def waiting(self, limit: int) -> Sequence[Any]:
        """Return some items that wait for their vectors."""
        ...

    def waiting_count(self) -> int:
        """Count the items that wait: all, while the store takes no model's vectors."""
        ...

    def texts(self, items: Sequence[Any]) -> list[str]:
        """Return the texts by which items are found; erased ones are left out."""
        ...

    def late(self, texts: Sequence[str]) -> Sequence[Any]:
        """Return the items that were indexed before these texts had vectors, each once (see `Late`)."""
        ...

    def write_again(self, items: Sequence[Any]) -> None:
        """Give items that waited the vectors that have come."""
        ...

    # --- processes --------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Become the one process that embeds, without waiting; False where another is."""
        ...

    def end(self) -> None:
        """Let others embed."""
        ...


class Late:
    """Items that an index took in while their texts had no vectors yet. Safe to use from many threads.

    Texts that were just written are embedded at once, and an index may be faster. Whoever indexes an item
    asks for its vectors here; when they have come, it is written again at once. The latest some thousand
    texts are remembered; of the others the index itself knows that they wait.
    """

    def __init__(self) -> None:
        self._items: OrderedDict[bytes, set[Any]] = OrderedDict()
        self._lock = Lock()

    def ask(self, of: Callable[[str], T | None], text: str, item: Any) -> T | None:
        """Return what ``of`` says of a text's vectors; where that is None, remember the item."""
        found = of(text)
        if found is None:
            self._note(text, item)
            found = of(text)  # they may have come just before it was noted
        return found

    def _note(self, text: str, item: Any) -> None:
        with self._lock:
            self._items.setdefault(key_of(text), set()).add(item)
            while len(self._items) > _LATE:
                self._items.popitem(last=False)

    def take(self, texts: Iterable[str]) -> list[Any]:
        """Return the items of these texts, and remember them no longer."""
        with self._lock:
            if not self._items:
                return []
            return [item for text in texts for item in self._items.pop(key_of(text), ())]


def key_of(text: str) -> bytes:
    """Return what stands for a text where vectors are kept."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def texts_of(batch: Batch) -> list[str]:
    """Return the texts of a batch that will be searched for; a successor's wait for the next round."""
    names = ["\n".join([entity.name, *entity.aliases]) for entity in batch.entities]
    return [*names, *(said.text for said in batch.observations), *(said.text for said in batch.passages)]
