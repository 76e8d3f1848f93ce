"""The frame of every request and answer: closed models, the scope, and faults that name their place.

An unknown argument or a wrong type is a fault, and `parse` turns all faults of a request into one
`InvalidRequest`. Times and words may be given as people write them; providers call ``canonical`` first and
then see aware UTC times, and words of the vocabulary, only.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rawthink_core.errors import Fault, InvalidRequest
from rawthink_core.model import Text, instant, moment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zoneinfo import ZoneInfo

    from rawthink_core.model import Rules

MAX_ITEMS = 1_000
MAX_BYTES = 16 * 1024 * 1024
MAX_LIMIT = 100
MAX_SCAN = 1_000


class Request(BaseModel):
    """Base of what callers send: immutable and closed. Built at its first use, not at start-up."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def canonical(self, rules: Rules) -> Self:
        """Return this request as a store takes it: times in UTC, words as the vocabulary has them.

        Raises InvalidRequest with every word that is outside the vocabulary.
        """
        return self.in_zone(rules.zone)

    def in_zone(self, zone: ZoneInfo) -> Self:
        """Return this request with every point in time made an aware UTC instant."""
        changed = {
            name: instant(value, zone) if name in _INSTANTS else moment(value, zone, end_of_day=name in _ENDS)
            for name in (*_INSTANTS, *_STARTS, *_ENDS)
            if isinstance(value := getattr(self, name, None), date)
        }
        return self.model_copy(update=changed) if changed else self


_INSTANTS = ("as_of", "valid_at")
_STARTS = ("since", "effective", "valid_from")
_ENDS = ("until", "valid_to")


class Answer(BaseModel):
    """Base of what comes back: immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


R = TypeVar("R", bound=Request)


def parse(kind: type[R], data: Mapping[str, Any]) -> R:
    """Build a request from plain data. Raises InvalidRequest with every fault and where it stands."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise InvalidRequest(faults_of(error)) from None


def faults_of(error: ValidationError) -> list[Fault]:
    """Return the faults of a pydantic error as sentences for people, without echoing the input."""
    return [
        Fault(
            ".".join(str(part) for part in fault["loc"]),
            _SENTENCES.get(fault["type"], fault["msg"]).removeprefix("Value error, "),
        )
        for fault in error.errors(include_url=False, include_input=False)
    ]


_SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "is not an argument of this operation",
    "string_type": "must be a text",
    "string_unicode": "must be whole Unicode characters",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
}


class Scope(Request):
    """Which memory an operation works in: an opaque string, matched by exact equality and never widened."""

    space: Text = Field(min_length=1)


class Scoped(Request):
    """A request, and the space it works in."""

    scope: Scope
