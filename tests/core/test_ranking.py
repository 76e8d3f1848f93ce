"""Scores lie between 0 and 1, the order is total and the same each time, and no answer is buried."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_core.ranking import (
    SPEAKER,
    TO_NEXT,
    TO_PREVIOUS,
    Candidate,
    Place,
    Ranked,
    activity,
    decayed,
    dense_share,
    depth_for,
    favour,
    fuse,
    grouped,
    min_max,
    order,
    scale_of,
    spread,
)

IDS = st.sampled_from("abcdefgh")
POSITIVE = st.floats(1e-6, 1e6, allow_nan=False)
SIMILARITIES = st.floats(-1, 1, allow_nan=False)


def best_first(scores: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))


LEXICAL = st.dictionaries(IDS, POSITIVE).map(best_first)
DENSE = st.dictionaries(IDS, SIMILARITIES).map(best_first)
UNIT = st.floats(0, 1, allow_nan=False)
SCORES = st.dictionaries(IDS, UNIT)


@given(LEXICAL, DENSE, UNIT, st.integers(1, 10), st.sampled_from(["minmax", "rrf"]))
def test_fused_scores_lie_between_0_and_1_and_miss_nobody(
    lexical: list[tuple[str, float]], dense: list[tuple[str, float]], weight: float, depth: int, method: str
) -> None:
    scores = fuse(lexical, dense, dense_weight=weight, depth=depth, method=method)
    assert scores.keys() == {item for item, _ in (*lexical, *dense)}
    assert all(0 <= score <= 1 + 1e-9 for score in scores.values())


@given(LEXICAL, DENSE, st.floats(0.1, 0.9))
def test_first_in_both_lists_is_first_and_scores_1(
    lexical: list[tuple[str, float]], dense: list[tuple[str, float]], weight: float
) -> None:
    lexical, dense = [("x", 2e6), *lexical], [("x", 1.0), *[pair for pair in dense if pair[1] < 1]]
    for method in ("minmax", "rrf"):
        scores = fuse(lexical, dense, dense_weight=weight, method=method)
        assert math.isclose(scores["x"], 1)
        assert max(scores, key=scores.__getitem__) == "x"


@given(LEXICAL)
def test_without_vectors_the_words_alone_decide(lexical: list[tuple[str, float]]) -> None:
    assert fuse(lexical, (), dense_weight=0.4) == fuse(lexical)
    if lexical:
        assert fuse(lexical)[lexical[0][0]] == 1


def test_a_short_list_has_its_floor_at_nothing_and_a_full_one_at_its_last() -> None:
    ranked = [("a", 4.0), ("b", 3.0), ("c", 2.0)]
    assert min_max(ranked, depth=100) == {"a": 1.0, "b": 0.75, "c": 0.5}
    assert min_max(ranked, depth=3) == {"a": 1.0, "b": 0.5, "c": 0.0}


def test_the_floor_of_a_short_list_of_similarities_is_what_means_nothing() -> None:
    ranked = [("a", 0.9), ("b", 0.8)]
    assert min_max(ranked, depth=100, nothing=0.7)["b"] == pytest.approx(0.5)
    assert min_max([*ranked, ("c", 0.6)], depth=100, nothing=0.7)["c"] == 0
    assert min_max(ranked, depth=2, nothing=0.7)["b"] == 0


@given(UNIT, st.integers(0, 20), st.integers(0, 20))
def test_the_less_the_words_match_the_more_the_meaning_counts(
    weight: float, matched: int, asked: int
) -> None:
    matched = min(matched, asked)
    share = dense_share(weight, matched, asked)
    assert weight - 1e-9 <= share <= 1 or (weight == 0 and share == 0)
    if matched:
        assert dense_share(weight, matched - 1, asked) >= share - 1e-12


def test_words_have_their_whole_weight_when_half_of_them_match_four_of_many_or_none_means_anything() -> None:
    assert dense_share(0.4, 2, 4) == dense_share(0.4, 4, 50) == dense_share(0.4, 0, 0) == 0.4
    assert dense_share(0.4, 0, 4) == 1
    assert dense_share(0.0, 0, 4) == 0


def test_where_no_word_matches_the_meaning_alone_decides() -> None:
    assert fuse([], [("a", 0.9), ("b", 0.5)], dense_weight=0.4) == {"a": 1.0, "b": pytest.approx(0.5 / 0.9)}


@pytest.mark.parametrize(
    ("ranked", "scaled"),
    [
        ([], {}),
        ([("a", 5.0)], {"a": 1.0}),
        ([("a", 0.0)], {"a": 1.0}),
        ([("a", 3.0), ("b", 3.0)], {"a": 1.0, "b": 1.0}),
        ([("a", 0.5), ("b", -0.5)], {"a": 1.0, "b": 0.0}),
        ([("a", -0.1), ("b", -0.5)], {"a": 1.0, "b": 0.0}),
    ],
)
def test_odd_lists_are_scaled_too(ranked: list[tuple[str, float]], scaled: dict[str, float]) -> None:
    assert min_max(ranked, depth=100) == scaled


@given(LEXICAL, st.integers(1, 10), st.floats(0.001, 1000))
def test_the_unit_of_an_engines_scores_does_not_matter(
    ranked: list[tuple[str, float]], depth: int, unit: float
) -> None:
    scaled = min_max([(item, score * unit) for item, score in ranked], depth)
    for item, score in min_max(ranked, depth).items():
        assert math.isclose(scaled[item], score, abs_tol=1e-6)


def test_reciprocal_ranks_fall_off_as_published() -> None:
    scores = fuse([("a", 9.0), ("b", 1.0)], [("b", 0.9)], dense_weight=0.5, method="rrf")
    assert scores == {"a": 0.5, "b": 0.5 * 11 / 12 + 0.5}


# --- neighbours ---------------------------------------------------------------------------------


TURNS = {Place("s", n): name for n, name in enumerate("abcdefgh")}
PLACES = {name: place for place, name in TURNS.items()}


@given(SCORES)
def test_support_takes_nothing_away(scores: dict[str, float]) -> None:
    spread_scores = spread(scores, PLACES, TURNS)
    assert all(spread_scores[item] >= score for item, score in scores.items())


@given(SCORES)
def test_scaled_scores_lie_between_0_and_1(scores: dict[str, float]) -> None:
    raised = favour(spread(scores, PLACES, TURNS), "abc")
    scale = scale_of(raised.values())
    assert 0 < scale <= 1
    assert all(0 <= score * scale <= 1 + 1e-9 for score in raised.values())
    assert scale == 1 or max(raised.values()) * scale == pytest.approx(1)


def test_a_turn_whose_speaker_is_named_gains_and_none_is_found_by_that_alone() -> None:
    assert favour({"a": 0.5, "b": 0.5}, {"b", "c"}) == {"a": 0.5, "b": 0.5 + SPEAKER}


@given(SCORES, IDS, st.floats(0, 0.2))
def test_a_better_turn_never_lowers_a_neighbour_against_strangers(
    scores: dict[str, float], item: str, more: float
) -> None:
    """Adding to one turn raises its neighbours, or leaves them, before scaling."""
    small = {name: score / 10 for name, score in scores.items()}
    before = spread(small, PLACES, TURNS)
    after = spread(small | {item: small.get(item, 0.0) + more / 10}, PLACES, TURNS)
    assert all(after.get(name, 0.0) >= score - 1e-12 for name, score in before.items())


def test_a_turn_lends_more_to_the_next_than_to_the_one_before_and_less_with_distance() -> None:
    found = spread({"d": 0.5}, PLACES, TURNS)
    assert found["e"] > found["c"] > 0
    assert found["e"] > found["f"] > found["g"] > 0
    assert "h" not in found
    assert found.keys() == set("abcdefg")
    assert len(TO_NEXT) == 3


def test_a_session_supports_itself_only() -> None:
    places = {"a": Place("s", 0), "b": Place("t", 1)}
    found = spread({"a": 0.5, "b": 0.5, "c": 0.5}, places, {place: item for item, place in places.items()})
    assert found == {"a": 0.5, "b": 0.5, "c": 0.5}


def test_a_turn_that_may_not_be_shown_gets_nothing() -> None:
    assert spread({"a": 0.5}, PLACES, {}) == {"a": 0.5}


# --- decay and order ----------------------------------------------------------------------------


def test_activity_halves_in_23_days() -> None:
    assert activity(0) == activity(-5) == 1
    assert activity(23) == 0.5
    assert activity(10**6) == 0


@given(UNIT, UNIT, st.integers(-10, 10**5))
def test_decay_orders_near_ties_and_buries_nothing(score: float, other: float, days: int) -> None:
    assert 0.9 * score <= decayed(score, days) <= score
    if other < 0.9 * score:
        assert decayed(other, 0) < decayed(score, days) or score < 1e-9


def test_what_is_pinned_does_not_decay() -> None:
    assert decayed(0.7, None) == 0.7


CANDIDATES = st.dictionaries(
    IDS, st.tuples(st.sampled_from(["2026-01-01", "2026-02-01"]), st.none() | st.integers(0, 400))
).map(lambda found: [Candidate(item, at, days) for item, (at, days) in found.items()])


@given(SCORES, CANDIDATES, st.data())
def test_the_order_is_total_and_does_not_depend_on_the_order_of_what_came(
    scores: dict[str, float], candidates: list[Candidate], data: st.DataObject
) -> None:
    ranked = order(scores, candidates)
    again = order(dict(reversed(scores.items())), data.draw(st.permutations(candidates)))
    assert ranked == again
    assert sorted(item.id for item in ranked) == sorted(candidate.id for candidate in candidates)
    assert all(one.score >= other.score for one, other in pairwise(ranked))
    assert all(0 <= item.score <= 1 for item in ranked)
    assert all(0.9 - 1e-9 <= item.decay <= 1 + 1e-9 for item in ranked)


def test_ties_go_to_the_newest_and_then_by_id() -> None:
    scores = {"a": 0.5, "b": 0.5, "c": 0.5000001, "d": 0.6}
    dates = {"a": "2026-01-02", "b": "2026-01-03", "c": "2026-01-02", "d": "2025-01-01"}
    ranked = order(scores, [Candidate(item, dates[item]) for item in "cbad"])
    assert [item.id for item in ranked] == ["d", "b", "a", "c"]


def test_a_fresh_item_comes_before_a_stale_one_of_the_same_worth() -> None:
    scores = {"fresh": 0.5, "stale": 0.52}
    ranked = order(scores, [Candidate("stale", "2026", 365), Candidate("fresh", "2020", 0)])
    assert [item.id for item in ranked] == ["fresh", "stale"]


# --- grouping -----------------------------------------------------------------------------------


def test_groups_stand_in_the_order_of_their_best() -> None:
    ranked = [Ranked(item, 1 - n / 10, 1.0) for n, item in enumerate(["a1", "b1", "-", "a2", "c1", "b2"])]

    def first(item: str) -> str | None:
        return None if item == "-" else item[0]

    def ids(limit: int) -> list[Any]:
        return [[item.id for item in group] for group in grouped(ranked, first, limit)]

    assert ids(9) == [["a1", "a2"], ["b1", "b2"], ["c1"]]
    assert ids(2) == [["a1", "a2"], ["b1", "b2"]]
    assert ids(0) == []


def test_a_list_is_deep_enough_for_its_answer() -> None:
    assert [depth_for(limit) for limit in (1, 25, 26, 100)] == [100, 100, 104, 400]


def test_what_goes_to_places_where_nothing_was_found_is_added_up_beside() -> None:
    beside: dict[tuple[str, int], float] = {}
    places = {"a": Place("s", 0), "b": Place("s", 2)}
    found = spread({"a": 0.5, "b": 0.5}, places, {place: item for item, place in places.items()}, beside)
    assert found.keys() == {"a", "b"}
    assert beside.keys() == {("s", 1), ("s", 3), ("s", 4), ("s", 5)}
    assert beside["s", 1] == pytest.approx(0.5 * (TO_NEXT[0] + TO_PREVIOUS[0]))
