"""`export` and `import`: nothing is lost on the way out, and what can't be used on the way in is named."""

from __future__ import annotations

import json

import pytest

GRAPH = [
    {"type": "entity", "name": "Atlas", "entityType": "project", "observations": ["uses Postgres 16"]},
    {"type": "entity", "name": "Brook", "entityType": "person", "observations": ["prefers tabs"]},
    {"type": "relation", "from": "Brook", "to": "Atlas", "relationType": "maintains"},
]


def lines(*items):
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items).encode()


def names(cli, *words):
    return {entity["name"] for entity in cli("show", *words, "--json").json["entities"]}


@pytest.fixture
def graph(tmp_path):
    file = tmp_path / "memory.jsonl"
    file.write_bytes(lines(*GRAPH))
    return file


def test_an_export_restored_elsewhere_answers_the_same(cache, tmp_path):
    cache("revise", "api/cache", "pages are read twenty times a minute", "--to", "pages are read seldom")
    file = tmp_path / "out.jsonl"
    assert cache("export", file).code == 0
    assert file.stat().st_mode & 0o077 == 0
    other = ("--vault", tmp_path / "other")
    answer = cache(*other, "import", file)
    assert (answer.code, "added 2 commits" in answer.out) == (0, True)
    assert (
        cache(*other, "history", "api/cache", "--json").json == cache("history", "api/cache", "--json").json
    )
    assert "added nothing" in cache(*other, "import", file).out
    again = tmp_path / "again.jsonl"
    cache("export", again)
    assert again.read_bytes() == file.read_bytes()


def test_an_export_to_a_pipe_is_the_export_to_a_file(cache, tmp_path):
    cache("export", tmp_path / "out.jsonl")
    answer = cache.outside("export", "-")
    assert answer.code == 0
    assert answer.out.encode() == (tmp_path / "out.jsonl").read_bytes()


def test_an_export_does_not_overwrite_unless_told_to(cache, tmp_path):
    file = tmp_path / "out.jsonl"
    file.write_text("precious", encoding="utf-8")
    answer = cache("export", file)
    assert (answer.code, "--force" in answer.err) == (2, True)
    assert file.read_text(encoding="utf-8") == "precious"
    assert cache("export", file, "--force", "--json").json == {
        "file": str(file),
        "space": "default",
        "commits": 1,
    }
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_empty_space_is_not_exported_in_silence(cache, tmp_path):
    answer = cache("--space", "typo", "export", tmp_path / "out.jsonl")
    assert (answer.code, "'typo' is empty" in answer.err) == (3, True)
    assert not (tmp_path / "out.jsonl").exists()


def test_an_export_goes_back_to_its_own_space_and_says_so(cache, tmp_path):
    file = tmp_path / "out.jsonl"
    cache("export", file)
    answer = cache("--space", "other", "import", file)
    assert answer.code == 5
    assert f"rawthink --space default import {file}" in answer.out.replace("\n   ", " ")


def test_a_damaged_line_of_an_export_is_named_and_the_rest_is_used(cache, tmp_path):
    file = tmp_path / "out.jsonl"
    cache("record", "api/cache", "a second commit")
    cache("export", file)
    data = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([data[0], data[1].replace(b"twenty", b"thirty"), *data[2:]]))
    answer = cache("--vault", tmp_path / "other", "import", file, "--json")
    assert answer.code == 5
    [outcome] = answer.json["files"]
    assert outcome["problems"] == [{"line": 2, "what": "its checksum does not match"}]


def test_a_newer_export_is_refused_with_what_to_do(cli, tmp_path):
    file = tmp_path / "out.jsonl"
    file.write_text('{"v":2,"store":"x"}\n{"v":2,"commit":"x"}\n', encoding="utf-8")
    answer = cli("import", file)
    assert (answer.code, "Upgrade" in answer.err) == (1, True)


