"""A process that has just begun, on a Space of many memories: it answers in time, and says how much it knows."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from rawthink_core.errors import BackendError, BackendUnavailable
from rawthink_core.operations import BeforeChat, Scope
from rawthink_nowledge import following, room
from rawthink_nowledge_emulator import Emulator

from .provided import memory_on, said

pytestmark = pytest.mark.asyncio

LIST = "GET /memories"
GENERATIONS = pytest.mark.parametrize("generation", ["0.6", "0.9", "0.10"])
SUPERSEDING = pytest.mark.parametrize("generation", ["0.9", "0.10"])
WHEN = "when is the heron here, or the stork?"
FIRST, LAST = "the first heron came in March", "the last heron left in October"
OWNED = "a stork sits before the hide"
TURNS = 33


@pytest.fixture
def server(request, monkeypatch):
    monkeypatch.setattr(following, "PAGE", 10)
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    with Emulator(params.get("generation", "0.10")) as server:
        server.add_space("aviary")
        yield server


@asynccontextmanager
async def birds_on(server, folder, **more):
    """Open a memory whose space no process of ours has read yet."""
    async with memory_on(server, folder, space="birds", spaces={"birds": "aviary"}, **more) as memory:
        yield memory


async def turns(memory, *texts, session="talk"):
    await memory.record(passages=[{"session": session, "text": text} for text in texts])


async def lived_in(memory):
    """Write what fills four pages of the list: a decision and a heron first, a heron last."""
    await memory.record_decision(
        name="hide", domain="software", decided="of reed", because="egrets are shy", rejected=["of wood"]
    )
    await turns(memory, FIRST)
    await turns(memory, *(f"turn {n}" for n in range(TURNS)), session="between")
    await memory.record(observations=[{"entity": "hide", "text": OWNED}])
    await turns(memory, LAST)


async def recalled(memory, question):
    """Recall under the deadline that `Memory` keeps; past it there would be nothing."""
    return await memory.before_chat([{"role": "user", "content": question}])


@GENERATIONS
async def test_recall_answers_in_time_from_what_was_read_by_then_and_goes_on_reading(
    tmp_path, server, generation
):
    async with birds_on(server, tmp_path) as memory:
        await lived_in(memory)
    async with birds_on(server, tmp_path, ids="later", server_search=False) as later:
        server.fail(LIST, "hang", times=None, after=1)
        context = await recalled(later, WHEN)
        assert LAST in context.text
        assert FIRST not in context.text
        assert "found in a part only, 10 of 4" in str(context.degraded)
        assert "read for the first time" in str(context.degraded)
        assert OWNED not in context.text  # whose it is was not read yet
        server.heal()
        assert len(await said(later)) == TURNS + 6
        logs = [memory.id for memory in server.memories() if "xm_log" in memory.metadata]
        assert list(later.provider.room("birds").mirror.latest_logs()) == logs[:3]
        context = await recalled(later, WHEN)
        assert context.degraded is None
        assert OWNED in context.text
        assert FIRST in context.text
        assert LAST in context.text


@SUPERSEDING
async def test_what_the_servers_search_finds_counts_before_the_list_is_read(tmp_path, server, generation):
    async with birds_on(server, tmp_path) as memory:
        await lived_in(memory)
    async with birds_on(server, tmp_path, ids="later") as later:
        server.fail(LIST, "hang", times=None)
        context = await recalled(later, WHEN)
        assert FIRST in context.text
        assert LAST in context.text
        assert context.degraded
        context = await recalled(later, "are egrets shy?")
        assert "egrets are shy" in context.text  # its log and its entity were asked for
        page = await later.provider.on_before_chat(asking("are egrets shy?"))
        assert {hit.entity_name for hit in page.items} == {"hide"}
        server.heal()
        assert len(await said(later)) == TURNS + 6


def asking(text):
    return BeforeChat(scope=Scope(space="birds"), text=text)


@GENERATIONS
async def test_what_was_retired_or_forgotten_is_not_recalled_however_little_was_read(
    tmp_path, server, generation
):
    async with birds_on(server, tmp_path) as memory:
        await memory.record(passages=[{"session": "s", "key": "1", "text": "the heron nests in the reed"}])
        await memory.record(passages=[{"session": "s", "key": "2", "text": "the heron is a secret"}])
        await lived_in(memory)
        await memory.record(passages=[{"session": "s", "key": "1", "text": "the heron nests in the oak"}])
        await memory.forget(
            ids=[hit.id for hit in (await memory.search("secret")).items if "secret" in hit.text]
        )
    for pages in range(5):
        async with birds_on(server, tmp_path, ids=f"later {pages}") as later:
            server.fail(LIST, "drop", times=None, after=pages)
            try:
                context = await later.provider.on_before_chat(asking("heron nests, secret"))
            except BackendError:
                assert pages == 0
                continue
            finally:
                server.heal()
            texts = {hit.text for hit in context.items}
            assert "the heron nests in the oak" in texts
            assert not texts & {"the heron nests in the reed", "the heron is a secret"}


@GENERATIONS
async def test_a_first_look_that_fails_on_its_way_is_no_whole_one_and_is_done_again(
    tmp_path, server, generation
):
    async with birds_on(server, tmp_path) as memory:
        await lived_in(memory)
    async with birds_on(server, tmp_path, ids="later", server_search=False) as later:
        server.fail(LIST, "internal", times=None, after=2)
        page = await later.search("heron")
        assert [hit.text for hit in page.items] == [LAST]
        assert "and then it failed" in str(page.degraded)
        assert (page.total, page.truncated) == (None, True)
        for read in (
            said,
            lambda memory: memory.get(names=["hide"]),
            lambda memory: memory.record(passages=[]),
        ):
            with pytest.raises(BackendError):
                await read(later)
        server.heal()
        assert {hit.text for hit in (await later.search("heron")).items} == {FIRST, LAST}
        assert (await later.search("heron")).degraded is None


async def test_nothing_read_at_all_is_down_and_not_empty(tmp_path, server):
    async with birds_on(server, tmp_path) as memory:
        await lived_in(memory)
    async with birds_on(server, tmp_path, ids="later", connect_seconds=0.3) as later:
        with server.down(), pytest.raises(BackendUnavailable):
            await later.search("heron")
        server.fail("*", "hang", times=None)
        context = await recalled(later, WHEN)
        assert context.text == ""
        assert "did not answer in" in str(context.degraded)


async def test_a_search_of_a_tool_waits_longer_than_a_recall(tmp_path, server, monkeypatch):
    async with birds_on(server, tmp_path) as memory:
        await lived_in(memory)
    monkeypatch.setattr(room, "PATIENCE", 0.05)
    async with birds_on(server, tmp_path, ids="later", server_search=False) as later:
        server.fail(LIST, "slow", seconds=0.1, times=4)
        assert (await recalled(later, WHEN)).degraded
        page = await later.search("heron")
        assert page.degraded is None
        assert {hit.text for hit in page.items} == {FIRST, LAST}


@pytest.mark.parametrize("generation", ["0.6"])
async def test_an_empty_page_amid_the_list_is_a_fault_and_not_its_end(tmp_path, server, generation):
    async with birds_on(server, tmp_path) as memory:
        await lived_in(memory)
        pages = -(-len(server.memories()) // 10)
    async with birds_on(server, tmp_path, ids="later", connect_seconds=0.3) as later:
        for looks in (1, 2, 3):  # the last page of each, though the first is whole
            server.fail(LIST, "internal", after=looks * (pages - 1))
        faults = 0
        for _ in range(4):
            try:
                assert len(await said(later)) == TURNS + 6
            except BackendError:
                faults += 1
        assert faults
