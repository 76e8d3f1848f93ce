"""The nouns of a memory, and how time and text are normalised on their way in.

`Entity`, `Observation`, `Relation` and `Passage` are what a memory holds; `Hit` is what a search
finds. All are immutable values with aware UTC times. Nothing here touches a store.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator

from rawthink_core.clock import EPOCH
from rawthink_core.errors import ConfigError, InvalidRequest
from rawthink_core.text import surrogate_at
from rawthink_core.vocabulary import (
    OBSERVATION_KINDS,
    STATUSES,
    Epistemic,
    ObservationKind,
    Status,
    Visibility,
    known_word,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rawthink_core.vocabulary import Vocabulary

ItemKind = Literal["entity", "observation", "relation", "passage"]

# --- text and time ------------------------------------------------------------------------------

MAX_INT = 2**53 - 1  # what every JSON reader takes for the same number
MILLISECONDS_FROM = 1e11  # a number this large is milliseconds: as seconds it would be the year 5138


def _refuse_surrogates(text: object) -> object:
    if isinstance(text, str) and (at := surrogate_at(text)) is not None:
        raise ValueError(
            f"a lone surrogate at character {at}: half of a character was cut off; resend the text"
        )
    return text


def parse_time(value: object) -> datetime | date:
    """Turn what people write into a `datetime` or a `date`. Raises ValueError.

    Text is ISO 8601; a bare date stays a date. A number is epoch seconds below 1e11, else
    milliseconds. Naive values stay naive until `moment` places them in the store's zone.
    """
    if isinstance(value, date):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return EPOCH + timedelta(seconds=value / 1000 if abs(value) >= MILLISECONDS_FROM else value)
        except (OverflowError, ValueError):
            raise ValueError("this number is no time that a calendar knows") from None
    if isinstance(value, str):
        return _parse_iso(value.strip())
    raise ValueError("a time is an ISO 8601 text or a number of seconds")


def _parse_iso(text: str) -> datetime | date:
    for form in (date, datetime):  # a date first: `datetime` would read 20250115 as its midnight
        with contextlib.suppress(ValueError):
            return form.fromisoformat(text)
    raise ValueError(f"{text[:40]!r} is not ISO 8601; write 2025-01-15 or 2025-01-15T09:30:00+08:00")


Text = Annotated[str, BeforeValidator(_refuse_surrogates)]
"""Any Unicode text, kept verbatim; a lone surrogate is refused."""


def _written(value: date) -> str:
    return value.isoformat().replace("+00:00", "Z")


When = Annotated[
    datetime | date, PlainValidator(parse_time), PlainSerializer(_written, return_type=str, when_used="json")
]
"""A time as people write it: `moment` makes it an instant."""


def _one_of(what: str, allowed: Collection[str]) -> BeforeValidator:
    """Return a validator that folds a word into a closed list, or says what is allowed and what is near."""

    def folded(word: object) -> object:
        if not isinstance(word, str):
            return word
        if (known := known_word(word, allowed)) is None:
            raise ValueError(unknown(what, word, allowed))
        return known

    return BeforeValidator(folded)


StatusWord = Annotated[Status, _one_of("status", STATUSES)]
"""A status to filter by, as people write it."""

KindWord = Annotated[ObservationKind, _one_of("observation kind", OBSERVATION_KINDS)]
"""A kind of observation to filter by, as people write it."""


def moment(value: datetime | date, zone: ZoneInfo, *, end_of_day: bool = False) -> datetime:
    """Return the UTC instant that ``value`` means in ``zone``.

    A date is its whole day: its first instant, or with ``end_of_day`` the first instant of the day
    after it (the open end of a half-open interval). Raises InvalidRequest outside the calendar.
    """
    try:
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=zone)).astimezone(UTC)
        day = value + timedelta(days=1) if end_of_day else value
        return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)
    except OverflowError:
        raise InvalidRequest(f"{value.isoformat()} lies outside the years 1 to 9999 in UTC") from None


def instant(value: datetime | date, zone: ZoneInfo) -> datetime:
    """Return the single instant that a question about ``value`` asks for; for a date, its last one."""
    if isinstance(value, datetime):
        return moment(value, zone)
    return moment(value, zone, end_of_day=True) - timedelta(microseconds=1)


def zone_named(name: str) -> ZoneInfo:
    """Return the time zone called ``name`` (an IANA name). Raises ConfigError when there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"timezone {name!r} is not an IANA zone name such as Europe/Istanbul or Asia/Shanghai"
        ) from None


