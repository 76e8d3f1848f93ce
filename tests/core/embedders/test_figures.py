"""What is known of models by their names, and what is measured where nothing is."""

from __future__ import annotations

import pytest

from rawthink_core.embedders.figures import ANSWERS, PAIRS, QUESTIONS, figures_of, floor_of


@pytest.mark.parametrize(
    ("model", "weight", "floor", "before"),
    [
        ("bge-m3", 0.4, 0.55, ""),
        ("BAAI/bge-m3", 0.4, 0.55, ""),
        ("bge-m3:567m-fp16", 0.4, 0.55, ""),
        ("bge-m30", 0.3, None, ""),
        ("intfloat/multilingual-e5-large", 0.4, None, "query: "),
        ("jeffh/e5:small", 0.4, None, "query: "),
        ("some2e5x", 0.3, None, ""),
        ("nomic-embed-text:v1.5", 0.4, None, "search_query: "),
        ("text-embedding-3-small", 0.3, None, ""),
        ("", 0.3, None, ""),
    ],
)
def test_a_model_is_known_by_its_name(model: str, weight: float, floor: float | None, before: str) -> None:
    known = figures_of(model)
    assert (known.dense_weight, known.min_similarity, known.query_prefix) == (weight, floor, before)


def test_pairs_are_as_many_in_each_language() -> None:
    assert {len(language) for language in PAIRS} == {4}
    assert len(set(QUESTIONS)) == len(set(ANSWERS)) == len(PAIRS) * 4


def turned(cosine: float) -> tuple[list[list[float]], list[list[float]]]:
    """Return vectors whose unrelated pairs are at 0.5 and related ones at ``cosine``."""
    count = len(QUESTIONS)
    questions = [[0.5**0.5] + [float(n == m) * (0.5**0.5) for m in range(count)] for n in range(count)]
    answers = [
        [0.5**0.5] + [float(n == m) * (cosine - 0.5) / 0.5**0.5 for m in range(count)] for n in range(count)
    ]
    return questions, answers


@pytest.mark.parametrize(("cosine", "floor"), [(1.0, 0.75), (0.7, 0.6), (0.5, 1.0), (0.2, 1.0)])
def test_the_floor_is_half_way_or_out_of_reach(cosine: float, floor: float) -> None:
    assert floor_of(*turned(cosine)) == floor
