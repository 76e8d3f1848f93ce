"""The search index: derived, caught up with by anybody, and of no influence on who comes first."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from rawthink_core.operations import Maintain, Scope
from rawthink_lancedb import index as index_module
from rawthink_lancedb import point_table
from rawthink_lancedb.errors import Raced, Vanished
from rawthink_lancedb.upkeep import optimize

from .house import EVERY, RULES, SPACE, commit, finds, memory_at, note, say, store_at, tell, turns

pytestmark = pytest.mark.asyncio

QUESTIONS = ("heron reeds", "heron", "the mill", "stork 3", "number 7")


async def lived_in(memory):
    for number in range(30):
        await tell(
            memory, f"the heron of number {number} {'reeds ' * (number % 3)}", session=f"s{number % 4}"
        )
        if number % 5 == 0:
            await say(memory, f"Mill {number}", f"stork {number} near the mill", "a heron too")
    old = (await memory.search("stork 5")).items[0].id
    await memory.revise([{"id": old}], successor={"text": "crane 5 near the mill"})


async def answers(memory):
    found = {}
    for question in QUESTIONS:
        for statuses in (("active",), EVERY):
            page = await memory.search(question, statuses=statuses, limit=50)
            found[question, statuses] = [(hit.id, hit.score) for hit in page.items]
    return found


async def test_what_a_killed_process_did_not_index_the_next_search_does(tmp_path):
    with store_at(tmp_path) as store:  # writes, and never searches
        for number in range(3):
            store.record(note("NAS", f"hums {number}"), RULES)
    async with memory_at(tmp_path) as memory:
        assert set(await finds(memory, "hums")) == {"hums 0", "hums 1", "hums 2"}


async def test_upkeep_changes_neither_who_comes_first_nor_any_score(tmp_path):
    async with memory_at(tmp_path, gather_every=1000) as memory:
        await lived_in(memory)
        before = await answers(memory)
        store = memory.provider.opened.store
        index = store.space("home").index
        for _ in range(2):
            await asyncio.to_thread(optimize, index.table, 0)
            assert await answers(memory) == before
        await memory.provider.maintain(Maintain(scope=Scope(space=SPACE), reindex=True))
        assert await answers(memory) == before
    async with memory_at(tmp_path) as memory:
        assert await answers(memory) == before, "statistics read at once are those counted bit by bit"


async def test_an_index_of_another_form_is_built_anew(tmp_path, monkeypatch):
    async with memory_at(tmp_path) as memory:
        await lived_in(memory)
        before = await answers(memory)
    monkeypatch.setattr(point_table, "FORM", "3/other-rules")
    async with memory_at(tmp_path) as memory:
        assert await answers(memory) == before
        index = memory.provider.opened.store.space(SPACE).index
        rows = index.table.ask("reading", lambda table: table.query().where("point = ''").to_list())
        assert [row["model"] for row in rows] == ["3/other-rules"]


async def test_an_index_that_is_built_anew_takes_nothing_from_those_who_read_it(tmp_path):
    async with memory_at(tmp_path) as one, memory_at(tmp_path) as two:
        await lived_in(one)
        before = await answers(one)
        assert await answers(two) == before
        await one.provider.maintain(Maintain(scope=Scope(space=SPACE), reindex=True))
        assert await answers(two) == before
        assert await answers(one) == before


@pytest.mark.parametrize("what", ["", "data", "_indices", "_versions"])
@pytest.mark.parametrize("first", ["one who knew it", "a new one"])
async def test_an_index_of_which_somebody_deletes_files_comes_back(tmp_path, what, first):
    async with memory_at(tmp_path) as one, memory_at(tmp_path) as two:
        await lived_in(one)
        before = await answers(one)
        assert await answers(two) == before
        name = one.provider.opened.store.space(SPACE).index.table.name
        shutil.rmtree(tmp_path / "vault" / "lancedb" / f"{name}.lance" / what)
        if first == "a new one":  # makes it again, so that the others know a table that is no more
            async with memory_at(tmp_path) as three:
                assert await answers(three) == before
        assert await answers(two) == before
        await tell(two, "a heron after that")
        for memory in (one, two):
            assert "a heron after that" in await finds(memory, "after that")
            assert (await memory.health()).status == "ok"


async def test_files_that_go_again_and_again_degrade_an_answer_and_raise_nothing(tmp_path, monkeypatch):
    async with memory_at(tmp_path) as memory:
        await tell(memory, "a heron")
        assert await finds(memory, "heron") == ["a heron"]
        index = memory.provider.opened.store.space(SPACE).index

        def gone(*_args):
            error = Vanished("Not found: x.lance")
            error.table = index.table.name
            raise error

        with monkeypatch.context() as patch:
            patch.setattr("rawthink_lancedb.retrieval.best", gone)
            page = await memory.search("heron")
            assert page.items == ()
            assert "files of the search index are gone" in page.degraded
        assert await finds(memory, "heron") == ["a heron"]


async def test_whoever_writes_for_an_earlier_making_of_the_index_does_not_call_it_complete(tmp_path):
    with store_at(tmp_path) as one, store_at(tmp_path) as two:
        for number in range(3):
            one.record(turns(f"heron {number}"), RULES)
        index, late = one.space(SPACE).index, two.space(SPACE).index
        for store in (one, two):
            store.apply(SPACE)
        end = index.points.applied
        index.drop()
        index.points.look()
        assert index.points.applied == 0
        making = index.points.making
        assert late.points.making not in (0, making)
        with pytest.raises(Raced):
            late.points.merge([], end)
        late.points.table.latest()  # as after files that were replaced
        late.points.merge([], end)
        index.points.look()
        assert (index.points.applied, index.points.making) == (0, making)
        for each in (late, index):
            each.log.look()
            assert each.catch_up() is None
            assert each.points.count() == 3


async def test_a_large_backlog_is_worked_off_beside_the_searches_which_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "BACKLOG", 50)
    monkeypatch.setattr(index_module, "_SLICE", 40)
    commits = [commit(number) for number in range(1, 301)]
    async with memory_at(tmp_path) as memory:
        await memory.provider.restore(Scope(space=SPACE), commits)
        page = await memory.search("turn 7")
        assert "index" in page.degraded
        assert "of 600 rows" in page.degraded
        while (page := await memory.search("turn 7", limit=1)).degraded:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)
        assert [hit.text for hit in page.items] == ["turn 7"]
        index = memory.provider.opened.store.space(SPACE).index
        assert index.points.count() == 300


async def test_two_processes_that_catch_up_at_once_write_each_point_once(tmp_path):
    with store_at(tmp_path) as store:
        for number in range(20):
            store.record(turns(f"heron {number}"), RULES)
    async with memory_at(tmp_path) as one, memory_at(tmp_path) as two:
        await asyncio.gather(*(memory.search("heron", limit=50) for memory in (one, two) * 3))
        for memory in (one, two):
            assert len((await memory.search("heron", limit=50)).items) == 20
            assert memory.provider.opened.store.space(SPACE).index.points.count() == 20


async def test_who_knew_less_of_the_log_does_not_overwrite_a_point(tmp_path):
    with store_at(tmp_path) as store:
        space = store.space(SPACE)
        store.record(note("NAS", "hums"), RULES)
        store.apply(SPACE)
        index = space.index
        row = index.table.ask("reading", lambda table: table.query().where("kind = 'note'").to_list())[0]
        index.points.merge([{**row, "status": "ended", "applied": row["applied"] - 1}])
        index.points.merge([{**row, "speaker": "late", "applied": row["applied"] + 1}])
        row = index.table.ask("reading", lambda table: table.query().where("kind = 'note'").to_list())[0]
        assert (row["status"], row["speaker"]) == ("active", "late")


async def test_counting_stops_where_enough_is_known_whoever_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("rawthink_lancedb.statistics.ENOUGH", 10)
    async with memory_at(tmp_path) as memory:
        for number in range(25):
            await tell(memory, f"heron number {number}")
            await memory.search("heron")
        bit_by_bit = memory.provider.opened.store.space(SPACE).index.statistics
    async with memory_at(tmp_path) as memory:
        await memory.search("heron")
        at_once = memory.provider.opened.store.space(SPACE).index.statistics
        assert bit_by_bit.items == at_once.items == 10
        terms = list(range(3)) + list(bit_by_bit._fresh)
        assert bit_by_bit.rarity(terms).tolist() == at_once.rarity(terms).tolist()


async def test_an_erased_item_is_out_of_the_statistics_of_every_process(tmp_path):
    async with memory_at(tmp_path) as one, memory_at(tmp_path) as two:
        ids = await tell(one, "a heron", "a stork", "a heron again")
        await two.search("heron")
        await one.forget(ids=(ids[0],))
        scores = [[(h.id, h.score) for h in (await m.search("heron stork")).items] for m in (one, two)]
        assert scores[0] == scores[1]
        counts = [m.provider.opened.store.space(SPACE).index.statistics.items for m in (one, two)]
        assert counts == [2, 2]
