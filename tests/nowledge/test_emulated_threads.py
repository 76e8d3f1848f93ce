"""Behaviours 23 to 26: threads, and what an append acknowledges."""

from __future__ import annotations

import pytest

from .asking import detail


def said(*contents, **more):
    """Return messages with these contents."""
    return [{"role": "user", "content": content, **more} for content in contents]


def create(ask, thread_id="t", *contents, **more):
    return ask.post("/threads", {"thread_id": thread_id, "messages": said(*contents), **more})


def append(ask, *contents, thread_id="t", messages=None, **more):
    return ask.post(f"/threads/{thread_id}/append", {"messages": messages or said(*contents), **more})


@pytest.mark.parametrize(
    ("generation", "status", "sentence", "code"),
    [
        ("0.6", 500, "Thread creation failed", None),
        ("0.9", 409, "Thread t already exists in space default", None),
        ("0.10", 409, "Thread already exists.", "thread_already_exists"),
    ],
)
def test_b23_thread_exists(start, generation, status, sentence, code):
    ask = start(generation)
    told = create(ask, "t", "hello", title="T").json()
    assert (told["thread"]["thread_id"], told["thread"]["message_count"]) == ("t", 1)
    assert told["thread"]["id"] != "t"
    answer = create(ask, "T")
    assert (answer.status_code, detail(answer), answer.json().get("error_code")) == (status, sentence, code)


def test_b24_append(start):
    ask = start()
    create(ask, "t", "one")
    assert append(ask, "two").json() == {
        "success": True,
        "thread_id": "t",
        "messages_added": 1,
        "total_messages": 2,
        "append_mode": "deduplicated",
    }
    assert append(ask, "one", "two").json()["messages_added"] == 0  # known by their text
    by_id = said("three", "three")
    for number, message in enumerate(by_id):
        message["metadata"] = {"external_id": f"e{number}"}
    assert append(ask, messages=by_id).json()["messages_added"] == 2  # alike, but not the same
    assert append(ask, messages=by_id).json()["messages_added"] == 0
    changed = [{**by_id[0], "content": "other"}]
    assert append(ask, messages=changed).json()["error_code"] == "message_identity_conflict"
    assert append(ask, "one", deduplicate=False).json()["total_messages"] == 5
    key = {"idempotency_key": "k", "expected_message_count": 5}
    told = append(ask, "one", **key).json()
    assert (told["messages_added"], told["append_mode"]) == (1, "checkpointed")
    assert append(ask, "one", **key).json()["messages_added"] == 0  # the retry of a write that was done
    answer = append(ask, "more", expected_message_count=5)
    assert (answer.status_code, answer.json()["error_code"]) == (409, "checkpoint_conflict")
    answer = append(ask, "x", thread_id="nobody")
    assert (answer.status_code, answer.json()["error_code"]) == (400, "thread_not_found")
    assert detail(answer) == "Thread not found: nobody"
    answer = ask.post("/threads/t/append")
    assert (answer.status_code, detail(answer)) == (400, "Either 'file_path' or 'messages' is required")
    old = start("0.6")
    create(old, "t", "one")
    assert "append_mode" not in append(old, "two").json()
    assert "error_code" not in append(old, "x", thread_id="nobody").json()
    answer = old.post("/threads/t/append")
    assert (answer.status_code, detail(answer)[:29]) == (500, "Failed to append messages: 40")


def test_timestamps_are_strings(start):
    for generation in ("0.9", "0.10"):
        ask = start(generation)
        assert append(ask, "x", messages=said("x", timestamp=1767225600)).status_code == 422
        create(ask, "t", "x")
        assert append(ask, messages=said("y", timestamp="2026-01-01T00:00:00Z")).status_code == 200
        shown = ask.get("/threads/t").json()["messages"][1]
        assert (shown["timestamp"], shown["order_index"]) == ("2026-01-01T00:00:00Z", 1)
    assert [
        one["loc"] for one in detail(start("0.9").post("/threads", {"thread_id": "t", "messages": [{}, 1]}))
    ] == [
        ["body", "messages", 0, "role"],
        ["body", "messages", 0, "content"],
        ["body", "messages", 1],
    ]


