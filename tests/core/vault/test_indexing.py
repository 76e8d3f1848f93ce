"""Indexing: what changed and no more, one commit a file, and nothing that one bad file could stop."""

from __future__ import annotations

import asyncio
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.errors import BackendTimeout, BackendUnavailable, NotFound, UnsupportedOperation
from rawthink_core.memory import Memory
from rawthink_core.plugins import hook_manager, hookimpl
from rawthink_core.provider import Capability
from rawthink_core.vault import Vault, source_tags
from rawthink_core.vault import vault as door

pytestmark = pytest.mark.asyncio

PLAN = """---
id: plan
title: The plan
date: 2026-01-05
tags: [work]
---
# Cache

Read-through.

## Why

The write path is the bottleneck.
"""


def sections(*numbers, title="Part"):
    return "\n\n".join(f"# {title} {n}\n\nwhat number {n} says" for n in numbers)


async def texts(held, **filters):
    return [passage.text for passage in await held(**filters)]


async def counted(vault, **how):
    report = await vault.index(**how)
    return report.files, report.unchanged, report.chunks, report.ended


# --- what gets there ----------------------------------------------------------------------------


async def test_sections_become_passages_that_know_where_they_are_from(vault, put, held, memory):
    put(("sessions/2026/plan.md", PLAN))
    report = await vault.index()
    assert (report.files, report.unchanged, report.chunks, report.ended) == (1, 0, 3, 0)
    title, first, second = await held()
    assert title.text == "The plan"
    assert first.text == "# Cache\n\nRead-through."
    assert second.text == "## Why\n\nThe write path is the bottleneck."
    assert second.key.startswith("Cache > Why#")
    assert (second.session, second.ordinal) == ("plan", 2)
    assert second.origin.path == "sessions/2026/plan.md"
    assert second.origin.line == 11
    assert PLAN.splitlines()[10] == "## Why"
    assert len(second.origin.sha256) == 64
    assert second.valid_from == datetime(2026, 1, 4, 16, tzinfo=UTC)  # that day in Shanghai
    page = await memory.search("bottleneck", since="2026-01-05", until="2026-01-05")
    assert page.items[0].id == second.id


async def test_notes_and_sessions_can_be_told_apart_and_filtered_by_their_tags(vault, put, memory):
    put(
        ("sessions/s.md", "---\ntags: [work, qnote, 'session:x']\n---\nabout herons"),
        ("qnotes/n.md", "---\ntags: [work]\n---\nabout herons too"),
        ("qnotes/m.md", "about herons as well"),
    )
    await vault.index()

    async def found(*tags):
        return sorted(hit.session for hit in (await memory.search("herons", tags=tags)).items)

    assert await found() == ["m", "n", "s"]
    assert await found(*source_tags("qnote")) == ["m", "n"]
    assert await found(*source_tags("session")) == ["s"]
    assert await found(*source_tags("qnote", ["work", "home"])) == ["n"]
    assert await found(*source_tags("session", ["work"])) == ["s"]
    assert await found(*source_tags("session", ["x"])) == []
    assert await found("work") == ["n", "s"]


async def test_only_markdown_in_the_two_folders_is_indexed(vault, put, held):
    put(
        ("sessions/deep/down/a.MD", "one"),
        ("sessions/.obsidian/b.md", "no"),
        ("sessions/.c.md", "no"),
        ("sessions/d.txt", "no"),
        ("archive/raw/e.md", "no"),
        ("f.md", "no"),
        ("qnotes/g.md", "two"),
    )
    await vault.index()
    assert sorted(await texts(held)) == ["one", "two"]


async def test_a_note_of_rawthink_mcp_is_read(vault, put, held):
    put(
        (
            "qnotes/2026-01-05_101112.md",
            '---\nid: "qnote_2026-01-05_101112"\ndate: 2026-01-05\ntags: ["x"]\nsession_ref: "s"\n---\n\n> one\ntwo\n',
        )
    )
    await vault.index()
    [passage] = await held()
    assert passage.text == "> one\ntwo"
    assert passage.session == "qnote_2026-01-05_101112"
    assert passage.valid_from == datetime(2026, 1, 5, 2, 11, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("path", "head", "day"),
    [
        ("sessions/2026-01-05_001_why.md", "", "2026-01-05"),
        ("sessions/x.md", "---\ncreated: 2026-01-05\n---\n", "2026-01-05"),
        ("sessions/2026-01-06.md", "---\ndate: 2026-01-05\n---\n", "2026-01-05"),
        ("sessions/x.md", "---\ndate: soon\n---\n", None),
        ("sessions/2026-99-99.md", "", None),
        ("sessions/x.md", "---\ndate: 0001-01-01\n---\n", None),
        ("sessions/x.md", "---\ndate: 9999-12-31\n---\n", None),
        ("qnotes/2026-01-05_996199.md", "", "2026-01-05"),
    ],
)
async def test_the_day_of_a_file(vault, put, held, path, head, day):
    put((path, f"{head}text"))
    assert (await vault.index()).failed == ()
    [passage] = await held()
    want = None if day is None else datetime.fromisoformat(f"{day}T00:00:00+08:00")
    assert passage.valid_from == want


