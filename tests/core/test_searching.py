"""How an answer is made of what an engine retrieves: the same for every provider."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from rawthink_conformance.brute import Everything
from rawthink_core.searching import Retrieved

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rawthink_core.clock import ManualClock
    from rawthink_core.memory import Memory
    from rawthink_core.operations import SearchPage
    from rawthink_core.rows import State
    from rawthink_core.selection import Selection

pytestmark = pytest.mark.asyncio


async def say(memory: Memory, *texts: str, about: str = "Kitchen", **more: Any) -> list[str]:
    named = [{"name": about, "entity_type": "thing", "domain": "personal"}]
    said = [{"entity": about, "text": text, **more} for text in texts]
    return (await memory.record(entities=named, observations=said)).ids("observation")


async def chat(memory: Memory, *texts: str, session: str = "s") -> list[str]:
    turns = [{"text": text, "session": session} for text in texts]
    return (await memory.record(passages=turns)).ids("passage")


def texts(page: SearchPage) -> list[str]:
    return [hit.text for hit in page.items]


async def test_the_best_match_is_first_and_scores_lie_between_0_and_1(memory: Memory) -> None:
    await say(memory, "the oven is broken", "the kettle is red", "the oven and the red kettle")
    page = await memory.search("red kettle oven")
    assert texts(page)[0] == "the oven and the red kettle"
    assert all(0 < hit.score <= 1 for hit in page.items)
    assert (page.total, page.truncated, page.degraded) == (3, False, None)


@pytest.mark.parametrize("question", ["", " ", "?!", "\x00", "🤷" * 3, "zebra"])
async def test_a_question_that_nothing_answers_is_answered_with_nothing(
    memory: Memory, question: str
) -> None:
    await say(memory, "the kettle is red")
    assert await memory.search(question) == await memory.search("elephants")


async def test_what_was_left_out_is_told(memory: Memory) -> None:
    await say(memory, *(f"kettle number {n}" for n in range(7)))
    page = await memory.search("kettle", limit=3)
    assert (len(page.items), page.total, page.truncated) == (3, 7, True)


async def test_the_same_question_has_the_same_answer(memory: Memory) -> None:
    await say(memory, *(f"kettle {n}" for n in range(20)))
    assert await memory.search("kettle") == await memory.search("kettle")


async def test_ties_go_to_the_newest(memory: Memory, clock: ManualClock) -> None:
    await say(memory, "a red kettle", about="First")
    clock.tick()
    await say(memory, "a red kettle", about="Second")
    assert [hit.entity_name for hit in (await memory.search("red kettle")).items] == ["Second", "First"]


async def test_an_entity_is_found_by_its_names(memory: Memory) -> None:
    await memory.record(
        entities=[{"name": "Valkey", "entity_type": "thing", "domain": "software", "aliases": ["Redis fork"]}]
    )
    for question in ("valkey", "redis"):
        (hit,) = (await memory.search(question)).items
        assert (hit.item, hit.text, hit.entity_name) == ("entity", "Valkey", "Valkey")


async def test_an_entity_is_found_by_the_names_that_it_had(memory: Memory, clock: ManualClock) -> None:
    await memory.record(
        entities=[{"name": "Redis", "entity_type": "thing", "domain": "software", "aliases": ["cache"]}]
    )
    then = clock.tick()
    clock.tick()
    await memory.revise([{"entity": "Redis"}], fields={"name": "Valkey", "aliases": ["fork"]})
    for question in ("redis", "cache", "valkey", "fork"):
        (hit,) = (await memory.search(question, relevant_only=True)).items
        assert (hit.item, hit.text) == ("entity", "Valkey")
    assert texts(await memory.search("redis", as_of=then)) == ["Redis"]
    page = await memory.search("valkey fork", as_of=then)
    assert (page.items, page.total) == ((), 0)


async def test_a_forgotten_entity_is_found_by_none_of_its_names(memory: Memory) -> None:
    await memory.record(entities=[{"name": "Redis", "entity_type": "thing", "domain": "software"}])
    await memory.revise([{"entity": "Redis"}], fields={"name": "Valkey"})
    await memory.forget(names=["Redis"])
    assert texts(await memory.search("redis valkey")) == []


async def test_turns_of_a_session_support_each_other(memory: Memory) -> None:
    await chat(memory, "the kettle is leaking", "what did the plumber say", "replace the gasket")
    page = await memory.search("kettle", why=True)
    assert texts(page)[0] == "the kettle is leaking"
    lent = {hit.text: hit.why.neighbours for hit in page.items if hit.why}
    assert lent["what did the plumber say"] > lent["replace the gasket"] > 0


async def test_why_tells_how_a_hit_came_to_its_place(memory: Memory, clock: ManualClock) -> None:
    await say(memory, "a red kettle")
    clock.tick(timedelta(days=23))
    (hit,) = (await memory.search("kettle", why=True)).items
    assert hit.why is not None
    assert (hit.why.lexical_rank, hit.why.dense_rank, hit.why.fused) == (1, None, 1.0)
    assert hit.why.decay == pytest.approx(0.95)
    assert hit.score == pytest.approx(0.95)
    assert (await memory.search("kettle")).items[0].why is None


async def test_reading_keeps_warm_and_pinning_keeps_hot(memory: Memory, clock: ManualClock) -> None:
    await say(memory, "a red kettle", about="Read")
    await say(memory, "a red kettle", about="Unread")
    await memory.record(
        entities=[{"name": "Pinned", "entity_type": "thing", "domain": "personal", "pinned": True}],
        observations=[{"entity": "Pinned", "text": "a red kettle"}],
    )
    clock.tick(timedelta(days=100))
    await memory.get(
        next(hit.id for hit in (await memory.search("kettle")).items if hit.entity_name == "Read")
    )
    scores = {hit.entity_name: hit.score for hit in (await memory.search("kettle")).items}
    assert scores["Pinned"] == scores["Read"] == 1
    assert scores["Unread"] < 0.95


async def test_a_question_about_the_past_does_not_decay(memory: Memory, clock: ManualClock) -> None:
    await say(memory, "a red kettle")
    then = clock.now()
    clock.tick(timedelta(days=100))
    assert (await memory.search("kettle", as_of=then)).items[0].score == 1
    assert (await memory.search("kettle")).items[0].score < 0.95


async def test_as_of_answers_what_was_believed_then(memory: Memory, clock: ManualClock) -> None:
    await say(memory, "the kettle is red")
    then = clock.tick(timedelta(days=1))
    clock.tick(timedelta(days=1))
    await memory.revise(
        [{"entity": "Kitchen", "text": "the kettle is red"}], successor={"text": "the kettle is blue"}
    )
    assert texts(await memory.search("kettle")) == ["the kettle is blue"]
    (hit,) = (await memory.search("kettle", as_of=then)).items
    assert (hit.text, hit.status, hit.superseded_by) == ("the kettle is red", "active", None)


async def test_what_was_retired_is_shown_with_its_successor(memory: Memory) -> None:
    await say(memory, "the kettle is red")
    await memory.revise(
        [{"entity": "Kitchen", "text": "the kettle is red"}],
        successor={"text": "it is blue"},
        reason="looked again",
    )
    (hit,) = (await memory.search("red kettle", statuses=["invalidated"])).items
    assert (hit.status, hit.successor, hit.reason) == ("invalidated", "it is blue", "looked again")


async def test_what_no_longer_holds_says_so(memory: Memory) -> None:
    await say(memory, "the kettle is leased", valid_to="2025-12-30")
    await say(memory, "the kettle is mine", valid_from="2025-12-30")
    lapsed = {hit.text: hit.lapsed for hit in (await memory.search("kettle")).items}
    assert lapsed == {"the kettle is leased": True, "the kettle is mine": False}


async def test_chat_recalls_only_what_shares_a_word_that_means_something(memory: Memory) -> None:
    await say(memory, "the kettle is red", "what it was is unknown")
    assert texts(await memory.search("what is it about the kettle", relevant_only=True)) == [
        "the kettle is red"
    ]
    assert texts(await memory.search("what is it", relevant_only=True)) == []


async def told(memory: Memory, text: str) -> str:
    return (await memory.before_chat([{"role": "user", "content": text}])).text


async def test_a_chat_is_not_told_of_what_shares_only_words_of_asking(memory: Memory) -> None:
    await say(memory, "Lea writes five letters a week", "小明解释时间", "Ayşe şiir yazıyor")
    for request in (
        "Write five limericks on pirates",
        "解释一下通货膨胀",
        "Bir mektup yaz",
        "Match ^[a-z]+$ too",
    ):
        assert await told(memory, request) == "", request
    for question in ("What does Lea write?", "小明在哪里?", "Ayşe ne yazıyor?", "What did I write?"):
        assert await told(memory, question) != "", question
    assert len((await memory.search("Write a limerick", relevant_only=True)).items) == 1


async def test_one_word_that_many_items_share_is_no_reason_to_tell_a_chat(memory: Memory) -> None:
    await say(memory, "the heron train is red", *(f"the train was late on day {n}" for n in range(20)))
    assert await told(memory, "Draw a train with a moustache") == ""
    assert "heron" in await told(memory, "Draw a heron with a moustache")
    assert "heron" in await told(memory, "Is the heron train ever late?")
    assert "late" in await told(memory, "How is the train?")


async def test_what_matters_may_stand_anywhere_in_a_long_text(memory: Memory) -> None:
    await say(memory, "word " * 3000 + "kettle")
    assert len((await memory.search("kettle", relevant_only=True)).items) == 1


async def test_hits_of_one_entity_are_grouped_and_entities_counted(memory: Memory) -> None:
    for name in ("One", "Two", "Three"):
        await say(memory, *(f"kettle {n} of {name}" for n in range(60)), about=name)
    await chat(memory, "the kettle again")
    page = await memory.search("kettle", group="entity", limit=2)
    names = [hit.entity_name for hit in page.items]
    assert len(set(names)) == 2
    assert names == sorted(names, key=names.index)
    assert (page.total, page.truncated) in {(3, True), (None, True)}
    whole = await memory.search("kettle", group="entity", limit=10)
    assert (len({hit.entity_name for hit in whole.items}), whole.total, whole.truncated) == (3, 3, False)


class Watched(Everything):
    """An engine that knows where its hits stand, and notes how much is asked of it."""

    depths: ClassVar[list[int]]
    looked: ClassVar[set[str]]

    def lexical(self, terms: tuple[list[int], list[float]], chosen: Selection, depth: int) -> Retrieved:
        self.depths.append(depth)
        return Retrieved(super().lexical(terms, chosen, depth).items, {})

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        self.looked.update(ids)
        return super().states(ids, as_of)


@pytest.fixture
def watched(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    monkeypatch.setattr(Watched, "depths", [], raising=False)
    monkeypatch.setattr(Watched, "looked", set(), raising=False)
    monkeypatch.setattr(memory.provider, "retrieval", Watched)
    return Watched


async def test_groups_take_no_more_than_they_need(memory: Memory, watched: type[Watched]) -> None:
    for n in range(90):
        await say(memory, f"kettle {'and more ' * n}", about=f"Kitchen {n}")
    page = await memory.search("kettle", group="entity", limit=3)
    assert len({hit.entity for hit in page.items}) == 3
    assert (page.total, page.truncated) == (None, True)
    assert watched.depths == [100]
    assert len(watched.looked) < 20


async def test_lists_are_asked_for_deeper_until_there_are_as_many_groups_as_were_asked_for(
    memory: Memory, watched: type[Watched]
) -> None:
    for name, number in (("One", 250), ("Two", 40), ("Three", 40)):
        await say(memory, *(f"kettle of {name}, {n}" for n in range(number)), about=name)
    page = await memory.search("kettle of One", group="entity", limit=2, items=["observation"])
    assert page.items[0].entity_name == "One"
    assert len({hit.entity for hit in page.items}) == 2
    assert page.truncated
    assert watched.depths == [100, 200, 400]


async def test_the_one_search_looks_once_though_it_groups(memory: Memory, watched: type[Watched]) -> None:
    await say(memory, *(f"kettle number {n}" for n in range(50)), about="Loud")
    await say(memory, "somewhere behind all these words there is a kettle, too", about="Quiet")
    page = await memory.search("kettle", group="entity", limit=2, items=["observation"])
    assert (page.total, page.truncated, watched.depths) == (2, False, [100])
    assert [sum(hit.entity_name == name for hit in page.items) for name in ("Loud", "Quiet")] == [50, 1]


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_groups_are_the_same_whatever_an_engine_can_tell(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    for name, number in (("One", 30), ("Two", 4), ("Three", 150), ("Four", 1)):
        await say(
            memory, *(f"kettle {'and more ' * (n % 7)}of {name}, {n}" for n in range(number)), about=name
        )
    blind = await memory.search("kettle", group="entity", limit=limit)
    monkeypatch.setattr(Watched, "depths", [], raising=False)
    monkeypatch.setattr(Watched, "looked", set(), raising=False)
    monkeypatch.setattr(memory.provider, "retrieval", Watched)
    assert await memory.search("kettle", group="entity", limit=limit) == blind
