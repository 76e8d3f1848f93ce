"""Bodies and query strings against tables of fields, refused in either generation's words.

Unknown fields are ignored, as both servers do: that is how a filter with the wrong name becomes no filter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from rawthink_nowledge_emulator.refusals import Refusal, TextRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind = Literal["string", "number", "integer", "boolean", "array", "object", "any"]

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "any": (object,),
}
# How each side names what it wanted.
PYDANTIC = {
    "string": "string",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "array": "list",
    "object": "dictionary",
}
SERDE = {
    "string": "a string",
    "number": "f64",
    "integer": "u64",
    "boolean": "a boolean",
    "array": "a sequence",
    "object": "a map",
}


# When serde finds what: a wrong type while it reads, what is missing at the end, a wrong value after that.
FOUND = ("type", "missing", "value")


@dataclass(frozen=True)
class Field:
    """One field of a body or of a query. ``null`` counts as left out."""

    name: str
    kind: Kind = "string"
    required: bool = False
    default: Any = None
    least: float | None = None
    most: float | None = None
    shortest: int | None = None
    longest: int | None = None
    choices: tuple[str, ...] = ()
    many: bool = False  # of a query: may be said more than once
    items: tuple[Field, ...] = ()  # of an array: what its objects hold


@dataclass(frozen=True)
class Fault:
    """What is wrong with one field: ``missing``, ``type`` or ``value``."""

    place: tuple[str | int, ...]
    what: Literal["missing", "type", "value"]
    message: str  # as pydantic says it
    kind: str  # pydantic's name of the error
    plain: str  # as the Rust server says it


def check(
    fields: Sequence[Field], values: Mapping[str, Any], place: tuple[str | int, ...]
) -> tuple[dict[str, Any], list[Fault]]:
    """Return the values of all ``fields``, defaults filled in, and every fault."""
    checked: dict[str, Any] = {}
    faults: list[Fault] = []
    for field in fields:
        value = values.get(field.name)
        if value is None:
            checked[field.name] = field.default
            if field.required:
                plain = f"missing field `{field.name}`"
                faults.append(Fault((*place, field.name), "missing", "Field required", "missing", plain))
            continue
        checked[field.name] = value
        faults += _faults(field, value, (*place, field.name))
    return checked, faults


def _faults(field: Field, value: Any, place: tuple[str | int, ...]) -> list[Fault]:
    if not isinstance(value, TYPES[field.kind]) or (
        isinstance(value, bool) and field.kind in ("number", "integer")
    ):
        message = f"Input should be a valid {PYDANTIC[field.kind]}"
        plain = f"{field.name}: invalid type: {_called(value)}, expected {SERDE[field.kind]}"
        return [Fault(place, "type", message, f"{PYDANTIC[field.kind]}_type", plain)]
    if isinstance(value, str) and field.choices and value not in field.choices:
        return [_value(field, place, f"Input should be {' or '.join(map(repr, field.choices))}", "enum")]
    if isinstance(value, str) and (fault := _length(field, value, place)):
        return [fault]
    if isinstance(value, int | float) and (fault := _range(field, value, place)):
        return [fault]
    found: list[Fault] = []
    if isinstance(value, list) and field.items:
        for number, item in enumerate(value):
            if isinstance(item, dict):
                found += check(field.items, item, (*place, number))[1]
            else:
                found += _faults(Field(field.name, "object"), item, (*place, number))
    return found


def _called(value: Any) -> str:
    """Return how serde names a value of the wrong type."""
    if isinstance(value, list):
        return "sequence"
    if isinstance(value, dict):
        return "map"
    names = {bool: "boolean", int: "integer", float: "floating point", str: "string"}
    shown = json.dumps(value, ensure_ascii=False)
    return f"{names[type(value)]} {shown if isinstance(value, str) else f'`{shown}`'}"


def _value(field: Field, place: tuple[str | int, ...], message: str, kind: str, plain: str = "") -> Fault:
    return Fault(place, "value", message, kind, plain or f"{field.name}: {message}")


def _length(field: Field, value: str, place: tuple[str | int, ...]) -> Fault | None:
    if field.longest is not None and len(value) > field.longest:
        plain = f"{field.name} must be at most {field.longest} characters"
        return _value(
            field, place, f"String should have at most {field.longest} characters", "string_too_long", plain
        )
    if field.shortest is not None and len(value) < field.shortest:
        plain = f"{field.name} must be at least {field.shortest} characters"
        return _value(
            field, place, f"String should have at least {field.shortest} character", "string_too_short", plain
        )
    return None


def _range(field: Field, value: float, place: tuple[str | int, ...]) -> Fault | None:
    inside = (field.least is None or value >= field.least) and (field.most is None or value <= field.most)
    if inside:
        return None
    low = field.least is not None and value < field.least
    bound, kind = (field.least, "greater_than_equal") if low else (field.most, "less_than_equal")
    message = f"Input should be {kind.replace('_', ' ').replace('equal', 'or equal to')} {bound:g}"
    return _value(field, place, message, kind, range_sentence(field))


def range_sentence(field: Field) -> str:
    """Return the sentence for a value out of range."""
    if field.least is None or field.most is None:
        return f"{field.name} must be at least {field.least}"
    return f"{field.name} must be between {field.least} and {field.most}"


def read_query(
    fields: Sequence[Field], pairs: Sequence[tuple[str, str]]
) -> tuple[dict[str, Any], list[Fault]]:
    """Return the values of a query string, of the types their fields say; the last of several counts."""
    values: dict[str, Any] = {}
    for field in fields:
        said = [value for name, value in pairs if name == field.name]
        if field.many:
            values[field.name] = said
        elif said:
            values[field.name] = _converted(field, said[-1])
    return check([replace(f, kind="array", default=[]) if f.many else f for f in fields], values, ("query",))


def _converted(field: Field, text: str) -> Any:
    """Return a query's text as its field's type; the text itself where it is none, for `check` to refuse."""
    try:
        if field.kind == "integer":
            return int(text)
        if field.kind == "number":
            return float(text)
    except ValueError:
        return text
    if field.kind == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    return text


def refuse(faults: list[Fault], body: bytes, form: Literal["json", "text"], constraint: str) -> Refusal:
    """Return the 422 for ``faults``: all of them (Python), or the first one (Rust).

    ``constraint`` is how the Rust server refuses values out of range: ``detail`` or ``text``.
    """
    if form == "json":
        return Refusal(422, [{"loc": list(f.place), "msg": f.message, "type": f.kind} for f in faults])
    first = min(faults, key=lambda fault: FOUND.index(fault.what))
    if first.what == "value" and constraint == "detail":
        return Refusal(422, first.plain)
    if first.place[0] == "query":
        return TextRefusal(422, f"Failed to deserialize query string: {first.plain}")
    lines = body.split(b"\n")
    where = f"at line {len(lines)} column {len(lines[-1])}"
    return TextRefusal(
        422, f"Failed to deserialize the JSON body into the target type: {first.plain} {where}"
    )
