"""The log: what is appended is there whole, once, in order; and how its rows are found."""

from __future__ import annotations

import threading
import uuid
from contextlib import suppress

import pytest

from rawthink_core.errors import BatchIdReused
from rawthink_core.operations import Forget, parse
from rawthink_core.questions import key
from rawthink_lancedb import appending, upkeep
from rawthink_lancedb.erasure import forget
from rawthink_lancedb.errors import Raced
from rawthink_lancedb.ledger import Ledger, claim_of, rid_of
from rawthink_lancedb.log import Log
from rawthink_lancedb.log_tail import follow
from rawthink_lancedb.view import View

from .house import RULES, SPACE, commit, note, store_at, texts_in, turns


def test_commits_come_back_as_they_were_appended(tmp_path):
    made = [commit(n) for n in range(1, 8)]
    with store_at(tmp_path) as store:
        space = store.space(SPACE)
        space.log.look()
        store.append(space, made[:3])
        store.append(space, made[3:])
        assert list(store.commits(SPACE)) == made
    with store_at(tmp_path) as store:
        assert list(store.commits(SPACE)) == made
        space = store.space(SPACE)
        assert space.log.commit("c5") == made[4]
        assert space.log.commit("c99") is None


def test_an_append_that_came_too_late_leaves_nothing(tmp_path):
    with store_at(tmp_path) as one, store_at(tmp_path) as two:
        first, second = one.space(SPACE).log, two.space(SPACE).log
        first.look()
        first.append([commit(1)])
        second.look()
        first.append([commit(2), commit(3)])
        with pytest.raises(Raced):
            second.append([commit(4), commit(5), commit(6)])  # it has not seen the second append
        assert texts_in(one) == ["turn 1", "turn 2", "turn 3"]
        second.look()
        second.append([commit(4)])
        assert texts_in(one) == ["turn 1", "turn 2", "turn 3", "turn 4"]


