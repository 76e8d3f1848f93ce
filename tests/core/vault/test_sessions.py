"""Sessions by id: exactly that one, never a path, never what lies outside of the vault."""

from __future__ import annotations

import os
from datetime import date

import pytest

from rawthink_core.errors import BackendUnavailable, ConfigError, InvalidRequest, NotFound
from rawthink_core.memory import Memory
from rawthink_core.vault import Vault

pytestmark = pytest.mark.asyncio

SEED = """---
id: "2026-01-05_001"
title: "One --- two"
date: 2026-01-05
tags: ["cache", "a, b"]
status: completed
---

### User

> why not Redis?

---
"""


async def test_a_session_comes_back_as_its_file_has_it(vault, put):
    put(("sessions/2026/2026-01-05_001_why.md", SEED))
    found = await vault.session("2026-01-05_001")
    assert found.text == SEED
    assert (found.id, found.title, found.path) == (
        "2026-01-05_001",
        "One --- two",
        "sessions/2026/2026-01-05_001_why.md",
    )
    assert (found.date, found.tags, found.problem) == (date(2026, 1, 5), ("cache", "a, b"), None)
    assert found.model_dump(mode="json")["date"] == "2026-01-05"


@pytest.mark.parametrize(
    ("content", "title"),
    [("text", "name"), ("# Head\ntext", "Head"), ("---\ntitle:\n---\nBig\n===", "Big"), ("", "name")],
)
async def test_a_session_has_a_title_in_any_case(vault, put, content, title):
    put(("sessions/name.md", content))
    assert (await vault.session("name")).title == title


async def test_the_name_is_the_id_only_where_the_file_names_none(vault, put):
    put(("sessions/a.md", "---\nid: b\n---\n"), ("qnotes/n.md", "a note"))
    assert (await vault.session("b")).path == "sessions/a.md"
    assert (await vault.session("n")).path == "qnotes/n.md"
    with pytest.raises(NotFound):
        await vault.session("a")


@pytest.mark.parametrize(
    "wanted",
    [
        "2026-01-05", "*", "2026-01-05_00?", "[2]*", "2026-01-05_001_why", "2026-01-05_001.md", "sessions/2026-01-05_001",
        "../secret", "..", ".", "/etc/passwd", "a/../../secret", "..\\secret", "C:\\x", "~", "%2e%2e/secret", "secret",
        "2026-01-05_001 ", "archived", "hidden", ".hidden", "x" * 100_000, "", " ", "a\0b", "half \ud83d", None, 7,
    ],
)  # fmt: skip
async def test_nothing_but_the_exact_id_of_a_file_of_ours_is_found(vault, put, folder, wanted):
    put(
        ("sessions/x.md", SEED),
        ("archive/archived.md", "x"),
        ("sessions/.hidden.md", "x"),
        ("secret.md", "x"),
    )
    (folder.parent / "secret.md").write_text("secret")
    with pytest.raises((NotFound, InvalidRequest)):
        await vault.session(wanted)


async def test_a_miss_names_what_is_near(vault, put):
    put(("sessions/2026-01-05_001.md", "x"))
    with pytest.raises(NotFound, match="2026-01-05_001"):
        await vault.session("2026-01-05_002")


async def test_two_files_with_one_id_are_named(vault, put):
    put(("sessions/a.md", "---\nid: one\n---\n"), ("qnotes/one.md", "text"))
    with pytest.raises(InvalidRequest, match=r"qnotes/one\.md, sessions/a\.md"):
        await vault.session("one")


async def test_links_lead_nowhere(vault, put, folder, tmp_path):
    other = tmp_path / "other" / "sessions"
    other.mkdir(parents=True)
    (other / "theirs.md").write_text("theirs")
    put(("sessions/ours.md", "ours"))
    (folder / "sessions" / "theirs.md").symlink_to(other / "theirs.md")
    (folder / "sessions" / "deep").symlink_to(other)
    (folder / "qnotes").symlink_to(other)
    (folder / "sessions" / "loop").symlink_to(folder / "sessions")
    with pytest.raises(NotFound):
        await vault.session("theirs")
    assert (await vault.session("ours")).text == "ours"
    report = await vault.index()
    assert [path for path, _ in report.failed] == [
        "qnotes", "sessions/deep", "sessions/loop", "sessions/theirs.md",
    ]  # fmt: skip
    assert report.files == 1


