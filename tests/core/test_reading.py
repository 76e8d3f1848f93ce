"""Getting, walking and telling the history of things, over any store that can look up states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from rawthink_core import reading
from rawthink_core.errors import InvalidRequest, NotFound
from rawthink_core.operations import Get, GraphQuery, HistoryQuery, Scan, parse

from .ledger import SPACE, Ledger, Reader, entity

if TYPE_CHECKING:
    from rawthink_core.operations import GraphPage, History, Items, ScanPage

UTC = ZoneInfo("UTC")


@pytest.fixture
def ledger() -> Ledger:
    """Return a chain A → B → C → D and back to A, with something said of each."""
    ledger = Ledger()
    ledger.record(
        entities=[entity(name) for name in "ABCD"],
        observations=[{"entity": name, "text": f"about {name}"} for name in "ABCD"],
        relations=[
            {"source": one, "type": "uses", "target": other} for one, other in ("AB", "BC", "CD", "DA")
        ],
    )
    return ledger


def get(ledger: Ledger, **asked: Any) -> Items:
    return reading.get(Reader(ledger), parse(Get, {"scope": {"space": SPACE}, **asked}).in_zone(UTC))


def graph(ledger: Ledger, **asked: Any) -> GraphPage:
    return reading.graph(Reader(ledger), parse(GraphQuery, {"scope": {"space": SPACE}, **asked}).in_zone(UTC))


def history(ledger: Ledger, **asked: Any) -> History:
    return reading.history(Reader(ledger), parse(HistoryQuery, {"scope": {"space": SPACE}, **asked}))


def drawn(page: GraphPage) -> set[str]:
    return {f"{link.source_name}{link.target_name}" for link in page.relations}


# --- get ----------------------------------------------------------------------------------------


def test_items_come_in_the_order_asked_for(ledger: Ledger) -> None:
    said = ledger.said("about C").id
    found = get(ledger, ids=[said, "nothing"], names=["b", "A", "ghost"])
    assert [getattr(item, "text", None) or getattr(item, "name", None) for item in found.items] == [
        "about C", "B", "A",
    ]  # fmt: skip
    assert found.missing == ("nothing", "ghost")


def test_an_item_asked_for_twice_comes_once(ledger: Ledger) -> None:
    item_id = ledger.entity("A").id
    assert len(get(ledger, ids=[item_id, item_id.upper()], names=["a"]).items) == 1


@pytest.mark.parametrize("asked", [{}, {"ids": []}, {"ids": [""]}, {"names": ["", " "]}, {"ids": ["\x00"]}])
def test_asking_for_nothing_finds_nothing(ledger: Ledger, asked: dict[str, Any]) -> None:
    assert get(ledger, **asked).items == ()


def test_an_item_is_as_it_was_believed_then(ledger: Ledger) -> None:
    ledger.revise({"entity": "A"}, fields={"name": "Alpha", "epistemic": "assertion"})
    ledger.revise({"entity": "A", "text": "about A"}, reason="no longer", cause="changed")
    said = ledger.said("about A").id
    (before, then) = get(ledger, names=["alpha"], ids=[said], as_of=ledger.at(1)).items
    assert (before.status, before.valid_to, before.entity_name) == ("active", None, "A")  # type: ignore[union-attr] # an observation
    assert (then.name, then.epistemic, then.versions) == ("A", "unknown", ())  # type: ignore[union-attr] # an entity
    assert get(ledger, names=["alpha"], as_of="2020-01-01").missing == ("alpha",)


def test_an_entity_answers_to_a_name_that_it_had(ledger: Ledger) -> None:
    ledger.revise({"entity": "A"}, fields={"name": "Alpha"})
    (found,) = get(ledger, names=["a"]).items
    assert found.name == "Alpha"  # type: ignore[union-attr] # an entity


# --- graph --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "entities", "links"),
    [
        (0, "A", set()),
        (1, "ABD", {"AB", "DA"}),
        (2, "ABDC", {"AB", "DA", "BC", "CD"}),
        (5, "ABDC", {"AB", "DA", "BC", "CD"}),
    ],
)
def test_a_walk_goes_as_far_as_asked_and_nowhere_twice(
    ledger: Ledger, depth: int, entities: str, links: set[str]
) -> None:
    page = graph(ledger, names=["a"], depth=depth)
    assert {found.name for found in page.entities} == set(entities)
    assert drawn(page) == links
    assert not page.truncated


def test_what_is_said_is_said_of_where_the_walk_began(ledger: Ledger) -> None:
    page = graph(ledger, names=["A", "C"], depth=2)
    assert [said.text for said in page.observations] in (["about A", "about C"], ["about C", "about A"])


def test_nothing_is_fetched_of_what_nobody_asked_for(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = graph(ledger, names=["A", "ghost"], depth=2)
    monkeypatch.delattr(Reader, "about")
    bare = graph(ledger, names=["A", "ghost"], depth=2, observations=False)
    assert whole.observations
    assert bare == whole.model_copy(update={"observations": ()})


def test_a_walk_that_finds_too_much_says_so(ledger: Ledger) -> None:
    page = graph(ledger, names=["A"], depth=5, limit=2)
    assert (len(page.relations), page.truncated) == (2, True)
    assert not graph(ledger, names=["A"], depth=5, limit=4).truncated


def test_a_walk_begins_at_ids_of_any_case_and_tells_what_is_missing(ledger: Ledger) -> None:
    page = graph(
        ledger, ids=[ledger.entity("A").id.upper(), ledger.said("about B").id], names=["ghost"], depth=0
    )
    assert [found.name for found in page.entities] == ["A"]
    assert set(page.missing) == {"ghost", ledger.said("about B").id}


def test_retired_relations_are_walked_only_when_asked(ledger: Ledger) -> None:
    ledger.revise({"source": "A", "type": "uses", "target": "B"})
    assert drawn(graph(ledger, names=["A"])) == {"DA"}
    assert drawn(graph(ledger, names=["A"], statuses=["active", "invalidated"])) == {"AB", "DA"}
    assert drawn(graph(ledger, names=["A"], as_of=ledger.at(1))) == {"AB", "DA"}


def test_an_erased_entity_ends_the_walk(ledger: Ledger) -> None:
    ledger.forget(ledger.entity("B").id)
    page = graph(ledger, names=["A"], depth=5)
    assert {found.name for found in page.entities} == {"A", "C", "D"}


# --- history ------------------------------------------------------------------------------------


def test_the_history_of_an_entity_is_everything_said_of_it(ledger: Ledger) -> None:
    ledger.revise({"entity": "A", "text": "about A"}, successor={"text": "more about A"}, reason="grew")
    ledger.revise({"entity": "A"}, fields={"name": "Alpha"})
    told = history(ledger, name="a")
    assert told.entity is not None
    assert [version.value for version in told.entity.versions] == ["A", "Alpha"]
    assert [(said.text, said.status) for said in told.observations] == [
        ("about A", "invalidated"), ("more about A", "active"),
    ]  # fmt: skip
    assert {(link.source_name, link.target_name) for link in told.relations} == {
        ("Alpha", "B"),
        ("D", "Alpha"),
    }


def test_the_history_of_a_belief_is_its_chain_from_either_end(ledger: Ledger) -> None:
    for old, new in (("about A", "second"), ("second", "third")):
        ledger.revise({"entity": "A", "text": old}, successor={"text": new})
    ledger.revise({"entity": "B", "text": "about B"}, successor={"entity": "A", "text": "third"})
    for text in ("about A", "third", "about B"):
        told = history(ledger, id=ledger.said(text).id.upper())
        assert {said.text for said in told.observations} == {"about A", "second", "third", "about B"}
        assert told.entity is None


def test_a_passage_has_a_history_too(ledger: Ledger) -> None:
    for text in ("teh cat", "the cat"):
        ledger.record(passages=[{"text": text, "session": "s", "key": "k"}])
    last = ledger.record(passages=[{"text": "the cat", "session": "s", "key": "k"}]).ids()[0]
    assert [passage.text for passage in history(ledger, id=last).passages] == ["teh cat", "the cat"]


@pytest.mark.parametrize("asked", [{"id": "nothing"}, {"name": "ghost"}, {"id": ""}, {"name": ""}])
def test_what_is_not_there_has_no_history(ledger: Ledger, asked: dict[str, str]) -> None:
    with pytest.raises(NotFound, match="search for it first"):
        history(ledger, **asked)


def test_what_was_erased_has_no_history(ledger: Ledger) -> None:
    said = ledger.said("about A").id
    ledger.forget(said)
    with pytest.raises(NotFound):
        history(ledger, id=said)
    assert history(ledger, name="A").observations == ()


@pytest.mark.parametrize("asked", [{}, {"id": "i", "name": "n"}])
def test_a_history_is_of_one_thing(ledger: Ledger, asked: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="an id or a name"):
        history(ledger, **asked)


def scan(ledger: Ledger, **request: Any) -> ScanPage:
    """Return a page of a scan over a ledger."""
    return reading.scan(Reader(ledger), parse(Scan, {"scope": {"space": SPACE}, **request}).in_zone(UTC))


def test_the_pages_of_a_scan_are_the_whole_of_it_and_the_last_has_no_cursor(ledger: Ledger) -> None:
    whole = [item.id for item in scan(ledger).items]
    assert len(whole) == 12
    for size in (1, 5, 6, 11, 12):
        pages, cursor = [], {}
        while cursor is not None:
            page = scan(ledger, limit=size, **cursor)
            pages.append([item.id for item in page.items])
            cursor = None if page.cursor is None else {"cursor": page.cursor}
        assert [item for page in pages for item in page] == whole
        assert {len(page) for page in pages[:-1]} <= {size}
        assert pages[-1] or size > 12


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "|",
        "nonsense",
        "2026-01-01|x",
        f"2026-01-01T00:00:00.000000Z|{'g' * 36}",
        f"2026-02-30T00:00:00.000000Z|{UUID(int=1)}",
        f"2026-01-01T00:00:00.000000+00:00|{UUID(int=1)}",
        "|" * 40,
    ],
)
def test_what_no_scan_returned_is_no_cursor(ledger: Ledger, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        scan(ledger, cursor=cursor)


def test_a_scan_takes_relations_and_names_what_they_join(ledger: Ledger) -> None:
    page = scan(ledger, items=["relation"])
    assert {(r.source_name, r.target_name) for r in page.items} == {
        tuple(pair) for pair in ("AB", "BC", "CD", "DA")
    }
