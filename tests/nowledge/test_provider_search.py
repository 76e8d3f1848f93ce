"""The server's own search beside our words: it adds what words can't find, and nothing hangs on it."""

from __future__ import annotations

import pytest

from rawthink_nowledge_emulator import Emulator

from .provided import memory_on, sent, thing

pytestmark = pytest.mark.asyncio

SEARCH = "POST /memories/search"


async def birds(memory):
    await memory.record(
        entities=[thing("Bird")],
        observations=[
            {"entity": "Bird", "text": "the heron nests in March"},
            {"entity": "Bird", "text": "storks arrive late", "kind": "because", "valid_from": "2025-01-01"},
        ],
    )


def finding(server, memory_text, score):
    """Let the server's search answer with one memory, whatever was asked."""
    held = next(m for m in server.memories() if m.content == memory_text)
    server.fail(SEARCH, 200, body=[hit(held.id, score)], times=None)


def hit(memory_id, score):
    return {"memory": {"id": memory_id, "content": "…"}, "similarity_score": score, "relevance_reason": ""}


async def texts(memory, question, **more):
    return [found.text for found in (await memory.search(question, **more)).items]


async def test_what_shares_no_word_is_found_by_the_servers_search(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await birds(memory)
            assert await texts(memory, "wading fowl") == []
            finding(server, "the heron nests in March", 0.9)
            assert await texts(memory, "wading fowl") == ["the heron nests in March"]
            assert (await texts(memory, "stork arrival"))[0] == "storks arrive late"
            context = await memory.before_chat([{"role": "user", "content": "any wading fowl around here?"}])
            assert "heron" in context.text


async def test_it_counts_from_a_score_on_and_only_what_passes_the_filters(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await birds(memory)
            finding(server, "the heron nests in March", 0.6)
            assert await texts(memory, "wading fowl") == []
            server.heal()
            finding(server, "storks arrive late", 0.9)
            assert await texts(memory, "wading fowl", observation_kinds=["because"]) == ["storks arrive late"]
            assert await texts(memory, "wading fowl", observation_kinds=["decided"]) == []
            assert await texts(memory, "wading fowl", since="2025-06-01") == []
        async with memory_on(server, tmp_path, min_score=0.95) as strict:
            assert await texts(strict, "wading fowl") == []


async def test_it_is_asked_as_the_api_wants_to_be_asked(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await birds(memory)
            await memory.search("heron " * 200)
            (body,) = sent(server, SEARCH)
            assert len(body.pop("query")) == 500
            assert body == {"limit": 100, "mode": "fast", "include_entities": False, "space_id": "default"}
            await memory.search("…")
            await memory.search("   ")
            assert all(body["query"].strip() for body in sent(server, SEARCH))


@pytest.mark.parametrize("way", ["drop", "hang", "html", "empty", "vector_search_failed", 500])
async def test_where_it_fails_words_are_enough_and_the_answer_says_so(tmp_path, way):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await birds(memory)
            server.fail(SEARCH, way, times=None)
            page = await memory.search("heron")
            assert [found.text for found in page.items] == ["the heron nests in March"]
            assert "found by words only" in str(page.degraded)


async def test_an_index_that_lags_or_is_stuck_hides_nothing(tmp_path):
    with Emulator() as server:
        server.lag(never=True)
        async with memory_on(server, tmp_path) as memory:
            await birds(memory)
            assert await texts(memory, "heron") == ["the heron nests in March"]
            await memory.revise(
                [{"entity": "Bird", "text": "storks arrive late"}], successor={"text": "egrets"}
            )
            assert await texts(memory, "egrets") == ["egrets"]
            assert await texts(memory, "storks") == []


async def test_it_is_not_asked_where_others_of_our_spaces_would_weigh_in(tmp_path):
    with Emulator() as server:
        server.add_space("shared")
        async with memory_on(server, tmp_path, spaces={"a": "shared", "b": "shared"}) as memory:
            for name in ("a", "b"):
                await birds(memory.in_space(name))
            assert await texts(memory.in_space("a"), "heron") == ["the heron nests in March"]
            assert sent(server, SEARCH) == []
            await memory.search("heron")
            assert len(sent(server, SEARCH)) == 1


async def test_it_can_be_switched_off(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path, server_search=False) as memory:
            await birds(memory)
            await memory.search("heron")
            assert memory.info.capabilities["ranking"] == "core"
        assert sent(server, SEARCH) == []