async def test_files_that_differ_in_their_line_ends_only_say_the_same(vault, put, held):
    text = "---\ntitle: T\ntags: [a]\n---\n# H\none\n"
    put(("sessions/a.md", text), ("sessions/b.md", b"\xef\xbb\xbf" + text.encode()))
    put(("sessions/c.md", text.replace("\n", "\r\n")))
    await vault.index()
    found = await held()
    assert [(p.text.replace("\r", ""), p.tags, p.origin.line) for p in found[:2]] * 3 == [
        (p.text.replace("\r", ""), p.tags, p.origin.line) for p in found
    ]


async def test_files_with_nothing_to_say_are_no_fault(vault, put, held):
    put(
        ("sessions/a.md", ""),
        ("sessions/b.md", "---\n"),
        ("sessions/c.md", " \n\n"),
        ("sessions/d.md", "---\n---\n"),
    )
    assert (await vault.index()).failed == ()
    assert await held() == []
    assert await counted(vault) == (4, 4, 0, 0)


async def test_all_kinds_of_text_get_there(vault, put, held):
    odd = "null \x00 byte, line \u2028 separator, \U0001f468\u200d\U0001f469\u200d\U0001f467 family, \ufffd"
    put(("sessions/odd.md", odd), ("sessions/两个.md", "# 标题\n\n我们决定用缓存。"))
    await vault.index()
    assert sorted(await texts(held)) == sorted([odd, "# 标题\n\n我们决定用缓存。"])


# --- what costs nothing -------------------------------------------------------------------------


async def test_what_has_not_changed_is_not_written_again(vault, put, provider, held):
    put(("sessions/a.md", PLAN), ("qnotes/b.md", "text"))
    assert await counted(vault) == (2, 0, 4, 0)
    before, written = await held(), len(provider.batches)
    assert await counted(vault) == (2, 2, 0, 0)
    os.utime(vault.folder / "sessions" / "a.md")
    assert await counted(vault) == (2, 2, 0, 0)
    assert len(provider.batches) == written
    assert await held() == before


async def test_many_new_files_share_a_commit(vault, put, provider):
    put(*((f"sessions/{n:04}.md", f"text {n}") for n in range(1500)))
    assert await counted(vault) == (1500, 0, 1500, 0)
    assert [batch.size for batch in provider.batches] == [500, 500, 500]


async def test_the_list_of_hashes_can_be_lost_at_any_time(vault, put, provider, cache, held):
    put(*((f"sessions/{n}.md", f"text {n}") for n in range(50)))
    await vault.index()
    written = len(provider.batches)
    shutil.rmtree(cache)
    assert await counted(vault) == (50, 50, 0, 0)
    [database] = cache.rglob("*.db")
    database.write_bytes(b"damaged" * 1000)
    assert await counted(vault) == (50, 50, 0, 0)
    shutil.rmtree(cache)
    (vault.folder / "sessions" / "7.md").unlink()
    put(("sessions/8.md", "other"))
    assert await counted(vault) == (49, 48, 1, 2)
    assert len(provider.batches) == written + 2


async def test_it_works_where_nothing_can_be_kept(put, folder, memory, clock, tmp_path, held):
    (tmp_path / "nowhere").write_text("a file")
    vault = Vault(folder, memory, clock=clock, cache=tmp_path / "nowhere" / "cache")
    put(("sessions/a.md", "text"))
    assert await counted(vault) == (1, 0, 1, 0)
    assert await counted(vault) == (1, 1, 0, 0)
    assert (await vault.store_note("note")).problem is None
    assert len(await held()) == 2


