"""What goes wrong is an answer flagged as an error that says what to do; never an empty answer, never a dead server."""

from __future__ import annotations

import logging

import pytest

from rawthink_core.config import load
from rawthink_core.errors import BackendUnavailable, ConfigError, UnsupportedOperation
from rawthink_core.memory import Memory
from rawthink_mcp_server.house import House, build_memory
from rawthink_mcp_server.server import Tools
from rawthink_mcp_server.tools import TOOLS

pytestmark = pytest.mark.asyncio

CALLS = {
    "search_thoughts": {"query": "x"},
    "get_session": {"session_id": "x"},
    "search_nodes": {"query": "x"},
    "open_nodes": {"names": ["x"]},
    "read_graph": {},
    "store_thought": {"text": "x"},
    "record": {"entities": [{"name": "x"}]},
    "record_decision": {"name": "x", "domain": "software", "decided": "x", "because": "x"},
    "revise": {"entity_name": "x", "observations": ["x"]},
    "challenge": {"topic": "x"},
    "history": {"name": "x"},
    "reindex": {},
    "create_entities": {"entities": [{"name": "x"}]},
    "create_relations": {"relations": [{"from": "x", "to": "y", "relationType": "uses"}]},
    "add_observations": {"observations": [{"entityName": "x", "contents": ["y"]}]},
    "invalidate_observations": {"entity_name": "x", "observations": ["x"]},
    "delete_entities": {"entityNames": ["x"]},
    "delete_observations": {"deletions": [{"entityName": "x", "observations": ["x"]}]},
    "delete_relations": {"relations": [{"from": "x", "to": "y", "relationType": "uses"}]},
}


def broken(error):
    """Return what builds a memory whose provider fails at every verb."""

    def build(configuration, client):
        memory = build_memory(configuration, client)

        async def fail(*_):
            raise error

        for verb in ("search", "record", "revise", "get", "scan", "graph", "history", "forget", "maintain"):
            setattr(memory.provider, verb, fail)
        return memory

    return build


@pytest.mark.parametrize(
    "name", [name for name in TOOLS if name != "reindex"]
)  # which asks it for nothing here
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_store_that_fails_is_an_error_of_each_call(connected, name, mode):
    async with connected(
        mode=mode, build=broken(BackendUnavailable("the disk is gone; plug it in"))
    ) as tools:
        told = await getattr(tools, name)(**CALLS[name])
        assert "the disk is gone; plug it in" in told.text
        assert told.failed or name == "store_thought"  # the file is kept, and the answer says the rest


@pytest.mark.parametrize(  # the vault's own tools tell what failed
    "name", [name for name in TOOLS if name not in ("reindex", "store_thought")]
)
async def test_a_fault_of_ours_has_a_number_and_a_traceback_in_the_log_alone(connected, name, caplog):
    async with connected(build=broken(ZeroDivisionError("a secret in a traceback"))) as tools:
        told = await getattr(tools, name)(**CALLS[name])
    assert told.failed
    assert "failed in an unforeseen way (error " in told.text
    assert "secret" not in told.text
    number = told.text.split("(error ")[1][:8]
    [record] = [record for record in caplog.records if number in record.getMessage()]
    assert (record.levelno, record.exc_info[0]) == (logging.ERROR, ZeroDivisionError)
    assert ("may have been written" in told.text) == (not TOOLS[name].reads)


async def test_a_backend_without_a_verb_says_so(connected):
    async with connected(build=broken(UnsupportedOperation("small", "history", "it keeps none"))) as tools:
        told = await tools.history(name="x")
        assert told.failed
        assert told.text == "small does not support history: it keeps none"


async def test_wrong_settings_are_an_error_of_each_call_until_they_are_mended(connected, home):
    (home / "rawthink.toml").write_text('provder = "local"\n', encoding="utf-8")
    async with connected() as tools:
        assert len((await tools.client.list_tools()).tools) == len(TOOLS)
        for _ in range(2):
            told = await tools.search_thoughts(query="x")
            assert told.failed
            assert "unknown setting 'provder'. Did you mean 'provider'?" in told.text
        (home / "rawthink.toml").write_text("", encoding="utf-8")
        assert not (await tools.search_thoughts(query="x")).failed


async def test_a_store_that_can_not_be_opened_is_tried_again(connected, home):
    (home / "vault").write_text("a file where a folder should be", encoding="utf-8")
    async with connected() as tools:
        assert (await tools.record(entities=[{"name": "x"}])).failed
        assert (await tools.search_nodes(query="x")).failed
        (home / "vault").unlink()
        assert not (await tools.search_nodes(query="x")).failed


async def test_an_unknown_backend_names_what_to_install(connected, monkeypatch):
    monkeypatch.setenv("RAWTHINK_PROVIDER", "lancedbb")
    async with connected() as tools:
        told = await tools.read_graph()
        assert told.failed
        assert "lancedbb" in told.text


