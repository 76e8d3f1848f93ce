"""What a write asks for, item by item, and the receipt that it gets."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from rawthink_core.frame import Answer, Request, Scoped
from rawthink_core.model import MAX_INT, ItemKind, Origin, Provenance, Text, When


class NewEntity(Request):
    """An entity to create or to meet again. For an existing one, fields left out stay as they are."""

    name: Text
    entity_type: Text | None = None
    domain: Text | None = None
    epistemic: Text | None = None
    visibility: Text | None = None
    aliases: tuple[Text, ...] = ()
    pinned: bool | None = None
    supersedes: Text | None = None  # a decision that this one replaces: ends its `decided` and `because`


class NewObservation(Request):
    """Something said about ``entity`` (its name or id)."""

    entity: Text
    text: Text
    kind: Text = "note"
    valid_from: When | None = None
    valid_to: When | None = None


class NewRelation(Request):
    """A link from ``source`` to ``target`` (names or ids)."""

    source: Text
    type: Text
    target: Text
    valid_from: When | None = None
    valid_to: When | None = None


class NewPassage(Request):
    """A text that is not a claim.

    ``key`` names the place in its session that the text fills (a message id, say): another text under
    the same key supersedes the former. Without a key, the text is its own. ``valid_from`` is when it
    was said; ``ordinal`` its place in the session, by default after the last.

    ``place`` is a second key, for what goes on from what was said before, whatever it says: it takes the
    place of ``key`` where the session has a passage under one of the keys in ``after``. So an edited question
    supersedes the former, while questions that only look alike stand side by side.
    """

    text: Text
    session: Text = Field(min_length=1)
    key: Text | None = None
    place: Text | None = None
    after: tuple[Text, ...] = ()
    ordinal: int | None = Field(default=None, ge=0, le=MAX_INT)
    speaker: Text | None = None
    tags: tuple[Text, ...] = ()
    visibility: Text | None = None
    origin: Origin | None = None
    valid_from: When | None = None


class Target(Request):
    """What a revision retires.

    An observation, relation or passage by ``id``; every active observation of ``entity`` with exactly
    ``text`` (narrowed by ``kind`` and ``valid_from``); a relation by its ends and type; or, when the
    revision carries ``fields``, the entity itself by ``id`` or ``entity``.
    """

    id: Text | None = None
    entity: Text | None = None
    text: Text | None = None
    kind: Text | None = None
    valid_from: When | None = None
    source: Text | None = None
    type: Text | None = None
    target: Text | None = None


class Successor(Request):
    """What takes the place of the targets. What is left out is as it was in the first target."""

    text: Text | None = None
    entity: Text | None = None
    kind: Text | None = None
    valid_from: When | None = None
    valid_to: When | None = None
    source: Text | None = None
    type: Text | None = None
    target: Text | None = None


class EntityFields(Request):
    """New values for fields of an entity. A new ``name`` keeps the id, and the old name still answers."""

    name: Text | None = None
    entity_type: Text | None = None
    domain: Text | None = None
    epistemic: Text | None = None
    visibility: Text | None = None
    aliases: tuple[Text, ...] | None = None
    pinned: bool | None = None


class Change(Request):
    """One revision: retire ``targets``, say why, and name at most one successor.

    ``cause`` is ``corrected`` (it never was so) or ``changed`` (it was so until ``effective``, by
    default now, and the successor is from then on). Without a successor it is a retraction. With
    ``fields``, it revises an entity.
    """

    targets: tuple[Target, ...] = Field(min_length=1)
    successor: Successor | None = None
    fields: EntityFields | None = None
    reason: Text | None = None
    cause: Text = "corrected"
    effective: When | None = None


class Batch(Scoped):
    """What is written together or not at all: at most 1,000 items or 16 MiB.

    ``id`` makes a retry safe: an id already committed changes nothing and returns the first receipt.
    ``replaces_origin`` (with passages only) says that the batch holds all passages of that file: those
    that it does not repeat become ``ended``.
    """

    id: Text = Field(min_length=1, max_length=200)
    entities: tuple[NewEntity, ...] = ()
    observations: tuple[NewObservation, ...] = ()
    relations: tuple[NewRelation, ...] = ()
    passages: tuple[NewPassage, ...] = ()
    revisions: tuple[Change, ...] = ()
    replaces_origin: Text | None = None
    provenance: Provenance | None = None

    @property
    def size(self) -> int:
        """The number of items in the batch."""
        return (
            len(self.entities)
            + len(self.observations)
            + len(self.relations)
            + len(self.passages)
            + sum(len(change.targets) for change in self.revisions)
        )


class Revision(Scoped):
    """The request of `revise`: one change, as a batch of its own."""

    id: Text = Field(min_length=1, max_length=200)
    change: Change
    provenance: Provenance | None = None

    def as_batch(self) -> Batch:
        """Return the batch that this revision is."""
        return Batch(id=self.id, scope=self.scope, revisions=(self.change,), provenance=self.provenance)


Outcome = Literal["created", "updated", "unchanged", "ended", "invalidated"]


class ItemReceipt(Answer):
    """What a batch did to one item. For a retired item, ``successor`` is the id of what replaced it."""

    id: str
    kind: ItemKind
    outcome: Outcome
    successor: str | None = None


class Advice(Answer):
    """Something worth knowing about what was just written: never a refusal."""

    kind: Literal["rejected_before", "secret", "capacity"]
    text: str
    ids: tuple[str, ...] = ()


class RecordReceipt(Answer):
    """What a write did. ``items`` stand in the order of the request, the revised ones last."""

    batch_id: str
    status: Literal["stored", "queued"] = "stored"
    recorded_at: datetime | None = None
    items: tuple[ItemReceipt, ...] = ()
    advice: tuple[Advice, ...] = ()
    pending_embeddings: int = 0

    def ids(self, kind: ItemKind | None = None, *outcomes: Outcome) -> list[str]:
        """Return the ids of the items of a kind and with any of ``outcomes``; left out, of any."""
        return [
            item.id
            for item in self.items
            if (kind is None or item.kind == kind) and (not outcomes or item.outcome in outcomes)
        ]


class AfterChat(Scoped):
    """Clean passages of a finished turn, to be stored."""

    id: Text = Field(min_length=1, max_length=200)
    passages: tuple[NewPassage, ...]
    provenance: Provenance | None = None

    def as_batch(self) -> Batch:
        """Return the batch that stores this turn."""
        return Batch(id=self.id, scope=self.scope, passages=self.passages, provenance=self.provenance)
