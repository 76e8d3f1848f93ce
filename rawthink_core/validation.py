"""What can be judged of a batch without looking into the store: shape, words, times, sizes.

`prepare` returns the batch in canonical form (folded relation types, ISO times, identity keys)
together with every fault found. The faults are reported by `graph.plan`, next to those that only the
store can show, so that one answer names all that is wrong.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from rawthink_core.clock import iso
from rawthink_core.errors import InvalidRequest
from rawthink_core.model import moment
from rawthink_core.operations import MAX_BYTES, MAX_ITEMS, Successor
from rawthink_core.text import has_substance, identity_key, same_text
from rawthink_core.vocabulary import (
    CAUSES,
    EPISTEMICS,
    OBSERVATION_KINDS,
    VISIBILITIES,
    Vocabulary,
    known_word,
    unknown,
)
from rawthink_core.work import (
    ChangeItem,
    EntityItem,
    ObservationItem,
    PassageItem,
    RelationItem,
    TargetItem,
    Work,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from rawthink_core.model import Rules
    from rawthink_core.operations import (
        Batch,
        Change,
        EntityFields,
        NewEntity,
        NewObservation,
        NewPassage,
        NewRelation,
        Target,
    )
    from rawthink_core.vocabulary import Folded


def prepare(batch: Batch, rules: Rules) -> Work:
    """Return ``batch`` in canonical form with every fault that needs no store. Never raises for content."""
    work = Work(batch, rules)
    work.by = _said_by(work)
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


def _said_by(work: Work) -> dict[str, Any] | None:
    """Return the provenance of the batch as it is stored."""
    given = work.batch.provenance
    if given is None:
        return None
    at = _iso(work, "provenance.time", given.time)
    said = given.model_dump(mode="json", exclude_none=True, exclude={"time"})
    return said if at is None else said | {"time": at}


def _check_size(work: Work) -> None:
    batch = work.batch
    if batch.size > MAX_ITEMS:
        work.fault(
            "batch",
            f"holds {batch.size} items, {MAX_ITEMS} at most; split it into batches with ids of their own",
        )
    texts = list(_texts(batch))
    if sum(map(len, texts)) * 4 > MAX_BYTES and sum(len(t.encode()) for t in texts) > MAX_BYTES:
        work.fault("batch", f"holds more than {MAX_BYTES // 2**20} MiB of text; split it")
    if batch.replaces_origin is not None and (
        batch.entities or batch.observations or batch.relations or batch.revisions
    ):
        work.fault("replaces_origin", "goes with passages only")


def _texts(batch: Batch) -> Iterator[str]:
    """Yield what makes a batch long."""
    for entity in batch.entities:
        yield entity.name
        yield from entity.aliases
    yield from (item.text for item in batch.observations)
    yield from (item.text for item in batch.passages)
    for change in batch.revisions:
        yield change.reason or ""
        yield (change.successor and change.successor.text) or ""
        if change.fields is not None:
            yield from (change.fields.name or "", *(change.fields.aliases or ()))


def _entity(work: Work, where: str, entity: NewEntity) -> None:
    vocabulary = work.rules.vocabulary
    check_name(work, f"{where}.name", entity.name)
    for index, alias in enumerate(entity.aliases):
        check_name(work, f"{where}.aliases.{index}", alias)
    fields = check_fields(work, where, entity, vocabulary)
    item = EntityItem(
        where, entity.name.strip(), identity_key(entity.name), fields, entity.aliases, entity.supersedes
    )
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
        fields["epistemic"] = _word(
            work, f"{where}.epistemic", "epistemic status", given.epistemic, EPISTEMICS
        )
    if given.visibility is not None:
        fields["visibility"] = _word(
            work, f"{where}.visibility", "visibility", given.visibility, VISIBILITIES
        )
    if given.pinned is not None:
        fields["pinned"] = given.pinned
    return fields


def _word(work: Work, where: str, what: str, word: str, allowed: Sequence[str]) -> str:
    known = known_word(word, allowed)
    if known is None:
        work.fault(where, unknown(what, word, allowed))
    return known or word


def _observation(work: Work, where: str, given: NewObservation) -> None:
    _not_blank(work, f"{where}.text", given.text)
    kind = _word(work, f"{where}.kind", "observation kind", given.kind, OBSERVATION_KINDS)
    times = _interval(work, where, given.valid_from, given.valid_to)
    work.observations.append(ObservationItem(where, given.entity, given.text, kind, *times))


def _relation(work: Work, where: str, given: NewRelation) -> None:
    folded = work.rules.vocabulary.relation(given.type)
    if folded is None:
        work.fault(f"{where}.type", work.rules.vocabulary.unknown_relation(given.type))
    times = _interval(work, where, given.valid_from, given.valid_to)
    work.relations.append(RelationItem(where, given.source, folded, given.target, *times))


def _passage(work: Work, where: str, given: NewPassage) -> None:
    _not_blank(work, f"{where}.text", given.text)
    path = work.batch.replaces_origin
    if path is not None and (given.origin is None or given.origin.path != path):
        work.fault(
            f"{where}.origin", f"the batch replaces the passages of {path!r}, this one is not from there"
        )
    rest: dict[str, Any] = {
        "speaker": given.speaker,
        "tags": list(dict.fromkeys(given.tags)),
        "origin": given.origin.model_dump(exclude_none=True) if given.origin else None,
        "valid_from": _iso(work, f"{where}.valid_from", given.valid_from),
    }
    if given.visibility is not None:
        rest["visibility"] = _word(work, f"{where}.visibility", "visibility", given.visibility, VISIBILITIES)
    if given.key is not None:
        _not_blank(work, f"{where}.key", given.key)  # a key shared by chance would end what stands under it
    key = given.key if given.key is not None else text_key(given.text)
    if given.place is not None:
        _not_blank(work, f"{where}.place", given.place)
    placing = given.place, given.after
    work.passages.append(PassageItem(where, given.text, given.session, key, given.ordinal, rest, *placing))


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
        fields = _entity_fields(work, f"{where}.fields", given.fields)
        if given.successor is not None or len(given.targets) != 1 or given.effective is not None:
            work.fault(
                f"{where}.fields", "changes one entity: exactly one target, no successor, no effective time"
            )
    targets = tuple(_target(work, f"{where}.targets.{n}", t) for n, t in enumerate(given.targets))
    kind, folded, times = _successor(work, f"{where}.successor", given.successor or Successor())
    item = ChangeItem(
        where, targets, given.successor, kind, folded, times, fields, given.reason, cause, effective
    )
    work.changes.append(item)


def _successor(
    work: Work, where: str, given: Successor
) -> tuple[str | None, Folded | None, tuple[str | None, str | None]]:
    """Return the kind, type and interval of a successor in canonical form."""
    if given.text is not None:
        _not_blank(work, f"{where}.text", given.text)
    kind = given.kind
    if kind is not None:
        kind = _word(work, f"{where}.kind", "observation kind", kind, OBSERVATION_KINDS)
    folded = None
    if given.type is not None and (folded := work.rules.vocabulary.relation(given.type)) is None:
        work.fault(f"{where}.type", work.rules.vocabulary.unknown_relation(given.type))
    return kind, folded, _interval(work, where, given.valid_from, given.valid_to)


def _entity_fields(work: Work, where: str, given: EntityFields) -> dict[str, Any]:
    fields = check_fields(work, where, given, work.rules.vocabulary)
    if given.name is not None:
        check_name(work, f"{where}.name", given.name)
        fields["name"] = given.name.strip()
    if given.aliases is not None:
        for index, alias in enumerate(given.aliases):
            check_name(work, f"{where}.aliases.{index}", alias)
        fields["aliases"] = [alias.strip() for alias in given.aliases]
    if not fields:
        work.fault(where, "names no field to change")
    return fields


def _target(work: Work, where: str, given: Target) -> TargetItem:
    by_id = given.id is not None
    by_entity = given.entity is not None
    by_ends = given.source is not None or given.target is not None or given.type is not None
    if by_id + by_entity + by_ends != 1:
        work.fault(
            where, "name it by `id`, or by `entity` and exact `text`, or by `source`, `type` and `target`"
        )
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
