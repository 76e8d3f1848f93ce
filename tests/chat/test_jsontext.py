"""Strings are changed in JSON that otherwise keeps each character."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_chat.jsontext import read_json, span_of, splice, value_at

TEXT = ' {"a" : [1.0, {"t":"x\\u00e9"} , -0e5], "b":{ "t" : "y" }, "a b": null, "n":{}, "e":[ ]} '


@pytest.mark.parametrize(
    ("edits", "old", "new"),
    [
        ({}, "", ""),
        ({("a", 1, "t"): 'q"'}, '"x\\u00e9"', '"q\\""'),
        ({("b", "t"): ""}, '"y"', '""'),
        ({("b", "u"): "nowhere", ("a", 7): "nowhere", ("n", "x"): "nowhere"}, "", ""),
    ],
)
def test_only_the_named_strings_change(edits, old, new):
    assert splice(TEXT, edits) == TEXT.replace(old, new)


def test_of_a_key_that_stands_twice_each_reader_sees_the_new_text():
    assert (
        splice('{"a":1,"a":{"t":"x"},"a":{"t":"y"}}', {("a", "t"): "z"})
        == '{"a":1,"a":{"t":"z"},"a":{"t":"z"}}'
    )


VALUES = st.recursive(
    st.text(max_size=4) | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_every_string_can_be_changed_in_any_json(value, indent, ascii_only):
    def strings(at, path):
        if isinstance(at, str):
            yield path
        inside = at.items() if isinstance(at, dict) else enumerate(at) if isinstance(at, list) else ()
        for step, inner in inside:
            yield from strings(inner, (*path, step))

    def changed(at):
        if isinstance(at, dict):
            return {key: changed(inner) for key, inner in at.items()}
        if isinstance(at, list):
            return [changed(inner) for inner in at]
        return "new" if isinstance(at, str) else at

    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert json.loads(splice(text, dict.fromkeys(strings(value, ()), "new"))) == changed(value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[DONE]", '{"a":1} x'])
def test_what_is_no_json_says_nothing(text):
    assert read_json(text) is None


@given(VALUES, st.sampled_from([None, 2]))
def test_every_value_is_found_where_it_stands(value, indent):
    def places(at, path):
        yield path, at
        inside = at.items() if isinstance(at, dict) else enumerate(at) if isinstance(at, list) else ()
        for step, inner in inside:
            yield from places(inner, (*path, step))

    text = json.dumps(value, indent=indent)
    for path, inner in places(value, ()):
        start, end = span_of(text, path)
        assert json.loads(text[start:end]) == value_at(text, start) == inner
    assert span_of(text, ("nowhere", 0)) is None
