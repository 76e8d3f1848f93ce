"""The same for people without an event loop, and what fits together."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from rawthink_chat.calls import per_call
from rawthink_chat.clients import with_memory
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.memory import Memory
from rawthink_core.provider import World
from rawthink_core.sync import open_memory_sync
from rawthink_openai_emulator import Emulator

DOG = "My dog is called Bilbo"
ASKED = "What is my dog called?"


@pytest.fixture(scope="module")
def emulator():
    with Emulator() as emulator:
        yield emulator


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_a_synchronous_client_takes_a_synchronous_memory(emulator, tmp_path):
    with (
        open_memory_sync("reference") as memory,
        OpenAI(base_url=emulator.url, api_key="k", max_retries=0) as bare,
    ):
        client = with_memory(bare, memory, session="one")
        assert type(client) is OpenAI
        messages: Any = [user(DOG)]
        client.chat.completions.create(model="echo", messages=messages)
        memory.flush()
        asked: Any = [user(ASKED)]
        stream = client.chat.completions.create(
            model="recall", messages=asked, stream=True, extra_headers=per_call(session="two")
        )
        assert "Bilbo" in "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        assert "Bilbo" in client.responses.create(model="recall", input=ASKED).output_text
        raw = client.chat.completions.with_raw_response.create(model="recall", messages=asked)
        assert "memories=" in raw.headers["x-rawthink-recall"]
        for failure in ("500", "cut"):
            with pytest.raises(openai.APIError):
                client.chat.completions.create(
                    model="echo", messages=asked, extra_headers={"x-emulate": failure}
                )
        memory.flush()
        assert len(memory.scan(items=["passage"]).items) == 3
        memory.close()
        assert (
            client.chat.completions.create(model="echo", messages=messages).choices[0].message.content == DOG
        )


def test_client_and_memory_must_fit(tmp_path):
    memory = Memory(ReferenceProvider(World(path=tmp_path)))
    with OpenAI(api_key="k") as client, pytest.raises(TypeError, match="open_memory_sync"):
        with_memory(client, memory)
    with open_memory_sync("reference") as sync, pytest.raises(TypeError, match=r"open_memory\(\)"):
        with_memory(AsyncOpenAI(api_key="k"), sync)
    other: Any = object()
    with pytest.raises(TypeError, match="OpenAI"):
        with_memory(other, memory)


def test_a_type_checker_knows_the_client(tmp_path):
    file = tmp_path / "typed.py"
    file.write_text(
        textwrap.dedent("""
        from openai import AsyncOpenAI, OpenAI
        from rawthink_chat.clients import with_memory
        from rawthink_core.memory import Memory
        from rawthink_core.sync import SyncMemory

        def both(memory: Memory, sync: SyncMemory) -> tuple[AsyncOpenAI, OpenAI]:
            return with_memory(AsyncOpenAI(), memory), with_memory(OpenAI(), sync)
        """)
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(file)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
