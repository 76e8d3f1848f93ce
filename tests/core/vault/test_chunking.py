"""How Markdown is cut: what every cut keeps to, and where people expect it."""

from __future__ import annotations

import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from rawthink_core.vault.chunking import LIMIT, chunks


def texts(text, limit=LIMIT, start=0):
    return [chunk.text for chunk in chunks(text, start, limit)]


def paths(text):
    return [chunk.heading for chunk in chunks(text)]


# --- what always holds --------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "# Top\n", "## Below ##\n", "###### Deep\n", "#\n", "Over\n===\n", "two\nlines\n---\n", "---\n", "\n", "\n\n\n",
        "```py\n", "```\n", "~~~~\n", "    # code\n", "# no\r\n", "a paragraph. And more! 好的。是吗？\n",
        "- item\n", "> said\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "word " * 30, "x" * 90, "é" * 50, "e\u0301" * 50,
        "👩‍👩‍👧‍👦" * 12, "語" * 70, "\u0301" * 40, "\r", "\u2028", "\x00", "\t", " ", "\ufeff", "...... ", "<!-- # -->\n",
    ]
)  # fmt: skip
MARKDOWN = st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=300))


@given(MARKDOWN, st.integers(4, 120), st.integers(0, 20))
def test_chunks_hold_all_that_is_not_blank_once_and_in_order(text, limit, start):
    found = chunks(text, start, limit)
    at = start
    for chunk in found:
        assert text[at : chunk.start].strip() == ""
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text == chunk.text.strip()
        assert 0 < len(chunk.text) <= limit
        assert chunk.first_line == text.count("\n", 0, chunk.start) + 1
        assert chunk.last_line == text.count("\n", 0, chunk.end) + 1
        at = chunk.end
    assert text[at:].strip() == ""


@given(st.text(st.sampled_from("e\u0301👩‍👧ก็한語a🇹🇷"), max_size=200), st.integers(12, 40))
def test_a_grapheme_is_cut_only_when_it_is_too_long(text, limit):
    ends = {0, *(found.end() for found in regex.finditer(r"\X", text))}
    if max((len(found) for found in regex.findall(r"\X", text)), default=0) <= limit:
        assert {chunk.start for chunk in chunks(text, 0, limit)} <= ends


@given(MARKDOWN)
def test_a_heading_path_goes_down(text):
    for chunk in chunks(text):
        assert all(title and title == " ".join(title.split()) for title in chunk.heading)
        assert len(chunk.heading) <= 6


# --- headings -----------------------------------------------------------------------------------


def test_each_heading_begins_a_chunk_and_knows_what_it_stands_under():
    text = "before\n# A\none\n### B ###\ntwo\n## C#\nthree\n# D\nfour"
    assert texts(text) == ["before", "# A\none", "### B ###\ntwo", "## C#\nthree", "# D\nfour"]
    assert paths(text) == [(), ("A",), ("A", "B"), ("A", "C#"), ("D",)]


def test_underlined_headings_are_headings():
    text = "Plan\n====\nfirst\n\nBig\n step\n---\nsecond\n\n---\n\nthird"
    assert paths(text) == [("Plan",), ("Plan", "Big step")]
    assert texts(text)[1].endswith("third")


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```",
        "~~~ py\n# no\n```\n# nor this\n~~~",
        "````\n```\n# no\n````",
        "    # indented\n",
        "#no space",
        "####### seven",
        "- item\n---\nmore",
        "> said\n---",
        "a | b\n--|--\nc | d",
        "    code\n---",
        "```\nnever closed\n# no",
        "\\# escaped",
    ],
)
def test_what_only_looks_like_a_heading(text):
    assert set(paths(text)) == {()}


def test_after_a_fence_headings_count_again():
    assert paths("```\n# no\n```\n# yes\ntext") == [(), ("yes",)]


def test_a_heading_without_text_is_not_lost():
    assert texts("# Only") == ["# Only"]
    assert texts("# One\n\n# Two\ntext") == ["# One", "# Two\ntext"]
    [chunk] = chunks("# Project\n\n## Decisions\n\n### Cache\nread-through")
    assert chunk.heading == ("Project", "Decisions", "Cache")
    assert chunk.text.startswith("# Project\n\n## Decisions")


def test_lines_and_positions_count_from_the_beginning_of_the_file():
    text = "---\r\nid: x\r\n---\r\n\r\n# A\r\none\r\n"
    [chunk] = chunks(text, text.index("\r\n\r\n") + 2)
    assert (chunk.first_line, chunk.last_line) == (5, 6)
    assert text[chunk.start : chunk.end] == "# A\r\none"


# --- long sections ------------------------------------------------------------------------------


def test_paragraphs_stay_whole_where_they_fit():
    one, two, three = "a" * 60, "b" * 30, "c" * 50
    assert texts(f"{one}\n\n{two}\n\n{three}", 100) == [f"{one}\n\n{two}", three]


def test_code_and_tables_stay_whole_where_they_fit():
    code = "```\n" + "x = 1\n\n" * 9 + "```"
    table = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 6
    text = f"{'word ' * 12}\n\n{code}\nthe table. It is here.\n{table}"
    found = texts(text, 100)
    assert any(code in piece for piece in found)
    assert table.strip() in found
    assert texts(f"# A\n\n{code}", len(code) + 2) == ["# A", code]


def test_code_that_does_not_fit_is_cut_between_lines():
    code = "```\n" + "".join(f"line number {n}. done\n" for n in range(40)) + "```"
    found = texts(code, 100)
    assert all(line.startswith(("line", "```")) for piece in found for line in piece.splitlines())


def test_a_long_paragraph_is_cut_after_sentences_then_words_then_graphemes():
    assert texts("One two. Three v2.0 four. Five six seven", 30) == [
        "One two. Three v2.0 four.",
        "Five six seven",
    ]
    assert texts("我们决定用缓存。为什么呢？因为写得太慢了。", 12) == [
        "我们决定用缓存。",
        "为什么呢？",
        "因为写得太慢了。",
    ]
    assert texts("alpha beta gamma delta", 12) == ["alpha beta", "gamma delta"]
    assert texts("- one\n- two\n- three four", 12) == ["- one\n- two", "- three four"]
    family = "👩‍👩‍👧‍👦"
    assert texts(family * 3, 2 * len(family) + 3) == [family * 2, family]
    assert texts("z" * 25, 10) == ["z" * 10, "z" * 10, "z" * 5]


def test_a_heading_goes_with_the_beginning_of_a_text_that_is_too_long():
    found = texts("# Title\n\n" + "Some words. " * 40, 100)
    assert found[0].startswith("# Title\n\nSome words.")
    assert len(found) > 4


def test_a_heading_can_itself_be_too_long():
    found = chunks("# " + "word " * 1000 + "\n\nbody")
    assert max(len(chunk.text) for chunk in found) <= LIMIT
    assert {len(chunk.heading[0]) for chunk in found} == {199}


@pytest.mark.parametrize(
    "text",
    [
        "x" * 3_000_000,
        "." * 1_000_000,
        "語" * 1_000_000,
        "# " * 500_000,
        "`" * 1_000_000,
        "- " * 500_000,
        "|-" * 500_000,
        "a\n" * 300_000,
        "\n" * 1_000_000,
        " " * 1_000_000,
        "# a\n" * 100_000,
        "e" + "\u0301" * 500_000,
    ],
    ids=lambda text: repr(text[:3]),
)
def test_no_text_takes_long(text):
    begun = time.process_time()
    chunks(text)
    assert time.process_time() - begun < 5
