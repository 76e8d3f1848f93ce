"""Decisions, and arguing back: compositions of the contract's verbs, the same over every provider.

A decision is an entity of type ``decision`` with one observation a part, each found on its own, so that
"why not Redis?" finds it through what was rejected. No model is called, and nothing is retired unless
somebody says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rawthink_core.model import Entity, Hit, Relation
from rawthink_core.operations import (
    Advice,
    Answer,
    Batch,
    Get,
    GraphQuery,
    NewEntity,
    NewObservation,
    SearchQuery,
)
from rawthink_core.text import content_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from rawthink_core.model import Provenance
    from rawthink_core.operations import RecordReceipt, Scope
    from rawthink_core.provider import Provider

_DASHES = (" — ", " - ")


class Rejected(NamedTuple):
    """An option that was rejected, and why; ``why`` is empty where none was given."""

    option: str
    why: str


def split_rejected(text: str) -> Rejected:
    """Return the option and the reason of a rejected entry: it splits at the first `` — `` or `` - ``."""
    places = [(at, dash) for dash in _DASHES if (at := text.find(dash)) >= 0]
    if not places:
        return Rejected(text.strip(), "")
    at, dash = min(places)
    return Rejected(text[:at].strip(), text[at + len(dash) :].strip())


def decision_batch(
    batch_id: str,
    scope: Scope,
    *,
    name: str,
    domain: str | None,
    decided: str,
    because: str | Sequence[str],
    rejected: Sequence[str] = (),
    touches: Sequence[str] = (),
    supersedes: str | None = None,
    epistemic: str | None = None,
    visibility: str | None = None,
    valid_from: date | None = None,
    provenance: Provenance | None = None,
) -> Batch:
    """Return the batch that records a decision. A new ``decided`` ends the old one in the same commit."""
    reasons = [because] if isinstance(because, str) else list(because)
    said = [("decided", decided)]
    said += [("because", reason) for reason in reasons]
    said += [("rejected", option) for option in rejected]
    said += [("touches", what) for what in touches]
    entity = NewEntity(
        name=name,
        entity_type="decision",
        domain=domain,
        epistemic=epistemic,
        visibility=visibility,
        supersedes=supersedes,
    )
    observations = [
        NewObservation(
            entity=name,
            kind=kind,
            text=text,
            valid_from=valid_from if kind in ("decided", "because") else None,
        )
        for kind, text in said
    ]
    return Batch(
        id=batch_id,
        scope=scope,
        entities=(entity,),
        observations=tuple(observations),
        provenance=provenance,
    )


async def advice(provider: Provider, batch: Batch, receipt: RecordReceipt) -> tuple[Advice, ...]:
    """Say when something that was just decided had been rejected before: advice, never a refusal.

    An earlier option counts when every word of it that means something occurs in the new ``decided`` or
    in the decision's name. One search.
    """
    decided = [said for said in batch.observations if said.kind == "decided"]
    if not decided:
        return ()
    text = "\n".join(f"{said.entity}\n{said.text}" for said in decided)
    page = await provider.search(
        SearchQuery(
            scope=batch.scope,
            text=text,
            items=("observation",),
            observation_kinds=("rejected",),
            statuses=("active", "ended", "invalidated"),
            limit=50,
        )
    )
    mine, words = set(receipt.ids("observation")), content_tokens(text)
    found: list[Advice] = []
    for hit in page.items:
        option, why = split_rejected(hit.text)
        tokens = content_tokens(option)
        if hit.id in mine or not tokens or not tokens <= words:
            continue
        reason = f": {why}" if why else ""
        found.append(
            Advice(
                kind="rejected_before",
                text=f"{option!r} was rejected on {hit.date:%Y-%m-%d} in {hit.entity_name!r}{reason}",
                ids=(hit.id,),
            )
        )
    return tuple(found)


class Challenge(Answer):
    """What speaks against a topic, from one's own memory. Candidates to think about, not verdicts."""

    topic: str
    rejected: tuple[Hit, ...] = ()  # options rejected before, and why
    revised: tuple[Hit, ...] = ()  # beliefs given up since; `successor` is what replaced each
    contradictions: tuple[Relation, ...] = ()
    uncertain: tuple[Entity, ...] = ()  # what is only hypothesis or speculation
    open_questions: tuple[Hit, ...] = ()
    degraded: str | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing speaks against it."""
        return not (
            self.rejected or self.revised or self.contradictions or self.uncertain or self.open_questions
        )


async def challenge(provider: Provider, scope: Scope, topic: str, limit: int = 5) -> Challenge:
    """Gather what speaks against ``topic``: at most ``limit`` of each sort. Four searches and two look-ups."""
    base = SearchQuery(scope=scope, text=topic, limit=limit, relevant_only=True)

    def ask(**changes: object) -> SearchQuery:
        return base.model_copy(update=changes)

    observations = ("observation",)
    every = ("active", "ended", "invalidated")
    rejected = await provider.search(ask(items=observations, observation_kinds=("rejected",), statuses=every))
    revised = await provider.search(ask(items=observations, statuses=("ended", "invalidated")))
    questions = await provider.search(ask(entity_types=("open-question",)))
    about = await provider.search(ask(items=("entity", "observation"), statuses=every, limit=4 * limit))
    entities = tuple(dict.fromkeys(hit.entity for hit in about.items if hit.entity is not None))
    graph = await provider.graph(GraphQuery(scope=scope, ids=entities[: 2 * limit], depth=1))
    near = await provider.get(Get(scope=scope, ids=entities[: 2 * limit]))
    reasons = [page.degraded for page in (rejected, revised, questions, about) if page.degraded]
    return Challenge(
        topic=topic,
        rejected=rejected.items,
        revised=revised.items,
        contradictions=tuple(r for r in graph.relations if r.type == "contradicts")[:limit],
        uncertain=tuple(
            item
            for item in near.items
            if isinstance(item, Entity) and item.epistemic in ("hypothesis", "speculation")
        )[:limit],
        open_questions=questions.items,
        degraded=reasons[0] if reasons else None,
    )
