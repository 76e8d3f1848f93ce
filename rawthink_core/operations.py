"""Requests and receipts of every verb of the contract.

Requests are closed pydantic models: an unknown argument or a wrong type is a fault that names its
place, and `parse` turns all faults of a request into one `InvalidRequest`. Every request carries its
`Scope`. Times may be given as people write them; providers call ``in_zone`` first and then see
aware UTC times only.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rawthink_core.errors import Fault, InvalidRequest
from rawthink_core.model import (
    MAX_INT,
    Entity,
    Hit,
    Item,
    ItemKind,
    Observation,
    Origin,
    Passage,
    Provenance,
    Relation,
    Text,
    When,
    instant,
    moment,
)
from rawthink_core.vocabulary import Cause, ObservationKind, Status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zoneinfo import ZoneInfo

MAX_ITEMS = 1_000
MAX_BYTES = 16 * 1024 * 1024
MAX_LIMIT = 100
MAX_SCAN = 1_000

# --- the common frame ---------------------------------------------------------------------------


class Request(BaseModel):
    """Base of what callers send: immutable and closed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def in_zone(self, zone: ZoneInfo) -> Self:
        """Return this request with every point in time made an aware UTC instant."""
        changed = {
            name: instant(value, zone) if name in _INSTANTS else moment(value, zone, end_of_day=name in _ENDS)
            for name in (*_INSTANTS, *_STARTS, *_ENDS)
            if isinstance(value := getattr(self, name, None), date)
        }
        return self.model_copy(update=changed) if changed else self


_INSTANTS = ("as_of", "valid_at")
_STARTS = ("since", "effective", "valid_from")
_ENDS = ("until", "valid_to")


class Answer(BaseModel):
    """Base of what comes back: immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid")


R = TypeVar("R", bound=Request)


def parse(kind: type[R], data: Mapping[str, Any]) -> R:
    """Build a request from plain data. Raises InvalidRequest with every fault and where it stands."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise InvalidRequest(faults_of(error)) from None


def faults_of(error: ValidationError) -> list[Fault]:
    """Return the faults of a pydantic error as sentences for people, without echoing the input."""
    return [
        Fault(
            ".".join(str(part) for part in fault["loc"]),
            _SENTENCES.get(fault["type"], fault["msg"]).removeprefix("Value error, "),
        )
        for fault in error.errors(include_url=False, include_input=False)
    ]


_SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "is not an argument of this operation",
    "string_type": "must be a text",
    "string_unicode": "must be whole Unicode characters",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
}


class Scope(Request):
    """Which memory an operation works in: an opaque string, matched by exact equality and never widened."""

    space: Text = Field(min_length=1)


class Scoped(Request):
    """A request, and the space it works in."""

    scope: Scope


