"""What a streamed answer says and how it ends, chunk by chunk, for chat completions and responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_chat import following
from rawthink_chat.following import Change, ChatFollower, ResponsesFollower, reply_edits
from rawthink_core.injected import CLOSER, HEADER, OPENER

BLOCK = f"{OPENER}\n{HEADER}\n- [2025-01-15] likes tea\n{CLOSER}"


def chunk(content=None, *, index=0, reason=None, **delta):
    delta |= {} if content is None else {"content": content}
    return {"id": "x", "model": "m", "choices": [{"index": index, "delta": delta, "finish_reason": reason}]}


def chat(*chunks):
    follower = ChatFollower()
    changes = [follower.follow(one) for one in chunks]
    return follower, changes, follower.finish()


def test_chunks_without_choices_or_content_are_left_alone():
    usage = {"prompt_tokens": 1, "total_tokens": 3}
    follower, changes, rest = chat(
        {"id": "x", "choices": [], "prompt_filter_results": []},
        chunk("", role="assistant"),
        chunk("Hel"),
        chunk("lo"),
        {"id": "x", "choices": [{}]},
        {"id": "x", "choices": None},
        chunk(reason="stop"),
        {"id": "x", "choices": [], "usage": usage},
    )
    assert changes == [Change()] * 8
    assert rest == ()
    reply = follower.reply
    assert (reply.text, reply.outcome, reply.id, reply.usage) == ("Hello", "complete", "x", usage)


def test_a_block_is_taken_out_of_each_choice_by_itself():
    follower, changes, _ = chat(
        chunk("A <memory"),
        chunk(f"{BLOCK}\nR", index=1),
        chunk(" is"),
        chunk(index=1, reason="stop"),
        chunk(" it.", reason="stop"),
    )
    assert [change.edits for change in changes] == [
        {("choices", 0, "delta", "content"): "A "},
        {("choices", 0, "delta", "content"): ""},
        {("choices", 0, "delta", "content"): "<memory is"},
        {},
        {},
    ]
    assert changes[3].before == (chunk("R", index=1),)
    assert {index: reply.text for index, reply in follower.replies.items()} == {0: "A <memory is it.", 1: "R"}


def test_what_was_held_back_comes_before_the_end_or_when_the_stream_breaks_off():
    _, changes, rest = chat(chunk("a <mem"), chunk(reason="stop"))
    assert (changes[1].before, rest) == ((chunk("<mem"),), ())
    _, changes, _ = chat(chunk("a <mem"), chunk("", reason="stop"))
    assert changes[1].edits == {("choices", 0, "delta", "content"): "<mem"}
    follower, _, rest = chat(chunk("a <mem"))
    assert rest == (chunk("<mem"),)
    assert (follower.reply.text, follower.reply.outcome) == ("a <mem", "interrupted")


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        (chunk(reason="length"), "interrupted"),
        (chunk(reason="content_filter"), "filtered"),
        (chunk(refusal="I can't", reason="stop"), "refused"),
        (chunk(tool_calls=[{"index": 0}], reason="tool_calls"), "tools"),
        (chunk(function_call={"arguments": "{}"}, reason="function_call"), "tools"),
    ],
)
def test_a_streamed_completion_says_how_it_ended(last, outcome):
    assert chat(chunk("Hel"), last)[0].reply.outcome == outcome


def delta(text, output=0, part=0, **more):
    return {
        "type": "response.output_text.delta",
        "output_index": output,
        "content_index": part,
        "delta": text,
        **more,
    }


def ended(text, kind="response.completed", **more):
    output = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
    return {"type": kind, "response": {"id": "r1", "status": "completed", "output": output, **more}}


def test_a_response_is_followed_and_its_repetitions_are_stripped_too():
    follower = ResponsesFollower()
    whole = f"{BLOCK}\nHello <"
    part = {"type": "output_text", "text": whole}
    events = [
        {"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}},
        delta(f"{BLOCK}\nHel", sequence_number=4),
        delta("lo <", sequence_number=5),
        {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": whole},
        {"type": "response.content_part.done", "output_index": 0, "content_index": 0, "part": part},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"type": "message", "content": [part]},
        },
        ended(whole, usage={"total_tokens": 3}),
    ]
    changes = [follower.follow(event) for event in events]
    assert [change.edits for change in changes] == [
        {},
        {("delta",): "Hel"},
        {("delta",): "lo "},
        {("text",): "Hello <"},
        {("part", "text"): "Hello <"},
        {("item", "content", 0, "text"): "Hello <"},
        {("response", "output", 0, "content", 0, "text"): "Hello <"},
    ]
    assert [change.before for change in changes if change.before] == [(delta("<", sequence_number=5),)]
    assert follower.finish() == ()
    reply = follower.reply
    assert (reply.text, reply.outcome, reply.id, reply.usage) == (
        "Hello <",
        "complete",
        "r1",
        {"total_tokens": 3},
    )


def test_a_response_that_breaks_off_or_only_calls_tools_is_told_apart():
    follower = ResponsesFollower()
    follower.follow(delta("b", output=1))
    follower.follow(delta("a <"))
    assert follower.finish() == (delta("<"),)
    assert (follower.reply.text, follower.reply.outcome) == ("a <\nb", "interrupted")
    follower.follow({"type": "response.output_item.done", "item": {"type": "function_call"}})
    follower.follow(ended(""))
    assert follower.reply.outcome == "tools"
    failed = ResponsesFollower()
    failed.follow(delta("a"))
    failed.follow({"type": "response.failed", "response": {"id": "r", "status": "failed", "output": []}})
    assert (failed.reply.text, failed.reply.outcome) == ("a", "interrupted")


def test_an_answer_that_is_too_long_to_keep_goes_on_and_counts_as_cut_off(monkeypatch):
    monkeypatch.setattr(following, "MAX_REPLY", 10)
    follower, changes, _ = chat(*[chunk("word ")] * 4, chunk(reason="stop"))
    assert changes == [Change()] * 5
    assert (len(follower.reply.text), follower.reply.outcome) == (10, "interrupted")
    response = ResponsesFollower()
    response.follow(ended("word " * 4))
    assert response.reply.outcome == "interrupted"


def test_choices_beyond_the_bound_are_not_followed_and_still_scrubbed(monkeypatch):
    monkeypatch.setattr(following, "MAX_TEXTS", 1)
    follower, changes, _ = chat(chunk("a"), chunk(f"{BLOCK}\nb", index=1))
    assert changes[1].edits == {("choices", 0, "delta", "content"): "b"}
    assert list(follower.replies) == [0]
    response = ResponsesFollower()
    assert [response.follow(delta(f"{BLOCK}\nb", output=n)).edits for n in (0, 1)] == [{("delta",): "b"}] * 2


def test_a_whole_reply_is_stripped_in_place():
    message = {"role": "assistant", "content": f"{BLOCK}\nHi"}
    assert reply_edits({"choices": [{"message": message}]}) == {("choices", 0, "message", "content"): "Hi"}
    assert reply_edits(ended(f"{BLOCK}\nHi")["response"]) == {("output", 0, "content", 0, "text"): "Hi"}
    assert reply_edits({"choices": [{"message": {"content": "Hi"}}]}) == {}


KEYS = (
    "type choices index delta content finish_reason output_index content_index text part item response output"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS.split()),
            inner
            | st.sampled_from(["response.output_text.delta", "response.completed", "output_text", BLOCK]),
            max_size=5,
        )
    ),
    max_leaves=14,
)


@given(st.lists(JSON, max_size=4))
def test_no_chunk_raises(chunks):
    for follower in (ChatFollower(), ResponsesFollower()):
        for one in chunks:
            follower.follow(one)
        follower.finish()
        assert isinstance(follower.reply.text, str)
