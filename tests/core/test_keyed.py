"""A reader over keys: what a request to forget comes to."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from rawthink_core import reading
from rawthink_core.keyed import KeyedReader
from rawthink_core.operations import Forget, parse
from rawthink_core.questions import key, questions

from .ledger import SPACE, Ledger, entity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.rows import Stamped


class Reader(KeyedReader):
    """A reader over a ledger, with an index of keys made on the spot."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(SPACE)
        self.index: defaultdict[int, list[Stamped]] = defaultdict(list)
        for commit in ledger.commits:
            for stamped in commit.stamped():
                for asked in questions(SPACE, stamped.row):
                    self.index[asked].append(stamped)

    def answers(self, kind: str, asked: Sequence[tuple[object, ...]]) -> list[list[Stamped]]:
        return [self.index[key(kind, SPACE, *parts)] for parts in asked]

    def last_ordinal(self, session: str) -> int:
        raise NotImplementedError


@pytest.fixture
def ledger() -> Ledger:
    """Return two related entities with something said of each, and two sessions."""
    ledger = Ledger()
    ledger.record(
        entities=[entity("Redis"), entity("Valkey")],
        observations=[{"entity": name, "text": "is fast"} for name in ("Redis", "Valkey")],
        relations=[{"source": "Valkey", "type": "evolved_into", "target": "Redis"}],
        passages=[{"text": f"turn {n}", "session": n} for n in ("one", "one", "two") for n in (n,)],
    )
    return ledger


def meant(ledger: Ledger, **what: Any) -> tuple[list[str], list[str]]:
    """Return the kinds of what a request to forget means, in order, and what of it is missing."""
    request = parse(Forget, {"scope": {"space": SPACE}, **what})
    found, missing = reading.meant(Reader(ledger), request, ledger.states)
    assert all(state.id == item for item, state in found.items())
    return sorted(state.kind for state in found.values()), missing


def test_an_entity_goes_with_all_that_ends_at_it(ledger: Ledger) -> None:
    assert meant(ledger, names=["REDIS"]) == (["entity", "observation", "relation"], [])
    [redis] = [s.id for s in ledger.states().values() if s.row.get("name") == "Redis"]
    assert meant(ledger, ids=[redis.upper()]) == meant(ledger, names=["redis", "Redis"])


def test_an_item_goes_alone(ledger: Ledger) -> None:
    [relation] = [s.id for s in ledger.states().values() if s.kind == "relation"]
    assert meant(ledger, ids=[relation]) == (["relation"], [])


def test_a_session_goes_with_its_passages_and_everything_with_everything(ledger: Ledger) -> None:
    assert meant(ledger, sessions=["two"]) == (["passage"], [])
    assert len(meant(ledger, everything=True)[0]) == len(ledger.states())


def test_what_is_not_there_is_said_in_the_words_of_the_request(ledger: Ledger) -> None:
    asked = {"ids": ["no id"], "names": ["Nobody"], "sessions": ["three"]}
    assert meant(ledger, **asked) == ([], ["no id", "Nobody", "three"])
