"""Behaviours 18 to 22, 32 and 33: what supersedes what, relations, labels, spaces, and what changes by itself."""

from __future__ import annotations

import pytest

from .asking import detail

DENIED = "EVOLVES endpoints must belong to the same Space"


@pytest.mark.parametrize("generation", ["0.9", "0.10"])
def test_b18_supersede(start, generation):
    ask = start(generation)
    ask.add("the old cache", id="old")
    ask.add("the new cache", id="new")
    answer = ask.post("/memories/old/supersede", {"newer_memory_id": "new", "reason": "faster"})
    assert (answer.status_code, answer.json()["id"]) == (200, "old")
    assert ask.found("cache") == ask.browsed(q="cache") == ask.listed() == ["new"]
    assert set(ask.browsed(q="cache", include_history=True)) == {"old", "new"}
    assert ask.get("/memories/old").json()["content"] == "the old cache"
    edge = ask.get("/agent/evolves", memory_id="old").json()["edges"][0]
    assert (edge["older_id"], edge["newer_id"], edge["content_relation"]) == ("old", "new", "replaces")
    assert ask.get("/agent/evolves", memory_id="old", content_relation="enriches").json()["total"] == 0
    shown = ask.get("/memories/old").json()
    assert shown.get("is_latest") is (False if generation == "0.10" else None)
    assert start("0.6").post("/memories/old/supersede", {"newer_memory_id": "x"}).status_code == 404


def test_b19_supersede_refused(start):
    ask = start()
    ask.space("work")
    for memory_id, space_id in (("a", "default"), ("b", "default"), ("c", "work")):
        ask.add(memory_id, id=memory_id, space_id=space_id)

    def supersede(older, newer, **more):
        return ask.post(f"/memories/{older}/supersede", {"newer_memory_id": newer, **more})

    answer = supersede("a", "c")
    assert (answer.status_code, detail(answer)) == (422, DENIED)
    assert supersede("a", "nobody").status_code == supersede("nobody", "a").status_code == 404
    assert supersede("a", "b", space_id="work").status_code == 404
    assert ask.post("/memories/a/supersede").status_code == 422
    assert ask.listed() == ["b", "a"]
    ask.server.background("review", kept_id="a", other_id="b")
    answer = supersede("a", "b")
    assert (answer.status_code, answer.json()["error_code"]) == (409, "reviewed_pair_protected")
    assert ask.listed() == ["a"]


def test_a_person_corrects_history_by_preview_and_plan(start):
    ask = start()
    ask.add("a", id="a")
    ask.add("b", id="b")
    ask.post("/memories/a/supersede", {"newer_memory_id": "b"})
    said = {"memory_ids": ["a", "b"], "decision": "keep_memory", "authoritative_memory_id": "a"}
    plan = ask.post("/memories/evolves/revision/preview", said).json()["plan_id"]
    assert ask.listed() == ["b"]
    assert ask.post("/memories/evolves/revision/apply", {**said, "plan_id": "other"}).status_code == 409
    assert ask.post("/memories/evolves/revision/apply", {**said, "plan_id": plan}).json()["applied"]
    assert ask.listed() == ["a"]
    apart = {"memory_ids": ["a", "b"], "decision": "mark_unrelated"}
    plan = ask.post("/memories/evolves/revision/preview", apart).json()["plan_id"]
    ask.post("/memories/evolves/revision/apply", {**apart, "plan_id": plan})
    assert ask.listed() == ["b", "a"]
    assert ask.get("/agent/evolves").json()["total"] == 0
    assert ask.post("/memories/evolves/revision/preview", {**said, "memory_ids": ["a"]}).status_code == 422


def test_b20_retired(start):
    ask = start()
    for memory_id in ("archive", "deprecate", "forget", "stays"):
        ask.add("note", id=memory_id)
        if memory_id != "stays":
            assert ask.post(f"/memories/{memory_id}/{memory_id}", {"reason": "why"}).json()["id"] == memory_id
    assert ask.found("note") == ask.browsed(q="note") == ask.listed() == ["stays"]
    assert ask.browsed(q="note", include_history=True) == ["stays", "deprecate"]
    assert ask.listed(state="all") == ["stays", "deprecate", "archive"]
    assert ask.listed(state="archived") == ["archive"]
    assert ask.get("/memories/archive").json()["lifecycle_state"] == "archived"
    assert ask.get("/memories/deprecate").status_code == 200
    assert ask.get("/memories/forget").status_code == 404
    assert ask.post("/memories/forget/forget").status_code == 404
    assert ask.delete("/memories/forget").status_code == 200
    ask.add("note", id="newer")
    ask.post("/memories/stays/deprecate", {"replacement_memory_id": "newer"})
    assert ask.get("/agent/evolves", memory_id="stays").json()["edges"][0]["newer_id"] == "newer"