@pytest.mark.parametrize("alone", [False, True])
async def test_another_store_in_the_same_place_is_noticed(vault, put, folder, cache, clock, world, alone):
    put(("sessions/a.md", "text"), ("sessions/b.md", "text"))
    await vault.index()
    other = ReferenceProvider(type(world)(path=world.path / "other", clock=clock))
    await other.open()
    other.info = vault._memory.info
    anew = Vault(folder, Memory(other), clock=clock, cache=cache)
    if alone:
        assert await counted(anew, session="a") == (1, 0, 1, 0)
        assert await counted(anew) == (2, 1, 1, 0)
    else:
        assert await counted(anew) == (2, 0, 2, 0)


async def test_spaces_do_not_share_what_is_indexed(vault, put, folder, memory, clock, cache):
    put(("sessions/a.md", "text"))
    await vault.index()
    other = Vault(folder, memory.in_space("other"), clock=clock, cache=cache)
    assert await counted(other) == (1, 0, 1, 0)
    assert await counted(vault) == (1, 1, 0, 0)


async def test_reading_what_is_indexed_does_not_count_as_use(vault, put, memory, provider):
    put(*((f"sessions/{n}.md", "text") for n in range(3)))
    await vault.index()
    for _ in range(3):
        await vault.index()
    assert len(provider._shelf.used) <= 1


# --- what changes -------------------------------------------------------------------------------


async def test_a_changed_file_keeps_what_is_the_same_and_ends_the_rest_in_one_commit(
    vault, put, provider, held
):
    put(("sessions/a.md", sections(1, 2, 3)))
    await vault.index()
    before = {passage.text: passage.id for passage in await held()}
    written = len(provider.batches)
    put(("sessions/a.md", sections(0, 1, 3)))
    assert await counted(vault) == (1, 0, 1, 1)
    assert len(provider.batches) == written + 1
    now = {passage.text: passage.id for passage in await held()}
    assert {text: item for text, item in now.items() if text in before} == {
        text: item for text, item in before.items() if "number 2" not in text
    }
    [ended] = await held(statuses=("ended",))
    assert "number 2" in ended.text


async def test_back_and_forth_is_written_each_time(vault, put, held):
    for said in ("one", "two", "one", "two", "one"):
        put(("sessions/a.md", said))
        assert (await vault.index()).chunks == 1
        assert await texts(held) == [said]


async def test_the_same_text_twice_in_a_file_is_two_passages(vault, put, held):
    put(("sessions/a.md", "# A\n\nsame\n\n# A\n\nsame\n"))
    assert await counted(vault) == (1, 0, 2, 0)
    put(("sessions/a.md", "# A\n\nsame\n"))
    assert await counted(vault) == (1, 0, 0, 1)


@pytest.mark.parametrize("head", ["tags: [b]", "date: 2026-02-02", "id: other"])
async def test_new_front_matter_is_news(vault, put, held, head):
    put(("sessions/a.md", "---\ntags: [a]\n---\ntext"))
    await vault.index()
    put(("sessions/a.md", f"---\n{head}\n---\ntext"))
    assert await counted(vault) == (1, 0, 1, 1)
    [passage] = await held()
    assert "a" not in passage.tags
    if head.startswith("tags"):
        assert "b" in passage.tags


async def test_what_was_in_a_file_that_is_gone_ends(vault, put, held, folder):
    put(("sessions/a.md", sections(1, 2)), ("sessions/b.md", "stays"))
    await vault.index()
    (folder / "sessions" / "a.md").unlink()
    assert await counted(vault) == (1, 1, 0, 2)
    assert await texts(held) == ["stays"]
    put(("sessions/a.md", sections(1, 2)))
    assert await counted(vault) == (2, 1, 2, 0)


async def test_a_moved_file_is_found_once_under_its_new_path(vault, put, held, folder):
    put(("sessions/a.md", PLAN), ("sessions/b.md", "other"))
    await vault.index()
    (folder / "sessions" / "2026").mkdir()
    (folder / "sessions" / "a.md").rename(folder / "sessions" / "2026" / "z.md")
    assert await counted(vault) == (2, 1, 3, 3)
    found = await held(sessions=("plan",))
    assert [passage.origin.path for passage in found] == ["sessions/2026/z.md"] * 3
    assert (await vault.session("plan")).path == "sessions/2026/z.md"


