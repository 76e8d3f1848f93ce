"""`copy`: from one backend to another, nothing lost, nothing written where something stands against it."""

from __future__ import annotations

import pytest


@pytest.fixture
def other(tmp_path):
    return tmp_path / "other"


def copied(cache, other, *more):
    return cache("copy", "--from", "local", "--to", "local", "--to-set", f"path={other}", *more)


def test_a_copy_answers_as_the_original(cache, other, tmp_path):
    cache("revise", "api/cache", "pages are read twenty times a minute", "--to", "pages are read seldom")
    answer = copied(cache, other)
    assert answer.code == 0, answer.err
    assert "2 commits copied, 0 were there already" in answer.out
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    cache("export", one)
    cache("--vault", other, "export", two)
    assert two.read_bytes().split(b"\n")[1:] == one.read_bytes().split(b"\n")[1:]
    assert "pages are read seldom" in cache("--vault", other, "search", "pages").out


def test_a_second_run_adds_nothing(cache, other):
    copied(cache, other)
    assert copied(cache, other, "--json").json["copied"] == {
        "restored": 0, "skipped": 1, "vectors": 0, "left_out": 0,
    }  # fmt: skip


def test_a_dry_run_creates_nothing(cache, other):
    answer = copied(cache, other, "--dry-run", "--json")
    assert answer.code == 0
    assert answer.json["copied"] is None
    assert answer.json["commits"] == 1
    assert not other.exists()


def test_one_place_is_no_copy(cache):
    answer = cache("copy", "--from", "local", "--to", "local")
    assert (answer.code, "needs two places" in answer.err) == (2, True)


def test_a_memory_that_is_not_there_is_not_made(cli, other):
    answer = copied(cli, other)
    assert (answer.code, "no memory in local" in answer.err) == (3, True)
    assert not other.exists()
    assert not (cli.home / "rawthink-vault").exists()


def test_an_empty_space_is_said_to_be_empty(cache, other):
    answer = cache("--space", "none", "copy", "--from", "local", "--to", "local", "--to-set", f"path={other}")
    assert (answer.code, "is empty" in answer.err) == (3, True)
    assert not other.exists()


@pytest.mark.parametrize(
    ("setting", "said"),
    [("path", "not KEY=VALUE"), ("pth=x", "Did you mean 'path'"), ("=x", "not KEY=VALUE")],
)
def test_a_setting_that_is_none_is_named(cache, setting, said):
    answer = cache("copy", "--from", "local", "--to", "local", "--to-set", setting)
    assert (answer.code, said in answer.err) == (2, True)


def test_the_original_stays_as_it_was(cache, other):
    journal = cache.home / "rawthink-vault" / "rawthink.jsonl"
    before = journal.read_bytes()
    copied(cache, other)
    assert journal.read_bytes() == before


def test_what_can_not_be_held_stops_it_unless_left_out(cache, other, monkeypatch):
    from rawthink_core.provider import Capability
    from rawthink_local import declared, provider

    monkeypatch.setattr(provider, "CAPABILITIES", {**declared.CAPABILITIES, Capability.MAX_TEXT: "12"})
    answer = copied(cache, other)
    assert answer.code == 2
    assert "can't be held" in answer.out
    assert "--leave-out" in answer.err
    assert not other.exists()
    answer = copied(cache, other, "--leave-out", "--json")
    assert answer.code == 5
    assert answer.json["copied"]["left_out"] == len(answer.json["cannot_hold"]) > 0
