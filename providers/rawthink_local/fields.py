"""What the search index holds of an item beside its terms, and the conditions that a search puts on it.

Plain values: this module knows no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Terms: TypeAlias = "tuple[Sequence[int], Sequence[float]]"
Value: TypeAlias = "str | int | list[str]"
Vectors: TypeAlias = "Sequence[Sequence[float]]"
Seat: TypeAlias = "tuple[str, int, str | None]"  # session, ordinal, speaker
Match: TypeAlias = "tuple[str, float, Seat | None]"  # id, score, and where a passage stands

#: What a point may carry and a filter may name.
KEYWORDS: Final = ("space", "kind", "status", "entity_type", "domain", "tags", "session", "vector")
INTEGERS: Final = ("date", "recorded_at", "retired_at", "valid_from", "valid_to")
ACTIVE: Final = "active"


class IndexPoint(NamedTuple):
    """One searchable item: a UUID in canonical form, distinct term ids with their weights, filter fields.

    ``vectors`` are those of its windows, of unit length; none where they are still to come, or not wanted.
    ``place`` is where a passage stands, and who speaks in it.
    """

    id: str
    terms: Terms
    fields: Mapping[str, Value]
    vectors: Vectors = ()
    place: Seat | None = None


class FieldFilter(NamedTuple):
    """A condition on one field; all conditions of a search must hold.

    Words match ``any_of`` (a list, such as tags, by any of its items; no words match nothing); integers match
    ``gte`` ≤ value < ``lt``, exactly within ±2**53, and with ``or_missing`` where a point has no such field.
    """

    field: str
    any_of: tuple[str, ...] | None = None
    gte: int | None = None
    lt: int | None = None
    or_missing: bool = False


def known_at(micros: int) -> tuple[FieldFilter, FieldFilter]:
    """Return the conditions for what was recorded by ``micros`` and not yet retired then."""
    retired_later = FieldFilter("retired_at", gte=micros + 1, or_missing=True)
    return FieldFilter("recorded_at", lt=micros + 1), retired_later


def check_fields(fields: Iterable[str]) -> None:
    """Refuse a field that the index does not have. Raises ValueError."""
    for field in fields:
        if field not in KEYWORDS and field not in INTEGERS:
            raise ValueError(f"{field!r} is not a field of the index: {', '.join((*KEYWORDS, *INTEGERS))}")


def facets(fields: Mapping[str, Value]) -> list[str]:
    """Return the words of a point as ``field=word``: all of them are one field of the engine."""
    found = []
    for field in KEYWORDS:
        value = fields.get(field, [])
        found += [f"{field}={word}" for word in (value if isinstance(value, list) else [value])]
    if fields.get("status") == ACTIVE:
        found.append(alive(fields.get("space", "")))
    return found


def alive(space: object) -> str:
    """Return the word for what is active in a space: nearly all searches ask for it; two words cost twice."""
    return f"alive={space}"
