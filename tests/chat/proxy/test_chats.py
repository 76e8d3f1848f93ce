"""A chat through the proxy: what is remembered goes in, the answer comes out, the turn is kept."""

from __future__ import annotations

import gzip
import json

import pytest

from .conftest import QUESTION, asking
from .upstreams import answer, chunk, completion, event, events, saying, streaming

pytestmark = pytest.mark.asyncio

BLOCK = "Relevant memory context"
OPEN, CLOSE = "<memory-context>", "</memory-context>"


async def test_a_chat_recalls_answers_and_is_remembered(chatting):
    async with chatting(saying(answer(completion("On Tuesday.")))) as (up, proxy), proxy.client() as client:
        reply = await client.post(
            "/chat/completions", json=asking(), headers={"Authorization": "Bearer sk-1"}
        )
        assert reply.json() == completion("On Tuesday.")
        assert reply.headers["x-rawthink-recall"].startswith("memories=1, ")
        [asked] = up.asked
        assert "Tuesday mornings" in asked.messages[0]["content"]
        assert asked.messages[1] == {"role": "user", "content": QUESTION}
        assert asked.values("authorization") == ["Bearer sk-1"]
        assert await proxy.turns() == [f"[user] {QUESTION}\n[me] On Tuesday."]


async def test_a_stream_goes_through_to_the_byte(chatting):
    pieces = events("On Tuesday mornings, as ever.")
    async with chatting(streaming(pieces)) as (_, proxy), proxy.client() as client:
        reply = await client.post("/chat/completions", json=asking(stream=True))
        assert reply.content == b"".join(pieces)
        assert await proxy.turns() == [f"[user] {QUESTION}\n[me] On Tuesday mornings, as ever."]


async def test_events_arrive_one_by_one_while_the_model_speaks(chatting):
    import asyncio

    going = asyncio.Event()
    first, *rest = events("one two")

    async def script(asked, writer):
        await streaming([first])(asked, _Unended(writer))
        await going.wait()
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(b"".join(rest)), b"".join(rest)))

    async with (
        chatting(script) as (_, proxy),
        proxy.client() as client,
        client.stream("POST", "/chat/completions", json=asking(stream=True)) as reply,
    ):
        pieces = reply.aiter_raw()
        assert await anext(pieces) == first
        going.set()
        assert b"".join([piece async for piece in pieces]) == b"".join(rest)


class _Unended:
    """A writer that drops the end of a chunked body."""

    def __init__(self, writer):
        self.writer = writer

    def write(self, data):
        if data != b"0\r\n\r\n":
            self.writer.write(data)

    async def drain(self):
        await self.writer.drain()


@pytest.mark.parametrize("coding", ["gzip", "identity", None])
async def test_a_compressed_answer_is_read(chatting, coding):
    body = json.dumps(completion("On Tuesday.")).encode()

    async def script(asked, writer):
        [wanted] = asked.values("accept-encoding")
        assert "br-own" not in wanted
        packed = gzip.compress(body) if "gzip" in wanted else body
        more = ("Content-Encoding: gzip",) if "gzip" in wanted else ()
        writer.write(answer(packed, "200 OK", "application/json", *more))

    given = {"Accept-Encoding": "identity" if coding is None else f"br-own, {coding}"}
    async with chatting(script) as (_, proxy), proxy.client(headers=given) as client:
        reply = await client.post("/chat/completions", json=asking())
        assert reply.content == body
        assert "content-encoding" not in reply.headers
        assert len(await proxy.turns()) == 1


async def test_an_answer_in_an_unknown_coding_goes_through_unread(chatting):
    script = saying(answer(b"\x00\x01odd", "200 OK", "application/json", "Content-Encoding: odd"))
    async with chatting(script) as (_, proxy), proxy.client() as client:
        reply = await client.post("/chat/completions", json=asking())
        assert (reply.headers["content-encoding"], reply.headers["content-length"]) == ("odd", "5")
        assert reply.content == b"\x00\x01odd"
        assert await proxy.turns() == []


async def test_a_block_that_the_model_repeats_reaches_nobody(chatting):
    block = f"{OPEN}\n{BLOCK} (use when helpful):\n- [2025-01-01] a secret\n{CLOSE}"
    whole = completion(f"{block}\nOn Tuesday.")
    async with chatting(saying(answer(whole))) as (up, proxy), proxy.client() as client:
        reply = await client.post("/chat/completions", json=asking())
        assert reply.json()["choices"][0]["message"]["content"].strip() == "On Tuesday."
        up.script = streaming(
            [event(chunk({"content": piece})) for piece in (block[:9], block[9:], "\nYes")] + events(".")
        )
        reply = await client.post("/chat/completions", json=asking("Do deploys go out?", stream=True))
        assert "secret" not in reply.text
        assert all("secret" not in turn for turn in await proxy.turns())