@pytest.mark.parametrize(
    "data",
    [
        lines(*GRAPH),
        b"\xef\xbb\xbf" + lines(*GRAPH).replace(b"\n", b"\r\n\r\n"),
        lines(*GRAPH).rstrip(b"\n"),
        lines(*GRAPH).replace(b"}\n", b"}"),
        json.dumps({"entities": GRAPH[:2], "relations": GRAPH[2:]}, indent=2).encode(),
        json.dumps(GRAPH, indent=2).encode(),
        lines(*({key: value for key, value in item.items() if key != "type"} for item in GRAPH)),
        lines(
            {
                **GRAPH[0],
                "observations": [{"text": "uses Postgres 16", "timestamp": "2025-05-11T15:54:05.242Z"}],
            },
            {**GRAPH[1], "createdAt": 1746978845},
            GRAPH[2],
        ),
    ],
    ids=["lines", "bom-crlf-blank", "no-last-newline", "glued", "object", "array", "no-type", "dated"],
)
def test_every_dialect_of_a_memory_graph_is_read(cli, tmp_path, data):
    file = tmp_path / "some name.json"
    file.write_bytes(data)
    answer = cli("import", file, "--json")
    assert answer.code == 0, answer.out
    assert answer.json["files"][0]["new"] == {"entity": 2, "observation": 2, "relation": 1}
    told = cli("show", "Atlas").out
    assert "uses Postgres 16" in told
    assert "Brook —related_to→ Atlas (was called maintains)" in told
    assert file.read_bytes() == data


def test_what_cannot_be_used_is_named_by_file_and_line(cli, tmp_path):
    file = tmp_path / "torn.jsonl"
    file.write_bytes(lines(GRAPH[0], {"timestamp": 1, "content": "x"}) + b'{"type":"entity","name":"Del')
    answer = cli("import", file)
    assert answer.code == 5
    assert str(file) in answer.out
    assert "not used: line 2: is neither an entity nor a relation" in answer.out
    assert "not used: line 3: is not whole JSON" in answer.out
    assert names(cli, "Atlas") == {"Atlas"}


def test_a_file_that_is_no_memory_is_said_to_be_none(cli, tmp_path):
    file = tmp_path / "empty.json"
    file.write_bytes(b"")
    answer = cli("import", file)
    assert (answer.code, "holds no memory graph" in answer.out) == (5, True)
    assert cli("import", tmp_path / "missing.json").code == 2


def test_a_dry_run_writes_nothing(cli, graph):
    answer = cli("import", graph, "--dry-run")
    assert (answer.code, "would add 2 entities, 2 observations, 1 relation" in answer.out) == (0, True)
    assert cli("show", "Atlas").code == 3


def test_importing_again_takes_the_difference(cli, graph):
    cli("import", graph)
    graph.write_bytes(
        lines({**GRAPH[0], "observations": ["uses Postgres 16", "has two replicas"]}, *GRAPH[1:])
    )
    answer = cli("import", graph, "--json")
    assert answer.json["files"][0]["new"] == {"observation": 1}
    assert cli("import", graph, "--json").json["files"][0]["new"] == {}
    assert "has two replicas" in cli("show", "Atlas").out


def test_an_import_meets_entities_that_are_here_by_any_of_their_names(cli, graph):
    cli(
        "record",
        "The Atlas Project",
        "ours",
        "--type",
        "artifact",
        "--domain",
        "software",
        "--alias",
        "ATLAS",
    )
    cli("import", graph)
    assert names(cli, "atlas") >= {"The Atlas Project"}
    assert "uses Postgres 16" in cli("show", "The Atlas Project").out


def test_missing_ends_and_doubled_names_are_told(cli, tmp_path):
    file = tmp_path / "graph.jsonl"
    file.write_bytes(lines(GRAPH[0], {**GRAPH[0], "name": "ATLAS"}, GRAPH[2]))
    answer = cli("import", file)
    assert answer.code == 0
    assert "1 entity merged with one of the same name" in answer.out
    assert "1 entity made up, since relations end there: Brook" in answer.out
    assert "made up to complete a relation" in cli("show", "Brook").out


def test_an_export_imports_from_stdin(cache, tmp_path):
    cache("export", tmp_path / "out.jsonl")
    answer = cache("--vault", tmp_path / "other", "import", "-", stdin=(tmp_path / "out.jsonl").read_bytes())
    assert answer.code == 0
    assert "added 1 commit" in answer.out


def test_what_was_forgotten_is_not_said_to_be_back(cli, graph):
    cli("import", graph)
    cli("forget", "Atlas", "--yes")
    answer = cli("import", graph)
    assert answer.code == 5
    assert "added nothing" in answer.out
    assert "3 items forgotten here before" in answer.out
    assert cli("show", "Atlas").code == 3
