"""From lines of the journal to points of the search index.

Most rows create an item that nothing else speaks of yet: its point comes from the row itself. Whatever
is less simple (a retirement, a new name, a merge of two clones) takes the item's state from the row index,
which covers the whole journal, so the order of lines does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from rawthink_core.clock import to_micros
from rawthink_core.commits import Commit
from rawthink_core.rows import CREATES, Row, State
from rawthink_core.searching import text_of
from rawthink_core.selection import SEARCHABLE
from rawthink_core.text import document_vector
from rawthink_local.fields import FieldFilter, IndexPoint, Value, known_at
from rawthink_local.lines import Line, read_line
from rawthink_local.vectorfile import VectorsUnusable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rawthink_core.selection import Selection
    from rawthink_local.fields import Vectors
    from rawthink_local.store import Store
    from rawthink_local.vectors import Kept
    from rawthink_local.view import View

_OWNERS = 50_000  # entities whose type and domain are remembered while many lines are read


class _Owner(NamedTuple):
    entity_type: str
    domain: str | None


@dataclass(slots=True)
class Changes:
    """What some lines change in the index: points to write, and ids that must not be in it."""

    points: dict[str, IndexPoint] = field(default_factory=dict)
    deletes: set[str] = field(default_factory=set)


class PointMaker:
    """Makes points from lines, remembering the entities that it met.

    With ``kept`` each point gets the vectors of its text, or waits for them.
    """

    def __init__(self, store: Store, kept: Kept | None = None) -> None:
        self._store = store
        self._kept = kept
        self._owners: dict[str, _Owner] = {}

    def changes(self, lines: Iterable[Line]) -> Changes:
        """Return what these lines change."""
        found = Changes()
        views: dict[str, View] = {}
        try:
            for line in lines:
                commit = read_line(line)
                if not isinstance(commit, Commit):
                    continue
                if commit.space not in views:
                    views[commit.space] = self._store.view(commit.space).__enter__()
                for row in commit.rows:
                    self._row(views[commit.space], commit, row, found)
        finally:
            for view in views.values():
                view.__exit__()
        return found

    def again(self, space: str, items: Iterable[str]) -> Changes:
        """Return what items are now, whatever the index holds of them."""
        found = Changes()
        with self._store.view(space) as view:
            for item in items:
                self._afresh(view, item, found)
        return found

    def _row(self, view: View, commit: Commit, row: Row, found: Changes) -> None:
        op = row["op"]
        if op in SEARCHABLE and view.mentions(row["id"]) == 1:
            state = State(row["id"], CREATES[op], row, row.get("at", commit.at))
            self._put(view, state, found)
        elif op in SEARCHABLE or op in ("retire", "forgotten"):
            self._afresh(view, row["id"], found)
        elif op == "field":
            self._owners.pop(row["id"], None)
            self._afresh(view, row["id"], found)
            if row["field"] in ("entity_type", "domain"):
                for state in view.about([row["id"]]):
                    self._put(view, state, found)

    def _afresh(self, view: View, item: str, found: Changes) -> None:
        state = view.state(item)
        if state is None or state.forgotten:
            found.points.pop(item, None)
            found.deletes.add(item)
        elif state.kind in SEARCHABLE:
            self._put(view, state, found)

    def _put(self, view: View, state: State, found: Changes) -> None:
        found.deletes.discard(state.id)
        text, fields = text_of(state), self._fields(view, state)
        vectors = self._vectors(text, (view.space, state.id))
        if vectors is None:
            fields["vector"] = "waiting"
        row = state.row
        place = (row["session"], row["ordinal"], row.get("speaker")) if state.kind == "passage" else None
        found.points[state.id] = IndexPoint(state.id, document_vector(text), fields, vectors or (), place)

    def _vectors(self, text: str, item: tuple[str, str]) -> Vectors | tuple[()] | None:
        try:
            return self._kept.of_item(text, item) if self._kept is not None else ()
        except VectorsUnusable:
            return None  # `Kept.problem` says why; the item is found by its words, and waits

    def _fields(self, view: View, state: State) -> dict[str, Value]:
        row = state.row
        recorded = _micros(state.recorded_at)
        fields: dict[str, Value] = {
            "space": view.space,
            "kind": row["kind"] if state.kind == "observation" else state.kind,
            "status": state.status,
            "recorded_at": recorded,
            "date": _micros(state.valid_from) if state.valid_from else recorded,
        }
        if state.invalidated_at is not None:
            fields["retired_at"] = _micros(state.invalidated_at)
        if state.valid_from is not None:
            fields["valid_from"] = _micros(state.valid_from)
        if state.valid_to is not None:
            fields["valid_to"] = _micros(state.valid_to)
        if state.kind == "passage":
            fields["session"] = row["session"]
            fields["tags"] = list(row.get("tags", ()))
            return fields
        owner = self._owner(view, state.id if state.kind == "entity" else row["entity"], state)
        if owner is not None:
            fields["entity_type"] = owner.entity_type
            if owner.domain is not None:
                fields["domain"] = owner.domain
        return fields

    def _owner(self, view: View, entity: str, state: State) -> _Owner | None:
        known = self._owners.get(entity)
        if known is None:
            owner = state if state.kind == "entity" else view.state(entity)
            if owner is None or owner.forgotten:
                return None
            if len(self._owners) >= _OWNERS:
                self._owners.clear()
            known = self._owners[entity] = _Owner(owner.value("entity_type"), owner.value("domain"))
        return known


def _micros(text: str) -> int:
    return to_micros(datetime.fromisoformat(text))


_OBSERVATION_KINDS = ("note", "decided", "because", "rejected", "touches")
_KINDS = {"entity", "passage", *_OBSERVATION_KINDS}  # all that is in the index


def filters_of(chosen: Selection) -> list[FieldFilter]:
    """Return the conditions that a selection means in the index.

    About the past, an entity's type and domain and the end of validity are not asked here: the index knows
    today's only.
    """
    kinds = [kind for kind in chosen.items if kind != "observation"]
    if "observation" in chosen.items:
        kinds += _OBSERVATION_KINDS
    filters = [FieldFilter("kind", any_of=tuple(kinds))] if set(kinds) < _KINDS else []
    if chosen.observation_kinds:
        filters.append(FieldFilter("kind", any_of=chosen.observation_kinds))
    if chosen.tags:
        filters.append(FieldFilter("tags", any_of=chosen.tags))
    if chosen.sessions:
        filters.append(FieldFilter("session", any_of=chosen.sessions))
    if chosen.since is not None:
        filters.append(FieldFilter("date", gte=_micros(chosen.since)))
    if chosen.until is not None:
        filters.append(FieldFilter("date", lt=_micros(chosen.until)))
    if chosen.valid_at is not None:
        filters.append(FieldFilter("valid_from", lt=_micros(chosen.valid_at) + 1, or_missing=True))
    if chosen.valid_at is not None and chosen.as_of is None:
        filters.append(FieldFilter("valid_to", gte=_micros(chosen.valid_at) + 1, or_missing=True))
    if chosen.as_of is not None:
        since = known_at(_micros(chosen.as_of))
        filters += since[:1] if set(chosen.statuses) - {"active"} else since
        return filters
    filters.append(FieldFilter("status", any_of=chosen.statuses))
    if chosen.entity_types:
        filters.append(FieldFilter("entity_type", any_of=chosen.entity_types))
    if chosen.domains:
        filters.append(FieldFilter("domain", any_of=chosen.domains))
    return filters
