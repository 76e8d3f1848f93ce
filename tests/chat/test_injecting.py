"""The block goes before the user's last message, and nothing else moves or changes."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_chat.injecting import inject, inject_input, is_block, without_blocks
from rawthink_core.injected import CLOSER, HEADER, OPENER
from rawthink_core.turns import ChatContext

BLOCK = f"{OPENER}\n{HEADER}\n- [2025-01-15] [张三] 喜欢用 Rust\n{CLOSER}"
OURS = {"role": "user", "content": BLOCK}
ASK = {"role": "user", "content": "How cold is it?"}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "3 °C"}
SAID = {"role": "assistant", "content": "It is 3 °C."}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1"}]}
USED = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}]}


@pytest.mark.parametrize(
    ("messages", "at"),
    [
        ([ASK], 0),
        ([{"role": "system", "content": [{"type": "text", "text": "Be brief"}]}, ASK], 1),
        ([{"role": "developer", "content": "French"}, {**ASK, "name": "bob", "unknown": [1]}], 1),
        ([ASK, SAID, {"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], 2),
        ([{"role": "user", "content": ""}, {"role": "assistant", "refusal": "no"}, {"role": "user"}], 2),
        ([ASK, CALL, RESULT, SAID, ASK], 4),
        ([ASK, CALL, RESULT, ASK], 3),
        ([ASK, USE, USED, ASK], 3),
        ([ASK, SAID], 0),
        ([OURS, ASK, SAID, ASK], 3),
        # where none may stand
        ([], None),
        ([{"role": "system", "content": "x"}, SAID], None),
        ([ASK, CALL, RESULT], None),
        (
            [ASK, {"role": "assistant", "function_call": {"name": "f"}}, {"role": "function", "name": "f"}],
            None,
        ),
        ([ASK, USE, USED], None),
        ([ASK, CALL, ASK, RESULT], None),
        ([ASK, CALL, ASK], None),
        ([ASK, {"type": "function_call", "call_id": "c1"}, ASK], None),
        ([OURS, ASK], None),
        ([ASK, OURS], None),
    ],
)
def test_a_block_stands_before_the_last_question_or_nowhere(messages, at):
    before = copy.deepcopy(messages)
    for put in (inject, inject_input):
        result = put(messages, BLOCK)
        assert messages == before
        if at is None:
            assert result is messages
        else:
            assert result[at] == OURS
            assert all(a is b for a, b in zip(result[:at] + result[at + 1 :], messages, strict=True))


@pytest.mark.parametrize("odd", [None, 7, "text", {"role": "user"}, iter([ASK])])
def test_what_is_no_list_of_messages_is_left_alone(odd):
    assert inject(odd, BLOCK) is odd


def test_without_a_block_nothing_is_added():
    messages = [ASK]
    assert inject(messages, "") is messages
    assert inject(messages, ChatContext(degraded="down")) is messages
    assert inject(messages, ChatContext(text=BLOCK)) == [OURS, ASK]


def test_an_input_of_text_becomes_messages_only_for_a_block():
    assert inject_input("How cold?", BLOCK) == [OURS, {"role": "user", "content": "How cold?"}]
    text = "How cold?"
    assert inject_input(text, "") is text
    assert inject_input(" ", BLOCK) == " "
    assert inject_input(BLOCK, BLOCK) == BLOCK


def test_a_message_that_quotes_a_block_is_not_one():
    quoting = {"role": "user", "content": f"What is this?\n{BLOCK}"}
    assert not is_block(quoting)
    assert inject([quoting], BLOCK) == [OURS, quoting]
    assert without_blocks([OURS, quoting, SAID]) == [quoting, SAID]


CONTENT = st.none() | st.text(max_size=5) | st.sampled_from([BLOCK, [{"type": "text", "text": "a"}], [], 7])
MESSAGE = st.sampled_from([ASK, CALL, RESULT, SAID, OURS, USE, USED, None, {}]) | st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["system", "developer", "user", "assistant", "tool", "function", "other"]),
    CONTENT,
)


@given(st.lists(MESSAGE, max_size=6))
def test_whatever_the_messages_a_second_time_adds_nothing_and_ours_is_the_only_change(messages):
    once = inject(messages, BLOCK)
    assert inject(once, BLOCK) is once
    if once is not messages:
        (at,) = {n for n in range(len(once)) if once[:n] + once[n + 1 :] == messages and is_block(once[n])}
        assert once[at + 1]["role"] == "user"
        assert not any(isinstance(m, dict) and m.get("role") in ("user", "tool") for m in once[at + 2 :])
        assert at == 0 or once[at - 1] not in (CALL, USE)
