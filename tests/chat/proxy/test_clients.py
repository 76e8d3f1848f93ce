"""The clients that people use, as they are, with nothing set but the base URL."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import openai
import pytest

from .conftest import QUESTION, asking
from .upstreams import answer, completion, event, events, saying, streaming

pytestmark = pytest.mark.asyncio

OUTPUT = {"type": "message", "id": "m1", "role": "assistant", "status": "completed",
          "content": [{"type": "output_text", "text": "On Tuesday.", "annotations": []}]}  # fmt: skip
RESPONSE = {"id": "r1", "object": "response", "created_at": 1, "model": "m", "status": "completed",
            "output": [OUTPUT], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip


def named(data):
    return f"event: {data['type']}\n".encode() + event(data)


SPOKEN = [
    named({"type": "response.created", "sequence_number": 0, "response": {**RESPONSE, "status": "in_progress", "output": []}}),
    named({"type": "response.output_text.delta", "sequence_number": 1, "item_id": "m1", "output_index": 0, "content_index": 0, "delta": "On ", "logprobs": []}),
    named({"type": "response.output_text.delta", "sequence_number": 2, "item_id": "m1", "output_index": 0, "content_index": 0, "delta": "Tuesday.", "logprobs": []}),
    named({"type": "response.completed", "sequence_number": 3, "response": RESPONSE}),
]  # fmt: skip
CALL = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "me"}]}
VECTORS = {"object": "list", "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1},
           "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]}  # fmt: skip
FILE = {"id": "file-1", "object": "file", "bytes": 2, "created_at": 1, "filename": "a.txt", "purpose": "assistants",
        "status": "processed"}  # fmt: skip


async def api(asked, writer):
    """Answer as the API does, as far as these tests go."""
    match asked.method, asked.target:
        case "POST", "/v1/chat/completions" if asked.fields.get("stream"):
            await streaming(events("On Tuesday."))(asked, writer)
        case "POST", "/v1/chat/completions" if (
            asked.fields.get("tools") and asked.messages[-1]["role"] == "user"
        ):
            message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
            choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
            writer.write(answer({**completion(""), "choices": [choice]}))
        case "POST", "/v1/chat/completions":
            writer.write(answer(completion("On Tuesday.")))
        case "POST", "/v1/responses" if asked.fields.get("stream"):
            await streaming(SPOKEN)(asked, writer)
        case "POST", "/v1/responses":
            writer.write(answer(RESPONSE))
        case "GET", "/v1/models":
            writer.write(answer(MODELS))
        case "POST", "/v1/embeddings":
            writer.write(answer(VECTORS))
        case "POST", "/v1/files":
            writer.write(answer(FILE))
        case _:
            writer.write(
                answer({"error": {"message": "no such thing", "type": "x", "code": None}}, "404 Not Found")
            )


async def test_the_python_client_sees_the_api_as_it_is(chatting):
    async with (
        chatting(api) as (up, proxy),
        openai.AsyncOpenAI(api_key="sk-1", base_url=proxy.address, max_retries=0) as client,
    ):
        whole = await client.chat.completions.create(**asking())
        assert whole.choices[0].message.content == "On Tuesday."
        stream = await client.chat.completions.create(**asking("Do deploys go out?"), stream=True)
        assert "".join([c.choices[0].delta.content or "" async for c in stream]) == "On Tuesday."
        response = await client.responses.create(model="m", input="When do the deploys go?")
        assert response.output_text == "On Tuesday."
        spoken = await client.responses.create(model="m", input="Which day are deploys?", stream=True)
        assert [e.type for e in [e async for e in spoken]][-1] == "response.completed"
        assert len(await proxy.turns()) == 4
        assert [b"Tuesday mornings" in asked.body for asked in up.asked] == [True] * 4

        tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
        called = await client.chat.completions.create(**asking("Look up the deploys."), tools=tools)
        assert called.choices[0].message.tool_calls[0].function.name == "look"
        said = [*asking("Look up the deploys.")["messages"], called.choices[0].message,
                {"role": "tool", "tool_call_id": "t1", "content": "Tuesday"}]  # fmt: skip
        await client.chat.completions.create(model="m", messages=said, tools=tools)
        assert b"Relevant memory" not in up.asked[-1].body
        assert "[user] Look up the deploys.\n[me] On Tuesday." in await proxy.turns()

        assert [model.id async for model in client.models.list()] == ["m"]
        vectors = await client.embeddings.create(model="m", input="x", encoding_format="float")
        assert vectors.data[0].embedding == [0.5, 0.25]
        assert (await client.files.create(file=("a.txt", b"hi"), purpose="assistants")).id == "file-1"
        assert b'filename="a.txt"' in up.asked[-1].body
        with pytest.raises(openai.NotFoundError, match="no such thing"):
            await client.models.retrieve("other")
        assert len(await proxy.turns()) == 5


async def test_the_python_client_shows_what_the_proxy_says(chatting):
    async with (
        chatting(saying(answer(completion("Yes."))), limit=100) as (_, proxy),
        openai.AsyncOpenAI(api_key="k", base_url=proxy.address, max_retries=0) as client,
    ):
        with pytest.raises(openai.APIStatusError, match="body_mib") as refused:
            await client.chat.completions.create(**asking("x" * 100))
        assert (refused.value.status_code, refused.value.code) == (413, "body_too_large")
        with pytest.raises(openai.BadRequestError, match="X-RAWThink-Session"):
            await client.chat.completions.create(**asking(), extra_headers={"X-RAWThink-Sesion": "s"})


# --- Node ---------------------------------------------------------------------------------------

SCRIPT = """
import OpenAI from 'openai';
const client = new OpenAI({apiKey: 'sk-1', baseURL: process.argv[2], maxRetries: 0});
const messages = [{role: 'user', content: process.argv[3]}];
const whole = await client.chat.completions.create({model: 'm', messages});
const stream = await client.chat.completions.create({model: 'm', messages, stream: true});
let spoken = '';
for await (const chunk of stream) spoken += chunk.choices[0]?.delta?.content ?? '';
const response = await client.responses.create({model: 'm', input: process.argv[3]});
const models = [];
for await (const model of client.models.list()) models.push(model.id);
console.log(JSON.stringify([whole.choices[0].message.content, spoken, response.output_text, models]));
"""
MODULES = os.environ.get("OPENAI_NODE_MODULES", "")  # a folder where `npm install openai` has run


@pytest.mark.skipif(
    not MODULES or not shutil.which("node"), reason="needs node, and npm's openai in OPENAI_NODE_MODULES"
)
async def test_the_node_client_sees_the_api_as_it_is(chatting, tmp_path):
    (tmp_path / "node_modules").symlink_to(Path(MODULES, "node_modules"))
    (tmp_path / "chat.mjs").write_text(SCRIPT)
    async with chatting(api) as (up, proxy):
        process = await asyncio.create_subprocess_exec(
            "node", str(tmp_path / "chat.mjs"), proxy.address, QUESTION, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        assert json.loads(out) == ["On Tuesday.", "On Tuesday.", "On Tuesday.", ["m"]]
        assert b"Tuesday mornings" in up.asked[0].body
        assert len(await proxy.turns()) >= 1
