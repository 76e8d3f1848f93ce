"""What can be judged of a batch without looking into the store: shape, words, times, sizes.

`prepare` returns the batch in canonical form (folded relation types, ISO times, identity keys)
together with every fault found. The faults are reported by `graph.plan`, next to those that only the
store can show, so that one answer names all that is wrong.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rawthink_core.clock import iso
from rawthink_core.errors import Fault, InvalidRequest
from rawthink_core.model import moment
from rawthink_core.operations import MAX_BYTES, MAX_ITEMS
from rawthink_core.text import has_substance, identity_key, same_text
from rawthink_core.vocabulary import CAUSES, EPISTEMICS, OBSERVATION_KINDS, VISIBILITIES, Vocabulary, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date
    from zoneinfo import ZoneInfo

    from rawthink_core.operations import (
        Batch,
        Change,
        EntityFields,
        NewEntity,
        NewObservation,
        NewPassage,
        NewRelation,
        Successor,
        Target,
    )


@dataclass(frozen=True, slots=True)
class Rules:
    """What a store judges by: its vocabulary, and the zone of naive times."""

    vocabulary: Vocabulary
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class EntityItem:
    """An entity of a batch; `fields` holds only what was stated."""

    where: str
    name: str
    key: str
    fields: dict[str, Any]
    aliases: tuple[str, ...] = ()
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class ObservationItem:
    """An observation of a batch, its entity still a reference."""

    where: str
    entity: str
    text: str
    kind: str
    valid_from: str | None = None
    valid_to: str | None = None


@dataclass(frozen=True, slots=True)
class RelationItem:
    """A relation of a batch with its canonical type, the arrow turned where the synonym asks for it."""

    where: str
    source: str
    type: str
    target: str
    valid_from: str | None = None
    valid_to: str | None = None


@dataclass(frozen=True, slots=True)
class PassageItem:
    """A passage of a batch, with its key settled."""

    where: str
    text: str
    session: str
    key: str
    ordinal: int | None
    rest: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TargetItem:
    """A target of a change, with its times and words in canonical form."""

    where: str
    given: Target
    kind: str | None
    valid_from: str | None
    type: str | None
    source: str | None
    target: str | None


@dataclass(frozen=True, slots=True)
class ChangeItem:
    """A change of a batch in canonical form."""

    where: str
    targets: tuple[TargetItem, ...]
    successor: Successor | None
    successor_kind: str | None
    successor_type: str | None
    successor_times: tuple[str | None, str | None]
    fields: dict[str, Any] | None
    reason: str | None
    cause: str
    effective: str | None


@dataclass(slots=True)
class Work:
    """A prepared batch: its items in canonical form, and what is wrong with it so far."""

    batch: Batch
    rules: Rules
    entities: list[EntityItem] = field(default_factory=list)
    observations: list[ObservationItem] = field(default_factory=list)
    relations: list[RelationItem] = field(default_factory=list)
    passages: list[PassageItem] = field(default_factory=list)
    changes: list[ChangeItem] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    @property
    def space(self) -> str:
        """The space that the batch writes to."""
        return self.batch.scope.space

    def fault(self, where: str, problem: str) -> None:
        """Note something wrong."""
        self.faults.append(Fault(where, problem))


def prepare(batch: Batch, rules: Rules) -> Work:
    """Return ``batch`` in canonical form with every fault that needs no store. Never raises for content."""
    work = Work(batch, rules)
    _check_size(work)
    for index, entity in enumerate(batch.entities):
        _entity(work, f"entities.{index}", entity)
    for index, observation in enumerate(batch.observations):
        _observation(work, f"observations.{index}", observation)
    for index, relation in enumerate(batch.relations):
        _relation(work, f"relations.{index}", relation)
    for index, passage in enumerate(batch.passages):
        _passage(work, f"passages.{index}", passage)
    for index, change in enumerate(batch.revisions):
        _change(work, f"revisions.{index}", change)
    return work


def _check_size(work: Work) -> None:
    batch = work.batch
    if batch.size > MAX_ITEMS:
        work.fault("batch", f"holds {batch.size} items, {MAX_ITEMS} at most; split it into batches with ids of their own")
    texts = [*(o.text for o in batch.observations), *(p.text for p in batch.passages)]
    if sum(map(len, texts)) * 4 > MAX_BYTES and sum(len(t.encode()) for t in texts) > MAX_BYTES:
        work.fault("batch", f"holds more than {MAX_BYTES // 2**20} MiB of text; split it")
    if batch.replaces_origin is not None and (
        batch.entities or batch.observations or batch.relations or batch.revisions
    ):
        work.fault("replaces_origin", "goes with passages only")


def _entity(work: Work, where: str, entity: NewEntity) -> None:
    vocabulary = work.rules.vocabulary
    check_name(work, f"{where}.name", entity.name)
    for index, alias in enumerate(entity.aliases):
        check_name(work, f"{where}.aliases.{index}", alias)
    fields = check_fields(work, where, entity, vocabulary)
    item = EntityItem(where, entity.name.strip(), identity_key(entity.name), fields, entity.aliases, entity.supersedes)
    work.entities.append(item)


def check_name(work: Work, where: str, name: str) -> None:
    """Note a name that nobody could see or type."""
    if not has_substance(name):
        work.fault(where, "a name needs at least one letter, number, symbol or punctuation mark")


def check_fields(
    work: Work, where: str, given: NewEntity | EntityFields, vocabulary: Vocabulary
) -> dict[str, Any]:
    """Return the fields that were stated, in canonical form, and note those outside the vocabulary."""
    fields: dict[str, Any] = {}
    if given.entity_type is not None:
        fields["entity_type"] = vocabulary.entity_type(given.entity_type)
        if fields["entity_type"] is None:
            work.fault(f"{where}.entity_type", vocabulary.unknown_entity_type(given.entity_type))
    if given.domain is not None:
        fields["domain"] = vocabulary.domain(given.domain)
        if fields["domain"] is None:
            work.fault(f"{where}.domain", vocabulary.unknown_domain(given.domain))
    if given.epistemic is not None:
        fields["epistemic"] = _word(work, f"{where}.epistemic", "epistemic status", given.epistemic, EPISTEMICS)
    if given.visibility is not None:
        fields["visibility"] = _word(work, f"{where}.visibility", "visibility", given.visibility, VISIBILITIES)
    if given.pinned is not None:
        fields["pinned"] = given.pinned
    return fields


def _word(work: Work, where: str, what: str, word: str, allowed: Sequence[str]) -> str:
    if word in allowed:
        return word
    if (slug := word.strip().casefold()) in allowed:
        return slug
    work.fault(where, unknown(what, word, allowed))
    return word


def _observation(work: Work, where: str, given: NewObservation) -> None:
    _not_blank(work, f"{where}.text", given.text)
    _not_blank(work, f"{where}.entity", given.entity)
    kind = _word(work, f"{where}.kind", "observation kind", given.kind, OBSERVATION_KINDS)
    times = _interval(work, where, given.valid_from, given.valid_to)
    work.observations.append(ObservationItem(where, given.entity, given.text, kind, *times))


def _relation(work: Work, where: str, given: NewRelation) -> None:
    folded = work.rules.vocabulary.relation(given.type)
    if folded is None:
        work.fault(f"{where}.type", work.rules.vocabulary.unknown_relation(given.type))
        return
    _not_blank(work, f"{where}.source", given.source)
    _not_blank(work, f"{where}.target", given.target)
    ends = (given.target, given.source) if folded.turned else (given.source, given.target)
    times = _interval(work, where, given.valid_from, given.valid_to)
    work.relations.append(RelationItem(where, ends[0], folded.type, ends[1], *times))


def _passage(work: Work, where: str, given: NewPassage) -> None:
    _not_blank(work, f"{where}.text", given.text)
    path = work.batch.replaces_origin
    if path is not None and (given.origin is None or given.origin.path != path):
        work.fault(f"{where}.origin", f"the batch replaces the passages of {path!r}, this one is not from there")
    rest: dict[str, Any] = {
        "speaker": given.speaker,
        "tags": list(dict.fromkeys(given.tags)),
        "origin": given.origin.model_dump(exclude_none=True) if given.origin else None,
        "valid_from": _iso(work, f"{where}.valid_from", given.valid_from),
    }
    if given.visibility is not None:
        rest["visibility"] = _word(work, f"{where}.visibility", "visibility", given.visibility, VISIBILITIES)
    key = given.key if given.key is not None else text_key(given.text)
    work.passages.append(PassageItem(where, given.text, given.session, key, given.ordinal, rest))


def text_key(text: str) -> str:
    """Return the key of a passage that was given none: the text is its own place in the session."""
    return hashlib.blake2b(same_text(text).encode(), digest_size=16).hexdigest()


def _change(work: Work, where: str, given: Change) -> None:
    cause = _word(work, f"{where}.cause", "cause", given.cause, CAUSES)
    effective = _iso(work, f"{where}.effective", given.effective)
    if effective is not None and cause == "corrected":
        work.fault(f"{where}.effective", "goes with cause 'changed'; what is corrected never was so")
    fields = None
    if given.fields is not None:
        fields = _entity_fields(work, where, given)
    successor, kind, folded_type = given.successor, None, None
    times: tuple[str | None, str | None] = (None, None)
    if successor is not None:
        if successor.text is not None:
            _not_blank(work, f"{where}.successor.text", successor.text)
        if successor.kind is not None:
            kind = _word(work, f"{where}.successor.kind", "observation kind", successor.kind, OBSERVATION_KINDS)
        if successor.type is not None:
            folded = work.rules.vocabulary.relation(successor.type)
            if folded is None or folded.turned:
                work.fault(f"{where}.successor.type", work.rules.vocabulary.unknown_relation(successor.type))
            folded_type = folded.type if folded else None
        times = _interval(work, f"{where}.successor", successor.valid_from, successor.valid_to)
    targets = tuple(_target(work, f"{where}.targets.{n}", t) for n, t in enumerate(given.targets))
    work.changes.append(
        ChangeItem(where, targets, successor, kind, folded_type, times, fields, given.reason, cause, effective)
    )


def _entity_fields(work: Work, where: str, given: Change) -> dict[str, Any]:
    assert given.fields is not None  # noqa: S101 - narrows for the reader and the type checker
    fields = check_fields(work, f"{where}.fields", given.fields, work.rules.vocabulary)
    if given.fields.name is not None:
        check_name(work, f"{where}.fields.name", given.fields.name)
        fields["name"] = given.fields.name.strip()
    if given.fields.aliases is not None:
        for index, alias in enumerate(given.fields.aliases):
            check_name(work, f"{where}.fields.aliases.{index}", alias)
        fields["aliases"] = list(given.fields.aliases)
    if not fields:
        work.fault(f"{where}.fields", "names no field to change")
    if given.successor is not None or len(given.targets) != 1 or given.effective is not None:
        work.fault(f"{where}.fields", "changes one entity: exactly one target, no successor, no effective time")
    return fields


def _target(work: Work, where: str, given: Target) -> TargetItem:
    by_id = given.id is not None
    by_entity = given.entity is not None
    by_ends = given.source is not None or given.target is not None or given.type is not None
    if by_id + by_entity + by_ends != 1:
        work.fault(where, "name it by `id`, or by `entity` and exact `text`, or by `source`, `type` and `target`")
    folded = None
    if by_ends:
        if given.source is None or given.target is None or given.type is None:
            work.fault(where, "a relation is named by `source`, `type` and `target` together")
        elif (folded := work.rules.vocabulary.relation(given.type)) is None:
            work.fault(f"{where}.type", work.rules.vocabulary.unknown_relation(given.type))
    kind = given.kind
    if kind is not None:
        kind = _word(work, f"{where}.kind", "observation kind", kind, OBSERVATION_KINDS)
    ends = (given.target, given.source) if folded and folded.turned else (given.source, given.target)
    valid_from = _iso(work, f"{where}.valid_from", given.valid_from)
    return TargetItem(where, given, kind, valid_from, folded.type if folded else None, ends[0], ends[1])


def _not_blank(work: Work, where: str, text: str) -> None:
    if not text.strip():
        work.fault(where, "must not be blank")


def _iso(work: Work, where: str, value: date | None, *, end: bool = False) -> str | None:
    if value is None:
        return None
    try:
        return iso(moment(value, work.rules.zone, end_of_day=end))
    except InvalidRequest as error:
        work.fault(where, str(error))
        return None


def _interval(
    work: Work, where: str, valid_from: date | None, valid_to: date | None
) -> tuple[str | None, str | None]:
    begins = _iso(work, f"{where}.valid_from", valid_from)
    ends = _iso(work, f"{where}.valid_to", valid_to, end=True)
    if begins is not None and ends is not None and ends <= begins:
        work.fault(f"{where}.valid_to", f"{ends} is not after valid_from {begins}")
    return begins, ends
