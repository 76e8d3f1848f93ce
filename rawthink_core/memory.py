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
from rawthink_core.chat import recall_query
from rawthink_core.clock import IdSource, RandomIds
from rawthink_core.errors import BackendTimeout, ConfigError, InvalidRequest
from rawthink_core.guard import Guard
from rawthink_core.model import zone_named
from rawthink_core.operations import AfterChat, Batch, BeforeChat, Revision, parse
from rawthink_core.recall import WRITE_DEADLINE, Recaller, within
from rawthink_core.spooling.spooled import Spooled
from rawthink_core.turns import (
    MAX_ITEMS,
    MAX_TOKENS,
    ChatContext,
    context_of,
    passage_of_turn,
    unsaid,
    with_own_turns,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from rawthink_core.chat import Labels
    from rawthink_core.model import Provenance
    from rawthink_core.operations import Advice, RecordReceipt
    from rawthink_core.provider import Provider
    from rawthink_core.spooling.pacing import Pace
    from rawthink_core.vault.vault import Vault

log = logging.getLogger("rawthink.memory")


class Memory(Spooled):
    """One space of one store. Safe to use from many tasks of one event loop.

    ``guard`` runs the hooks and looks for secrets; ``recaller`` keeps the deadline of recalls;
    ``provenance`` is written with everything that is recorded; ``vault`` is the folder of notes and sessions;
    under ``state``, chat turns wait for a store that is down.
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
        vault: Path | None = None,
        state: Path | None = None,
        pace: Pace | None = None,
    ) -> None:
        super().__init__(
            provider, space, guard or Guard(), state=state, write_deadline=write_deadline, pace=pace
        )
        self._ids = ids or RandomIds()
        self._recaller = recaller or Recaller()
        self._provenance = provenance
        self._folder = vault
        self._vault: Vault | None = None

    def in_space(self, space: str) -> Self:
        """Return the same memory in another space: the one way to reach it."""
        other = type(self)(
            self.provider,
            space=space,
            ids=self._ids,
            guard=self.guard,
            recaller=self._recaller,
            provenance=self._provenance,
            write_deadline=self._write_deadline,
            vault=self._folder,
        )
        other.post = self.post  # one spool for the whole store
        return other

    @property
    def vault(self) -> Vault:
        """The notes and sessions beside this memory. Raises ConfigError where nobody named their folder."""
        from rawthink_core.vault.vault import Vault  # noqa: PLC0415 - few memories have files beside them

        if self._folder is None:
            raise ConfigError("this memory has no vault: name its folder with Memory(…, vault=…)")
        if self._vault is None:
            self._vault = Vault(self._folder, self)
        return self._vault

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
            raise InvalidRequest(
                f"the batch belongs to another space than this memory ({self.scope.space!r})"
            )
        batch, warnings = await self.guard.before_record(batch)
        receipt = await within(self._write_deadline, self.provider.record(batch), self._late)
        advice = (*warnings, *await self._advice(batch, receipt))
        receipt = receipt.model_copy(update={"advice": (*receipt.advice, *advice)}) if advice else receipt
        await self.guard.after_commit(receipt)
        return receipt

    async def _advice(self, batch: Batch, receipt: RecordReceipt) -> tuple[Advice, ...]:
        """Return what is known against a decision just written. It may not hold the receipt up for long."""
        if not any(said.kind == "decided" for said in batch.observations):
            return ()
        look = decisions.advice(self.provider, batch, receipt)
        try:
            return await within(self._recaller.deadline, look, self._late)
        except BackendTimeout:
            return ()

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
        ``corrected`` (it never was so) or ``changed`` (it was so until ``effective``, by default now, and the
        successor is from then on). With ``fields``, it changes fields of one entity. Raises as `record`.
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

        Deciding again under the same ``name`` ends what was decided before and holds from then on (from
        ``valid_from``, by default now); ``supersedes`` names another decision that this one replaces. The
        receipt's ``advice`` says when something decided now was rejected before. Raises as `record`.
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

    # --- chat -----------------------------------------------------------------------------------

    async def before_chat(
        self,
        messages: Sequence[object],
        *,
        limit: int = MAX_ITEMS,
        tokens: int = MAX_TOKENS,
        vouched: bool = False,
    ) -> ChatContext:
        """Return what to tell a model before the last user message of ``messages`` (OpenAI-style).

        Never raises for a memory that is down or slow, and never takes longer than the recall deadline: the
        context is then empty and says why. Small talk and tool traffic recall nothing.
        """
        text = recall_query(messages, vouched=vouched)
        if text is None:
            return ChatContext()
        whole = text.encode(errors="ignore").decode()  # half a character is no reason to stop a chat
        request = parse(
            BeforeChat, {"scope": self.scope, "text": whole, "limit": with_own_turns(limit, messages)}
        )
        recall = await self._recaller(lambda: self.provider.on_before_chat(request))
        recall = recall.model_copy(update={"items": unsaid(recall.items, messages)[:limit]})
        return context_of(recall, zone_named(self.info.timezone), tokens, limit)

    async def after_chat(
        self,
        messages: Sequence[object],
        reply: str | None,
        *,
        session: str,
        message_id: str | None = None,
        finish_reason: object = "stop",
        display_name: str | None = None,
        vouched: bool = False,
        labels: Labels | None = None,
    ) -> RecordReceipt | None:
        """Keep a finished turn as one passage; return None when there is no whole turn to keep.

        Arguments as of `turns.passage_of_turn`. Kept twice, a turn is kept once. Where the store is down or
        slow, the receipt says ``queued``: the turn is on the disk and stored later. Raises as `record`.
        """
        passage = passage_of_turn(
            messages,
            reply,
            session=session,
            message_id=message_id,
            finish_reason=finish_reason,
            display_name=display_name,
            vouched=vouched,
            labels=labels,
        )
        if passage is None:
            return None
        passages = await self.guard.before_capture((passage,))
        request = AfterChat(
            id=self.post.retakes.batch_id(self.scope.space, session, passages),
            scope=self.scope,
            passages=passages,
            provenance=self._provenance,
        )
        return await self._keep(request, session)


@asynccontextmanager
async def open_memory(
    provider: str | None = None,
    *,
    space: str | None = None,
    config: Path | None = None,
    hooks: Sequence[object] = (),
    **settings: Any,
) -> AsyncIterator[Memory]:
    """Open a memory for the time of an ``async with`` block.

    ``open_memory("local", path="~/notes")`` names the provider and its settings; without arguments both come
    from `rawthink.toml` and the environment. Raises ConfigError, PluginError, StoreTooNew or a BackendError.
    """
    from rawthink_core.opening import build  # noqa: PLC0415 - configuration is for those who open by name

    memory = build(provider, space=space, config=config, hooks=hooks, **settings)
    await memory.open()
    try:
        yield memory
    finally:
        await memory.close()
