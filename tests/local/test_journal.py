"""What the journal promises: one batch one line, nothing confirmed is lost, and whatever is wrong is said."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
import zlib
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rawthink_core.clock import ManualClock
from rawthink_core.commits import Commit, Header, decode, encode, encode_header
from rawthink_core.errors import BackendTimeout, BackendUnavailable, StoreDamaged, StoreTooNew
from rawthink_local import files
from rawthink_local.mending import repair
from rawthink_local.restoring import restore

from .house import (
    RULES,
    SPACE,
    START,
    batch,
    markdown_blocks,
    memory_at,
    note,
    python,
    row,
    store_at,
    texts_in,
    thing,
)

(GOLDEN,) = markdown_blocks("journal.md", "jsonl")


def journal(root: Path) -> Path:
    return root / "vault" / "rawthink.jsonl"


def aside(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "vault").glob("rawthink.jsonl.damaged-*"))]


def record(root: Path, *texts: str) -> None:
    """Say some things, a batch each, in a store that is opened and closed for it."""
    with store_at(root) as store:
        for text in texts:
            store.record(note("Redis", text), RULES)


def said(root: Path) -> list[str]:
    with store_at(root) as store:
        return texts_in(store)


# --- the format -----------------------------------------------------------------------------------


def test_the_bytes_of_a_header_and_of_a_commit_are_these():
    header = Header("6f9619ff-8b86-4d01-b42d-00cf4fc964ff", "2026-01-01T08:00:00.000000Z", "UTC", 3)
    assert encode_header(header) == (
        b'{"v":1,"store":"6f9619ff-8b86-4d01-b42d-00cf4fc964ff","created":"2026-01-01T08:00:00.000000Z",'
        b'"timezone":"UTC","generation":3,"crc32":"dd6768fc"}\n'
    )
    said = {"op": "observation", "id": "i", "entity": "e", "kind": "note", "text": "ein\u2028é\n\0"}
    commit = Commit("b", "2026-01-01T09:00:00.000000Z", "home", (said,), {"host": "cli"}, "r")
    line = encode(commit)
    assert (
        line
        == (
            '{"v":1,"commit":"b","at":"2026-01-01T09:00:00.000000Z","space":"home","by":{"host":"cli"},"request":"r",'
            '"ops":[{"op":"observation","id":"i","entity":"e","kind":"note","text":"ein\u2028é\\n\\u0000"}],'
            '"crc32":"8485758a"}\n'
        ).encode()
    )
    assert zlib.crc32(line.split(b',"crc32"')[0]) == 0x8485758A


def test_the_example_of_the_documentation_reads_and_writes_to_the_same_bytes():
    lines = [decode(line.encode()) for line in GOLDEN.splitlines()]
    written = [encode_header(line) if isinstance(line, Header) else encode(line) for line in lines]
    assert b"".join(written).decode() == GOLDEN
    assert {row["op"] for line in lines[1:] for row in line.rows} == {
        *("entity", "field", "observation", "relation", "passage", "retire", "link", "same", "forgotten")
    }


async def reading_the_example(tmp_path: Path):
    journal(tmp_path).parent.mkdir(parents=True)
    journal(tmp_path).write_text(GOLDEN, encoding="utf-8", newline="")
    async with memory_at(tmp_path) as memory:
        assert memory.info.timezone == "Europe/Istanbul"
        page = await memory.graph("缓存", "api cache")
        told = await memory.history(name="api cache")
        (turn,) = (await memory.scan(items=["passage"])).items
        return page, told, turn


@pytest.mark.asyncio
async def test_the_example_of_the_documentation_is_a_store(tmp_path):
    page, told, turn = await reading_the_example(tmp_path)
    assert {entity.name for entity in page.entities} == {"Valkey", "api cache"}
    assert {(o.entity_name, o.text) for o in page.observations} == {
        ("Valkey", "is fast"),
        ("api cache", "read-through, five minutes"),
        ("api cache", "write-through — couples writes to the cache"),
    }
    assert [(r.source_name, r.type, r.target_name) for r in page.relations] == [
        ("api cache", "uses", "Valkey")
    ]
    assert ("read-through", "ended", "stale prices") in {
        (o.text, o.status, o.reason) for o in told.observations
    }
    assert (turn.text, turn.speaker, turn.tags) == ("[我] 你好\nsecond line", "张三", ("greeting",))


def test_a_new_store_is_a_header_for_git_and_for_this_user_alone(tmp_path):
    with store_at(tmp_path):
        pass
    vault = tmp_path / "vault"
    (line,) = journal(tmp_path).read_bytes().splitlines()
    assert decode(line) == Header(decode(line).store, "2026-01-01T00:00:00.000000Z", "UTC", 1)
    assert (vault / ".gitattributes").read_text() == "rawthink.jsonl merge=union -text\n"
    assert (vault / ".rawthink" / ".gitignore").read_text() == "*\n"
    assert oct(journal(tmp_path).stat().st_mode & 0o777) == "0o600"
    assert oct(vault.stat().st_mode & 0o777) == "0o700"


def test_a_batch_is_one_line_written_in_one_piece_and_synced(tmp_path, monkeypatch):
    with store_at(tmp_path) as store:
        store.record(note("Redis", "first"), RULES)
        before = journal(tmp_path).read_bytes()
        done = []
        write, sync = os.write, os.fdatasync
        monkeypatch.setattr(os, "write", lambda fd, data: done.append("write") or write(fd, data))
        monkeypatch.setattr(os, "fdatasync", lambda fd: done.append("sync") or sync(fd))
        many = batch(
            entities=[thing(f"thing {n}") for n in range(300)],
            observations=[{"entity": f"thing {n}", "text": "said"} for n in range(300)],
        )
        store.record(many, RULES)
        monkeypatch.undo()
        assert done == ["write", "sync"]
        after = journal(tmp_path).read_bytes()
        assert after.startswith(before)
        assert after[len(before) :].count(b"\n") == 1


def test_any_text_comes_back_as_it_was(tmp_path):
    texts = [
        "line\u2028separators\u2029and\x85next",
        "NUL \x00 in the middle",
        "  spaces around \t\r\n and breaks\r\n\r\n",
        "combining e\u0301 and é, 👩‍🔬, ﷽, \U0010ffff",
        '"quotes", back\\slashes, ","crc32":"00000000"}',
        "long " + "长" * 350_000,
    ]
    record(tmp_path, *texts)
    assert said(tmp_path) == texts
    with store_at(tmp_path, cache=False) as store:
        assert texts_in(store) == texts


def test_an_export_is_a_journal_that_another_store_restores(tmp_path):
    record(tmp_path / "one", "a", "b")
    with store_at(tmp_path / "one") as one, store_at(tmp_path / "two") as two:
        receipt = restore(two, SPACE, list(one.commits(SPACE)))
        again = restore(two, SPACE, list(one.commits(SPACE)))
        assert (receipt.restored, again.restored, again.skipped) == (2, 0, 2)
        lines = [
            p.read_bytes().splitlines()[1:] for p in (journal(tmp_path / "one"), journal(tmp_path / "two"))
        ]
        assert lines[0] == lines[1]


@pytest.mark.parametrize("name", ["with spaces", "记忆 库", "ünï'q\"uote", "-dash", "a" * 120])
def test_a_path_may_have_any_name(tmp_path, name):
    record(tmp_path / name, "kept")
    assert said(tmp_path / name) == ["kept"]


# --- time ---------------------------------------------------------------------------------------------


def times(root: Path) -> list[str]:
    lines = (decode(line) for line in journal(root).read_bytes().splitlines()[1:])
    return [line.at for line in lines]


@pytest.mark.parametrize("step", [timedelta(0), timedelta(days=-400)], ids=["standing", "backward"])
def test_every_commit_is_later_than_the_one_before_whatever_the_clock_says(tmp_path, step):
    clock = ManualClock(START)
    with ExitStack() as stack:
        stores = [stack.enter_context(store_at(tmp_path, clock)) for _ in range(2)]
        for n in range(6):
            stores[n % 2].record(note("Redis", f"says {n}"), RULES)
            clock.tick(step)
    with store_at(tmp_path, ManualClock(START - timedelta(days=4_000))) as store:
        store.record(note("Redis", "says more"), RULES)
    found = times(tmp_path)
    assert found == sorted(set(found))
    assert len(found) == 7


def test_the_latest_time_counts_wherever_in_a_long_journal_it_stands(tmp_path, monkeypatch):
    monkeypatch.setattr("rawthink_local.following.LONG_TAIL", 2_000)
    record(tmp_path, *(f"says {n}" for n in range(20)))
    lines = journal(tmp_path).read_bytes().splitlines(keepends=True)
    journal(tmp_path).write_bytes(b"".join([lines[0], *reversed(lines[1:])]))  # as a merge may leave it
    with store_at(tmp_path, cache=False) as store:
        store.record(note("Redis", "says more"), RULES)
    assert times(tmp_path)[-1] == max(times(tmp_path))
    assert len(set(times(tmp_path))) == 21


# --- disks and folders that refuse ------------------------------------------------------------------


class FullDisk:
    """A disk that takes some bytes of what is written next, and then no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int, code: int = errno.ENOSPC) -> None:
        self.room, self.code = room, code
        self._write, self._sync = os.write, os.fdatasync
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "fdatasync", self.sync)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(self.code, os.strerror(self.code))
        taken = self._write(descriptor, bytes(data)[: self.room])
        self.room -= taken
        return taken

    def sync(self, descriptor: int) -> None:
        if self.room <= 0:
            raise OSError(self.code, os.strerror(self.code))
        self._sync(descriptor)


