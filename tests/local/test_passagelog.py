"""The log of files is derived: it reads as one with the journal, and may be lost at any time without harm."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import stat
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from rawthink_core.clock import ManualClock, iso
from rawthink_core.commits import Commit, Header, decode, encode_header
from rawthink_core.errors import BatchIdReused, StoreDamaged, StoreTooNew
from rawthink_core.memory import Memory
from rawthink_local import replica, store
from rawthink_local.mending import repair
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
    note,
    play,
    python,
    row,
    store_at,
    texts_in,
    thing,
)


def passages_file(root) -> Path:
    return root / "vault" / ".rawthink" / "passages.jsonl"


def journal_file(root) -> Path:
    return root / "vault" / "rawthink.jsonl"


def filed(path, *texts, session="notes", batch_id=None, space=SPACE, **more):
    """Return a batch that makes some texts what the memory holds of a file."""
    said = [
        {"session": session, "key": text, "text": text, "tags": ["qnote"], "origin": {"path": path}} | more
        for text in texts
    ]
    return batch(batch_id, space, passages=said, replaces_origin=path)


def turn(text, session="talk", **more):
    return batch(passages=[{"session": session, "key": text, "text": text} | more])


def commits_in(path):
    return [entry for line in path.read_bytes().splitlines() if isinstance(entry := decode(line), Commit)]


def active(opened, *ids):
    states = opened.read(SPACE, lambda view: view.states(ids))
    return {item for item, state in states.items() if state.active}


def passages_in(opened, session="notes"):
    return sorted(s.row["text"] for s in opened.read(SPACE, lambda view: view.session(session)) if s.active)


@pytest.fixture
def old_layout(monkeypatch):
    """Write as versions did that knew no log of files, until the test undoes it."""
    with monkeypatch.context() as patch:
        patch.setattr(store, "is_filed", lambda *_: False)
        yield patch


# --- what goes where --------------------------------------------------------------------------------


def test_passages_of_files_go_into_their_own_log_and_all_else_into_the_journal(tmp_path):
    with store_at(tmp_path) as opened:
        opened.record(note("Redis", "is fast"), RULES)
        opened.record(turn("said in a chat"), RULES)
        assert not passages_file(tmp_path).exists()
        opened.record(filed("a.md", "one", "two"), RULES)
        opened.record(filed("a.md", "two", "three"), RULES)  # one ends, two stands
        opened.record(filed("a.md"), RULES)
        mixed = {"session": "notes", "key": "m", "text": "mixed", "origin": {"path": "b.md"}}
        opened.record(batch(entities=[thing("Valkey")], passages=[mixed]), RULES)
        assert passages_in(opened) == ["mixed"]
    ops = [[row["op"] for row in commit.rows] for commit in commits_in(passages_file(tmp_path))]
    assert ops == [["passage"] * 2, ["same", "passage", "retire"], ["retire"] * 2]
    assert len(commits_in(journal_file(tmp_path))) == 3
    ours, journals = (
        decode(path.read_bytes().split(b"\n")[0])
        for path in (passages_file(tmp_path), journal_file(tmp_path))
    )
    assert isinstance(ours, Header)
    assert (ours.store, ours.timezone) == (journals.store, journals.timezone)
    assert stat.S_IMODE(passages_file(tmp_path).stat().st_mode) == 0o600


def test_a_file_that_takes_the_place_of_a_chat_turn_is_a_matter_for_the_journal(tmp_path):
    with store_at(tmp_path) as opened:
        opened.record(turn("said", session="notes", key="k"), RULES)
        opened.record(filed("a.md", "written", key="k"), RULES)
        assert passages_in(opened) == ["written"]
    assert not passages_file(tmp_path).exists()


def test_a_plain_record_syncs_once_and_a_plain_read_looks_at_one_file_more(tmp_path, monkeypatch):
    with store_at(tmp_path) as opened:
        opened.record(note("Redis", "is fast"), RULES)
        synced, looked = [], []
        sync, look = os.fdatasync, Path.stat
        monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(fd) or sync(fd))
        monkeypatch.setattr(os, "fsync", lambda fd: synced.append(fd) or sync(fd))
        monkeypatch.setattr(Path, "stat", lambda path, **how: looked.append(path.name) or look(path, **how))
        opened.record(note("Redis", "is old"), RULES)
        assert len(synced) == 1
        looked.clear()
        opened.read(SPACE, lambda view: view.named(["redis"]))
        assert looked == ["rawthink.jsonl", "passages.jsonl"]
        assert opened.index.filed is None
    assert not list((tmp_path / "cache").glob("passages.*"))


def test_times_go_on_over_both_files_and_a_batch_is_known_from_either(tmp_path):
    with store_at(tmp_path, ManualClock(START)) as opened:
        for n in range(3):
            opened.record(filed("a.md", f"file {n}", batch_id=f"f{n}"), RULES)
            opened.record(note("Redis", f"says {n}", batch_id=f"j{n}"), RULES)
        order = [commit.id for commit in opened.commits(SPACE)]
        assert order == ["f0", "j0", "f1", "j1", "f2", "j2"]
        times = [commit.at for commit in opened.commits(SPACE)]
        assert times == sorted(set(times))
        first = opened.record(filed("a.md", "file 0", batch_id="f0"), RULES)
        assert iso(first.recorded_at) == times[0]
        with pytest.raises(BatchIdReused):
            opened.record(filed("a.md", "other", batch_id="f0"), RULES)
        with pytest.raises(BatchIdReused):
            opened.record(filed("a.md", "other", batch_id="j0"), RULES)


@pytest.mark.asyncio
async def test_both_read_as_one(tmp_path):
    clock = ManualClock(START)
    async with memory_at(tmp_path, clock) as memory:
        for n in range(4):
            clock.tick(timedelta(hours=1))
            await memory.record(
                passages=[
                    {"session": "s", "key": f"f{n}", "text": f"written {n}", "origin": {"path": f"{n}.md"}}
                ]
            )
            clock.tick(timedelta(hours=1))
            await memory.record(passages=[{"session": "s", "key": f"c{n}", "text": f"spoken {n}"}])
        wanted = [f"{how} {n}" for n in range(4) for how in ("written", "spoken")]
        assert [item.text for item in await everything(memory)] == wanted
        assert [item.ordinal for item in await everything(memory)] == list(range(8))
        seen, cursor = [], None
        while True:
            page = await memory.scan(limit=3, cursor=cursor)
            seen += [item.text for item in page.items]
            if (cursor := page.cursor) is None:
                break
        assert seen == wanted
        assert set(await finds(memory, "written spoken")) == set(wanted)
        then = await memory.scan(as_of=START + timedelta(hours=3, minutes=30))
        assert [item.text for item in then.items] == wanted[:3]
        assert "8 items" in row(await memory.health(), "row index").detail


# --- it may be lost -----------------------------------------------------------------------------------


async def index_twice(root, memory, lose):
    """Index files, lose what is derived, index again; return the ids before and after."""
    for name, text in {
        "plan": "# Cache\n\nRead-through.\n\n# Why\n\nSlow.",
        "herons": "About herons.",
    }.items():
        place = root / "vault" / "sessions" / f"{name}.md"
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    report = await memory.vault.index()
    assert (report.chunks, report.unchanged) == (3, 0)
    assert (await memory.vault.index()).unchanged == 2
    assert await finds(memory, "herons") == ["About herons."]
    before = {item.text: item.id for item in (await memory.scan(items=["passage"])).items}
    await lose()
    assert (await memory.scan(items=["passage"])).items == ()
    assert await finds(memory, "herons") == []
    assert [said.text for said in (await memory.graph("Redis")).observations] == ["is fast"]
    report = await memory.vault.index()
    assert (report.chunks, report.unchanged, report.ended) == (3, 0, 0)
    assert await finds(memory, "herons") == ["About herons."]
    assert (await memory.vault.index()).unchanged == 2
    after = {item.text: item.id for item in (await memory.scan(items=["passage"])).items}
    return before, after


@pytest.mark.asyncio
@pytest.mark.parametrize("what", ["the log", "the folder", "its content", "another store's"])
async def test_what_is_lost_is_put_back_by_the_next_index_run_under_the_same_ids(tmp_path, monkeypatch, what):
    monkeypatch.setenv("RAWTHINK_CACHE", str(tmp_path / "ledgers"))
    async with memory_at(tmp_path) as opened:
        memory = Memory(opened.provider, space=SPACE, vault=tmp_path / "vault")
        await memory.record(entities=[thing("Redis")], observations=[{"entity": "Redis", "text": "is fast"}])

        async def lose():
            match what:
                case "the log":
                    passages_file(tmp_path).unlink()
                case "the folder":
                    shutil.rmtree(passages_file(tmp_path).parent)
                case "its content":
                    passages_file(tmp_path).write_bytes(b"junk\n" * 50)
                case "another store's":
                    with store_at(tmp_path / "other") as other:
                        other.record(filed("x.md", "strange"), RULES)
                    passages_file(tmp_path / "other").replace(passages_file(tmp_path))

        before, after = await index_twice(tmp_path, memory, lose)
        assert after == before
        assert (passages_file(tmp_path).parent / ".gitignore").read_text() == "*\n"
        assert (await memory.health()).status == "ok"


@pytest.mark.parametrize("cache", [True, False])
def test_a_deletion_while_the_store_is_open_is_noticed_by_reads_and_writes(tmp_path, cache):
    with store_at(tmp_path, cache=cache) as opened:
        opened.record(note("Redis", "is fast"), RULES)
        opened.record(filed("a.md", "one", batch_id="f"), RULES)
        for _ in range(3):
            opened.index.catch_up()
            assert passages_in(opened) == ["one"]
            shutil.rmtree(passages_file(tmp_path).parent)
            assert passages_in(opened) == []
            assert texts_in(opened) == ["is fast"]
            assert opened.degraded() is None
            receipt = opened.record(filed("a.md", "one", batch_id="f"), RULES)
            assert receipt.items[0].outcome == "created"
        with store_at(tmp_path, cache=cache) as other:
            assert passages_in(other) == ["one"]
            passages_file(tmp_path).unlink()
            other.record(filed("b.md", "two"), RULES)
            assert passages_in(opened) == passages_in(other) == ["two"]


def test_a_deletion_in_mid_write_is_planned_again(tmp_path, monkeypatch):
    """What stood there before does not count as said: a plan over it would write `same` of nothing."""
    with store_at(tmp_path) as opened:
        opened.record(filed("a.md", "one"), RULES)
        really = opened.index.filed.journal.append
        tries = []

        def append(line, expected):
            if not tries:
                passages_file(tmp_path).unlink()
            tries.append(line)
            return really(line, expected)

        monkeypatch.setattr(opened.passages, "append", append)
        receipt = opened.record(filed("a.md", "one"), RULES)
        assert [item.outcome for item in receipt.items] == ["created"]
        assert len(tries) == 1
        assert passages_in(opened) == ["one"]


def test_an_entry_of_the_old_kind_is_not_revived_by_dropping_the_log(tmp_path, old_layout):
    with store_at(tmp_path) as opened:
        receipt = opened.record(filed("a.md", "stale", "stays"), RULES)
        stale, stays = receipt.ids("passage", "created")
        old_layout.undo()
        assert not passages_file(tmp_path).exists()
        (fresh,) = opened.record(filed("a.md", "stays", "new"), RULES).ids("passage", "created")
        (other,) = opened.record(filed("b.md", "other"), RULES).ids("passage", "created")
        assert [commit.rows[0]["id"] for commit in commits_in(passages_file(tmp_path))] == [other]
        opened.record(filed("b.md"), RULES)
        assert active(opened, stale, stays, fresh, other) == {stays, fresh}
        passages_file(tmp_path).unlink()
        assert active(opened, stale, stays, fresh, other) == {stays, fresh}


def test_a_passage_that_lies_in_both_files_is_ended_in_the_journal(tmp_path, old_layout):
    with store_at(tmp_path) as opened:
        (stale,) = opened.record(filed("a.md", "stale"), RULES).ids("passage", "created")
        old_layout.undo()
        (made,) = opened.commits(SPACE)
        restore(opened, SPACE, [Commit("again", made.at, SPACE, made.rows)])
        assert len(commits_in(passages_file(tmp_path))) == 1
        opened.record(filed("a.md"), RULES)
        passages_file(tmp_path).unlink()
        assert active(opened, stale) == set()


def test_what_is_derived_stays_out_of_git_whoever_made_its_folder(tmp_path):
    with store_at(tmp_path) as opened:
        ignored = opened.derived / ".gitignore"
        ignored.unlink()
        opened.record(filed("a.md", "one"), RULES)
        assert ignored.read_text() == "*\n"


@pytest.mark.asyncio
async def test_a_store_of_the_old_layout_reads_searches_and_forgets_as_before(tmp_path, old_layout):
    async with memory_at(tmp_path) as memory:
        said = {"session": "s", "key": "k", "text": "an old sentence", "origin": {"path": "a.md"}}
        await memory.record(passages=[said])
        old_layout.undo()
    assert not passages_file(tmp_path).exists()
    async with memory_at(tmp_path) as memory:
        assert await finds(memory, "sentence") == ["an old sentence"]
        await memory.record(passages=[said | {"key": "new", "text": "a new sentence"}])
        assert passages_file(tmp_path).exists()
        assert len(await finds(memory, "sentence")) == 2
        receipt = await memory.forget(sessions=["s"])
        assert receipt.count == 2
        assert await finds(memory, "sentence") == []
    assert not [path for path, held in all_bytes(tmp_path).items() if b"sentence" in held]


# --- it can't be trusted ------------------------------------------------------------------------------


@pytest.mark.parametrize("junk", [b"", b"junk", b"\0" * 5_000, b'{"v":1,"store":"x"}\n', "other"])
def test_what_is_no_log_of_this_store_is_left_out_and_dropped_by_the_next_write(tmp_path, caplog, junk):
    with store_at(tmp_path) as opened:
        opened.record(note("Redis", "is fast"), RULES)
    if junk == "other":
        junk = encode_header(Header("another", "2026-01-01T00:00:00.000000Z", "UTC"))
    passages_file(tmp_path).write_bytes(junk)
    caplog.set_level(logging.WARNING, logger="rawthink.local")
    with store_at(tmp_path) as opened:
        for _ in range(3):
            assert texts_in(opened) == ["is fast"]
            assert opened.degraded() is None
        assert passages_file(tmp_path).read_bytes() == junk
        assert [record.message for record in caplog.records if "left out" in record.message] != []
        assert len(caplog.records) == 1
        opened.record(note("Redis", "is old"), RULES)
        assert not passages_file(tmp_path).exists()
        opened.record(filed("a.md", "one"), RULES)
        assert passages_in(opened) == ["one"]


def test_a_log_of_a_newer_version_is_refused_as_a_journal_is(tmp_path):
    with store_at(tmp_path) as opened:
        opened.record(note("Redis", "is fast"), RULES)
        passages_file(tmp_path).write_bytes(b'{"v":2,"store":"x"}\n')
        with pytest.raises(StoreTooNew):
            texts_in(opened)


def test_a_journal_in_whose_place_another_one_is_takes_its_log_with_it(tmp_path):
    with store_at(tmp_path) as opened, store_at(tmp_path / "other") as other:
        opened.record(filed("a.md", "one"), RULES)
        other.record(note("Redis", "is other"), RULES)
        journal_file(tmp_path / "other").replace(journal_file(tmp_path))
        assert texts_in(opened) == ["is other"]
        assert passages_in(opened) == []


def test_a_journal_that_lost_its_header_gets_back_what_the_log_knows_of_it(tmp_path):
    with store_at(tmp_path) as opened:
        opened.record(note("Redis", "is fast"), RULES)
        opened.record(filed("a.md", "one"), RULES)
        before = opened.journal.header()
        journal_file(tmp_path).write_bytes(b"".join(journal_file(tmp_path).read_bytes().splitlines(True)[1:]))
        assert passages_in(opened) == ["one"]
        assert "new header" in repair(opened)[0]
        assert opened.journal.header() == before
        assert passages_in(opened) == ["one"]


# --- crashes and damage -------------------------------------------------------------------------------


def test_a_torn_tail_is_cut_by_the_next_write_into_the_log(tmp_path):
    with store_at(tmp_path) as opened:
        opened.record(filed("a.md", "one"), RULES)
        with passages_file(tmp_path).open("ab") as file:
            file.write(b'{"v":1,"commit":"half')
        assert passages_in(opened) == ["one"]
        opened.record(note("Redis", "is fast"), RULES)
        opened.record(filed("b.md", "two"), RULES)
        assert passages_in(opened) == ["one", "two"]
        (aside,) = passages_file(tmp_path).parent.glob("passages.jsonl.damaged-*")
        assert aside.read_bytes() == b'{"v":1,"commit":"half'
    assert len(commits_in(passages_file(tmp_path))) == 2


def test_a_last_line_that_an_editor_left_open_is_ended_first(tmp_path):
    with store_at(tmp_path) as opened:
        opened.record(filed("a.md", "one"), RULES)
        passages_file(tmp_path).write_bytes(passages_file(tmp_path).read_bytes().rstrip(b"\n"))
        opened.record(filed("b.md", "two"), RULES)
        assert passages_in(opened) == ["one", "two"]
    assert len(commits_in(passages_file(tmp_path))) == 2


@pytest.mark.asyncio
async def test_damage_elsewhere_refuses_writes_to_it_alone_until_it_is_mended(tmp_path):
    async with memory_at(tmp_path) as memory:
        await memory.record(entities=[thing("Redis")])
        said = {"session": "s", "origin": {"path": "a.md"}}
        for text in ("first", "second", "third"):
            await memory.record(passages=[said | {"key": text, "text": text}])
        content = passages_file(tmp_path).read_bytes()
        passages_file(tmp_path).write_bytes(content.replace(b"second", b"secono"))
        page = await memory.scan(items=["passage"])
        assert [item.text for item in page.items] == ["first", "third"]
        assert "passages.jsonl can't be read" in page.degraded
        health = await memory.health()
        assert row(health, "damaged line", "passages.jsonl at byte").fix == "rawthink doctor --fix"
        await memory.record(observations=[{"entity": "Redis", "text": "goes on"}])
        with pytest.raises(StoreDamaged, match=r"passages.jsonl.*Nothing was written"):
            await memory.record(passages=[said | {"key": "4", "text": "fourth"}])
        with pytest.raises(StoreDamaged):
            [commit async for commit in memory.export()]
        with pytest.raises(StoreDamaged):
            await memory.forget(names=["Redis"])
        receipt = await memory.maintain(repair=True)
        assert "1 damaged line(s) aside in" in receipt.done[0]
        assert "passages.jsonl.damaged" in row(await memory.health(), "set aside").detail
        await memory.record(passages=[said | {"key": "4", "text": "fourth"}])
        assert {item.text for item in (await memory.scan(items=["passage"])).items} == {
            "first",
            "third",
            "fourth",
        }
        assert set(await finds(memory, "first third fourth")) == {"first", "third", "fourth"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the writers are forked")
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_writers_of_both_files_lose_nothing_and_leave_no_half_of_anything(tmp_path, seed):
    told = play("killed_between_logs", tmp_path, 60, seed)
    assert told["confirmed"] > 60
    assert told["filed"] > 20
    assert told["filed"] < told["confirmed"]


# --- with others --------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_what_another_process_files_is_in_the_next_read_and_the_next_search(tmp_path):
    code = """
