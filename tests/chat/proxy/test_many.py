"""Many conversations at once: each gets its own answer, and its own memory."""

from __future__ import annotations

import asyncio

import pytest

from .conftest import asking
from .upstreams import events, streaming

pytestmark = pytest.mark.asyncio

MANY = 60


async def test_no_conversation_sees_anything_of_another(chatting):
    async def script(asked, writer):
        await streaming(events(asked.messages[-1]["content"]), pause=0.001)(asked, writer)

    async with chatting(script, most=MANY) as (up, proxy), proxy.client() as client:

        async def talk(n):
            own = {"X-RAWThink-Space": f"space {n}"}
            first = f"My secret number is {n:05}."
            reply = await client.post("/chat/completions", json=asking(first, stream=True), headers=own)
            assert reply.content == b"".join(events(first))
            await proxy.memory.flush()
            again = f"What was my secret number? I am {n:05}."
            async with client.stream(
                "POST", "/chat/completions", json=asking(again, stream=True), headers=own
            ) as reply:
                assert b"".join([piece async for piece in reply.aiter_raw()]) == b"".join(events(again))
                assert "memories=1" in reply.headers["x-rawthink-recall"]

        await asyncio.gather(*map(talk, range(MANY)))
        assert len(up.asked) == 2 * MANY
        for asked in up.asked:
            told = asked.body.decode()
            [own] = {n for n in range(MANY) if f"{n:05}" in told}
            assert told.count(f"{own:05}") in (1, 3)  # alone, or with the turn before, both halves
        assert all([len(await proxy.turns(f"space {n}")) == 2 for n in range(0, MANY, 20)])
        assert proxy.proxy.running == 0
