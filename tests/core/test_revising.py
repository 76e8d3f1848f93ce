"""Rule 8: nothing is destroyed; the old stay, dated and linked, and of two racing revisions one wins."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rawthink_core.clock import iso
from rawthink_core.commits import Commit
from rawthink_core.errors import AlreadyRevised, InvalidRequest, NotFound
from rawthink_core.graph import Rules
from rawthink_core.identity import successor_id
from rawthink_core.model import Entity, Observation, Passage
from rawthink_core.vocabulary import DEFAULT_VOCABULARY

from .ledger import SPACE, START, Ledger, entity


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.record(entities=[entity("NAS"), entity("Other")])
    ledger.record(observations=[{"entity": "NAS", "text": "runs on Synology"}])
    return ledger


def places(refused: pytest.ExceptionInfo[InvalidRequest]) -> list[str]:
    return [fault.where for fault in refused.value.faults]


def outcomes(receipt: Any) -> list[str]:
    return [item.outcome for item in receipt.items]


def observation(ledger: Ledger, item_id: str | None) -> Observation:
    assert item_id is not None
    found = ledger.item(item_id)
    assert isinstance(found, Observation)
    return found


# --- correcting, changing, retracting -----------------------------------------------------------


def test_a_correction_keeps_the_old_and_links_both_ways(ledger: Ledger) -> None:
    old = ledger.said("runs on Synology")
    receipt = ledger.revise({"id": old.id}, successor={"text": "runs on fnOS"}, reason="misread the label")
    assert outcomes(receipt) == ["created", "invalidated"]
    old, new = ledger.said("runs on Synology"), ledger.said("runs on fnOS")
    assert (old.status, old.reason, old.superseded_by) == ("invalidated", "misread the label", new.id)
    assert old.invalidated_at == new.recorded_at == ledger.at(3)
    assert old.valid_to is None
    assert new.supersedes == (old.id,)
    assert new.id == successor_id(old.id)
    assert ledger.texts() == ["runs on fnOS"]


def test_a_change_ends_the_old_when_it_ceased_to_hold(ledger: Ledger) -> None:
    ledger.revise(
        {"entity": "nas", "text": " runs on Synology "},
        successor={"text": "runs on fnOS"},
        cause="changed",
        effective="2025-06-01",
    )
    old, new = ledger.said("runs on Synology"), ledger.said("runs on fnOS")
    assert old.status == "ended"
    assert old.valid_to == new.valid_from
    assert old.valid_to is not None
    assert iso(old.valid_to) == "2025-06-01T00:00:00.000000Z"


def test_a_change_without_a_date_holds_from_its_commit(ledger: Ledger) -> None:
    ledger.revise({"entity": "NAS", "text": "runs on Synology"}, successor={"text": "fnOS"}, cause="changed")
    assert ledger.said("runs on Synology").valid_to == ledger.said("fnOS").valid_from == ledger.at(3)


def test_a_change_of_a_relation_or_passage_holds_from_its_commit_too(ledger: Ledger) -> None:
    (link,) = ledger.record(relations=[{"source": "NAS", "type": "uses", "target": "Other"}]).ids()
    (turn,) = ledger.record(passages=[{"session": "s", "text": "a"}]).ids()
    ledger.revise({"id": link}, successor={"type": "depends_on"}, cause="changed")
    ledger.revise({"id": turn}, successor={"text": "b"}, cause="changed")
    for number, item in ((5, link), (6, turn)):
        old, new = ledger.item(item), ledger.item(successor_id(item))
        assert not isinstance(old, Entity)
        assert not isinstance(new, Entity)
        assert (old.valid_from, old.valid_to, new.valid_from) == (None, ledger.at(number), ledger.at(number))


def changed(ledger: Ledger, text: str = "fnOS", **more: Any) -> Observation:
    """Change what the NAS runs on, now, and return the successor."""
    ledger.revise(
        {"entity": "NAS", "text": "runs on Synology"}, successor={"text": text} | more, cause="changed"
    )
    return ledger.said(text)


def test_a_begin_that_nobody_stated_is_no_part_of_what_is_the_same(ledger: Ledger) -> None:
    new = changed(ledger)
    said = {"entity": "NAS", "text": "fnOS"}
    assert new.valid_from is not None
    for again in (said, said | {"valid_from": new.valid_from}):
        assert ledger.record(observations=[again]).ids("observation", "unchanged") == [new.id]
    assert ledger.record(observations=[said | {"valid_from": "2025-01-01"}]).ids(None, "created")


def test_what_stands_without_a_begin_becomes_the_successor_of_a_change(ledger: Ledger) -> None:
    (standing,) = ledger.record(observations=[{"entity": "NAS", "text": "fnOS"}]).ids()
    new = changed(ledger)
    assert (new.id, new.valid_from) == (standing, None)


def test_what_a_batch_says_and_makes_the_successor_of_a_change_begins_with_it(ledger: Ledger) -> None:
    change = {
        "targets": [{"entity": "NAS", "text": "runs on Synology"}],
        "successor": {"text": "fnOS"},
        "cause": "changed",
    }
    ledger.record(observations=[{"entity": "NAS", "text": "fnOS"}], revisions=[change])
    new = ledger.said("fnOS")
    assert new.valid_from == ledger.said("runs on Synology").valid_to == ledger.at(3)
    assert ledger.record(observations=[{"entity": "NAS", "text": "fnOS"}]).ids(None, "unchanged") == [new.id]


def test_what_is_corrected_keeps_a_begin_that_nobody_stated(ledger: Ledger) -> None:
    first = changed(ledger, "fnSO")
    ledger.revise({"id": first.id}, successor={"text": "fnOS"}, reason="typo")
    second = ledger.said("fnOS")
    assert second.valid_from == first.valid_from == ledger.at(3)
    again = ledger.record(observations=[{"entity": "NAS", "text": "fnOS"}])
    assert again.ids(None, "unchanged") == [second.id]


def test_a_begin_that_a_successor_states_counts(ledger: Ledger) -> None:
    new = changed(ledger, valid_from="2025-01-15T00:00:00Z")
    assert (new.valid_from or START).isoformat() == "2025-01-15T00:00:00+00:00"
    assert ledger.said("runs on Synology").valid_to == ledger.at(3)


def test_a_successor_that_was_over_before_it_changed_needs_a_date(ledger: Ledger) -> None:
    with pytest.raises(InvalidRequest, match="say with `effective` when it changed") as refused:
        changed(ledger, valid_to="2025-12-31")
    assert places(refused) == ["revisions.0.successor"]


def test_what_is_to_begin_later_cannot_change_now(ledger: Ledger) -> None:
    ledger.record(observations=[{"entity": "NAS", "text": "will move", "valid_from": "2030-01-01"}])
    with pytest.raises(InvalidRequest, match="corrected") as refused:
        ledger.revise({"entity": "NAS", "text": "will move"}, successor={"text": "stays"}, cause="changed")
    assert places(refused) == ["revisions.0.effective"]


def test_a_retraction_has_no_successor(ledger: Ledger) -> None:
    receipt = ledger.revise({"entity": "NAS", "text": "runs on Synology"}, reason="sold")
    assert outcomes(receipt) == ["invalidated"]
    assert ledger.said("runs on Synology").superseded_by is None
    assert ledger.texts() == []


def test_times_of_a_revision_are_the_stores(ledger: Ledger) -> None:
    ledger.rules = Rules(DEFAULT_VOCABULARY, ZoneInfo("Asia/Shanghai"))
    ledger.revise(
        {"entity": "NAS", "text": "runs on Synology"},
        successor={"text": "runs on fnOS", "valid_to": "2026-06-30"},
        cause="changed",
        effective="2025-06-01",
    )
    old, new = ledger.said("runs on Synology"), ledger.said("runs on fnOS")
    assert old.valid_to is not None
    assert new.valid_to is not None
    assert iso(old.valid_to) == "2025-05-31T16:00:00.000000Z"
    assert iso(new.valid_to) == "2026-06-30T16:00:00.000000Z"


def test_an_end_that_was_stated_earlier_stays(ledger: Ledger) -> None:
    ledger.record(observations=[{"entity": "NAS", "text": "leased", "valid_to": "2025-01-31"}])
    stated = ledger.said("leased").valid_to
    ledger.revise({"entity": "NAS", "text": "leased"}, cause="changed", effective="2025-12-31")
    assert ledger.said("leased").valid_to == stated


def test_a_change_takes_effect_after_what_it_ends_began(ledger: Ledger) -> None:
    ledger.record(observations=[{"entity": "NAS", "text": "dated", "valid_from": "2025-06-01"}])
    with pytest.raises(InvalidRequest, match="corrected"):
        ledger.revise({"entity": "NAS", "text": "dated"}, cause="changed", effective="2025-06-01")


def test_a_correction_takes_effect_at_no_time(ledger: Ledger) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.revise({"entity": "NAS", "text": "runs on Synology"}, effective="2025-06-01")
    assert places(refused) == ["revisions.0.effective"]


# --- targets ------------------------------------------------------------------------------------


def test_a_text_means_every_active_observation_with_it(ledger: Ledger) -> None:
    said = {"entity": "NAS", "text": "t"}
    ledger.record(observations=[said, said | {"kind": "rejected"}, said | {"valid_from": "2025-01-01"}])
    receipt = ledger.revise(said, successor={"text": "u"})
    assert outcomes(receipt) == ["created"] + ["invalidated"] * 3
    assert len(ledger.said("u").supersedes) == 3


@pytest.mark.parametrize("narrower", [{"kind": "rejected"}, {"valid_from": "2025-01-01"}])
def test_kind_and_date_narrow_a_text(ledger: Ledger, narrower: dict[str, str]) -> None:
    said = {"entity": "NAS", "text": "t"}
    ledger.record(observations=[said, said | {"kind": "rejected"}, said | {"valid_from": "2025-01-01"}])
    assert outcomes(ledger.revise(said | narrower)) == ["invalidated"]


def test_retired_ones_with_the_text_are_left_alone(ledger: Ledger) -> None:
    said = {"entity": "NAS", "text": "runs on Synology"}
    ledger.revise(said, reason="first")
    ledger.record(observations=[said])
    ledger.revise(said, reason="second")
    reasons = [item.reason for item in ledger.items() if isinstance(item, Observation)]
    assert sorted(filter(None, reasons)) == ["first", "second"]


def test_a_target_named_twice_is_retired_once(ledger: Ledger) -> None:
    old = ledger.said("runs on Synology").id
    receipt = ledger.revise({"id": old}, {"id": old.upper()}, {"entity": "NAS", "text": "runs on Synology"})
    assert outcomes(receipt) == ["invalidated"]


@pytest.mark.parametrize(
    "target",
    [
        {},
        {"id": "i", "entity": "NAS"},
        {"entity": "NAS", "source": "NAS"},
        {"source": "NAS", "target": "Other"},
        {"type": "uses"},
        {"text": "runs on Synology"},
    ],
)
def test_a_target_is_named_in_one_way_and_wholly(ledger: Ledger, target: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.revise(target)
    assert places(refused)[0] == "revisions.0.targets.0"


def test_an_entity_without_a_text_is_no_target(ledger: Ledger) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.revise({"entity": "NAS"})
    assert places(refused) == ["revisions.0.targets.0.text"]
    with pytest.raises(InvalidRequest, match="revise it with `fields`"):
        ledger.revise({"id": ledger.entity("NAS").id})


@pytest.mark.parametrize(
    "target", [{"id": ""}, {"id": "MEM-1"}, {"entity": "", "text": ""}, {"entity": "ghost", "text": "t"}]
)
def test_what_is_not_there_is_not_found(ledger: Ledger, target: dict[str, str]) -> None:
    with pytest.raises(NotFound):
        ledger.revise(target)


def test_what_was_erased_is_not_found(ledger: Ledger) -> None:
    old = ledger.said("runs on Synology").id
    ledger.forget(old)
    with pytest.raises(NotFound):
        ledger.revise({"id": old})


def test_kinds_are_not_mixed(ledger: Ledger) -> None:
    link = {"source": "NAS", "type": "uses", "target": "Other"}
    ledger.record(relations=[link])
    with pytest.raises(InvalidRequest, match="mixes kinds"):
        ledger.revise({"entity": "NAS", "text": "runs on Synology"}, link)


def test_all_targets_or_none(ledger: Ledger) -> None:
    with pytest.raises(NotFound):
        ledger.revise({"entity": "NAS", "text": "runs on Synology"}, {"id": "nothing"})
    assert ledger.texts() == ["runs on Synology"]


def test_a_batch_retires_a_thing_once(ledger: Ledger) -> None:
    change = {"targets": [{"entity": "NAS", "text": "runs on Synology"}]}
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(revisions=[change, change])
    assert places(refused) == ["revisions.1"]


# --- successors ---------------------------------------------------------------------------------


def test_what_stands_already_becomes_the_successor_and_only_links_are_written(ledger: Ledger) -> None:
    (standing,) = ledger.record(observations=[{"entity": "NAS", "text": "runs on fnOS"}]).ids()
    receipt = ledger.revise({"entity": "NAS", "text": "runs on Synology"}, successor={"text": "runs on fnOS"})
    assert outcomes(receipt) == ["updated", "invalidated"]
    old = ledger.said("runs on Synology")
    assert old.superseded_by == standing
    assert ledger.said("runs on fnOS").supersedes == (old.id,)


def test_the_successor_may_be_said_in_the_same_batch(ledger: Ledger) -> None:
    receipt = ledger.record(
        observations=[{"entity": "NAS", "text": "runs on fnOS"}],
        revisions=[
            {
                "targets": [{"entity": "NAS", "text": "runs on Synology"}],
                "successor": {"text": "runs on fnOS"},
            }
        ],
    )
    assert outcomes(receipt) == ["created", "invalidated"]
    assert ledger.said("runs on Synology").superseded_by == ledger.said("runs on fnOS").id


def test_two_changes_of_a_batch_may_share_a_successor(ledger: Ledger) -> None:
    ledger.record(observations=[{"entity": "NAS", "text": "has a fan"}])
    ledger.record(
        revisions=[
            {"targets": [{"entity": "NAS", "text": text}], "successor": {"text": "is a mini PC"}}
            for text in ("runs on Synology", "has a fan")
        ]
    )
    new = ledger.said("is a mini PC")
    assert set(new.supersedes) == {ledger.said("runs on Synology").id, ledger.said("has a fan").id}
    assert ledger.texts() == ["is a mini PC"]


def test_beliefs_merge_into_one(ledger: Ledger) -> None:
    ledger.record(observations=[{"entity": "Other", "text": "is a NAS"}])
    first = ledger.said("runs on Synology").id
    ledger.revise({"id": first}, {"entity": "Other", "text": "is a NAS"}, successor={"text": "both are one"})
    new = ledger.said("both are one")
    assert (new.id, new.entity_name, len(new.supersedes)) == (successor_id(first), "NAS", 2)


def test_what_is_left_out_of_a_successor_is_as_it_was(ledger: Ledger) -> None:
    ledger.record(
        observations=[
            {
                "entity": "NAS",
                "text": "t",
                "kind": "because",
                "valid_from": "2025-01-01",
                "valid_to": "2025-12-31",
            }
        ]
    )
    old = ledger.said("t")
    ledger.revise({"id": old.id}, successor={"text": "u"})
    new = ledger.said("u")
    assert (new.kind, new.valid_from, new.valid_to) == ("because", old.valid_from, old.valid_to)


def test_only_a_date_or_an_owner_can_be_put_right(ledger: Ledger) -> None:
    (first,) = ledger.revise(
        {"entity": "NAS", "text": "runs on Synology"}, successor={"valid_from": "2025-01-15"}
    ).ids("observation", "created")
    dated = observation(ledger, first)
    assert (dated.text, dated.entity_name) == ("runs on Synology", "NAS")
    (second,) = ledger.revise({"id": first}, successor={"entity": "Other"}).ids("observation", "created")
    moved = observation(ledger, second)
    assert (moved.text, moved.entity_name, moved.valid_from) == (
        "runs on Synology",
        "Other",
        dated.valid_from,
    )


def test_a_successor_that_says_the_same_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidRequest, match="says what the target says already"):
        ledger.revise({"entity": "NAS", "text": "runs on Synology"}, successor={"text": " runs on Synology"})


@pytest.mark.parametrize(
    ("successor", "place"),
    [
        ({"text": " "}, "successor.text"),
        ({"text": "t", "kind": "thought"}, "successor.kind"),
        ({"text": "t", "entity": "ghost"}, "successor.entity"),
        ({"text": "t", "entity": ""}, "successor.entity"),
        ({"text": "t", "valid_from": "2025-02-01", "valid_to": "2025-01-01"}, "successor.valid_to"),
        ({"text": "t", "type": "uses"}, "successor.type"),
        ({"text": "t", "source": "NAS"}, "successor.source"),
    ],
)
def test_a_successor_that_makes_no_sense_is_refused(
    ledger: Ledger, successor: dict[str, str], place: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.revise({"entity": "NAS", "text": "runs on Synology"}, successor=successor)
    assert f"revisions.0.{place}" in places(refused)


def test_a_successor_cannot_end_before_it_begins_by_what_it_inherits(ledger: Ledger) -> None:
    ledger.record(observations=[{"entity": "NAS", "text": "t", "valid_to": "2025-01-31"}])
    with pytest.raises(InvalidRequest) as refused:
        ledger.revise({"entity": "NAS", "text": "t"}, successor={"text": "u", "valid_from": "2025-06-01"})
    assert places(refused) == ["revisions.0.successor"]


# --- relations and passages ---------------------------------------------------------------------


def test_a_relation_is_revised_by_its_ends(ledger: Ledger) -> None:
    ledger.record(relations=[{"source": "NAS", "type": "uses", "target": "Other"}])
    ledger.revise(
        {"source": "Other", "type": "used_by", "target": "nas"}, successor={"type": "depends_on"}, reason="r"
    )
    assert ledger.relations() == [("NAS", "depends_on", "Other")]
    assert ledger.relations("invalidated") == [("NAS", "uses", "Other")]


def test_a_synonym_turns_the_arrow_of_a_successor(ledger: Ledger) -> None:
    ledger.record(relations=[{"source": "NAS", "type": "uses", "target": "Other"}])
    ledger.revise({"source": "NAS", "type": "uses", "target": "Other"}, successor={"type": "used_by"})
    assert ledger.relations() == [("Other", "uses", "NAS")]


@pytest.mark.parametrize(
    ("successor", "place"),
    [
        ({"target": "NAS"}, "successor"),
        ({"type": "hates"}, "successor.type"),
        ({"target": "ghost"}, "successor.target"),
        ({"text": "t"}, "successor.text"),
        ({"type": "supersedes", "source": "Other", "target": "NAS"}, "successor"),
    ],
)
def test_a_successor_of_a_relation_keeps_the_rules_of_relations(
    ledger: Ledger, successor: dict[str, str], place: str
) -> None:
    ledger.record(
        relations=[
            {"source": "NAS", "type": "uses", "target": "Other"},
            {"source": "NAS", "type": "supersedes", "target": "Other"},
        ]
    )
    with pytest.raises(InvalidRequest) as refused:
        ledger.revise({"source": "NAS", "type": "uses", "target": "Other"}, successor=successor)
    assert places(refused) == [f"revisions.0.{place}"]


def test_an_arrow_that_was_the_wrong_way_can_be_turned(ledger: Ledger) -> None:
    link = {"source": "NAS", "type": "supersedes", "target": "Other"}
    ledger.record(relations=[link])
    ledger.revise(link, successor={"source": "Other", "target": "NAS"})
    assert ledger.relations() == [("Other", "supersedes", "NAS")]


def test_a_passage_is_put_right_in_its_place(ledger: Ledger) -> None:
    passage = {"text": "teh cat", "session": "s", "key": "m1", "speaker": "Ada", "tags": ["x"]}
    (old,) = ledger.record(passages=[passage]).ids()
    receipt = ledger.revise({"id": old}, successor={"text": "the cat"})
    assert outcomes(receipt) == ["created", "invalidated"]
    new = ledger.item(successor_id(old))
    assert isinstance(new, Passage)
    assert (new.text, new.session, new.ordinal, new.key) == ("the cat", "s", 0, "m1")
    assert (new.speaker, new.tags, new.supersedes) == ("Ada", ("x",), (old,))


def test_a_passage_belongs_to_no_entity(ledger: Ledger) -> None:
    (old,) = ledger.record(passages=[{"text": "t", "session": "s"}]).ids()
    with pytest.raises(InvalidRequest) as refused:
        ledger.revise({"id": old}, successor={"text": "u", "entity": "NAS", "kind": "note"})
    assert places(refused) == ["revisions.0.successor.entity", "revisions.0.successor.kind"]


def test_a_passage_of_the_same_batch_settles_its_place(ledger: Ledger) -> None:
    (old,) = ledger.record(passages=[{"text": "t", "session": "s", "key": "k"}]).ids()
    with pytest.raises(InvalidRequest, match="retires already"):
        ledger.record(
            passages=[{"text": "u", "session": "s", "key": "k"}], revisions=[{"targets": [{"id": old}]}]
        )


# --- races --------------------------------------------------------------------------------------


def test_of_two_racing_revisions_the_second_is_told_who_won(ledger: Ledger) -> None:
    old = ledger.said("runs on Synology").id
    ledger.revise({"id": old}, successor={"text": "runs on fnOS"})
    with pytest.raises(AlreadyRevised) as refused:
        ledger.revise({"id": old}, successor={"text": "runs on TrueNAS"})
    assert (refused.value.target, refused.value.successor) == (old, successor_id(old))
    with pytest.raises(AlreadyRevised):
        ledger.revise({"entity": "NAS", "text": "runs on Synology"})
    assert ledger.texts() == ["runs on fnOS"]


def test_two_clones_that_revised_one_belief_agree_after_they_merged(ledger: Ledger) -> None:
    old = ledger.said("runs on Synology").id
    change = {"targets": [{"id": old}]}
    first = ledger.plan_of(revisions=[change | {"successor": {"text": "runs on fnOS"}}])
    second = ledger.plan_of(revisions=[change | {"successor": {"text": "runs on TrueNAS"}}])
    for at, rows in ((4, second), (3, first)):
        ledger.keep(Commit(f"clone {at}", iso(ledger.at(at)), SPACE, rows))
    assert ledger.texts() == ["runs on fnOS"]
    assert observation(ledger, old).invalidated_at == ledger.at(3)


def test_a_store_that_was_stopped_half_way_completes_the_same_revision(ledger: Ledger) -> None:
    old = ledger.said("runs on Synology").id
    change = {"targets": [{"id": old}], "successor": {"text": "runs on fnOS"}}
    rows = ledger.plan_of(revisions=[change])
    half = tuple(row for row in rows if row["op"] == "observation")
    ledger.keep(Commit("half", iso(ledger.at(3)), SPACE, half))
    receipt = ledger.record(revisions=[change])
    assert [item.id for item in receipt.items] == [successor_id(old), old]
    assert ledger.texts() == ["runs on fnOS"]


def test_a_store_that_was_stopped_half_way_does_not_complete_another_revision(ledger: Ledger) -> None:
    old = ledger.said("runs on Synology").id
    rows = ledger.plan_of(revisions=[{"targets": [{"id": old}], "successor": {"text": "runs on fnOS"}}])
    half = tuple(row for row in rows if row["op"] == "observation")
    ledger.keep(Commit("half", iso(ledger.at(3)), SPACE, half))
    with pytest.raises(AlreadyRevised):
        ledger.revise({"id": old}, successor={"text": "runs on TrueNAS"})


# --- decisions ----------------------------------------------------------------------------------


def decide(ledger: Ledger, name: str = "api/cache", supersedes: str | None = None, **parts: Any) -> Any:
    said = [
        {"entity": name, "kind": kind, "text": text}
        for kind, texts in parts.items()
        for text in ([texts] if isinstance(texts, str) else texts)
    ]
    new = {"name": name, "entity_type": "decision", "domain": "software", "supersedes": supersedes}
    return ledger.record(entities=[new], observations=said)


def test_deciding_again_ends_what_was_decided_and_why_and_keeps_what_was_rejected(ledger: Ledger) -> None:
    decide(
        ledger,
        decided="write-through",
        because=["it is simple", "we are few"],
        rejected="none",
        touches="api",
    )
    receipt = decide(ledger, decided="read-through", because="writes are the bottleneck")
    assert outcomes(receipt) == ["unchanged", "created", "created", "ended", "ended", "ended"]
    assert set(ledger.texts()) == {
        "runs on Synology", "none", "api", "read-through", "writes are the bottleneck",
    }  # fmt: skip
    old, new = ledger.said("write-through"), ledger.said("read-through")
    assert (old.status, old.superseded_by, old.valid_to) == ("ended", new.id, ledger.at(4))
    assert new.supersedes == (old.id,)
    because = ledger.said("writes are the bottleneck")
    assert set(because.supersedes) == {ledger.said("it is simple").id, ledger.said("we are few").id}


def test_what_is_decided_instead_begins_when_the_old_ends(ledger: Ledger) -> None:
    decide(ledger, decided="write-through", because="it is simple", rejected="none")
    decide(ledger, decided="read-through", because=["writes are slow", "reads are many"], rejected="no cache")
    begins = {said.text: said.valid_from for said in map(ledger.said, ledger.texts())}
    assert begins["none"] is begins["no cache"] is None
    for text in ("read-through", "writes are slow", "reads are many"):
        assert begins[text] == ledger.said("write-through").valid_to == ledger.at(4)
    again = decide(ledger, decided="read-through", because=["writes are slow", "reads are many"])
    assert set(outcomes(again)) == {"unchanged"}


def test_a_decision_that_is_over_already_is_not_dated(ledger: Ledger) -> None:
    decide(ledger, decided="write-through")
    over = {"entity": "api/cache", "kind": "decided", "text": "no cache", "valid_to": "2020-12-31"}
    ledger.record(observations=[over])
    assert ledger.said("no cache").valid_from is None


def test_a_reason_that_still_holds_stays(ledger: Ledger) -> None:
    decide(ledger, decided="write-through", because="we are few")
    decide(ledger, decided="read-through", because="we are few")
    assert ledger.said("we are few").status == "active"
    assert ledger.texts("ended") == ["write-through"]


def test_saying_a_decision_again_ends_nothing(ledger: Ledger) -> None:
    decide(ledger, decided="read-through", because="reads are slow")
    receipt = decide(ledger, decided="read-through", because="writes are slow")
    assert outcomes(receipt) == ["unchanged", "unchanged", "created"]
    assert ledger.texts("ended") == []


def test_a_decision_without_a_reason_ends_the_old_reason_too(ledger: Ledger) -> None:
    decide(ledger, decided="write-through", because="it is simple")
    decide(ledger, decided="read-through")
    assert ledger.said("it is simple").superseded_by == ledger.said("read-through").id


def test_a_dated_decision_ends_the_old_when_it_began(ledger: Ledger) -> None:
    decide(ledger, decided="write-through")
    ledger.record(
        observations=[
            {"entity": "api/cache", "kind": "decided", "text": "read-through", "valid_from": "2025-06-01"}
        ]
    )
    assert ledger.said("write-through").valid_to == ledger.said("read-through").valid_from


def test_a_decision_supersedes_another(ledger: Ledger) -> None:
    decide(ledger, "old", decided="write-through", because="it is simple", rejected="none at all")
    receipt = decide(ledger, "new", supersedes="OLD", decided="read-through")
    assert outcomes(receipt) == ["created", "created", "created", "ended", "ended"]
    assert ledger.relations() == [("new", "supersedes", "old")]
    assert ledger.said("write-through").superseded_by == ledger.said("read-through").id
    assert ledger.said("write-through").reason == "superseded by another decision"
    assert ledger.said("none at all").status == "active"


def test_superseding_again_says_nothing_new(ledger: Ledger) -> None:
    decide(ledger, "old", decided="write-through")
    decide(ledger, "new", supersedes="old", decided="read-through")
    assert outcomes(decide(ledger, "new", supersedes="old", decided="read-through")) == ["unchanged"] * 3


@pytest.mark.parametrize(
    ("former", "problem"), [("ghost", "no decision"), ("", "no decision"), ("NEW", "to itself")]
)
def test_a_decision_supersedes_another_that_exists(ledger: Ledger, former: str, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decide(ledger, "new", supersedes=former, decided="x")
    assert places(refused) == ["entities.0.supersedes"]
    assert problem in str(refused.value)


def test_a_decision_does_not_supersede_what_superseded_it(ledger: Ledger) -> None:
    decide(ledger, "old", decided="x")
    decide(ledger, "new", supersedes="old", decided="y")
    with pytest.raises(InvalidRequest, match="reverse"):
        decide(ledger, "old", supersedes="new", decided="z")


def test_what_a_change_settles_a_new_decision_leaves_alone(ledger: Ledger) -> None:
    decide(ledger, decided="write-through", because="it is simple")
    ledger.record(
        observations=[{"entity": "api/cache", "kind": "decided", "text": "read-through"}],
        revisions=[{"targets": [{"entity": "api/cache", "text": "it is simple"}], "reason": "it never was"}],
    )
    assert ledger.said("it is simple").status == "invalidated"
    assert ledger.said("it is simple").reason == "it never was"
    assert ledger.said("write-through").status == "ended"
