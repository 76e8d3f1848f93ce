"""What fits into one vector, and what an embedder is."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from rawthink_conformance.toys import ToyEmbedder
from rawthink_core.embedders.auto import AutoEmbedder
from rawthink_core.embedders.offline import OfflineEmbedder, OfflineSettings
from rawthink_core.embedders.ollama import OllamaEmbedder, OllamaSettings
from rawthink_core.embedders.openai import OpenAIEmbedder, OpenAISettings
from rawthink_core.embedding import Embedder, NoEmbedder, TextsNotEmbedded, first_window, plain, windows
from rawthink_core.errors import BackendProtocolError

WRITTEN = st.text(
    st.sampled_from("ab é\u0301\u0928\u093f中文字。！.?!\n\r\t ,\u200d👩🔬🇩🇪\u3000\x00"), max_size=400
) | st.text(max_size=300)


def letters(text: str) -> list[str]:
    return [character for character in text if not character.isspace()]


@given(WRITTEN, st.integers(1, 60))
@example("", 5)
@example("\x00\x00", 5)
@example(" \n" * 40, 7)
@example("a" + " " * 300 + "b", 7)
@example("x" * 61, 60)
def test_windows_hold_all_that_is_written_in_order(text: str, size: int) -> None:
    found = windows(text, size)
    assert found
    assert all(0 < len(window) <= size for window in found)
    assert not any("\x00" in window for window in found)
    # Each window continues the one before it, from some place within it on.
    left = letters(plain(text))
    at = 0
    for window in found:
        part = letters(window)
        begin = next(b for b in range(at, -1, -1) if left[b : b + len(part)] == part)
        at = begin + len(part)
    assert at == len(left)


@given(WRITTEN, st.integers(40, 80))
def test_a_window_never_ends_inside_of_a_grapheme_that_fits(text: str, size: int) -> None:
    text = plain(text)
    borders = {0} | {found.end() for found in regex.finditer(r"\X", text)}
    longest = max((len(found) for found in regex.findall(r"\X", text)), default=0)
    if longest > 8:
        return
    at = 0
    for window in windows(text, size):
        at = text.index(window, max(0, at - size // 10 - 2))
        at += len(window)
        assert at in borders or text[at : at + 1].isspace() or text[at - 1 : at].isspace()


def test_cuts_fall_on_paragraphs_then_sentences_then_words() -> None:
    first, second = "One is here. Two is there.", "Three comes after. Four ends it."
    assert windows(f"{first}\n\n{second}", 40) == [first, second]
    assert windows(f"{first} {second} {first}", 50)[0] == "One is here. Two is there. Three comes after."
    assert windows("word " * 30, 23)[0] == "word word word word"
    assert windows("第一句话在这里。第二句话在那里！第三句", 12)[0] == "第一句话在这里。"


def test_a_number_is_not_the_end_of_a_sentence() -> None:
    assert windows("It costs 3.14159 euro each", 20)[0] == "It costs 3.14159"


def test_windows_overlap_a_little() -> None:
    text = " ".join(f"w{number}" for number in range(200))
    found = windows(text, 100)
    for before, after in pairwise(found):
        shared = set(before.split()) & set(after.split())
        assert 1 <= len(shared) <= 3


def test_no_window_is_a_leftover() -> None:
    for length in range(101, 400, 7):
        assert min(len(window) for window in windows("abcd " * (length // 5), 100)) > 25


@pytest.mark.parametrize(
    "text",
    [
        "部署方案。" * 12_000,  # Chinese, 60,000 characters
        "a " * 20_000,  # runs of one token
        "QUJD" * 8_000,  # base64: no space at all
        "👩‍🔬" * 8_000,  # graphemes of three characters
    ],
    ids=["chinese", "tokens", "base64", "emoji"],
)
def test_long_texts_are_cut_into_few_whole_windows(text: str) -> None:
    found = windows(text, 2_000)
    assert len(found) <= len(text) / 2_000 * 1.3 + 1
    assert not any(window.startswith("\u200d") or window.endswith("\u200d") for window in found)
    assert sum(map(len, found)) >= len(text.strip()) - len(found) * 2


@given(WRITTEN, st.integers(1, 40))
def test_the_first_window_is_the_first_of_all(text: str, size: int) -> None:
    first = first_window(text, size)
    assert 0 < len(first) <= size
    assert len(plain(text)) > 4 * size or first == windows(text, size)[0]
    assert first_window("部署" * 10**6, 500) == "部署" * 250


def test_a_text_that_fits_is_left_as_it_is() -> None:
    assert windows("  as it is\n", 100) == ["  as it is\n"]
    assert windows("a\x00b", 100) == ["ab"]
    assert windows("\x00", 100) == [" "]
    with pytest.raises(ValueError, match="at least 1"):
        windows("a", 0)


def test_lone_surrogates_become_what_every_model_takes() -> None:
    assert windows("a\ud800b", 10) == ["a?b"]
    plain("\udc80 \x00").encode("utf-8")


@pytest.mark.parametrize(
    "embedder",
    [
        NoEmbedder(),
        ToyEmbedder(),
        OllamaEmbedder(OllamaSettings()),
        OpenAIEmbedder(OpenAISettings()),
        OfflineEmbedder(OfflineSettings()),
        AutoEmbedder(OllamaSettings()),
    ],
    ids=lambda embedder: embedder.name,
)
def test_each_is_an_embedder_before_it_is_opened(embedder: Embedder) -> None:
    assert isinstance(embedder, Embedder)
    assert embedder.name in embedder.fingerprint
    assert "\n" not in embedder.fingerprint
    assert 0 <= embedder.dense_weight <= 1
    assert -1 <= embedder.min_similarity <= 1
    assert embedder.window > 0


@pytest.mark.asyncio
async def test_no_embedder_makes_empty_vectors() -> None:
    none = NoEmbedder()
    await none.open()
    assert await none.embed_passages(["a", "b"]) == [[], []]
    assert await none.embed_query("a") == []
    await none.close()


def test_texts_without_a_vector_are_named_and_the_others_kept() -> None:
    error = TextsNotEmbedded(dict.fromkeys(range(1, 6), "too long"), {0: [1.0]})
    assert isinstance(error, BackendProtocolError)
    assert error.failed[1] == "too long"
    assert error.vectors == {0: [1.0]}
    assert re.search(r"5 of 6 texts .* text 1: too long.* and 2 more", str(error))
