"""What the server is told for its own sake, what is mended later, and what health says of it."""

from __future__ import annotations

import pytest

from rawthink_core.clock import RandomIds
from rawthink_nowledge.probe import FLOOR, answers_of, floor_of, keep, probe
from rawthink_nowledge_emulator import Emulator, index

from .provided import kinds, memory_on, provider_on, said, sent, thing

pytestmark = pytest.mark.asyncio

TURN = [{"role": "user", "content": "we use Redis"}]


def shown(server, text):
    return next(m for m in server.memories() if m.content == text)


async def nas(memory):
    receipt = await memory.record(
        entities=[thing("NAS")],
        observations=[{"entity": "NAS", "text": "runs on Synology"}, {"entity": "NAS", "text": "is loud"}],
    )
    return receipt.ids("observation")


async def test_other_clients_of_the_server_see_what_was_revised(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            old, loud = await nas(memory)
            await memory.revise([{"id": old}], successor={"text": "runs on fnOS"}, reason="we moved")
            await memory.revise([{"id": loud}], reason="it was the fan")
            assert shown(server, "runs on Synology").lifecycle == "superseded"
            assert not shown(server, "runs on Synology").is_latest
            assert shown(server, "is loud").lifecycle == "deprecated"
            assert shown(server, "runs on fnOS").lifecycle == "active"
            superseded = [seen for seen in server.requests if seen.line.endswith("/supersede")]
            assert superseded[0].json()["reason"] == "we moved"
            assert (await memory.health()).status == "ok"


async def test_a_renamed_entity_is_shown_by_its_name_of_today(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.record(entities=[thing("Redis", aliases=["RDS"])])
            await memory.revise([{"entity": "Redis"}], fields={"name": "Valkey"})
            (held,) = [m for m in server.memories() if m.metadata["xm_kind"] == "entity"]
            assert (held.title, held.content) == ("Valkey", "Valkey\nRDS")


@pytest.mark.parametrize("generation", ["0.9", "0.10"])
async def test_a_server_that_could_not_be_told_is_told_later(tmp_path, generation):
    with Emulator(generation) as server:
        async with memory_on(server, tmp_path) as memory:
            old, _ = await nas(memory)
            server.fail("POST /memories/*/supersede", "storage_admission_unavailable", times=None)
            await memory.revise([{"id": old}], successor={"text": "runs on fnOS"})
            assert sorted(await said(memory)) == ["is loud", "runs on fnOS"]
            health = await memory.health()
            assert [check.name for check in health.checks if check.status == "warn"] == ["retired"]
            server.heal()
            await memory.maintain()
            assert shown(server, "runs on Synology").lifecycle == "superseded"
            assert (await memory.health()).status == "ok"


async def test_another_process_tells_the_server_what_the_first_could_not(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            old, _ = await nas(memory)
            server.fail("POST /memories/*/supersede", "drop", times=None)
            await memory.revise([{"id": old}], successor={"text": "runs on fnOS"})
            server.heal()
        async with memory_on(server, tmp_path, ids="later") as later:
            receipt = await later.maintain()
            assert any("told the server of 1" in line for line in receipt.done)
        assert shown(server, "runs on Synology").lifecycle == "superseded"


async def test_what_a_person_has_decided_on_the_server_is_not_fought_over(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            old, _ = await nas(memory)
            server.fail(
                "POST /memories/*/supersede", 409, body={"detail": "decided", "error_code": "reviewed"}
            )
            await memory.revise([{"id": old}], successor={"text": "runs on fnOS"})
            await memory.maintain()
            tries = [seen for seen in server.requests if seen.line.endswith("/supersede")]
            assert len(tries) == 1
            notes = [check for check in (await memory.health()).checks if check.name == "retired"]
            assert [check.status for check in notes] == ["note"]


async def test_a_server_without_superseding_keeps_beliefs_apart_all_the_same(tmp_path):
    with Emulator("0.6") as server:
        async with memory_on(server, tmp_path) as memory:
            old, _ = await nas(memory)
            await memory.revise([{"id": old}], successor={"text": "runs on fnOS"})
            assert sorted(await said(memory)) == ["is loud", "runs on fnOS"]
            assert (await memory.health()).status == "ok"


async def test_upkeep_deletes_what_was_never_finished_and_nothing_that_is_under_way(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await nas(memory)
            server.fail("POST /memories", "drop", after=1)
            with pytest.raises(Exception, match="don't count yet"):
                await memory.record(entities=[thing("Half"), thing("Other half"), thing("Third half")])
            held = len(server.memories())
            for repair in (False, True):
                await memory.maintain(repair=repair)
                assert len(server.memories()) == held
            server.advance(600)
            await memory.maintain()
            assert len(server.memories()) == held
            receipt = await memory.maintain(repair=True)
            assert any("never finished" in line for line in receipt.done)
            assert kinds(server).count("entity") == 1
            assert len(await said(memory)) == 2


async def test_health_asks_and_changes_nothing(tmp_path):
    with Emulator() as server:
        provider = provider_on(server, tmp_path)
        health = await provider.health()
        assert (health.status, health.exists) == ("ok", True)
        assert {seen.request.method for seen in server.requests} == {"GET"}
        server.degrade()
        notes = {check.name: check.status for check in (await provider.health()).checks}
        assert notes["server search"] == "note"


async def test_turns_may_be_added_to_threads_as_well(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path, threads=True) as memory:
            await memory.after_chat(TURN, "noted", session="S 1")
            await memory.after_chat([{"role": "user", "content": "and Lua"}], "fine", session="S 1")
            await memory.after_chat(TURN, "noted", session="S 1")
            assert len(await said(memory)) == 2
        (thread,) = server.threads()
        assert [message.content for message in thread.messages] == await texts(server)
        async with memory_on(server, tmp_path, threads=True, ids="later") as memory:
            server.fail("POST /threads*", 500, body={"detail": "Failed"}, times=None)
            await memory.after_chat([{"role": "user", "content": "and more"}], "fine", session="S 1")
            assert len(await said(memory)) == 3


async def texts(server):
    passages = [m for m in server.memories() if m.metadata.get("xm_kind") == "passage"]
    return [passage.content for passage in reversed(passages)]


@pytest.mark.parametrize(
    ("assume", "seen"),
    [
        ({}, {"metadata of an upsert": "replaced", "fields that an upsert omits": "reset"}),
        (
            {"upsert_metadata": "merged", "upsert_omitted": "kept", "superseded_in_list": "shown"},
            {"metadata of an upsert": "merged", "fields that an upsert omits": "kept"},
        ),
    ],
)
async def test_a_probe_finds_out_and_leaves_nothing(tmp_path, assume, seen):
    with Emulator("0.10.28", assume=assume) as server:
        provider = provider_on(server, tmp_path)
        await provider.open()
        found = await probe(provider._rooms.api, "default", RandomIds())
        await provider.close()
        assert server.memories() == []
        assert found.items() >= seen.items()
        assert found["ids of clients"] == "taken"
        assert found["supersede"].startswith("answered with ")
        assert found[FLOOR].startswith("not told apart")  # the emulator counts words
        assert found["labels in PATCH"] == "ignored"
        expected = "shows superseded ones" if assume else "hides superseded ones"
        assert found["list of active"] == expected
        keep(tmp_path / "state", server.url, "0.10.28", found)
        assert answers_of(tmp_path / "state", server.url, "0.10.28") == found
        assert answers_of(tmp_path / "state", server.url, "0.10.29") == {}
        rows = [check.detail for check in (await provider.health()).checks if check.name == "behaviour"]
        assert "ids of clients: taken" in rows[0]


MEANT = {"heron": "wading", "database": "storage", "peanuts": "food"}


def by_meaning(question, text, **_):
    """Score as a server with an embedder may: .9 in the same words, .62 where the same is meant, else .38."""
    if question <= text:
        return 0.9, ""
    same = any(word in text and other in question for word, other in MEANT.items())
    return (0.62 if same else 0.38), ""


async def test_what_a_servers_scores_are_worth_is_found_out_and_used_from_then_on(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "score", by_meaning)
    question = "where do wading fowl breed?"
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.record(passages=[{"session": "s", "text": "the heron is at the quay"}])
            assert (await memory.search(question)).items == ()  # .62 is below what was guessed
            found = await probe(memory.provider._rooms.api, "default", RandomIds())
            assert found[FLOOR] == "0.62 or more, of other things 0.38 at most; so from 0.50"
            keep(tmp_path / "state", server.url, "0.10.109", found)
        async with memory_on(server, tmp_path) as memory:
            assert [hit.text for hit in (await memory.search(question)).items] == ["the heron is at the quay"]
            assert (await memory.search("which invoice?")).items == ()
        async with memory_on(server, tmp_path, min_score=0.65) as memory:  # who sets it knows better
            assert (await memory.search(question)).items == ()


async def test_a_probe_of_a_server_whose_search_lags_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("rawthink_nowledge.probe._PAUSE", 0.0)
    with Emulator() as server:
        server.lag(never=True)
        async with memory_on(server, tmp_path) as memory:
            found = await probe(memory.provider._rooms.api, "default", RandomIds())
    assert "not found out" in found[FLOOR]
    assert floor_of(found) is None


async def test_a_copy_from_another_store_is_the_same_memory(tmp_path):
    with Emulator() as one, Emulator("0.6") as other:
        async with memory_on(one, tmp_path) as source, memory_on(other, tmp_path, ids="copy") as target:
            old, _ = await nas(source)
            await source.revise([{"id": old}], successor={"text": "runs on fnOS"})
            commits = [commit async for commit in source.export()]
            receipt = await target.restore(commits)
            assert (receipt.restored, receipt.skipped) == (2, 0)
            assert await target.history(name="NAS") == await source.history(name="NAS")
            assert (await target.restore(commits)).skipped == 2
    assert sent(other, "POST /memories")
