"""A store that an earlier version of ours has left: its journal is read as it is, what is derived is made anew."""

from __future__ import annotations

import json
import sqlite3

import pytest

from .house import RULES, memory_at, note, store_at

pytestmark = pytest.mark.asyncio


def journal(root):
    return root / "vault" / "rawthink.jsonl"


def aged(root):
    """Give everything that is derived the mark of an earlier version; return how many files that were."""
    rows, stamps = list(root.rglob("rows.sqlite")), list(root.rglob("index.json"))
    for path in rows:
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version = 1")
        db.close()
    for path in stamps:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 0}))
    return len(rows), len(stamps)


async def found(memory, text):
    for _ in range(2):  # an index that is built beside the search says so
        page = await memory.search(text)
    return [hit.text for hit in page.items if hit.item == "observation"], page.degraded


async def test_a_store_of_an_earlier_version_opens_as_it_is_and_its_indexes_are_made_anew(tmp_path):
    with store_at(tmp_path) as store:
        store.record(note("Redis", "a heron"), RULES)
    async with memory_at(tmp_path) as memory:
        assert await found(memory, "heron") == (["a heron"], None)
    before = journal(tmp_path).read_bytes()
    assert min(aged(tmp_path)) > 0
    async with memory_at(tmp_path) as memory:
        assert await found(memory, "heron") == (["a heron"], None)
        assert (await memory.health()).status == "ok"
        assert journal(tmp_path).read_bytes() == before
        await memory.provider.record(note("Redis", "a stork"))
        assert await found(memory, "stork") == (["a stork"], None)
    assert journal(tmp_path).read_bytes().startswith(before)
