"""What a store does for the queue of embeddings: which items wait for vectors, and where vectors go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rawthink_core.writes import Batch


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
        """Whose vectors the store takes at present."""
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

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return those of the texts that have no vectors yet, each once."""
        ...

    def put(self, made: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Keep the vectors of texts: one a window, none where a text has none and will have none."""
        ...

    def waiting(self, limit: int) -> Sequence[Any]:
        """Return some items that wait for their vectors."""
        ...

    def waiting_count(self) -> int:
        """Count the items that wait: all, while the store takes no model's vectors."""
        ...

    def texts(self, items: Sequence[Any]) -> list[str]:
        """Return the texts by which items are found; erased ones are left out."""
        ...

    def write_again(self, items: Sequence[Any]) -> None:
        """Give items that waited the vectors that have come."""
        ...

    def begin(self) -> bool:
        """Become the one process that embeds; False where another is."""
        ...

    def end(self) -> None:
        """Let others embed."""
        ...


def texts_of(batch: Batch) -> list[str]:
    """Return the texts of a batch that will be searched for; a successor's wait for the next round."""
    names = ["\n".join([entity.name, *entity.aliases]) for entity in batch.entities]
    return [*names, *(said.text for said in batch.observations), *(said.text for said in batch.passages)]
