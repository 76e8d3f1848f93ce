"""Searching by words and by meaning at once: what counts, what it costs, and what an answer says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from rawthink_conformance.reference import ReferenceProvider
from rawthink_conformance.toys import ToyEmbedder
from rawthink_core.memory import Memory
from rawthink_core.operations import SearchQuery, parse
from rawthink_core.provider import World
from rawthink_core.ranking import Place
from rawthink_core.rows import State
from rawthink_core.searching import Asked, Retrieval, Retrieved, Seat, answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from rawthink_core.clock import ManualClock
    from rawthink_core.operations import SearchPage
    from rawthink_core.retrieval import Terms
    from rawthink_core.selection import Selection

AT = "2026-01-01T00:00:00.000000Z"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ASKED = Asked((1.0,), 0.4, 0.6)


@dataclass
class Shelf:
    """A store that retrieves what it is told to, and counts what is looked at."""

    lexical_list: Sequence[tuple[str, float]] = ()
    dense_list: Sequence[tuple[str, float]] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    passages: bool = False
    looked: list[str] = field(default_factory=list)
    places: int = 0

    def state(self, item: str) -> State:
        text = self.texts.get(item, f"text of {item}")
        if self.passages:
            row = {"op": "passage", "id": item, "session": item, "ordinal": 0, "key": item, "text": text}
            return State(item, "passage", row, AT)
        return State(
            item, "observation", {"op": "observation", "entity": "e", "kind": "note", "text": text}, AT
        )

    def _listed(self, ranked: Sequence[tuple[str, float]], depth: int) -> Retrieved:
        shown = list(ranked[:depth])
        return Retrieved(shown, {item: Seat(Place(item, 0)) for item, _ in shown} if self.passages else {})

    def retrieve(
        self, terms: Terms, vector: Sequence[float] | None, chosen: Selection, depth: int
    ) -> tuple[Retrieved, Retrieved]:
        near = self.dense_list if vector is not None else ()
        return self._listed(self.lexical_list if terms[0] else (), depth), self._listed(near, depth)

    def states(self, ids: Collection[str], as_of: str | None) -> Mapping[str, State]:
        self.looked += ids
        return {item: self.state(item) for item in ids}

    def passages_at(self, places: Collection[Place], as_of: str | None) -> Mapping[Place, State]:
        self.places += len(places)
        return {}

    def last_used(self, ids: Collection[str]) -> Mapping[str, date]:
        return {}


def search(store: Retrieval, text: str = "kettle", asked: Asked | None = ASKED, **more: Any) -> SearchPage:
    query = parse(SearchQuery, {"scope": {"space": "home"}, "text": text, "why": True, **more})
    return answer(query, store, NOW, None, asked)


def ids(page: SearchPage) -> list[str]:
    return [hit.id for hit in page.items]


def descending(names: Sequence[str], top: float, step: float) -> list[tuple[str, float]]:
    return [(name, top - n * step) for n, name in enumerate(names)]


# --- what counts --------------------------------------------------------------------------------


def test_what_shares_no_word_counts_from_the_floor_on() -> None:
    store = Shelf([("word", 3.0)], [("near", 0.9), ("edge", 0.6), ("far", 0.59), ("word", 0.1)])
    page = search(store)
    assert set(ids(page)) == {"word", "near", "edge"}
    assert (page.total, page.truncated) == (3, False)


def told(store: Shelf, asked: Asked | None = ASKED, text: str = "the red kettle on the stove") -> set[str]:
    """Return what a chat is told of: floor .6, near by no chance from .7 on, far below .548."""
    return set(ids(search(store, text, asked, relevant_only=True, unasked=True)))


def test_a_chat_is_told_by_meaning_alone_only_of_what_is_near_by_no_chance() -> None:
    store = Shelf((), [("sure", 0.7), ("likely", 0.69), ("floor", 0.6)])
    assert told(store) == {"sure"}
    assert set(ids(search(store, relevant_only=True))) == {"sure", "likely", "floor"}, "who asks is told more"


def test_a_lone_word_of_what_is_far_in_meaning_is_not_told_in_a_chat() -> None:
    texts = {
        "one": "a kettle",
        "far": "a kettle",
        "two": "a red kettle",
        "waits": "a kettle without a vector",
    }
    words = descending(list(texts), 3.0, 0.1)
    store = Shelf(words, [("one", 0.55), ("far", 0.54), ("two", 0.1)], texts)
    assert told(store) == {"one", "two", "waits"}
    assert set(ids(search(store, relevant_only=True))) == set(texts), "who asks is told"
    assert told(store, None) == set(texts), "nobody knows what is far"
    assert told(store, Asked((1.0,), 0.4, 1.0)) == set(texts), "nor with a model that nobody has measured"


def test_what_a_full_list_by_meaning_does_not_hold_is_as_far_as_its_last() -> None:
    texts = {"word": "a kettle"}
    for last, expected in ((0.5, set[str]()), (0.56, {"word"})):
        others = descending([f"other {n}" for n in range(100)], last + 0.0099, 0.0001)
        assert told(Shelf([("word", 3.0)], others, texts)) == expected


def test_a_hit_in_both_lists_says_its_ranks_and_raw_scores() -> None:
    page = search(Shelf([("a", 3.0), ("b", 1.5)], [("b", 0.9), ("c", 0.8)]))
    why = {hit.id: hit.why for hit in page.items}
    assert why["b"] is not None
    assert why["c"] is not None
    assert (why["b"].lexical_rank, why["b"].lexical_score) == (2, 1.5)
    assert (why["b"].dense_rank, why["b"].dense_score) == (1, 0.9)
    assert (why["c"].lexical_rank, why["c"].lexical_score, why["c"].dense_rank) == (None, None, 2)


def test_a_question_without_words_is_answered_by_its_meaning() -> None:
    store = Shelf([("never", 1.0)], [("near", 0.9), ("far", 0.2)])
    assert ids(search(store, "??")) == ["near"]
    assert ids(search(store, "??", None)) == []


def test_a_chance_match_does_not_outweigh_what_the_question_means() -> None:
    """The best hit by words holds one word of five; what is near in meaning comes first."""
    question = "kettle gasket plumber invoice warranty"
    lists = ([("chance", 2.0)], [("near", 0.9), ("chance", 0.61)])
    assert ids(search(Shelf(*lists, {"chance": "a kettle"}), question))[0] == "near"
    whole = Shelf(*lists, {"chance": "the plumber put a new gasket into the kettle on warranty"})
    assert ids(search(whole, question))[0] == "chance"


def test_the_best_hit_by_words_may_be_very_long() -> None:
    store = Shelf([("long", 2.0)], [("near", 0.9)], {"long": "word " * 10_000})
    assert ids(search(store)) == ["long", "near"]


def test_a_chat_is_told_of_what_is_near_or_shares_a_word() -> None:
    store = Shelf(
        [("word", 3.0), ("gram", 2.0)],
        [("near", 0.9), ("far", 0.5)],
        {"word": "the kettle", "gram": "a settler"},
    )
    page = search(store, "the kettle is", relevant_only=True)
    assert set(ids(page)) == {"word", "near"}
    assert page.total == 2


# --- counting -----------------------------------------------------------------------------------


def test_hits_are_counted_where_what_lies_below_a_full_list_does_not_count() -> None:
    names = [f"n{n}" for n in range(100)]
    assert search(Shelf([], descending(names, 0.9501, 0.005))).total == 71
    page = search(Shelf([], descending(names, 0.95, 0.001)))
    assert (page.total, page.truncated) == (None, True)
    assert search(Shelf([("a", 1.0)], descending(names, 0.5, 0.001))).total == 1


# --- cost ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("passages", [False, True])
def test_two_lists_are_looked_at_no_more_than_one(passages: bool) -> None:
    words, meanings = ([f"{kind}{n}" for n in range(100)] for kind in "wm")
    one = Shelf(descending(words, 9.0, 0.05), passages=passages)
    two = Shelf(one.lexical_list, descending(meanings, 0.99, 0.001), passages=passages)
    assert len(ids(search(one, asked=None))) == len(ids(search(two))) == 10
    assert len(two.looked) <= len(one.looked) + 15 + 1  # a few beyond the border, and the best hit by words
    assert max(one.places, two.places) <= 2 * 15, "of 600 around what was found"


def test_grouping_goes_deeper_in_both_lists() -> None:
    names = [f"n{n}" for n in range(250)]
    store = Shelf(descending(names, 9.0, 0.01), descending(names, 0.99, 0.001))
    page = search(store, group="entity", limit=2, why=False)
    assert page.total == 1
    assert not page.truncated


# --- through a provider -------------------------------------------------------------------------


@pytest.fixture
def embedder(tmp_path: Path) -> ToyEmbedder:
    embedder = ToyEmbedder()
    embedder.fingerprint += str(tmp_path)
    return embedder


@pytest_asyncio.fixture
async def knowing(tmp_path: Path, clock: ManualClock, embedder: ToyEmbedder) -> AsyncIterator[Memory]:
    provider = ReferenceProvider(
        World(path=tmp_path / "store", clock=clock, embedder=embedder, timezone="UTC")
    )
    await provider.open()
    yield Memory(provider)
    await provider.close()


@pytest.mark.asyncio
async def test_an_entity_is_found_by_the_meaning_of_the_names_that_it_had(
    knowing: Memory, clock: ManualClock
) -> None:
    for name in ("Kitten", "Physician"):
        await knowing.record(entities=[{"name": name, "entity_type": "thing", "domain": "personal"}])
    then = clock.tick()
    clock.tick()
    await knowing.revise([{"entity": "Kitten"}], fields={"name": "Automobile"})
    found = {
        question: [hit.text for hit in (await knowing.search(question, as_of=then)).items]
        for question in ("cat", "car", "doctor")
    }
    # what a vector of all names says of a former one can't be told apart; nothing is shown for a later one
    assert found == {"cat": [], "car": [], "doctor": ["Physician"]}
    assert [hit.text for hit in (await knowing.search("car")).items] == ["Automobile"]
    assert [hit.text for hit in (await knowing.search("kitten", as_of=then)).items] == ["Kitten"]


@pytest.mark.asyncio
async def test_turns_around_what_is_near_are_found_with_it(knowing: Memory) -> None:
    turns = ("good morning", "our feline sleeps", "on the sofa, as always", "thanks")
    await knowing.record(passages=[{"text": text, "session": "s"} for text in turns])
    hits = (await knowing.search("cat")).items
    assert [hit.text for hit in hits[:2]] == ["our feline sleeps", "on the sofa, as always"]


@pytest.mark.asyncio
async def test_an_answer_without_vectors_says_so_and_the_next_one_has_them(
    knowing: Memory, embedder: ToyEmbedder
) -> None:
    await knowing.record(passages=[{"text": "our feline sleeps", "session": "s"}])
    embedder.down = True
    page = await knowing.search("feline cat")
    assert [hit.text for hit in page.items] == ["our feline sleeps"]
    assert page.degraded == "embedder toy: the embedder 'toy' is down; start it; found by words only"
    embedder.down = False
    page = await knowing.search("feline cat")
    assert page.degraded is None
    assert page.items[0].score == 1
