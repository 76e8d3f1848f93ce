"""Behaviours 1 to 13 and 28: memories are written, read and refused as the server does."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from .asking import detail

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
BOTH = pytest.mark.parametrize("generation", ["0.9", "0.10"])


@BOTH
def test_b01_create(start, generation):
    ask = start(generation)
    answer = ask.post("/memories", {"content": "tea at five"})
    assert answer.status_code == 200
    told = answer.json()
    assert told["action"] == "created"
    assert told["warnings"] == told["extracted_entities"] == told["assigned_labels"] == []
    memory = told["memory"]
    assert UUID.fullmatch(memory["id"])
    assert (memory["importance"], memory["confidence"]) == (0.5, 0.5)
    assert (memory["source"], memory["unit_type"], memory["space_id"]) == ("manual", "fact", "default")
    assert (memory["temporal_context"], memory["is_latest"], memory["version"]) == ("timeless", True, 1)
    assert "labels" not in memory
    assert "label_ids" not in memory


def test_created_relationships_are_a_number_or_a_list(start):
    assert start("0.9").post("/memories", {"content": "x"}).json()["created_relationships"] == 0
    assert start("0.10.28").post("/memories", {"content": "x"}).json()["created_relationships"] == []


@BOTH
def test_b02_upsert(start, generation):
    ask = start(generation)
    ask.add("first", id="m", labels=["one"])
    told = ask.post("/memories", {"content": "second", "id": "m", "labels": ["two"]}).json()
    assert told["action"] == "updated"
    assert told["assigned_labels"] == ["two"]
    assert told["memory"]["content"] == "second"
    assert ask.get("/memories/m").json()["label_ids"] == ["label_one", "label_two"]
    assert ask.listed() == ["m"]


def test_b03_ids_ignored(start):
    ask = start("0.6")
    told = [ask.post("/memories", {"content": "same", "id": "mine"}).json() for _ in range(2)]
    ids = {one["memory"]["id"] for one in told}
    assert len(ids) == 2
    assert "mine" not in ids
    assert all("action" not in one for one in told)


def test_b04_missing_content(start):
    ask = start("0.10")
    answer = ask.http.post(
        "/memories", content=b'{"title":"no content"}', headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == (
        "Failed to deserialize the JSON body into the target type: missing field `content` at line 1 column 22"
    )
    answer = start("0.9").post("/memories", {"title": "no content", "importance": "high"})
    assert answer.status_code == 422
    assert [(one["loc"], one["type"]) for one in detail(answer)] == [
        (["body", "content"], "missing"),
        (["body", "importance"], "number_type"),
    ]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"content": "x" * 32769}, "content must be at most 32768 characters"),
        ({"title": "x" * 201}, "title must be at most 200 characters"),
        ({"importance": 1.01}, "importance must be between 0.0 and 1.0"),
        ({"confidence": -0.1}, "confidence must be between 0.0 and 1.0"),
        ({"id": "x" * 201}, "id must be at most 200 characters"),
    ],
)
def test_b05_limits(start, fields, sentence):
    for generation in ("0.9", "0.10"):
        ask = start(generation)
        answer = ask.post("/memories", {"content": "x", **fields})
        assert answer.status_code == 422
        if generation == "0.10":
            assert detail(answer) == sentence
        else:
            assert [one["loc"] for one in detail(answer)] == [["body", *fields]]
        assert ask.listed() == []
    assert (
        ask.post("/memories", {"content": "x" * 32768, "title": "y" * 200, "importance": 1}).status_code
        == 200
    )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"importance": "high"}, 'importance: invalid type: string "high", expected f64'),
        (
            {"content": "x" * 32769, "importance": True},
            "importance: invalid type: boolean `true`, expected f64",
        ),
        ({"title": "x" * 201, "id": ""}, "missing field `content`"),
        ({"content": ["x"], "labels": {}}, "content: invalid type: sequence, expected a string"),
    ],
)
def test_one_fault_is_told_the_first_that_serde_finds(start, body, told):
    answer = start().post("/memories", body)
    assert answer.status_code == 422
    assert f"target type: {told} at line 1 column " in answer.text


@pytest.mark.parametrize(
    "body", [b"{", b"{'content': 1}", b'{"content": NaN}', b"\xff", b'{"content": "\\ud83d"}']
)
def test_b06_malformed(start, body):
    ask, old = start("0.10"), start("0.9")
    declared = {"content-type": "application/json"}
    answer = ask.http.post("/memories", content=body, headers=declared)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "text/plain; charset=utf-8")
    assert answer.text.startswith("Failed to parse the request body as JSON: ")
    assert old.http.post("/memories", content=body, headers=declared).status_code == 422
    good = b'{"content": "x"}'
    assert ask.http.post("/memories", content=good).status_code == 415
    assert ask.http.post("/memories", content=good, headers={"content-type": "text/plain"}).status_code == 415
    assert ask.http.post("/memories", content=b"[]", headers=declared).status_code == 422
    charset = {"content-type": "Application/JSON; charset=utf-8"}
    assert ask.http.post("/memories", content=good, headers=charset).status_code == 200


def test_b07_metadata(start):
    ask = start("0.10")
    mine = {"mine": "1", "created_via": "me", "created_at": "never", "event_start": "mine"}
    memory_id = ask.add("x", metadata=mine, event_start="2024-03-05")
    stored = ask.server.memories()[0].metadata
    assert stored == {**mine, "created_via": "api", "source_id": memory_id, "extract_entities": False}
    read = ask.get(f"/memories/{memory_id}").json()["metadata"]
    assert (read["mine"], read["event_start"], read["event_end"]) == ("1", "2024-03-05", None)
    assert read["temporal_context"] == "timeless"
    assert read["created_at"] != "never"
    old = start("0.9")
    old.add("x", metadata={"state": "done"})
    assert old.listed() == []
    assert len(old.listed(state="all")) == 1
    ask.add("y", metadata={"state": "done"})
    assert len(ask.listed()) == 2


@pytest.mark.parametrize(
    ("said", "stored", "precision"),
    [
        ("2024", "2024-01-01", "year"),
        ("2024-03", "2024-03-01", "month"),
        ("2024-03-05", "2024-03-05", "day"),
        ("2024-03-05T10:00:00Z", None, None),
        ("in March", None, None),
    ],
)
def test_b08_event_dates(start, said, stored, precision):
    told = start().post("/memories", {"content": "x", "event_start": said}).json()
    assert told["warnings"] == []
    memory = told["memory"]
    assert (memory["event_start"], memory["temporal_precision"]) == (stored, precision)
    assert memory["temporal_type"] == ("exact" if stored else "unknown")


def test_b09_title(start):
    ask = start()
    title = lambda content: ask.post("/memories", {"content": content}).json()["memory"]["title"]  # noqa: E731
    assert title("a" * 51) == "a" * 50 + "..."
    assert title("a" * 50) == "a" * 50


@BOTH
def test_b10_listing(start, generation):
    ask = start(generation)
    ids = [ask.add(f"memory {number}") for number in range(5)][::-1]
    assert ask.listed() == ids
    told = ask.get("/memories", limit=2, offset=2).json()
    assert [row["id"] for row in told["memories"]] == ids[2:4]
    assert told["pagination"] == {"limit": 2, "offset": 2, "total": 5, "has_more": True}
    assert not ask.get("/memories", limit=2, offset=4).json()["pagination"]["has_more"]
    assert ask.listed(offset=9) == []
    for wrong in ({"limit": 0}, {"limit": 101}, {"limit": "x"}, {"offset": -1}):
        assert ask.get("/memories", **wrong).status_code == 422
    ask.add("inserted while paging")
    assert ask.listed(limit=2, offset=2) == [ids[1], ids[2]]


def test_b11_short_pages(start):
    old, new = start("0.9"), start("0.10")
    for ask in (old, new):
        for number in range(4):
            ask.add(str(number), id=str(number))
        ask.post("/memories/2/archive")
    told = old.get("/memories", limit=2).json()
    assert [row["id"] for row in told["memories"]] == ["3"]
    assert told["pagination"] == {"limit": 2, "offset": 0, "total": 4, "has_more": True}
    assert new.listed(limit=2) == ["3", "1"]
    for ask in (old, new):
        ask.server.fail("GET /memories", "internal")
    answer = old.get("/memories")
    assert (answer.status_code, answer.json()["memories"]) == (200, [])
    assert new.get("/memories").status_code == 500
    assert len(old.listed(state="all")) == 4


def test_b12_patch(start):
    for version, after in (("0.10.28", ["label_a"]), ("0.10.109", ["label_b"]), ("0.9", ["label_a"])):
        ask = start(version)
        ask.add("before", id="m", title="T", labels=["a"])
        answer = ask.patch("/memories/m", content="after", labels=["b"], nonsense=1)
        assert answer.status_code == 200
        assert "action" not in answer.json()
        assert (answer.json()["content"], answer.json()["label_ids"]) == ("after", after)
        assert ask.get("/agent/evolves", memory_id="m").json() == {"edges": [], "total": 0}
        assert ask.listed(state="all") == ["m"]
        answer = ask.patch("/memories/m", importance=1.5)
        assert (answer.status_code, detail(answer)) == (422, "importance must be between 0.0 and 1.0")
    assert ask.found("after") == ["m"]
    assert ask.found("before") == []


@pytest.mark.parametrize(("generation", "sentence"), [("0.6", ""), ("0.9", ""), ("0.10", ": nobody")])
def test_b13_not_found(start, generation, sentence):
    ask = start(generation)
    for answer in (
        ask.get("/memories/nobody"),
        ask.patch("/memories/nobody"),
        ask.delete("/memories/nobody"),
    ):
        assert (answer.status_code, detail(answer)) == (404, f"Memory not found{sentence}")
    memory_id = ask.add()
    assert ask.delete(f"/memories/{memory_id}").json()["message"] == "Memory deleted successfully"
    assert ask.delete(f"/memories/{memory_id}").status_code == 404
    assert detail(ask.get("/nowhere")) == "Not Found"
    assert ask.http.put("/memories").status_code == 405


def test_ids_are_taken_as_they_are_even_with_a_slash(start):
    ask = start()
    ask.add("x", id="a/b c")
    assert ask.get("/memories/a%2Fb%20c").json()["id"] == "a/b c"
    assert ask.get("/memories/").status_code == 404


def test_deleting_cascades_to_entities_unless_told_not_to(start):
    ask = start()
    for memory_id in ("a", "b"):
        ask.add(memory_id, id=memory_id)
        ask.server.background("extract_entities", memory_id=memory_id, names=[f"of {memory_id}"])
    kept = ask.delete("/memories/a", cascade_delete=False).json()
    assert kept["deleted_entities"] == 0
    assert ask.delete("/memories/b").json()["deleted_entities"] == 2  # what the first left behind, too
    assert ask.get("/entities").json()["entities"] == []


def test_an_upsert_without_fields_resets_them(start):
    ask = start()
    ask.add("x", id="m", importance=0.9, event_start="2024", metadata={"a": "1"}, title="T")
    told = ask.post("/memories", {"content": "y", "id": "m"}).json()["memory"]
    assert (told["importance"], told["event_start"], told["temporal_precision"]) == (0.5, None, None)
    assert (told["title"], told["version"]) == ("y", 2)
    assert "a" not in told["metadata"]


def test_the_public_shape_grew_with_the_versions(start):
    shown = {}
    for generation in ("0.6", "0.9", "0.10"):
        ask = start(generation)
        shown[generation] = ask.get(f"/memories/{ask.add()}").json()
    assert "unit_type" not in shown["0.6"]
    assert shown["0.6"]["metadata"]["unit_type"] == "fact"
    assert shown["0.9"].keys() - shown["0.6"].keys() == {"unit_type"}
    assert shown["0.10"].keys() - shown["0.9"].keys() >= {"created_at", "lifecycle_state", "is_latest"}


def test_ages_are_counted_by_the_servers_clock(start):
    ask = start(start=datetime(2026, 1, 1, tzinfo=UTC))
    memory_id = ask.add()
    for seconds, told in ((0, "just now"), (60, "1 minute ago"), (7200, "2 hours ago"), (86400, "1 day ago")):
        ask.server.advance(seconds)
        assert ask.get(f"/memories/{memory_id}").json()["time"] == told


def test_b28_free_plan(start):
    ask = start(free_plan=True)
    for number in range(20):
        ask.add(str(number), id=str(number))
    answer = ask.post("/memories", {"content": "one too many"})
    assert answer.status_code == 402
    assert detail(answer).startswith(
        "Memory limit reached. Free tier allows up to 20 memories (current: 20)."
    )
    assert ask.post("/memories", {"content": "again", "id": "3"}).json()["action"] == "updated"
    ask.delete("/memories/3")
    assert ask.post("/memories", {"content": "room again"}).status_code == 200
