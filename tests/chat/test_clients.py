"""An `openai` client that remembers: whatever it can do, with a memory at its connection."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncAzureOpenAI, AsyncOpenAI
from pydantic import BaseModel

from rawthink_chat.calls import per_call
from rawthink_chat.clients import with_memory
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.errors import BackendUnavailable
from rawthink_core.memory import Memory
from rawthink_core.provider import World
from rawthink_core.recall import Recaller
from rawthink_openai_emulator import Emulator

if TYPE_CHECKING:
    from rawthink_chat.exchange import Recalled

pytestmark = pytest.mark.asyncio

DOG = "My dog is called Bilbo"
ASKED = "What is my dog called?"


@pytest.fixture(scope="module")
def emulator():
    with Emulator() as emulator:
        yield emulator


@pytest.fixture(autouse=True)
def _fresh(request):
    if "emulator" in request.fixturenames:
        request.getfixturevalue("emulator").forget()


@pytest_asyncio.fixture
async def memory(tmp_path):
    memory = Memory(ReferenceProvider(World(path=tmp_path)))
    await memory.open()
    yield memory
    await memory.close()


@pytest_asyncio.fixture
async def bare(emulator):
    async with AsyncOpenAI(base_url=emulator.url, api_key="sk-x", max_retries=0) as client:
        yield client


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def kept(memory: Memory) -> list[str]:
    await memory.flush()
    return [item.text for item in (await memory.scan(items=["passage"], limit=100)).items]


async def said(client: AsyncOpenAI, text: str, model: str = "echo", **more: Any) -> str | None:
    answer = await client.chat.completions.create(model=model, messages=[user(text)], **more)
    return answer.choices[0].message.content


async def streamed(client: AsyncOpenAI, text: str, model: str = "echo", **more: Any) -> str:
    stream = await client.chat.completions.create(model=model, messages=[user(text)], stream=True, **more)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def test_it_is_the_same_client_and_it_remembers(emulator, bare, memory):
    told: list[Recalled] = []
    client = with_memory(bare, memory, session="one", on_recall=told.append)
    assert type(client) is AsyncOpenAI
    assert client.api_key == bare.api_key
    assert await said(client, DOG) == DOG
    assert await kept(memory) == [f"[user] {DOG}\n[me] {DOG}"]
    other = with_memory(client, memory, session="two", on_recall=told.append)
    assert "Bilbo" in await said(other, ASKED, "recall")
    assert await said(bare, ASKED, "recall") == "I don't know."
    assert [one.memories for one in told] == [0, 1]
    assert len(emulator.requests[-2].json["messages"]) == 2


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
async def test_a_model_that_repeats_the_block_is_neither_shown_nor_kept(bare, memory, size):
    client = with_memory(bare, memory)
    await said(client, DOG, extra_headers=per_call(session="one"))
    await memory.flush()
    shown = await streamed(client, ASKED, f"parrot+pieces:{size}", extra_headers=per_call(session="two"))
    assert shown.strip() == ASKED
    assert (await said(client, ASKED, "parrot", extra_headers=per_call(session="three"))).strip() == ASKED
    assert not any("memory-context" in text for text in await kept(memory))


async def test_fifty_turns_of_an_echoing_model_add_fifty_turns(bare, memory):
    client = with_memory(bare, memory, session="one")
    messages: list[dict[str, Any]] = []
    for number in range(50):
        messages.append(user(f"Tell me more of my dog Bilbo, part {number}"))
        stream = await client.chat.completions.create(
            model="parrot+pieces:5",
            messages=[messages[-1]],
            stream=True,
            extra_headers=per_call(message_id=f"m{number}"),
        )
        async for _ in stream:
            pass
        texts = await kept(memory)
        assert len(texts) == number + 1
    assert not any("memory-context" in text or "Relevant memory" in text for text in texts)


async def test_a_history_sent_again_adds_nothing_and_another_answer_supersedes(bare, memory):
    client = with_memory(bare, memory, session="one")
    history: list[dict[str, Any]] = []
    for text in ("first", "second", "third"):
        history.append(user(text))
        for _ in range(2):
            answer = await client.chat.completions.create(model="echo", messages=history)
        history.append({"role": "assistant", "content": answer.choices[0].message.content})
    again = with_memory(bare, memory, session="one")
    await again.chat.completions.create(model="count", messages=history[:-1])
    assert await kept(memory) == [
        "[user] first\n[me] first",
        "[user] second\n[me] second",
        "[user] third\n[me] I see 5 messages.",
    ]


async def test_the_block_never_stands_between_a_call_and_its_result(emulator, bare, memory):
    client = with_memory(bare, memory, session="one")
    await said(client, DOG)
    await memory.flush()
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    for model in ("tools", "two-tools"):
        messages: list[Any] = [user(ASKED)]
        first = await client.chat.completions.create(model=model, messages=messages, tools=tools)
        call = first.choices[0].message
        messages.append(call.model_dump(exclude_none=True))
        messages += [
            {"role": "tool", "tool_call_id": each.id, "content": "Bilbo"} for each in call.tool_calls
        ]
        last = await client.chat.completions.create(model=model, messages=messages, tools=tools)
        assert "Bilbo" in last.choices[0].message.content
        assert emulator.requests[-1].json["messages"] == messages
    assert (await kept(memory))[-1].endswith(f"[user] {ASKED}\n[me] The tool says: Bilbo | Bilbo")


async def test_several_choices_count_as_one_turn(bare, memory):
    client = with_memory(bare, memory)
    answer = await client.chat.completions.create(model="echo", messages=[user(DOG)], n=3)
    assert len(answer.choices) == 3
    stream = await client.chat.completions.create(model="echo", messages=[user(DOG)], n=3, stream=True)
    assert {chunk.choices[0].index async for chunk in stream} == {0, 1, 2}
    assert await kept(memory) == [f"[user] {DOG}\n[me] {DOG}"]


async def test_what_else_a_client_can_do_works_and_remembers(emulator, bare, memory):
    class Dog(BaseModel):
        name: str

    client = with_memory(bare, memory, session="one")
    await said(client, DOG)
    await memory.flush()
    messages: Any = [user('{"name": "Bilbo"}')]
    parsed = await client.chat.completions.parse(model="echo", messages=messages, response_format=Dog)
    assert parsed.choices[0].message.parsed == Dog(name="Bilbo")
    async with client.chat.completions.stream(model="echo", messages=messages) as stream:
        assert (await stream.get_final_completion()).choices[0].message.content == '{"name": "Bilbo"}'
    raw = await client.chat.completions.with_raw_response.create(model="recall", messages=[user(ASKED)])
    assert raw.headers["x-rawthink-recall"].startswith("memories=")
    assert raw.headers["x-request-id"] == "req_emulated"
    assert "Bilbo" in raw.parse().choices[0].message.content
    async with client.chat.completions.with_streaming_response.create(
        model="recall", messages=[user(ASKED)]
    ) as answer:
        assert "Bilbo" in await answer.text()
    assert "Bilbo" in await said(client.with_options(timeout=5), ASKED, "recall")
    assert [model.id async for model in client.models.list()][:1] == ["echo"]
    assert (await client.files.create(file=b"abc", purpose="user_data")).id == "file-1"
    assert (await client.audio.speech.create(model="t", voice="alloy", input="x")).read() == bytes(
        range(256)
    ) * 64
    azure = AsyncAzureOpenAI(
        azure_endpoint=emulator.url.removesuffix("/v1"), api_key="k", api_version="1", max_retries=0
    )
    assert type(with_memory(azure, memory)) is AsyncAzureOpenAI
    with pytest.raises(openai.AuthenticationError):  # the emulator knows no Azure: but the request came
        await said(with_memory(azure, memory), "hm")
    await azure.close()


async def test_responses_go_on_from_one_another_through_a_tool(emulator, bare, memory):
    client = with_memory(bare, memory)
    first = await client.responses.create(model="echo", input=DOG)
    tool: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
    second = await client.responses.create(
        model="tools", input=ASKED, previous_response_id=first.id, tools=[tool]
    )
    result: Any = {"type": "function_call_output", "call_id": second.output[0].call_id, "output": "Bilbo"}
    async with client.responses.stream(
        model="tools", input=[result], previous_response_id=second.id, tools=[tool]
    ) as stream:
        third = await stream.get_final_response()
    assert third.output_text == "The tool says: Bilbo"
    assert emulator.requests[-1].json["input"] == [result]
    assert await kept(memory) == [f"[user] {DOG}\n[me] {DOG}", f"[user] {ASKED}\n[me] The tool says: Bilbo"]
    sessions = {item.session for item in (await memory.scan(items=["passage"])).items}
    assert len(sessions) == 1


async def test_many_users_of_one_client_never_mix(bare, memory):
    client = with_memory(bare, memory)

    async def live(name: str) -> None:
        mine = per_call(space=name, session="s", speaker=name)
        assert await said(client, f"My secret word is {name}zebra", extra_headers=mine) is not None
        await memory.in_space(name).flush()
        for _ in range(3):
            heard = await streamed(
                client,
                "What is my secret word?",
                "recall",
                extra_headers=mine | per_call(space=name, session="t", remember=False),
            )
            assert set(re.findall(r"\w+zebra", heard)) == {f"{name}zebra"}

    names = [f"user{number}" for number in range(12)]
    await asyncio.gather(*map(live, names))
    assert await kept(memory) == []
    for name in names:
        assert await kept(memory.in_space(name)) == [
            f"[{name}] My secret word is {name}zebra\n[me] My secret word is {name}zebra"
        ]


class Troubled(ReferenceProvider):
    """A store that hangs, or is down."""

    hangs = False

    async def search(self, query: Any) -> Any:
        if self.hangs:
            await asyncio.sleep(60)
        raise BackendUnavailable("gone")

    record = search


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_memory_in_trouble_changes_no_byte(emulator, bare, tmp_path, hangs):
    provider = Troubled(World(path=tmp_path))
    provider.hangs = hangs
    memory = Memory(provider, recaller=Recaller(deadline=0.05), write_deadline=0.05)
    client = with_memory(bare, memory)
    answers = []
    for each in (bare, client):
        raw = await each.chat.completions.with_raw_response.create(model="echo", messages=[user(ASKED)])
        body = raw.content
        answers.append(json.loads(body) | {"id": "", "created": 0})
    assert answers[0] == answers[1]
    assert emulator.requests[0].body == emulator.requests[1].body
    own = [header for header in emulator.requests[1].headers if header not in emulator.requests[0].headers]
    assert own == []
    await memory.flush()


async def test_a_closed_memory_does_not_end_a_chat(bare, memory):
    client = with_memory(bare, memory)
    await memory.close()
    assert await said(client, DOG) == DOG


async def test_pieces_come_as_they_are_sent(bare, memory):
    client = with_memory(bare, memory)
    stream = await client.chat.completions.create(
        model="echo+slow:40+pieces:1", messages=[user("abcdef")], stream=True
    )
    now = asyncio.get_running_loop().time
    times = [now() async for chunk in stream if chunk.choices[0].delta.content]
    assert times[-1] - times[0] > 0.15


async def test_an_answer_that_is_left_is_not_kept(emulator, bare, memory):
    client = with_memory(bare, memory)
    stream = await client.chat.completions.create(
        model="long:100000+slow:5", messages=[user(DOG)], stream=True
    )
    async for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    await stream.close()
    for _ in range(200):
        if emulator.requests[-1].left:
            break
        await asyncio.sleep(0.01)
    assert emulator.requests[-1].left
    assert await kept(memory) == []


@pytest.mark.parametrize("failure", ["500", "html", "cut", "bad-json", "hang-midway", "redirect"])
async def test_what_goes_wrong_beyond_us_is_as_without_us(bare, memory, failure):
    client = with_memory(bare, memory)
    raised = []
    for each in (bare, client):
        with pytest.raises((openai.OpenAIError, json.JSONDecodeError)) as error:
            await streamed(each.with_options(timeout=0.3), DOG, extra_headers={"x-emulate": failure})
        raised.append(type(error.value))
    assert raised[0] is raised[1]
    assert await kept(memory) == []


@pytest.mark.parametrize("failure", ["gzip", "bytes", "crlf", "comments", "two-dones", "no-done", "huge"])
async def test_what_is_odd_but_whole_is_kept_once(bare, memory, failure):
    client = with_memory(bare, memory)
    assert await streamed(client, DOG, extra_headers={"x-emulate": failure}) == DOG
    assert await kept(memory) == [f"[user] {DOG}\n[me] {DOG}"]


async def test_a_call_that_the_client_repeats_is_one_turn(emulator, bare, memory):
    client = with_memory(bare.with_options(max_retries=2), memory)
    emulator.next("429", "")
    assert await said(client, DOG) == DOG
    assert len(emulator.requests) == 2
    assert await kept(memory) == [f"[user] {DOG}\n[me] {DOG}"]


async def test_a_wrong_header_is_a_bad_request_and_sends_nothing(emulator, bare, memory):
    client = with_memory(bare, memory)
    with pytest.raises(openai.BadRequestError, match="X-RAWThink-Session"):
        await said(client, DOG, extra_headers={"X-RAWThink-Sesion": "a"})
    assert emulator.requests == []


async def test_our_headers_go_no_further(emulator, bare, memory):
    client = with_memory(bare, memory)
    await said(client, DOG, extra_headers=per_call(session="çay", speaker="张三"))
    await client.embeddings.create(model="e", input="x", extra_headers=per_call(session="a"))
    for request in emulator.requests:
        assert not [name for name, _ in request.headers if "rawthink" in name]
    assert await kept(memory) == [f"[张三] {DOG}\n[me] {DOG}"]
