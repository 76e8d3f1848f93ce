"""`forget`: asks first, erases everywhere, and says where."""

from __future__ import annotations

import pytest


def test_it_does_not_erase_where_nobody_can_be_asked(cache):
    answer = cache("forget", "api/cache")
    assert answer.code == 2
    assert "add --yes" in answer.err
    assert cache("show", "api/cache").code == 0


def test_with_yes_it_erases_and_names_every_place(cache):
    answer = cache("forget", "api/cache", "--yes")
    assert answer.code == 0
    assert "4 items erased." in answer.out
    assert "erased  journal" in answer.out
    assert cache("show", "api/cache").code == 3
    assert cache("search", "redis", "--status", "any").code == 3
    journal = cache.home / "rawthink-vault" / "rawthink.jsonl"
    assert b"Redis" not in journal.read_bytes()


def test_a_receipt_is_json_too(cache):
    receipt = cache("forget", "api/cache", "--yes", "--json").json
    assert len(receipt["ids"]) == 4
    assert receipt["places"][0]["outcome"] == "erased"


def test_items_and_sessions_are_forgotten_one_by_one(cache):
    cache("record", "--session", "s1", "first passage")
    cache("record", "--session", "s2", "second passage")
    item = cache("search", "redis", "--json").json["items"][0]["id"]
    assert cache("forget", "--id", item, "--session", "s1", "--yes").code == 0
    assert cache("search", "passage", "--json").json["total"] == 1
    assert len(cache("show", "api/cache", "--json").json["observations"]) == 2


def test_everything_means_everything_in_this_space(cache):
    cache("--space", "other", "record", "x", "kept", "--type", "finding", "--domain", "software")
    assert cache("forget", "--everything", "--yes").code == 0
    assert cache("search", "redis").code == 3
    assert cache("--space", "other", "search", "kept").code == 0


def test_what_is_not_there_is_said(cache):
    answer = cache("forget", "nobody", "api/cache", "--yes")
    assert answer.code == 3
    assert "Not in this space: nobody" in answer.out
    assert cache("show", "api/cache").code == 3


def test_it_wants_to_know_what(cli):
    assert "say what to forget" in cli("forget", "--yes").err
    assert "--everything stands alone" in cli("forget", "--everything", "x", "--yes").err


@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 0, 0), ("y\n", 0, 3), ("\n", 0, 0)])
def test_a_person_is_asked(cache, monkeypatch, answer, code, left):
    import rawthink_cli.forget

    monkeypatch.setattr(rawthink_cli.forget, "_can_ask", lambda: True)
    told = cache("forget", "api/cache", stdin=answer)
    assert told.code == code
    assert "Erase api/cache for good?" in told.err
    assert cache("show", "api/cache").code == left