async def test_two_files_with_one_id_do_not_end_each_other(vault, put, held):
    put(
        ("sessions/a.md", "---\nid: x\n---\n" + sections(1, 2)),
        ("sessions/b.md", "---\nid: x\n---\n" + sections(2, 3)),
    )
    await vault.index()
    assert len(await held()) == 4
    put(("sessions/a.md", "---\nid: x\n---\n" + sections(1)))
    await vault.index()
    assert sorted((p.origin.path, p.text[-6]) for p in await held()) == [
        ("sessions/a.md", "1"), ("sessions/b.md", "2"), ("sessions/b.md", "3"),
    ]  # fmt: skip


async def test_what_is_of_no_file_is_left_alone(vault, put, memory, held, folder):
    mine = {"text": "mine", "session": "a", "origin": {"path": "elsewhere/a.md"}, "tags": ["session"]}
    await memory.record(passages=[{"text": "a turn", "session": "a"}, mine])
    put(("sessions/a.md", "text"))
    await vault.index(full=True)
    (folder / "sessions" / "a.md").unlink()
    await vault.index(full=True)
    assert sorted(await texts(held)) == ["a turn", "mine"]


async def test_what_was_forgotten_stays_so_while_its_file_is_the_same(vault, put, memory, held):
    put(("sessions/a.md", "text"), ("sessions/b.md", "other"))
    await vault.index()
    await memory.forget(sessions=("a",))
    await vault.index()
    assert await texts(held) == ["other"]


# --- a file that is too long for a batch --------------------------------------------------------


async def test_a_long_file_is_several_batches_and_what_is_stale_ends_with_the_last(
    vault, put, provider, held
):
    put(("sessions/a.md", sections(*range(2500))))
    assert await counted(vault) == (1, 0, 2500, 0)
    assert [batch.size for batch in provider.batches] == [1000, 1000, 500]
    assert await counted(vault) == (1, 1, 0, 0)
    provider.batches.clear()
    standing = []
    provider.after = lambda _: standing.append(provider._shelf.commits[-1].rows)
    put(("sessions/a.md", sections(*range(1200), *range(3000, 4800))))
    assert await counted(vault) == (1, 0, 1800, 1300)
    assert [(len(b.passages), sum(len(c.targets) for c in b.revisions)) for b in provider.batches] == [
        (1000, 0), (800, 200), (0, 1000), (0, 100),
    ]  # fmt: skip
    assert len(await held()) == 3000
    assert {passage.status for passage in await held(statuses=("ended", "invalidated"))} == {"ended"}
    put(("sessions/a.md", "short"))
    assert await counted(vault) == (1, 0, 1, 3000)


async def test_a_long_file_of_a_day_to_come_can_change(vault, put):
    head = "---\ndate: 2090-01-01\n---\n"
    put(("sessions/a.md", head + sections(*range(1100))))
    await vault.index()
    put(("sessions/a.md", head + sections(*range(1, 1101))))
    report = await vault.index()
    assert (report.chunks, report.ended, report.failed) == (1, 1, ())


async def test_a_long_note_is_stored_whole(vault, held):
    note = await vault.store_note(sections(*range(1200)))
    assert note.problem is None
    assert len(note.receipt.ids("passage", "created")) == len(await held()) == 1200


# --- what goes wrong ----------------------------------------------------------------------------


async def test_a_bad_file_stops_no_other_and_what_was_known_of_it_stays(vault, put, held, monkeypatch):
    put(("sessions/a.md", "was fine"), ("sessions/b.md", "fine"), ("sessions/big.md", "small"))
    await vault.index()
    monkeypatch.setattr("rawthink_core.vault.folder.LONGEST", 1000)
    put(("sessions/a.md", b"\xbc\xbb"), ("sessions/b.md", "still fine"), ("sessions/big.md", "x" * 1001))
    put(("sessions/c.md", "new"))
    report = await vault.index()
    assert [path for path, _ in report.failed] == ["sessions/a.md", "sessions/big.md"]
    assert "UTF-8 (from byte 1 on)" in report.failed[0][1]
    assert "longer" in report.failed[1][1]
    assert sorted(await texts(held)) == ["new", "small", "still fine", "was fine"]
    assert [path for path, _ in (await vault.index()).failed] == ["sessions/a.md", "sessions/big.md"]


async def test_a_folder_that_can_not_be_looked_into_loses_nothing(vault, put, held, monkeypatch):
    put(("sessions/deep/a.md", "text"), ("sessions/b.md", "other"))
    await vault.index()
    scandir = os.scandir

    def scan(path):
        if Path(path).name == "deep":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("rawthink_core.vault.folder.os.scandir", scan)
    for full in (False, True):
        report = await vault.index(full=full)
        assert report.failed == (("sessions/deep", "can't be looked into: Permission denied"),)
        assert len(await held()) == 2


