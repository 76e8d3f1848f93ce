"""An embedder behind HTTP: what `ollama` and `openai` share.

Questions have seconds and passages a minute: a server that was idle loads its model first. A question that
comes too late for that starts the loading for the next ones, which many servers break off with the request
that they were asked by.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rawthink_core.embedders.batches import HARMLESS, Batches
from rawthink_core.embedders.endpoint import Cures, Endpoint, Key
from rawthink_core.embedders.figures import ANSWERS, QUESTIONS, figures_of, floor_of
from rawthink_core.embedders.threads import beside, in_thread
from rawthink_core.embedding import first_window
from rawthink_core.errors import BackendError, BackendTimeout, BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

_QUESTION_TRIES, _PASSAGE_TRIES = 2, 3
_FEWEST = 2_000  # characters that are sent at a time even to a very slow server
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _address(url: str) -> str:
    parts = urlsplit(url)  # raises ValueError by itself for a bad host
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address like http://127.0.0.1:11434")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must be an address alone; a key belongs into api_key_env or api_key_file")
    if parts.port == 0:  # which also refuses a port that is no number
        raise ValueError("must have a port above 0")
    return url.rstrip("/")


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError("must be the name of a variable of the environment, not a key")
    return name


Address = Annotated[str, AfterValidator(_address)]


class HttpSettings(BaseModel):
    """What can be set for any embedder behind HTTP."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query_prefix: str | None = Field(
        default=None,
        title="Before questions",
        description="Text before each question; by default the model's",
    )
    passage_prefix: str | None = Field(
        default=None, title="Before passages", description="Text before each passage; by default the model's"
    )
    api_key_env: Annotated[str, AfterValidator(_variable)] | None = Field(
        default=None, title="Key variable", description="Variable of the environment that holds the key"
    )
    api_key_file: Path | None = Field(
        default=None, title="Key file", description="File that holds the key and nothing else"
    )
    connect_timeout: float = Field(
        default=1.0, gt=0, title="Connecting", description="Seconds until it must accept a connection"
    )
    query_timeout: float = Field(
        default=5.0, gt=0, title="Questions", description="Seconds until it must have embedded a question"
    )
    passage_timeout: float = Field(
        default=60.0, gt=0, title="Passages", description="Seconds until it must have embedded a batch"
    )
    batch_texts: int = Field(default=32, ge=1, title="Batch", description="Texts that are sent at a time")
    batch_characters: int = Field(
        default=16_000, ge=1, title="Batch size", description="Characters that are sent at a time"
    )
    window: int | None = Field(
        default=None, ge=16, title="Window", description="Characters that one vector stands for"
    )
    dense_weight: float | None = Field(
        default=None, ge=0, le=1, title="Weight", description="Share of the vectors' list in fusion"
    )
    min_similarity: float | None = Field(
        default=None, ge=-1, le=1, title="Floor", description="Cosine from which a hit by vector alone counts"
    )


