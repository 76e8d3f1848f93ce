"""What replica slots promise: one process a slot, a dead one frees it, and nothing outlives its use."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import uuid
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from rawthink_core.errors import BackendUnavailable
from rawthink_local import replicas
from rawthink_local.edge import EdgeIndex, has_index
from rawthink_local.fields import IndexPoint
from rawthink_local.replicas import KEPT, copy_from_free_slot, drop_free_slots, take_slot

NOW = datetime(2027, 1, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "cache" / "store"


@pytest.fixture
def take(root):
    """Take slots that are let go after the test."""
    with ExitStack() as stack:

        def taking(now=NOW, **options):
            slot = take_slot(root, now, **options)
            stack.callback(slot.release)
            return slot

        yield taking


HOLDER = """
import pathlib, sys
from datetime import UTC, datetime
from rawthink_local.edge import EdgeIndex
from rawthink_local.fields import IndexPoint
from rawthink_local.replicas import take_slot

slot = take_slot(pathlib.Path(sys.argv[1]), datetime(2027, 1, 15, 12, tzinfo=UTC))
index = EdgeIndex.open(slot.folder)
index.apply([IndexPoint("6ba7b810-9dad-11d1-80b4-00c04fd430c8", ([1], [1.0]), {"space": "home"})], [], {"commit": "c"})
print(slot.number, flush=True)
sys.stdin.read()
index.close()
slot.release()
"""


@contextmanager
def process(root):
    """Run a real second process that holds a slot with an open index; give it and the slot's number."""
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | path,
    ) as holder:
        try:
            yield holder, int(holder.stdout.readline())
        finally:
            holder.kill()


def fill(slot, commit="a", points=1):
    with closing(EdgeIndex.open(slot.folder)) as index:
        ids = [str(uuid.uuid5(uuid.NAMESPACE_OID, str(n))) for n in range(points)]
        index.apply([IndexPoint(id_, ([1], [1.0]), {"space": "home"}) for id_ in ids], [], {"commit": commit})


def marker(slot):
    with closing(EdgeIndex.open(slot.folder)) as index:
        return index.marker()


def pretend(slot, content="index"):
    """Put something in the slot that counts as an index and costs no time to make."""
    (slot.folder / "shard").mkdir(parents=True)
    (slot.folder / "shard" / "data").write_text(content)
    (slot.folder / "index.json").write_text("{}")


def numbers(root):
    """Tell which slots hold something."""
    return sorted(int(path.name[5:]) for path in root.glob("slot-*") if path.is_dir())


# Taking


def test_the_lowest_free_slot_is_taken(take):
    first, second, third = take(), take(), take()
    assert [first.number, second.number, third.number] == [0, 1, 2]
    second.release(NOW)
    assert take().number == 1


def test_a_slot_keeps_its_index_for_the_next_taker(take):
    slot = take()
    fill(slot, "kept")
    slot.release(NOW)
    assert marker(take(NOW + DAY)) == {"commit": "kept"}


def test_another_process_gets_another_slot(root, take):
    mine = take()
    with process(root) as (_, theirs):
        assert (mine.number, theirs, take().number) == (0, 1, 2)


def test_a_process_that_ends_frees_its_slot_and_leaves_its_index(root, take):
    with process(root) as (holder, number):
        holder.stdin.close()
        assert holder.wait() == 0
        slot = take()
        assert (slot.number, marker(slot)) == (number, {"commit": "c"})


def test_a_killed_process_frees_its_slot_and_leaves_a_loadable_index(root, take):
    with process(root) as (holder, number):
        holder.kill()
        holder.wait()
        slot = take()
        assert (slot.number, marker(slot)) == (number, {"commit": "c"})