def test_of_two_appends_that_meet_in_an_object_store_one_is_in_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(appending, "add", appending.merge)
    with store_at(tmp_path) as one, store_at(tmp_path) as two:
        logs = [one.space(SPACE).log, two.space(SPACE).log]
        logs[0].look()
        logs[0].append([commit(1)])
        won = []

        def append(log, piece):
            with suppress(Raced):
                log.append(piece)
                won.append(len(piece))

        for turn in range(1, 7):
            for log in logs:
                log.look()
            sizes = (2, 3)
            pieces = [[commit(100 * turn + 10 * size + k) for k in range(size)] for size in sizes]
            threads = [threading.Thread(target=append, args=pair) for pair in zip(logs, pieces, strict=True)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(won) == 6, "one of each two"
        kept = [each.id for each in one.commits(SPACE)]
        assert len(kept) == len(set(kept)) == 1 + sum(won)


def test_the_same_batch_is_written_once_and_another_under_its_id_refused(tmp_path):
    with store_at(tmp_path) as store:
        said = note("NAS", "hums", batch_id="b1")
        first = store.record(said, RULES)
        assert store.record(said, RULES) == first
        with pytest.raises(BatchIdReused):
            store.record(note("NAS", "is loud", batch_id="b1"), RULES)
        assert texts_in(store) == ["hums"]


def test_rows_of_others_are_seen_at_the_next_look(tmp_path):
    with store_at(tmp_path) as one, store_at(tmp_path) as two:
        one.record(note("NAS", "hums"), RULES)
        assert texts_in(two) == ["hums"]
        for number in range(5):
            (one, two)[number % 2].record(turns(f"turn {number}"), RULES)
        for store in (one, two):
            log = store.space(SPACE).log
            log.look()
            states = View(log).session("talk")
            assert [s.row["ordinal"] for s in sorted(states, key=lambda s: s.told)] == [0, 1, 2, 3, 4]


def test_rows_of_others_are_taken_from_the_end_as_long_as_they_stand_there(tmp_path, monkeypatch):
    real, through = Log._look_through, []

    def look_through(log, *args):
        through.append(log)
        return real(log, *args)

    monkeypatch.setattr(Log, "_look_through", look_through)
    with store_at(tmp_path) as one, store_at(tmp_path) as two:
        one.record(turns("turn 0"), RULES)
        said = texts_in(two)
        through.clear()
        for number in range(1, 4):
            one.record(turns(f"turn {number}"), RULES)
            one.record(note("NAS", f"hums {number}"), RULES)
            assert len(texts_in(two)) == len(said) + 2 * number
        assert two.space(SPACE).log not in through
        gone = one.space(SPACE).log.items()[0]
        one.record(turns("before"), RULES)
        forget(one, parse(Forget, {"scope": {"space": SPACE}, "ids": [gone]}))
        upkeep.gather(one.space(SPACE).log.table, "rid", [0, 1, 2, 3])
        one.record(turns("after"), RULES)
        assert texts_in(two) == texts_in(one)
        assert two.space(SPACE).log.ledger.erasures == one.space(SPACE).log.ledger.erasures > 0
        assert two.space(SPACE).log in through
        through.clear()
        one.record(turns("at last"), RULES)
        assert texts_in(two)[-1] == "at last"
        assert two.space(SPACE).log not in through


@pytest.mark.parametrize(
    ("last", "rids", "told"),
    [
        (rid_of(3, 1), [rid_of(3, 1), rid_of(4, 0), rid_of(4, 1), rid_of(5, 0)], True),
        (rid_of(3, 1), [rid_of(3, 1), rid_of(4, 1)], False),  # the first row is elsewhere
        (rid_of(3, 1), [rid_of(3, 1), rid_of(5, 0)], False),  # a claim is elsewhere
        (rid_of(3, 1), [rid_of(3, 0), rid_of(3, 1)], False),  # what was known is not the last
        (rid_of(3, 1), [rid_of(3, 1), rid_of(4, 1), rid_of(4, 0)], False),  # in another order
    ],
)
def test_rows_from_the_end_are_believed_when_they_follow(last, rids, told):
    assert follow(last, rids) is told


def test_a_ledger_finds_what_it_learned_however_it_came(tmp_path, monkeypatch):
    monkeypatch.setattr("rawthink_lancedb.ledger._MERGE_FROM", 7)
    with store_at(tmp_path) as store:
        for number in range(12):
            store.record(turns(f"turn {number}"), RULES)
        bit_by_bit = store.space(SPACE).log.ledger
    with store_at(tmp_path) as store:
        log = store.space(SPACE).log
        log.look()
        for number in range(12):
            asked = key("place", SPACE, "talk", number)
            assert bit_by_bit.find(asked) == log.ledger.find(asked) != []
        assert bit_by_bit.last_rid == log.ledger.last_rid
        assert log.ledger.last_ordinal(key("session", SPACE, "talk")) == 11
        assert log.ledger.find(key("place", SPACE, "talk", 99)) == []


def test_a_ledger_slices_what_comes_after_a_row():
    ledger = Ledger()
    assert (ledger.slice_after(0, 10), ledger.behind(0), ledger.last_rid) == (0, 0, 0)
    ledger._ends = [rid_of(1, 3), rid_of(2, 0), rid_of(5, 9)]
    assert ledger.behind(0) == 15
    assert ledger.behind(rid_of(1, 1)) == 13
    assert ledger.slice_after(0, 5) == rid_of(2, 0)
    assert ledger.slice_after(0, 7) == rid_of(5, 1)
    assert ledger.slice_after(0, 100) == rid_of(5, 9)
    assert ledger.rids_between(rid_of(1, 2), rid_of(5, 0)) == [rid_of(1, 3), rid_of(2, 0), rid_of(5, 0)]
    assert claim_of(rid_of(7, 123)) == 7


def test_births_come_in_order_and_whole_instants(tmp_path):
    same = "2026-01-02T00:00:00.000000Z"
    rows = [
        {
            "op": "passage",
            "id": str(uuid.UUID(int=n)),
            "session": "s",
            "ordinal": n,
            "key": f"k{n}",
            "text": f"t{n}",
            "at": same,
        }
        for n in range(50, 60)
    ]
    with store_at(tmp_path) as store:
        space = store.space(SPACE)
        space.log.look()
        store.append(space, [commit(1), commit(2), commit(3, *rows), commit(4)])
        assert [claim_of(birth.rid) for birth in space.log.born_from(0, 2)] == [1, 1]
        all_of_them = space.log.born_from(0, 4)
        assert len(all_of_them) == 13, "three, and the ten of one instant"
        assert len(space.log.born_from(all_of_them[-1].at, 1)) == 10
        assert space.log.born_from(all_of_them[-1].at + 1, 1) == []
        assert space.log.ledger.items == 13


def test_what_was_erased_is_in_no_row_and_no_memory(tmp_path):
    with store_at(tmp_path) as one, store_at(tmp_path) as two:
        one.record(note("NAS", "hums", "is loud"), RULES)
        assert texts_in(two) == ["hums", "is loud"]
        scope = {"space": SPACE}
        erased, missing = forget(one, parse(Forget, {"scope": scope, "names": ["NAS", "Nobody"]}))
        assert len(erased) == 3
        assert missing == ["Nobody"]
        for store in (one, two):
            log = store.space(SPACE).log
            log.look()
            assert {row.row["op"] for row in log._rows.values() if row is not None} <= {"forgotten"}
            assert texts_in(store) == []
            assert sorted(log.erased()) == sorted(state.id for state in erased)


def test_a_log_that_does_not_exist_is_empty_and_is_not_made_by_reading(tmp_path):
    with store_at(tmp_path) as store:
        assert not store.space("nobody's").log.look()
        assert list(store.commits("nobody's")) == []
        assert store.catalogue.spaces() == []
        assert isinstance(store.space("nobody's").log, Log)