async def test_a_file_that_becomes_a_link_is_not_followed(vault, put, folder, tmp_path, monkeypatch):
    put(("sessions/ours.md", "ours"))
    (tmp_path / "secret").write_text("secret")
    from rawthink_core.vault import vault as module

    before = module.walk

    def walk_then_swap(place):
        listing = before(place)
        (folder / "sessions" / "ours.md").unlink()
        (folder / "sessions" / "ours.md").symlink_to(tmp_path / "secret")
        return listing

    monkeypatch.setattr(module, "walk", walk_then_swap)
    with pytest.raises(BackendUnavailable):
        await vault.session("ours")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
async def test_a_pipe_makes_nobody_wait(vault, put, folder):
    put(("sessions/ours.md", "ours"))
    os.mkfifo(folder / "sessions" / "pipe.md")
    with pytest.raises(NotFound):
        await vault.session("pipe")
    assert (await vault.index()).failed == (("sessions/pipe.md", "is no regular file"),)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\xef\xbb\xbf---\nid: x\n---\nBody", "---\nid: x\n---\nBody"),
        (b"---\r\nid: x\r\n---\r\nBody\r\n", "---\r\nid: x\r\n---\r\nBody\r\n"),
    ],
)
async def test_byte_order_marks_and_line_ends_do_no_harm(vault, put, content, text):
    put(("sessions/name.md", content))
    assert (await vault.session("x")).text == text


async def test_a_broken_front_matter_is_text_and_is_said(vault, put):
    put(("sessions/name.md", "---\nid: x\ntitle: *Italic* plan\n---\nBody"))
    found = await vault.session("name")
    assert "line 3" in found.problem
    assert found.text.endswith("Body")


async def test_an_id_is_the_same_however_its_letters_are_put_together(vault, put):
    put(("sessions/name\u0301.md", "x"), ("sessions/o.md", "---\nid: o\u0308\n---\n"))
    assert (await vault.session("nam\u00e9")).path == "sessions/name\u0301.md"
    assert (await vault.session("\u00f6")).id == "\u00f6"


async def test_what_can_not_be_read_is_not_missing(vault, put):
    put(("sessions/bytes.md", b"\xbc\xbb"))
    with pytest.raises(BackendUnavailable, match="UTF-8"):
        await vault.session("bytes")


async def test_an_id_is_looked_up_anew_when_the_file_changes(vault, put, folder):
    put(("sessions/a.md", "---\nid: one\n---\n"))
    assert (await vault.session("one")).path == "sessions/a.md"
    await vault.index()
    put(("sessions/a.md", "---\nid: other\n---\n"))
    assert (await vault.session("other")).path == "sessions/a.md"
    with pytest.raises(NotFound):
        await vault.session("one")
    (folder / "sessions" / "a.md").unlink()
    with pytest.raises(NotFound):
        await vault.session("other")


async def test_a_vault_that_is_not_there_has_no_sessions(vault):
    with pytest.raises(NotFound):
        await vault.session("one")


async def test_a_memory_has_the_vault_whose_folder_it_was_given(provider, tmp_path, monkeypatch):
    monkeypatch.setenv("RAWTHINK_CACHE", str(tmp_path / "cache"))
    memory = Memory(provider, vault=tmp_path / "vault")
    assert isinstance(memory.vault, Vault)
    assert memory.vault is memory.vault
    note = await memory.in_space("other").vault.store_note("elsewhere")
    assert (tmp_path / "vault" / note.path).exists()
    assert (await memory.search("elsewhere")).items == ()
    assert list((tmp_path / "cache" / "vault").glob("*.db"))
    with pytest.raises(ConfigError):
        _ = Memory(provider).vault
