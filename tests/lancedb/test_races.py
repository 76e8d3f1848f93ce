"""Commits that meet those of others: the work is done all the same, or put off, and no caller hears of it."""

from __future__ import annotations

import pytest
from lancedb.merge import LanceMergeInsertBuilder
from lancedb.table import AsyncTable

from rawthink_conformance.toys import ToyEmbedder
from rawthink_core.operations import Maintain, Scope
from rawthink_lancedb import engine as engine_module
from rawthink_lancedb.engine import Passed, Table
from rawthink_lancedb.errors import Raced, Vanished, explained, gone, raced
from rawthink_lancedb.mending import look_after
from rawthink_lancedb.settings import LanceSettings

from .house import EVERY, RULES, SPACE, finds, memory_at, say, store_at, tell, turns

WAYS = {
    "add": AsyncTable,
    "delete": AsyncTable,
    "create_index": AsyncTable,
    "add_columns": AsyncTable,
    "optimize": AsyncTable,
    "execute": LanceMergeInsertBuilder,
}
PREEMPTED = (
    "lance error: Retryable commit conflict for version 74: This Rewrite transaction was preempted by "
    "concurrent transaction Rewrite at version 74. Please retry."
)
SAID = [
    PREEMPTED,
    "lance error: Incompatible transaction: it is incompatible with concurrent transaction Overwrite",
    "lance error: Commit conflict for version 12: tried 20 times",
    "lance error: Too many concurrent writers. Attempted 10 times",
    "<Error><Code>ConditionalRequestConflict</Code></Error>",
]


@pytest.mark.parametrize("said", SAID)
def test_what_the_engine_says_of_races_is_known(said):
    error = RuntimeError(said)
    assert raced(error)
    assert not gone(error)
    assert type(explained("writing", "s3://b/p", error)) is Raced


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("lance error: Not found: conflict-of-interest/x.lance/data/1.lance", Vanished),
        ("<Code>InvalidAccessKeyId</Code><Message>the key does not exist in our records</Message>", None),
        ("Not found: <Code>NoSuchBucket</Code>", None),
    ],
)
def test_what_only_sounds_like_it(said, kind):
    error = RuntimeError(said)
    assert not raced(error)
    assert gone(error) is (kind is Vanished)
    assert isinstance(explained("reading", "s3://b/p", error), kind or Exception)


@pytest.mark.asyncio
@pytest.mark.parametrize("way", WAYS)
async def test_no_way_to_commit_shows_a_race_to_the_caller(tmp_path, monkeypatch, way):
    real, lost = getattr(WAYS[way], way), []

    async def sometimes(self, *args, **more):
        lost.append(way)
        if len(lost) % 3 == 1:  # of three commits the first comes too late
            raise RuntimeError(PREEMPTED)
        return await real(self, *args, **more)

    monkeypatch.setattr(WAYS[way], way, sometimes)
    async with memory_at(tmp_path, ToyEmbedder(), gather_every=2, keep_seconds=0) as memory:
        (first,) = await say(memory, "NAS", "a heron")
        await tell(memory, *(f"turn {number}" for number in range(5)))
        assert await finds(memory, "heron") == ["a heron"]
        await memory.revise([{"id": first}], successor={"text": "a crane"})
        assert await finds(memory, "heron", statuses=("invalidated",)) == ["a heron"]
        (gone_now,) = await tell(memory, "a quokka", session="other")
        receipt = await memory.forget(ids=(gone_now,))
        assert {place.outcome for place in receipt.places} == {"erased"}
        await memory.provider.maintain(Maintain(scope=Scope(space=SPACE), reindex=True))
        assert await finds(memory, "crane") == ["a crane"]
        assert "a quokka" not in await finds(memory, "quokka", statuses=EVERY)
        assert len((await memory.scan(items=("passage",))).items) == 5
        assert (await memory.health()).status == "ok"
    assert lost, "it was called"


def test_upkeep_that_meets_others_is_put_off_and_stays_due(tmp_path, monkeypatch):
    settings = LanceSettings(gather_every=2)
    with store_at(tmp_path) as store:
        space = store.space(SPACE)
        for number in range(4):
            store.record(turns(f"turn {number}"), RULES)

        def late(*_args):
            raise Raced(PREEMPTED)

        with monkeypatch.context() as patch:
            patch.setattr("rawthink_lancedb.upkeep.gather", late)
            assert [what[:4] for what in look_after(store, space, settings)] == ["left"]
            assert space.log.table.passed.crossed(2)
        (done,) = look_after(store, space, settings)
        assert done.startswith("gathered 8 rows")


def test_in_an_object_store_whoever_wrote_a_version_sees_to_it():
    class Remote:
        remote = True

    table = Table(Remote(), "x")
    table.note(40)
    assert not table.passed.crossed(8), "others wrote them"
    table.note(47, 2)
    assert table.passed == Passed(46, 47, 2)
    table.note(48)
    assert not table.passed.crossed(8)
    table.note(56, 2)
    assert table.passed.crossed(8)
    assert table.passed.rows == 4


@pytest.mark.asyncio
async def test_races_without_end_are_a_timeout(tmp_path, monkeypatch):
    from rawthink_core.errors import BackendTimeout

    async def never(self, *_args, **_more):
        raise RuntimeError(PREEMPTED)

    monkeypatch.setattr(engine_module, "_MOST", 0.02)
    async with memory_at(tmp_path, lock_seconds=0.2) as memory:
        await tell(memory, "a heron")
        with monkeypatch.context() as patch:
            patch.setattr(AsyncTable, "add", never)
            with pytest.raises(BackendTimeout, match="others wrote"):
                await tell(memory, "another heron")
        assert await finds(memory, "heron") == ["a heron"]
