"""Memory graphs of other servers are read in every dialect, and what can't be used is named by line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rawthink_core.commits import decode, encode
from rawthink_core.foreign import ROWS_A_COMMIT, Problem, commits_of, read_graph, rows_of
from rawthink_core.identity import entity_id, observation_id
from rawthink_core.vocabulary import DEFAULT_VOCABULARY

FILE_TIME = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = "home"


def graph_of(*items, **more):
    return read_graph(jsonl(*items), "memory.jsonl")


def jsonl(*items) -> bytes:
    return b"".join(orjson.dumps(item) + b"\n" for item in items)


def settled_of(graph, zone="UTC", **more):
    return rows_of(
        graph, space=SPACE, vocabulary=DEFAULT_VOCABULARY, zone=ZoneInfo(zone), fallback=FILE_TIME, **more
    )


def rows(graph, op, **more):
    return [row for row in settled_of(graph, **more).rows if row["op"] == op]


def entity(name, *said, kind="project", **more):
    return {"type": "entity", "name": name, "entityType": kind, "observations": list(said), **more}


def link(source, kind, target, **more):
    return {"type": "relation", "from": source, "to": target, "relationType": kind, **more}


ATLAS = entity("Atlas", "uses Postgres 16")
BROOK = entity("Brook", "prefers tabs", kind="person")
LINK = link("Brook", "maintains", "Atlas")


def told(graph):
    return [(e.name, [o.text for o in e.observations]) for e in graph.entities.values()], len(graph.relations)


WHOLE = ([("Atlas", ["uses Postgres 16"]), ("Brook", ["prefers tabs"])], 1)


# --- containers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(jsonl(ATLAS, BROOK, LINK), id="lines"),
        pytest.param(jsonl(ATLAS, BROOK, LINK).rstrip(), id="no line break at the end"),
        pytest.param(b"\xef\xbb\xbf" + jsonl(ATLAS, BROOK, LINK), id="byte order mark"),
        pytest.param(jsonl(ATLAS, BROOK, LINK).replace(b"\n", b"\r\n\r\n"), id="crlf and blank lines"),
        pytest.param(jsonl(ATLAS, BROOK, LINK).replace(b"}\n{", b"}{"), id="glued"),
        pytest.param(jsonl(ATLAS, BROOK, LINK).replace(b"}\n{", b"},\n{"), id="commas"),
        pytest.param(json.dumps([ATLAS, BROOK, LINK], indent=2).encode(), id="array"),
        pytest.param(json.dumps({"entities": [ATLAS, BROOK], "relations": [LINK]}, indent=2).encode(), id="object"),
        pytest.param(b"\xef\xbb\xbf" + json.dumps({"relations": [LINK], "entities": [ATLAS, BROOK]}).encode(), id="object, marked"),
        pytest.param(jsonl(*({k: v for k, v in item.items() if k != "type"} for item in (ATLAS, BROOK, LINK))), id="without types"),
        pytest.param(jsonl(*({"_type": item["type"]} | item for item in (ATLAS, BROOK, LINK))), id="underscored types"),
        pytest.param(
            jsonl(
                {"name": "Atlas", "entity_type": "project", "observations": [{"text": "uses Postgres 16", "version": "1.0"}]},
                {"name": "Brook", "entityType": "person", "observations": [{"content": "prefers tabs"}]},
                {"from": "Brook", "to": "Atlas", "relation_type": "maintains"},
            ),
            id="observations as objects",
        ),
        pytest.param(jsonl(ATLAS | {"observations": "uses Postgres 16"}, BROOK, LINK), id="one observation as text"),
    ],
)  # fmt: skip
def test_every_container_and_dialect_gives_the_same_graph(data):
    graph = read_graph(data, "memory.jsonl")
    assert told(graph) == WHOLE
    assert graph.problems == []


def test_what_cannot_be_used_is_named_by_line_and_the_rest_is_read():
    lines = [
        orjson.dumps(ATLAS),
        b'{"type":"entity","name":"Del',
        b"",
        b"\xff\xfe not text",
        b'"a text"',
        b'{"timestamp":"2025-11-26T12:54:11","content":"I am the weaver."}',
        orjson.dumps(entity(" \t")),
        orjson.dumps(entity("Cedar", " ", {"no": "text"}, 7, "whole")),
        orjson.dumps(link("Cedar", "uses", "cedar ")),
        orjson.dumps(link("Cedar", "uses", 5)),
        orjson.dumps(entity("Dune") | {"observations": {"a": 1}}),
        orjson.dumps(BROOK) + orjson.dumps(LINK) + b'{"torn',
    ]
    graph = read_graph(b"\n".join(lines), "memory.jsonl")
    assert told(graph) == (
        [("Atlas", ["uses Postgres 16"]), ("Cedar", ["whole"]), ("Dune", []), ("Brook", ["prefers tabs"])],
        1,
    )
    assert graph.problems == [
        Problem(2, "is not whole JSON (a torn or damaged line)"),
        Problem(4, "is not UTF-8 text"),
        Problem(5, "is a str, not an object"),
        Problem(6, "is neither an entity nor a relation (it has: content, timestamp)"),
        Problem(7, "the entity's name is blank"),
        Problem(8, "one of its observations is blank"),
        Problem(8, "one of its observations has no text"),
        Problem(8, "one of its observations has no text"),
        Problem(9, "relates an entity to itself"),
        Problem(10, "an end of the relation has no usable name"),
        Problem(11, "its observations are a dict, not a list"),
        Problem(12, "is not whole JSON (a torn or damaged line)"),
    ]


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"null", b"[]", b"{}", b"7", b'{"entities": 5, "relations": "x"}']
)
def test_a_file_without_a_graph_is_empty(data):
    graph = read_graph(data, "memory.jsonl")
    assert graph.empty
    assert settled_of(graph).rows == ()


def test_what_is_half_of_a_character_is_named_and_never_kept():
    data = rb"""
{"type":"entity","name":"\ud800","entityType":"project","observations":[]}
{"type":"entity","name":"Atlas","entityType":"\ud800","original_type":"\ud800","observations":["\ud800","whole"]}
{"type":"entity","name":"Old","observations":[{"text":"old","status":"invalidated","superseded_by":"\ud800"}]}
{"type":"relation","from":"Atlas","to":"Brook","relationType":"\ud800"}
{"type":"entity","name":"Brook","entityType":"person","observations":["kept"],"\ud800":1}
"""
    graph = read_graph(data, "memory.jsonl")
    assert [problem.line for problem in graph.problems] == [2, 3]
    settled = settled_of(graph)
    (commit,) = commits_of(settled, graph, SPACE, FILE_TIME, "import")
    assert decode(encode(commit)) == commit


def test_deep_nesting_and_huge_numbers_are_no_reason_to_stop():
    deep = b"[" * 200_000
    huge = (
        b'{"type":"entity","name":"Big","entityType":"x","observations":[],"createdAt":1' + b"0" * 400 + b"}"
    )
    infinite = b'{"type":"entity","name":"Far","entityType":"x","observations":[],"createdAt":Infinity}'
    graph = read_graph(b"\n".join([deep, huge, infinite, orjson.dumps(ATLAS)]), "memory.jsonl")
    assert [name for name, _ in told(graph)[0]] == ["Big", "Far", "Atlas"]
    assert {row["at"] for row in rows(graph, "entity")} == {"2026-01-01T00:00:00.000000Z"}
    assert read_graph(deep, "memory.jsonl").empty


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
keys = st.sampled_from(
    ["type", "_type", "name", "entityType", "observations", "from", "to", "relationType", "text", "status", "kind",
     "createdAt", "timestamp", "superseded_by", "invalidated_at", "domain", "epistemic", "original_type", "reconstructed"]
)  # fmt: skip
odd_items = st.dictionaries(
    keys, anything | st.sampled_from(["entity", "relation", "invalidated", "Atlas"]), max_size=8
)


@settings(max_examples=150, deadline=None)
@given(items=st.lists(odd_items, max_size=5), junk=st.binary(max_size=30), where=st.integers(0, 400))
def test_no_file_makes_reading_fail_and_what_was_read_can_be_written(items, junk, where):
    data = "\n".join(json.dumps(item) for item in items).encode()
    for content in (data, data[:where] + junk + data[where:], b"[" + data.replace(b"\n", b",") + b"]"):
        graph = read_graph(content, "memory.jsonl")
        settled = settled_of(graph)
        for commit in commits_of(settled, graph, SPACE, FILE_TIME, "import"):
            assert decode(encode(commit)) == commit


# --- what a graph becomes ---------------------------------------------------------------------------


def test_ids_are_those_that_recording_the_same_would_give():
    graph = graph_of(ATLAS)
    owner = entity_id(SPACE, "Atlas")
    assert [row["id"] for row in settled_of(graph).rows] == [
        owner,
        observation_id(SPACE, owner, "note", "uses Postgres 16", None, 0),
    ]


def test_names_with_one_key_are_one_entity_and_each_thing_said_stands_once():
    graph = graph_of(entity("Atlas", "a", "b", "a"), entity("ATLAS ", "b", "c", kind="person"))
    assert graph.merged == 1
    (atlas,) = rows(graph, "entity")
    assert (atlas["name"], atlas["original_type"]) == ("Atlas", "project")
    assert [row["text"] for row in rows(graph, "observation")] == ["a", "b", "c"]


def test_ends_that_nothing_defines_become_stubs_that_say_so():
    graph = graph_of(link("Ghost", "uses", "Atlas"), ATLAS, link("ghost", "uses", "Ghoul"))
    settled = settled_of(graph)
    assert settled.stubs == ("Ghost", "Ghoul")
    stubs = [row for row in settled.rows if row.get("reconstructed")]
    assert [row["name"] for row in stubs] == ["Ghost", "Ghoul"]


def test_types_fold_and_the_original_is_kept():
    graph = graph_of(
        entity("a", kind="Decision"), entity("b", kind="Bug"), entity("c", kind=None), entity("d", kind="concept"),
        link("a", "used_by", "b"), link("a", "depends_on", "b"), link("c", "maintains", "d"), link("c", "maintains", "d"),
    )  # fmt: skip
    found = {row["name"]: (row["entity_type"], row.get("original_type")) for row in rows(graph, "entity")}
    assert found["a"] == ("decision", "Decision")
    assert found["b"][1] == "Bug"
    assert found["c"] == ("thing", None)
    assert found["d"] == ("concept", None)
    ids = {row["name"]: row["id"] for row in rows(graph, "entity")}
    links = [
        (row["source"], row["type"], row["target"], row.get("original_type"))
        for row in rows(graph, "relation")
    ]
    assert links == [
        (ids["b"], "uses", ids["a"], "used_by"),
        (ids["a"], "depends_on", ids["b"], None),
        (ids["c"], "related_to", ids["d"], "maintains"),
    ]


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ("2025-05-11T15:54:05.242Z", "2025-05-11T15:54:05.242000Z"),
        ("2025-05-11T15:54:05+09:00", "2025-05-11T06:54:05.000000Z"),
        ("2025-05-11T15:54:05", "2025-05-11T12:54:05.000000Z"),
        ("2025-05-11", "2025-05-10T21:00:00.000000Z"),
        (1768354862, "2026-01-14T01:41:02.000000Z"),
        (1768354862000, "2026-01-14T01:41:02.000000Z"),
        ("2031-01-01T00:00:00Z", "2031-01-01T00:00:00.000000Z"),
        ("yesterday", "2026-01-01T00:00:00.000000Z"),
        ({"a": 1}, "2026-01-01T00:00:00.000000Z"),
        (True, "2026-01-01T00:00:00.000000Z"),
    ],
)
def test_dates_are_the_files_own_in_the_zone_of_the_store(given, at):
    graph = graph_of(entity("Atlas", createdAt=given), link("Atlas", "uses", "Brook", createdAt=given))
    found = [row["at"] for row in settled_of(graph, "Europe/Istanbul").rows if not row.get("reconstructed")]
    assert found == [at, at]


def test_an_observation_is_dated_by_itself_else_by_its_entity_else_by_the_file():
    dated = {"text": "a", "timestamp": "2025-03-01T00:00:00Z"}
    graph = graph_of(entity("Atlas", dated, "b", createdAt="2025-02-01"), entity("Brook", "c"))
    assert {row["text"]: row["at"][:10] for row in rows(graph, "observation")} == {
        "a": "2025-03-01",
        "b": "2025-02-01",
        "c": "2026-01-01",
    }
    assert settled_of(graph).undated == 1


def test_what_was_given_up_there_is_given_up_here_and_said_again_it_is_a_new_one():
    old = {
        "text": "a",
        "status": "invalidated",
        "invalidated_at": "2025-06-01T00:00:00Z",
        "superseded_by": "was wrong",
        "created": "2025-05-01",
    }
    graph = graph_of(entity("Atlas", old, {"text": "a", "kind": "decided"}, "a", "a"))
    said, retired = rows(graph, "observation"), rows(graph, "retire")
    owner = entity_id(SPACE, "Atlas")
    assert [row["id"] for row in said] == [
        observation_id(SPACE, owner, "note", "a", None, 0),
        observation_id(SPACE, owner, "decided", "a", None, 0),
        observation_id(SPACE, owner, "note", "a", None, 1),
    ]
    (end,) = retired
    assert (end["id"], end["status"], end["reason"], end["at"]) == (
        said[0]["id"],
        "invalidated",
        "was wrong",
        "2025-06-01T00:00:00.000000Z",
    )


def test_fields_of_our_own_kind_are_taken_where_they_are_words_of_ours():
    graph = graph_of(
        entity("a", domain="software", epistemic="hypothesis", visibility="shareable", reconstructed=True),
        entity("b", domain="plumbing", epistemic="sure", visibility=7, reconstructed="yes"),
    )
    a, b = rows(graph, "entity")
    assert (a["domain"], a["epistemic"], a["visibility"], a["reconstructed"]) == (
        "software",
        "hypothesis",
        "shareable",
        True,
    )
    assert "domain" not in b
    assert (b["epistemic"], b["visibility"], "reconstructed" in b) == ("unknown", "private", False)


def test_keys_without_a_place_here_are_counted():
    graph = graph_of(
        entity("Atlas", {"text": "a", "version": "1.0"}, createdBy="me"),
        link("a", "uses", "b", createdBy="me"),
    )
    assert graph.unused == {"createdBy": 2, "version": 1}


def test_an_import_takes_the_difference():
    graph = graph_of(ATLAS, BROOK, LINK)
    full = settled_of(graph)
    known = {row["id"] for row in full.rows if row["op"] != "relation"}
    later = settled_of(
        graph, entities={"atlas": full.rows[0]["id"], "brook": full.rows[2]["id"]}, known=known
    )
    assert [row["op"] for row in later.rows] == ["relation"]
    elsewhere = settled_of(graph, entities={"atlas": "another-id"})
    assert {row.get("entity") for row in elsewhere.rows if row["op"] == "observation"} == {
        "another-id",
        full.rows[2]["id"],
    }


def test_a_large_import_is_many_commits_with_the_same_ids_each_time():
    graph = graph_of(*(entity(f"thing {n}") for n in range(ROWS_A_COMMIT + 5)))
    settled = settled_of(graph)
    first = commits_of(settled, graph, SPACE, FILE_TIME, "import")
    again = commits_of(settled, graph, SPACE, FILE_TIME, "import")
    assert [len(commit.rows) for commit in first] == [ROWS_A_COMMIT, 5]
    assert [commit.id for commit in first] == [commit.id for commit in again]
    assert len({commit.id for commit in first}) == 2