def test_b25_import_fails_inside(start):
    ask = start()
    good = {"thread_id": "T 1", "title": "T", "messages": said("one")}
    told = ask.post("/threads/import", good).json()
    assert (told["success"], told["imported_count"]) == (True, 1)
    assert told["results"][0] | {"append_mode": "created", "thread_id": "t-1"} == told["results"][0]
    again = {**good, "messages": said("two"), "expected_message_count": 7}
    answer = ask.post("/threads/import", again)
    assert answer.status_code == 200
    told = answer.json()
    assert (told["success"], told["imported_count"], told["failed_count"]) == (False, 0, 1)
    assert told["results"][0]["error_code"] == "checkpoint_conflict"
    told = ask.post(
        "/threads/import", {"threads": [good, {**again, "thread_id": "new"}, {"messages": 1}]}
    ).json()
    assert [row["success"] for row in told["results"]] == [True, False, False]
    assert told["results"][0]["append_mode"] == "deduplicated"
    assert told["results"][1]["error_code"] == "thread_not_found"
    assert "messages: invalid type" in told["results"][2]["error"]
    told = ask.post("/threads/import", {"thread_id": "md", "markdown_content": "# A talk"}).json()
    assert told["results"][0]["message_count"] == 1


def test_b26_thread_ids(start):
    ask = start()
    ask.space("work")
    made = create(ask, "My Thread", "one", "two", "three").json()["thread"]
    assert made["thread_id"] == "my-thread"
    for name in ("my-thread", "MY-THREAD", "My%20Thread", made["id"]):
        shown = ask.get(f"/threads/{name}", limit=2, offset=1).json()
        assert [row["content"] for row in shown["messages"]] == ["two", "three"]
        assert shown["total_messages"] == 3
    answer = ask.get("/threads/my-thread", offset=3)
    assert (answer.status_code, answer.json()["messages"]) == (200, [])
    assert detail(ask.get("/threads/nobody")) == "Thread not found"
    assert ask.get("/threads/my-thread", space_id="work").status_code == 404
    assert append(ask, "x", thread_id="my-thread", space_id="work").json()["error_code"] == "thread_not_found"


def test_threads_are_listed_searched_and_deleted(start):
    ask = start()
    create(ask, "a", "about caching", source="pi")
    create(ask, "b", "about tea", source="cli")
    assert [row["id"] for row in ask.get("/threads").json()["threads"]] == ["b", "a"]
    line = ask.get("/threads", source="pi").json()["threads"][0]
    assert (line["id"], line["messages"]) == ("a", 1)
    found = ask.get("/threads/search", query="tea").json()
    assert (found["total_found"], found["threads"][0]["thread_id"]) == (1, "b")
    assert found["threads"][0]["matched_messages"][0]["content"] == "about tea"
    ask.server.background("summarise", thread_id="a", summary="On caches", title="Caches")
    shown = ask.get("/threads/a").json()["thread"]
    assert (shown["summary"], shown["title"]) == ("On caches", "Caches")
    merged = ask.post("/threads/a/metadata/merge", {"metadata": {"k": "1"}}).json()["metadata"]
    assert ask.post("/threads/a/metadata/merge", {"metadata": {"k": "2"}, "only_missing": True}).json() == {
        "thread_id": "a",
        "metadata": merged,
    }
    memory_id = ask.add("distilled", source_thread_id="a")
    assert ask.get(f"/memories/{memory_id}").json()["source_thread"]["id"] == "a"
    told = ask.delete("/threads/a").json()
    assert (told["deleted_messages"], told["deleted_memories"], told["cascade_deletion"]) == (1, 0, False)
    assert ask.get(f"/memories/{memory_id}").json()["source_thread"] is None
    assert ask.delete("/threads/a").status_code == 404
    ask.add("distilled", id="m", source_thread_id="b")
    assert ask.delete("/threads/b", cascade_delete_memories=True).json()["deleted_memories"] == 1
    assert ask.get("/memories/m").status_code == 404
