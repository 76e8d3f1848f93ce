"""Notes: on the disk before anything else, whole, under a name of their own, with the text that was let through."""

from __future__ import annotations

import asyncio
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rawthink_core.errors import BackendUnavailable, HookRefused, InvalidRequest
from rawthink_core.plugins import hook_manager, hookimpl
from rawthink_core.vault import folder as files
from rawthink_core.vault import own_tags, source_of, source_tags

pytestmark = pytest.mark.asyncio


async def test_a_note_is_a_file_in_the_format_of_rawthink_mcp_and_is_found(vault, folder, memory, clock):
    clock.set(
        datetime(2026, 1, 5, 20, 11, 12, tzinfo=UTC)
    )  # the next morning in Shanghai, where the store is
    note = await vault.store_note(
        "first line\n> second — 张三", session="2026-01-05_001", tags=["work", " ", "a b"]
    )
    assert (note.id, note.path) == ("qnote_2026-01-06_041112", "qnotes/2026-01-06_041112.md")
    assert note.problem is None
    assert (folder / note.path).read_text("utf-8") == (
        '---\nid: "qnote_2026-01-06_041112"\ndate: 2026-01-06\ntags: ["work", "a b"]\n'
        'session_ref: "2026-01-05_001"\n---\n\nfirst line\n> second — 张三\n'
    )
    [hit] = (await memory.search("张三", tags=source_tags("qnote", ["work"]))).items
    assert (hit.text, hit.session) == ("first line\n> second — 张三", note.id)
    assert hit.valid_from == datetime(2026, 1, 5, 20, 11, 12, tzinfo=UTC)
    assert (own_tags(hit.tags), source_of(hit.tags)) == (("work", "a b"), "qnote")
    assert note.receipt.ids("passage", "created") == [hit.id]
    assert (await memory.get(hit.id)).items[0].origin.line == 8


async def test_indexing_a_stored_note_again_does_nothing(vault, provider):
    await vault.store_note("once")
    for full in (False, False, True):
        report = await vault.index(full=full)
        assert (report.files, report.unchanged, report.chunks, report.ended) == (1, 1, 0, 0)
    assert len(provider.batches) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip),
    session=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    tags=st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
)
async def test_any_text_is_kept_as_it_is(vault, folder, text, session, tags):
    note = await vault.store_note(text, session=session, tags=tags)
    assert note.problem is None
    data = (folder / note.path).read_bytes().decode()
    _, _, after = data.partition("---\n\n")
    assert after in (text, text + "\n")
    assert (await vault.session(note.id)).text == data


@pytest.mark.parametrize("text", ["", " \n\t", "half \ud83d", 7, None])
async def test_what_is_no_text_is_refused_and_nothing_is_written(vault, folder, text):
    with pytest.raises(InvalidRequest):
        await vault.store_note(text)
    assert not folder.exists()


@pytest.mark.parametrize("tags", ["word", [7], ["half \ud83d"]])
async def test_tags_are_a_list_of_texts(vault, folder, tags):
    with pytest.raises(InvalidRequest, match="tags"):
        await vault.store_note("text", tags=tags)
    assert not folder.exists()


async def test_a_note_is_at_most_as_long_as_a_batch(vault, folder):
    with pytest.raises(InvalidRequest, match="16 MiB"):
        await vault.store_note("é" * (8 * 2**20) + "x")
    assert not folder.exists()


@pytest.mark.parametrize("given", [{"session": "s" * 70_000}, {"tags": [f"tag{n}" for n in range(9_000)]}])
async def test_a_head_that_could_not_be_read_again_is_refused(vault, folder, given):
    with pytest.raises(InvalidRequest, match=r"at most\. Nothing was stored"):
        await vault.store_note("text", **given)
    assert not folder.exists()
    note = await vault.store_note("text", session="s" * 60_000)
    assert (await vault.session(note.id)).problem is None


@pytest.mark.parametrize(
    ("given", "where"), [({"session": "\ud83d"}, "session: "), ({"tags": [7]}, "tags.0: ")]
)
async def test_faults_name_what_was_handed_in(vault, given, where):
    with pytest.raises(InvalidRequest) as told:
        await vault.store_note("text", **given)
    assert str(told.value).startswith(where)


async def test_notes_of_one_second_get_names_of_their_own(vault, folder):
    notes = await asyncio.gather(*(vault.store_note(f"number {n}") for n in range(8)))
    assert len({note.id for note in notes}) == len({note.path for note in notes}) == 8
    for n, note in enumerate(notes):
        assert (folder / note.path).read_text().endswith(f"\n\nnumber {n}\n")
        assert (await vault.session(note.id)).path == note.path
        assert note.id == f"qnote_{Path(note.path).stem}"


