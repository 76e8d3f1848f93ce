"""Tools that write: all or nothing, every fault at once, nothing overwritten."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.asyncio

WIDE = {"entityType": "concept", "domain": "software"}


async def said(tools, name):
    return (await tools.open_nodes(names=[name])).text


async def test_everything_of_a_record_is_found(connected):
    async with connected("record") as tools:
        told = await tools.record(
            entities=[{"name": "a", **WIDE, "epistemic": "hypothesis", "visibility": "shareable", "observations": ["one"]}],
            observations=[{"entityName": "b", "contents": ["two", "三"], "kind": "because", "valid_from": "2025-01-15"}],
            relations=[{"from": "a", "to": "b", "relationType": "connected_to"}],
        )  # fmt: skip
        assert told.failed
        assert "observations.0.entityName: no entity 'b' here" in told.text
        assert "relations.0.to: no entity 'b' here" in told.text
        told = await tools.record(
            entities=[
                {
                    "name": "a",
                    **WIDE,
                    "epistemic": "hypothesis",
                    "visibility": "shareable",
                    "observations": ["one"],
                },
                {"name": "b", **WIDE},
            ],
            observations=[
                {"entityName": "b", "contents": ["two", "三"], "kind": "because", "valid_from": "2025-01-15"}
            ],
            relations=[{"from": "a", "to": "b", "relationType": "connected_to"}],
        )
        assert not told.failed
        assert told.text.startswith("Recorded: 2 entities new; 3 observations new; 1 relation new.")
    async with connected("recall") as tools:
        assert "a (concept, software, hypothesis, shareable, " in await said(tools, "a")
        text = await said(tools, "b")
        assert "- because, 2025-01-15: 三 [" in text
        assert "- ←related_to— a [" in text


async def test_every_fault_is_told_at_once_by_the_argument_that_was_sent(connected):
    async with connected() as tools:
        told = await tools.record(
            entities=[{"name": "x", "entityType": "decison", "observations": ["fine", " "]}, {"name": " "}],
            relations=[{"from": "nobody", "to": "x", "relationType": "lovs"}],
            observations=[{"entityName": "zz", "contents": ["s"], "kind": "nte", "valid_from": "soon"}],
        )
        assert told.failed
        assert "valid_from: 'soon' is not ISO 8601" in told.text
        told = await tools.record(
            entities=[{"name": "x", "entityType": "decison", "observations": ["fine", " "]}, {"name": " "}],
            relations=[{"from": "nobody", "to": "x", "relationType": "lovs"}],
            observations=[{"entityName": "zz", "contents": ["s"], "kind": "nte"}],
        )
        assert told.failed
        for place in (
            "entities.0.entityType: unknown entity type 'decison'. Did you mean 'decision'?",
            "entities.0.domain: is required for a new entity",
            "entities.0.observations.1: must not be blank",
            "entities.1.name: a name needs",
            "relations.0.relationType: unknown relation type 'lovs'",
            "relations.0.from: no entity 'nobody' here",
            "observations.0.kind: unknown observation kind 'nte'. Did you mean 'note'?",
            "observations.0.entityName: no entity 'zz' here",
        ):
            assert place in told.text, told.text
        assert "nothing was written" in told.text
        assert (await tools.open_nodes(names=["x"])).failed
        assert (await tools.record()).failed
        assert (await tools.record(entities=[], relations=[])).failed


async def test_faults_of_form_and_of_words_are_told_together(connected):
    async with connected() as tools:
        told = await tools.record(
            entities=[{"nam": "x", "entityType": "decison"}, "y"],
            relations=[{"from": "a", "relationType": 7}],
        )
        assert told.failed
        for place in (
            "entities.0.nam: unknown argument 'nam'. Did you mean 'name'?",
            "entities.0.name: is required",
            "entities.0.entityType: unknown entity type 'decison'",
            "entities.1: must be an object with name, entityType",
            "relations.0.to: is required",
            "relations.0.relationType: must be a text, not 7",
        ):
            assert place in told.text, told.text


async def test_a_field_that_stands_is_not_changed_in_passing(connected):
    async with connected() as tools:
        await tools.record(entities=[{"name": "a", **WIDE}])
        told = await tools.record(entities=[{"name": "A", "entityType": "task"}])
        assert told.failed
        assert told.text.startswith(
            "entities.0.entityType: 'A' has entity_type 'concept', not 'task'. Leave it out"
        )
        assert "rawthink revise" in told.text
        again = await tools.record(entities=[{"name": "a", "observations": ["more"]}])
        assert not again.failed
        assert again.text.startswith("Recorded: 1 entity known already; 1 observation new.")


async def test_a_decision_under_the_same_name_ends_the_earlier_one(connected):
    async with connected() as tools:
        base = {"name": "d", "domain": "software", "because": "cheap"}
        first = await tools.record_decision(**base, decided="one", rejected=["two — dear"], touches=["shop"])
        assert not first.failed
        told = await tools.record_decision(**{**base, "because": "better"}, decided="two")
        assert "2 observations ended" in told.text
        assert "→" in told.text
        assert "! Rejected before: 'two' was rejected" in told.text
        text = await said(tools, "d")
        assert "decided, " in text
        assert ": two [" in text
        assert ": one [" not in text
        assert "assertion" not in text  # never raised by default
        sure = await tools.record_decision(
            name="e", domain="software", decided="x", because="y", epistemic="assertion", supersedes="d"
        )
        assert not sure.failed
        assert "assertion" in await said(tools, "e")
        wrong = await tools.record_decision(
            name=" ", domain="sofware", decided="", because=" ", rejected=["ok", ""], supersedes="nobody"
        )
        for place in (
            "domain: unknown domain 'sofware'",
            "decided: must not be",
            "because: must not be",
            "rejected.1: must not be",
            "name: ",
        ):
            assert place in wrong.text, wrong.text


async def test_revise_keeps_the_old_and_puts_the_new_in_its_place(connected):
    async with connected("agent") as tools:
        await tools.record(
            entities=[
                {"name": "cache: old", **WIDE, "observations": ["in Redis"]},
                {"name": "cache: new", **WIDE},
            ]
        )
        told = await tools.revise(
            entity_name="cache: old", observations=["in Redis"],
            superseded_by="moved into the process", superseding_entity="cache: new",
        )  # fmt: skip
        assert not told.failed
        assert "1 relation new" in told.text
        assert "1 observation invalidated" in told.text
        new = await said(tools, "cache: new")
        assert ": moved into the process [" in new
        assert "- —supersedes→ cache: old" in new
        assert "because moved into the process" in (await tools.history(name="cache: old")).text


async def test_revise_says_nothing_twice(connected):
    async with connected("agent") as tools:
        await tools.record(
            entities=[
                {"name": "a", **WIDE, "observations": ["old", "older"]},
                {"name": "b", **WIDE, "observations": ["new"]},
            ]
        )
        told = await tools.revise(
            entity_name="a", observations=["old", "older"], superseded_by="new", superseding_entity="b"
        )
        assert not told.failed
        assert (await said(tools, "b")).count(": new [") == 1
        again = await tools.revise(
            entity_name="a", observations=["old"], superseded_by="new", superseding_entity="b"
        )
        assert again.failed
        assert "is no longer active: it was replaced by" in again.text


async def test_revise_takes_ids_reasons_alone_and_a_way_back(connected):
    async with connected("agent") as tools:
        told = await tools.record(
            entities=[
                {"name": "a", **WIDE, "observations": ["x", "y"]},
                {"name": "b", **WIDE, "observations": ["z"]},
            ]
        )
        item = told.text.splitlines()[2].split(": ")[1].split(", ")[0]
        assert not (
            await tools.revise(entity_name="a", observations=[item], superseded_by="measured again")
        ).failed
        there = await tools.revise(
            entity_name="a", observations=["y"], superseded_by="moved to b", superseding_entity="b"
        )
        assert not there.failed
        back = await tools.revise(
            entity_name="b", observations=["z"], superseded_by="moved back", superseding_entity="a"
        )
        assert not back.failed
        assert "No supersedes relation was written: the reverse stands already" in back.text
        assert ": moved back [" in await said(tools, "a")


async def test_a_revision_that_names_nothing_is_told_what_there_is(connected):
    async with connected("agent") as tools:
        await tools.record(entities=[{"name": "a", **WIDE, "observations": ["the exact text"]}])
        for texts in (["the exact"], ["the exact text", "another"]):
            told = await tools.revise(entity_name="a", observations=texts)
            assert told.failed
            assert f"observations.{len(texts) - 1}: nothing here is 'a' with exactly this text" in told.text
            assert "- the exact text [" in told.text
        assert (
            "There is no entity nobody" in (await tools.revise(entity_name="nobody", observations=["x"])).text
        )
        assert (await tools.revise(entity_name="a", observations=[])).failed
        wrong = await tools.revise(
            entity_name="a",
            observations=["the exact text"],
            superseded_by="x",
            superseding_entity="zz",
        )
        assert "superseding_entity: no entity 'zz' here" in wrong.text
        assert (await said(tools, "a")).count("- note") == 1


async def test_the_tools_of_the_full_profile_are_record_and_revise(connected):
    async with connected() as tools:
        assert not (
            await tools.create_entities(entities=[{"name": "a", **WIDE}, {"name": "b", **WIDE}])
        ).failed
        assert not (
            await tools.create_relations(relations=[{"from": "a", "to": "b", "relationType": "uses"}])
        ).failed
        assert (
            await tools.create_relations(relations=[{"from": "a", "to": "c", "relationType": "uses"}])
        ).failed
        assert not (
            await tools.add_observations(observations=[{"entityName": "a", "contents": ["x", "y"]}])
        ).failed
        told = await tools.invalidate_observations(entity_name="a", observations=["x"], superseded_by="no")
        assert not told.failed
        assert "because no" in (await tools.history(name="a")).text


async def test_a_secret_is_warned_of(connected):
    async with connected() as tools:
        key = "sk-" + "a1B2c3D4e5F6g7H8i9J0" * 2
        told = await tools.record(entities=[{"name": "a", **WIDE, "observations": [f"the key is {key}"]}])
        assert "! Secret: " in told.text
        assert key not in told.text


async def test_half_a_character_is_refused_in_words(connected):
    async with connected() as tools:
        told = await tools.record(entities=[{"name": "a", **WIDE, "observations": ["half \ud83d"]}])
        assert told.failed
        assert "entities.0.observations.0: a lone surrogate" in told.text


async def test_who_said_it_is_kept(connected, home):
    async with connected() as tools:
        await tools.record(entities=[{"name": "a", **WIDE}])
    [line] = [
        json.loads(line)
        for line in (home / "vault" / "rawthink.jsonl").read_bytes().splitlines()
        if b'"ops"' in line
    ]
    assert line["by"]["host"] == "rawthink-mcp"
    assert line["by"]["client"].startswith("mcp")
