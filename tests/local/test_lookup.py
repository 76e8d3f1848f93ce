"""The row index answers the same however much of it is built, and notices whatever happens to its files."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
from contextlib import ExitStack
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.clock import ManualClock
from rawthink_core.errors import BackendUnavailable, RawThinkError
from rawthink_core.memory import Memory
from rawthink_core.operations import Forget, Scope
from rawthink_local import following, lookup
from rawthink_local.erasure import forget
from rawthink_local.lines import Moved
from rawthink_local.questions import extract

from .house import (
    EVERY,
    RULES,
    SPACE,
    START,
    batch,
    everything,
    finds,
    memory_at,
    note,
    store_at,
    texts_in,
    thing,
    world_at,
)

# --- random stores ----------------------------------------------------------------------------------

NAMES = ["Redis", "Zürich", "İstanbul", "cache layer", "缓存"]
TEXTS = ["is fast", "is slow", "used since 2019", "快", "Hızlı"]
names, texts = st.sampled_from(NAMES), st.sampled_from(TEXTS)
steps = st.one_of(
    st.fixed_dictionaries(
        {"say": names, "text": texts, "kind": st.sampled_from(["note", "decided", "rejected"])}
    ),
    st.fixed_dictionaries(
        {"link": names, "to": names, "type": st.sampled_from(["uses", "used_by", "supports"])}
    ),
    st.fixed_dictionaries(
        {"turn": st.sampled_from(["s1", "s2"]), "key": st.sampled_from(["a", "b", "c"]), "text": texts}
    ),
    st.fixed_dictionaries({"revise": names, "text": texts, "into": texts}),
    st.fixed_dictionaries({"retract": names, "text": texts}),
    st.fixed_dictionaries({"rename": names, "name": st.sampled_from(["Valkey", "Zurich", "the cache"])}),
    st.fixed_dictionaries({"forget": names}),
    st.fixed_dictionaries(
        {"file": st.sampled_from(["a.md", "b.md"]), "says": st.lists(texts, max_size=3, unique=True)}
    ),
    st.fixed_dictionaries({"end": st.sampled_from(["a.md", "b.md", "s1"])}),
)
stories = st.lists(st.tuples(st.sampled_from(["home", "work"]), steps), min_size=1, max_size=14)


def parts_of(step: dict[str, str]) -> dict[str, object]:
    match step:
        case {"say": name, "text": text, "kind": kind}:
            return {"entities": [thing(name)], "observations": [{"entity": name, "text": text, "kind": kind}]}
        case {"link": source, "to": target, "type": kind}:
            link = {"source": source, "type": kind, "target": target}
            return {"entities": [thing(source), thing(target)], "relations": [link]}
        case {"turn": session, "key": key, "text": text}:
            return {"passages": [{"session": session, "key": key, "text": text, "tags": [key]}]}
        case {"file": path, "says": says}:
            said = [
                {"session": path, "key": text, "text": text, "tags": ["a"], "origin": {"path": path}}
                for text in says
            ]
            return {"passages": said, "replaces_origin": path}
        case {"revise": name, "text": text, "into": into}:
            return {"revisions": [{"targets": [{"entity": name, "text": text}], "successor": {"text": into}}]}
        case {"retract": name, "text": text}:
            return {"revisions": [{"targets": [{"entity": name, "text": text}], "cause": "changed"}]}
        case {"rename": name, "name": new}:
            return {"revisions": [{"targets": [{"entity": name}], "fields": {"name": new}}]}
    raise AssertionError(step)


async def tell(memory: Memory, clock: ManualClock, story) -> list[str]:
    """Do what a story says, and return what came of each step."""
    outcomes = []
    for number, (space, step) in enumerate(story):
        clock.tick(timedelta(minutes=1))
        there = memory.in_space(space)
        try:
            if "forget" in step:
                receipt = await there.forget(names=[step["forget"]])
                outcomes.append(f"{receipt.ids} {receipt.missing}")
            elif "end" in step:
                receipt = await there.forget(sessions=[step["end"]])
                outcomes.append(f"{receipt.ids} {receipt.missing}")
            else:
                receipt = await there.record(batch_id=f"b{number}", **parts_of(step))
                outcomes.append(str(receipt.items))
        except RawThinkError as error:
            outcomes.append(f"{type(error).__name__}: {error}")
    return outcomes


async def answers(memory: Memory) -> dict[str, object]:
    """Return the answer to every kind of question that does not need the search index."""
    found: dict[str, object] = {}
    for space in ("home", "work"):
        there = memory.in_space(space)
        items = await everything(there)
        ids = [item.id for item in items]
        found[f"{space} scan"] = items
        found[f"{space} pages"] = [item.id for item in (await there.scan(limit=3, statuses=EVERY)).items]
        found[f"{space} get"] = await there.get(*ids, names=[*NAMES, "Valkey", "Zurich"])
        then = START + timedelta(minutes=5, seconds=30)
        found[f"{space} then"] = await there.get(*ids, names=NAMES, as_of=then)
        found[f"{space} graph"] = await there.graph(*NAMES, depth=2, statuses=EVERY)
        found[f"{space} tags"] = await there.scan(tags=["a"], sessions=["s1", "a.md"])
        for item in items:
            found[f"{space} history {item.id}"] = await there.history(item_id=item.id)
    return found


class Small:
    """Thresholds so low that a handful of commits is a long journal."""

    def __init__(self, patch: pytest.MonkeyPatch, *, long: bool) -> None:
        patch.setattr(following, "LONG_TAIL", 300 if long else 4 * 2**20)
        patch.setattr(lookup, "FLUSH_AT", 1 << 40)  # the marker moves only when it is told to
        patch.setattr(lookup, "_CHUNK", 200)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=stories, moves=st.integers(1, 12))
def test_every_state_of_the_index_answers_as_the_reference_does(tmp_path_factory, no_sync, story, moves):
    root = tmp_path_factory.mktemp("story")
    asyncio.run(in_every_state(root, story, moves))


async def in_every_state(root, story, moves):
    clock = ManualClock(START)
    reference = Memory(ReferenceProvider(world_at(root / "reference", clock)), space=SPACE)
    await reference.provider.open()
    outcomes = await tell(reference, clock, story)
    wanted = await answers(reference)
    await reference.close()
    with pytest.MonkeyPatch.context() as patch:
        Small(patch, long=False)
        async with memory_at(root, ManualClock(START)) as memory:
            assert await tell(memory, memory.provider._world.clock, story) == outcomes
            assert await answers(memory) == wanted, "warm"
        Small(patch, long=True)
        async with memory_at(root, cache=False) as memory:
            assert await answers(memory) == wanted, "cold"
            index = memory.provider.opened.store.index.main
            for part in memory.provider.opened.store.index.parts:
                for _ in range(moves):
                    part._advance()
                assert await answers(memory) == wanted, f"built up to {index._marker}"
                part.catch_up()
                assert await answers(memory) == wanted, "built"
                assert part._marker == part.end
            await copies(memory, root / "copy", wanted)
            with store_at(root, ManualClock(START + timedelta(days=1))) as other:
                other.record(
                    batch("more", space="work", passages=[{"session": "s9", "key": "k", "text": "t"}]), RULES
                )
            assert len(await everything(memory.in_space("work"))) == len(wanted["work scan"]) + 1, "grown"


async def copies(memory, root, wanted):
    """Look whether an export restores to the same memory, each commit in the file where it was."""
    async with memory_at(root) as copy:
        for space in ("home", "work"):
            exported = [commit async for commit in memory.in_space(space).export()]
            assert exported == sorted(exported, key=lambda commit: (commit.at, commit.id))
            assert (await copy.in_space(space).restore(exported)).skipped == 0
        assert await answers(copy) == wanted, "copied"
        ours, theirs = (m.provider.opened.store.index for m in (memory, copy))
        assert _commits(ours.main) == _commits(theirs.main)
        assert _commits(ours.filed) == _commits(theirs.filed)


def _commits(part):
    """Return the lines of a log that say something, in order: forgetting may have left nothing of a commit."""
    lines = part.lines() if part is not None else ()
    return sorted(line.data for line in lines if b'"commit"' in line.data and b'"ops":[]' not in line.data)


# --- journals that are not what they were -----------------------------------------------------------


@pytest.fixture(params=["warm", "cold", "built"])
def shape(request, monkeypatch):
    """Run a test with each part of the index answering."""
    Small(monkeypatch, long=request.param != "warm")

    def take(store):
        if request.param == "built":
            store.index.refresh()
            store.index.catch_up()

    return take


def fill(root, *says):
    with store_at(root) as store:
        for text in says:
            store.record(note("Redis", text), RULES)
    return root / "vault" / "rawthink.jsonl"


def test_another_file_in_the_place_of_the_journal_is_seen_at_once(tmp_path, shape):
    path = fill(tmp_path, "one", "two", "three")
    other = fill(tmp_path / "other", "four", "five", "six", "seven")
    with store_at(tmp_path) as store:
        shape(store)
        assert texts_in(store) == ["one", "two", "three"]
        older = b"".join(path.read_bytes().splitlines(keepends=True)[:2])
        swapped = path.with_name("swapped")
        for content, said in ((other.read_bytes(), ["four", "five", "six", "seven"]), (older, ["one"])):
            swapped.write_bytes(content)
            swapped.replace(path)  # as `git checkout` does it
            assert texts_in(store) == said
            shape(store)
            assert texts_in(store) == said


def test_another_content_in_the_same_file_is_seen_at_once(tmp_path, shape):
    path = fill(tmp_path, "one", "two", "three")
    whole = path.read_bytes()
    other = fill(tmp_path / "other", "four", "five", "six", "seven").read_bytes()
    inode = path.stat().st_ino
    with store_at(tmp_path) as store:
        shape(store)
        shorter = b"".join(whole.splitlines(keepends=True)[:3])
        for content, said in (
            (other, ["four", "five", "six", "seven"]),
            (shorter, ["one", "two"]),
            (whole, ["one", "two", "three"]),
            (other, ["four", "five", "six", "seven"]),
        ):
            path.write_bytes(content)  # as `cp` does it
            assert texts_in(store) == said
            shape(store)
            store.record(note("Redis", "more"), RULES)
            assert texts_in(store) == [*said, "more"]
    assert path.stat().st_ino == inode


def test_a_journal_that_goes_away_is_down_and_not_empty_until_it_is_back(tmp_path, shape):
    path = fill(tmp_path, "one", "two", "three")
    with store_at(tmp_path) as store:
        shape(store)
        assert len(texts_in(store)) == 3
        elsewhere = path.rename(path.with_name("elsewhere"))
        with pytest.raises(BackendUnavailable, match="was there and is gone"):
            texts_in(store)
        with pytest.raises(BackendUnavailable, match="was there and is gone"):
            store.record(note("Redis", "anew"), RULES)
        assert not path.exists(), "a new memory was begun in its place"
        elsewhere.rename(path)
        store.record(note("Redis", "more"), RULES)
        assert texts_in(store) == ["one", "two", "three", "more"]


def test_a_view_never_mixes_two_journals(tmp_path, shape):
    """An operation that began on one file either finishes on it or begins anew."""
    path = fill(tmp_path, "one", "two", "three")
    with store_at(tmp_path) as store:
        shape(store)
        store.look()
        with store.view(SPACE) as view:
            (redis,) = view.named(["redis"]).values()
            swapped = path.with_name("swapped")
            lines = path.read_bytes().splitlines(keepends=True)
            swapped.write_bytes(b"".join([lines[0], lines[3]]))
            swapped.replace(path)
            assert sorted(state.row["text"] for state in view.about([redis])) == ["one", "three", "two"]
            store.look()  # another thread does
            with pytest.raises(Moved):
                view.links([redis])
        path.with_name("swapped").write_bytes(lines[0])
        path.with_name("swapped").replace(path)
        with pytest.raises(Moved), store.view(SPACE):
            pass


def test_an_export_that_is_under_way_is_of_one_moment(tmp_path):
    fill(tmp_path, "one", "two", "three")
    with store_at(tmp_path) as store, store_at(tmp_path) as other:
        commits = store.commits(SPACE)
        first = next(commits)
        ids = [row["id"] for row in first.rows if row["op"] == "observation"]
        forget(other, Forget(scope=Scope(space=SPACE), ids=tuple(ids)))
        other.record(note("Redis", "four"), RULES)
        assert len(list(commits)) == 2
        assert texts_in(store) == ["two", "three", "four"]


def test_readers_see_whole_states_while_another_process_rewrites_the_journal(tmp_path, no_sync):
    fill(tmp_path, *(f"kept {n}" for n in range(20)))
    wrong: list[object] = []
    stop = threading.Event()

    def read():
        with store_at(tmp_path) as store:
            while not stop.is_set():
                texts = [text for text in texts_in(store) if text.startswith("kept")]
                if texts != [f"kept {n}" for n in range(20)]:
                    wrong.append(texts)
                stop.wait(0.002)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    with store_at(tmp_path) as store:
        for n in range(25):
            receipt = store.record(note("Redis", f"passing {n}"), RULES)
            forget(store, Forget(scope=Scope(space=SPACE), ids=tuple(receipt.ids("observation", "created"))))
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


# --- what may happen to the SQLite part -------------------------------------------------------------


def index_file(root):
    return root / "cache" / "rows.sqlite"


def built(root, *says):
    path = fill(root, *says)
    with store_at(root) as store:
        store.index.catch_up()
    return path


@pytest.mark.parametrize("junk", [b"", b"this is no database" * 100, b"SQLite format 3\0" + b"\1" * 5_000])
def test_a_row_file_that_is_junk_is_built_anew(tmp_path, junk):
    built(tmp_path, "one", "two")
    index_file(tmp_path).write_bytes(junk)
    with store_at(tmp_path) as store:
        assert texts_in(store) == ["one", "two"]
        store.index.catch_up()
    with store_at(tmp_path) as store:
        assert store.index.main._marker == store.index.end
        assert texts_in(store) == ["one", "two"]


def test_a_row_file_that_breaks_while_it_is_used_is_built_anew(tmp_path):
    built(tmp_path, *(f"says {n}" for n in range(200)))
    with store_at(tmp_path) as store:
        assert len(texts_in(store)) == 200
        with index_file(tmp_path).open("r+b") as file:
            for page in range(1, index_file(tmp_path).stat().st_size // 4096):
                file.seek(page * 4096)
                file.write(os.urandom(4096))
        store.index.main._rows._db.execute("PRAGMA shrink_memory")
        assert len(texts_in(store)) == 200
        store.record(note("Redis", "more"), RULES)
        assert len(texts_in(store)) == 201


def test_a_row_file_that_is_deleted_while_it_is_used_is_missed_by_nobody(tmp_path):
    built(tmp_path, "one", "two")
    with store_at(tmp_path) as store:
        shutil.rmtree(tmp_path / "cache")
        assert texts_in(store) == ["one", "two"]
        store.record(note("Redis", "three"), RULES)
    with store_at(tmp_path) as store:
        assert texts_in(store) == ["one", "two", "three"]


def test_a_row_file_of_another_format_is_built_anew(tmp_path):
    built(tmp_path, "one", "two")
    db = sqlite3.connect(index_file(tmp_path))
    db.execute("PRAGMA user_version = 99")
    db.close()
    with store_at(tmp_path) as store:
        assert store.index.main._marker == 0
        assert texts_in(store) == ["one", "two"]


def test_a_row_file_that_another_program_locks_is_done_without(tmp_path, monkeypatch):
    path = built(tmp_path, "one", "two")
    monkeypatch.setattr("rawthink_local.rowfile.BUSY_SECONDS", 0.05)
    db = sqlite3.connect(index_file(tmp_path), isolation_level=None)
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("BEGIN EXCLUSIVE")
    db.execute("CREATE TABLE mine (x)")
    try:
        with store_at(tmp_path) as store:
            assert texts_in(store) == ["one", "two"]
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join(lines[:2]))
            assert texts_in(store) == ["one"]
            store.record(note("Redis", "three"), RULES)
            assert texts_in(store) == ["one", "three"]
    finally:
        db.close()


def test_no_place_for_a_row_file_is_no_fault(tmp_path):
    fill(tmp_path, "one")
    (tmp_path / "cache").rename(tmp_path / "gone")
    (tmp_path / "cache").write_bytes(b"in the way")
    with store_at(tmp_path) as store:
        store.record(note("Redis", "two"), RULES)
        store.index.catch_up()
        assert texts_in(store) == ["one", "two"]


def test_an_index_that_another_process_fills_from_another_journal_is_not_believed(tmp_path):
    path = built(tmp_path, "one", "two", "three")
    with ExitStack() as stack:
        first = stack.enter_context(store_at(tmp_path))
        assert texts_in(first) == ["one", "two", "three"]
        state = path.stat()
        lines = path.read_bytes().splitlines(keepends=True)
        swapped = path.with_name("swapped")
        swapped.write_bytes(b"".join([lines[0], lines[3], lines[2]]))
        original = path.with_name("original")
        path.rename(original)
        swapped.rename(path)
        second = stack.enter_context(store_at(tmp_path))
        second.index.catch_up()
        assert len(texts_in(second)) == 2
        path.unlink()
        original.rename(path)
        assert path.stat().st_ino == state.st_ino
        assert texts_in(first) == ["one", "two", "three"]


def test_copies_of_one_store_share_no_index(tmp_path):
    async def run():
        world = world_at(tmp_path)
        async with memory_at(tmp_path) as memory:
            said = {"entity": "Redis", "text": "sentence one"}
            await memory.record(entities=[thing("Redis")], observations=[said])
            assert await finds(memory, "sentence") == ["sentence one"]
            shutil.copytree(world.path, tmp_path / "copy")
            async with memory_at(tmp_path, path=str(tmp_path / "copy")) as copy:
                await copy.record(observations=[{"entity": "Redis", "text": "sentence of the copy"}])
                assert set(await finds(copy, "sentence")) == {"sentence one", "sentence of the copy"}
                assert (
                    copy.provider.opened.store.index.main.file != memory.provider.opened.store.index.main.file
                )
            await memory.record(observations=[{"entity": "Redis", "text": "sentence two"}])
            assert set(await finds(memory, "sentence")) == {"sentence one", "sentence two"}

    asyncio.run(run())


def test_the_marker_moves_on_by_itself_and_a_commit_writes_nothing_there(tmp_path, monkeypatch):
    monkeypatch.setattr(lookup, "FLUSH_AT", 2_000)
    with store_at(tmp_path) as store:
        store.record(note("Redis", "one"), RULES)
        assert store.index.main._marker == 0
        for n in range(20):
            store.record(note("Redis", f"says {n}"), RULES)
        if store.index.main._builder is not None:
            store.index.main._builder.join()
        assert store.index.main._marker > 0
        assert len(texts_in(store)) == 21


def test_nothing_that_could_be_read_is_in_the_row_file(tmp_path):
    path = built(tmp_path, "a quite remarkable sentence")
    assert b"remarkable" in path.read_bytes()
    for file in (tmp_path / "cache").iterdir():
        for word in (b"remarkable", b"Redis", b"redis", b"software"):
            assert word not in file.read_bytes()


def test_an_extract_holds_one_entry_for_each_question_a_row_answers(tmp_path):
    with store_at(tmp_path) as store:
        store.record(batch("b", entities=[thing("Redis", aliases=["cache"])]), RULES)
        (line,) = [line for line in store.index.main.lines() if b"commit" in line.data]
        (commit,) = store.commits(SPACE)
        found = extract(line, commit)
    assert len(found.entries) == 4  # the commit, the id, two names
    assert [
        spot
        for entry, spot in found.entries
        if line.data[spot.position - line.position :].startswith(b'{"op"')
    ]
