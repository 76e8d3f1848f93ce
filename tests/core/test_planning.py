"""Rules 3 to 7: all or nothing with every fault, nothing said twice, relations that end somewhere."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rawthink_core.errors import AlreadyRevised, InvalidRequest, NotFound
from rawthink_core.graph import Rules, prepare
from rawthink_core.identity import observation_id
from rawthink_core.model import Passage
from rawthink_core.vocabulary import DEFAULT_VOCABULARY

from .ledger import SPACE, Ledger, batch, entity


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.record(entities=[entity("A"), entity("B"), entity("C")])
    return ledger


def places(refused: pytest.ExceptionInfo[InvalidRequest]) -> list[str]:
    return [fault.where for fault in refused.value.faults]


def outcomes(receipt: Any) -> list[str]:
    return [item.outcome for item in receipt.items]


# --- every fault at once ------------------------------------------------------------------------


def test_one_answer_names_all_that_is_wrong_and_nothing_is_written(ledger: Ledger) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(
            entities=[{"name": "New", "domain": "softwear"}],
            observations=[
                {"entity": "A", "text": " ", "kind": "thought"},
                {"entity": "ghost", "text": "t", "valid_from": "2025-02-01", "valid_to": "2025-01-01"},
                {"entity": "A", "text": "fine"},
            ],
            relations=[
                {"source": "A", "type": "hates", "target": "ghost"},
                {"source": "A", "type": "uses", "target": "a"},
            ],
            passages=[{"text": "", "session": "s", "visibility": "public"}],
            revisions=[
                {"targets": [{"entity": "A", "text": "never said"}], "cause": "wrong"},
                {"targets": [{}], "effective": "2025-01-01"},
            ],
        )
    assert sorted(places(refused)) == sorted(
        [
            "entities.0.domain",
            "entities.0.entity_type",
            "observations.0.text",
            "observations.0.kind",
            "observations.1.valid_to",
            "observations.1.entity",
            "relations.0.type",
            "relations.0.target",
            "relations.1",
            "passages.0.text",
            "passages.0.visibility",
            "revisions.0.cause",
            "",  # the belief that was not found
            "revisions.1.effective",
            "revisions.1.targets.0",
        ]
    )
    assert ledger.texts() == []
    assert len(ledger.commits) == 1


def test_more_than_a_batch_holds_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="1001 items, 1000 at most"):
        Ledger().record(passages=[{"text": f"t{n}", "session": "s"} for n in range(1001)])


@pytest.mark.parametrize(
    "parts",
    [
        {"passages": [{"text": "茶" * 3_000_000, "session": "s"}] * 2},
        {"entities": [entity("x" * 17_000_000)]},
        {"revisions": [{"targets": [{"id": "i"}], "reason": "x" * 17_000_000}]},
        {"revisions": [{"targets": [{"id": "i"}], "successor": {"text": "x" * 17_000_000}}]},
    ],
)
def test_more_text_than_a_batch_holds_is_refused_wherever_it_stands(parts: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="16 MiB"):
        Ledger().record(**parts)


def test_a_long_text_is_kept_as_it_is(ledger: Ledger) -> None:
    text = "é\u2028\x00\n" * 500_000
    ledger.record(observations=[{"entity": "A", "text": text}])
    assert ledger.texts() == [text]


def test_a_fault_does_not_repeat_a_long_reference(ledger: Ledger) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(observations=[{"entity": "x" * 1_000_000, "text": "t"}])
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("reference", ["", " ", "ghost", "6f0b7c1e-5d7a-5b0e-9f39-2d1b8a4c7e55", "\x00"])
def test_what_is_said_about_nobody_is_refused(ledger: Ledger, reference: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(observations=[{"entity": reference, "text": "t"}])
    assert places(refused) == ["observations.0.entity"]


# --- nothing is said twice ----------------------------------------------------------------------


def test_what_stands_already_is_the_same_observation(ledger: Ledger) -> None:
    first = ledger.record(observations=[{"entity": "A", "text": "uses Synology"}])
    again = ledger.record(observations=[{"entity": "a", "text": "  uses Synology\n"}])
    assert outcomes(again) == ["unchanged"]
    assert again.ids() == first.ids()
    assert ledger.texts() == ["uses Synology"]


def test_unicode_forms_of_a_text_are_one_and_the_first_is_kept(ledger: Ledger) -> None:
    ledger.record(observations=[{"entity": "A", "text": "cafe\u0301"}])
    ledger.record(observations=[{"entity": "A", "text": "caf\u00e9"}])
    assert ledger.texts() == ["cafe\u0301"]


@pytest.mark.parametrize(
    "other", [{"kind": "rejected"}, {"valid_from": "2025-01-15"}, {"entity": "B"}, {"text": "T"}]
)
def test_another_kind_date_or_entity_is_another_observation(ledger: Ledger, other: dict[str, str]) -> None:
    said = {"entity": "A", "text": "t"}
    ledger.record(observations=[said, said | other])
    assert len(ledger.texts()) == 2


def test_what_stands_twice_in_a_batch_is_written_once(ledger: Ledger) -> None:
    said = {"entity": "A", "text": "t"}
    link = {"source": "A", "type": "uses", "target": "B"}
    receipt = ledger.record(
        observations=[said, {"entity": "a", "text": " t "}],
        relations=[link, {"source": "B", "type": "used_by", "target": "A"}],
        passages=[{"text": "p", "session": "s"}, {"text": "p ", "session": "s"}],
    )
    assert outcomes(receipt) == ["created"] * 3
    assert [row["op"] for row in ledger.commits[-1].rows] == ["observation", "relation", "passage"]


def test_said_again_after_it_was_retired_it_is_a_new_one(ledger: Ledger) -> None:
    owner = ledger.entity("A").id
    for n in range(4):
        (said,) = ledger.record(observations=[{"entity": "A", "text": "t"}]).ids()
        assert said == observation_id(SPACE, owner, "note", "t", None, n)
        ledger.revise({"id": said})
    assert len(ledger.texts("invalidated")) == 4


def test_an_id_is_never_used_again_even_after_it_was_erased(ledger: Ledger) -> None:
    (first,) = ledger.record(observations=[{"entity": "A", "text": "t"}]).ids()
    ledger.forget(first)
    (second,) = ledger.record(observations=[{"entity": "A", "text": "t"}]).ids()
    assert second != first


def test_times_are_kept_in_utc_and_naive_ones_are_the_stores() -> None:
    ledger = Ledger(Rules(DEFAULT_VOCABULARY, ZoneInfo("Asia/Shanghai")))
    ledger.record(
        entities=[entity("A")],
        observations=[{"entity": "A", "text": "t", "valid_from": "2025-01-15", "valid_to": "2025-01-15"}],
    )
    found = ledger.said("t")
    assert found.valid_from is not None
    assert found.valid_to is not None
    assert found.valid_from.isoformat() == "2025-01-14T16:00:00+00:00"
    assert found.valid_to.isoformat() == "2025-01-15T16:00:00+00:00"


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("2025-01-15T09:30:00", "2025-01-15T01:30:00.000000Z"),
        ("2025-01-15T09:30:00+03:00", "2025-01-15T06:30:00.000000Z"),
        ("2025-01-15", "2025-01-14T16:00:00.000000Z"),
        (1736933400.5, "2025-01-15T09:30:00.500000Z"),
        (1736933400000, "2025-01-15T09:30:00.000000Z"),
    ],
)
def test_the_time_of_a_provenance_is_read_like_any_other(written: object, stored: str) -> None:
    rules = Rules(DEFAULT_VOCABULARY, ZoneInfo("Asia/Shanghai"))
    asked = batch(provenance={"host": "mcp", "time": written})
    assert prepare(asked, rules).by == {"host": "mcp", "time": stored}


def test_a_provenance_without_a_time_has_none_and_without_anything_is_none() -> None:
    rules = Rules(DEFAULT_VOCABULARY, ZoneInfo("UTC"))
    assert prepare(batch(provenance={"client": "c"}), rules).by == {"client": "c"}
    assert prepare(batch(), rules).by is None


def test_a_provenance_outside_the_calendar_is_a_fault_with_its_place(ledger: Ledger) -> None:
    ledger.rules = Rules(DEFAULT_VOCABULARY, ZoneInfo("Asia/Shanghai"))
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(entities=[entity("B")], provenance={"time": "0001-01-01"})
    assert [fault.where for fault in refused.value.faults] == ["provenance.time"]


def test_a_time_long_ago_reads_back(ledger: Ledger) -> None:
    ledger.record(observations=[{"entity": "A", "text": "Rome fell", "valid_from": "0476-09-04"}])
    found = ledger.said("Rome fell")
    assert found.valid_from is not None
    assert found.valid_from.year == 476


@pytest.mark.parametrize("ends", ["2025-01-15T00:00:00Z", "2025-01-14"])
def test_what_ends_before_it_begins_is_refused(ledger: Ledger, ends: str) -> None:
    said = {"entity": "A", "text": "t", "valid_from": "2025-01-15", "valid_to": ends}
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(observations=[said])
    assert places(refused) == ["observations.0.valid_to"]


def test_a_time_outside_the_calendar_is_a_fault_with_its_place(ledger: Ledger) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(observations=[{"entity": "A", "text": "t", "valid_to": "9999-12-31"}])
    assert places(refused) == ["observations.0.valid_to"]


# --- relations ----------------------------------------------------------------------------------


def test_relations_end_at_entities_of_the_store_or_of_the_batch(ledger: Ledger) -> None:
    ledger.record(entities=[entity("D")], relations=[{"source": "d", "type": "uses", "target": "A"}])
    assert ledger.relations() == [("D", "uses", "A")]


def test_a_synonym_turns_the_arrow(ledger: Ledger) -> None:
    ledger.record(relations=[{"source": "A", "type": "used_by", "target": "B"}])
    assert ledger.relations() == [("B", "uses", "A")]


@pytest.mark.parametrize("kind", ["uses", "used_by"])
@pytest.mark.parametrize("end", ["source", "target"])
def test_a_missing_end_is_told_where_it_was_written(ledger: Ledger, kind: str, end: str) -> None:
    link = {"source": "A", "type": kind, "target": "A"} | {end: "ghost"}
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(relations=[link])
    assert places(refused) == [f"relations.0.{end}"]


@pytest.mark.parametrize("kind", ["uses", "supersedes", "used_by"])
def test_a_relation_to_oneself_is_refused(ledger: Ledger, kind: str) -> None:
    with pytest.raises(InvalidRequest, match="to itself"):
        ledger.record(relations=[{"source": "A", "type": kind, "target": "a"}])


def test_of_two_things_only_one_supersedes_the_other(ledger: Ledger) -> None:
    one = {"source": "A", "type": "supersedes", "target": "B"}
    other = {"source": "B", "type": "supersedes", "target": "A"}
    with pytest.raises(InvalidRequest, match="reverse stands already"):
        ledger.record(relations=[one, other])
    ledger.record(relations=[one])
    with pytest.raises(InvalidRequest, match="reverse stands already"):
        ledger.record(relations=[other])
    ledger.revise({"source": "A", "type": "supersedes", "target": "B"})
    ledger.record(relations=[other])
    assert ledger.relations() == [("B", "supersedes", "A")]


def test_longer_circles_are_allowed(ledger: Ledger) -> None:
    ledger.record(
        relations=[
            {"source": source, "type": "supersedes", "target": target}
            for source, target in ("AB", "BC", "CA")
        ]
    )
    assert len(ledger.relations()) == 3


def test_a_standing_relation_is_the_same_and_a_retired_one_is_not(ledger: Ledger) -> None:
    link = {"source": "A", "type": "uses", "target": "B"}
    first = ledger.record(relations=[link])
    assert outcomes(ledger.record(relations=[link])) == ["unchanged"]
    ledger.revise(link, reason="moved away")
    again = ledger.record(relations=[link])
    assert outcomes(again) == ["created"]
    assert again.ids() != first.ids()


# --- passages -----------------------------------------------------------------------------------


def turn(text: str, key: str | None = None, **more: Any) -> dict[str, Any]:
    return {"text": text, "session": "s", "key": key, **more}


def passages(ledger: Ledger) -> list[tuple[str, int, str]]:
    found = [item for item in ledger.items() if isinstance(item, Passage)]
    return [(p.text, p.ordinal, p.status) for p in sorted(found, key=lambda p: (p.ordinal, p.recorded_at))]


def test_turns_follow_on_each_other() -> None:
    ledger = Ledger()
    ledger.record(passages=[turn("one"), turn("two"), {"text": "elsewhere", "session": "t"}])
    ledger.record(passages=[turn("three")])
    assert {text: ordinal for text, ordinal, _ in passages(ledger)} == {
        "one": 0,
        "two": 1,
        "three": 2,
        "elsewhere": 0,
    }


def test_a_stated_place_counts_and_what_follows_comes_after_it() -> None:
    ledger = Ledger()
    ledger.record(passages=[turn("seventh", ordinal=7), turn("eighth")])
    assert [(text, ordinal) for text, ordinal, _ in passages(ledger)] == [("seventh", 7), ("eighth", 8)]


def test_another_text_under_the_same_key_takes_its_place() -> None:
    ledger = Ledger()
    (old,) = ledger.record(passages=[turn("first", "m1", tags=["x"])]).ids()
    ledger.record(passages=[turn("after", "m2")])
    receipt = ledger.record(passages=[turn("corrected", "m1")])
    assert outcomes(receipt) == ["created", "ended"]
    assert passages(ledger) == [("first", 0, "ended"), ("corrected", 0, "active"), ("after", 1, "active")]
    new = ledger.item(receipt.ids("passage", "created")[0])
    assert isinstance(new, Passage)
    assert new.supersedes == (old,)


def test_the_same_text_under_the_same_key_is_the_same() -> None:
    ledger = Ledger()
    ledger.record(passages=[turn("first", "m1")])
    assert outcomes(ledger.record(passages=[turn(" first ", "m1")])) == ["unchanged"]


def test_a_text_without_a_key_is_its_own_place() -> None:
    ledger = Ledger()
    ledger.record(passages=[turn("yes")])
    assert outcomes(ledger.record(passages=[turn("yes")])) == ["unchanged"]
    assert outcomes(ledger.record(passages=[{"text": "yes", "session": "t"}])) == ["created"]


def test_in_a_receipt_what_was_retired_stands_last() -> None:
    ledger = Ledger()
    ledger.record(passages=[turn("a", "1"), turn("b", "2")])
    receipt = ledger.record(passages=[turn("A", "1"), turn("B", "2"), turn("c", "3")])
    assert outcomes(receipt) == ["created"] * 3 + ["ended"] * 2


@pytest.mark.parametrize("before", [[], ["A"]])
def test_two_texts_under_one_key_in_a_batch_are_refused(before: list[str]) -> None:
    ledger = Ledger()
    for text in before:
        ledger.record(passages=[turn(text, "k")])
    for texts in (("A", "B"), ("B", "A")):
        with pytest.raises(InvalidRequest) as refused:
            ledger.record(passages=[turn(text, "k") for text in texts])
        assert places(refused) == ["passages.1.key"]


@pytest.mark.parametrize("key", ["", " "])
def test_a_blank_key_is_refused_since_all_turns_would_share_it(key: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Ledger().record(passages=[turn("t", key)])
    assert places(refused) == ["passages.0.key"]


def from_file(text: str, key: str, path: str = "a.md") -> dict[str, Any]:
    return turn(text, key, origin={"path": path, "line": 1})


def test_what_a_file_no_longer_holds_ends() -> None:
    ledger = Ledger()
    ledger.record(passages=[from_file("one", "1"), from_file("two", "2"), turn("said in chat")])
    receipt = ledger.record(passages=[from_file("one", "1"), from_file("three", "3")], replaces_origin="a.md")
    assert outcomes(receipt) == ["unchanged", "created", "ended"]
    assert ledger.texts("ended") == ["two"]
    assert set(ledger.texts()) == {"one", "three", "said in chat"}
    ledger.record(replaces_origin="a.md")
    assert ledger.texts() == ["said in chat"]


def test_a_file_that_is_replaced_holds_nothing_but_its_own_passages() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Ledger().record(
            entities=[entity("E")],
            passages=[from_file("x", "1"), from_file("y", "2", "b.md"), turn("z")],
            replaces_origin="a.md",
        )
    assert places(refused) == ["replaces_origin", "passages.1.origin", "passages.2.origin"]


# --- what alone is wrong ------------------------------------------------------------------------


def test_a_belief_that_is_not_there_is_not_found_and_all_of_them_are_told(ledger: Ledger) -> None:
    with pytest.raises(NotFound) as refused:
        ledger.revise(
            {"entity": "A", "text": "x"}, {"id": "nothing"}, {"source": "A", "type": "uses", "target": "B"}
        )
    assert all(word in str(refused.value) for word in ("targets.0", "'nothing'", "'A' uses 'B'"))


def test_what_was_retired_and_what_never_was_are_told_together(ledger: Ledger) -> None:
    (said,) = ledger.record(observations=[{"entity": "A", "text": "t"}]).ids()
    ledger.revise({"id": said})
    with pytest.raises(AlreadyRevised):
        ledger.revise({"id": said})
    with pytest.raises(InvalidRequest) as refused:
        ledger.revise({"id": said}, {"id": "nothing"})
    assert len(refused.value.faults) == 2
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(
            observations=[{"entity": "ghost", "text": "t"}], revisions=[{"targets": [{"id": said}]}]
        )
    assert places(refused) == ["observations.0.entity", ""]


def test_the_same_text_with_other_tags_or_from_another_file_is_another_version(ledger: Ledger) -> None:
    def say(**more: Any) -> Any:
        return ledger.record(passages=[{"text": "one", "session": "s", "key": "k", **more}])

    first = say(tags=["work"], speaker="Ada")
    assert outcomes(say()) == outcomes(say(tags=["work"])) == ["unchanged"]
    second = say(tags=["home"])
    assert outcomes(second) == ["created", "ended"]
    row = ledger.commits[-1].rows[0]
    assert (row["supersedes"], row["tags"], row["speaker"]) == (first.ids("passage"), ["home"], "Ada")
    third = say(origin={"path": "sessions/a.md", "sha256": "0" * 64})
    assert outcomes(third) == ["created", "ended"]
    assert ledger.commits[-1].rows[0]["tags"] == ["home"]
    assert outcomes(say(tags=["home"])) == ["unchanged"]
