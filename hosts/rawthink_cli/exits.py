"""Exit codes, and how an error of the core becomes one of them, in the words of the command line.

Imports nothing of the core until an error has happened.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

OK, FAILED, REFUSED, NOTHING, CONFLICT, PARTIAL = range(6)
BUG, INTERRUPTED, PIPE_CLOSED = 70, 130, 141

MEANINGS = {
    OK: "done",
    FAILED: "the store or its backend failed; never an empty answer",
    REFUSED: "the command, a setting or the request is wrong; nothing was written",
    NOTHING: "nothing was found, or nothing of that name or id is in this space",
    CONFLICT: "the memory has moved on: already revised, or a batch id used for something else",
    PARTIAL: "done or answered in part only; what is missing is said",
    BUG: "a fault of rawthink itself",
    INTERRUPTED: "stopped with Ctrl-C",
    PIPE_CLOSED: "the reader of the output went away (as with `| head`)",
}

_FIELDS_HINT = re.compile(r"to change it, revise the entity with fields \{(\w+): '([^']*)'\}")
_AT_PLACE = re.compile(r"^([a-z_]+(?:\.\w+)+): ")


def code_of(error: Exception) -> int:
    """Return the exit code of an error of the core."""
    from rawthink_core import errors  # noqa: PLC0415 - only a failure needs it

    match error:
        case errors.BatchIdReused() | errors.AlreadyRevised():
            return CONFLICT
        case errors.NotFound():
            return NOTHING
        case errors.BackendError() | errors.StoreTooNew():
            return FAILED
        case _:
            return REFUSED


def is_ours(error: BaseException) -> bool:
    """Tell whether an error was raised on purpose, with a message for its reader."""
    from rawthink_core.errors import RawThinkError  # noqa: PLC0415 - only a failure needs it

    return isinstance(error, RawThinkError)


def explain(error: Exception, places: Mapping[str, str]) -> tuple[str, list[dict[str, str]]]:
    """Return an error's sentence, and its faults, in the words of the command line.

    ``places`` maps places of the request (``entities.0.domain``) to what was typed there (``--domain``).
    """
    from rawthink_core.errors import InvalidRequest  # noqa: PLC0415 - only a failure needs it

    if not isinstance(error, InvalidRequest):
        return _AT_PLACE.sub(lambda found: f"{_place(found[1], places)}: ", str(error)), []
    faults = [
        {"where": _place(fault.where, places), "problem": _FIELDS_HINT.sub(_as_command, fault.problem)}
        for fault in error.faults
    ]
    if type(error) is not InvalidRequest:
        return str(error), faults
    lines = [
        f"{fault['where']}: {fault['problem']}" if fault["where"] else fault["problem"] for fault in faults
    ]
    if len(lines) == 1:
        return lines[0], faults
    return f"{len(lines)} faults, nothing was written:" + "".join(f"\n  - {line}" for line in lines), faults


def _place(where: str, places: Mapping[str, str]) -> str:
    if where in places:
        return places[where]
    for pattern, option in places.items():
        if "*" in pattern and re.fullmatch(re.escape(pattern).replace(r"\*", "[^.]+"), where):
            return option
    last = re.sub(r"\.\d+$", "", where)
    return f"--{last.replace('_', '-')}" if re.fullmatch(r"[a-z]+(_[a-z]+)*", last) and places else where


def _as_command(found: re.Match[str]) -> str:
    return f"to change it: rawthink revise NAME --field {found[1]}={found[2]}"
