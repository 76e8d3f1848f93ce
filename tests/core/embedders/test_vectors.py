"""A server's answer becomes vectors only where each surely belongs to its text."""

from __future__ import annotations

import base64
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_core.embedders.vectors import checked, in_order, pooled, unit
from rawthink_core.errors import BackendProtocolError

NAN = float("nan")
FLOATS = st.floats(-1e3, 1e3, width=32)
VECTORS = st.lists(st.lists(FLOATS, min_size=3, max_size=3), min_size=1, max_size=8)


@given(VECTORS)
def test_what_has_a_direction_becomes_a_vector_of_length_one(raw: list[list[float]]) -> None:
    answer = checked(raw, len(raw), 0)
    assert answer.vectors.keys() | answer.failed.keys() == set(range(len(raw)))
    assert not answer.vectors.keys() & answer.failed.keys()
    for position, vector in answer.vectors.items():
        assert math.hypot(*vector) == pytest.approx(1)
        length = math.hypot(*raw[position])
        assert vector == pytest.approx([value / length for value in raw[position]])
    for position in answer.failed:
        assert math.hypot(*raw[position]) < 1e-8


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (None, "no vector"),
        ([], "no vector"),
        ([None, 1.0], "no vector"),
        ([NAN, 1.0], "not finite"),
        ([math.inf, 1.0], "not finite"),
        ([-math.inf, NAN], "not finite"),
        ([10**400, 1], "not finite"),
        ([0, 0], "zeros"),
        ([0.0, -0.0], "zeros"),
        ([1e-300, 0.0], "zeros"),
    ],
)
def test_one_bad_vector_costs_only_its_text(bad: Any, why: str) -> None:
    answer = checked([[3.0, 4.0], bad, [1, 0]], 3, 2)
    assert answer.vectors == {0: [0.6, 0.8], 2: [1.0, 0.0]}
    assert why in answer.failed[1]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ([[1.0, 0.0]], "1 vectors for 2 texts"),
        ([[1.0, 0.0]] * 3, "3 vectors for 2 texts"),
        ([], "0 vectors for 2 texts"),
        (None, "sent nothing where a list"),
        ({"0": [1.0, 0.0]}, "sent an object"),
        ("vectors", "sent a text"),
        (7, "sent a number"),
        ([[1.0, 0.0], [1.0, 0.0, 0.0]], "3 numbers, not of 2"),
        ([[1.0, 0.0], [True, False]], "not made of numbers"),
        ([[1.0, 0.0], ["1", "0"]], "not made of numbers"),
        ([[1.0, 0.0], [[1.0], [0.0]]], "not made of numbers"),
        ([[1.0, 0.0], {"a": 1}], "an object where a vector"),
        ([[1.0, 0.0], 5], "a number where a vector"),
        ([[1.0, 0.0], "no base64!"], "packing"),
        ([[1.0, 0.0], base64.b64encode(b"12345").decode()], "packing"),
    ],
)
def test_an_answer_that_cannot_be_paired_is_refused(raw: Any, why: str) -> None:
    with pytest.raises(BackendProtocolError, match=why):
        checked(raw, 2, 0)


def test_another_size_than_before_is_refused() -> None:
    with pytest.raises(BackendProtocolError, match="has its model changed"):
        checked([[1.0, 0.0]], 1, 3)


def test_vectors_may_come_packed() -> None:
    packed = base64.b64encode(struct.pack("<2f", 3.0, 4.0)).decode()
    assert checked([packed], 1, 2).vectors == {0: [0.6, 0.8]}


@given(st.permutations(range(6)))
def test_what_comes_in_another_order_is_put_in_order(order: list[int]) -> None:
    entries = [{"index": place, "embedding": [float(place)]} for place in order]
    assert in_order(entries, 6) == [[float(place)] for place in range(6)]


@given(st.lists(st.integers(-2, 6) | st.none() | st.booleans(), min_size=3, max_size=3))
def test_places_that_are_not_told_apart_are_refused(places: list[Any]) -> None:
    entries = [{"index": place, "embedding": [1.0]} for place in places]
    honest = all(type(place) is int for place in places) and sorted(places) == [0, 1, 2]
    if honest:
        in_order(entries, 3)
    else:
        with pytest.raises(BackendProtocolError, match="which vector belongs to which text"):
            in_order(entries, 3)


def test_without_any_index_the_order_counts() -> None:
    assert in_order([{"embedding": [1]}, {"embedding": [2]}], 2) == [[1], [2]]
    with pytest.raises(BackendProtocolError, match="which vector belongs"):
        in_order([{"embedding": [1]}, {"embedding": [2], "index": 1}], 2)
    assert in_order([{"index": 0, "embedding": [1]}], 2) == [[1]]  # too few: the count is refused later
    for odd in (None, "x", [[1.0]], 3):
        with pytest.raises(BackendProtocolError, match="list of objects"):
            in_order(odd, 1)


def test_parts_weigh_by_their_length() -> None:
    assert pooled([("aaa", [1.0, 0.0]), ("aaaa", [0.0, 1.0])]) == pytest.approx([0.6, 0.8])
    with pytest.raises(ValueError, match="zeros"):
        pooled([("a", [1.0, 0.0]), ("a", [-1.0, 0.0])])


def test_a_direction_has_any_length() -> None:
    assert unit([1e200, 0.0]) == [1.0, 0.0]
    assert unit([3, 4]) == [0.6, 0.8]
