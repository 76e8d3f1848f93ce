"""One request and its answer: told what is known, kept when it is whole, and never held up by the memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import pytest_asyncio

from rawthink_chat.answers import MAX_BODY
from rawthink_chat.calls import Call
from rawthink_chat.exchange import MAX_REQUEST, ChatMemory, Recalled
from rawthink_chat.requests import Api
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.errors import BackendUnavailable, InvalidRequest
from rawthink_core.memory import Memory
from rawthink_core.provider import World
from rawthink_core.recall import Recaller

pytestmark = pytest.mark.asyncio

JSON = {"content-type": "application/json; charset=utf-8"}
SSE = {"content-type": "text/event-stream"}
ALICE = Call(session="s")


@pytest_asyncio.fixture
async def memory(tmp_path):
    provider = ReferenceProvider(World(path=tmp_path))
    async with asyncio.timeout(20):
        memory = Memory(provider)
        await memory.open()
        yield memory
        await memory.close()


def body(*said: str, **more: Any) -> bytes:
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(said)]
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


def completion(text: str, reason: str = "stop") -> bytes:
    message = {"role": "assistant", "content": text}
    return json.dumps(
        {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    ).encode()


def chunks(text: str, size: int = 5, reason: str | None = "stop") -> bytes:
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    events = [
        {"choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]} for part in parts
    ]
    if reason:
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    return (
        b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    )


async def say(chat: ChatMemory, asked: bytes, answer: bytes, call: Call = ALICE, **how: Any) -> bytes:
    """Have an exchange, and return what the client sees."""
    exchange = await chat.begin(how.get("api", Api.COMPLETIONS), asked, call)
    through = exchange.answer(how.get("status", 200), how.get("headers", JSON))
    pieces = [answer[at : at + 7] for at in range(0, len(answer), 7)]
    seen = b"".join([*map(through.feed, pieces), through.finish()])
    exchange.end()
    exchange.end()
    return seen


async def kept(memory: Memory) -> list[tuple[str, str]]:
    await memory.flush()
    page = await memory.scan(items=["passage"], limit=100)
    return [(item.session, item.text) for item in page.items]  # type: ignore[union-attr] # all are passages


async def test_a_turn_is_kept_and_told_in_the_next_conversation(memory):
    told: list[Recalled] = []
    chat = ChatMemory(memory, on_recall=told.append)
    asked, answer = body("My dog is called Bilbo"), completion("What a fine name")
    assert await say(chat, asked, answer) == answer
    assert await kept(memory) == [("s", "[user] My dog is called Bilbo\n[me] What a fine name")]
    again = body("What is my dog called?")
    exchange = await chat.begin(Api.COMPLETIONS, again, Call(session="t"))
    assert "Bilbo" in json.loads(exchange.body)["messages"][0]["content"]
    assert exchange.body.endswith(again[again.index(b'{"role"') :])
    assert (told[0].memories, told[1].memories) == (0, 1)
    assert told[1].tokens > 10
    assert f"memories=1, tokens={told[1].tokens}, ms=" in told[1].header()
    assert str(told[1]).startswith("recalled 1 memory, ")


@pytest.mark.parametrize("headers", [JSON, SSE], ids=["whole", "streamed"])
async def test_a_repeated_block_is_neither_shown_nor_kept(memory, headers):
    chat = ChatMemory(memory)
    await say(chat, body("My dog is called Bilbo"), completion("Fine"))
    await kept(memory)
    asked = body("What is my dog called?")
    exchange = await chat.begin(Api.COMPLETIONS, asked, Call(session="t"))
    block = json.loads(exchange.body)["messages"][0]["content"]
    wire = completion if headers is JSON else chunks
    seen = await say(chat, asked, wire(f"{block}\nBilbo."), Call(session="t"), headers=headers)
    assert b"memory-context" not in seen
    assert "[2" not in seen.decode()
    assert (await kept(memory))[-1] == ("t", "[user] What is my dog called?\n[me] Bilbo.")


async def test_without_a_block_the_answer_is_the_very_bytes(memory):
    chat = ChatMemory(memory)
    told = "<memory-context>\nRelevant memory context (use when helpful):\n- [2025-01-01] [a] b\n</memory-context>"
    for wire, headers in ((completion(told), JSON), (chunks(told), SSE)):
        assert await say(chat, body("Say it"), wire, headers=headers) == wire


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        (completion("cut", "length"), {}),
        (completion("", "tool_calls"), {}),
        (chunks("cut", reason=None), {"headers": SSE}),
        (completion("an error"), {"status": 500}),
        (b"<html>", {"headers": {"content-type": "text/html"}}),
        (b"{", {}),
        (b"", {}),
        (completion("x" * MAX_BODY), {}),
    ],
)
async def test_what_is_no_whole_answer_goes_on_and_is_not_kept(memory, answer, how):
    assert await say(ChatMemory(memory), body("Why?"), answer, **how) == answer
    assert await kept(memory) == []


async def test_not_to_be_remembered_is_not(memory):
    chat = ChatMemory(memory, forbidden=[r"(?i)my pin"])
    await say(chat, body("My PIN is 1234"), completion("Noted"))
    await say(chat, body("one"), completion("1"), Call(session="s", remember="no"))
    await say(chat, body("two"), completion("2"), Call(session="s", remember="off"))
    await say(chat, body("three"), completion("3"))
    await say(chat, body("four"), completion("4"), Call(session="other"))
    await say(chat, body("five"), completion("5"), Call(session="s", remember="on"))
    assert [text for _, text in await kept(memory)] == ["[user] four\n[me] 4", "[user] five\n[me] 5"]


async def test_each_space_and_speaker_has_its_own(memory):
    chat = ChatMemory(memory)
    await say(chat, body("My dog is called Bilbo"), completion("Fine"), Call("alice", "s", "Alice"))
    other = body("What is my dog called?")
    assert (await chat.begin(Api.COMPLETIONS, other, Call("bob", "s"))).body is other
    assert await kept(memory) == []
    assert [text for _, text in await kept(memory.in_space("alice"))] == [
        "[Alice] My dog is called Bilbo\n[me] Fine"
    ]
    with pytest.raises(InvalidRequest):
        await chat.begin(Api.COMPLETIONS, other, Call("\ud800"))


async def test_a_response_goes_on_in_the_session_of_the_one_before(memory):
    chat = ChatMemory(memory)

    def response(number: int, text: str) -> bytes:
        output = [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        ]
        return json.dumps({"id": f"r{number}", "status": "completed", "output": output}).encode()

    first, second = {"input": "one"}, {"input": "two", "previous_response_id": "r1"}
    await say(chat, json.dumps(first).encode(), response(1, "1"), Call(), api=Api.RESPONSES)
    await say(chat, json.dumps(second).encode(), response(2, "2"), Call(), api=Api.RESPONSES)
    told = await kept(memory)
    assert [text for _, text in told] == ["[user] one\n[me] 1", "[user] two\n[me] 2"]
    assert told[0][0] == told[1][0]


async def test_turns_of_a_conversation_are_kept_in_order_and_once(memory):
    chat = ChatMemory(memory)
    said: list[str] = []
    for number in range(10):
        said.append(f"question {number}")
        for _ in range(2):
            await say(chat, body(*said), completion(f"answer {number}"))
        said.append(f"answer {number}")
    assert [text for _, text in await kept(memory)] == [
        f"[user] question {n}\n[me] answer {n}" for n in range(10)
    ]


class Faulty(ReferenceProvider):
    """A store that hangs or is down."""

    hangs = False

    async def search(self, query: Any) -> Any:
        if self.hangs:
            await asyncio.sleep(60)
        raise BackendUnavailable('gone "away"\n')

    record = search


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_memory_that_fails_changes_nothing_but_says_so(hangs, tmp_path):
    provider = Faulty(World(path=tmp_path))
    provider.hangs = hangs
    memory = Memory(provider, recaller=Recaller(deadline=0.05), write_deadline=0.05)
    chat = ChatMemory(memory)
    asked, answer = body("What is my dog called?"), completion("I don't know")
    exchange = await chat.begin(Api.COMPLETIONS, asked, ALICE)
    assert exchange.body is asked
    assert exchange.recalled.degraded
    assert exchange.recalled.header().isprintable()
    assert await say(chat, asked, answer) == answer
    await memory.flush()


async def test_the_memory_stands_aside_for_what_it_can_not_read(memory):
    chat = ChatMemory(memory)
    large = b" " * (MAX_REQUEST + 1)
    exchange = await chat.begin(Api.COMPLETIONS, large, ALICE)
    assert exchange.body is large
    assert "16 MiB" in str(exchange.recalled)
    for other in (b"", b"{", b"[]", b"\xff"):
        assert await say(chat, other, completion("hm")) == completion("hm")
    assert await kept(memory) == []


async def test_another_event_loop_than_the_first_goes_on_without_the_memory(memory):
    chat = ChatMemory(memory)
    await say(chat, body("one"), completion("1"))

    def elsewhere() -> bytes:
        return asyncio.run(say(chat, body("two"), completion("2")))

    assert await asyncio.to_thread(elsewhere) == completion("2")
    assert [text for _, text in await kept(memory)] == ["[user] one\n[me] 1"]


async def test_a_broken_callback_does_not_end_a_chat(memory, caplog):
    def broken(_: Recalled) -> None:
        raise ValueError("mine")

    asked = body("Why?")
    assert (await ChatMemory(memory, on_recall=broken).begin(Api.COMPLETIONS, asked, ALICE)).body is asked
    assert "on_recall failed" in caplog.text