async def test_where_there_are_no_hard_links_a_note_is_whole_too(vault, folder, monkeypatch):
    def link(*_):
        raise OSError(95, "not supported")

    monkeypatch.setattr(files.os, "link", link)
    notes = [await vault.store_note(f"number {n}") for n in range(3)]
    for n, note in enumerate(notes):
        assert (folder / note.path).read_text().endswith(f"number {n}\n")
    assert len(list((folder / "qnotes").iterdir())) == 3


@pytest.mark.skipif(os.name == "nt", reason="other rights")
async def test_notes_are_for_their_owner_alone(vault, folder, cache):
    note = await vault.store_note("private")
    for path in (folder / note.path, *cache.rglob("*.db")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for path in (folder, folder / "qnotes", cache, cache / "vault"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


async def test_a_note_is_on_the_disk_before_it_is_indexed(vault, folder, provider, monkeypatch):
    synced = []
    monkeypatch.setattr(files, "_sync", lambda handle: synced.append(os.fstat(handle).st_size))
    seen = []
    provider.fail = lambda batch: seen.append(
        ((folder / batch.passages[0].origin.path).read_text(), list(synced))
    )
    note = await vault.store_note("safe")
    [(text, sizes)] = seen
    assert text == (folder / note.path).read_text()
    assert sizes == [len(text)]


async def test_a_note_that_can_not_be_indexed_is_kept_and_indexed_later(vault, folder, provider, held):
    def fail(_):
        raise BackendUnavailable("the store is away")

    provider.fail = fail
    note = await vault.store_note("kept all the same")
    assert note.receipt is None
    assert note.path in note.problem
    assert "the store is away" in note.problem
    assert (await vault.session(note.id)).text == (folder / note.path).read_text()
    provider.fail = None
    assert (await vault.index()).chunks == 1
    assert [passage.text for passage in await held()] == ["kept all the same"]


async def test_even_a_fault_of_the_backend_loses_no_note(vault, provider):
    def fail(_):
        raise ZeroDivisionError

    provider.fail = fail
    note = await vault.store_note("kept")
    assert "ZeroDivisionError" in note.problem


async def test_where_no_file_can_be_written_it_is_said(vault, folder):
    folder.write_text("a file")
    with pytest.raises(BackendUnavailable, match="Nothing was stored"):
        await vault.store_note("text")


async def test_a_folder_of_notes_that_leads_out_of_the_vault_is_not_written_to(vault, folder, tmp_path):
    folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (folder / "qnotes").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidRequest, match="link"):
        await vault.store_note("text")
    assert not list((tmp_path / "elsewhere").iterdir())


# --- what is let through ------------------------------------------------------------------------

TOKEN = "ghp_" + "a1B2" * 9


async def test_a_masked_secret_is_in_neither_file_nor_memory(guarded, folder, held):
    note = await guarded(secrets="on").store_note(f"the token is {TOKEN}", tags=[f"tag {TOKEN}"])
    text = (folder / note.path).read_text()
    assert TOKEN not in text
    assert "[redacted github-token]" in text
    [passage] = await held()
    assert passage.text == "the token is [redacted github-token]"
    assert {advice.text.partition(" looks")[0] for advice in note.receipt.advice} == {"text", "tags"}


async def test_a_secret_is_warned_of_once(guarded, folder):
    note = await guarded().store_note(f"the token is {TOKEN}")
    assert TOKEN in (folder / note.path).read_text()
    assert [advice.kind for advice in note.receipt.advice] == ["secret"]


async def test_file_and_memory_get_what_a_plugin_made_of_the_text(guarded, folder, held):
    class Loud:
        @hookimpl
        def before_record(self, batch):
            passages = tuple(p.model_copy(update={"text": p.text.upper()}) for p in batch.passages)
            return batch.model_copy(update={"passages": passages})

    note = await guarded(hook_manager([Loud()])).store_note("quiet")
    assert (folder / note.path).read_text().endswith("\n\nQUIET\n")
    assert [passage.text for passage in await held()] == ["QUIET"]


async def test_what_a_plugin_refuses_is_not_stored(guarded, folder):
    class No:
        @hookimpl
        def before_record(self, batch):
            raise ValueError("no")

    with pytest.raises(HookRefused):
        await guarded(hook_manager([No()])).store_note("text")
    assert not folder.exists()
