"""A stream of bytes goes through as it is, but for the block; cut anywhere, ended in any way."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rawthink_chat.following import ChatFollower, ResponsesFollower
from rawthink_chat.sse import EventReader
from rawthink_chat.streaming import StreamRewriter, scrubbed_body
from rawthink_core.injected import CLOSER, HEADER, OPENER, strip_memory_context

BLOCK = f"{OPENER}\n{HEADER}\n- [2025-01-15] [张三] 喜欢用 Rust\n{CLOSER}"
DONE = b"data: [DONE]\n\n"


def chunk(content, index=0, reason=None):
    choice = {"index": index, "delta": {"content": content}, "finish_reason": reason}
    return json.dumps({"id": "x", "choices": [choice], "cost": 1.50}, ensure_ascii=False)


def sent(*chunks, end="\n\n"):
    return "".join(f"data: {one}{end}" for one in chunks).encode()


def rewritten(*pieces, follower=None):
    rewriter = StreamRewriter(follower or ChatFollower())
    return b"".join([*map(rewriter.feed, pieces), rewriter.finish()]), rewriter


def contents(stream, index=0):
    """Return what a client reads of one choice."""
    reader = EventReader()
    events = [event.data for event in [*reader.feed(stream), *reader.finish()] if event.data]
    choices = [c for data in events if data != "[DONE]" for c in json.loads(data).get("choices", ())]
    return "".join(c["delta"].get("content") or "" for c in choices if c["index"] == index)


CLEAN = (
    b": keep-alive\n\n"
    + sent('{"id":"x","choices":[],"prompt_filter_results":[]}', end="\r\n\r\n")
    + sent(chunk("你好 🙂 <"), chunk("b> & R"), chunk("ust", 1), '{"choices":[{"delta":{"content":null}}]}')
    + b"event: odd\ndata: {not json\n\n"
    + sent(chunk("", 0, "stop"), '{"choices":[],"usage":{"total_tokens":3}}')
    + DONE
)


def test_a_stream_without_blocks_keeps_each_byte_of_what_is_not_held_back():
    out, rewriter = rewritten(CLEAN)
    assert out == CLEAN.replace(b' <"', b' "').replace(b'"b> & R"', b'"<b> & R"')
    assert rewriter.done
    assert (rewriter.reply.text, rewriter.reply.usage) == ("你好 🙂 <b> & R", {"total_tokens": 3})
    assert rewriter.reply.outcome == "complete"


@given(st.lists(st.integers(0, len(CLEAN)), max_size=10))
def test_the_bytes_are_the_same_wherever_the_network_cut_them(places):
    ends = [0, *sorted(places), len(CLEAN)]
    out, _ = rewritten(*(CLEAN[a:b] for a, b in pairwise(ends)))
    assert out == rewritten(CLEAN)[0]


@settings(max_examples=60)
@given(st.lists(st.integers(0, 200), max_size=8), st.sampled_from([DONE, b"", DONE + DONE]), st.booleans())
def test_a_block_in_the_answer_is_not_in_what_the_client_reads(places, end, finished):
    text = f"Sure <b>.\n{BLOCK}\nThe answer is 42 <"
    ends = [0, *sorted(place % len(text) for place in places), len(text)]
    chunks = [chunk(text[a:b]) for a, b in pairwise(ends)]
    out, rewriter = rewritten(sent(*chunks, *[chunk("", 0, "stop")] * finished) + end)
    assert contents(out) == strip_memory_context(text)
    assert out.endswith(end)
    assert "喜欢" not in out.decode()
    assert rewriter.reply.text == strip_memory_context(text)
    assert rewriter.reply.outcome == ("complete" if finished else "interrupted")


def test_in_an_event_that_changes_only_the_text_changes():
    raw = b'event: e\r\ndata: {"choices": [{"index":0,\r\ndata:  "delta":{"content" : "a <", "x":1.0}}]}\r\nid: 7\r\n\r\n'
    assert StreamRewriter(ChatFollower()).feed(raw) == raw.replace(b'"a <"', b'"a "')


def test_an_upstream_that_closes_in_mid_event_is_passed_on_as_it_broke():
    torn = b'data: {"choices": [{"ind'
    out, rewriter = rewritten(sent(chunk("a <")) + torn)
    assert out.startswith(sent(chunk("a ")) + torn + b"\n\ndata: ")
    assert out.count(b'"<"') == 1
    assert rewriter.reply.outcome == "interrupted"


@pytest.mark.parametrize(
    "stream", [b"", b"<html>502</html>", b"data: [1]\n\ndata: null\n\n", b"\xff\xfe\n\n\n"]
)
def test_what_is_no_stream_of_ours_goes_through(stream):
    assert rewritten(stream)[0] == stream


def test_the_events_of_a_response_keep_their_names():
    def event(kind, **fields):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, ensure_ascii=False)}\n\n"

    at = {"output_index": 0, "content_index": 0}
    stream = [
        event("response.output_text.delta", **at, delta=f"{BLOCK}\nHi <"),
        event("response.output_text.done", **at, text=f"{BLOCK}\nHi <"),
        event("response.completed", response={"id": "r", "status": "completed", "output": []}),
    ]
    out, rewriter = rewritten("".join(stream).encode(), follower=ResponsesFollower())
    want = [
        event("response.output_text.delta", **at, delta="Hi "),
        event("response.output_text.delta", **at, delta="<"),
        event("response.output_text.done", **at, text="Hi <"),
        stream[2],
    ]
    assert out.decode() == "".join(want)
    assert (rewriter.reply.text, rewriter.reply.outcome) == ("Hi <", "complete")


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[1]", b'{"choices":[{"message":{"content":"Hi"}}]}', b"\xff{}"]
)
def test_a_body_without_a_block_is_the_very_same(body):
    assert scrubbed_body(body) is body


def test_a_body_loses_the_block_and_nothing_else():
    text = json.dumps(f"{BLOCK}\nHi")
    body = f'{{ "choices":[ {{"message":{{"content":{text}}}, "x":1.50}}] }}'.encode()
    assert scrubbed_body(body) == b'{ "choices":[ {"message":{"content":"Hi"}, "x":1.50}] }'
