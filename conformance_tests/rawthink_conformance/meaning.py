"""The vectors of the reference provider: those of every window of every searchable text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.embedding import windows
from rawthink_core.errors import TextsNotEmbedded
from rawthink_core.searching import text_of
from rawthink_core.selection import SEARCHABLE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rawthink_core.embedding import Embedder
    from rawthink_core.rows import State

Windows = list[list[float]]


class Vectors:
    """Vectors by item, each with the text that it was made of: another name of an entity is another text."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, Windows]] = {}

    def waiting(self, states: Mapping[str, State]) -> dict[str, str]:
        """Return the items that have no vector of their text yet, with that text."""
        texts = {item: text_of(state) for item, state in states.items() if state.kind in SEARCHABLE}
        return {i: text for i, text in texts.items() if i not in self._kept or self._kept[i][0] != text}

    async def embed(self, states: Mapping[str, State], embedder: Embedder) -> None:
        """Embed what is waiting; what has no vector is set aside. Raises BackendError."""
        texts = self.waiting(states)
        cut = [(item, window) for item, text in texts.items() for window in windows(text, embedder.window)]
        try:
            made = dict(enumerate(await embedder.embed_passages([window for _, window in cut])))
        except TextsNotEmbedded as error:
            made = error.vectors
        for item, text in texts.items():
            self._kept[item] = text, [made[n] for n, (of, _) in enumerate(cut) if of == item and n in made]

    def take(self, states: Mapping[str, State], made: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Keep vectors that another store made of texts that are waiting."""
        for item, text in self.waiting(states).items():
            if text in made:
                self._kept[item] = text, [list(window) for window in made[text]]

    def of_texts(self, texts: Collection[str]) -> dict[str, Windows]:
        """Return the vectors of texts, whichever item they are of."""
        return {text: each for text, each in self._kept.values() if text in texts}

    def of(self, states: Mapping[str, State]) -> dict[str, Windows]:
        """Return the vectors of some items, of their present texts or former ones."""
        return {item: self._kept[item][1] for item in states if item in self._kept and self._kept[item][1]}

    def forget(self, item: str) -> None:
        """Erase the vectors of an item."""
        self._kept.pop(item, None)


def nearness(windows_of_item: Windows, vector: Sequence[float]) -> float:
    """Return the cosine of a question and the nearest window; all vectors have length 1."""
    return max(sum(x * y for x, y in zip(window, vector, strict=True)) for window in windows_of_item)
