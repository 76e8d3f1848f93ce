"""The contract: what a backend implements, and what it may rely on.

A provider author declares `Capability` values in ``info`` and has the verbs that go with them: by way of a
`store_provider.StoreProvider` where the backend blocks, else over `BaseProvider`. The conformance suite then
says whether it is right. Guarantees in words stand in ``docs/requirements.md``, each with the check that
holds it; ``docs/writing-a-provider.md`` writes one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol

from rawthink_core.clock import Clock, IdSource, RandomIds, SystemClock
from rawthink_core.embedding import Embedder, KeptVectors, NoEmbedder
from rawthink_core.errors import UnsupportedOperation
from rawthink_core.operations import (
    AfterChat,
    Batch,
    BeforeChat,
    Export,
    Forget,
    ForgetReceipt,
    Get,
    GraphPage,
    GraphQuery,
    Health,
    History,
    HistoryQuery,
    Items,
    Maintain,
    MaintainReceipt,
    Recall,
    RecordReceipt,
    RestoreReceipt,
    Revision,
    Scan,
    ScanPage,
    Scope,
    SearchPage,
    SearchQuery,
)
from rawthink_core.vocabulary import DEFAULT_VOCABULARY, Vocabulary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from rawthink_core.commits import Commit
    from rawthink_core.ranking import Fusion

CONTRACT_VERSION = 1


class Capability(StrEnum):
    """What a provider can do. Graded ones say how well; their grades stand behind them."""

    GET = "get"
    SCAN = "scan"
    GRAPH = "graph"
    HISTORY = "history"
    FORGET = "forget"  # erased | deleted | hidden
    EXPORT = "export"
    RESTORE = "restore"
    MAINTAIN = "maintain"
    ATOMIC_WRITES = "atomic_writes"
    IDEMPOTENT_RECORD = "idempotent_record"
    AS_OF = "as_of"
    VALID_AT = "valid_at"
    DENSE = "dense"
    LEXICAL = "lexical"
    VERBATIM = "verbatim"
    ACTIVITY = "activity"
    READ_YOUR_WRITES = "read_your_writes"  # at once | seconds | none
    RANKING = "ranking"  # core | native
    FILTERS = "filters"  # before_top_k | after
    PROCESSES = "processes"  # one | many
    DURABLE = "durable"  # process crash | power loss
    BACKGROUND_CHANGES = "background_changes"  # the backend changes memories by itself
    MAX_TEXT = "max_text"  # characters of one text


GRADES: Mapping[Capability, tuple[str, ...]] = {
    Capability.FORGET: ("erased", "deleted", "hidden"),
    Capability.READ_YOUR_WRITES: ("at once", "seconds", "none"),
    Capability.RANKING: ("core", "native"),
    Capability.FILTERS: ("before_top_k", "after"),
    Capability.PROCESSES: ("one", "many"),
    Capability.DURABLE: ("process crash", "power loss"),
}


@dataclass(frozen=True, slots=True)
class ProviderInfo:
    """Who a provider is and what it can do: before `open` at best, after it what this store can.

    ``capabilities`` maps each declared capability to its grade, or to ``"yes"`` (``max_text`` to a number).
    """

    name: str
    version: str
    capabilities: Mapping[Capability, str]
    location: str = ""
    timezone: str = "UTC"

    def can(self, capability: Capability) -> bool:
        """Tell whether a capability is declared."""
        return capability in self.capabilities


@dataclass(frozen=True, slots=True)
class World:
    """What surrounds a provider: where it may put things, and what it asks instead of the machine.

    ``path`` is the store's place where its settings name none; ``cache`` and ``state`` are folders for
    what can be derived again and for what belongs to this user alone: all stores share them, so put the id
    of the store into what you name there. ``fusion`` is for `searching.answer`.
    """

    path: Path
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=RandomIds)
    embedder: Embedder = field(default_factory=NoEmbedder)
    vocabulary: Vocabulary = DEFAULT_VOCABULARY
    timezone: str | None = None
    fusion: Fusion = "minmax"
    cache: Path | None = None
    state: Path | None = None


class Provider(Protocol):
    """The contract. All verbs may raise a `BackendError`; what else they raise stands with their requests."""

    info: ProviderInfo

    async def open(self) -> None:
        """Open or create the store. Raises StoreTooNew, ConfigError or a BackendError."""
        ...

    async def close(self) -> None:
        """Release locks and flush. May be called again."""
        ...

    async def on_before_chat(self, request: BeforeChat) -> Recall:
        """Return what is relevant to a turn that is about to begin: hits, never text."""
        ...

    async def on_after_chat(self, request: AfterChat) -> RecordReceipt:
        """Store the clean passages of a turn that is over."""
        ...

    async def search(self, query: SearchQuery) -> SearchPage:
        """Find what a question is about. Raises InvalidRequest."""
        ...

    async def record(self, batch: Batch) -> RecordReceipt:
        """Write a batch, all or nothing. Raises InvalidRequest with every fault, or BatchIdReused."""
        ...

    async def revise(self, revision: Revision) -> RecordReceipt:
        """Retire beliefs and link what replaces them. Raises as `record`, and AlreadyRevised, NotFound."""
        ...

    async def get(self, request: Get) -> Items:
        """Return items by id and entities by name."""
        ...

    async def scan(self, request: Scan) -> ScanPage:
        """Return every item that passes the filters, page by page."""
        ...

    async def graph(self, query: GraphQuery) -> GraphPage:
        """Return entities with their observations and relations."""
        ...

    async def history(self, query: HistoryQuery) -> History:
        """Return all versions of an item or of all that is said about an entity. Raises NotFound."""
        ...

    async def forget(self, request: Forget) -> ForgetReceipt:
        """Erase. Not `revise`: afterwards no verb, file or log of ours yields the text."""
        ...

    def export(self, request: Export) -> AsyncIterator[Commit]:
        """Yield every commit of a space, in order."""
        ...

    async def restore(
        self, scope: Scope, commits: Sequence[Commit], vectors: KeptVectors | None = None
    ) -> RestoreReceipt:
        """Add commits as they are, ids and times included; those already there are skipped.

        ``vectors`` are what another store keeps of their texts: taken where the models agree.
        """
        ...

    async def kept_vectors(self, texts: Sequence[str]) -> KeptVectors:
        """Return the vectors that are kept of these very texts: what a copy need not make again."""
        ...

    async def maintain(self, request: Maintain) -> MaintainReceipt:
        """Do upkeep: compact, repair, re-index."""
        ...

    async def health(self) -> Health:
        """Say how the store is, and how to mend what is not well.

        Works on a store that can't be opened, and before `open`: it creates nothing then.
        """
        ...


class BaseProvider:
    """What most providers share: compositions, and a typed refusal of every verb not overridden."""

    info: ProviderInfo
    refusals: ClassVar[Mapping[str, str]] = {}  # verb → why this provider does not have it

    async def open(self) -> None:
        """Do nothing: for stores that need no opening."""

    async def close(self) -> None:
        """Do nothing: for stores that hold nothing open."""

    async def on_before_chat(self, request: BeforeChat) -> Recall:
        """Recall by searching."""
        page = await self.search(request.as_query())
        return Recall(items=page.items, degraded=page.degraded)

    async def on_after_chat(self, request: AfterChat) -> RecordReceipt:
        """Store by recording."""
        return await self.record(request.as_batch())

    async def revise(self, revision: Revision) -> RecordReceipt:
        """Revise by recording a batch of one revision."""
        return await self.record(revision.as_batch())

    async def search(self, query: SearchQuery) -> SearchPage:
        """Refuse: not overridden."""
        raise self._unsupported("search", query)

    async def record(self, batch: Batch) -> RecordReceipt:
        """Refuse: not overridden."""
        raise self._unsupported("record", batch)

    async def get(self, request: Get) -> Items:
        """Refuse: not overridden."""
        raise self._unsupported("get", request)

    async def scan(self, request: Scan) -> ScanPage:
        """Refuse: not overridden."""
        raise self._unsupported("scan", request)

    async def graph(self, query: GraphQuery) -> GraphPage:
        """Refuse: not overridden."""
        raise self._unsupported("graph", query)

    async def history(self, query: HistoryQuery) -> History:
        """Refuse: not overridden."""
        raise self._unsupported("history", query)

    async def forget(self, request: Forget) -> ForgetReceipt:
        """Refuse: not overridden."""
        raise self._unsupported("forget", request)

    def export(self, request: Export) -> AsyncIterator[Commit]:
        """Refuse: not overridden."""
        raise self._unsupported("export", request)

    async def restore(
        self, scope: Scope, commits: Sequence[Commit], vectors: KeptVectors | None = None
    ) -> RestoreReceipt:
        """Refuse: not overridden."""
        raise self._unsupported("restore", scope, commits, vectors)

    async def kept_vectors(self, texts: Sequence[str]) -> KeptVectors:  # noqa: ARG002 - the contract's signature
        """Return none: for stores that keep none."""
        return KeptVectors()

    async def maintain(self, request: Maintain) -> MaintainReceipt:
        """Refuse: not overridden."""
        raise self._unsupported("maintain", request)

    async def health(self) -> Health:
        """Say that the provider is open, and no more."""
        return Health(status="ok", location=self.info.location)

    def _unsupported(self, verb: str, *_: object) -> UnsupportedOperation:
        return UnsupportedOperation(self.info.name, verb, self.refusals.get(verb, ""))