# --- writing ------------------------------------------------------------------------------------


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
    """

    text: Text
    session: Text = Field(min_length=1)
    key: Text | None = None
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
    default now). Without a successor it is a retraction. With ``fields``, it revises an entity.
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
        """Return the ids of the items of a kind (all kinds when None) with any of ``outcomes`` (any when none)."""
        return [
            item.id
            for item in self.items
            if (kind is None or item.kind == kind) and (not outcomes or item.outcome in outcomes)
        ]


# --- reading ------------------------------------------------------------------------------------


class Filters(Scoped):
    """What `search` and `scan` may narrow by. An item without a filtered field does not match."""

    items: tuple[Literal["entity", "observation", "relation", "passage"], ...] = ()
    observation_kinds: tuple[ObservationKind, ...] = ()
    entity_types: tuple[Text, ...] = ()
    domains: tuple[Text, ...] = ()
    tags: tuple[Text, ...] = ()
    sessions: tuple[Text, ...] = ()
    since: When | None = None
    until: When | None = None
    statuses: tuple[Status, ...] = ("active",)
    as_of: When | None = None
    valid_at: When | None = None


class SearchQuery(Filters):
    """A question in the words of a person. At most ``limit`` answers; a search is not paged.

    ``as_of`` asks what was believed then, ``valid_at`` what held then. ``group="entity"`` groups the
    hits of one entity, and counts entities. ``why`` adds how each hit came to its place.
    """

    text: Text
    limit: int = Field(default=10, ge=1, le=MAX_LIMIT)
    group: Literal["entity"] | None = None
    relevant_only: bool = False  # chat recall: only hits that share a non-stop term, or pass the floor
    why: bool = False


class SearchPage(Answer):
    """The best hits first. ``total`` is None where the engine can't count.

    ``degraded`` says what could not be asked (an index that is still building, say): an answer that
    carries it may be incomplete, and an empty one is not "nothing known".
    """

    items: tuple[Hit, ...] = ()
    total: int | None = 0
    truncated: bool = False
    degraded: str | None = None


class Get(Scoped):
    """Items by ``ids``, and entities by ``names``; with ``as_of``, as they were believed then."""

    ids: tuple[Text, ...] = ()
    names: tuple[Text, ...] = ()
    as_of: When | None = None


class Items(Answer):
    """What was found, in the order asked for, and which ids and names are not in this space."""

    items: tuple[Item, ...] = ()
    missing: tuple[str, ...] = ()
    degraded: str | None = None


class Scan(Filters):
    """Every item that passes the filters, oldest first, page by page (``cursor`` of the page before)."""

    limit: int = Field(default=100, ge=1, le=MAX_SCAN)
    cursor: Text | None = None


class ScanPage(Answer):
    """One page of a scan. ``cursor`` is None on the last page."""

    items: tuple[Item, ...] = ()
    cursor: str | None = None
    degraded: str | None = None


class GraphQuery(Scoped):
    """The neighbourhood of entities: their observations, and relations up to ``depth`` steps away."""

    ids: tuple[Text, ...] = ()
    names: tuple[Text, ...] = ()
    depth: int = Field(default=1, ge=0, le=5)
    statuses: tuple[Status, ...] = ("active",)
    as_of: When | None = None
    limit: int = Field(default=200, ge=1, le=MAX_SCAN)  # relations at most


class GraphPage(Answer):
    """Entities, their observations, and the relations between them."""

    entities: tuple[Entity, ...] = ()
    observations: tuple[Observation, ...] = ()
    relations: tuple[Relation, ...] = ()
    missing: tuple[str, ...] = ()
    truncated: bool = False
    degraded: str | None = None


class HistoryQuery(Scoped):
    """How one item, or everything said about one entity, came to be what it is."""

    id: Text | None = None
    name: Text | None = None


class History(Answer):
    """All versions, oldest first: fields of the entity, observations and relations, retired ones too."""

    entity: Entity | None = None
    observations: tuple[Observation, ...] = ()
    relations: tuple[Relation, ...] = ()
    passages: tuple[Passage, ...] = ()
    degraded: str | None = None


class BeforeChat(Scoped):
    """Asks for what is relevant before a chat turn. ``text`` is the derived query."""

    text: Text
    limit: int = Field(default=8, ge=1, le=MAX_LIMIT)


class Recall(Answer):
    """What a chat turn may want to know: hits, never rendered text."""

    items: tuple[Hit, ...] = ()
    degraded: str | None = None


class AfterChat(Scoped):
    """Clean passages of a finished turn, to be stored."""

    id: Text = Field(min_length=1, max_length=200)
    passages: tuple[NewPassage, ...]
    provenance: Provenance | None = None

    def as_batch(self) -> Batch:
        """Return the batch that stores this turn."""
        return Batch(id=self.id, scope=self.scope, passages=self.passages, provenance=self.provenance)


# --- upkeep -------------------------------------------------------------------------------------


class Forget(Scoped):
    """What to erase: items by id, entities by name with all that is said of them, sessions, or all of the space."""

    ids: tuple[Text, ...] = ()
    names: tuple[Text, ...] = ()
    sessions: tuple[Text, ...] = ()
    everything: bool = False


class Place(Answer):
    """One place that held forgotten text, and what became of it there."""

    place: str
    outcome: Literal["erased", "pending", "kept"]
    note: str = ""


class ForgetReceipt(Answer):
    """What was erased, and from where."""

    ids: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()

    @property
    def count(self) -> int:
        """The number of items erased."""
        return len(self.ids)


class Export(Scoped):
    """Asks for every commit of the space, in order."""


class RestoreReceipt(Answer):
    """How many commits a restore added, and how many the store already had."""

    restored: int = 0
    skipped: int = 0


class Maintain(Scoped):
    """Upkeep. ``repair`` sets damaged parts aside; ``reindex`` builds derived indexes anew."""

    repair: bool = False
    reindex: bool = False


class MaintainReceipt(Answer):
    """What upkeep did, a sentence each."""

    done: tuple[str, ...] = ()


class Check(Answer):
    """One row of a health report, with the way to mend it."""

    name: str
    status: Literal["ok", "note", "warn", "fail"]
    detail: str
    fix: str = ""


class Health(Answer):
    """How a store is. ``checks`` go from its files to its indexes."""

    status: Literal["ok", "degraded", "down"]
    location: str
    checks: tuple[Check, ...] = ()
    pending_embeddings: int = 0