async def test_a_responses_request_recalls_and_is_remembered(chatting):
    output = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "On Tuesday."}],
    }
    whole = {"id": "r1", "object": "response", "status": "completed", "output": [output]}
    async with chatting(saying(answer(whole))) as (up, proxy), proxy.client() as client:
        reply = await client.post("/responses", json={"model": "m", "input": QUESTION})
        assert reply.json() == whole
        given = up.asked[0].fields["input"]
        assert BLOCK in given[0]["content"]
        assert given[1]["content"] == QUESTION
        assert await proxy.turns() == [f"[user] {QUESTION}\n[me] On Tuesday."]


async def test_all_that_a_client_said_stands_first_and_unchanged_for_twenty_turns(chatting):
    """A provider's cache keeps what two requests begin with: all before the last question."""
    said = []

    async def script(asked, writer):
        writer.write(answer(completion(f"Answer {len(said)}.")))

    async with chatting(script) as (up, proxy), proxy.client() as client:
        for turn in range(20):
            said.append({"role": "user", "content": f"{turn}. When do deploys go out, Ünal?"})
            body = json.dumps({"model": "m", "messages": said}, indent=1).encode()
            reply = await client.post("/chat/completions", content=body)
            sent = up.asked[-1].body
            first = body.rindex(b'  {\n   "role": "user"')
            assert sent[:first] == body[:first]
            assert sent.endswith(body[first:].lstrip())
            assert sent.count(b"Relevant memory") == 1
            said.append({"role": "assistant", "content": reply.json()["choices"][0]["message"]["content"]})


async def test_a_model_that_echoes_adds_its_turns_and_nothing_else(chatting):
    async def script(asked, writer):
        told = "\n".join(message["content"] for message in asked.messages)
        writer.write(answer(completion(f"You said: {told}")))

    async with chatting(script) as (up, proxy), proxy.client() as client:
        for turn in range(12):
            await client.post("/chat/completions", json=asking(f"Deploys number {turn}, when?"))
            await proxy.memory.flush()
        assert sum(b"Relevant memory" in asked.body for asked in up.asked) == 12
        asked = [f"Deploys number {n}, when?" for n in range(12)]
        assert await proxy.turns() == sorted(f"[user] {text}\n[me] You said: \n{text}" for text in asked)


@pytest.mark.parametrize(
    ("headers", "recalls", "keeps"),
    [
        ({}, True, 2),
        ({"X-RAWThink-Recall": "no"}, False, 2),
        ({"X-RAWThink-Remember": "no"}, True, 1),
        ({"X-RAWThink-Remember": "off"}, True, 0),
    ],
)
async def test_what_a_call_says_of_itself_is_heeded_and_goes_no_further(chatting, headers, recalls, keeps):
    async with chatting(saying(answer(completion("Yes.")))) as (up, proxy), proxy.client() as client:
        own = {"X-RAWThink-Session": "s", **headers}
        await client.post("/chat/completions", json=asking(), headers=own)
        await client.post(
            "/chat/completions", json=asking("And deploys now?"), headers={"X-RAWThink-Session": "s"}
        )
        assert (BLOCK.encode() in up.asked[0].body) is recalls
        assert [name for asked in up.asked for name, _ in asked.headers if "rawthink" in name.lower()] == []
        assert len(await proxy.turns()) == keeps


async def test_a_conversation_stays_unremembered_though_its_first_answer_was_an_error(chatting):
    async with chatting(saying(answer({}, "429 Too Many"))) as (up, proxy), proxy.client() as client:
        off = {"X-RAWThink-Remember": "off"}
        assert (await client.post("/chat/completions", json=asking(), headers=off)).status_code == 429
        up.script = saying(answer(completion("Yes.")))
        await client.post("/chat/completions", json=asking())
        assert await proxy.turns() == []


async def test_what_is_forbidden_is_not_remembered(chatting):
    script = saying(answer(completion("It is 1234-5678.")))
    async with chatting(script, forbidden=(r"\d{4}-\d{4}",)) as (_, proxy), proxy.client() as client:
        await client.post("/chat/completions", json=asking())
        assert await proxy.turns() == []
