"""What was rejected comes back when it is decided after all; and a memory can argue back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from rawthink_core.decisions import split_rejected
from rawthink_core.errors import BackendUnavailable, InvalidRequest
from rawthink_core.operations import SearchPage

if TYPE_CHECKING:
    from rawthink_core.clock import ManualClock
    from rawthink_core.decisions import Challenge
    from rawthink_core.memory import Memory
    from rawthink_core.operations import RecordReceipt, SearchQuery


async def decide(memory: Memory, name: str = "api/cache", **parts: Any) -> RecordReceipt:
    given = {"domain": "software", "decided": "something", "because": "it is so", **parts}
    return await memory.record_decision(name=name, **given)


@pytest.mark.parametrize(
    ("entry", "option", "why"),
    [
        ("write-through — couples writes to cache health", "write-through", "couples writes to cache health"),
        ("Redis - too much to run", "Redis", "too much to run"),
        ("a - b — c", "a", "b — c"),
        ("a — b - c", "a", "b - c"),
        ("write-through", "write-through", ""),
        ("well-known — ", "well-known", ""),
        (" spaced  —  out ", "spaced", "out"),
        (" — no option", "", "no option"),
        ("", "", ""),
    ],
)
def test_an_option_and_its_reason_part_at_the_first_dash(entry: str, option: str, why: str) -> None:
    assert split_rejected(entry) == (option, why)


@pytest.mark.asyncio
async def test_a_decision_is_an_entity_with_one_observation_a_part(memory: Memory) -> None:
    await decide(
        memory,
        decided="read-through",
        because=["writes are slow", "reads are many"],
        rejected=["write-through — couples writes"],
        touches=["api"],
        epistemic="assertion",
        visibility="shareable",
        valid_from="2025-06-01",
    )
    page = await memory.graph("api/cache")
    (entity,) = page.entities
    assert (entity.entity_type, entity.domain, entity.epistemic, entity.visibility) == (
        "decision", "software", "assertion", "shareable",
    )  # fmt: skip
    assert {(said.kind, said.text, said.valid_from is not None) for said in page.observations} == {
        ("decided", "read-through", True),
        ("because", "writes are slow", True),
        ("because", "reads are many", True),
        ("rejected", "write-through — couples writes", False),
        ("touches", "api", False),
    }


@pytest.mark.asyncio
async def test_even_a_decision_is_of_unknown_standing_unless_said_otherwise(memory: Memory) -> None:
    await decide(memory)
    (entity,) = (await memory.graph("api/cache")).entities
    assert (entity.epistemic, entity.visibility) == ("unknown", "private")


@pytest.mark.asyncio
async def test_one_text_is_one_entry_and_not_its_letters(memory: Memory) -> None:
    await decide(memory, rejected="Redis - too much to run", touches="api")
    said = (await memory.graph("api/cache")).observations
    assert [one.text for one in said if one.kind in ("rejected", "touches")] == [
        "Redis - too much to run",
        "api",
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("parts", "place"),
    [
        ({"decided": None}, "observations.0.text"),
        ({"decided": ""}, "observations.0.text"),
        ({"because": None}, "observations.1.text"),
        ({"because": ["fine", 5]}, "observations.2.text"),
        ({"rejected": ["\ud800"]}, "observations.2.text"),
        ({"touches": 7}, "observations.2.text"),
        ({"domain": "softwear"}, "entities.0.domain"),
        ({"name": "\u200b"}, "entities.0.name"),
        ({"valid_from": "soon"}, "observations.0.valid_from"),
    ],
)
async def test_a_decision_that_makes_no_sense_is_a_fault_with_its_place(
    memory: Memory, parts: dict[str, Any], place: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await decide(memory, **parts)
    assert place in [fault.where for fault in refused.value.faults]


# --- advice -------------------------------------------------------------------------------------


def told(receipt: RecordReceipt) -> list[str]:
    return [advice.text for advice in receipt.advice if advice.kind == "rejected_before"]


@pytest.mark.asyncio
async def test_deciding_what_was_rejected_before_is_told_when_and_why(memory: Memory) -> None:
    (_, _, _, rejected) = (await decide(memory, rejected="Redis — too much to run")).ids()
    receipt = await decide(memory, "sessions", decided="keep them in Redis")
    assert told(receipt) == ["'Redis' was rejected on 2026-01-01 in 'api/cache': too much to run"]
    assert receipt.advice[0].ids == (rejected,)


@pytest.mark.asyncio
async def test_the_day_is_the_stores(memory: Memory) -> None:
    await memory.record(
        entities=[{"name": "old", "entity_type": "decision", "domain": "software"}],
        observations=[{"entity": "old", "kind": "rejected", "text": "Redis", "valid_from": "2025-06-01"}],
    )
    assert told(await decide(memory, decided="Redis")) == ["'Redis' was rejected on 2025-06-01 in 'old'"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("option", "decided", "reminded"),
    [
        ("write-through", "a write-through cache", True),
        ("Write-Through Cache", "cache, by write-through", True),
        ("Redis cluster", "Redis", False),
        ("Redis", "a Redis cluster", True),
        ("C++", "C", False),
        ("C++", "C++ for the core", True),
        ("Rust 重写", "用 Rust 重写后端", True),
        ("the", "the thing", False),
        ("—", "anything", False),
    ],
)
async def test_an_option_counts_when_all_that_it_means_is_in_what_was_decided(
    memory: Memory, option: str, decided: str, reminded: bool
) -> None:
    await decide(memory, rejected=f"{option} — for a reason")
    assert bool(told(await decide(memory, "other", decided=decided))) is reminded


@pytest.mark.asyncio
async def test_the_name_of_a_decision_counts_as_well(memory: Memory) -> None:
    await decide(memory, rejected="Redis")
    assert told(await decide(memory, "why we use Redis", decided="yes, we do"))


@pytest.mark.asyncio
async def test_words_of_two_decisions_do_not_add_up(memory: Memory) -> None:
    await decide(memory, rejected="Redis cluster")
    named = [{"name": name, "entity_type": "decision", "domain": "software"} for name in ("one", "two")]
    said = [
        {"entity": "one", "kind": "decided", "text": "Redis"},
        {"entity": "two", "kind": "decided", "text": "a cluster"},
    ]
    assert told(await memory.record(entities=named, observations=said)) == []


@pytest.mark.asyncio
async def test_what_is_rejected_with_the_same_decision_is_no_news(memory: Memory) -> None:
    assert told(await decide(memory, decided="Redis after all", rejected="Redis")) == []


@pytest.mark.asyncio
async def test_what_never_was_rejected_is_no_reminder(memory: Memory) -> None:
    (said,) = (await decide(memory, rejected="Redis")).ids()[-1:]
    await memory.revise([{"id": said}], reason="that was another project")
    assert told(await decide(memory, "other", decided="Redis")) == []


@pytest.mark.asyncio
async def test_no_advice_undoes_a_decision(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def down(query: SearchQuery) -> SearchPage:
        raise BackendUnavailable("the index is gone")

    monkeypatch.setattr(memory.provider, "search", down)
    receipt = await decide(memory, rejected="Redis")
    assert receipt.advice == ()
    assert receipt.ids("observation", "created")


# --- arguing back -------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_memory_argues_back_with_all_that_it_has(memory: Memory, clock: ManualClock) -> None:
    await decide(memory, decided="read-through cache", rejected="write-through cache — couples writes")
    await memory.record(
        entities=[
            {"name": "cache size", "entity_type": "open-question", "domain": "software"},
            {
                "name": "cache is cheap",
                "entity_type": "concept",
                "domain": "software",
                "epistemic": "hypothesis",
            },
            {"name": "cache costs", "entity_type": "finding", "domain": "software"},
        ],
        observations=[
            {"entity": "cache size", "text": "how large may the cache grow?"},
            {"entity": "cache costs", "text": "the cache fits into memory"},
        ],
        relations=[{"source": "cache costs", "type": "contradicts", "target": "cache is cheap"}],
    )
    clock.tick()
    await memory.revise(
        [{"entity": "cache costs", "text": "the cache fits into memory"}],
        successor={"text": "the cache needs a disk"},
    )
    found: Challenge = await memory.challenge("should we trust the cache?")
    assert [hit.text for hit in found.rejected] == ["write-through cache — couples writes"]
    assert [(hit.text, hit.successor) for hit in found.revised] == [
        ("the cache fits into memory", "the cache needs a disk")
    ]
    assert [(r.source_name, r.target_name) for r in found.contradictions] == [
        ("cache costs", "cache is cheap")
    ]
    assert [entity.name for entity in found.uncertain] == ["cache is cheap"]
    assert {hit.entity_name for hit in found.open_questions} == {"cache size"}
    assert not found.empty


@pytest.mark.asyncio
@pytest.mark.parametrize("topic", ["zebras", "", "?", "the"])
async def test_where_nothing_speaks_against_it_nothing_is_said(memory: Memory, topic: str) -> None:
    await decide(memory, rejected="Redis")
    found = await memory.challenge(topic)
    assert found.empty
    assert found.degraded is None


@pytest.mark.asyncio
async def test_arguing_retires_nothing(memory: Memory) -> None:
    await decide(memory, rejected="Redis")
    before = (await memory.scan()).items
    await memory.challenge("Redis")
    assert (await memory.scan()).items == before


@pytest.mark.asyncio
async def test_arguing_is_no_reading(memory: Memory, clock: ManualClock) -> None:
    await decide(memory, "cache", rejected="Redis")

    async def scores() -> dict[str, float]:
        return {hit.id: hit.score for hit in (await memory.search("Redis cache")).items}

    clock.tick(timedelta(days=100))
    before = await scores()
    await memory.challenge("Redis cache")
    assert await scores() == before
    await memory.history(name="cache")
    after = await scores()
    assert all(after[item] > score for item, score in before.items())


@pytest.mark.asyncio
async def test_only_what_was_found_is_told_to_be_uncertain(memory: Memory) -> None:
    await decide(memory, "cache", rejected="Redis")
    rumour = {"name": "rumour", "entity_type": "concept", "domain": "software", "epistemic": "speculation"}
    await memory.record(
        entities=[rumour], relations=[{"source": "cache", "type": "related_to", "target": "rumour"}]
    )
    assert (await memory.challenge("Redis cache")).uncertain == ()
    assert [entity.name for entity in (await memory.challenge("rumour")).uncertain] == ["rumour"]


@pytest.mark.asyncio
async def test_no_more_of_each_sort_than_asked_for(memory: Memory) -> None:
    await decide(memory, rejected=[f"Redis {n}" for n in range(9)])
    assert len((await memory.challenge("Redis", limit=3)).rejected) == 3
    assert len((await memory.challenge("Redis", limit=100)).rejected) == 9


@pytest.mark.asyncio
@pytest.mark.parametrize(("topic", "limit"), [("t", 0), ("t", 101), ("t", "ten"), (None, 5), ("\ud800", 5)])
async def test_a_challenge_that_makes_no_sense_is_a_fault(memory: Memory, topic: Any, limit: Any) -> None:
    with pytest.raises(InvalidRequest):
        await memory.challenge(topic, limit=limit)


@pytest.mark.asyncio
async def test_an_answer_that_may_be_incomplete_says_so(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def half(query: SearchQuery) -> SearchPage:
        return SearchPage(degraded="the index holds 5 of 9")

    monkeypatch.setattr(memory.provider, "search", half)
    assert (await memory.challenge("cache")).degraded == "the index holds 5 of 9"
