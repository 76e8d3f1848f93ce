"""From rows of a log to points of the search index: what each item is found by, and may be filtered by.

Most rows create an item that nothing else speaks of yet: its point comes from the row itself. Whatever is
less simple takes the item's state from the log, so the order in which rows are looked at does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rawthink_core.clock import to_micros
from rawthink_core.questions import key
from rawthink_core.rows import CREATES, State
from rawthink_core.selection import SEARCHABLE, text_of
from rawthink_core.text import document_vector

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rawthink_core.rows import Stamped
    from rawthink_lancedb.view import View

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(slots=True)
class Changes:
    """What some rows change in the index: the states of points to write, and ids that must not be in it."""

    states: dict[str, State] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)  # of these, what the index has never seen
    deletes: set[str] = field(default_factory=set)


def changes(view: View, rows: Iterable[Stamped]) -> Changes:
    """Return what rows of the log change."""
    found = Changes()
    again: set[str] = set()
    owners: set[str] = set()
    for stamped in rows:
        row, op = stamped.row, stamped.row["op"]
        item = row["id"]
        if op in SEARCHABLE and len(view.log.mentions(item)) == 1:
            at = row.get("at", stamped.at)
            found.states[item] = State(item, CREATES[op], row, at, valid_to=row.get("valid_to"))
            found.fresh.add(item)
        elif op in SEARCHABLE or op in ("retire", "forgotten", "field"):
            again.add(item)
        if op == "field" and row["field"] in ("entity_type", "domain"):
            owners.add(item)
    again.update(state.id for state in view.about(owners))
    return _afresh(view, again, found)


def states_again(view: View, items: Iterable[str]) -> Changes:
    """Return what items are now, whatever the index holds of them."""
    return _afresh(view, set(items), Changes())


def _afresh(view: View, items: set[str], found: Changes) -> Changes:
    states = view.load(items)
    for item in items:
        found.fresh.discard(item)
        found.states.pop(item, None)
        state = states.get(item)
        if state is None or state.forgotten:
            found.deletes.add(item)
        elif state.kind in SEARCHABLE:
            found.states[item] = state
    return found


def bodies(view: View, states: Iterable[State], applied: int) -> list[dict[str, Any]]:
    """Return the points of states, as rows of the index without vectors."""
    listed = list(states)
    wanted = {state.row["entity"] for state in listed if state.kind == "observation"}
    owners = view.load(wanted) if wanted else {}
    return [_body(view, state, owners.get(state.row.get("entity", "")), applied) for state in listed]


def _body(view: View, state: State, owner: State | None, applied: int) -> dict[str, Any]:
    row, text = state.row, text_of(state)
    ids, weights = document_vector(text)
    recorded = _micros(state.recorded_at)
    mentions = view.log.mentions(state.id)
    body: dict[str, Any] = {
        "point": state.id,
        "applied": applied,
        "created": mentions[0] if mentions else applied,
        "kind": row["kind"] if state.kind == "observation" else state.kind,
        "status": state.status,
        "recorded_at": recorded,
        "retired_at": _opt(state.invalidated_at),
        "date": _micros(state.valid_from) if state.valid_from else recorded,
        "valid_from": _opt(state.valid_from),
        "valid_to": _opt(state.valid_to),
        "tokens": tokens_of(ids),
        "terms": ids,
        "weights": weights,
        "said": text_key(text),
    }
    if state.kind == "passage":
        place = ("session", "ordinal", "speaker")
        return body | {name: row.get(name) for name in place} | {"tags": list(row.get("tags", ()))}
    entity = state if state.kind == "entity" else owner
    if entity is not None and not entity.forgotten:
        body |= {"entity_type": entity.value("entity_type"), "domain": entity.value("domain")}
    if state.kind == "entity" and state.versions:
        first = State(state.id, "entity", row, state.recorded_at)
        body["told"] = document_vector(text_of(first))[0]
    return body


def _micros(text: str) -> int:
    return to_micros(datetime.fromisoformat(text))


def _opt(text: str | None) -> int | None:
    return None if text is None else _micros(text)


def text_key(text: str) -> int:
    """Return a key for a text by which an item is found: what its vectors are looked up by."""
    return key("text", "", text)


def tokens_of(ids: Sequence[int]) -> str:
    """Return term ids as words: what the engine splits at spaces and counts."""
    return " ".join(map(token_of, ids))


def token_of(term: int) -> str:
    """Return a term id as a short word."""
    word = ""
    while True:
        term, digit = divmod(term, 62)
        word = _DIGITS[digit] + word
        if not term:
            return word
