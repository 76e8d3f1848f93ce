"""Server-sent events, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rawthink_chat.sse import Event, EventReader, encode


def read(pieces, **options):
    reader = EventReader(**options)
    return [*(event for piece in pieces for event in reader.feed(piece)), *reader.finish()]


STREAM = (
    ": keep-alive\n\n"
    "data: one\n\n"
    "event: response.created\r\ndata: {\r\ndata:  1}\r\nid: 7\r\n\r\n"
    "data:\rdata:\rretry: 5\r\r"
    "\n"
    "data: 你好 🙂\n\ndata: [DONE]\n\ndata: to"
).encode()
TOLD = [("", "one"), ("response.created", "{\n 1}"), ("", "\n"), ("", "你好 🙂"), ("", "[DONE]"), ("", "to")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_are_the_same_wherever_the_bytes_are_cut(places):
    ends = [0, *sorted(places), len(STREAM)]
    events = read(STREAM[a:b] for a, b in pairwise(ends))
    assert [(event.name, event.data) for event in events if event.data is not None] == TOLD
    assert b"".join(event.raw for event in events) == STREAM


def test_byte_by_byte_an_event_comes_with_the_end_of_its_blank_line():
    reader = EventReader()
    assert [len(reader.feed(bytes([byte]))) for byte in b"data: a\r\n\r\n"] == [0] * 9 + [1, 1]
    assert reader.feed(b"data: b\n\n")[-1].data == "b"


@given(st.binary(max_size=60) | st.text("data: \r\n{}x", max_size=40).map(str.encode), st.integers(1, 7))
def test_no_byte_is_lost_or_added(stream, size):
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert b"".join(event.raw for event in read(pieces)) == stream
    assert b"".join(event.raw for event in read(pieces, limit=10)) == stream


def test_an_event_beyond_the_bound_goes_on_in_pieces_without_being_read():
    events = read([b"data: " + b"x" * 90, b"y" * 90 + b"\n", b"\ndata: next\n\n"], limit=50)
    assert [event.data for event in events] == [None, None, None, "next"]


def test_a_mark_at_the_beginning_of_the_stream_is_no_part_of_a_field():
    (event,) = read([b"\xef\xbb\xbfdata: a\n\n"])
    assert (event.data, event.with_data("b")) == ("a", b"\xef\xbb\xbfdata: b\n\n")


def test_other_data_takes_the_place_of_the_old_and_the_rest_of_the_event_stays():
    raw = b"event: e\r\n: note\r\ndata:{\r\ndata: 1}\r\nid: 7\r\n\r\n"
    (event,) = read([raw])
    assert event.with_data(event.data) == raw
    assert event.with_data("[\n2]") == raw.replace(b"{", b"[").replace(b"1}", b"2]")


def test_an_event_of_our_own():
    assert encode({"a": "é\n"}) == b'data: {"a": "\\u00e9\\n"}\n\n'
    assert Event(encode({}, "x")).raw == b"event: x\ndata: {}\n\n"
