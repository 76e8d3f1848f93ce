"""Decisions, and arguing back: compositions of the contract's verbs, the same over every provider.

A decision is an entity of type ``decision`` with one observation a part, each found on its own, so that
"why not Redis?" finds it through what was rejected. No model is called, and nothing is retired unless
somebody says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from rawthink_core.errors import RawThinkError
from rawthink_core.model import Entity, Hit, Relation, zone_named
from rawthink_core.operations import (
    MAX_LIMIT,
    Advice,
    Answer,
    Batch,
    GraphQuery,
    SearchQuery,
    parse,
)
from rawthink_core.text import content_tokens, text_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from rawthink_core.model import Provenance
    from rawthink_core.operations import RecordReceipt, Scope, SearchPage
    from rawthink_core.provider import Provider

log = logging.getLogger("rawthink.decisions")

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
    rejected: str | Sequence[str] = (),
    touches: str | Sequence[str] = (),
    supersedes: str | None = None,
    epistemic: str | None = None,
    visibility: str | None = None,
    valid_from: date | None = None,
    provenance: Provenance | None = None,
) -> Batch:
    """Return the batch that records a decision. A new ``decided`` ends the old one in the same commit.

    Raises InvalidRequest with every fault that needs no store.
    """
    parts = (("decided", decided), ("because", because), ("rejected", rejected), ("touches", touches))
    said = [(kind, text) for kind, texts in parts for text in _listed(texts)]
    dated = ("decided", "because")
    data = {
        "id": batch_id,
        "scope": scope,
        "entities": [
            {
                "name": name,
                "entity_type": "decision",
                "domain": domain,
                "epistemic": epistemic,
                "visibility": visibility,
                "supersedes": supersedes,
            }
        ],
        "observations": [
            {"entity": name, "kind": kind, "text": text, "valid_from": valid_from if kind in dated else None}
            for kind, text in said
        ],
        "provenance": provenance,
    }
    return parse(Batch, data)


def _listed(texts: object) -> list[Any]:
    """Return the entries of a part: one text is one entry, and what is no text becomes a fault later."""
    return [texts] if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)


async def advice(provider: Provider, batch: Batch, receipt: RecordReceipt) -> tuple[Advice, ...]:
    """Say when something that was just decided had been rejected before: advice, never a refusal.

    An earlier option counts when every word of it that means something occurs in the new ``decided`` or
    in the decision's name. One search; where that fails, nothing is said, since the decision stands already.
    """
    texts = [f"{said.entity}\n{said.text}" for said in batch.observations if said.kind == "decided"]
    if not texts:
        return ()
    query = SearchQuery(
        scope=batch.scope,
        text="\n".join(texts),
        items=("observation",),
        observation_kinds=("rejected",),
        statuses=("active", "ended"),  # what was invalidated never was rejected
        limit=50,
    )
    try:
        page = await provider.search(query)
    except RawThinkError as error:
        log.warning("could not look for options rejected before: %s", error)
        return ()
    mine, words = set(receipt.ids("observation")), [text_tokens(text) for text in texts]
    zone = zone_named(provider.info.timezone)
    found: list[Advice] = []
    for hit in page.items:
        option, why = split_rejected(hit.text)
        tokens = content_tokens(option)
        if hit.id in mine or not tokens or not any(tokens <= decided for decided in words):
            continue
        day, reason = hit.date.astimezone(zone).date(), f": {why}" if why else ""
        text = f"{option!r} was rejected on {day.isoformat()} in {hit.entity_name!r}{reason}"
        found.append(Advice(kind="rejected_before", text=text, ids=(hit.id,)))
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
    """Gather what speaks against ``topic``: at most ``limit`` of each sort. Four searches and one look-up.

    What it lists does not count as read. Raises InvalidRequest, or what the provider raises.
    """
    base = {"scope": scope, "text": topic, "limit": limit, "relevant_only": True}

    async def search(**changes: object) -> SearchPage:
        return await provider.search(parse(SearchQuery, {**base, **changes}))

    said, once = ("observation",), ("active", "ended")
    rejected = await search(items=said, observation_kinds=("rejected",), statuses=once)
    revised = await search(items=said, statuses=("ended", "invalidated"))
    questions = await search(entity_types=("open-question",))
    widely = min(4 * limit, MAX_LIMIT)
    about = await search(items=("entity", "observation"), statuses=(*once, "invalidated"), limit=widely)
    entities = tuple(dict.fromkeys(hit.entity for hit in about.items if hit.entity is not None))[: 2 * limit]
    graph = await provider.graph(GraphQuery(scope=scope, ids=entities, observations=False, listing=True))
    reasons = [p.degraded for p in (rejected, revised, questions, about, graph) if p.degraded]
    return Challenge(
        topic=topic,
        rejected=rejected.items,
        revised=revised.items,
        contradictions=tuple(r for r in graph.relations if r.type == "contradicts")[:limit],
        uncertain=tuple(
            entity
            for entity in graph.entities
            if entity.id in entities and entity.epistemic in ("hypothesis", "speculation")
        )[:limit],
        open_questions=questions.items,
        degraded=reasons[0] if reasons else None,
    )
