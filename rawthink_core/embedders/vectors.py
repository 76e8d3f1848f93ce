"""What a server answered, made into vectors: of length 1, one a text, never paired with another's text.

A model may fail on one text (null, NaN, zeros) without an error; a server may return fewer vectors than
texts, or in another order. The first is one text's fault, the second makes the whole answer worthless.
"""

from __future__ import annotations

import base64
import binascii
import math
import sys
from array import array
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rawthink_core.errors import BackendProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FLOAT_BYTES: Final = 4
_TINY: Final = 1e-9  # a vector shorter than this has no direction
_NUMBERS: Final = ({float}, {int}, {float, int})


class Answer(NamedTuple):
    """Vectors and failures of one request, by position; each position is in one of them."""

    vectors: dict[int, list[float]]
    failed: dict[int, str]


def checked(raw: object, count: int, dimensions: int) -> Answer:
    """Return what a server sent for ``count`` texts; ``dimensions`` 0 takes any size, the same for all.

    Raises BackendProtocolError when vectors and texts can't be paired, or vectors are no lists of numbers.
    """
    if not isinstance(raw, list):
        raise BackendProtocolError(f"the embedder sent {_kind(raw)} where a list of vectors belongs")
    if len(raw) != count:
        raise BackendProtocolError(
            f"the embedder sent {len(raw)} vectors for {count} texts; none is used, none could be told apart"
        )
    answer = Answer({}, {})
    for position, one in enumerate(raw):
        values = _floats(one)
        if not values or None in values:
            answer.failed[position] = "the model gave no vector"
            continue
        if set(map(type, values)) not in _NUMBERS:
            raise BackendProtocolError("the embedder sent a vector that is not made of numbers")
        if dimensions and len(values) != dimensions:
            raise BackendProtocolError(
                f"the embedder sent a vector of {len(values)} numbers, not of {dimensions}: has its model "
                "changed? Open the memory anew"
            )
        dimensions = len(values)
        try:
            answer.vectors[position] = unit(values)
        except ValueError as error:
            answer.failed[position] = str(error)
    return answer


def unit(values: Sequence[float]) -> list[float]:
    """Return a vector of the same direction and length 1. Raises ValueError where there is no direction."""
    try:
        length = math.hypot(*values)
    except OverflowError:  # a whole number beyond all floats
        length = math.inf
    if math.isnan(length) or math.isinf(length):
        raise ValueError("the model gave numbers that are not finite")
    if length < _TINY:
        raise ValueError("the model gave a vector of zeros")
    return [value / length for value in values]


def in_order(entries: object, count: int) -> list[Any]:
    """Return what OpenAI's ``data`` lists, put in the order of its ``index`` fields.

    Raises BackendProtocolError when they name a text twice or one that was not asked for.
    """
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BackendProtocolError(f"the embedder sent {_kind(entries)} where a list of objects belongs")
    if len(entries) != count or not any("index" in entry for entry in entries):
        return [entry.get("embedding") for entry in entries]
    places = [entry.get("index") for entry in entries]
    if any(type(place) is not int for place in places) or sorted(places) != list(range(count)):
        raise BackendProtocolError("the embedder's answer does not say which vector belongs to which text")
    return [entry.get("embedding") for entry in sorted(entries, key=lambda entry: entry["index"])]


def pooled(parts: Iterable[tuple[str, Sequence[float]]]) -> list[float]:
    """Return one vector for a text that was embedded in parts: their mean, weighted by length."""
    total: list[float] = []
    for text, vector in parts:
        total = total or [0.0] * len(vector)
        total = [sum_ + len(text) * value for sum_, value in zip(total, vector, strict=True)]
    return unit(total)


def _floats(one: object) -> list[Any] | None:
    """Return a vector's numbers, unpacked where they came as base64; None where there is no vector."""
    if isinstance(one, str):
        try:
            packed = base64.b64decode(one, validate=True)
        except binascii.Error:
            packed = b"?"
        if len(packed) % _FLOAT_BYTES:
            raise BackendProtocolError("the embedder sent a vector in a packing that can't be read")
        numbers = array("f", packed)
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tolist()
    if one is not None and not isinstance(one, list):
        raise BackendProtocolError(f"the embedder sent {_kind(one)} where a vector belongs")
    return one


def _kind(value: object) -> str:
    return {dict: "an object", list: "a list", str: "a text", type(None): "nothing"}.get(
        type(value), "a number"
    )