def test_releasing_twice_does_not_free_the_next_owners_slot(take):
    slot = take()
    slot.release(NOW)
    other = take()
    slot.release(NOW)
    assert (other.number, take().number) == (0, 1)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_folders_and_files_are_for_this_user_alone(root, take):
    root.mkdir(parents=True, mode=0o755)
    first, second = take(), take()
    fill(first)
    first.release(NOW)
    assert copy_from_free_slot(second)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [root, *root.rglob("*")]}
    assert modes == {0o700, 0o600}


def test_a_cache_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendUnavailable, match="file"):
        take_slot(tmp_path / "file" / "store", NOW)


# More processes than slots


def test_a_ninth_process_gets_a_slot_that_is_deleted_when_it_is_let_go(root, take):
    kept = [take() for _ in range(KEPT)]
    ninth = take()
    assert ([slot.kept for slot in kept], ninth.kept) == ([True] * KEPT, False)
    pretend(ninth)
    ninth.release(NOW)
    assert numbers(root) == []


def test_what_a_crashed_ninth_process_left_is_deleted_by_the_next(root, take):
    for _ in range(KEPT):
        take()
    ninth = take()
    pretend(ninth)
    ninth._lock.release()  # as the system does for a dead process
    tenth = take()
    assert (tenth.number, tenth.folder.exists()) == (ninth.number, False)
    pretend(tenth)
    tenth._lock.release()
    take()
    assert numbers(root) == []


def test_a_crowd_beyond_measure_is_told_so(root, monkeypatch):
    monkeypatch.setattr(replicas, "LIMIT", 2)
    with ExitStack() as stack:
        for _ in range(2):
            stack.callback(take_slot(root, NOW).release)
        with pytest.raises(BackendUnavailable, match="2 processes search this store already"):
            take_slot(root, NOW)


# Idle slots


def test_a_slot_idle_for_two_weeks_is_removed_and_a_younger_one_stays(root, take):
    slots = [take() for _ in range(4)]
    for slot in slots[1:]:
        pretend(slot)
    slots[1].release(NOW - 15 * DAY)
    slots[2].release(NOW - 13 * DAY)
    slots[3].touch(NOW - 15 * DAY)  # still in use
    slots[0].release(NOW)
    assert take().number == 0
    assert numbers(root) == [2, 3]


def test_ones_own_slot_is_used_however_old_it_is(take):
    slot = take()
    pretend(slot)
    slot.release(NOW - 100 * DAY)
    assert has_index(take().folder)


def test_a_slot_touched_in_its_long_life_is_not_idle_after_a_crash(root, take):
    take(NOW - 30 * DAY)
    second = take(NOW - 30 * DAY)
    pretend(second)
    second.touch(NOW - DAY)
    second._lock.release()
    assert (take().number, numbers(root)) == (1, [1])


# Copying


def test_an_empty_slot_is_filled_from_a_free_one(take):
    first, second = take(), take()
    fill(first, "copied", points=50)
    first.release(NOW)
    assert copy_from_free_slot(second)
    first_again = take()
    with (
        closing(EdgeIndex.open(second.folder)) as ours,
        closing(EdgeIndex.open(first_again.folder)) as theirs,
    ):
        assert (ours.marker(), ours.size()) == ({"commit": "copied"}, 50)
        ours.apply([], [str(uuid.uuid5(uuid.NAMESPACE_OID, "0"))], {"commit": "next"})
        assert (ours.size(), theirs.size(), theirs.marker()) == (49, 50, {"commit": "copied"})


def test_an_index_that_a_killed_process_left_can_be_copied(root, take):
    with process(root) as (holder, number):
        mine = take()
        assert (number, copy_from_free_slot(mine)) == (0, False)
        holder.kill()
        holder.wait()
        assert copy_from_free_slot(mine)
        assert marker(mine) == {"commit": "c"}


def test_the_index_used_last_is_copied(take):
    slots = [take() for _ in range(4)]
    for slot, age in zip(slots[:3], (3, 1, 2), strict=True):
        pretend(slot, f"{age} days old")
        slot.release(NOW - age * DAY)
    assert copy_from_free_slot(slots[3])
    assert (slots[3].folder / "shard" / "data").read_text() == "1 days old"


