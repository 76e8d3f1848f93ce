"""A request on the wire gets a block, and keeps every byte of its own."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_chat.injecting import inject, inject_input
from rawthink_chat.requests import Api, api_of, read_request

BLOCK = '<memory-context>\nRelevant memory context (use when helpful):\n- [2025-01-15] [张三] “Rust” \\ "x"\n</memory-context>'
OURS = {"role": "user", "content": BLOCK}


def chat(messages, **more):
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


@pytest.mark.parametrize(
    ("method", "path", "api"),
    [
        ("POST", "/v1/chat/completions", Api.COMPLETIONS),
        ("post", "/openai/deployments/x/chat/completions/", Api.COMPLETIONS),
        ("POST", "/v1/responses", Api.RESPONSES),
        ("GET", "/v1/responses", None),
        ("POST", "/v1/responses/resp_1/cancel", None),
        ("POST", "/v1/embeddings", None),
        ("GET", "/v1/chat/completions", None),
    ],
)
def test_an_api_is_known_by_method_and_path(method, path, api):
    assert api_of(method, path) is api


def test_the_block_stands_before_the_last_message_and_nothing_else_changes():
    body = (
        b'{ "messages" : [ {"role":"system","content":"x\\u00e9"},\n {"role":"user", "content":"hi"} ] ,'
        b'"temperature":1.0, "big":12345678901234567890, "temperature":0e0}\n'
    )
    sent = read_request(Api.COMPLETIONS, body).with_block(BLOCK)
    at = body.index(b'{"role":"user"')
    assert sent.startswith(body[:at])
    assert sent.endswith(body[at:])
    assert json.loads(sent[at:].partition(b", {")[0]) == OURS
    assert read_request(Api.COMPLETIONS, body).with_block("") is body


def test_a_string_as_input_becomes_a_list_that_ends_in_it():
    body = '{"input": "ne \\u0131\\"ş", "model": "m"}'.encode()
    sent = read_request(Api.RESPONSES, body).with_block(BLOCK)
    assert b'"ne \\u0131\\"\xc5\x9f"' in sent
    assert json.loads(sent)["input"] == [OURS, {"role": "user", "content": 'ne ı"ş'}]


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"b"}]}',
        b'{"messages":[{"role":"user","content":"a"},{"role":"tool","content":"b"}]}',
        b'{"messages":[]}',
        b'{"messages":"hi"}',
        b"{}",
    ],
)
def test_where_there_is_no_place_the_bytes_are_the_same(body):
    assert read_request(Api.COMPLETIONS, body).with_block(BLOCK) is body


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"\x1f\x8b\x08", b'{"a":1} x', "{}".encode("utf-16")])
def test_what_is_no_json_object_is_not_read(body):
    assert read_request(Api.COMPLETIONS, body) is None


TEXTS = (
    st.none()
    | st.text(max_size=8)
    | st.lists(st.builds(lambda t: {"type": "text", "text": t}, st.text(max_size=5)), max_size=2)
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "tool"])},
        optional={"content": TEXTS, "tool_calls": st.just([{"id": "1"}]), "x": st.floats(allow_nan=False)},
    ),
    max_size=5,
)


@given(MESSAGES, st.booleans(), st.sampled_from([None, 1]))
def test_on_the_wire_it_is_what_it_is_in_memory(messages, ascii_only, indent):
    for api, field, put in ((Api.COMPLETIONS, "messages", inject), (Api.RESPONSES, "input", inject_input)):
        body = json.dumps({field: messages, "n": 1}, ensure_ascii=ascii_only, indent=indent)
        request = read_request(api, body.encode("utf-8", "surrogateescape"))
        sent = json.loads(request.with_block(BLOCK))
        assert sent == {field: put(messages, BLOCK), "n": 1}
        assert request.takes_block == (sent[field] != messages)