def test_b21_relations(start):
    ask = start()
    ask.space("work")
    for memory_id in ("a", "b"):
        ask.add(memory_id, id=memory_id)
    ask.add("c", id="c", space_id="work")
    path = "/memories/a/relations"
    said = {"target_memory_id": "b", "relation_type": " Depends On ", "properties": {"raw": "Depends On"}}
    first = ask.post(path, said).json()
    assert (first["relation_type"], first["direction"]) == ("depends_on", "outgoing")
    assert (first["strength"], first["status"], first["properties"]) == (1.0, "active", {"raw": "Depends On"})
    again = ask.post(path, {**said, "relation_type": "depends-on", "reason": None, "strength": 0.5}).json()
    assert (again["id"], again["strength"]) == (first["id"], 0.5)
    assert ask.post(path, {**said, "relation_type": "uses"}).json()["id"] != first["id"]
    assert ask.get(path, direction="out").json()["total"] == 2
    assert ask.get(path, direction="in").json()["total"] == 0
    other = ask.get("/memories/b/relations", types="depends_on,x").json()
    assert [row["direction"] for row in other["relations"]] == ["incoming"]
    assert ask.post(path, {**said, "target_memory_id": "c"}).status_code == 422
    assert ask.post(path, {**said, "target_memory_id": "nobody"}).status_code == 404
    assert ask.post(path, {"target_memory_id": "b"}).status_code == 422
    relation = f"/memories/relations/{first['id']}"
    assert ask.delete(relation).json() == {"message": "Memory relation deleted successfully"}
    assert ask.delete(relation).status_code == 404
    assert ask.get(path).json()["total"] == 1
    assert ask.get(path, status="deleted").json()["relations"][0]["id"] == first["id"]
    assert ask.patch(relation, status="active").json()["status"] == "active"
    assert ask.delete("/memories/b").json()["deleted_relationships"] == 2
    assert ask.get(path).json()["total"] == 0
    assert start("0.6").get(path).status_code == 404


def test_the_graph_around_a_memory(start):
    ask = start()
    for memory_id in ("a", "b", "c"):
        ask.add(memory_id, id=memory_id)
    ask.post("/memories/a/supersede", {"newer_memory_id": "b"})
    ask.post("/memories/b/relations", {"target_memory_id": "c", "relation_type": "uses"})
    near = ask.get("/graph/expand/a").json()
    assert [row["id"] for row in near["neighbors"]] == ["b"]
    assert near["edges"][0]["edge_type"] == "EVOLVES"
    far = ask.get("/graph/expand/a", depth=2).json()
    assert [row["id"] for row in far["neighbors"]] == ["b", "c"]
    assert {row["edge_type"] for row in far["edges"]} == {"EVOLVES", "RELATED"}


def test_b22_labels(start):
    ask = start()
    made = ask.post("/labels", name="A B", color="#000000").json()
    assert (made["id"], made["name"]) == ("label_a_b", "A B")
    assert ask.http.post("/labels", json={"name": "in the body"}).status_code == 422
    told = ask.post("/memories", {"content": "x", "id": "m", "labels": ["a_b", "a b", "c"]}).json()
    assert told["assigned_labels"] == ["A B", "c"]
    assert ask.get("/memories/m").json()["label_ids"] == ["label_a_b", "label_c"]
    listed = ask.get("/labels").json()
    assert [(row["name"], row["usage_count"]) for row in listed] == [("A B", 1), ("c", 1)]
    assert ask.http.put("/labels/label_c", params={"name": "see"}).json()["name"] == "see"
    assert [row["name"] for row in ask.post("/memories/m/labels", {"labels": ["d"]}).json()["labels"]] == [
        "A B",
        "see",
        "d",
    ]
    ask.delete("/memories/m/labels/label_d")
    assert ask.delete("/labels/label_a_b").json() == {"message": "Label deleted successfully"}
    assert ask.get("/memories/m").json()["label_ids"] == ["label_c"]
    assert detail(ask.get("/labels/label_a_b")) == "Label not found"


def test_b32_unknown_space(start):
    ask = start()
    answer = ask.post("/memories", {"content": "x", "space_id": "nowhere"})
    assert (answer.status_code, answer.json()["error_code"]) == (404, "write_space_unavailable")
    for path in ("/memories", "/memories/search", "/threads", "/context/bundle", "/agent/working-memory"):
        answer = ask.get(path, space_id="nowhere")
        assert (answer.status_code, detail(answer)) == (404, "Unknown space: nowhere")
    assert ask.post("/memories/search", {"query": "x", "space_id": "nowhere"}).status_code == 404
    blank = ask.post("/memories", {"content": "x", "space_id": ""})
    assert (blank.status_code, blank.json()["error_code"]) == (422, "invalid_space_selector")
    assert ask.add("x", space_id=None)
    ask.space("work space")
    ask.add("x", id="w", space_id="work space")
    headers = {"x-nmem-space-protocol": "exact-v1", "x-nmem-space-id-encoded": "percent-v1:work%20space"}
    assert [row["id"] for row in ask.http.get("/memories", headers=headers).json()["memories"]] == ["w"]
    headers["x-nmem-space-protocol"] = "exact-v2"
    assert ask.http.get("/memories", headers=headers).json()["error_code"] == "unsupported_space_protocol"


