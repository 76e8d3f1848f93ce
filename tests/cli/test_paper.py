"""Text for terminals: widths, breaks, and nothing that steers the reader's screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_cli import paper


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("缓存", 4), ("é", 1), ("e\u0301", 1), ("", 0), ("ﬁ", 1), ("한글", 4), ("a\u200db", 2)],
)
def test_width_counts_columns(text, columns):
    assert paper.width(text) == columns


def test_chinese_breaks_between_characters_but_not_before_a_comma():
    lines = paper.wrap("一二三四五六七八九，十", 18)
    assert lines == ["一二三四五六七八", "九，十"]
    assert all(paper.width(line) <= 18 for line in lines)


def test_words_break_at_spaces_and_long_ones_stay_whole():
    link = "https://example.org/" + "x" * 100
    assert paper.wrap(f"see {link} there", 20) == ["see", link, "there"]


def test_continuation_lines_are_indented_under_the_first():
    assert paper.wrap("aa bb cc", 7, "1. ") == ["1. aa", "   bb", "   cc"]


def test_own_indentation_and_empty_lines_of_a_text_stay():
    assert paper.wrap("def f():\n\n    return 1", 80, "- ") == ["- def f():", "", "      return 1"]


def test_control_characters_are_shown_and_line_breaks_kept():
    assert paper.safe("a\x1b[31m\r\nb\x00\x9b\u2028") == "a\\x1b[31m\nb\\x00\\x9b\\u2028"
    assert paper.one_line("a\nb\t c") == "a b c"


def test_cut_ends_in_an_ellipsis_and_fits():
    assert paper.cut("缓存缓存缓存", 7) == "缓存缓…"
    assert paper.cut("short", 7) == "short"


def test_tables_align_in_any_script():
    assert paper.table([["缓存", "x"], ["abcdef", "y"]]) == ["缓存    x", "abcdef  y"]


@given(st.text(), st.integers(10, 80))
def test_nothing_but_spaces_is_lost_in_wrapping(text, columns):
    shown = "".join(paper.safe(text).split())
    assert "".join("".join(paper.wrap(text, columns)).split()) == shown


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_safe_text_holds_no_control_character(text):
    assert all(char in "\n\t" or char.isprintable() or not ord(char) < 32 for char in paper.safe(text))
