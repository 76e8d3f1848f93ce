"""Tools that erase: for good, all or nothing, and they say what each place did."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.asyncio

WIDE = {"entityType": "concept", "domain": "software"}


async def fill(tools):
    told = await tools.record(
        entities=[{"name": "a", **WIDE, "observations": ["x one", "y two"]}, {"name": "b", **WIDE}],
        relations=[{"from": "a", "to": "b", "relationType": "uses"}],
    )
    assert not told.failed


async def test_an_entity_is_erased_with_all_that_is_said_of_it(connected, home):
    async with connected() as tools:
        await fill(tools)
        told = await tools.delete_entities(entityNames=["A"])
        assert not told.failed
        assert told.text.startswith("Erased for good: 4 items.\n")
        assert "erased: journal (" in told.text
        assert "erased: search index" in told.text
        assert (await tools.open_nodes(names=["a"])).failed
        assert b"x one" not in (home / "vault" / "rawthink.jsonl").read_bytes()


async def test_one_unknown_name_and_nothing_is_erased(connected):
    async with connected() as tools:
        await fill(tools)
        calls = (
            (tools.delete_entities(entityNames=["a", "nobody"]), "entity nobody"),
            (tools.delete_entities(entityNames=["a", "00000000-0000-0000-0000-000000000000"]), "entity 0000"),
            (tools.delete_observations(deletions=[{"entityName": "a", "observations": ["x one", "zz"]}]), "observation zz of a"),
            (tools.delete_observations(deletions=[{"entityName": "c", "observations": ["x one"]}]), "entity c"),
            (tools.delete_relations(relations=[{"from": "a", "to": "b", "relationType": "uses"}, {"from": "b", "to": "a", "relationType": "uses"}]), "relation b uses a"),
        )  # fmt: skip
        for call, missing in calls:
            told = await call
            assert told.failed
            assert f"Not in this memory: {missing}" in told.text
            assert "Nothing was erased" in told.text
        text = (await tools.open_nodes(names=["a"])).text
        assert all(part in text for part in ("x one", "y two", "—uses→ b"))
        for call in (
            tools.delete_entities(entityNames=[]),
            tools.delete_observations(deletions=[]),
            tools.delete_relations(relations=[]),
        ):
            assert (await call).failed


async def test_observations_are_erased_by_text_or_id_retired_ones_too(connected, home):
    async with connected() as tools:
        await fill(tools)
        await tools.revise(entity_name="a", observations=["x one"], superseded_by="wrong")
        text = (await tools.open_nodes(names=["a"])).text
        [item] = [line[-37:-1] for line in text.splitlines() if "y two" in line]
        told = await tools.delete_observations(
            deletions=[{"entityName": "a", "observations": [" x one ", item]}]
        )
        assert told.text.startswith("Erased for good: 2 items.")
        data = (home / "vault" / "rawthink.jsonl").read_bytes()
        assert b"x one" not in data
        assert b"y two" not in data


async def test_relations_are_erased_by_synonyms_too(connected):
    async with connected() as tools:
        await fill(tools)
        told = await tools.delete_relations(relations=[{"from": "b", "to": "a", "relationType": "used_by"}])
        assert told.text.startswith("Erased for good: 1 item.")
        assert "uses" not in (await tools.open_nodes(names=["a"])).text


async def test_what_can_not_be_erased_is_said(connected, home):
    (home / ".git").mkdir()
    async with connected() as tools:
        await fill(tools)
        told = await tools.delete_entities(entityNames=["a"])
        assert "kept: git history (" in told.text
        assert "lies outside of this memory" in told.text
