"""What nobody has seen a real server do: each guess by name, with the value used and the others possible.

A client must not depend on any of these. Run its tests with each one switched:
``Emulator(assume={name: value})``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Assumption:
    """One guess: the part of the API that it is about, and what else may be true."""

    area: str
    statement: str
    value: Any
    others: tuple[Any, ...]


ASSUMED: dict[str, Assumption] = {
    "constraint_form": Assumption(
        "refusals",
        "how 0.10 refuses a value out of range: a string detail in JSON, or text",
        "detail",
        ("text",),
    ),
    "bad_json_status": Assumption("refusals", "0.10's status for malformed JSON", 400, (422,)),
    "bad_type_status": Assumption(
        "refusals", "0.10's status for a body that isn't declared as JSON", 415, (400,)
    ),
    "unknown_unit_type": Assumption("writing", "a unit type outside the closed set", "refused", ("fact",)),
    "event_datetime": Assumption(
        "writing", "an ISO date-time as event date: dropped in silence, or cut to its date", "null", ("date",)
    ),
    "upsert_omitted": Assumption("writing", "fields that an upsert omits", "reset", ("kept",)),
    "upsert_metadata": Assumption("writing", "metadata of an upsert", "replaced", ("merged",)),
    "upsert_lifecycle": Assumption(
        "writing", "whether an upsert brings a superseded or forgotten memory back", "kept", ("reset",)
    ),
    "upsert_other_space": Assumption(
        "spaces", "the space of an upsert that names another than the memory's", "kept", ("moved", "refused")
    ),
    "upsert_counts": Assumption(
        "writing", "whether an upsert of a known id is refused at the limit", False, (True,)
    ),
    "superseded_in_list": Assumption(
        "lifecycle", "superseded memories in GET /memories", "hidden", ("shown",)
    ),
    "lifecycle_receipt": Assumption(
        "lifecycle", "the body of supersede, deprecate, archive and forget", "object", ("empty",)
    ),
    "supersede_unknown_status": Assumption("lifecycle", "supersede by an unknown memory", 404, (422,)),
    "reviewed_pair_status": Assumption("lifecycle", "status of reviewed_pair_protected", 409, (403, 422)),
    "forgotten_status": Assumption("lifecycle", "GET of a forgotten memory", 404, (410,)),
    "archived_in_history": Assumption(
        "lifecycle", "archived memories with include_history", "hidden", ("shown",)
    ),
    "relation_key": Assumption(
        "relations", "when a relation is the same: by ends and type, or never", "ends and type", ("never",)
    ),
    "relation_name": Assumption("relations", "the form of a relation's type", "snake", ("upper", "verbatim")),
    "unknown_thread_status": Assumption("threads", "append to an unknown thread on 0.10", 400, (404,)),
    "append_replay": Assumption(
        "threads", "a repeated append whose expected count is no longer true", "acknowledged", ("conflict",)
    ),
    "busy_status": Assumption("refusals", "status of the busy family of codes", 503, (429,)),
    "unknown_space_status": Assumption("spaces", "status of an unknown space", 404, (422,)),
    "unknown_space_write": Assumption(
        "spaces",
        "a memory written to an unknown space: refused, or kept as an orphan",
        "refused",
        ("orphan",),
    ),
    "blank_space": Assumption(
        "spaces",
        "a blank space id: refused, or a space of that name without memories",
        "refused",
        ("literal",),
    ),
    "omitted_space_by_id": Assumption(
        "spaces",
        "where an id is looked for without a space: in any, or in the default one",
        "any",
        ("default",),
    ),
    "shared_spaces": Assumption(
        "spaces", "whether search looks into what a space's retrieval mode shares", "applied", ("ignored",)
    ),
    "metadata_filter": Assumption(
        "searching",
        "metadata filters on values that aren't strings: no match, or by their text",
        "strings",
        ("text",),
    ),
    "label_filter": Assumption("searching", "a filter of several labels", "any", ("all",)),
    "search_has_more": Assumption("searching", "has_more of GET search", "true", ("never",)),
    "deleted_in_index": Assumption(
        "searching",
        "a deleted memory in a lagging index: left out, or a hit without memory",
        "dropped",
        ("null",),
    ),
    "missing_key_counts": Assumption(
        "access", "whether a missing key counts towards the block", False, (True,)
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
