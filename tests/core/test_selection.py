"""What a filter means on an item, whatever store it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from rawthink_core.operations import Filters, Scan, SearchQuery, parse
from rawthink_core.searching import owner_of
from rawthink_core.selection import selection

from .ledger import SPACE, Ledger, entity

if TYPE_CHECKING:
    from rawthink_core.model import ItemKind

EVERY: tuple[ItemKind, ...] = ("entity", "observation", "relation", "passage")


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.record(
        entities=[entity("Tool"), entity("Song", domain="music", entity_type="artifact")],
        observations=[
            {"entity": "Tool", "text": "plain"},
            {"entity": "Tool", "text": "wrong"},
            {"entity": "Tool", "text": "over"},
            {"entity": "Song", "text": "rejected", "kind": "rejected"},
            {"entity": "Song", "text": "dated", "valid_from": "2020-01-01", "valid_to": "2020-12-31"},
        ],
        relations=[{"source": "Tool", "type": "uses", "target": "Song"}],
        passages=[
            {"text": "first", "session": "s", "tags": ["x", "y"]},
            {"text": "second", "session": "t", "tags": ["y"], "valid_from": "2020-06-01"},
        ],
    )
    ledger.revise({"entity": "Tool", "text": "wrong"})
    ledger.revise({"entity": "Tool", "text": "over"}, cause="changed", effective="2021-01-01")
    return ledger


def passing(ledger: Ledger, **filters: Any) -> set[str]:
    query = parse(Scan, {"scope": {"space": SPACE}, **filters}).in_zone(ZoneInfo("UTC"))
    chosen, states = selection(query, EVERY), ledger.states()
    return {
        state.row.get("text") or state.row.get("name") or state.row["type"]
        for state in states.values()
        if chosen.passes(state, owner_of(state, states))
    }


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, {"Tool", "Song", "plain", "rejected", "dated", "uses", "first", "second"}),
        ({"items": ["passage", "relation"]}, {"first", "second", "uses"}),
        ({"statuses": ["ended", "invalidated"]}, {"over", "wrong"}),
        ({"observation_kinds": ["rejected"]}, {"rejected"}),
        ({"observation_kinds": ["note"]}, {"plain", "dated"}),
        ({"domains": ["music"]}, {"Song", "rejected", "dated"}),
        ({"entity_types": ["thing"]}, {"Tool", "plain"}),
        ({"entity_types": ["thing"], "domains": ["music"]}, set()),
        ({"tags": ["x"]}, {"first"}),
        ({"tags": ["x", "y"]}, {"first", "second"}),
        ({"sessions": ["t"]}, {"second"}),
        ({"sessions": ["T"]}, set()),
        ({"until": "2020-12-31"}, {"dated", "second"}),
        ({"since": "2020-06-01", "until": "2020-06-01"}, {"second"}),
        ({"since": "2026-01-01T00:00:01Z"}, {"Tool", "Song", "plain", "rejected", "uses", "first"}),
        ({"until": "2026-01-01T00:00:01Z"}, {"dated", "second"}),
        (
            {"valid_at": "2020-12-31"},
            {"Tool", "Song", "plain", "rejected", "dated", "over", "uses", "first", "second"},
        ),
        ({"valid_at": "2021-01-01"}, {"Tool", "Song", "plain", "rejected", "uses", "first", "second"}),
        (
            {"valid_at": "2020-12-31", "statuses": ["active"], "items": ["observation"]},
            {"plain", "rejected", "dated"},
        ),
    ],
)
def test_what_passes(ledger: Ledger, filters: dict[str, Any], found: set[str]) -> None:
    assert passing(ledger, **filters) == found


def test_what_was_erased_never_passes() -> None:
    ledger = Ledger()
    ledger.record(passages=[{"text": "secret", "session": "s"}])
    ledger.forget(*ledger.states())
    assert passing(ledger, statuses=["active", "ended", "invalidated"]) == set()


def test_an_item_whose_entity_is_gone_has_no_domain() -> None:
    ledger = Ledger()
    ledger.record(entities=[entity("E")], observations=[{"entity": "E", "text": "t"}])
    states = ledger.states()
    chosen = selection(parse(Filters, {"scope": {"space": SPACE}, "domains": ["software"]}), EVERY)
    assert not chosen.passes(next(s for s in states.values() if s.kind == "observation"), None)


def test_a_search_looks_at_what_has_words_of_its_own() -> None:
    query = parse(SearchQuery, {"scope": {"space": SPACE}, "text": "t"})
    assert selection(query).items == ("entity", "observation", "passage")
    assert selection(query.model_copy(update={"items": ("passage",)})).items == ("passage",)


def test_only_some_filters_need_the_entity() -> None:
    for name, needed in (("domains", True), ("entity_types", True), ("tags", False)):
        assert selection(parse(Filters, {"scope": {"space": SPACE}, name: ["x"]})).needs_entity is needed
