"""A block that a model repeats is not shown, however the stream is cut; all else comes at once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rawthink_chat.scrubbing import LIMIT, Scrubber
from rawthink_core.injected import CLOSER, HEADER, OPENER, strip_memory_context

BULLETS = "- [2025-01-15] [张三] 喜欢用 Rust\n- [2025-01-10] likes tea"
BLOCK = f"{OPENER}\n{HEADER}\n{BULLETS}\n{CLOSER}"


def shown(pieces, limit=LIMIT):
    scrubber = Scrubber(limit)
    return "".join([*map(scrubber.feed, pieces), scrubber.finish()])


def cut(text, places):
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(ends)]


# what comes out


@pytest.mark.parametrize(
    "text",
    [
        BLOCK,
        f"Sure.\n{BLOCK}\nThe answer is 42.",
        f"one{BLOCK}two",
        f"{BLOCK}\n{BLOCK}\nafter",
        f"{OPENER}\n{BLOCK}\n{CLOSER}\nx",
        f"{OPENER}\n{HEADER}\n{BULLETS}\nThe answer is 42.\nAnd more.",
        f"{OPENER}\n{HEADER}\n{BULLETS}\nThe answer.\n{CLOSER}\nx",
        f"{OPENER}\n{HEADER}\n- a\n{BLOCK}\n- b\n{CLOSER}\nx",
        f"{OPENER}\nof another host\n{CLOSER}\nx",
        f"a\n  {HEADER}\n{BULLETS}\nx",
        BLOCK.replace("<", "&lt;").replace(">", "&gt;") + "x",
        BLOCK.replace("<", r"\u003c").replace(">", r"\u003e") + "x",
        BLOCK.replace("<", r"\<").replace(">", r"\>") + "x",
        BLOCK.replace("<", "＜").replace(">", "＞") + "x",
        BLOCK.replace("\n", "\r\n") + "\r\nx",
        f"<memory-context\n{BLOCK}\n>\n{HEADER}\n- a\n{CLOSER}x",
        f"{OPENER}\nabc\n{BLOCK}\nmore\n{CLOSER}\nx",
        "how does the <memory-context> tag work? <memory-context> and </memory-context>.",
        f"`{OPENER}`\n\nis the opener, {HEADER}",
        "if (a < b && c > d) { x <- y; } // R&D, a &lt; b, \\u003c",
        "Relevant memory is scarce.\nRelevant\n> quoted\r\n\r\n",
    ],
)
def test_at_every_split_in_two_and_in_single_characters_the_text_is_stripped(text):
    want = strip_memory_context(text)
    assert shown(text) == want
    for at in range(len(text) + 1):
        assert shown([text[:at], text[at:]]) == want


TAGS = [
    OPENER,
    CLOSER,
    HEADER,
    BLOCK,
    "<mem",
    "ory-context>",
    "&lt;/memory-context&gt;",
    r"\<memory-context\>",
]
LINES = ["- a", "- [2025-01-15] b", "\n", "\r\n", " ", "> ", "\t", "R", "Relevant memory context:", "word"]
SIGNS = ["<", "＜", "❯", "&lt;", "&amp;", "memory-context", "&gt;", ";", "\\", r"\u003c", r"\u003e", "\u200b"]
PARTS = st.sampled_from([*TAGS, *LINES, *SIGNS])
TEXTS = st.lists(PARTS | st.text(max_size=3), max_size=14).map("".join)


@settings(max_examples=300)
@given(TEXTS, st.lists(st.integers(0, 500), max_size=12))
def test_any_text_cut_anywhere_is_stripped_as_the_whole(text, places):
    assert shown(cut(text, places)) == strip_memory_context(text)
    assert shown(text) == strip_memory_context(text)


@settings(max_examples=100)
@given(TEXTS, st.lists(st.integers(0, 500), max_size=6), st.integers(150, 400))
def test_whatever_the_bound_no_block_that_we_write_comes_out(text, places, limit):
    pieces = [*cut(text, places), "\n", *BLOCK, "\nend"]
    assert BULLETS not in shown(pieces, limit)
    assert shown(pieces, limit).endswith("end")


@pytest.mark.parametrize("line", ["a line of an answer\n", "a word & another ", " " * 79 + "\n"])
def test_far_into_a_text_a_block_is_the_same(line):
    far = line * (5000 // len(line))
    text = "".join(
        f"{far}{block}{end}" for block in (BLOCK, f" {BLOCK}") for end in ("\nThen ", " more", "x")
    )
    assert shown([text[at : at + 50] for at in range(0, len(text), 50)]) == strip_memory_context(text)


# what is held back


def test_ordinary_text_is_not_held_back():
    scrubber = Scrubber()
    for piece in ("Hello", ", wor", "ld.", " 你好", "! 1 > 0\n", "Next line\n", "\nand - one * more"):
        assert scrubber.feed(piece) == piece
    assert scrubber.held == 0


@pytest.mark.parametrize(
    ("pieces", "outcomes"),
    [
        (["a <", " b"], ["a ", "< b"]),
        (["a <", "div"], ["a ", "<div"]),
        (["a <m", "em", "ory>"], ["a ", "", "<memory>"]),
        (["x &", "& y"], ["x ", "&& y"]),
        (["R", "ust"], ["", "Rust"]),
        (["a\n  ", "  return"], ["a\n", "    return"]),
        (["the <memory-context>", " ", "tag"], ["the ", "", "<memory-context> tag"]),
        (["a </memory-context>", "\n"], ["a </memory-context>", "\n"]),
        ([f"{OPENER}\nabc", " def", "\nghi <b>"], ["", "", ""]),  # (b): until the next tag
        ([f"{BLOCK}", "\n", "x"], ["", "", "x"]),
        ([f"{OPENER}\n{HEADER}\n- a\nSo", " be it"], ["", ""]),
    ],
)
def test_what_may_begin_a_block_is_held_until_it_cannot(pieces, outcomes):
    scrubber = Scrubber()
    assert [scrubber.feed(piece) for piece in pieces] == outcomes
    assert "".join(outcomes) + scrubber.finish() == strip_memory_context("".join(pieces))


def test_after_the_end_another_text_begins():
    scrubber = Scrubber()
    assert scrubber.feed("a <mem") + scrubber.finish() == "a <mem"
    assert scrubber.feed("ory-context>") + scrubber.finish() == "ory-context>"


# the bound


def test_an_opener_that_nothing_closes_is_text_once_the_bound_is_reached():
    scrubber = Scrubber(limit=100)
    text = f"{OPENER}\n" + "word " * 30
    assert scrubber.feed(text) == text
    assert scrubber.held == 0


def test_a_block_without_closer_ends_with_its_last_bullet_once_the_bound_is_reached():
    scrubber = Scrubber(limit=200)
    assert scrubber.feed(f"{OPENER}\n{HEADER}\n{BULLETS}\nSo ") == ""
    assert scrubber.feed("it is. " * 30) == "So " + "it is. " * 30


@pytest.mark.parametrize("bullet", ["- [2025-01-15] secret\n", "secret "])
def test_a_block_of_any_length_is_dropped_unseen(bullet):
    scrubber = Scrubber(limit=2000)
    pieces = ["Sure.\n", f"{OPENER}\n{HEADER}\n- [2025-01-15] "]
    for piece in [*pieces, *[bullet] * 2000]:
        assert "secret" not in scrubber.feed(piece)
        assert scrubber.held < 4000
    assert scrubber.feed(f"\n{CLOSER}\nBye") + scrubber.finish() == "Bye"


@pytest.mark.parametrize(
    "unit",
    [
        "a line of an answer\n",
        f"{OPENER}\n",
        "<" + " " * 19,
        f"- {OPENER}{HEADER}\n",
        "&amp;",
        "  ",
        BLOCK,
        "<m",
    ],
)
def test_a_long_stream_takes_no_more_memory_than_a_short_one(unit):
    scrubber = Scrubber(limit=500)
    for _ in range(40_000 // len(unit)):
        scrubber.feed(unit)
        assert scrubber.held <= 2000
    assert sum(len(one._blocks.text) + 50 * len(one._blocks._marks) for one in scrubber._passes) < 120_000
