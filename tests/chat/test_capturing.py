"""What of a request and its answer is remembered, and under which key."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_chat.capturing import Thread, Threads, capture, capture_response, derived_session
from rawthink_chat.shapes import Reply
from rawthink_core.injected import CLOSER, HEADER, OPENER
from rawthink_core.turns import passage_of_turn

BLOCK = f"{OPENER}\n{HEADER}\n- [2025-01-15] likes tea\n{CLOSER}"
ASK = {"role": "user", "content": "How cold is it?"}
CALL = {"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "c1", "type": "function"}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "3 °C"}
COLD = Reply("3 °C.", "stop", id="r1")


def stored(turn, **more):
    passage = passage_of_turn(session="s", **turn.arguments(), **more)
    return passage and passage.text


@pytest.mark.parametrize(
    ("messages", "reply", "outcome", "text"),
    [
        ([ASK], "3 °C.", "complete", "[user] How cold is it?\n[me] 3 °C."),
        ([ASK, CALL, RESULT], COLD, "complete", "[user] How cold is it?\n[me] 3 °C."),
        ([{**ASK, "name": "bob"}], COLD, "complete", "[bob] How cold is it?\n[me] 3 °C."),
        (
            [{"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url"}]}],
            COLD,
            "complete",
            "[user] Look\n[me] 3 °C.",
        ),
        ([{"role": "user", "content": BLOCK}, ASK], COLD, "complete", "[user] How cold is it?\n[me] 3 °C."),
        ([ASK], Reply(f"{BLOCK}\n3 °C.", "stop"), "complete", "[user] How cold is it?\n[me] 3 °C."),
        ([ASK], Reply("\ud83d\ude42", "stop"), "complete", "[user] How cold is it?\n[me] 🙂"),
        ([ASK], Reply("3", None), "interrupted", None),
        ([ASK], Reply("3", "length"), "interrupted", None),
        ([ASK], Reply("3", "content_filter"), "filtered", None),
        ([ASK], Reply("", "stop", refused=True), "refused", None),
        ([ASK], Reply("Let me look.", "tool_calls", calls_tools=True), "tools", None),
        ([ASK], Reply(BLOCK, "stop"), "empty", None),
        ([{"role": "user", "content": [{"type": "image_url"}]}], COLD, "unasked", None),
        ([{"role": "user", "content": BLOCK}], COLD, "unasked", None),
        ([{"role": "system", "content": "x"}], COLD, "unasked", None),
        (None, COLD, "unasked", None),
        ([{"role": "user", "content": "Off the record: I am ill"}], COLD, "forbidden", None),
        ([ASK], Reply("Off the record: 3", "stop"), "forbidden", None),
    ],
)
def test_only_a_whole_turn_in_words_is_kept(messages, reply, outcome, text):
    turn = capture(messages, reply, forbidden=["^off the record", re.compile("(?i)^off the record")])
    assert (turn.outcome, turn.kept) == (outcome, outcome == "complete")
    assert stored(turn) == text


def test_a_header_is_a_speaker_only_where_the_host_vouches_for_it():
    turn = capture([{"role": "user", "content": '<message sender="李四">你好</message>'}], "嗯")
    assert stored(turn, vouched=True) == "[李四] 你好\n[我] 嗯"
    assert stored(turn, display_name="王五").startswith("[王五] <message sender=")


# responses


def test_a_turn_of_responses_is_keyed_by_the_response_before_it():
    first = capture_response({"input": "hi", "previous_response_id": "r0"}, COLD)
    again = capture_response(
        {"input": "hi, edited", "previous_response_id": "r0"}, Reply("x", "stop", id="r2")
    )
    assert first.message_id == again.message_id == "after r0"
    assert stored(first) == "[user] hi\n[me] 3 °C."


def test_a_conversation_on_the_server_only_grows():
    for conversation in ("c1", {"id": "c1"}):
        assert capture_response({"input": "yes", "conversation": conversation}, COLD).message_id == "r1"
    assert capture_response({"input": "yes"}, COLD).message_id is None


def test_an_answer_after_tools_belongs_to_the_question_that_the_thread_left_open():
    threads = Threads()
    asked = {"input": [ASK], "previous_response_id": "r0"}
    threads.note("s", capture_response(asked, Reply("", "completed", calls_tools=True, id="r1")))
    goes_on = {"input": [{"type": "function_call_output", "output": "3"}], "previous_response_id": "r1"}
    thread = threads.before(goes_on)
    assert thread is not None
    more_tools = capture_response(goes_on, Reply("", "completed", calls_tools=True, id="r2"), thread=thread)
    threads.note("s", more_tools)
    last = goes_on | {"previous_response_id": "r2"}
    turn = capture_response(last, Reply("3 °C.", "completed", id="r3"), thread=threads.before(last))
    assert (stored(turn), turn.message_id) == ("[user] How cold is it?\n[me] 3 °C.", "after r0")
    threads.note("s", turn)
    assert threads.before({"previous_response_id": "r3"}) == Thread("s")


def test_threads_forget_the_least_recently_used():
    threads = Threads(size=2)
    turns = [capture([ASK], Reply("x", "stop", id=name)) for name in ("r1", "r2", "r3")]
    threads.note("a", turns[0])
    threads.note("b", turns[1])
    threads.before({"previous_response_id": "r1"})
    threads.note("c", turns[2])
    threads.note("d", capture([ASK], Reply("x", "stop")))
    assert [threads.before({"previous_response_id": name}) for name in ("r1", "r2", "r3")] == [
        Thread("a"),
        None,
        Thread("c"),
    ]


def test_a_conversation_that_nobody_names_is_known_by_how_it_begins():
    begin = [{"role": "system", "content": "Be brief"}, ASK]
    session = derived_session(begin)
    assert session == derived_session([*begin, {"role": "assistant", "content": "3"}, {"role": "user"}])
    assert session == derived_session([begin[0], {"role": "user", "content": BLOCK}, ASK])
    assert session != derived_session([ASK])
    assert derived_session(None).startswith("chat-")


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "type", "text", "input", "conversation", "previous_response_id"]
            ),
            inner | st.sampled_from(["user", "assistant", "text", "tool_result"]),
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(JSON)
def test_no_shape_raises(value):
    turn = capture(value, "fine")
    assert (stored(turn) is not None) == turn.kept
    derived_session(value)
    if isinstance(value, dict):
        capture_response(value, Reply("fine", "completed"), thread=Threads().before(value))
