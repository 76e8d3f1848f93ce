"""Tools that ask: what they find, how they say it, and that every language is found."""

from __future__ import annotations

import re

import pytest

from rawthink_core.memory import open_memory

pytestmark = pytest.mark.asyncio

ID = r"\[[0-9a-f-]{36}\]"
DECISION = {
    "name": "api/cache: read-through",
    "domain": "software",
    "decided": "read-through cache",
    "because": "the write path is the bottleneck",
    "rejected": ["Redis — one more thing to run"],
}


async def fill(tools):
    told = [
        await tools.record_decision(**DECISION),
        await tools.record(
            entities=[
                {"name": "image store", "entityType": "artifact", "domain": "software", "observations": ["photos are in S3"]},
                {"name": "缓存", "entityType": "concept", "domain": "software", "observations": ["缓存最多留一天", "Önbellek İstanbul'da"]},
                {"name": "moon", "entityType": "open-question", "domain": "galaxy", "observations": ["is Redis on the moon?"]},
            ],
            relations=[{"from": "api/cache: read-through", "to": "image store", "relationType": "used_by"}],
        ),
        await tools.store_thought(text="keep Redis in mind", tags=["work", "db"]),
    ]  # fmt: skip
    assert not any(one.failed for one in told), told


async def test_a_search_finds_why_with_id_score_date_and_kind(connected):
    async with connected() as tools:
        await fill(tools)
        told = await tools.search_thoughts(
            query="Redis: one more thing to run?", source_type="graph", limit=1
        )
    first, text, *_ = told.text.splitlines()[1:]
    assert re.fullmatch(rf"1\. 1\.00 api/cache: read-through \(rejected, \d{{4}}-\d\d-\d\d\) {ID}", first)
    assert text == "  Redis — one more thing to run"
    assert "More match" in told.text


async def test_what_is_said_comes_before_what_is_only_called_so(connected):
    async with connected() as tools:
        await fill(tools)
        told = await tools.search_thoughts(query="moon cache Redis", limit=20)
    lines = told.text.splitlines()
    assert re.fullmatch(rf"By name: (.+ {ID}, )*moon {ID}(, .+ {ID})*", lines[-1])
    assert not any(re.match(r"\d+\. .* \(by name", line) for line in lines)
    assert any("(note, " in line and "moon" in line for line in lines[:-1])


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("缓存", "缓存最多留一天"),
        ("önbellek istanbul", "Önbellek İstanbul'da"),
        ("PHOTOS", "photos are in S3"),
    ],
)
async def test_every_language_is_found(connected, query, found):
    async with connected() as tools:
        await fill(tools)
        assert found in (await tools.search_thoughts(query=query)).text
        assert found in (await tools.search_nodes(query=query)).text


async def test_a_source_narrows_a_search(connected, home):
    sessions = home / "vault" / "sessions"
    sessions.mkdir(parents=True)
    body = (
        '---\nid: "talk-1"\ntitle: "Talk"\ndate: 2025-01-02\ntags: ["db"]\n---\n\n## User\n\nRedis or not?\n'
    )
    (sessions / "2025-01-02_001_talk.md").write_text(body, encoding="utf-8")
    async with open_memory(path=str(home / "vault")) as memory:
        await memory.record(passages=[{"session": "chat-7", "text": "we talked of Redis", "speaker": "Ayşe"}])

    async def sources(tools, **narrowed):
        text = (await tools.search_thoughts(query="Redis", limit=20, **narrowed)).text
        found = {"graph"} if "api/cache" in text or "moon" in text else set()
        return found | {name for name in ("talk-1", "qnote_", "chat-7") if name in text}

    async with connected() as tools:
        await fill(tools)
        assert not (await tools.reindex()).failed
        assert await sources(tools) == {"graph", "talk-1", "qnote_", "chat-7"}
        assert await sources(tools, source_type="graph") == {"graph"}
        assert await sources(tools, source_type="session") == {"talk-1"}
        assert await sources(tools, source_type="qnote") == {"qnote_"}
        assert await sources(tools, source_type="chat") == {"chat-7"}
        assert await sources(tools, tags=["db"]) == {"talk-1", "qnote_"}
        assert await sources(tools, tags=["work"], source_type="session") == set()
        assert await sources(tools, tags=["work"], source_type="qnote") == {"qnote_"}
        told = await tools.search_thoughts(query="Redis", source_type="chat")
        assert "session chat-7 (Ayşe, " in told.text
        assert "#qnote" not in (await tools.search_thoughts(query="Redis")).text


