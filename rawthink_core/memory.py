"""`Memory` and `open_memory`: the one door that hosts and applications use.

It holds one provider and one space, mints batch ids, runs the hooks, looks for secrets, keeps recall
within its deadline, and adds the compositions (`record_decision`, `challenge`). It keeps no
conversation: two conversations on one `Memory` can't touch each other.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from rawthink_core import decisions
from rawthink_core.clock import IdSource, RandomIds
from rawthink_core.errors import BackendTimeout, InvalidRequest
from rawthink_core.guard import Guard
from rawthink_core.operations import (
    Batch,
    Export,
    Forget,
    Get,
    GraphQuery,
    HistoryQuery,
    Maintain,
    Revision,
    Scan,
    Scope,
    SearchQuery,
    parse,
)
from rawthink_core.recall import WRITE_DEADLINE, Recaller, within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from rawthink_core.commits import Commit
    from rawthink_core.decisions import Challenge
    from rawthink_core.model import Provenance
    from rawthink_core.operations import (
        ForgetReceipt,
        GraphPage,
        Health,
        History,
        Items,
        MaintainReceipt,
        RecordReceipt,
        RestoreReceipt,
        ScanPage,
        SearchPage,
    )
    from rawthink_core.provider import Provider, ProviderInfo

log = logging.getLogger("rawthink.memory")


class Memory:
    """One space of one store. Safe to use from many tasks of one event loop.

    ``guard`` runs the hooks and looks for secrets; ``recaller`` keeps the deadline of recalls;
    ``provenance`` is written with everything that is recorded.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        space: str = "default",
        ids: IdSource | None = None,
        guard: Guard | None = None,
        recaller: Recaller | None = None,
        provenance: Provenance | None = None,
        write_deadline: float = WRITE_DEADLINE,
    ) -> None:
        self.provider = provider
        self.scope = parse(Scope, {"space": space})
        self._ids = ids or RandomIds()
        self._guard = guard or Guard()
        self._recaller = recaller or Recaller()
        self._provenance = provenance
        self._write_deadline = write_deadline

    @property
    def info(self) -> ProviderInfo:
        """Who the provider is, where its store lies, and what it can do."""
        return self.provider.info

    def in_space(self, space: str) -> Self:
        """Return the same memory in another space: the one way to reach it."""
        return type(self)(
            self.provider,
            space=space,
            ids=self._ids,
            guard=self._guard,
            recaller=self._recaller,
            provenance=self._provenance,
            write_deadline=self._write_deadline,
        )

    async def close(self) -> None:
        """Close the store. May be called again."""
        await self.provider.close()

    # --- writing --------------------------------------------------------------------------------

    async def record(
        self,
        *,
        entities: Sequence[Mapping[str, Any]] = (),
        observations: Sequence[Mapping[str, Any]] = (),
        relations: Sequence[Mapping[str, Any]] = (),
        passages: Sequence[Mapping[str, Any]] = (),
        revisions: Sequence[Mapping[str, Any]] = (),
        batch_id: str | None = None,
        replaces_origin: str | None = None,
    ) -> RecordReceipt:
        """Write all of it or nothing, in one commit.

        The arguments hold objects with the fields of `NewEntity`, `NewObservation`, `NewRelation`,
        `NewPassage` and `Change`. Give ``batch_id`` to make your own retry safe. Raises InvalidRequest with
        every fault, BatchIdReused, AlreadyRevised, NotFound, HookRefused or a BackendError.
        """
        data: dict[str, Any] = {
            "id": batch_id or self._ids.new(),
            "scope": self.scope,
            "entities": entities,
            "observations": observations,
            "relations": relations,
            "passages": passages,
            "revisions": revisions,
            "replaces_origin": replaces_origin,
            "provenance": self._provenance,
        }
        return await self.write(parse(Batch, data))

    async def write(self, batch: Batch) -> RecordReceipt:
        """Write a batch that is already built; raises as `record`."""
        if batch.scope != self.scope:
            raise InvalidRequest(f"the batch belongs to another space than this memory ({self.scope.space!r})")
        batch, warnings = await self._guard.before_record(batch)
        receipt = await within(self._write_deadline, self.provider.record(batch), self._late)
        advice = (*warnings, *await decisions.advice(self.provider, batch, receipt))
        receipt = receipt.model_copy(update={"advice": (*receipt.advice, *advice)}) if advice else receipt
        await self._guard.after_commit(receipt)
        return receipt

    def _late(self) -> BackendTimeout:
        return BackendTimeout(
            f"{self.info.name} did not confirm the write within {self._write_deadline:g} s. It may still be "
            f"written: repeat it with the same batch id"
        )

    async def revise(
        self,
        targets: Sequence[Mapping[str, Any]],
        *,
        successor: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        reason: str | None = None,
        cause: str = "corrected",
        effective: date | str | None = None,
        batch_id: str | None = None,
    ) -> RecordReceipt:
        """Retire beliefs, say why, and link what replaces them. Nothing is destroyed.

        ``targets`` are objects with the fields of `Target`, ``successor`` one of `Successor`. ``cause`` is
        ``corrected`` (it never was so) or ``changed`` (it was so until ``effective``). With ``fields``, changes
        fields of one entity. Raises as `record`.
        """
        change: dict[str, Any] = {
            "targets": targets,
            "successor": successor,
            "fields": fields,
            "reason": reason,
            "cause": cause,
            "effective": effective,
        }
        data = {
            "id": batch_id or self._ids.new(),
            "scope": self.scope,
            "change": change,
            "provenance": self._provenance,
        }
        return await self.write(parse(Revision, data).as_batch())

    async def record_decision(
        self,
        *,
        name: str,
        decided: str,
        because: str | Sequence[str],
        domain: str | None = None,
        rejected: Sequence[str] = (),
        touches: Sequence[str] = (),
        supersedes: str | None = None,
        epistemic: str | None = None,
        visibility: str | None = None,
        valid_from: date | None = None,
        batch_id: str | None = None,
    ) -> RecordReceipt:
        """Record a decision with its reasons and what was rejected ("option — why").

        Deciding again under the same ``name`` ends what was decided before; ``supersedes`` names another
        decision that this one replaces. The receipt's ``advice`` says when something decided now was
        rejected before. Raises as `record`.
        """
        batch = decisions.decision_batch(
            batch_id or self._ids.new(),
            self.scope,
            name=name,
            domain=domain,
            decided=decided,
            because=because,
            rejected=rejected,
            touches=touches,
            supersedes=supersedes,
            epistemic=epistemic,
            visibility=visibility,
            valid_from=valid_from,
            provenance=self._provenance,
        )
        return await self.write(batch)

    # --- reading --------------------------------------------------------------------------------

    async def search(self, text: str, **filters: Any) -> SearchPage:
        """Return what ``text`` is about, best first. ``filters`` are the fields of `SearchQuery`.

        Raises InvalidRequest or a BackendError; a failure is never an empty page.
        """
        return await self.provider.search(parse(SearchQuery, {"scope": self.scope, "text": text, **filters}))

    async def challenge(self, topic: str, *, limit: int = 5) -> Challenge:
        """Return what speaks against ``topic``: rejected before, given up since, contradicted, uncertain, open."""
        return await decisions.challenge(self.provider, self.scope, topic, limit)

    async def get(self, *ids: str, names: Sequence[str] = (), as_of: date | str | None = None) -> Items:
        """Return items by id and entities by name; with ``as_of``, as they were believed then."""
        return await self.provider.get(
            parse(Get, {"scope": self.scope, "ids": ids, "names": names, "as_of": as_of})
        )

    async def scan(self, **filters: Any) -> ScanPage:
        """Return one page of every item that passes the filters (the fields of `Scan`)."""
        return await self.provider.scan(parse(Scan, {"scope": self.scope, **filters}))

    async def graph(self, *names: str, **options: Any) -> GraphPage:
        """Return entities with what is said of them and their relations (``options``: fields of `GraphQuery`)."""
        return await self.provider.graph(parse(GraphQuery, {"scope": self.scope, "names": names, **options}))

    async def history(self, *, name: str | None = None, item_id: str | None = None) -> History:
        """Return all versions of an item, or of everything said about an entity. Raises NotFound."""
        return await self.provider.history(
            parse(HistoryQuery, {"scope": self.scope, "name": name, "id": item_id})
        )

    # --- upkeep ---------------------------------------------------------------------------------

    async def forget(self, **what: Any) -> ForgetReceipt:
        """Erase items for good (the fields of `Forget`). To change your mind, `revise` instead."""
        return await self.provider.forget(parse(Forget, {"scope": self.scope, **what}))

    def export(self) -> AsyncIterator[Commit]:
        """Yield every commit of this space, in order."""
        return self.provider.export(Export(scope=self.scope))

    async def restore(self, commits: Sequence[Commit]) -> RestoreReceipt:
        """Add exported commits; those already there are skipped."""
        return await self.provider.restore(self.scope, commits)

    async def maintain(self, **what: bool) -> MaintainReceipt:
        """Do upkeep (the fields of `Maintain`)."""
        return await self.provider.maintain(parse(Maintain, {"scope": self.scope, **what}))

    async def health(self) -> Health:
        """Return how the store is, and how to mend what is not well."""
        return await self.provider.health()


@asynccontextmanager
async def open_memory(
    provider: str | None = None,
    *,
    space: str | None = None,
    config: Path | None = None,
    hooks: Sequence[object] = (),
    **settings: Any,
) -> AsyncIterator[Memory]:
    """Open a memory and close it again: ``async with open_memory("local", path="~/notes") as memory``.

    Without arguments everything comes from `rawthink.toml` and the environment. ``settings`` are those of the
    provider. Raises ConfigError, PluginError, StoreTooNew or a BackendError.
    """
    from rawthink_core.opening import build  # noqa: PLC0415 - configuration is for those who open by name

    memory = build(provider, space=space, config=config, hooks=hooks, **settings)
    await memory.provider.open()
    try:
        yield memory
    finally:
        await memory.close()