@pytest.mark.parametrize("room", [0, 1, 100, 380])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_leaves_the_journal_as_it_was_and_says_what_to_do(tmp_path, monkeypatch, room, code):
    with store_at(tmp_path) as store:
        store.record(note("Redis", "before"), RULES)
        before = journal(tmp_path).read_bytes()
        lost = note("Redis", "did not fit")
        with monkeypatch.context() as patch:
            FullDisk(patch, room, code)
            with pytest.raises(BackendUnavailable, match=r"rawthink.jsonl failed: .*Nothing was lost"):
                store.record(lost, RULES)
            assert journal(tmp_path).read_bytes() == before
            assert texts_in(store) == ["before"]
        store.record(lost, RULES)
        assert texts_in(store) == ["before", "did not fit"]
    assert said(tmp_path) == ["before", "did not fit"]
    assert aside(tmp_path) == []


def test_a_disk_that_fails_while_a_store_is_made_leaves_no_half_of_one(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        FullDisk(patch, 20)
        with pytest.raises(BackendUnavailable, match="disk is full"), store_at(tmp_path):
            pass
    assert not journal(tmp_path).exists()
    record(tmp_path, "now there is room")
    assert said(tmp_path) == ["now there is room"]


class ReadOnly:
    """A folder in which this process may read, and nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._open, self._mkdir, self._folder = os.open, os.mkdir, str(folder)
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "mkdir", self.mkdir)

    def open(self, path, flags, *arguments, **more):
        if str(path).startswith(self._folder) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return self._open(path, flags, *arguments, **more)

    def mkdir(self, path, *arguments, **more):
        if str(path).startswith(self._folder) and not Path(path).exists():
            raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return self._mkdir(path, *arguments, **more)


@pytest.mark.asyncio
async def test_a_read_only_store_still_answers_and_refuses_to_write_with_a_reason(tmp_path, monkeypatch):
    record(tmp_path, "readable")
    (tmp_path / "vault" / ".rawthink" / "lock").unlink()
    ReadOnly(monkeypatch, tmp_path / "vault")
    async with memory_at(tmp_path) as memory:
        assert [hit.text for hit in (await memory.search("readable")).items] == ["readable"]
        assert (await memory.graph("Redis")).observations[0].text == "readable"
        with pytest.raises(BackendUnavailable, match="read-only"):
            await memory.record(observations=[{"entity": "Redis", "text": "more"}])


@pytest.mark.asyncio
async def test_a_user_without_any_writable_folder_can_still_read_and_search(tmp_path, monkeypatch):
    record(tmp_path, "readable")
    shutil.rmtree(tmp_path / "cache")
    for name in ("cache", "state"):
        (tmp_path / name).write_bytes(b"a file is in the way")
    async with memory_at(tmp_path) as memory:
        assert [hit.text for hit in (await memory.search("readable")).items] == ["readable"]
        assert (await memory.get(names=["Redis"])).items[0].name == "Redis"


def test_a_folder_where_the_journal_should_be_is_named(tmp_path):
    journal(tmp_path).mkdir(parents=True)
    with (
        pytest.raises(BackendUnavailable, match=r"rawthink.jsonl failed: it is a folder, not a file"),
        store_at(tmp_path),
    ):
        pass


def test_a_file_where_the_folder_should_be_is_named(tmp_path):
    (tmp_path / "vault").write_bytes(b"a file")
    with (
        pytest.raises(BackendUnavailable, match=r"vault.*(file is in the way|is a file, not a folder)"),
        store_at(tmp_path),
    ):
        pass
    assert (tmp_path / "vault").read_bytes() == b"a file"


def test_an_empty_file_where_the_journal_should_be_becomes_one(tmp_path):
    journal(tmp_path).parent.mkdir(parents=True)
    journal(tmp_path).touch()
    record(tmp_path, "kept")
    assert said(tmp_path) == ["kept"]
    assert isinstance(decode(journal(tmp_path).read_bytes().splitlines()[0]), Header)


# --- the lock ---------------------------------------------------------------------------------------


HOLDER = """
with store_at(Path(sys.argv[1])) as store, store.lock.held():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_hanging_lock_holder_gives_a_timeout_in_words_and_the_store_works_afterwards(tmp_path):
    with store_at(tmp_path, wait=0.05) as store:
        store.record(note("Redis", "before"), RULES)
        with python(HOLDER, tmp_path) as holder:
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(
                BackendTimeout, match=r"another process has held .*lock for 0.05 s. Nothing was written"
            ):
                store.record(note("Redis", "meanwhile"), RULES)
            assert texts_in(store) == ["before"]
        store.record(note("Redis", "after"), RULES)
        assert texts_in(store) == ["before", "after"]


def test_a_killed_lock_holder_frees_the_lock_at_once(tmp_path):
    with store_at(tmp_path, wait=20) as store, python(HOLDER, tmp_path) as holder:
        assert holder.stdout.readline() == "held\n"
        threading.Timer(0.05, holder.kill).start()
        store.record(note("Redis", "after"), RULES)
        assert texts_in(store) == ["after"]


@pytest.mark.asyncio
async def test_reads_go_on_while_writes_wait_for_a_hanging_process(tmp_path):
    async with memory_at(tmp_path, lock_seconds=30) as memory:
        await memory.record(entities=[thing("Redis")], observations=[{"entity": "Redis", "text": "before"}])
        with python(HOLDER, tmp_path) as holder:
            assert await asyncio.to_thread(holder.stdout.readline) == "held\n"
            waiting = [
                asyncio.create_task(memory.record(observations=[{"entity": "Redis", "text": f"says {n}"}]))
                for n in range(8)
            ]
            await asyncio.sleep(0)
            assert [hit.text for hit in (await memory.search("before")).items] == ["before"]
            assert (await memory.get(names=["Redis"])).items
            assert not any(task.done() for task in waiting)
            holder.kill()
        await asyncio.gather(*waiting)
        assert len((await memory.graph("Redis")).observations) == 9


# --- the torn tail ------------------------------------------------------------------------------------


def test_a_tail_torn_at_any_byte_costs_no_other_commit_and_is_set_aside_byte_for_byte(tmp_path, no_sync):
    with store_at(tmp_path / "whole") as store:
        store.record(note("Redis", "first"), RULES)
        store.record(batch("b", observations=[{"entity": "Redis", "text": "second"}]), RULES)
    content = journal(tmp_path / "whole").read_bytes()
    last = content.rindex(b"\n", 0, -1) + 1
    for cut in range(last, len(content)):
        root = tmp_path / str(cut)
        journal(root).parent.mkdir(parents=True)
        journal(root).write_bytes(content[:cut])
        complete = cut == len(content) - 1  # only the line break is missing
        with store_at(root, cache=False) as store:
            assert texts_in(store) == ["first", *(["second"] if complete else [])]
            assert store.degraded() is None
            store.record(note("Redis", "third"), RULES)
            assert texts_in(store) == ["first", *(["second"] if complete else []), "third"]
        assert aside(root) == ([] if complete or cut == last else [content[last:cut]])
        assert all(decode(line) for line in journal(root).read_bytes().splitlines())


@settings(max_examples=25, deadline=None)
@given(junk=st.binary(min_size=1, max_size=200).filter(lambda data: b"\n" not in data))
def test_any_bytes_at_the_end_are_set_aside(tmp_path_factory, junk):
    root = tmp_path_factory.mktemp("torn")
    record(root, "first")
    with journal(root).open("ab") as file:
        file.write(junk)
    record(root, "second")
    assert said(root) == ["first", "second"]
    assert aside(root) == [junk]


def test_a_torn_tail_is_a_note_of_health_and_not_a_fault(tmp_path):
    record(tmp_path, "first")
    with journal(tmp_path).open("ab") as file:
        file.write(b'{"v":1,"commit":"half')

    async def look():
        async with memory_at(tmp_path) as memory:
            before = await memory.health()
            receipt = await memory.maintain(repair=True)
            return before, receipt, await memory.health()

    before, receipt, after = asyncio.run(look())
    assert row(before, "torn tail").status == "note"
    assert row(before, "torn tail").fix
    assert "set a torn tail aside" in receipt.done[0]
    assert row(after, "set aside").status == "note"
    assert aside(tmp_path) == [b'{"v":1,"commit":"half']


def test_a_last_line_whose_checksum_is_wrong_is_a_torn_tail_too(tmp_path):
    record(tmp_path, "first", "second")
    content = bytearray(journal(tmp_path).read_bytes())
    content[-30] ^= 1
    journal(tmp_path).write_bytes(content)
    record(tmp_path, "third")
    assert said(tmp_path) == ["first", "third"]
    assert len(aside(tmp_path)) == 1


def test_two_repairs_in_one_second_keep_both_pieces(tmp_path):
    for piece in (b"one", b"two", b"two"):
        record(tmp_path, "said")
        with journal(tmp_path).open("ab") as file:
            file.write(piece)
    record(tmp_path, "said more")
    assert sorted(aside(tmp_path)) == [b"one", b"two"]


# --- damage elsewhere -----------------------------------------------------------------------------------


def flip(root: Path, words: bytes) -> bytes:
    """Change one letter of the journal; return what it holds then."""
    content = journal(root).read_bytes()
    assert content.count(words) == 1
    journal(root).write_bytes(content.replace(words, words[:-1] + bytes([words[-1] ^ 1])))
    return journal(root).read_bytes()


@pytest.mark.parametrize("known", [True, False], ids=["indexed", "not indexed"])
@pytest.mark.parametrize("running", [True, False], ids=["while open", "while closed"])
def test_a_flipped_byte_in_the_middle_is_noticed_and_mended_when_asked(tmp_path, known, running):
    record(tmp_path, "first", "second", "third")
    with ExitStack() as stack:
        if known:
            with store_at(tmp_path) as store:
                store.index.catch_up()
        store = stack.enter_context(store_at(tmp_path)) if running else None
        content = flip(tmp_path, b"second")
        store = store or stack.enter_context(store_at(tmp_path))
        assert len(texts_in_spite_of_damage(store)) == 2
        assert "can't be read" in store.degraded()
        with pytest.raises(StoreDamaged, match=r"Nothing was written. `rawthink doctor --fix`"):
            store.record(note("Redis", "fourth"), RULES)
        with pytest.raises(StoreDamaged):
            list(store.commits(SPACE))
        assert journal(tmp_path).read_bytes() == content
        done = repair(store)
        assert "1 damaged line(s)" in done[0]
        assert store.degraded() is None
        store.record(note("Redis", "fourth"), RULES)
        assert texts_in(store) == ["first", "third", "fourth"]
    (kept,) = aside(tmp_path)
    assert kept in content
    assert b"secon" in kept


def texts_in_spite_of_damage(store) -> list[str]:
    def ask(view):
        (redis,) = view.named(["redis"]).values()
        return [state.row["text"] for state in view.about([redis])]

    return store.read(SPACE, ask)


@pytest.mark.asyncio
async def test_answers_over_a_damaged_line_say_that_they_are_degraded(tmp_path):
    record(tmp_path, "first", "second", "third")
    flip(tmp_path, b"second")
    async with memory_at(tmp_path) as memory:
        answers = [
            await memory.search("first"),
            await memory.get(names=["Redis"]),
            await memory.scan(),
            await memory.graph("Redis"),
            await memory.history(name="Redis"),
        ]
        assert all("1 line(s)" in answer.degraded for answer in answers)
        health = await memory.health()
        assert (health.status, row(health, "damaged line").status) == ("degraded", "fail")
        assert row(health, "damaged line").fix == "rawthink doctor --fix"


@pytest.mark.asyncio
async def test_what_was_damaged_without_a_trace_is_found_by_health(tmp_path):
    record(tmp_path, "first", "second", "third")
    async with memory_at(tmp_path) as memory:
        await memory.scan()
        state = journal(tmp_path).stat()
        flip(tmp_path, b"second")
        os.utime(journal(tmp_path), ns=(state.st_atime_ns, state.st_mtime_ns))
        assert row(await memory.health(), "damaged line").status == "fail"


def test_a_row_that_turns_out_unreadable_is_taken_for_damage(tmp_path):
    record(tmp_path, "first", "second", "third")
    with store_at(tmp_path) as store:
        assert len(texts_in(store)) == 3
        state = journal(tmp_path).stat()
        content = journal(tmp_path).read_bytes()
        journal(tmp_path).write_bytes(content.replace(b'"text":"second"', b'"text":"second\x01'))
        os.utime(journal(tmp_path), ns=(state.st_atime_ns, state.st_mtime_ns))
        assert sorted(texts_in_spite_of_damage(store)) == ["first", "third"]
        assert store.degraded()


def test_conflict_markers_of_git_cost_nothing_but_themselves(tmp_path):
    record(tmp_path, "first", "second", "third")
    lines = journal(tmp_path).read_bytes().splitlines(keepends=True)
    marked = [*lines[:2], b"<<<<<<< HEAD\n", lines[2], b"=======\n", lines[3], b">>>>>>> branch\n"]
    journal(tmp_path).write_bytes(b"".join(marked))
    with store_at(tmp_path) as store:
        assert len(texts_in_spite_of_damage(store)) == 3
        with pytest.raises(StoreDamaged):
            store.record(note("Redis", "fourth"), RULES)
        assert len(repair(store)) == 2
        store.record(note("Redis", "fourth"), RULES)
        assert texts_in(store) == ["first", "second", "third", "fourth"]
    assert sorted(b"".join(aside(tmp_path)).splitlines()) == [b"<<<<<<< HEAD", b"=======", b">>>>>>> branch"]


def test_crlf_line_ends_do_no_harm(tmp_path):
    record(tmp_path, "first", "with\r\nbreaks\n")
    journal(tmp_path).write_bytes(journal(tmp_path).read_bytes().replace(b"\n", b"\r\n"))
    for cache in (True, False):
        with store_at(tmp_path, cache=cache) as store:
            store.record(note("Redis", f"cache {cache}"), RULES)
            assert texts_in(store)[:2] == ["first", "with\r\nbreaks\n"]
            assert store.degraded() is None
    assert aside(tmp_path) == []


def test_a_missing_header_is_reported_and_given_anew(tmp_path):
    record(tmp_path, "first")
    journal(tmp_path).write_bytes(b"".join(journal(tmp_path).read_bytes().splitlines(keepends=True)[1:]))

    async def look():
        async with memory_at(tmp_path) as memory:
            await memory.record(observations=[{"entity": "Redis", "text": "second"}])
            before = await memory.health()
            await memory.maintain(repair=True)
            return before, await memory.health()

    before, after = asyncio.run(look())
    assert row(before, "journal").status == "warn"
    assert row(before, "journal").fix == "rawthink doctor --fix"
    assert row(after, "journal").status == "ok"
    assert said(tmp_path) == ["first", "second"]


def test_of_two_headers_the_later_generation_counts(tmp_path):
    record(tmp_path, "first")
    first, *rest = journal(tmp_path).read_bytes().splitlines(keepends=True)
    header = decode(first)
    later = encode_header(Header(header.store, header.created, "Asia/Tokyo", 2))
    for headers in ([first, later], [later, first]):
        journal(tmp_path).write_bytes(b"".join([*headers, *rest]))
        with store_at(tmp_path) as store:
            assert store.journal.header().generation == 2
            assert texts_in(store) == ["first"]


@pytest.mark.parametrize("where", ["header", "line", "line in a long journal"])
def test_a_store_of_a_newer_version_is_refused_and_left_alone(tmp_path, where, monkeypatch):
    record(tmp_path, "first", "second", "third")
    if where == "line in a long journal":
        monkeypatch.setattr("rawthink_local.following.LONG_TAIL", 100)
    lines = journal(tmp_path).read_bytes().splitlines()
    number = 0 if where == "header" else 2
    body = lines[number].rpartition(b',"crc32"')[0].replace(b'{"v":1', b'{"v":2')
    lines[number] = body + b',"crc32":"%08x"}' % zlib.crc32(body)
    journal(tmp_path).write_bytes(b"\n".join(lines) + b"\n")
    before = {path: path.read_bytes() for path in (tmp_path / "vault").rglob("*") if path.is_file()}
    refused = pytest.raises(StoreTooNew, match="Upgrade with: pip install --upgrade rawthink")
    with refused, store_at(tmp_path, cache=False) as store:
        store.record(note("Redis", "fourth"), RULES)
    assert {path: path.read_bytes() for path in (tmp_path / "vault").rglob("*") if path.is_file()} == before


def test_errors_of_the_system_become_sentences_with_the_path():
    known = pytest.raises(BackendUnavailable, match=r"^reading /x failed: this user may not")
    with known, files.explained("reading", Path("/x")):
        raise PermissionError(errno.EACCES, "Permission denied")
    rare = pytest.raises(BackendUnavailable, match=r"^reading /x failed: something rare. Nothing was lost$")
    with rare, files.explained("reading", Path("/x")):
        raise OSError("something rare")
