"""`kill -9` at any instant loses nothing that was confirmed and leaves no half of anything."""

from __future__ import annotations

import os

import pytest

from .house import play

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the writers are forked")


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_writers_lose_no_confirmed_batch_and_leave_no_half_of_one(tmp_path, seed):
    told = play("killed", tmp_path, 80, seed)
    assert told["kills"] == 120
    assert told["confirmed"] > 120


def test_a_writer_killed_between_journal_and_index_is_found_by_the_next_search(tmp_path):
    told = play("killed_while_indexing", tmp_path, 12, 1)
    assert told["confirmed"] > 12


def test_killed_while_forgetting_leaves_the_old_journal_or_the_new_and_nothing_beside_it(tmp_path):
    ends = play("killed_while_forgetting", tmp_path, 30, 1)
    assert ends["old"] > 0
    assert ends["new"] > 0
