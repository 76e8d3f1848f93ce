"""The table of tools: what clients are offered, in which form, and how much of their reader's attention it takes."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from jsonschema import Draft202012Validator

from rawthink_core.errors import Fault
from rawthink_core.vocabulary import DEFAULT_VOCABULARY, EPISTEMICS, OBSERVATION_KINDS, VISIBILITIES
from rawthink_mcp_server.command import mcp
from rawthink_mcp_server.house import House
from rawthink_mcp_server.server import Tools
from rawthink_mcp_server.shapes import taken
from rawthink_mcp_server.tools import PROFILES, TOOLS

DOCS = Path(__file__).parents[2] / "docs"
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MOST = {"recall": 1_900, "record": 3_900, "agent": 6_300, "full": 10_500}
AGENT = [
    "search_thoughts",
    "get_session",
    "search_nodes",
    "open_nodes",
    "read_graph",
    "store_thought",
    "record",
    "record_decision",
    "revise",
    "challenge",
    "history",
]
MORE = [
    "reindex",
    "create_entities",
    "create_relations",
    "add_observations",
    "invalidate_observations",
    "delete_entities",
    "delete_observations",
    "delete_relations",
]


def schema(name):
    return TOOLS[name].arguments.schema(DEFAULT_VOCABULARY)


def walk(node):
    """Yield every schema within a schema."""
    yield node
    for inner in node.get("properties", {}).values():
        yield from walk(inner)
    if "items" in node:
        yield from walk(node["items"])


# --- profiles -----------------------------------------------------------------------------------


def test_each_profile_has_its_tools_in_one_order():
    assert list(PROFILES["agent"]) == AGENT
    assert list(PROFILES["full"]) == AGENT + MORE
    assert list(PROFILES["recall"]) == ["search_thoughts", "get_session", "search_nodes", "open_nodes"]
    assert list(PROFILES["record"]) == [
        "store_thought",
        "search_nodes",
        "record",
        "record_decision",
        "revise",
    ]


@pytest.mark.parametrize("word", ["agnet", "everything"])
def test_an_unknown_profile_is_an_error_that_lists_them(word):
    for given_as in ({"args": ["--profile", word]}, {"env": {"RAWTHINK_TOOL_PROFILE": word}}):
        answer = CliRunner().invoke(mcp, **given_as)
        assert answer.exit_code == 2
        assert "agent, recall, record, full" in answer.stderr
    assert ("Did you mean 'agent'?" in answer.stderr) == (word == "agnet")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_list_of_tools_is_as_short_as_promised(serve, profile):
    talk = serve(RAWTHINK_TOOL_PROFILE=f" {profile.upper()} ")
    talk.greet()
    tools = talk.ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == list(PROFILES[profile])
    assert len(talk.line.decode().rstrip("\n")) <= MOST[profile]
    modern = serve("--profile", profile)
    assert len(modern.ask("tools/list", {"_meta": MODERN})["result"]["tools"]) == len(tools)
    assert len(modern.line.decode().rstrip("\n")) <= MOST[profile]


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_what_is_listed_is_the_table(connected, mode):
    async with connected(mode=mode) as tools:
        listed = (await tools.client.list_tools()).tools
    assert [tool.name for tool in listed] == list(TOOLS)
    for tool in listed:
        row = TOOLS[tool.name]
        hints = tool.annotations
        assert tool.title == row.title
        assert tool.description == row.about
        assert tool.input_schema == schema(tool.name)
        assert tool.output_schema is None
        assert (hints.read_only_hint, hints.destructive_hint) == (row.reads, row.erases)
        assert (hints.idempotent_hint, hints.open_world_hint) == (row.repeatable, False)


def test_only_what_erases_says_so_and_only_the_full_profile_has_it():
    erasing = {name for name, tool in TOOLS.items() if tool.erases}
    assert erasing == {name for name in TOOLS if name.startswith("delete_")}
    assert all(erasing.isdisjoint(names) for profile, names in PROFILES.items() if profile != "full")
    assert not any(tool.erases and tool.reads for tool in TOOLS.values())


@pytest.mark.parametrize("profile", PROFILES)
def test_instructions_say_when_to_use_what_is_offered(profile):
    text = Tools(House(lambda: None), profile).instructions()
    assert len(text) <= 650
    named = {name for name in TOOLS if name in text.split()} - {"record", "challenge", "revise", "history"}
    assert named <= set(PROFILES[profile]) | {"search_nodes"}
    if profile in ("agent", "full"):
        assert all(word in text for word in ("search_thoughts", "record_decision", "revise", "challenge"))


# --- schemas ------------------------------------------------------------------------------------

WORDS = {"type", "properties", "required", "additionalProperties", "items", "enum", "description"}


@pytest.mark.parametrize("name", TOOLS)
def test_a_schema_keeps_to_what_every_client_takes(name):
    root = schema(name)
    Draft202012Validator.check_schema(root)
    assert root["type"] == "object"
    for node in walk(root):
        assert node.keys() <= WORDS
        assert isinstance(node["type"], str)
        assert node["type"] in ("object", "array", "string", "integer", "boolean")
        assert ("items" in node) == (node["type"] == "array")
        if node["type"] == "object":
            assert node["properties"]
            assert node["additionalProperties"] is False
            assert set(node.get("required", ())) <= node["properties"].keys()
            assert node.get("required") != []
        if "enum" in node:
            assert node["type"] == "string"
            assert len(set(node["enum"])) == len(node["enum"]) > 0


def test_items_are_typed_and_carry_the_vocabulary():
    properties = schema("record")["properties"]
    entity, relation, said = (
        properties[name]["items"]["properties"] for name in ("entities", "relations", "observations")
    )
    assert entity["entityType"]["enum"] == list(DEFAULT_VOCABULARY.entity_types)
    assert entity["domain"]["enum"] == list(DEFAULT_VOCABULARY.domains)
    assert entity["epistemic"]["enum"] == list(EPISTEMICS)
    assert entity["visibility"]["enum"] == list(VISIBILITIES)
    assert entity["observations"]["items"] == {"type": "string"}
    assert relation["relationType"]["enum"] == list(DEFAULT_VOCABULARY.relations)
    assert said["kind"]["enum"] == list(OBSERVATION_KINDS)
    assert set(relation) == {"from", "to", "relationType"}
    assert {"entityName", "contents", "kind"} <= set(said)


@pytest.mark.asyncio
async def test_words_that_the_user_added_are_listed_and_taken(connected, home):
    (home / "rawthink.toml").write_text('[vocabulary]\ndomains = ["cooking"]\n', encoding="utf-8")
    async with connected() as tools:
        listed = {tool.name: tool for tool in (await tools.client.list_tools()).tools}
        items = listed["record"].input_schema["properties"]["entities"]["items"]
        assert items["properties"]["domain"]["enum"][-1] == "cooking"
        soup = {"name": "soup", "entityType": "thing", "domain": "cooking"}
        assert not (await tools.record(entities=[soup])).failed


@pytest.mark.parametrize("name", TOOLS)
def test_the_arguments_of_rawthink_mcp_carry_over(name):
    former = {
        "search_thoughts": "query source_type tags limit mode",
        "get_session": "session_id",
        "store_thought": "text session_id tags",
        "reindex": "session_id full",
        "search_nodes": "query limit max_relations domain entity_type",
        "open_nodes": "names",
        "read_graph": "summary entity_type offset limit",
        "record": "entities relations observations",
        "record_decision": "name domain decided because rejected touches epistemic visibility supersedes",
        "revise": "entity_name observations superseded_by superseding_entity",
        "create_entities": "entities",
        "create_relations": "relations",
        "add_observations": "observations",
        "invalidate_observations": "entity_name observations superseded_by",
        "delete_entities": "entityNames",
        "delete_observations": "deletions",
        "delete_relations": "relations",
    }
    assert set(former.get(name, "").split()) <= schema(name)["properties"].keys()


# --- the check is the schema --------------------------------------------------------------------

VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-3, 3) | some.floats(-2, 2) | some.text(max_size=4),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def likely(node):
    """Make values that are mostly as a schema has them."""
    match node["type"]:
        case "object":
            fields = {name: likely(inner) for name, inner in node["properties"].items()}
            right = some.fixed_dictionaries({}, optional=fields)
            return some.one_of(right, right, right.map(lambda d: {**d, "odd": 1}), VALUES)
        case "array":
            return some.lists(likely(node["items"]), max_size=3) | VALUES
        case "string":
            return some.sampled_from(node.get("enum", ["x", ""])) | VALUES
        case "integer":
            return some.integers(-5, 200) | VALUES
    return some.booleans() | VALUES


def without_nulls(value):
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", TOOLS)
def test_what_the_schema_allows_is_taken_and_what_it_does_not_is_refused(name):
    root = schema(name)
    validator = Draft202012Validator(root)

    @settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
    @given(likely(root).filter(lambda value: isinstance(value, dict)))
    def check(value):
        whole = without_nulls(value)
        wrong = [error for error in validator.iter_errors(whole) if error.validator != "enum"]
        faults = list(TOOLS[name].arguments.faults(value, ""))
        assert all(isinstance(fault, Fault) and fault.problem for fault in faults)
        words = [
            fault for fault in faults if "unknown source_type" in str(fault) or "unknown mode" in str(fault)
        ]
        assert bool(wrong) == bool(len(faults) > len(words)), (faults, wrong)

    check()


@pytest.mark.parametrize("name", TOOLS)
def test_a_strict_client_may_send_null_for_what_it_leaves_out(name):
    root = schema(name)
    asked = {n: None for n in root["properties"] if n not in root.get("required", ())}
    assert {fault.where for fault in TOOLS[name].arguments.faults(asked, "")} == set(root.get("required", ()))
    assert taken(asked) == {}


def test_faults_name_the_nearest_argument_and_what_was_sent():
    def said(**arguments):
        return [str(fault) for fault in TOOLS["search_thoughts"].arguments.faults(arguments, "")]

    assert said(query="x", limits=3) == [
        "limits: unknown argument 'limits'. Did you mean 'limit'? Allowed: query, source_type, tags, limit, mode"
    ]
    assert said(query="x", limit="7") == [
        "limit: must be a whole number, not a text: write it without quotes"
    ]
    assert said(query="x", limit=7.0) == []
    assert said(query="x", limit=True) == ["limit: must be a whole number, not true"]
    assert said(tags="x") == ["query: is required", "tags: must be a list, not a text: put it in [ ]"]
    assert said(query="x", mode="short")[0].startswith("mode: unknown mode 'short'. Allowed: full, overview")


def test_the_sdk_is_pinned_to_the_major_version_that_we_know():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [pin] = project["optional-dependencies"]["mcp"]
    assert pin == "mcp>=2.3,<3"
    assert importlib.metadata.version("mcp").startswith("2.")


# --- pages --------------------------------------------------------------------------------------


def test_the_page_of_verbs_has_exactly_these_tools():
    page = (DOCS / "verbs.md").read_text(encoding="utf-8")
    cells = [line.strip("|").split("|")[-1] for line in page.splitlines() if line.startswith("| `")]
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(TOOLS)


def test_the_page_of_the_server_has_each_tool_with_its_arguments_and_profiles():
    page = (DOCS / "mcp.md").read_text(encoding="utf-8")
    rows = {
        cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
        for line in page.splitlines()
        if line.startswith("| `") and len(cells := line.strip("|").split("|")) == 4
    }
    assert list(rows) == list(TOOLS)
    for name, (arguments, profiles, _) in rows.items():
        tool = TOOLS[name]
        required = tool.arguments.required
        written = [f"**{n}**" if n in required else n for n in tool.arguments.properties]
        assert arguments.replace("`", "") == ", ".join(written), name
        assert profiles.split(", ") == [p for p, names in PROFILES.items() if name in names], name
    for size in MOST.values():
        assert f"{size:,}" in page


def test_snippets_for_clients_are_right():
    for page in (DOCS / "mcp.md", DOCS.parent / "README.md"):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
            [servers] = [
                value for key, value in json.loads(block).items() if key in ("mcpServers", "servers")
            ]
            assert servers["rawthink"]["args"] == ["mcp"]
            assert servers["rawthink"]["command"].endswith("rawthink")
