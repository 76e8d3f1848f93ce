"""What a caller says of one call travels in headers, whatever its characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_chat.calls import MAX_VALUE, Call, call_of, is_own, per_call
from rawthink_core.errors import InvalidRequest

NAMES = st.text(min_size=1, max_size=20).filter(
    lambda t: t == t.strip() and t.isprintable() and max(t) < "\ud800"
)


@given(NAMES, NAMES, st.sampled_from([None, True, False, "off", "on"]), st.sampled_from([None, True, False]))
def test_what_is_said_is_what_arrives(session, speaker, remember, recall):
    headers = per_call(session=session, speaker=speaker, remember=remember, recall=recall)
    for value in headers.values():
        assert value.isascii()
        assert value.isprintable()
    call = call_of(headers.items())
    said = {True: "yes", False: "no"}.get(remember, remember)
    assert call == Call(session=session, speaker=speaker, remember=said, recall=recall)


def test_only_our_headers_are_read():
    assert call_of([("Authorization", "x"), ("x-rawthink-session", "a%20b")]) == Call(session="a b")
    assert is_own("X-RAWThink-Space")
    assert not is_own("x-raw")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("X-RAWThink-Sesion", "a", "X-RAWThink-Session"),
        ("X-RAWThink-Remember", "maybe", "yes, no, off, on"),
        ("X-RAWThink-Session", "", "1 to 1024"),
        ("X-RAWThink-Session", "a" * (MAX_VALUE + 1), "1 to 1024"),
        ("X-RAWThink-Speaker", "a%0D%0Ab", "printable"),
        ("X-RAWThink-Speaker", "%ff", "UTF-8"),
    ],
)
def test_a_header_that_can_not_be_meant_is_refused_by_name(name, value, says):
    with pytest.raises(InvalidRequest, match=name) as refused:
        call_of([(name, value)])
    assert says in str(refused.value)


def test_a_header_counts_once():
    with pytest.raises(InvalidRequest, match="twice"):
        call_of([("X-RAWThink-Session", "a"), ("x-rawthink-session", "b")])


def test_a_call_is_completed_by_another():
    assert Call(session="a", recall=False).over(Call("s", "b", recall=True)) == Call("s", "a", recall=False)
