"""Many texts through a server that takes some at a time, so that one bad text costs only itself.

A server answers a batch as a whole: one text that makes its model fail, or is longer than its context,
fails the others too. Such a batch is halved until the text stands alone. Whether a text is to blame, or the
server, is told by asking for a harmless one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rawthink_core.embedders.vectors import Answer, checked, pooled
from rawthink_core.embedding import plain, windows
from rawthink_core.errors import BackendProtocolError, BackendUnavailable, TextsNotEmbedded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HARMLESS: Final = "memory"
_SHORTEST = 16  # characters; what is too long even so is too long for another reason


class Refused(BackendProtocolError):  # noqa: N818 - as in `errors`
    """A server did not embed a request, and it may be for what is in it: too long, or its model failed."""

    def __init__(self, sentence: str, why: str, *, too_long: bool = False) -> None:
        self.why = why
        self.too_long = too_long
        super().__init__(sentence)


class Batches:
    """Embeds any number of texts by a function that sends some, whose answer is not looked at yet.

    ``count`` texts and ``size`` characters are sent at a time at most, but always one text. One use.
    """

    def __init__(
        self, send: Callable[[list[str]], object], *, dimensions: int, count: int, size: int
    ) -> None:
        self._send = send
        self._dimensions = dimensions
        self._count = count
        self._size = size
        self._sound: bool | None = None  # whether the server embeds a harmless text; None: not asked yet
        self._done = Answer({}, {})

    def run(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector a text. Raises TextsNotEmbedded for some of them, a BackendError for all."""
        clean = [plain(text) for text in texts]
        for batch in self._batches(clean):
            self._embed(clean, batch)
        if self._done.failed:
            raise TextsNotEmbedded(dict(sorted(self._done.failed.items())), self._done.vectors)
        return [self._done.vectors[position] for position in range(len(clean))]

    def _batches(self, texts: list[str]) -> Iterator[list[int]]:
        batch: list[int] = []
        size = 0
        for position, text in enumerate(texts):
            if batch and (len(batch) == self._count or size + len(text) > self._size):
                yield batch
                batch, size = [], 0
            batch.append(position)
            size += len(text)
        if batch:
            yield batch

    def _embed(self, texts: list[str], batch: list[int]) -> None:
        try:
            answer = self._ask([texts[position] for position in batch])
        except Refused as refusal:
            if not refusal.too_long:
                self._blame_texts(refusal)
            if len(batch) == 1:
                self._alone(texts[batch[0]], batch[0], refusal)
                return
            half = len(batch) // 2
            self._embed(texts, batch[:half])
            self._embed(texts, batch[half:])
            return
        for place, vector in answer.vectors.items():
            self._done.vectors[batch[place]] = vector
        for place, why in answer.failed.items():
            if len(batch) > 1:  # its neighbours may be to blame
                self._embed(texts, [batch[place]])
            else:
                self._blame_texts(Refused(f"the embedder answered, but {why}", why))
                self._once_more(texts[batch[place]], batch[place])

    def _ask(self, texts: list[str]) -> Answer:
        return checked(self._send(texts), len(texts), self._dimensions)

    def _blame_texts(self, refusal: Refused) -> None:
        """Return if the server works apart from these texts. Raises otherwise: they are to be tried again."""
        if self._sound is None:
            try:
                self._sound = bool(self._ask([HARMLESS]).vectors)
            except Refused:
                self._sound = False
        if not self._sound:
            raise BackendUnavailable(
                f"{str(refusal).rstrip('.')}. It fails on a plain word too: look at its log, restart it"
            ) from refusal

    def _alone(self, text: str, position: int, refusal: Refused) -> None:
        """Embed in parts what is too long for the model; set aside what it can't embed."""
        if not refusal.too_long:
            self._once_more(text, position)
            return
        if len(text) < _SHORTEST:
            self._done.failed[position] = refusal.why
            return
        parts = windows(text, (len(text) + 1) // 2)
        inner = Batches(self._send, dimensions=self._dimensions, count=1, size=self._size)
        try:
            self._done.vectors[position] = pooled(zip(parts, inner.run(parts), strict=True))
        except TextsNotEmbedded as error:
            self._done.failed[position] = next(iter(error.failed.values()))
        except ValueError as error:  # parts that cancel each other out
            self._done.failed[position] = str(error)

    def _once_more(self, text: str, position: int) -> None:
        """Set a text aside that fails again: a server that just came to itself did not fail for it."""
        try:
            answer = self._ask([text])
        except Refused as refusal:
            self._done.failed[position] = refusal.why
            return
        for vector in answer.vectors.values():
            self._done.vectors[position] = vector
        for why in answer.failed.values():
            self._done.failed[position] = why
