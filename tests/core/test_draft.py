"""A draft: judged before a store is asked, planned over what it sees, and told apart from another of its id."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from rawthink_conformance.brute import facts
from rawthink_core.draft import Draft
from rawthink_core.errors import BatchIdReused, InvalidRequest

from .ledger import RULES, SPACE, START, Ledger, batch, entity

if TYPE_CHECKING:
    from rawthink_core.graph import Facts, Needs
    from rawthink_core.operations import Batch


class Seen:
    """What a plan sees of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def facts(self, wanted: Needs) -> Facts:
        return facts(wanted, self.ledger.states())


def said(text: str) -> Batch:
    return batch("b", observations=[{"entity": "Redis", "text": text}])


def test_a_draft_becomes_the_commit_of_its_batch_over_what_is_there_by_then() -> None:
    ledger = Ledger()
    draft = Draft(said("is fast"), RULES)
    assert (draft.id, draft.space) == ("b", SPACE)
    with pytest.raises(InvalidRequest, match="Redis"):
        draft.commit(Seen(ledger), START)
    ledger.record(entities=[entity("Redis")])
    first = draft.commit(Seen(ledger), START)
    assert [(row["op"], row["text"]) for row in first.rows] == [("observation", "is fast")]
    ledger.record(observations=[{"entity": "Redis", "text": "is fast"}])  # others came first
    again = draft.commit(Seen(ledger), START + timedelta(seconds=5))
    assert [row["op"] for row in again.rows] == ["same"]
    assert (again.id, again.at, again.space) == ("b", "2026-01-01T00:00:05.000000Z", SPACE)


def test_a_receipt_is_of_this_batch_and_of_no_other_with_its_id() -> None:
    ledger = Ledger()
    ledger.record(entities=[entity("Redis")])
    commit = Draft(said("is fast"), RULES).commit(Seen(ledger), START)
    retried = Draft(said("is fast"), RULES).receipt(commit)
    assert (retried.batch_id, [item.outcome for item in retried.items]) == ("b", ["created"])
    with pytest.raises(BatchIdReused, match="'b' was used for other content"):
        Draft(said("is slow"), RULES).receipt(commit)
