"""`EmbeddingProvider`: a `StoreProvider` whose store keeps vectors, which an `EmbeddingQueue` makes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from rawthink_core.asking import ask
from rawthink_core.embedding import KeptVectors
from rawthink_core.embedding_queue import EmbeddingQueue
from rawthink_core.embedding_shelf import texts_of
from rawthink_core.provider import Capability
from rawthink_core.store_provider import Store, StoreProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rawthink_core import operations as ops
    from rawthink_core.asking import Asked
    from rawthink_core.commits import Commit
    from rawthink_core.embedding_shelf import Model, Shelf
    from rawthink_core.provider import ProviderInfo, World

_MODEL_SECONDS = 1.0  # that a first search waits to learn what the embedder is


class VectorStore(Store, Protocol):
    """An open store that keeps vectors."""

    @property
    def shelf(self) -> Shelf:
        """What the queue asks of the store."""
        ...

    @property
    def model(self) -> Model | None:
        """What made the vectors of the store, as that says when it is opened; None where that is open yet."""
        ...

    @property
    def changes(self) -> object:
        """What is another value whenever the index has taken in anything: it may wait for a vector."""
        ...

    def vectors_of(self, texts: Sequence[str]) -> Mapping[str, Sequence[Sequence[float]]]:
        """Return the vectors that are kept of some of these texts."""
        ...


S = TypeVar("S", bound=VectorStore)


class EmbeddingProvider(StoreProvider[S]):
    """A provider over a store that is searched by meaning, too, where there is an embedder.

    ``dense`` is declared in ``info``, and is not any more where this process has no embedder.
    """

    def __init__(self, info: ProviderInfo, world: World) -> None:
        super().__init__(info, world)
        self._declared = info.capabilities
        self._embedding: EmbeddingQueue | None = None
        self._embedded: object = None  # the changes of the index after which vectors were last asked for

    # --- life -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the store, creating it where there is none. Raises StoreTooNew or a BackendError."""
        if self._embedding is not None:
            return
        await super().open()
        store = self.opened
        queue = EmbeddingQueue(self._world.embedder, store.shelf, store.model, self._in_thread)
        able = {
            name: grade for name, grade in self._declared.items() if queue.wanted or name != Capability.DENSE
        }
        self.info = replace(self.info, capabilities=able)
        self._embedding = queue
        queue.start()

    async def close(self) -> None:
        """Release everything. What is not embedded yet waits for the next process. May be called again."""
        queue, self._embedding = self._embedding, None
        if queue is not None:
            await queue.close()
        await super().close()

    @property
    def embedding(self) -> EmbeddingQueue:
        """The queue of what waits for its vectors. Raises BackendUnavailable where the store is not open."""
        if self._embedding is None:
            raise self._closed()
        return self._embedding

    def _caught_up(self) -> None:
        """Wake who makes vectors where the index has taken in anything: it knows what waits."""
        if self._embedding is None or self._opened is None:
            return
        changes = self._opened.changes
        if changes != self._embedded:
            self._embedded = changes
            self._embedding.wake()

    # --- vectors --------------------------------------------------------------------------------

    async def _asked(self, text: str) -> tuple[Asked | None, str | None]:
        queue = self.embedding
        if not await queue.ready(_MODEL_SECONDS):
            return None, queue.why_not()
        return await ask(queue.embedder, text)

    async def search(self, query: ops.SearchQuery) -> ops.SearchPage:
        """Find what a question is about."""
        page = await super().search(query)
        self._caught_up()
        return page

    def _wrote(self) -> None:
        """Do what is due when a batch was written, before its vectors are made."""

    async def record(self, batch: ops.Batch) -> ops.RecordReceipt:
        """Write a batch, and embed what it says where that takes a moment. Raises EmbedderMismatch, too."""
        queue = self.embedding
        queue.refuse_writes()
        generation = await queue.generation()
        receipt = await super().record(batch)
        self._wrote()
        pending = await queue.soon(texts_of(batch), generation)
        return receipt.model_copy(update={"pending_embeddings": pending}) if pending else receipt

    async def restore(
        self, scope: ops.Scope, commits: Sequence[Commit], vectors: KeptVectors | None = None
    ) -> ops.RestoreReceipt:
        """Add commits as they are, and what another store keeps of their texts."""
        await self._take(vectors)
        return await super().restore(scope, commits)

    async def _take(self, vectors: KeptVectors | None) -> bool:
        """Keep vectors of another store; tell whether there are any and the models agree."""
        if vectors is None or not vectors.of:
            return False
        model = await self._model()
        if model is None or model.fingerprint != vectors.fingerprint:
            return False
        await self._in_thread(self.opened.shelf.put, vectors.of)
        return True

    async def kept_vectors(self, texts: Sequence[str]) -> KeptVectors:
        """Return the vectors that are kept of these texts."""
        model = await self._model()
        if model is None:
            return KeptVectors()
        return KeptVectors(model.fingerprint, await self._in_thread(self.opened.vectors_of, texts))

    async def _model(self) -> Model | None:
        """Return whose vectors are kept, None where none are; of a new store once its model is known."""
        queue, shelf = self.embedding, self.opened.shelf
        if shelf.model is None:
            await queue.ready(_MODEL_SECONDS)
        return shelf.model

    async def maintain(self, request: ops.Maintain) -> ops.MaintainReceipt:
        """Do upkeep; with ``reindex`` make all vectors anew with this process's embedder."""
        receipt = await super().maintain(request)
        if request.reindex and self._embedding is not None:
            await self._embedding.adopt()
        return receipt

    async def _embedder_check(self) -> tuple[ops.Check | None, Callable[[], int] | None]:
        """Return what a probe of the embedder shows, and what counts those that wait, for `health`."""
        queue = self._embedding
        return (None, None) if queue is None else (await queue.probe(), queue.waiting)
