"""Front matter: where it is, what it says, and how a note gets one."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rawthink_core.vault.frontmatter import quoted, read, write


def body(text):
    return text[read(text).end :]


def test_values_stay_as_they_are_written():
    head = read(
        "---\nid: 007\nTitle: yes\ndate: 2026-01-05\ntags: [work, 2026, 'a, b', work]\nempty:\n---\nBody\n"
    )
    assert (head.text("id"), head.text("title"), head.text("empty")) == ("007", "yes", None)
    assert head.words("tags") == ("work", "2026", "a, b")
    assert head.problem is None


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("---\na: b\n---\nBody", "Body"),
        ("---\r\na: b\r\n---\r\nBody\r\n", "Body\r\n"),
        ("--- \na: b\n---  \nBody", "Body"),
        ("---\na: b\n---", ""),
        ("---\n---\nBody", "Body"),
        ('---\ntitle: "one --- two"\n---\nBody\n---\nmore', "Body\n---\nmore"),
        ("---\ntitle: one\n  ---\n---\nBody", "Body"),
        ("---\na: b\n---\n\n---\nc: d\n---\nBody", "\n---\nc: d\n---\nBody"),
    ],
)
def test_it_stands_between_two_lines_at_the_beginning(text, rest):
    assert body(text) == rest
    assert read(text).problem is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Body",
        "\n---\na: b\n---\n",
        " ---\na: b\n---\n",
        "----\na: b\n----\n",
        "---\n\nJust a rule above.\n\n---\nMore",
        "---\nno end",
        "---\n- a\n- b\n---\n",
        "---\n" + "a: b\n" * 20_000 + "---\n",
    ],
)
def test_what_is_no_front_matter_is_text(text):
    assert body(text) == text


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("title: *Italic* plan", "line 2"),
        ("title: x\npath: C:\\agent\\x: y", "line 3"),
        ("tags:\n\t- one", "line 3"),
        ("related:\n  - [[Atlas]]s", "line 3"),
        ("date: {{date}}", "unhashable"),
        ("a: " + "[" * 20_000, "nesting"),
        ("a: \x07", "control"),
        ("title: never closed", "closing"),
    ],
)
def test_what_is_no_yaml_is_text_and_says_why(block, why):
    text = f"---\n{block}\n" + ("" if why == "closing" else "---\n") + "Body"
    assert body(text) == text
    assert why in read(text).problem


def test_a_name_that_stands_twice_is_said():
    head = read("---\ntags: [a]\ntags: [b]\n---\n")
    assert head.words("tags") == ("b",)
    assert "tags more than once" in head.problem


def test_references_within_a_block_blow_nothing_up():
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [f"{c}: &{c} [{','.join([f'*{b}'] * 9)}]" for b, c in zip("abcdefgh", "bcdefghi", strict=True)]
    head = read("---\n" + "\n".join(lines) + "\n---\n")
    assert head.words("i") == ()
    assert head.text("i") is None


@pytest.mark.parametrize(
    ("said", "tags"),
    [
        ("a, b c", ("a", "b c")),
        ("a b", ("a", "b")),
        ("'#a'", ("a",)),
        ("[a, [b], {c: d}, '', ~]", ("a",)),
        ("", ()),
    ],
)
def test_tags_are_a_list_or_a_text(said, tags):
    assert read(f"---\ntags: {said}\n---\n").words("tags") == tags


@pytest.mark.parametrize(
    ("said", "time"),
    [
        ("2026-01-05", date(2026, 1, 5)),
        ('"2026-01-05"', date(2026, 1, 5)),
        ("2026-01-05 09:00:00+08:00", datetime(2026, 1, 5, 9, tzinfo=timezone(timedelta(hours=8)))),
        ("2026-01-05T09:00:00Z", datetime(2026, 1, 5, 9, tzinfo=UTC)),
        ("2026-01-05, in the evening", date(2026, 1, 5)),
        ("2026-13-45", None),
        ("yesterday", None),
        ("[2026-01-05]", None),
    ],
)
def test_a_date_is_read_as_people_write_it(said, time):
    assert read(f"---\ndate: {said}\n---\n").time("date") == time


def test_it_is_written_as_rawthink_mcp_writes_it():
    fields = {
        "id": "qnote_2026-01-05_101112",
        "date": "2026-01-05",
        "tags": ("a b", 'c"d'),
        "session_ref": "s",
    }
    assert write(fields) == (
        '---\nid: "qnote_2026-01-05_101112"\ndate: 2026-01-05\ntags: ["a b", "c\\"d"]\nsession_ref: "s"\n---\n'
    )


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_quotes(text):
    assert yaml.load(quoted(text), Loader=yaml.SafeLoader) == text
    assert read(write({"x": text, "y": (text,)})).fields == {"x": text, "y": [text]}


@given(st.text(st.sampled_from("-\n\r: abc[]{}'\"\t#&*!|>")))
def test_any_text_can_be_read(text):
    head = read(text)
    assert 0 <= head.end <= len(text)
    head.text("a"), head.words("a"), head.time("a")
