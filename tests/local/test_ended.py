"""Upkeep erases passages that ended with their files from the log of files, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rawthink_core.clock import ManualClock
from rawthink_core.commits import Commit
from rawthink_core.memory import Memory
from rawthink_local.restoring import restore

from .house import (
    RULES,
    SPACE,
    START,
    all_bytes,
    batch,
    everything,
    finds,
    memory_at,
    row,
    thing,
)
from .test_embedding import Slow, settled, vectors_file
from .test_passagelog import active, commits_in, filed, journal_file, passages_file, passages_in

if TYPE_CHECKING:
    from rawthink_local.store import Store

pytestmark = pytest.mark.asyncio


def opened(memory) -> Store:
    return memory.provider.opened.store


def file(memory, path, *texts, **more):
    return opened(memory).record(filed(path, *texts, **more), RULES).ids("passage", "created")


async def test_what_ended_is_erased_and_what_stands_keeps_its_place(tmp_path):
    async with memory_at(tmp_path, ManualClock(START)) as memory:
        await memory.record(entities=[thing("Redis")], observations=[{"entity": "Redis", "text": "is fast"}])
        file(memory, "a.md", "stale heron", "grey stork")
        file(memory, "a.md", "grey stork", "white crane")
        file(memory, "b.md", "elsewhere")
        other = batch(space="other", passages=[filed("a.md", "in another space").passages[0].model_dump()])
        opened(memory).record(other, RULES)
        journal, before = journal_file(tmp_path).read_bytes(), await everything(memory)
        times = [commit.at for commit in opened(memory).commits(SPACE)]
        receipt = await memory.maintain()
        assert receipt.done == ("erased 1 passage(s) that are no longer in their files",)
        assert journal_file(tmp_path).read_bytes() == journal
        assert not [path for path, held in all_bytes(tmp_path).items() if b"stale heron" in held]
        assert await everything(memory) == [
            item for item in before if getattr(item, "status", "active") == "active"
        ]
        assert {"grey stork", "white crane"} <= set(await finds(memory, "grey white heron"))
        assert [commit.at for commit in opened(memory).commits(SPACE)] == times
        assert opened(memory).passages.header().generation == 2
        assert row(await memory.health(), "file passages").status == "ok"
        again = passages_file(tmp_path).stat()
        assert (await memory.maintain()).done == ()
        assert passages_file(tmp_path).stat() == again, "nothing to do, nothing rewritten"
    async with memory_at(tmp_path) as memory:
        assert len(await finds(memory, "grey white heron elsewhere")) == 3


async def test_text_that_comes_back_gets_its_id_back_once(tmp_path, monkeypatch):
    monkeypatch.setenv("RAWTHINK_CACHE", str(tmp_path / "ledgers"))
    place = tmp_path / "vault" / "sessions" / "a.md"
    async with memory_at(tmp_path) as inner:
        memory = Memory(inner.provider, space=SPACE, vault=tmp_path / "vault")
        place.parent.mkdir(parents=True)
        place.write_text("About herons.")
        await memory.vault.index()
        (first,) = [item.id for item in await everything(memory)]
        for _ in range(2):
            place.write_text("About storks.")
            assert (await memory.vault.index()).ended == 1
            assert len((await memory.maintain()).done) == 1
            assert [item.text for item in await everything(memory)] == ["About storks."]
            place.write_text("About herons.")
            report = await memory.vault.index(full=True)
            assert (report.chunks, report.ended, report.failed) == (1, 1, ())
            assert [(item.id, item.text) for item in await everything(memory) if item.status == "active"] == [
                (first, "About herons.")
            ]
            assert await finds(memory, "herons") == ["About herons."]
            assert (await memory.vault.index(full=True)).chunks == 0


async def test_what_a_standing_passage_took_the_place_of_stays_as_long_as_that(tmp_path):
    async with memory_at(tmp_path) as memory:
        said = {"session": "s", "key": "k", "origin": {"path": "a.md"}}
        for text in ("first", "second", "third"):
            await memory.record(passages=[said | {"text": text}])
        assert (await memory.maintain()).done == ()
        assert len(await everything(memory)) == 3
        file(memory, "a.md")
        await memory.maintain()
        assert await everything(memory) == []


async def test_what_the_journal_speaks_of_too_is_left_alone(tmp_path):
    async with memory_at(tmp_path) as memory:
        (said,) = file(memory, "a.md", "in both")
        kept = {"entities": [thing("Redis")], "revisions": [{"targets": [{"id": said}], "cause": "changed"}]}
        await memory.record(**kept)  # so its end is in the journal
        assert active(opened(memory), said) == set()
        file(memory, "b.md", "alone")
        file(memory, "b.md")
        await memory.maintain()
        assert [item.text for item in await everything(memory, items=["passage"])] == ["in both"]


async def test_what_ended_in_both_files_is_left_alone(tmp_path):
    async with memory_at(tmp_path) as memory:
        (said,) = file(memory, "a.md", "in both")
        file(memory, "a.md")
        await memory.record(entities=[thing("Redis")])
        made, ended, other = opened(memory).commits(SPACE)
        again = Commit("again", other.at, SPACE, (*other.rows, *ended.rows))
        restore(opened(memory), SPACE, [again])  # of several kinds, so it goes into the journal
        assert (await memory.maintain()).done == ()
        assert [commit.id for commit in commits_in(passages_file(tmp_path))] == [made.id, ended.id]
        assert active(opened(memory), said) == set()


async def test_an_export_of_before_brings_nothing_back(tmp_path):
    async with memory_at(tmp_path) as memory:
        file(memory, "a.md", "stale")
        file(memory, "a.md", "fresh")
        exported = list(opened(memory).commits(SPACE))
        await memory.maintain()
        restore(opened(memory), SPACE, exported)
        assert passages_in(opened(memory)) == ["fresh"]
        assert len(commits_in(passages_file(tmp_path))) == 2


async def test_another_process_follows(tmp_path):
    async with memory_at(tmp_path) as memory:
        file(memory, "a.md", "stale heron", "grey stork")
        file(memory, "a.md", "grey stork")
        async with memory_at(tmp_path) as other:
            assert await finds(other, "stork heron") == ["grey stork"]
            await memory.maintain()
            assert await finds(other, "stork heron") == ["grey stork"]
            file(other, "a.md", "grey stork", "white heron")
        assert set(await finds(memory, "stork heron")) == {"grey stork", "white heron"}


async def test_their_vectors_go_too_unless_another_passage_has_the_text(tmp_path):
    async with memory_at(tmp_path, embedder=Slow()) as memory:
        file(memory, "a.md", "a kitten sleeps", "a cat purrs")
        file(memory, "b.md", "a cat purrs", session="other")
        await memory.search("cat")
        await settled(memory)
        file(memory, "a.md")
        kept = memory.provider.opened.search.kept
        assert kept.of("a kitten sleeps")
        await memory.maintain()
        assert kept.of("a kitten sleeps") is None
        assert kept.of("a cat purrs")
        assert await finds(memory, "feline") == ["a cat purrs"]
        assert vectors_file(tmp_path).exists()


async def test_a_log_with_damaged_lines_is_left_as_it_is(tmp_path):
    async with memory_at(tmp_path) as memory:
        file(memory, "a.md", "stale")
        file(memory, "a.md", "fresh")
        whole = passages_file(tmp_path).read_bytes()
        passages_file(tmp_path).write_bytes(damaged := whole.replace(b"stale", b"stalx", 1))
        for what in ({}, {"reindex": True}):
            assert "left the passages of files as they are" in (await memory.maintain(**what)).done[0]
            assert passages_file(tmp_path).read_bytes() == damaged


async def test_a_torn_tail_is_set_aside(tmp_path):
    async with memory_at(tmp_path) as memory:
        file(memory, "a.md", "stale")
        file(memory, "a.md", "fresh")
        whole = passages_file(tmp_path).read_bytes()
        passages_file(tmp_path).write_bytes(whole + b'{"v":1,"commit":"half')
        assert "erased 1 passage" in (await memory.maintain(reindex=True)).done[0]
        assert passages_in(opened(memory)) == ["fresh"]
        (aside,) = passages_file(tmp_path).parent.glob("passages.jsonl.damaged-*")
        assert aside.read_bytes() == b'{"v":1,"commit":"half'


async def test_a_store_without_files_is_not_touched(tmp_path):
    async with memory_at(tmp_path) as memory:
        await memory.record(entities=[thing("Redis")])
        before = journal_file(tmp_path).stat()
        assert (await memory.maintain()).done == ()
        assert journal_file(tmp_path).stat() == before
        assert not passages_file(tmp_path).exists()
