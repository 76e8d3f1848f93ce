"""Many texts, some at a time: in order, within the limits, and a bad one costs only itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_core.embedders.batches import HARMLESS, Batches, Refused
from rawthink_core.embedding import TextsNotEmbedded
from rawthink_core.errors import BackendProtocolError, BackendUnavailable

from .servers import SIZE, vector_of

if TYPE_CHECKING:
    from collections.abc import Callable


class Model:
    """Embeds and remembers what it was sent; fails on texts with an ``x``, on all when it is ``dead``."""

    def __init__(self, *, longest: int = 10**9, dead: bool = False, fails: str = "raises") -> None:
        self.longest, self.dead, self.fails = longest, dead, fails
        self.sent: list[list[str]] = []

    def __call__(self, texts: list[str]) -> object:
        self.sent.append(texts)
        if any(len(text) > self.longest for text in texts):
            raise Refused("400: too long", "too long", too_long=True)
        bad = [self.dead or "x" in text for text in texts]
        if any(bad) and self.fails == "raises":
            raise Refused("500: NaN", "NaN")
        return [None if wrong else vector_of(text) for text, wrong in zip(texts, bad, strict=True)]


def run(
    model: Callable[[list[str]], object], texts: list[str], count: int = 4, size: int = 100
) -> list[list[float]]:
    return Batches(model, dimensions=SIZE, count=count, size=size).run(texts)


@given(st.lists(st.text("ab", min_size=1, max_size=30), max_size=20), st.integers(1, 5), st.integers(1, 60))
def test_each_text_gets_its_own_vector_within_the_limits(texts: list[str], count: int, size: int) -> None:
    model = Model()
    for vector, text in zip(run(model, texts, count, size), texts, strict=True):
        assert vector == pytest.approx(vector_of(text))
    assert [text for batch in model.sent for text in batch] == texts
    assert all(len(batch) <= count for batch in model.sent)
    assert all(sum(map(len, batch)) <= size or len(batch) == 1 for batch in model.sent)


@pytest.mark.parametrize("fails", ["raises", "null"])
@given(texts=st.lists(st.text("abx", min_size=1, max_size=6), max_size=20), count=st.integers(1, 7))
def test_bad_texts_are_named_and_all_others_embedded(fails: str, texts: list[str], count: int) -> None:
    model = Model(fails=fails)
    bad = {place for place, text in enumerate(texts) if "x" in text}
    if not bad:
        run(model, texts, count)
        return
    with pytest.raises(TextsNotEmbedded) as told:
        run(model, texts, count)
    assert told.value.failed.keys() == bad
    assert told.value.vectors.keys() == set(range(len(texts))) - bad
    for place, vector in told.value.vectors.items():
        assert vector == pytest.approx(vector_of(texts[place]))
    assert sum(batch == [HARMLESS] for batch in model.sent) <= 1


def test_a_bad_text_is_found_by_halving() -> None:
    model = Model()
    with pytest.raises(TextsNotEmbedded) as told:
        run(model, ["a"] * 20 + ["x"] + ["b"] * 11, count=32)
    assert told.value.failed == {20: "NaN"}
    assert len(model.sent) <= 3 + 2 * 5


@pytest.mark.parametrize("fails", ["raises", "null"])
def test_a_model_that_fails_on_every_word_is_broken_not_the_texts(fails: str) -> None:
    with pytest.raises(BackendUnavailable, match="fails on a plain word too"):
        run(Model(dead=True, fails=fails), ["a", "b"])


@pytest.mark.parametrize("fails", ["raises", "null"])
@pytest.mark.parametrize("texts", [["a"], ["a", "b", "c"]])
def test_a_server_that_comes_to_itself_blames_no_text(fails: str, texts: list[str]) -> None:
    class Recovering(Model):
        def __call__(self, texts: list[str]) -> object:
            self.dead = self.dead and texts != [HARMLESS]
            return super().__call__(texts)

    model = Recovering(dead=True, fails=fails)
    assert run(model, texts) == [pytest.approx(vector_of(text)) for text in texts]
    assert model.sent.count([HARMLESS]) == 1


def test_what_is_too_long_is_embedded_in_parts() -> None:
    model = Model(longest=40)
    texts = ["short", "many words " * 20, "also short"]
    vectors = run(model, texts, size=1_000)
    assert [len(vector) for vector in vectors] == [SIZE] * 3
    assert vectors[0] == pytest.approx(vector_of("short"))
    assert [HARMLESS] not in model.sent


def test_what_is_too_long_for_any_part_is_set_aside() -> None:
    with pytest.raises(TextsNotEmbedded) as told:
        run(Model(longest=3), ["abc", "a very long text indeed"])
    assert told.value.failed == {1: "too long"}


def test_a_long_text_with_a_bad_part_is_set_aside_whole() -> None:
    with pytest.raises(TextsNotEmbedded) as told:
        run(Model(longest=40), ["fine words " * 10 + "x"], size=1_000)
    assert told.value.failed == {0: "NaN"}


def test_an_answer_for_fewer_texts_is_not_used() -> None:
    with pytest.raises(BackendProtocolError, match="1 vectors for 2 texts"):
        run(lambda _: [vector_of("a")], ["a", "b"])


def test_what_is_no_text_for_a_model_is_made_one() -> None:
    model = Model()
    run(model, ["", "a\x00b", "\ud800"])
    assert model.sent == [[" ", "ab", "?"]]


def test_nothing_is_asked_for_no_texts() -> None:
    model = Model()
    assert run(model, []) == []
    assert model.sent == []
