"""Rows: the only thing that is ever written, and `fold`, which turns the rows of one item into its state.

A commit is a list of rows. Each row touches exactly one item, named by ``id``; an item's state is the
fold of its rows in the order of time. Because `fold` sorts, it does not matter in which order rows
arrive: two clones of a store merge by putting their rows together. ``as_of`` is a fold of fewer rows.

Rows are plain JSON objects, told apart by ``op``; times in them are ISO 8601 in UTC:

========== ================ ==========================================================================
op         of               fields besides ``id``
========== ================ ==========================================================================
entity     entity           name, entity_type, domain, epistemic, visibility, aliases, pinned, …
field      entity           field, value, reason
observation observation     entity, kind, text, valid_from, valid_to, assumed, supersedes
relation   relation         source, type, target, original_type, valid_from, valid_to, supersedes
passage    passage          session, ordinal, key, text, speaker, tags, visibility, origin, valid_from
retire     any but entity   of, status, superseded_by, reason, valid_to
link       any but entity   of, supersedes: an existing item became the successor of others
same       any              of: said again, nothing changed
forgotten  any              of: erased; the id is never used for something else
========== ================ ==========================================================================

Any row may carry ``at``: its own ``recorded_at``, where restore or adoption settles it. ``assumed`` says that
nobody stated ``valid_from``: what was said took another's place, and holds from that commit on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rawthink_core.model import (
    Entity,
    FieldVersion,
    Item,
    ItemKind,
    Observation,
    Origin,
    Passage,
    Provenance,
    Relation,
)
from rawthink_core.text import identity_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rawthink_core.vocabulary import Status

Row = dict[str, Any]

CREATES: Mapping[str, ItemKind] = {
    "entity": "entity",
    "observation": "observation",
    "relation": "relation",
    "passage": "passage",
}
_DEFAULTS: Mapping[str, Any] = {
    "aliases": [],
    "entity_type": "thing",
    "domain": None,
    "epistemic": "unknown",
    "visibility": "private",
    "pinned": False,
    "reconstructed": False,
}
ENTITY_FIELDS = ("name", *_DEFAULTS)


def row_kind(row: Row) -> ItemKind:
    """Return the noun that a row is about."""
    op = row["op"]
    return CREATES[op] if op in CREATES else "entity" if op == "field" else cast("ItemKind", row["of"])


class Stamped(NamedTuple):
    """A row, with the commit that wrote it. Rows count in the order of `at`, commit and position."""

    at: str
    commit: str
    position: int
    row: Row
    by: Mapping[str, Any] | None = None


@dataclass(slots=True)
class State:
    """What the rows of one item amount to. ``row`` is the row that created it."""

    id: str
    kind: ItemKind
    row: Row
    recorded_at: str
    by: Mapping[str, Any] | None = None
    status: Status = "active"
    invalidated_at: str | None = None
    valid_to: str | None = None
    superseded_by: str | None = None
    supersedes: list[str] = field(default_factory=list)
    reason: str | None = None
    versions: list[FieldVersion] = field(default_factory=list)
    forgotten: bool = False
    position: int = 0  # of the creating row in its commit: tells the order in which things were said

    @property
    def told(self) -> tuple[str, int, str]:
        """A key that sorts items in the order in which they were recorded."""
        return self.recorded_at, self.position, self.id

    @property
    def active(self) -> bool:
        """Whether this still stands."""
        return self.status == "active" and not self.forgotten

    @property
    def valid_from(self) -> str | None:
        """When it began to hold, where that was said."""
        return self.row.get("valid_from")

    def value(self, name: str) -> Any:
        """Return the current value of an entity's field."""
        for version in reversed(self.versions):
            if version.field == name:
                return version.value
        return self.row.get(name, _DEFAULTS.get(name))

    def names(self) -> list[str]:
        """Return every name that an entity answers to: current, aliases, and all former ones."""
        ever = [self.row["name"], *self.row.get("aliases", ())]
        for version in self.versions:
            if version.field == "name":
                ever.append(version.value)
            elif version.field == "aliases":
                ever.extend(version.value)
        return list(dict.fromkeys(ever))

    def identity_keys(self) -> set[str]:
        """Return the identity keys of every name that an entity answers to."""
        return {identity_key(name) for name in self.names()}


def begins(row: Row) -> tuple[str | None, ...]:
    """Return the begins under which a row is the same as another: its own, and none where that is assumed."""
    stated = row.get("valid_from")
    return (None, stated) if row.get("assumed") else (stated,)


