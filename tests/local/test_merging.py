"""Two clones of a store, merged by git: nobody's commits are lost, and what both revised is told."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import timedelta

import pytest

from rawthink_core.clock import ManualClock
from rawthink_core.operations import Forget, Scope
from rawthink_local.erasure import forget

from .house import RULES, SPACE, START, batch, finds, memory_at, note, row, store_at, texts_in

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(root, *arguments):
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", "-C", str(root / "vault"), *who, *arguments],
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def clones(tmp_path):
    """Two clones of one store, the second an hour ahead, and a clock for each."""
    here, there = tmp_path / "here", tmp_path / "there"
    clock = ManualClock(START)
    with store_at(here, clock) as store:
        store.record(note("Redis", "is fast", "is old"), RULES)
    git(here, "init", "--quiet")
    git(here, "add", ".")
    git(here, "commit", "--quiet", "-m", "start")
    there.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(here / "vault"), str(there / "vault")], check=True)
    return here, ManualClock(START + timedelta(hours=1)), there, ManualClock(START + timedelta(hours=2))


def merge(here, there):
    """Merge the store there into the one here, as git does it by itself."""
    for root in (here, there):
        git(root, "commit", "--quiet", "--all", "-m", "work")
    git(here, "pull", "--quiet", "--no-rebase", "--no-edit", str(there / "vault"), "main")


def revision(text, by):
    change = {"targets": [{"entity": "Redis", "text": text}], "reason": by}
    return batch(f"by {by}", revisions=[change | {"successor": {"text": f"{text}, says {by}"}}])


def test_only_the_journal_and_two_hidden_files_are_for_git(clones):
    here, *_ = clones
    assert git(here, "ls-files").split() == [".gitattributes", "rawthink.jsonl"]


@pytest.mark.asyncio
async def test_the_commits_of_both_sides_are_there_and_found(clones):
    here, clock, there, later = clones
    async with memory_at(here, clock) as memory:
        assert await finds(memory, "says") == []
        with store_at(here, clock) as one, store_at(there, later) as two:
            for n in range(3):
                one.record(note("Redis", f"here says {n}"), RULES)
                two.record(note("Valkey", f"there says {n}"), RULES)
        merge(here, there)
        assert sorted(await finds(memory, "says")) == [
            *(f"here says {n}" for n in range(3)),
            *(f"there says {n}" for n in range(3)),
        ]
        await memory.record(observations=[{"entity": "Valkey", "text": "both are here"}])
        health = await memory.health()
        assert health.status == "ok", health.checks
    with store_at(here, clock) as one:
        times = [commit.at for commit in one.commits(SPACE)]
        assert times == sorted(set(times))
        assert "both are here" in texts_in(one)


@pytest.mark.asyncio
async def test_of_a_belief_that_both_sides_revised_the_earlier_counts_and_health_lists_the_later(clones):
    here, clock, there, later = clones
    with store_at(here, clock) as one, store_at(there, later) as two:
        two.record(revision("is fast", "there"), RULES)
        one.record(revision("is fast", "here"), RULES)
        one.record(revision("is old", "here too"), RULES)
    merge(here, there)
    for root in (here, there):
        if root is there:
            git(there, "pull", "--quiet", "--no-rebase", "--no-edit", str(here / "vault"), "main")
        async with memory_at(root, clock) as memory:
            (old,) = [o for o in (await memory.history(name="Redis")).observations if o.text == "is fast"]
            assert old.reason == "here"
            (new,) = (await memory.get(old.superseded_by)).items
            assert (new.text, new.status) == ("is fast, says here", "active")
            health = await memory.health()
            told = row(health, "merged revisions")
            assert told.status == "warn"
            assert "'is fast, says there'" in told.detail
            assert old.id in told.detail
            assert "history" in told.fix
            assert len([check for check in health.checks if check.name == "merged revisions"]) == 1


async def revised_on_both_sides(clones, ours, theirs):
    """Merge two revisions, the earlier ours; give the clock on which the merged store goes on."""
    here, clock, there, later = clones
    with store_at(here, clock) as one, store_at(there, later) as two:
        one.record(ours, RULES)
        two.record(theirs, RULES)
    merge(here, there)
    return here, ManualClock(START + timedelta(hours=3))


async def merged_rows(memory):
    return [check.detail for check in (await memory.health()).checks if check.name == "merged revisions"]


@pytest.mark.asyncio
@pytest.mark.parametrize("how", ["revised", "retracted", "later said", "later taken", "something else"])
async def test_health_is_silent_once_somebody_has_settled_what_both_sides_revised(clones, how):
    here, clock = await revised_on_both_sides(
        clones, revision("is fast", "here"), revision("is fast", "there")
    )
    async with memory_at(here, clock) as memory:
        assert len(await merged_rows(memory)) == 1
        stands = {"entity": "Redis", "text": "is fast, says here"}
        match how:
            case "revised":
                await memory.revise([stands], successor={"text": "is fast, say both"})
            case "retracted":
                await memory.revise([stands])
            case "later taken":
                await memory.revise([stands], successor={"text": "is fast, says there"})
            case "later said":
                await memory.record(observations=[{"entity": "Redis", "text": "is fast, says there"}])
            case "something else":
                await memory.revise([{"entity": "Redis", "text": "is old"}], successor={"text": "is new"})
                await memory.record(observations=[{"entity": "Redis", "text": "is more"}])
        assert len(await merged_rows(memory)) == (how == "something else")


@pytest.mark.asyncio
async def test_a_revision_of_what_stands_from_before_the_other_side_wrote_settles_nothing(clones):
    here, clock, _, _ = clones
    with store_at(here, clock) as one:
        one.record(revision("is fast", "here"), RULES)
        one.record(revision("is fast, says here", "here again"), RULES)
    here, clock = await revised_on_both_sides(clones, revision("is old", "us"), revision("is fast", "there"))
    async with memory_at(here, clock) as memory:
        assert len(await merged_rows(memory)) == 1
        stands = {"entity": "Redis", "text": "is fast, says here, says here again"}
        await memory.revise([stands], successor={"text": "is fast, say both"})
        assert await merged_rows(memory) == []


@pytest.mark.asyncio
@pytest.mark.parametrize("alike", [True, False])
async def test_both_sides_may_revise_alike(clones, alike):
    change = {"targets": [{"entity": "Redis", "text": "is fast"}]}
    both = [{"successor": {"text": "is quick"}}] * 2 if alike else [{}, {"successor": {"text": "is quick"}}]
    ours, theirs = (batch(f"side {n}", revisions=[change | more]) for n, more in enumerate(both))
    here, clock = await revised_on_both_sides(clones, ours, theirs)
    async with memory_at(here, clock) as memory:
        assert len(await merged_rows(memory)) == (not alike)


@pytest.mark.asyncio
async def test_of_two_new_decisions_one_has_to_go(clones):
    def decided(text, name):
        entity = {"name": "cache", "entity_type": "decision", "domain": "software"}
        return batch(
            name, entities=[entity], observations=[{"entity": "cache", "kind": "decided", "text": text}]
        )

    here, clock, there, _ = clones
    with store_at(here, clock) as one:
        one.record(decided("none", "first"), RULES)
    git(here, "commit", "--quiet", "--all", "-m", "first")
    git(there, "pull", "--quiet", "--no-rebase", "--no-edit", str(here / "vault"), "main")
    here, clock = await revised_on_both_sides(
        clones, decided("read-through", "ours"), decided("write-through", "theirs")
    )
    async with memory_at(here, clock) as memory:
        (told,) = await merged_rows(memory)
        assert "'write-through'" in told
        await memory.revise([{"entity": "cache", "text": "write-through"}], cause="changed")
        assert await merged_rows(memory) == []


@pytest.mark.asyncio
async def test_what_one_side_forgot_stays_forgotten_and_health_erases_what_git_brought_back(clones):
    here, clock, there, later = clones
    path = here / "vault" / "rawthink.jsonl"
    with store_at(here, clock) as one, store_at(there, later) as two:
        said = one.read(SPACE, lambda view: view.about(view.named(["redis"]).values()))
        (item,) = [state.id for state in said if state.row["text"] == "is old"]
        two.record(note("Redis", "is still here"), RULES)
        forget(one, Forget(scope=Scope(space=SPACE), ids=(item,)))
        assert b"is old" not in path.read_bytes()
    merge(here, there)
    assert b"is old" in path.read_bytes()  # next to it, the other side added something
    async with memory_at(here, clock) as memory:
        assert {o.text for o in (await memory.graph("Redis")).observations} == {"is fast", "is still here"}
        assert await finds(memory, "old") == []
        assert row(await memory.health(), "forgotten text").fix == "rawthink doctor --fix"
        receipt = await memory.maintain(repair=True)
        assert receipt.done == ("erased 1 row(s) of forgotten items that a merge had brought back",)
        assert b"is old" not in path.read_bytes()
        assert (await memory.health()).status == "ok"
        assert {o.text for o in (await memory.graph("Redis")).observations} == {"is fast", "is still here"}


def test_a_commit_that_a_merge_left_twice_counts_once(tmp_path):
    with store_at(tmp_path) as store:
        store.record(note("Redis", "is fast"), RULES)
        rename = {"targets": [{"entity": "Redis"}], "fields": {"name": "Valkey"}}
        store.record(batch("rename", revisions=[rename]), RULES)
    path = tmp_path / "vault" / "rawthink.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, *lines[1:]]))
    with store_at(tmp_path) as store:
        (state,) = store.read(SPACE, lambda view: [view.state(i) for i in view.named(["valkey"]).values()])
        assert [(v.n, v.value) for v in state.versions] == [(1, "Redis"), (2, "Valkey")]
        assert len(list(store.commits(SPACE))) == 2
        assert store.index.retired_twice() == []


@pytest.mark.asyncio
async def test_a_gitattributes_of_the_user_is_left_alone_and_health_says_what_is_missing(tmp_path):
    path = tmp_path / "vault" / ".gitattributes"
    path.parent.mkdir()
    path.write_text("*.png binary\n")
    async with memory_at(tmp_path) as memory:
        assert row(await memory.health(), "git merge").fix == "add the line: rawthink.jsonl merge=union -text"
    assert path.read_text() == "*.png binary\n"
