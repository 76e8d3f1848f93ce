"""What a selection means as a condition on the columns of the search index."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from rawthink_core.clock import to_micros
from rawthink_lancedb import sql

if TYPE_CHECKING:
    from rawthink_core.selection import Selection

_OBSERVATION_KINDS = ("note", "decided", "because", "rejected", "touches")
_KINDS = {"entity", "passage", *_OBSERVATION_KINDS}  # all that is in the index


ACTIVE: Final = sql.all_of([sql.one_of("status", ["active"])])  # what most searches ask for
RETIRED: Final = f"NOT ({ACTIVE})"


def condition(chosen: Selection) -> str:
    """Return the condition that a selection means in the index, as far as columns can tell.

    About the past, an entity's type and domain and the end of validity are not asked here: the index knows
    today's only. Whoever asks looks at the states of what comes back.
    """
    conditions = [*_what(chosen), *_when(chosen)]
    if chosen.as_of is not None:
        moment = _micros(chosen.as_of)
        conditions.append(sql.below("recorded_at", moment + 1))
        if not set(chosen.statuses) - {"active"}:
            conditions.append(sql.or_missing("retired_at", sql.at_least("retired_at", moment + 1)))
        return sql.all_of(conditions)
    conditions.append(sql.one_of("status", chosen.statuses))
    if chosen.entity_types:
        conditions.append(sql.one_of("entity_type", chosen.entity_types))
    if chosen.domains:
        conditions.append(sql.one_of("domain", chosen.domains))
    return sql.all_of(conditions)


def _what(chosen: Selection) -> list[str]:
    kinds = [kind for kind in chosen.items if kind != "observation"]
    if "observation" in chosen.items:
        kinds += _OBSERVATION_KINDS
    found = [sql.one_of("kind", kinds)] if set(kinds) < _KINDS else []
    if chosen.observation_kinds:
        found.append(sql.one_of("kind", chosen.observation_kinds))
    if chosen.tags:
        found.append(sql.any_in_list("tags", chosen.tags))
    if chosen.sessions:
        found.append(sql.one_of("session", chosen.sessions))
    return found


def _when(chosen: Selection) -> list[str]:
    found = []
    if chosen.since is not None:
        found.append(sql.at_least("date", _micros(chosen.since)))
    if chosen.until is not None:
        found.append(sql.below("date", _micros(chosen.until)))
    if chosen.valid_at is not None:
        moment = _micros(chosen.valid_at)
        found.append(sql.or_missing("valid_from", sql.below("valid_from", moment + 1)))
        if chosen.as_of is None:
            found.append(sql.or_missing("valid_to", sql.at_least("valid_to", moment + 1)))
    return found


def _micros(text: str) -> int:
    return to_micros(datetime.fromisoformat(text))