@dataclass(frozen=True, slots=True)
class Rules:
    """What a store judges by: its vocabulary, and the zone of naive times."""

    vocabulary: Vocabulary
    zone: ZoneInfo


# --- nouns --------------------------------------------------------------------------------------


class Noun(BaseModel):
    """Base of the values that a memory holds: immutable, closed, times in UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Provenance(Noun):
    """Who said so. All but ``host`` and ``token`` are claims of the client, and stored as such."""

    host: Text | None = None
    token: Text | None = None
    client: Text | None = None
    session: Text | None = None
    time: When | None = None


class Origin(Noun):
    """The file that is the truth of a passage, and where in it the passage starts."""

    path: Text
    sha256: Text | None = None
    line: int | None = Field(default=None, ge=1, le=MAX_INT)


class FieldVersion(Noun):
    """One value that a field of an entity has had. ``n`` counts from 1."""

    field: str
    n: int
    value: Any
    recorded_at: datetime
    invalidated_at: datetime | None = None
    reason: str | None = None


class Entity(Noun):
    """Something that memories are about. Answers to its name, its aliases and its former names."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    entity_type: str = "thing"
    domain: str | None = None
    epistemic: Epistemic = "unknown"
    visibility: Visibility = "private"
    original_type: str | None = None
    reconstructed: bool = False
    pinned: bool = False
    recorded_at: datetime
    versions: tuple[FieldVersion, ...] = ()
    provenance: Provenance | None = None


class _Dated(Noun):
    """What observations, relations and passages have in common: a life in two times."""

    id: str
    status: Status = "active"
    recorded_at: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    invalidated_at: datetime | None = None
    superseded_by: str | None = None
    supersedes: tuple[str, ...] = ()
    reason: str | None = None
    provenance: Provenance | None = None


class Observation(_Dated):
    """One thing said about an entity, dated and never overwritten.

    ``invalidated_at`` is when it was retired in transaction time, whatever the cause;
    ``valid_from`` and ``valid_to`` say when it held (half-open).
    """

    entity: str
    entity_name: str
    text: str
    kind: ObservationKind = "note"


class Relation(_Dated):
    """A directed, typed link between two entities (given by id, with their names for reading)."""

    source: str
    type: str
    target: str
    source_name: str
    target_name: str
    original_type: str | None = None


class Passage(_Dated):
    """Text that is not a claim: a chat turn, a note, a section of a session."""

    text: str
    session: str
    ordinal: int
    key: str
    speaker: str | None = None
    tags: tuple[str, ...] = ()
    visibility: Visibility = "private"
    origin: Origin | None = None


Item = Entity | Observation | Relation | Passage


def kind_of(item: Item) -> ItemKind:
    """Return which of the four nouns this is."""
    return _KINDS[type(item)]


_KINDS: Mapping[type[Noun], ItemKind] = {
    Entity: "entity",
    Observation: "observation",
    Relation: "relation",
    Passage: "passage",
}


class Why(Noun):
    """How a hit came to its place: its rank and raw score in each list, and what each step made of them.

    The score is (``fused`` + ``neighbours`` + ``speaker``) × ``decay``.
    """

    lexical_rank: int | None = None
    lexical_score: float | None = None  # of the engine, in a unit of its own
    dense_rank: int | None = None
    dense_score: float | None = None  # the cosine
    fused: float
    neighbours: float = 0.0
    speaker: float = 0.0
    decay: float = 1.0


class Hit(Noun):
    """One thing that a search found. ``score`` is 0..1 and comparable within one answer only."""

    item: Literal["entity", "observation", "passage"]
    id: str
    kind: ObservationKind | None = None
    text: str
    score: float
    entity: str | None = None
    entity_name: str | None = None
    session: str | None = None
    speaker: str | None = None
    tags: tuple[str, ...] = ()
    status: Status = "active"
    recorded_at: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    lapsed: bool = False
    superseded_by: str | None = None
    successor: str | None = None
    reason: str | None = None
    why: Why | None = None

    @property
    def date(self) -> datetime:
        """The time that this hit is about: ``valid_from``, else ``recorded_at``."""
        return self.valid_from or self.recorded_at