def test_b33_background(start):
    ask = start()
    job = ask.server.background
    ask.add("tea", id="m", importance=1.0, labels=["mine"], title="T")
    ask.add("coffee", id="n")
    job("cap_importance", memory_id="m")
    job("retitle", memory_id="m", title="About tea")
    job("relabel", memory_id="m", add=["drinks"], remove=["mine"])
    job("classify", memory_id="m", unit_type="preference")
    job("annotate", memory_id="m", metadata={"topic": "drinks"})
    shown = ask.get("/memories/m").json()
    assert (shown["importance"], shown["title"], shown["unit_type"]) == (0.8, "About tea", "preference")
    assert (shown["label_ids"], shown["metadata"]["topic"]) == (["label_drinks"], "drinks")
    job("extract_entities", memory_id="m", names=["Tea"])
    assert ask.post("/memories/search", {"query": "tea"}).json()[0]["related_entities"][0]["name"] == "Tea"
    job("evolve", older_id="m", newer_id="n")
    assert ask.get("/agent/evolves", memory_id="m").json()["edges"][0]["content_relation"] == "enriches"
    assert len(ask.listed()) == 2
    job("deduplicate", kept_id="n", other_id="m")
    assert ask.listed() == ["n"]
    assert ask.get("/memories/n").json()["label_ids"] == ["label_drinks"]
    with pytest.raises(ValueError, match="no such memory: 'o'"):
        job("retitle", memory_id="o", title="x")
    with pytest.raises(ValueError, match="no such job: 'o'"):
        job("o")
    with pytest.raises(ValueError, match=r"retitle: .*title"):
        job("retitle", memory_id="m")


def test_the_background_works_right_after_a_request(start):
    ask = start()
    ask.server.background("retitle", after="POST /memories", memory_id="$answer", title="renamed")
    assert ask.post("/memories", {}).status_code == 422  # not after these two: nothing came of them
    ask.server.fail("POST /memories", "object")
    assert ask.post("/memories", {"content": "x"}).json() == {}
    memory_id = ask.add("x")
    assert ask.get(f"/memories/{memory_id}").json()["title"] == "renamed"
    assert ask.server.memories()[0].title == "renamed"
    other = ask.add("y")
    assert ask.get(f"/memories/{other}").json()["title"] == "y"
    ask.server.background("delete", memory_id=other)
    assert ask.get(f"/memories/{other}").status_code == 404


@pytest.mark.parametrize(
    ("action", "left"), [("keep_newer", ["n"]), ("keep_both", ["n", "o"]), ("delete_memory", ["n"])]
)
def test_a_contradiction_waits_for_a_person(start, action, left):
    ask = start()
    ask.add("old", id="o")
    ask.add("new", id="n")
    ask.server.background("contradict", older_id="o", newer_id="n")
    assert ask.listed() == ["n", "o"]
    event = ask.get("/agent/feed/events", unresolved_only=True).json()["events"][0]["id"]
    ask.post(f"/agent/feed/events/{event}/resolve", action=action)
    assert ask.listed() == left
    assert ask.get("/agent/feed/events", unresolved_only=True).json()["events"] == []
    if action != "delete_memory":
        assert ask.post("/memories/o/supersede", {"newer_memory_id": "n"}).status_code == 409


def test_moving_deleting_and_spaces(start):
    ask = start()
    made = ask.post("/spaces", {"name": "My Work", "defaultRetrievalMode": "all"}).json()
    assert (made["id"], made["defaultRetrievalMode"]) == ("my-work", "all")
    assert ask.post("/spaces", {"name": "My Work"}).status_code == 409
    assert ask.get("/spaces/MY WORK").json()["id"] == "my-work"
    for memory_id in ("a", "b", "c"):
        ask.add(memory_id, id=memory_id)
    said = {"selection": {"mode": "ids", "memory_ids": ["a", "nobody"]}, "target_space_id": "my-work"}
    assert ask.post("/memories/bulk/move/preview", said).json()["count"] == 1
    told = ask.post("/memories/bulk/move", said).json()
    assert (told["moved_count"], told["failed_count"]) == (1, 1)
    assert detail(ask.post("/memories/bulk/move", said)) == "Choose a different target space"
    assert ask.listed(space_id="my-work") == ["a"]
    blocked = ask.delete("/spaces/my-work")
    assert (blocked.status_code, blocked.json()["type"]) == (409, "space_delete_blocked")
    told = ask.post("/memories/bulk/delete", {"selection": {"mode": "space", "source_space_id": "my-work"}})
    assert told.json()["deleted_count"] == 1
    written = ask.http.put("/agent/working-memory", json={"content": "# Focus Areas", "space_id": "my-work"})
    assert written.json() == {"success": True, "space_id": "my-work"}
    assert "# Focus Areas" in ask.get("/context/bundle", space_id="my-work").json()["rendered_markdown"]
    assert ask.get("/agent/working-memory").json()["exists"] is False
    assert ask.delete("/spaces/my-work").json()["reason"] == "working_memory"
