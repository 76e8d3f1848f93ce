"""`rawthink reindex`, on the local store and in processes of their own."""

from __future__ import annotations

import pytest


@pytest.fixture
def vault(cli):
    """A vault with two sessions, a note and a file that is no text."""
    folder = cli.home / "rawthink-vault"
    for path, content in {
        "sessions/2026/plan.md": b"---\nid: plan\ndate: 2026-01-05\ntags: [work]\n---\n# Cache\n\nread-through\n",
        "sessions/b.md": "# 部署\n\n蓝绿部署。".encode(),
        "qnotes/n.md": b"herons stand still",
        "sessions/bad.md": b"\xbc\xbb",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def test_files_are_indexed_found_and_followed(cli, vault):
    answer = cli("reindex")
    assert answer.code == 5
    assert answer.out.splitlines()[:2] == ["4 files", "   3 passages added, 0 ended"]
    assert "sessions/bad.md is not UTF-8" in answer.out
    (vault / "sessions" / "bad.md").unlink()
    assert "read-through" in cli("search", "cache").out
    assert "蓝绿部署" in cli("search", "部署方案").out
    assert "herons" in cli("search", "herons", "--tag", "qnote").out
    assert cli("search", "herons", "--tag", "session").code == 3
    (vault / "sessions" / "b.md").unlink()
    (vault / "qnotes" / "n.md").write_text("cranes dance")
    document = cli("reindex", "--json").json
    assert {key: document[key] for key in ("files", "unchanged", "chunks", "ended", "failed", "degraded")} == {
        "files": 2, "unchanged": 1, "chunks": 1, "ended": 2, "failed": [], "degraded": None,
    }  # fmt: skip
    assert cli("search", "herons").code == 3
    assert cli("reindex", "--full").out.splitlines()[0] == "2 files, 2 of them unchanged"


def test_one_session_or_none_of_that_name(cli, vault):
    assert cli("reindex", "--session", "plan").out.splitlines()[0] == "1 file"
    answer = cli("reindex", "--session", "pla")
    assert answer.code == 3
    assert "'pla'" in answer.err


def test_a_memory_without_files_has_nothing_to_index(cli):
    assert cli("reindex").out.splitlines()[0] == "0 files"


def test_processes_that_index_at_once_do_not_do_it_twice(cli, vault):
    (vault / "sessions" / "bad.md").unlink()
    started = [cli.start("reindex", "--json") for _ in range(3)]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, (out, err)
    assert cli("reindex", "--json").json["unchanged"] == 3
    assert len(cli("search", "herons", "--json").json["items"]) == 1


def test_another_backend_has_the_same_files(cli, vault):
    answer = cli("--provider", "reference", "reindex", "--json")
    assert answer.json["chunks"] == 3


def test_vectors_are_made_for_what_was_written_without_an_embedder(cli, vault):
    (vault / "sessions" / "bad.md").unlink()
    assert cli("reindex").code == 0
    answer = cli("reindex", "--vectors", RAWTHINK_EMBEDDER="offline")
    assert answer.code == 0, answer.err
    found = cli("search", "kuşlar kıpırdamadan duruyor", RAWTHINK_EMBEDDER="offline")
    assert "herons stand still" in found.out
    told = cli("doctor", RAWTHINK_EMBEDDER="offline").out
    assert "by offline (384 numbers each)" in " ".join(told.split())
    words = cli("search", "herons")
    assert "words only" in words.out


def test_a_full_run_erases_what_ended_with_its_file_and_a_plain_one_does_not(cli, vault):
    (vault / "sessions" / "bad.md").unlink()
    cli("reindex")
    (vault / "qnotes" / "n.md").unlink()
    log = vault / ".rawthink" / "passages.jsonl"
    assert "0 passages added, 1 ended" in cli("reindex").out
    assert b"herons" in log.read_bytes()
    assert cli("reindex", "--full").code == 0
    assert b"herons" not in log.read_bytes()
    assert "蓝绿部署" in cli("search", "部署方案").out
    (vault / "qnotes" / "n.md").write_text("herons stand still")
    assert "1 passage added, 0 ended" in cli("reindex").out
    assert "herons" in cli("search", "herons").out