def fold(rows: Iterable[Stamped], as_of: str | None = None) -> State | None:
    """Return the state of one item after its rows, or None where it did not exist (yet).

    ``as_of`` (ISO 8601, UTC) leaves out what was recorded later. The earliest creation and the earliest
    retirement count: a merge of two clones can hold two of each, and both clones must agree.
    """
    state: State | None = None
    for stamped in sorted(rows, key=_order):
        row = stamped.row
        at = row.get("at", stamped.at)
        if row["op"] == "forgotten":
            # whatever time is asked about: what was erased is not yielded, and its place is known to be taken
            state = State(row["id"], row_kind(row), row, at, forgotten=True)
        elif as_of is not None and at > as_of:
            continue
        elif row["op"] in CREATES and (state is None or state.forgotten):
            state = State(
                id=row["id"],
                kind=CREATES[row["op"]],
                row=row,
                recorded_at=at,
                by=stamped.by,
                valid_to=row.get("valid_to"),
                supersedes=list(row.get("supersedes", ())),
                position=stamped.position,
            )
        elif state is not None and not state.forgotten:
            _apply(state, row, at)
    return state


def _order(stamped: Stamped) -> tuple[str, str, int]:
    # by commit, not by a row's own `at`: what was adopted with a date to come can be retired before that day
    return stamped.at, stamped.commit, stamped.position


def _apply(state: State, row: Row, at: str) -> None:
    match row["op"]:
        case "retire" if state.status == "active":
            state.status = row["status"]
            state.invalidated_at = at
            state.superseded_by = row.get("superseded_by")
            state.reason = row.get("reason")
            if "valid_to" in row:
                state.valid_to = row["valid_to"]
        case "link":
            state.supersedes.extend(i for i in row["supersedes"] if i not in state.supersedes)
        case "field":
            _new_version(state, row, at)


def _new_version(state: State, row: Row, at: str) -> None:
    name = row["field"]
    before = [v for v in state.versions if v.field == name]
    if not before:
        first = FieldVersion(field=name, n=1, value=state.value(name), recorded_at=_time(state.recorded_at))
        state.versions.append(first)
        before = [first]
    last = before[-1]
    when = _time(at)
    closed = last.model_copy(update={"invalidated_at": when, "reason": row.get("reason")})
    state.versions[state.versions.index(last)] = closed
    state.versions.append(FieldVersion(field=name, n=last.n + 1, value=row["value"], recorded_at=when))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _opt(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def noun(state: State, name_of: Callable[[str], str]) -> Item:
    """Return the noun of a state. ``name_of`` gives the current name of an entity by id.

    The rows were validated when they were written, so nothing is validated again here.
    """
    row = state.row
    provenance = Provenance.model_validate(dict(state.by)) if state.by else None
    if state.kind == "entity":
        values = {name: state.value(name) for name in ENTITY_FIELDS}
        values["aliases"] = tuple(values["aliases"])
        return Entity.model_construct(
            id=state.id,
            **values,
            original_type=row.get("original_type"),
            recorded_at=_time(state.recorded_at),
            versions=tuple(state.versions),
            provenance=provenance,
        )
    dated: dict[str, Any] = {
        "id": state.id,
        "status": state.status,
        "recorded_at": _time(state.recorded_at),
        "valid_from": _opt(row.get("valid_from")),
        "valid_to": _opt(state.valid_to),
        "invalidated_at": _opt(state.invalidated_at),
        "superseded_by": state.superseded_by,
        "supersedes": tuple(state.supersedes),
        "reason": state.reason,
        "provenance": provenance,
    }
    if state.kind == "observation":
        return Observation.model_construct(
            **dated,
            entity=row["entity"],
            entity_name=name_of(row["entity"]),
            text=row["text"],
            kind=row["kind"],
        )
    if state.kind == "relation":
        return Relation.model_construct(
            **dated,
            source=row["source"],
            type=row["type"],
            target=row["target"],
            source_name=name_of(row["source"]),
            target_name=name_of(row["target"]),
            original_type=row.get("original_type"),
        )
    origin = row.get("origin")
    return Passage.model_construct(
        **dated,
        text=row["text"],
        session=row["session"],
        ordinal=row["ordinal"],
        key=row["key"],
        speaker=row.get("speaker"),
        tags=tuple(row.get("tags", ())),
        visibility=row.get("visibility", "private"),
        origin=Origin.model_validate(origin) if origin else None,
    )


def ends_of(state: State) -> tuple[str, ...]:
    """Return the ids of the entities that an item belongs to or runs between."""
    match state.kind:
        case "observation":
            return (state.row["entity"],)
        case "relation":
            return (state.row["source"], state.row["target"])
        case _:
            return ()


def holds_at(state: State, moment: str) -> bool:
    """Tell whether an item held at ``moment``: its interval is half-open, and open where no end is stated."""
    began, ended = state.valid_from, state.valid_to
    return (began is None or began <= moment) and (ended is None or moment < ended)


def compact(row: Row) -> Row:
    """Return a row without the fields that say nothing, so that journals stay readable."""
    return {
        key: value
        for key, value in row.items()
        if key == "value" or (value is not None and value not in ([], ()))
    }