class HttpEmbedder(ABC):
    """Batches, time-outs and figures around a server's own protocol: `_learn`, `_marks` and `_send`."""

    name: str

    def __init__(self, settings: HttpSettings, *, model: str, url: str, key: Key, cures: Cures) -> None:
        figures = figures_of(model)
        self.dimensions = 0
        self.fingerprint = f"{self.name}; {model}; not reached yet"
        self.dense_weight = figures.dense_weight if settings.dense_weight is None else settings.dense_weight
        self._floor = settings.min_similarity
        if self._floor is None:
            self._floor = figures.min_similarity
        self.min_similarity = 1.0 if self._floor is None else self._floor
        self.window = settings.window or 2_000
        self._model = model
        self._settings = settings
        self._before_questions = _or(settings.query_prefix, figures.query_prefix)
        self._before_passages = _or(settings.passage_prefix, figures.passage_prefix)
        self._endpoint = Endpoint(url, key=key, connect=settings.connect_timeout, cures=cures)
        self._characters = settings.batch_characters  # fewer for a server that was too slow for so many
        self._opening = threading.Lock()
        self._warming = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self.name} embedder {self._model} at {self._endpoint.url}>"

    @abstractmethod
    def _learn(self) -> int:
        """Ask the server for its model; return the size of its vectors, 0 where only a vector tells."""

    @abstractmethod
    def _marks(self) -> list[str]:
        """Return what tells the model from others of its name. Called when it has embedded something."""

    @abstractmethod
    def _send(self, texts: list[str], *, question: bool, seconds: float, tries: int) -> object:
        """Send texts and return the vectors of the answer as they came. Raises BackendError."""

    async def open(self) -> None:
        """Learn what the model is; of one that nobody has measured, also its floor. Raises BackendError."""
        await in_thread(self._open)

    def _open(self) -> None:
        with self._opening:
            size = self._learn()
            floor = self._floor
            if floor is None:
                asked = self._embed(QUESTIONS, 0, question=True)
                told = self._embed(ANSWERS, len(asked[0]), question=False)
                size, floor = len(asked[0]), floor_of(asked, told)
            elif not size:
                size = len(self._embed([HARMLESS], 0, question=False)[0])
            self.min_similarity = floor
            prefixes = f"prefixes {self._before_questions!r} {self._before_passages!r}"
            self.fingerprint = "; ".join([self.name, self._model, *self._marks(), str(size), prefixes])
            self.dimensions = size

    async def close(self) -> None:
        """Close all connections. `open` opens anew."""
        await in_thread(self._endpoint.close)

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector a text. Raises TextsNotEmbedded or another BackendError."""
        size = self._opened()
        return await in_thread(partial(self._passages, list(texts), size)) if texts else []

    def _passages(self, texts: list[str], size: int) -> list[list[float]]:
        most = self._settings.batch_characters
        try:
            vectors = self._embed(texts, size, question=False)
        except BackendTimeout:
            self._characters = max(min(most, _FEWEST), self._characters // 2)
            raise
        self._characters = min(most, self._characters * 2)
        return vectors

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question, in seconds. Raises BackendError."""
        size = self._opened()
        question = first_window(text, self.window)
        seconds = self._settings.query_timeout
        late = f"the embedder at {self._endpoint.url} did not embed a question within {seconds:g} s"
        return await in_thread(partial(self._question, question, size), seconds=seconds, late=late)

    def _question(self, text: str, size: int) -> list[float]:
        try:
            return self._embed(
                [text], size, question=True, seconds=self._settings.query_timeout, tries=_QUESTION_TRIES
            )[0]
        except BackendTimeout:
            if self._warming.acquire(blocking=False):
                beside(self._warm_up)
            raise

    def _warm_up(self) -> None:
        """Let the server load its model, however long that takes."""
        try:
            with suppress(BackendError):
                self._embed([HARMLESS], 0, question=False, tries=1)
        finally:
            self._warming.release()

    def _embed(
        self,
        texts: Sequence[str],
        size: int,
        *,
        question: bool,
        seconds: float | None = None,
        tries: int = _PASSAGE_TRIES,
    ) -> list[list[float]]:
        before = self._before_questions if question else self._before_passages
        time = seconds or self._settings.passage_timeout

        def send(some: list[str]) -> object:
            return self._send([before + text for text in some], question=question, seconds=time, tries=tries)

        batches = Batches(send, dimensions=size, count=self._settings.batch_texts, size=self._characters)
        return batches.run(texts)

    def _opened(self) -> int:
        """Return the size of vectors. Raises BackendUnavailable before `open`: another model may answer."""
        if not self.dimensions:
            raise BackendUnavailable(f"the embedder at {self._endpoint.url} has not been reached yet")
        return self.dimensions


def _or(given: str | None, otherwise: str) -> str:
    return otherwise if given is None else given
