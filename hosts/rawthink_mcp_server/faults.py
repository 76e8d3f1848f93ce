"""Errors in the words of the tools: what is wrong is named by the argument that was sent."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rawthink_core.errors import Fault, InvalidRequest, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_AT_PLACE = re.compile(r"^([a-z_]+(?:\.\w+)+): ", re.MULTILINE)
_FIELDS_HINT = re.compile(r"A record never changes it in passing; to change it, revise .*", re.DOTALL)
_LEAVE_OUT = (
    "Leave it out to keep what stands; `rawthink revise NAME --field FIELD=VALUE` (a command) changes it"
)


@contextmanager
def renamed(places: Mapping[str, str]) -> Iterator[None]:
    """Let errors of the core name arguments. ``places`` maps places of its request, or their beginnings."""
    try:
        yield
    except InvalidRequest as error:
        if type(error) is not InvalidRequest:
            raise
        faults = [
            Fault(_place(fault.where, places), _FIELDS_HINT.sub(_LEAVE_OUT, fault.problem))
            for fault in error.faults
        ]
        raise InvalidRequest(faults) from None
    except NotFound as error:
        raise NotFound(_AT_PLACE.sub(lambda found: f"{_place(found[1], places)}: ", str(error))) from None


def _place(where: str, places: Mapping[str, str]) -> str:
    """Return the argument for a place of the core's request: by the longest beginning that is known."""
    parts = where.split(".")
    for end in range(len(parts), 0, -1):
        if (found := places.get(".".join(parts[:end]))) is not None:
            return ".".join([found, *parts[end:]])
    return where


def between(name: str, value: int, least: int, most: int) -> int:
    """Return a number that was sent, if it is in bounds. Raises InvalidRequest."""
    if not least <= value <= most:
        raise InvalidRequest([Fault(name, f"must be from {least} to {most:,}")])
    return value


def filled(name: str, value: str) -> str:
    """Return a text that was sent, if there is something in it. Raises InvalidRequest."""
    if not value.strip():
        raise InvalidRequest([Fault(name, "must not be blank")])
    return value