async def test_an_overview_is_a_line_for_each_entity_and_session(connected):
    async with connected() as tools:
        await fill(tools)
        told = await tools.search_thoughts(query="Redis cache", mode="overview")
        lines = told.text.splitlines()
        assert lines[0] == "3 of 3 sessions and entities:"
        assert all(line.startswith("- ") for line in lines[1:])
        assert sum("api/cache" in line for line in lines) == 1
        fewer = await tools.search_thoughts(query="Redis cache", mode="overview", limit=1)
        assert fewer.text.startswith("1 of 3 ")
        assert "More match" in fewer.text


async def test_nodes_are_found_with_what_matched_and_their_relations(connected):
    async with connected() as tools:
        await fill(tools)
        told = await tools.search_nodes(query="bottleneck cache")
        assert re.search(
            rf"^1\. 1\.00 api/cache: read-through \(decision, software, \S+\) {ID}$", told.text, re.MULTILINE
        )
        assert "  - because, " in told.text
        assert "image store —uses→ api/cache: read-through" in told.text
        alone = await tools.search_nodes(query="bottleneck cache", max_relations=0)
        assert "Relations:" not in alone.text
        assert "(decision, software" in alone.text


async def test_as_many_entities_are_found_as_were_asked_for(connected):
    async with connected() as tools:
        said = [f"word {n}" for n in range(40)]
        await tools.record(
            entities=[{"name": "much", "entityType": "task", "domain": "music", "observations": said}]
        )
        others = [
            {"name": f"n{n}", "entityType": "task", "domain": "music", "observations": ["a word, longer"]}
            for n in range(7)
        ]
        await tools.record(entities=others)
        for limit, found in ((3, 3), (8, 8), (50, 8)):
            text = (await tools.search_nodes(query="word", limit=limit)).text
            assert len(re.findall(r"^\d+\. ", text, re.MULTILINE)) == found
            assert ("More match" in text) == (limit == 3), limit
        assert "35 more that match" in text


async def test_filters_take_words_of_the_vocabulary_alone(connected):
    async with connected() as tools:
        await fill(tools)
        assert "moon" in (await tools.search_nodes(query="Redis", domain="galaxy")).text
        assert "moon" not in (await tools.search_nodes(query="Redis", domain="Software")).text
        assert "moon" in (await tools.search_nodes(query="Redis", entity_type="open question")).text
        wrong = await tools.search_nodes(query="Redis", domain="galaxi", entity_type="decison")
        assert wrong.failed
        assert "domain: unknown domain 'galaxi'. Did you mean 'galaxy'?" in wrong.text
        assert "entity_type: unknown entity type 'decison'. Did you mean 'decision'?" in wrong.text


async def test_nothing_found_is_no_error_and_nothing_asked_is(connected):
    async with connected() as tools:
        for search in (tools.search_thoughts, tools.search_nodes):
            told = await search(query="zebra")
            assert not told.failed
            assert told.text == "Nothing found for zebra; other words may find it."
            blank = await search(query=" \n")
            assert blank.failed
            assert blank.text == "query: must not be blank"
        for limit in (0, -1, 101):
            wrong = await tools.search_thoughts(query="x", limit=limit)
            assert wrong.failed
            assert "limit" in wrong.text


async def test_a_challenge_tells_what_speaks_against(connected):
    async with connected() as tools:
        await fill(tools)
        await tools.revise(
            entity_name="image store", observations=["photos are in S3"], superseded_by="we moved Redis there"
        )
        told = await tools.challenge(topic="put Redis in front of photos")
        assert told.text.startswith("Rejected before:\n- api/cache: read-through (rejected, ")
        assert "Believed, and given up:" in told.text
        assert "given up because: we moved Redis there" in told.text
        assert "Left open:\n- moon" in told.text
        assert (await tools.challenge(topic="zebra")).text == "Nothing in this memory speaks against it."
        assert (await tools.challenge(topic="x", limit=101)).failed


async def test_a_decision_for_what_was_rejected_before_is_told(connected):
    async with connected() as tools:
        await fill(tools)
        told = await tools.record_decision(
            name="sessions", domain="software", decided="Redis it is", because="fast"
        )
        assert "! Rejected before: 'Redis' was rejected on " in told.text
        assert "one more thing to run" in told.text
