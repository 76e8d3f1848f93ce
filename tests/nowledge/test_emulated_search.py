"""Behaviours 14 to 17: what is found, how it is scored and shown, and how search lags."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rawthink_nowledge_emulator.index import LEAST, score, words

from .asking import detail


def test_b14_post_search(start):
    ask = start("0.10")
    ask.add("the cache is read-through", id="both", labels=["x"])
    ask.add("the cache", id="half")
    ask.add("nothing of that kind", id="none")
    hits = ask.post("/memories/search", {"query": "cache read through"}).json()
    assert [hit["memory"]["id"] for hit in hits] == ["both", "half"]
    assert hits[0].keys() == {
        "memory",
        "similarity_score",
        "relevance_reason",
        "related_entities",
        "evolves_context",
        "related_memory_links",
    }
    scores = [hit["similarity_score"] for hit in hits]
    assert 1.0 >= scores[0] > scores[1] >= LEAST
    assert "label_ids" not in hits[0]["memory"]
    assert hits[0]["relevance_reason"] == "Text Match (65%) + Keyword Match (35%)"
    assert ask.found("cache and six more words that stand nowhere") == []  # below 0.20
    for body in ({}, {"query": ""}, {"query": None}):
        answer = ask.post("/memories/search", body)
        assert (answer.status_code, answer.json()) == (200, [])
    assert ask.found("cache read through", offset=1) == ["half"]
    assert ask.found("cache", mode="deep") == ask.found("cache", mode="fast") == ask.found("cache", mode="?")
    old = start("0.9")
    old.add("cache", id="m")
    assert old.post("/memories/search", {}).status_code == 422
    assert old.found("cache", offset=1) == ["m"]


def test_b15_get_search(start):
    ask = start()
    for number in range(4):
        ask.add(f"cache {number}", id=str(number), confidence=0.9, importance=number / 10)
    told = ask.get("/memories/search", q="cache", limit=2).json()
    assert told["pagination"] == {"limit": 2, "offset": 0, "total": 2, "has_more": True}
    assert told["search_metadata"]["search_mode"] == "fast_bm25_vector"
    row = told["memories"][0]
    assert row["confidence"] == row["metadata"]["similarity_score"] == 1.0
    assert row["metadata"]["search_query"] == "cache"
    assert ask.get("/memories/3").json()["confidence"] == 0.9
    # The names of POST are none here: the newest memories come back, which look like hits.
    assert ask.browsed(query="cache 1", filter_labels="no such", limit=2) == ["3", "2"]
    assert ask.browsed(q="") == ask.browsed() == ["3", "2", "1", "0"]
    assert ask.get("/memories/search").json()["memories"][0]["confidence"] == 0.9
    assert ask.browsed(q="cache", importance_min=0.2) == ["3", "2"]
    assert ask.get("/memories/search", limit=101).status_code == 422


def test_filters_of_both_searches(start):
    ask = start(start=datetime(2026, 5, 5, tzinfo=UTC))
    ask.add("note", id="a", labels=["x"], metadata={"k": "1", "n": 7}, event_start="2024-03-05")
    ask.add("note", id="b", labels=["y"], metadata={"k": "2"}, unit_type="plan", event_start="2024-04")
    ask.add("note", id="c", metadata={"k": "1", "other": "z"}, temporal_context="past")
    by = {
        "metadata": [["k=1"], ["k=1", "k=2"], ["k=1", "other=z"], ["k=1=1"], ["no equals sign"]],
        "labels": [["x"], ["X"], ["x", "y"], ["label_y"]],
    }
    wanted = {
        "metadata": ["ca", "cba", "c", "", "cba"],
        "labels": ["a", "a", "ba", "b"],
    }
    for name, filters in by.items():
        post = {"metadata": "metadata_filters", "labels": "filter_labels"}[name]
        for said, ids in zip(filters, wanted[name], strict=True):
            assert ask.found("note", **{post: said}) == list(ids)
            assert ask.browsed(q="note", **{name: said}) == list(ids)
    for said, ids in (
        ({"unit_type": "plan"}, "b"),
        ({"event_date_from": "2024-04"}, "b"),
        ({"event_date_to": "2024-03"}, "a"),
        ({"event_date_from": "2024", "event_date_to": "2024"}, "ba"),
        ({"recorded_date_from": "2026-05-06"}, ""),
        ({"recorded_date_to": "2026-05-05"}, "cba"),
    ):
        assert ask.found("note", **said) == ask.browsed(q="note", **said) == list(ids)
    assert ask.found("note", temporal_context="past") == ["c"]
    assert ask.found("note", metadata_filters=["n=7"]) == []
    ask.server.advance(2 * 86400)
    assert ask.browsed(q="note", time_range="today") == []
    assert len(ask.browsed(q="note", time_range="week")) == 3


def test_b16_index_lag(start):
    ask = start(start=datetime(2026, 1, 1, tzinfo=UTC))
    ask.server.lag(searches=2)
    ask.add("later", id="m")
    assert ask.get("/memories/m").status_code == 200
    assert ask.listed() == ["m"]
    assert [ask.found("later") for _ in range(3)] == [[], [], ["m"]]
    ask.server.lag(seconds=30)
    ask.patch("/memories/m", content="changed", title="changed")
    assert ask.found("later") == ["m"]  # found by what it said before, shown as it is
    assert ask.found("changed") == []
    ask.server.advance(30)
    assert (ask.found("later"), ask.found("changed")) == ([], ["m"])
    ask.server.lag(never=True)
    ask.add("lost", id="n")
    ask.server.advance(1e6)
    assert ask.found("lost") == []
    assert ask.get("/health").json()["embedding"]["reindex_needed"]
    assert ask.post("/memories/reindex").json() == {"status": "completed", "indexed": 2}
    assert ask.found("lost") == ["n"]
    ask.delete("/memories/n")
    assert ask.found("lost") == []  # still in the index, but no memory any more
    assert ask.post("/memories/reindex").json()["indexed"] == 1


def test_changes_of_one_memory_are_seen_in_their_order(start):
    ask = start()
    ask.server.lag(searches=3)
    ask.add("one", id="m")
    ask.server.lag()
    ask.patch("/memories/m", title="two", content="two")
    assert [ask.found("two") for _ in range(4)] == [[], [], [], ["m"]]
    assert ask.found("one") == []


def test_b17_degraded(start):
    ask = start()
    ask.add("caching is hard", id="near")
    assert ask.found("caches") == ["near"]
    ask.server.degrade()
    assert ask.found("caches") == []
    assert ask.found("caching") == ["near"]
    health = ask.get("/health").json()
    assert health["status"] == "ok"
    assert health["embedding"]["degraded"]
    assert ask.get("/memories/search", q="caching").json()["search_metadata"]["fallback_status"]["degraded"]
    ask.server.degrade(degraded=False)
    assert "fallback_status" not in ask.get("/memories/search", q="caching").json()["search_metadata"]


def test_the_score_is_what_it_says():
    assert score(words("a b"), words("a b c"))[0] == 1.0
    assert score(words("a b"), words("a"))[0] == 0.5
    assert score(words("caches"), words("caching"))[0] == 0.325
    assert score(words("caches"), words("caching"), degraded=True)[0] == 0.0
    assert score(words(""), words("a"))[0] == 0.0
    assert words("Read-through 记忆") == {"read", "through", "记", "忆"}


@pytest.mark.parametrize("way", ["get", "post"])
def test_a_search_sees_its_own_space_and_what_that_shares(start, way):
    ask = start()
    ask.server.add_space("mine")
    ask.server.add_space("shared", mode="shared", shared=["mine"])
    ask.server.add_space("all", mode="all")
    for space_id in ("default", "mine", "shared", "all"):
        ask.add("note", id=space_id, space_id=space_id)

    def found(**said):
        return set(ask.found("note", **said) if way == "post" else ask.browsed(q="note", **said))

    assert found() == {"default"}
    assert found(space_id="mine") == {"mine"}
    assert found(space_id="shared") == {"shared", "mine"}
    assert found(space_id="all") == {"default", "mine", "shared", "all"}


def test_a_refused_search_says_why(start):
    answer = start("0.10").post("/memories/search", {"query": "x", "limit": 500})
    assert (answer.status_code, detail(answer)) == (422, "limit must be between 1 and 100")
    answer = start("0.10").post("/memories/search", {"query": 7})
    assert answer.status_code == 422
    assert "query: invalid type: integer `7`, expected a string" in answer.text
