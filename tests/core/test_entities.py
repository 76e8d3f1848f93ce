"""A name is one entity's for good, and what is known of an entity is never changed in passing."""

from __future__ import annotations

from typing import Any

import pytest

from rawthink_core.errors import InvalidRequest, NotFound
from rawthink_core.identity import entity_id

from .ledger import SPACE, Ledger, entity


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.record(
        entities=[entity("API/Cache", aliases=["the cache"]), entity("Redis", epistemic="hypothesis")]
    )
    return ledger


def faults(refused: pytest.ExceptionInfo[InvalidRequest]) -> dict[str, str]:
    return {fault.where: fault.problem for fault in refused.value.faults}


def test_a_new_entity_says_what_it_is_and_what_it_is_about() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Ledger().record(entities=[{"name": "Redis"}])
    assert faults(refused).keys() == {"entities.0.entity_type", "entities.0.domain"}
    assert all("is required for a new entity. Allowed:" in problem for problem in faults(refused).values())


def test_what_is_unstated_is_unknown_and_private(ledger: Ledger) -> None:
    found = ledger.entity("API/Cache")
    assert (found.epistemic, found.visibility, found.pinned, found.reconstructed) == (
        "unknown",
        "private",
        False,
        False,
    )


def test_the_first_spelling_is_kept_and_every_other_meets_it(ledger: Ledger) -> None:
    receipt = ledger.record(entities=[{"name": "  api/CACHE "}, {"name": "The  Cache"}])
    assert [item.outcome for item in receipt.items] == ["unchanged"]
    assert ledger.entity("API/Cache").aliases == ("the cache",)


def test_dotted_and_dotless_i_are_two_letters() -> None:
    ledger = Ledger()
    ledger.record(entities=[entity("ışık"), entity("işik"), entity("İŞİK")])
    assert len(ledger.items()) == 2


@pytest.mark.parametrize(
    "name", ["", " ", "\t\n", "\u200b", "\u00ad", "\x00", "\u2800", "\u3164", "\u0301", "\ufeff", "\u202e"]
)
def test_a_name_that_nobody_could_see_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"entities\.0\.name"):
        Ledger().record(entities=[entity(name)])
    with pytest.raises(InvalidRequest, match=r"entities\.0\.aliases\.1"):
        Ledger().record(entities=[entity("E", aliases=["ok", name])])