async def test_a_broken_front_matter_is_said_at_every_run(vault, put, held):
    put(("sessions/a.md", "---\ntitle: *x* y\n---\nBody"))
    for _ in range(2):
        report = await vault.index()
        [(path, why)] = report.warnings
        assert path == "sessions/a.md"
        assert "line 2" in why
        assert report.failed == ()
    assert await texts(held) == ["title: *x* y\n---\nBody"]  # a heading, after a rule that says nothing


async def test_a_vault_that_went_away_ends_nothing(vault, put, held, folder):
    put(("sessions/a.md", "text"))
    await vault.index()
    shutil.move(folder, folder.parent / "away")
    with pytest.raises(NotFound):
        await vault.index()
    with pytest.raises(NotFound):
        await vault.index(full=True)
    assert len(await held()) == 1
    shutil.move(folder.parent / "away", folder)
    assert await counted(vault) == (1, 1, 0, 0)


async def test_a_vault_without_files_is_no_fault(vault, memory, held):
    assert await counted(vault) == (0, 0, 0, 0)
    origin = {"path": "sessions/theirs.md"}
    await memory.record(passages=[{"text": "theirs", "session": "s", "origin": origin, "tags": ["session"]}])
    assert await counted(vault, full=True) == (0, 0, 0, 0)
    assert len(await held()) == 1


async def test_what_a_plugin_refuses_is_named_and_the_rest_is_written(guarded, put, held):
    class NoGossip:
        @hookimpl
        def before_record(self, batch):
            if any("gossip" in passage.text for passage in batch.passages):
                raise ValueError("we don't keep gossip")

    put(*((f"sessions/{n}.md", "gossip" if n == 20 else f"text {n}") for n in range(40)))
    report = await guarded(hook_manager([NoGossip()])).index()
    [(path, why)] = report.failed
    assert path == "sessions/20.md"
    assert "gossip" in why
    assert len(await held()) == report.chunks == 39


async def test_a_store_that_fails_stops_the_run_and_the_next_goes_on(vault, put, provider, held):
    put(*((f"sessions/{n}.md", f"text {n}") for n in range(10)))
    await vault.index()
    put(*((f"sessions/{n}.md", f"other {n}") for n in range(10)))
    provider.batches.clear()

    def fail(batch):
        if batch.passages[0].origin.path == "sessions/5.md":
            raise BackendUnavailable("away")

    provider.fail = fail
    with pytest.raises(BackendUnavailable):
        await vault.index()
    provider.fail = None
    assert await counted(vault) == (10, 5, 5, 5)
    assert len(provider.batches) == 10
    assert sorted(await texts(held)) == [f"other {n}" for n in range(10)]


async def test_a_write_that_was_not_confirmed_is_repeated_under_its_id(vault, put, provider, held):
    lost = iter([BackendTimeout("late")])

    def after(_):
        for error in lost:
            raise error

    provider.after = after
    put(("sessions/a.md", "text"))
    report = await vault.index()
    assert report.failed == ()
    one, two = provider.batches
    assert one == two
    assert len(await held()) == 1


async def test_a_run_that_broke_off_is_taken_up_under_the_same_ids(vault, put, provider, held, monkeypatch):
    def after(_):
        raise BackendUnavailable("the answer got lost")

    async def scan(_):
        raise UnsupportedOperation("this", "scan")

    put(("sessions/a.md", sections(1, 2)))
    provider.after = after
    with monkeypatch.context() as without:
        without.setattr(provider, "scan", scan)  # else it would be seen that all is there
        with pytest.raises(BackendUnavailable):
            await vault.index()
        provider.after = None
        await vault.index()
        assert provider.batches[0].id == provider.batches[1].id
        assert len(provider._shelf.commits) == 1
        put(("sessions/a.md", sections(3)))
        await vault.index()
        put(("sessions/a.md", sections(1, 2)))
        await vault.index()
    assert [text[-6] for text in await texts(held)] == ["1", "2"]


async def test_a_backend_that_can_not_list_is_written_to_all_the_same(
    vault, put, provider, held, monkeypatch
):
    async def scan(_):
        raise UnsupportedOperation("this", "scan")

    put(*((f"sessions/{n}.md", f"text {n}") for n in range(40)), ("sessions/long.md", sections(*range(1100))))
    with monkeypatch.context() as without:
        without.setattr(provider, "scan", scan)
        for change in ("text", "other"):
            put(("sessions/0.md", f"{change} 0"))
            await vault.index()
    found = await texts(held)
    assert len(found) == 1140
    assert "text 0" not in found


