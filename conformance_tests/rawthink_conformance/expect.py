"""What a check says when a promise is broken: few words, with what was seen and what was promised.

Plain ``assert`` would vanish under ``python -O`` and explain nothing outside pytest.
"""

from __future__ import annotations

from os.path import commonprefix
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Iterable

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
_SHOWN = 600


class Broken(AssertionError):  # noqa: N818 - says what happened to a promise
    """A promise of the contract was not kept. ``script`` shows it, where one was written."""

    script = ""


def equal(seen: object, promised: object, what: str) -> None:
    """Require that what was seen is what was promised."""
    if seen != promised:
        where, seen, promised = _first_difference(seen, promised)
        raise Broken("{}{}: seen {}, promised {}".format(what, where, *_apart(repr(seen), repr(promised))))


def differ(one: object, other: object, what: str) -> None:
    """Require that two things are not the same."""
    if one == other:
        raise Broken(f"{what}: both are {_short(one)}")


def true(condition: object, what: str) -> None:
    """Require a condition."""
    if not condition:
        raise Broken(what)


def contains(whole: Collection[object], part: object, what: str) -> None:
    """Require that something is among others."""
    if part not in whole:
        raise Broken(f"{what}: {_short(part)} is not among {_short(whole)}")


def lacks(whole: Collection[object], part: object, what: str) -> None:
    """Require that something is not among others."""
    if part in whole:
        raise Broken(f"{what}: {_short(part)} is among {_short(whole)}")


def only(items: Iterable[T], what: str) -> T:
    """Require that there is exactly one item, and return it."""
    found = list(items)
    if len(found) != 1:
        raise Broken(f"{what}: one is promised, seen {_short(found)}")
    return found[0]


async def refused(kind: type[E], call: Awaitable[object], what: str, *words: str) -> E:
    """Require that a call raises ``kind`` with all of ``words`` in its message; return the error."""
    try:
        answer = await call
    except kind as error:
        if missing := [word for word in words if word not in str(error)]:
            raise Broken(f"{what}: the refusal does not say {missing}: {error}") from error
        return error
    raise Broken(f"{what}: was not refused with {kind.__name__} but answered {_short(answer)}")


def _apart(one: str, other: str) -> tuple[str, str]:
    """Return what is shown of two texts that differ: of long ones, the part where they begin to."""
    if max(len(one), len(other)) <= _SHOWN:
        return one, other
    begin = max(0, len(commonprefix((one, other))) - _SHOWN // 4)  # noqa: RUF071 - texts, not paths
    return _part(one, begin), _part(other, begin)


def _part(text: str, begin: int) -> str:
    before, after = "…" if begin else "", "…" if begin + _SHOWN < len(text) else ""
    return f"{before}{text[begin : begin + _SHOWN]}{after} ({len(text)} characters)"


def _first_difference(seen: object, promised: object, where: str = "") -> tuple[str, object, object]:
    """Go down two long answers in plain data to the first thing in which they differ."""
    if isinstance(seen, dict) and isinstance(promised, dict) and seen.keys() == promised.keys():
        for key in seen:
            if seen[key] != promised[key]:
                return _first_difference(seen[key], promised[key], f"{where}, {key}")
    long = len(repr(seen)) > _SHOWN or len(repr(promised)) > _SHOWN
    if long and isinstance(seen, list) and isinstance(promised, list):
        for place, (one, other) in enumerate(zip(seen, promised, strict=False)):
            if one != other:
                return _first_difference(one, other, f"{where}, item {place}")
        return f"{where}, number of items", len(seen), len(promised)
    return where, seen, promised


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