def test_nothing_is_copied_over_an_index_or_from_a_busy_slot_or_from_an_unfinished_one(take):
    busy, unfinished, mine = take(), take(), take()
    pretend(busy)
    (unfinished.folder / "shard").mkdir(parents=True)
    unfinished.release(NOW)
    assert not copy_from_free_slot(mine)
    busy.release(NOW)
    pretend(mine, "mine")
    assert not copy_from_free_slot(mine)
    assert (mine.folder / "shard" / "data").read_text() == "mine"


def test_a_slot_is_not_taken_while_it_is_copied(take, monkeypatch):
    first, second = take(), take()
    pretend(first)
    first.release(NOW)
    taken = []

    def watched(source, target):
        taken.append(take().number)
        return replicas_copy(source, target)

    replicas_copy = replicas._copy_with_holes
    monkeypatch.setattr(replicas, "_copy_with_holes", watched)
    assert copy_from_free_slot(second)
    assert set(taken).isdisjoint({0, 1})
    assert take().number == 0


def test_a_copy_that_fails_leaves_an_empty_slot_and_a_free_source(root, take, monkeypatch):
    first, second = take(), take()
    pretend(first)
    first.release(NOW)

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(replicas, "_copy_with_holes", full)
    assert not copy_from_free_slot(second)
    assert (second.folder.exists(), list(root.glob("*.copy"))) == (False, [])
    assert take().number == 0


def test_a_copy_that_was_cut_short_is_cleared_away(root, take):
    slot = take()
    (root / "slot-0.copy" / "shard").mkdir(parents=True)
    slot.release(NOW)
    assert not has_index(take().folder)
    assert list(root.glob("*.copy")) == []


@pytest.mark.skipif(not hasattr(os.stat_result, "st_blocks"), reason="the system does not count blocks")
def test_a_copy_takes_no_more_room_than_its_source(take):
    first, second = take(), take()
    fill(first)
    first.release(NOW)
    assert copy_from_free_slot(second)

    def room(folder):
        return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())

    assert room(second.folder) < 2 * room(first.folder) + (1 << 20), "of 200 MB that the files seem to hold"
    for path in first.folder.rglob("*"):
        if path.is_file():
            assert (second.folder / path.relative_to(first.folder)).read_bytes() == path.read_bytes()


# Forgetting


def test_free_slots_are_dropped_and_busy_ones_counted(root, take):
    mine = take()
    with process(root) as (holder, theirs):
        free, other = take(), take()
        assert [mine.number, theirs, free.number, other.number] == [0, 1, 2, 3]
        for slot in (mine, free, other):
            pretend(slot)
        free.release(NOW)
        assert drop_free_slots(root, mine=mine) == 2
        assert drop_free_slots(root) == 3
        assert numbers(root) == [0, 1, 3]
        other.release(NOW)
        assert drop_free_slots(root, mine=mine) == 1
        holder.kill()
        holder.wait()
        assert drop_free_slots(root, mine=mine) == 0
        assert numbers(root) == [0]


def test_dropping_where_no_slot_ever_was_is_no_error(root):
    assert drop_free_slots(root) == 0


def test_an_index_of_another_generation_is_neither_used_nor_copied_nor_kept(root, take):
    slots = [take(generation="1") for _ in range(3)]
    for slot in slots:
        pretend(slot)
    slots[0].release(NOW)
    slots[1].release(NOW)
    assert not copy_from_free_slot(take(generation="2"))
    assert numbers(root) == [2]  # the one that is in use
    slots[2].empty(NOW, generation="2")
    assert numbers(root) == []


def test_a_slot_emptied_for_a_new_generation_is_kept_by_it(take):
    slot = take(generation="1")
    slot.empty(NOW, generation="2")
    pretend(slot)
    slot.release(NOW)
    assert has_index(take(generation="2").folder)