async def test_a_backend_that_can_not_get_is_trusted(vault, put, provider, monkeypatch):
    capabilities = {k: v for k, v in provider.info.capabilities.items() if k is not Capability.GET}
    monkeypatch.setattr(provider, "get", None)
    provider.info = type(provider.info)(
        **{**{s: getattr(provider.info, s) for s in provider.info.__slots__}, "capabilities": capabilities}
    )
    put(("sessions/a.md", "text"))
    await vault.index()
    assert await counted(vault) == (1, 1, 0, 0)


async def test_secrets_in_files_are_said(guarded, put):
    put(("sessions/a.md", "# A\nghp_" + "a1B2" * 9 + "\n# B\nghp_" + "c3D4" * 9), ("sessions/b.md", "fine"))
    report = await guarded().index()
    assert report.warnings == (("sessions/a.md", "looks like it holds a secret (github-token)"),)


async def test_a_key_that_is_longer_than_a_passage_is_masked_whole(guarded, put, held):
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
    put(
        (
            "sessions/a.md",
            f"# Key\n-----BEGIN PRIVATE KEY-----\n{line * 40}-----END PRIVATE KEY-----\n# After\nx",
        )
    )
    await guarded(secrets="on").index()
    found = await held()
    assert [passage.text for passage in found] == ["# Key\n[redacted private-key]", "# After\nx"]
    assert found[1].origin.line == 44


async def test_masking_that_is_turned_on_reaches_what_is_indexed_already(guarded, put, held):
    put(("sessions/a.md", "token ghp_" + "a1B2" * 9), ("sessions/b.md", "fine"))
    await guarded(secrets="off").index()
    report = await guarded(secrets="on").index()
    assert (report.unchanged, report.chunks, report.ended) == (0, 1, 1)
    assert sorted(await texts(held)) == ["fine", "token [redacted github-token]"]


# --- one session, progress, and two at once -----------------------------------------------------


async def test_one_session_can_be_indexed_alone(vault, put, held, folder):
    put(("sessions/a.md", PLAN), ("sessions/b.md", "other"), ("qnotes/n.md", "note"))
    assert await counted(vault, session="plan") == (1, 0, 3, 0)
    assert await counted(vault, session="plan") == (1, 1, 0, 0)
    assert await counted(vault, session="plan", full=True) == (1, 0, 0, 0)
    assert len(await held()) == 3
    for unknown in ("a", "pla", "*", "../plan"):
        with pytest.raises(NotFound):
            await vault.index(session=unknown)
    assert await counted(vault) == (3, 1, 2, 0)
    (folder / "sessions" / "a.md").unlink()
    assert await counted(vault, session="plan") == (0, 0, 0, 3)
    with pytest.raises(NotFound):
        await vault.index(session="plan")


async def test_a_session_that_got_another_id_is_not_there_twice(vault, put, held):
    put(("sessions/a.md", PLAN))
    await vault.index()
    put(("sessions/a.md", PLAN.replace("id: plan", "id: other")))
    assert await counted(vault, session="other") == (1, 0, 3, 3)
    assert {passage.session for passage in await held()} == {"other"}


async def test_progress_is_told(vault, put):
    put(*((f"sessions/{n}.md", "text") for n in range(150)))
    told = []
    await vault.index(progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1] == (150, 150)
    assert len(told) > 1


async def test_runs_wait_for_each_other(vault, put, folder, memory, clock, cache, monkeypatch):
    put(*((f"sessions/{n}.md", f"text {n}") for n in range(60)))
    other = Vault(folder, memory, clock=clock, cache=cache)
    reports = await asyncio.gather(vault.index(), other.index(), vault.index())
    assert sorted(report.chunks for report in reports) == [0, 0, 60]
    monkeypatch.setattr(door, "LOCK_SECONDS", 0.1)
    async with vault._alone(vault._ledger()):
        with pytest.raises(BackendTimeout):
            await other.index()


async def test_notes_may_be_stored_while_files_are_indexed(vault, put, held):
    put(*((f"sessions/{n}.md", f"text {n}") for n in range(100)))
    await asyncio.gather(vault.index(), *(vault.store_note(f"note {n}") for n in range(10)))
    await vault.index()
    assert len(await held()) == 110
    assert len({passage.id for passage in await held()}) == 110