@pytest.mark.parametrize(
    "name", ["?", "€", "π", "7", "茶", "🙂", "a\x00b", "a\u2028b", "x" * 100_000, "'; DROP TABLE"]
)
def test_any_name_that_shows_something_is_kept_as_it_is(name: str) -> None:
    ledger = Ledger()
    ledger.record(entities=[entity(name)])
    ledger.record(observations=[{"entity": name, "text": "t"}])
    assert ledger.entity(name).name == name


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("entity_type", "Descision", "Did you mean 'decision'?"),
        ("domain", "softwear", "Did you mean 'software'?"),
        ("epistemic", "hypotesis", "Did you mean 'hypothesis'?"),
        ("visibility", "shared", "Did you mean 'shareable'?"),
    ],
)
def test_a_word_outside_the_vocabulary_is_answered_with_the_nearest(
    field: str, value: str, said: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Ledger().record(entities=[entity("E", **{field: value})])
    assert said in faults(refused)[f"entities.0.{field}"]


def test_words_are_folded_before_they_are_kept() -> None:
    ledger = Ledger()
    ledger.record(
        entities=[entity("E", entity_type="Open Question", domain=" Software ", epistemic="Hypothesis")]
    )
    found = ledger.entity("E")
    assert (found.entity_type, found.domain, found.epistemic) == ("open-question", "software", "hypothesis")


@pytest.mark.parametrize(
    ("field", "old", "new"),
    [
        ("entity_type", "thing", "concept"),
        ("domain", "software", "music"),
        ("visibility", "private", "shareable"),
    ],
)
def test_what_is_known_is_not_changed_in_passing(ledger: Ledger, field: str, old: str, new: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(entities=[{"name": "api/cache", field: new}])
    problem = faults(refused)[f"entities.0.{field}"]
    assert repr(old) in problem
    assert repr(new) in problem
    assert "revise" in problem


def test_what_is_unknown_may_be_filled_once(ledger: Ledger) -> None:
    receipt = ledger.record(entities=[{"name": "API/Cache", "epistemic": "assertion"}])
    assert [item.outcome for item in receipt.items] == ["updated"]
    found = ledger.entity("API/Cache")
    assert [(v.value, v.invalidated_at) for v in found.versions] == [
        ("unknown", ledger.at(2)),
        ("assertion", None),
    ]
    with pytest.raises(InvalidRequest, match="epistemic"):
        ledger.record(entities=[{"name": "API/Cache", "epistemic": "hypothesis"}])


def test_fields_left_out_stay_as_they_were(ledger: Ledger) -> None:
    ledger.record(entities=[{"name": "Redis"}])
    assert ledger.entity("Redis").epistemic == "hypothesis"


def test_pinning_is_not_a_claim_and_may_change(ledger: Ledger) -> None:
    ledger.record(entities=[{"name": "Redis", "pinned": True}])
    assert ledger.entity("Redis").pinned
    ledger.record(entities=[{"name": "Redis", "pinned": False}])
    assert not ledger.entity("Redis").pinned


def test_an_alias_is_added_and_answers(ledger: Ledger) -> None:
    ledger.record(entities=[{"name": "Redis", "aliases": ["KV store", "redis", "kv STORE"]}])
    assert ledger.entity("Redis").aliases == ("KV store",)
    ledger.record(observations=[{"entity": "kv store", "text": "is fast"}])
    assert ledger.said("is fast").entity_name == "Redis"


@pytest.mark.parametrize("taken", ["redis", "API/Cache", "THE CACHE"])
def test_a_name_of_another_entity_cannot_be_taken_as_an_alias(ledger: Ledger, taken: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(entities=[entity("New", aliases=["fine", taken])])
    assert list(faults(refused)) == ["entities.0.aliases.1"]


def test_the_place_of_a_taken_alias_counts_those_known_already(ledger: Ledger) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.record(entities=[{"name": "API/Cache", "aliases": ["the cache", "redis"]}])
    assert list(faults(refused)) == ["entities.0.aliases.1"]


def test_within_a_batch_too_a_name_is_one_entitys(ledger: Ledger) -> None:
    with pytest.raises(InvalidRequest, match=r"entities\.1\.aliases\.0"):
        ledger.record(entities=[entity("New"), entity("Newer", aliases=["NEW"])])


def test_an_entity_said_twice_in_a_batch_is_one() -> None:
    ledger = Ledger()
    receipt = ledger.record(
        entities=[entity("E", aliases=["a"]), {"name": "e", "epistemic": "assertion", "aliases": ["A", "b"]}]
    )
    assert [item.outcome for item in receipt.items] == ["created"]
    found = ledger.entity("E")
    assert (found.epistemic, found.aliases, found.versions) == ("assertion", ("a", "b"), ())


def test_an_entity_met_twice_in_a_batch_gets_each_alias_once(ledger: Ledger) -> None:
    ledger.record(
        entities=[{"name": "Redis"}, {"name": "redis", "aliases": ["kv"]}, {"name": "KV", "aliases": ["kv"]}]
    )
    assert ledger.entity("Redis").aliases == ("kv",)
    ledger.record(entities=[{"name": "API/Cache"}, {"name": "api/cache", "aliases": ["the cache"]}])
    assert ledger.entity("API/Cache").versions == ()


# --- renaming and changing fields ---------------------------------------------------------------


def rename(ledger: Ledger, old: str, new: str) -> None:
    ledger.revise({"entity": old}, fields={"name": new}, reason="merger")


def test_a_renamed_entity_keeps_its_id_and_answers_to_its_old_name(ledger: Ledger) -> None:
    rename(ledger, "Redis", "Valkey")
    found = ledger.entity("Valkey")
    assert found.id == entity_id(SPACE, "redis")
    assert [(v.value, v.reason) for v in found.versions] == [("Redis", "merger"), ("Valkey", None)]
    ledger.record(observations=[{"entity": "REDIS", "text": "is fast"}])
    assert ledger.said("is fast").entity_name == "Valkey"


def test_a_former_name_cannot_be_taken(ledger: Ledger) -> None:
    rename(ledger, "Redis", "Valkey")
    assert [item.outcome for item in ledger.record(entities=[{"name": "Redis"}]).items] == ["unchanged"]
    with pytest.raises(InvalidRequest, match="already a name"):
        rename(ledger, "API/Cache", "redis")


def test_a_former_alias_cannot_be_taken(ledger: Ledger) -> None:
    ledger.revise({"entity": "API/Cache"}, fields={"aliases": []})
    assert ledger.entity("API/Cache").aliases == ()
    with pytest.raises(InvalidRequest, match="already a name"):
        ledger.record(entities=[entity("New", aliases=["the cache"])])


def test_an_entity_may_take_back_its_own_name(ledger: Ledger) -> None:
    rename(ledger, "Redis", "Valkey")
    rename(ledger, "Valkey", "Redis")
    assert [version.value for version in ledger.entity("Redis").versions] == ["Redis", "Valkey", "Redis"]


def test_two_entities_cannot_be_given_one_name_in_a_batch(ledger: Ledger) -> None:
    with pytest.raises(InvalidRequest, match=r"revisions\.1\.fields\.name"):
        ledger.record(
            revisions=[
                {"targets": [{"entity": name}], "fields": {"name": "Same"}} for name in ("Redis", "API/Cache")
            ]
        )


def test_an_id_taken_for_a_name_does_not_take_the_place_of_its_entity(ledger: Ledger) -> None:
    other = ledger.entity("API/Cache").id
    rename(ledger, "Redis", other)
    ledger.record(observations=[{"entity": other, "text": "is meant by its id"}])
    assert ledger.said("is meant by its id").entity_name == "API/Cache"


def test_a_name_may_look_like_an_id() -> None:
    ledger, name = Ledger(), "6F0B7C1E-5D7A-5B0E-9F39-2D1B8A4C7E55"
    ledger.record(entities=[entity(name)], observations=[{"entity": name, "text": "t"}])
    assert ledger.said("t").entity_name == name


def test_fields_are_changed_only_when_asked_and_dated(ledger: Ledger) -> None:
    receipt = ledger.revise({"entity": "Redis"}, fields={"epistemic": "assertion", "domain": "finance"})
    assert [item.outcome for item in receipt.items] == ["updated"]
    found = ledger.entity("Redis")
    assert (found.epistemic, found.domain) == ("assertion", "finance")
    assert [version.recorded_at for version in found.versions] == [ledger.at(1), ledger.at(2)] * 2


def test_a_change_to_what_it_is_already_changes_nothing(ledger: Ledger) -> None:
    receipt = ledger.revise({"entity": "Redis"}, fields={"epistemic": "hypothesis", "name": "Redis"})
    assert [item.outcome for item in receipt.items] == ["unchanged"]
    assert ledger.entity("Redis").versions == ()


def test_later_changes_of_a_batch_see_the_earlier(ledger: Ledger) -> None:
    ledger.record(
        revisions=[
            {"targets": [{"entity": "Redis"}], "fields": {"epistemic": value}}
            for value in ("assertion", "hypothesis")
        ]
    )
    assert ledger.entity("Redis").epistemic == "hypothesis"


def test_an_entity_is_changed_by_id_in_any_case(ledger: Ledger) -> None:
    ledger.revise({"id": ledger.entity("Redis").id.upper()}, fields={"pinned": True})
    assert ledger.entity("Redis").pinned


def test_aliases_given_anew_are_kept_once_each(ledger: Ledger) -> None:
    ledger.revise({"entity": "Redis"}, fields={"aliases": [" KV ", "kv", "store"]})
    assert ledger.entity("Redis").aliases == ("KV", "store")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"fields": {}}, "revisions.0.fields"),
        ({"fields": {"name": " "}}, "revisions.0.fields.name"),
        ({"fields": {"aliases": ["\u200b"]}}, "revisions.0.fields.aliases.0"),
        ({"fields": {"domain": "softwear"}}, "revisions.0.fields.domain"),
        ({"fields": {"pinned": True}, "successor": {"text": "t"}}, "revisions.0.fields"),
        ({"fields": {"pinned": True}, "cause": "changed", "effective": "2025-01-15"}, "revisions.0.fields"),
        ({"fields": {"name": "api/cache"}}, "revisions.0.fields.name"),
        ({"fields": {"aliases": ["ok", "the cache"]}}, "revisions.0.fields.aliases.1"),
    ],
)
def test_a_change_of_fields_that_makes_no_sense_is_refused(
    ledger: Ledger, change: dict[str, Any], place: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ledger.revise({"entity": "Redis"}, **change)
    assert list(faults(refused)) == [place]


def test_fields_of_what_is_no_entity_cannot_be_changed(ledger: Ledger) -> None:
    ledger.record(observations=[{"entity": "Redis", "text": "is fast"}])
    with pytest.raises(InvalidRequest, match=r"targets\.0: is no entity"):
        ledger.revise({"id": ledger.said("is fast").id}, fields={"pinned": True})


@pytest.mark.parametrize("target", [{"entity": "nobody"}, {"id": "nothing"}, {"entity": ""}])
def test_fields_of_nothing_are_not_found(ledger: Ledger, target: dict[str, str]) -> None:
    with pytest.raises(NotFound):
        ledger.revise(target, fields={"pinned": True})


def test_fields_of_an_entity_of_the_same_batch_belong_into_its_record() -> None:
    with pytest.raises(InvalidRequest, match="created in this batch"):
        Ledger().record(
            entities=[entity("E")], revisions=[{"targets": [{"entity": "E"}], "fields": {"pinned": True}}]
        )


def test_what_was_erased_can_be_named_anew_and_remembers_nothing(ledger: Ledger) -> None:
    rename(ledger, "Redis", "Valkey")
    ledger.forget(ledger.entity("Valkey").id)
    receipt = ledger.record(entities=[entity("Redis")])
    assert [item.outcome for item in receipt.items] == ["created"]
    assert ledger.entity("Redis").versions == ()
    ledger.record(entities=[entity("Valkey")])
    assert ledger.entity("Valkey").id != ledger.entity("Redis").id


def test_an_adopted_entity_without_a_domain_gets_one(ledger: Ledger) -> None:
    from rawthink_core.clock import iso
    from rawthink_core.commits import Commit

    adopted = {
        "op": "entity",
        "id": entity_id(SPACE, "Old"),
        "name": "Old",
        "entity_type": "thing",
        "reconstructed": True,
    }
    ledger.keep(Commit("adopt", iso(ledger.at(2)), SPACE, (adopted,)))
    ledger.record(entities=[{"name": "Old", "domain": "history", "entity_type": "event"}])
    found = ledger.entity("Old")
    assert (found.domain, found.entity_type) == ("history", "event")
