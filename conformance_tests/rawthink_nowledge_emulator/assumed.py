"""What nobody has seen a real server do: each guess by name, with the value used and the others possible.

A client must not depend on any of these. Run its tests with each one switched:
``Emulator(assume={name: value})``.
Sections are those of our notes on the API; Q numbers are their open questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Assumption:
    """One guess: where it is needed, and what else may be true."""

    section: str
    statement: str
    value: Any
    others: tuple[Any, ...]


ASSUMED: dict[str, Assumption] = {
    "constraint_form": Assumption(
        "6.5", "how 0.10 refuses a value out of range: a string detail in JSON, or text", "detail", ("text",)
    ),
    "bad_json_status": Assumption("6.6", "0.10's status for malformed JSON", 400, (422,)),
    "bad_type_status": Assumption("6.6", "0.10's status for a body that isn't declared as JSON", 415, (400,)),
    "unknown_unit_type": Assumption("2.1", "a unit type outside the closed set", "refused", ("fact",)),
    "event_datetime": Assumption(
        "6.8", "an ISO date-time as event date: dropped in silence, or cut to its date", "null", ("date",)
    ),
    "upsert_omitted": Assumption("Q2", "fields that an upsert omits", "reset", ("kept",)),
    "upsert_metadata": Assumption("Q2", "metadata of an upsert", "replaced", ("merged",)),
    "upsert_lifecycle": Assumption(
        "Q2", "whether an upsert brings a superseded or forgotten memory back", "kept", ("reset",)
    ),
    "upsert_other_space": Assumption(
        "1.3", "the space of an upsert that names another than the memory's", "kept", ("moved", "refused")
    ),
    "upsert_counts": Assumption(
        "6.28", "whether an upsert of a known id is refused at the limit", False, (True,)
    ),
    "superseded_in_list": Assumption("Q8", "superseded memories in GET /memories", "hidden", ("shown",)),
    "lifecycle_receipt": Assumption(
        "Q1", "the body of supersede, deprecate, archive and forget", "object", ("empty",)
    ),
    "supersede_unknown_status": Assumption("6.19", "supersede by an unknown memory", 404, (422,)),
    "reviewed_pair_status": Assumption("Q4", "status of reviewed_pair_protected", 409, (403, 422)),
    "forgotten_status": Assumption("6.20", "GET of a forgotten memory", 404, (410,)),
    "archived_in_history": Assumption("2.4", "archived memories with include_history", "hidden", ("shown",)),
    "relation_key": Assumption(
        "Q5", "when a relation is the same: by ends and type, or never", "ends and type", ("never",)
    ),
    "relation_name": Assumption("Q5", "the form of a relation's type", "snake", ("upper", "verbatim")),
    "unknown_thread_status": Assumption("6.24", "append to an unknown thread on 0.10", 400, (404,)),
    "append_replay": Assumption(
        "1.5", "a repeated append whose expected count is no longer true", "acknowledged", ("conflict",)
    ),
    "busy_status": Assumption("Q4", "status of the busy family of codes", 503, (429,)),
    "unknown_space_status": Assumption("6.32", "status of an unknown space", 404, (422,)),
    "unknown_space_write": Assumption(
        "6.32", "a memory written to an unknown space: refused, or kept as an orphan", "refused", ("orphan",)
    ),
    "blank_space": Assumption(
        "6.32", "a blank space id: refused, or a space of that name without memories", "refused", ("literal",)
    ),
    "omitted_space_by_id": Assumption(
        "1.3", "where an id is looked for without a space: in any, or in the default one", "any", ("default",)
    ),
    "shared_spaces": Assumption(
        "1.6", "whether search looks into what a space's retrieval mode shares", "applied", ("ignored",)
    ),
    "metadata_filter": Assumption(
        "Q7",
        "metadata filters on values that aren't strings: no match, or by their text",
        "strings",
        ("text",),
    ),
    "label_filter": Assumption("2.3", "a filter of several labels", "any", ("all",)),
    "search_has_more": Assumption("6.15", "has_more of GET search", "true", ("never",)),
    "deleted_in_index": Assumption(
        "6.16", "a deleted memory in a lagging index: left out, or a hit without memory", "dropped", ("null",)
    ),
    "missing_key_counts": Assumption(
        "6.27", "whether a missing key counts towards the block", False, (True,)
    ),
}


def assumptions(changed: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return every value in use; raise `ValueError` for an unknown name or a value that isn't listed."""
    values = {name: each.value for name, each in ASSUMED.items()}
    for name, value in (changed or {}).items():
        known = ASSUMED.get(name)
        if known is None:
            raise ValueError(f"no such assumption: {name!r}")
        if value not in (known.value, *known.others):
            raise ValueError(f"{name} is one of {(known.value, *known.others)}, not {value!r}")
        values[name] = value
    return values