async def test_an_answer_that_may_be_incomplete_says_so(connected):
    def build(configuration, client):
        memory = build_memory(configuration, client)
        for verb in ("search", "scan", "graph", "history", "get"):
            whole = getattr(memory.provider, verb)

            async def partly(request, whole=whole):
                return (await whole(request)).model_copy(update={"degraded": "index 3 of 9"})

            setattr(memory.provider, verb, partly)
        return memory

    entity = {"name": "x", "entityType": "task", "domain": "music", "observations": ["y"]}
    async with connected(build=build) as tools:
        for name in ("search_thoughts", "search_nodes", "challenge", "read_graph"):
            told = await getattr(tools, name)(**CALLS[name])
            assert not told.failed
            assert "index 3 of 9" in told.text, name
            assert "Nothing found for" not in told.text
            assert "Nothing in this memory" not in told.text
        await tools.record(entities=[entity])
        for name in ("search_thoughts", "search_nodes", "open_nodes", "read_graph", "history"):
            told = await getattr(tools, name)(**CALLS[name])
            assert "! INCOMPLETE, more may be known: index 3 of 9" in told.text, name
        assert "index 3 of 9" in (await tools.read_graph(summary=True)).text


async def test_settings_are_read_again_when_the_store_could_not_be_opened(connected, home):
    (home / "rawthink.toml").write_text('provider = "lancedbb"\n', encoding="utf-8")
    async with connected() as tools:
        assert (await tools.read_graph()).failed
        (home / "rawthink.toml").write_text('provider = "local"\n', encoding="utf-8")
        assert not (await tools.read_graph()).failed


async def test_a_thousand_faults_are_told_as_far_as_an_answer_goes(connected):
    async with connected() as tools:
        for wrong in (
            {"name": "x", "entityType": "decison", "domain": 7},
            {"name": "x", "entityType": "decison"},
        ):
            told = await tools.record(entities=[wrong] * 900)
            assert told.failed
            assert len(told.text) <= 20_000
            assert "entities.0." in told.text
            assert "more lines: mend these first" in told.text


async def test_an_unknown_tool_and_one_of_another_profile_are_told_apart(connected):
    async with connected("recall") as tools:
        near = await tools.search_thought(query="x")
        assert near.failed
        assert "unknown tool 'search_thought'. Did you mean 'search_thoughts'?" in near.text
        other = await tools.delete_entities(entityNames=["x"])
        assert other.failed
        assert "RAWTHINK_TOOL_PROFILE is recall; it is offered by full" in other.text


async def test_the_space_is_no_argument(connected, monkeypatch):
    entity = {"name": "x", "entityType": "task", "domain": "music"}
    async with connected() as tools:
        assert not (await tools.record(entities=[entity])).failed
        for name, arguments in CALLS.items():
            told = await getattr(tools, name)(**arguments, space="other")
            assert told.failed
            assert "unknown argument 'space'" in told.text
    monkeypatch.setenv("RAWTHINK_SPACE", "other")
    async with connected() as tools:
        assert (await tools.open_nodes(names=["x"])).failed


async def test_a_structured_copy_comes_on_request_alone(connected):
    entity = {"name": "x", "entityType": "task", "domain": "music", "observations": ["y"]}
    async with connected() as tools:
        assert (await tools.record(entities=[entity])).data is None
    async with connected(structured=True) as tools:
        listed = (await tools.client.list_tools()).tools
        assert all(tool.output_schema == {"type": "object"} for tool in listed)
        for name, arguments in CALLS.items():
            told = await getattr(tools, name)(**arguments)
            assert isinstance(told.data, dict) != told.failed, name
        found = await tools.search_nodes(query="y")
        await tools.record(entities=[entity])
        found = await tools.search_thoughts(query="y")
        assert found.data["hits"][0]["text"] == "y"


async def test_what_is_loaded_before_the_first_reply_is_not_the_memory():
    house = House(load, lambda *_: pytest.fail("nobody asked for the memory"))
    assert Tools(house).server("1").server_info.name == "rawthink"
    await house.close(1, 1)


async def test_settings_that_can_not_be_read_do_not_hide_their_reason(home):
    def fail():
        raise ConfigError("rawthink.toml: no")

    house = House(fail)
    with pytest.raises(ConfigError, match="no"):
        await house.open()
    assert (await house.words()).domains
    await house.close(1, 1)


async def test_a_house_opens_once_for_many(home):
    built = []

    def build(configuration, client):
        built.append(client)
        return build_memory(configuration, client)

    house = House(load, build)
    house.wake("somebody 1")
    import asyncio

    opened = await asyncio.gather(*(house.open() for _ in range(5)))
    assert len({id(one.memory) for one in opened}) == 1
    assert isinstance(opened[0].memory, Memory)
    assert built == ["somebody 1"]
    await house.close(5, 5)