with store_at(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    for line in sys.stdin:
        text = line.strip()
        said = {"session": "notes", "key": text, "text": text, "origin": {"path": f"{text}.md"}}
        store.record(batch(passages=[said]), RULES)
        print("written", flush=True)
"""
    async with memory_at(tmp_path) as memory:
        await memory.record(entities=[thing("Redis")])
        assert await finds(memory, "sentence") == []
        with python(code, tmp_path) as other:

            async def says(text):
                if text:
                    other.stdin.write(text + "\n")
                    other.stdin.flush()
                return await asyncio.to_thread(other.stdout.readline)

            assert await says("") == "ready\n"
            for number in range(3):
                assert await says(f"sentence {number}") == "written\n"
                assert f"sentence {number}" in await finds(memory, f"sentence {number}")
                if number == 1:
                    passages_file(tmp_path).unlink()
                    assert await finds(memory, "sentence") == []
        assert await finds(memory, "sentence") == ["sentence 2"]
        said = {"session": "notes", "key": "k", "text": "sentence of mine", "origin": {"path": "mine.md"}}
        await memory.record(passages=[said])
        assert set(await finds(memory, "sentence")) == {"sentence 2", "sentence of mine"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the writers are forked")
def test_four_processes_that_begin_the_log_at_once_begin_it_once(tmp_path):
    assert play("file_together", tmp_path, 4, 20) == {"passages": 80, "headers": 1, "commits": 80}


# --- the search index ---------------------------------------------------------------------------------


def replica_of(memory):
    return memory.provider.opened.search._replica


@pytest.mark.asyncio
async def test_the_index_goes_on_where_it_was_in_both_files(tmp_path):
    said = {"session": "s", "origin": {"path": "a.md"}}
    async with memory_at(tmp_path) as memory:
        await memory.record(passages=[said | {"key": "1", "text": "written one"}])
        await memory.record(passages=[{"session": "t", "key": "2", "text": "spoken two"}])
        assert len(await finds(memory, "one two")) == 2
        sizes = [journal_file(tmp_path).stat().st_size, passages_file(tmp_path).stat().st_size]
        assert replica_of(memory)._positions == sizes
    async with memory_at(tmp_path) as memory:
        store_ = memory.provider.opened.store
        assert memory.provider.opened.search.catch_up() is None
        assert replica_of(memory)._applied == 0
        assert replica_of(memory)._positions == sizes
        store_.record(batch(passages=[said | {"key": "3", "text": "written three"}]), RULES)
        assert set(await finds(memory, "written")) == {"written one", "written three"}
        assert replica_of(memory)._applied == 1


async def built(memory):
    """Return the page of a search once the index is whole."""
    for _ in range(400):
        if not (page := await memory.search("sentence", limit=100)).degraded:
            return page
        await asyncio.sleep(0.05)
    raise AssertionError(page.degraded)


@pytest.mark.asyncio
async def test_a_large_backlog_in_both_files_is_built_by_a_process_of_its_own(tmp_path, monkeypatch):
    with store_at(tmp_path) as opened:
        for n in range(20):
            opened.record(filed(f"{n}.md", f"written sentence {n}"), RULES)
            opened.record(turn(f"spoken sentence {n}"), RULES)
    monkeypatch.setattr(replica, "BACKLOG", 1_000)
    async with memory_at(tmp_path) as memory:
        page = await memory.search("sentence", limit=100)
        assert "index" in page.degraded
        page = await built(memory)
        assert len(page.items) == 40
        passages_file(tmp_path).unlink()
        page = await built(memory)
        assert sorted(hit.text for hit in page.items) == sorted(f"spoken sentence {n}" for n in range(20))
        assert memory.provider.opened.search.size() == 20


# --- forgetting, copying, telling ---------------------------------------------------------------------


@pytest.mark.asyncio
async def test_forgetting_erases_from_both_files_and_from_what_was_set_aside_of_either(tmp_path):
    secret = "the key is under the blue pot"
    async with memory_at(tmp_path) as memory:
        said = {"session": "s", "key": "k", "text": secret, "origin": {"path": "a.md"}}
        await memory.record(passages=[said, said | {"key": "2", "text": "kept"}])
        await memory.record(passages=[{"session": "s", "key": "3", "text": f"{secret}, said I"}])
        await memory.record(passages=[said | {"session": "other"}])
        half = passages_file(tmp_path).read_bytes().splitlines()[1][:-40]
        for path in (journal_file(tmp_path), passages_file(tmp_path)):
            path.with_name(f"{path.name}.damaged-20260101T000000").write_bytes(half)
        ids = [item.id for item in await everything(memory) if secret in item.text]
        receipt = await memory.forget(ids=ids)
        places = {place.place: place for place in receipt.places}
        assert places["file passages"].outcome == "erased"
        assert places["file passages"].note == str(passages_file(tmp_path))
        assert len([place for place in receipt.places if place.place == "set-aside lines"]) == 2
        assert places["vault file"].note.startswith("a.md")
        assert not [path for path, held in all_bytes(tmp_path).items() if b"blue pot" in held]
        assert [item.text for item in await everything(memory)] == ["kept"]
        again = await memory.record(passages=[said])
        assert again.ids("passage", "created")[0] not in ids  # though the mark is in the other file
        receipt = await memory.forget(ids=[(await everything(memory, sessions=["s"]))[0].id])
        assert receipt.count == 1
        await memory.record(entities=[thing("Redis")])
        receipt = await memory.forget(names=["Redis"])
        assert "file passages" not in {place.place for place in receipt.places}


@pytest.mark.asyncio
async def test_what_a_killed_forget_has_left_of_the_log_is_deleted(tmp_path):
    left = passages_file(tmp_path).with_name(".passages.jsonl.tmp")
    async with memory_at(tmp_path) as memory:
        await memory.record(entities=[thing("Redis")])
        left.write_bytes(b"secret")
        await memory.record(entities=[thing("more")])
        assert not left.exists()
        left.write_bytes(b"secret")
    async with memory_at(tmp_path):
        assert not left.exists()


@pytest.mark.asyncio
async def test_a_restored_export_goes_home_commit_by_commit(tmp_path):
    clock = ManualClock(START)
    async with memory_at(tmp_path / "one", clock) as one, memory_at(tmp_path / "two", clock) as two:
        said = {"session": "s", "origin": {"path": "a.md"}}
        await one.record(entities=[thing("Redis")], observations=[{"entity": "Redis", "text": "is fast"}])
        await one.record(passages=[said | {"key": "1", "text": "first"}], replaces_origin="a.md")
        await one.record(passages=[said | {"key": "2", "text": "second"}], replaces_origin="a.md")
        await one.record(passages=[{"session": "t", "key": "3", "text": "spoken"}])
        exported = [commit async for commit in one.export()]
        assert (await two.restore(exported)).restored == 4
        assert (await two.restore(exported)).skipped == 4
        assert await everything(two) == await everything(one)
        for path in (journal_file, passages_file):
            ours, theirs = (path(tmp_path / name).read_bytes().splitlines()[1:] for name in ("one", "two"))
            assert ours == theirs
        assert await finds(two, "second") == ["second"]
        # one row after the other, as an import does it
        async with memory_at(tmp_path / "three", clock) as three:
            for commit in exported:
                await three.restore([commit])
            assert await everything(three) == await everything(one)


def test_an_end_is_restored_to_where_its_passage_lies(tmp_path, old_layout):
    """Else the passage would be back when the log is dropped."""
    with store_at(tmp_path / "old") as old:
        old.record(filed("a.md", "stale", batch_id="made"), RULES)
        old_layout.undo()
        made = list(old.commits(SPACE))
        with store_at(tmp_path / "new") as new:
            restore(new, SPACE, made)
            new.record(filed("a.md", batch_id="ended"), RULES)
            assert len(commits_in(passages_file(tmp_path / "new"))) == 2
            ended = list(new.commits(SPACE))[1:]
        restore(old, SPACE, ended)
        assert passages_in(old) == []
        assert not passages_file(tmp_path / "old").exists()


@pytest.mark.asyncio
async def test_health_speaks_of_the_log_only_where_there_is_one(tmp_path):
    async with memory_at(tmp_path) as memory:
        await memory.record(entities=[thing("Redis")])
        assert "file passages" not in {check.name for check in (await memory.health()).checks}
        said = {"session": "s", "key": "k", "text": "one", "origin": {"path": "a.md"}}
        await memory.record(passages=[said])
        await memory.record(passages=[said])
        told = row(await memory.health(), "file passages")
        assert told.status == "ok"
        assert told.detail == (
            f"{passages_file(tmp_path)}, {passages_file(tmp_path).stat().st_size:,} bytes, 2 commits of files"
        )
        with passages_file(tmp_path).open("ab") as file:
            file.write(b"half")
        assert "passages.jsonl" in row(await memory.health(), "torn tail").detail
        assert "torn tail" in (await memory.maintain(repair=True)).done[0]


def test_reindexing_builds_both_row_indexes(tmp_path):
    with ExitStack() as stack:
        opened = stack.enter_context(store_at(tmp_path))
        opened.record(note("Redis", "is fast"), RULES)
        opened.record(filed("a.md", "one"), RULES)
        opened.index.rebuild()
        assert [part._marker for part in opened.index.parts] == [part.end for part in opened.index.parts]
        assert passages_in(opened) == ["one"]
        for file in (tmp_path / "cache").iterdir():
            assert b"a.md" not in file.read_bytes()
