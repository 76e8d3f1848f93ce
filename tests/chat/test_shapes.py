"""Requests and replies of every shape: where the question is, whether tools are at work, what was answered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_chat.shapes import (
    Reply,
    as_mapping,
    as_messages,
    completion_reply,
    continues_tools,
    input_messages,
    question_at,
    response_reply,
    session_of,
)

CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "3 °C"}
ASK = {"role": "user", "content": "How cold is it?"}
KEYS = "role content type text choices message delta index output response id usage status"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS.split()),
            inner | st.sampled_from(["user", "assistant", "tool", "message", "completed", "output_text"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


class Held:
    """An object as the `openai` package returns them."""

    def __init__(self, **fields):
        self.fields = fields

    def model_dump(self, *, warnings=True):
        assert not warnings
        return self.fields


@pytest.mark.parametrize(
    ("messages", "at", "tools"),
    [
        ([], None, False),
        ([ASK], 0, False),
        ([{"role": "developer", "content": "x"}, ASK], 1, False),
        ([{"role": "system", "content": "x"}, {"role": "assistant", "content": "y"}], None, False),
        ([ASK, CALL, RESULT], 0, True),
        ([ASK, CALL, RESULT, {"role": "assistant", "content": "3"}, ASK], 4, False),
        (
            [ASK, {"role": "assistant", "function_call": {"name": "f"}}, {"role": "function", "name": "f"}],
            0,
            True,
        ),
        ([{"role": "user", "content": [{"type": "tool_result", "content": "3"}]}], 0, True),
        ([ASK, {"type": "function_call", "call_id": "c1"}, {"type": "function_call_output"}], 0, True),
        ([{"type": "function_call_output", "call_id": "c1"}], None, True),
        ([ASK, {"role": "assistant", "content": "It is"}], 0, False),
        ([None, 7, "user", {"role": ["user"]}, {}], None, False),
        ([Held(role="user", content="hi"), Held(**CALL)], 0, True),
    ],
)
def test_the_question_is_the_last_message_of_the_user_and_tools_may_be_at_work_on_it(messages, at, tools):
    assert (question_at(messages), continues_tools(messages)) == (at, tools)


def test_a_string_is_a_message_and_what_is_no_list_is_none():
    assert input_messages("hi") == [{"role": "user", "content": "hi"}]
    assert [as_messages(odd) for odd in ("text", b"x", {"role": "user"}, None, 7)] == [[]] * 5
    assert as_messages(iter([ASK])) == [ASK]


def completion(message, reason="stop", **more):
    return {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": reason}], **more}


@pytest.mark.parametrize(
    ("message", "reason", "text", "outcome"),
    [
        ({"content": "It is cold."}, "stop", "It is cold.", "complete"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}, "stop", "a", "complete"),
        ({"content": "It is"}, "length", "It is", "interrupted"),
        ({"content": "It is"}, None, "It is", "interrupted"),
        ({"content": "It"}, "content_filter", "It", "filtered"),
        ({"content": None, "refusal": "I can't"}, "stop", "", "refused"),
        ({"content": "One moment", "tool_calls": [{}]}, "tool_calls", "One moment", "tools"),
        ({"content": None, "tool_calls": [{}]}, "stop", "", "tools"),  # how a forced call ends
        ({"content": None, "function_call": {}}, "function_call", "", "tools"),
        ({"content": None}, "stop", "", "empty"),
        ({}, "stop", "", "empty"),
        (None, ["stop"], "", "interrupted"),
    ],
)
def test_a_completion_says_how_it_ended(message, reason, text, outcome):
    reply = completion_reply(completion(message, reason))
    assert (reply.text, reply.outcome) == (text, outcome)


def test_of_several_choices_the_first_complete_one_counts():
    choices = [
        {"index": 2, "message": {"content": "third"}, "finish_reason": "stop"},
        {"index": 0, "message": {"content": "fir"}, "finish_reason": "length"},
        {"index": 1, "message": {"content": "second"}, "finish_reason": "stop"},
    ]
    assert completion_reply({"choices": choices}).text == "second"
    assert completion_reply({"choices": choices[1:2]}).text == "fir"
    assert completion_reply({"choices": [], "usage": {"total_tokens": 3}}) == Reply(usage={"total_tokens": 3})


def said(*parts):
    return {"type": "message", "role": "assistant", "content": list(parts)}


@pytest.mark.parametrize(
    ("body", "text", "outcome"),
    [
        ({"status": "completed", "output": [said({"type": "output_text", "text": "Hi"})]}, "Hi", "complete"),
        (
            {
                "status": "completed",
                "output": [
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                    {"type": "web_search_call", "status": "completed"},
                    said({"type": "output_text", "text": "Hi"}),
                ],
            },
            "Hi",
            "complete",
        ),
        (
            {
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
                "output": [said({"type": "output_text", "text": "H"})],
            },
            "H",
            "interrupted",
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "", "filtered"),
        ({"status": "completed", "output": [{"type": "function_call"}]}, "", "tools"),
        ({"status": "completed", "output": [said({"type": "refusal", "refusal": "no"})]}, "", "refused"),
        ({"status": "failed", "error": {"code": "server_error"}}, "", "interrupted"),
        ({"status": "in_progress", "output": None}, "", "interrupted"),
        ({}, "", "interrupted"),
    ],
)
def test_a_response_says_how_it_ended(body, text, outcome):
    reply = response_reply(body)
    assert (reply.text, reply.outcome) == (text, outcome)


def test_a_session_is_what_the_request_names():
    assert session_of({"conversation": "conv_1", "metadata": {"session_id": "s"}}) == "conv_1"
    assert session_of({"conversation": {"id": "conv_2"}}) == "conv_2"
    assert session_of({"conversation": None, "metadata": {"thread_id": "t"}}) == "t"
    assert [session_of(body) for body in ({}, {"metadata": "x"}, {"conversation": {"id": " "}})] == [None] * 3


@given(JSON)
def test_no_shape_raises(value):
    assert isinstance(completion_reply(value).outcome, str)
    assert isinstance(response_reply(value).outcome, str)
    assert question_at(as_messages(value)) is None or continues_tools(as_messages(value)) in (True, False)
    session_of(as_mapping(value))
