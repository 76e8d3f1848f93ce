"""Faults that users of other memories have reported, asked of each of our backends."""

from __future__ import annotations

import pytest

from rawthink_core.errors import BackendError

from .kinds import EVERY, KINDS, opened

pytestmark = pytest.mark.asyncio

SOME = tuple(kind for kind in KINDS if kind != "nowledge 0.9")
ON_EACH = pytest.mark.parametrize("kind", SOME)

HOSTILE = (
    "O'Brien",
    "x' OR 1=1 --",
    "'; DROP TABLE memories; --",
    'say "so"',
    'x" OR "1"="1',
    "back\\slash'",
    "100%_of*it?",
    "a,b=c&d#e;f",
    "../../etc/passwd",
    "a\nb'\tc",
    "张三'的",
    "x') OR (1=1",
    "{0} %s $1 ?1 :a",
)


def thing(name, **more):
    return {"name": name, "entity_type": "thing", "domain": "software", **more}


async def found(memory, question, **filters):
    return sorted(hit.text for hit in (await memory.search(question, limit=100, **filters)).items)


async def everything(memory, **filters):
    """Return all items, page by page, with pages smaller than they need be."""
    items, cursor = [], None
    while True:
        page = await memory.scan(limit=100, cursor=cursor, **filters)
        items += page.items
        if (cursor := page.cursor) is None:
            return items
        assert len(page.items) == 100


# --- a page taken for the whole -------------------------------------------------------------------


@ON_EACH
async def test_no_verb_stops_at_a_page_and_what_is_erased_is_of_one_space_only(tmp_path, kind):
    async with opened(kind, tmp_path) as alice:
        bob = alice.in_space("bob")
        for memory, number in ((alice, 120), (bob, 5)):
            said = [{"entity": "NAS", "text": f"note {n}"} for n in range(number)]
            await memory.record(entities=[thing("NAS")], observations=said)
            said = [{"session": "talk", "text": f"turn {n}"} for n in range(number)]
            await memory.record(passages=said)
        assert len(await everything(alice)) == 241
        assert len((await alice.history(name="NAS")).observations) == 120
        page = await alice.graph(names=["NAS"])
        assert len(page.observations) == 120 or page.truncated
        rows = [row for commit in [c async for c in alice.export()] for row in commit.rows]
        assert len(rows) == 241
        assert (await alice.forget(sessions=["talk"])).count == 120
        assert len(await everything(alice)) == 121
        assert (await alice.forget(names=["NAS"])).count == 121
        assert await everything(alice, statuses=EVERY) == []
        assert len(await everything(bob)) == 11
        assert (await bob.forget(everything=True)).count == 11
        assert await everything(bob, statuses=EVERY) == []


# --- a value taken for a part of the query --------------------------------------------------------


@ON_EACH
async def test_hostile_text_in_any_place_names_itself_and_nothing_else(tmp_path, kind):
    async with opened(kind, tmp_path) as memory:
        for n, word in enumerate(HOSTILE):
            await memory.record(
                entities=[thing(f"n {word}", aliases=[f"also {word}"])],
                observations=[{"entity": f"n {word}", "text": f"heron {n}"}],
                passages=[
                    {
                        "session": f"s {word}",
                        "key": f"k {word}",
                        "speaker": f"p {word}",
                        "tags": [f"t {word}"],
                        "text": f"stork {n}",
                    }
                ],
                batch_id=f"b {word}",
            )
        every = await everything(memory)
        assert len(every) == 3 * len(HOSTILE)
        for n, word in enumerate(HOSTILE):
            assert await found(memory, "heron stork", sessions=[f"s {word}"]) == [f"stork {n}"]
            assert await found(memory, "heron stork", tags=[f"t {word}"]) == [f"stork {n}"]
            assert await found(memory, "heron stork", tags=[word]) == []
            for name in (f"n {word}", f"also {word}"):
                (entity,) = (await memory.get(names=[name])).items
                assert entity.name == f"n {word}"
            assert [o.text for o in (await memory.graph(names=[f"n {word}"])).observations] == [f"heron {n}"]
            assert (await memory.get(f"{every[0].id}{word}")).missing
            assert (
                await memory.forget(ids=[word, f"{every[0].id}{word}"], names=[word], sessions=[word])
            ).count == 0
        assert await everything(memory) == every

        for n, word in enumerate(HOSTILE):
            target = {"entity": f"n {word}", "text": f"heron {n}"}
            await memory.revise([target], successor={"text": f"egret {n} {word}"}, reason=word)
            await memory.record(passages=[{"session": f"s {word}", "key": f"k {word}", "text": f"crane {n}"}])
        assert await found(memory, "heron stork") == []
        assert await found(memory, "egret") == sorted(f"egret {n} {word}" for n, word in enumerate(HOSTILE))
        assert await found(memory, "crane") == sorted(f"crane {n}" for n in range(len(HOSTILE)))

        for n, word in enumerate(HOSTILE, 1):
            assert (await memory.forget(names=[f"n {word}"])).count == 3  # with both that were said of it
            assert (await memory.forget(sessions=[f"s {word}"])).count == 2
            assert len(await everything(memory)) == 3 * (len(HOSTILE) - n)


# --- a fault taken for emptiness ------------------------------------------------------------------


async def exported(memory):
    return [commit async for commit in memory.export()]


VERBS = {
    "search": lambda memory: memory.search("heron"),
    "get": lambda memory: memory.get(names=["NAS"]),
    "scan": lambda memory: memory.scan(),
    "graph": lambda memory: memory.graph(names=["NAS"]),
    "history": lambda memory: memory.history(name="NAS"),
    "record": lambda memory: memory.record(passages=[{"session": "talk", "text": "while it was away"}]),
    "revise": lambda memory: memory.revise(
        [{"entity": "NAS", "text": "a heron"}], reason="while it was away"
    ),
    "forget": lambda memory: memory.forget(names=["NAS"]),
    "export": exported,
    "maintain": lambda memory: memory.maintain(),
    "another space": lambda memory: memory.in_space("other").scan(),
}


@pytest.mark.parametrize("kind", [kind for kind in SOME if kind != "reference"])  # memory does not go away
async def test_a_backend_that_is_away_for_any_one_call_is_down_and_then_as_it_was(tmp_path, kind):
    async with opened(kind, tmp_path) as memory:
        await memory.record(entities=[thing("NAS")], observations=[{"entity": "NAS", "text": "a heron"}])
        assert await found(memory, "heron") == ["a heron"]
        for verb, call in VERBS.items():
            with memory.house.away():
                told = await outcome(call(memory))
                assert told == "raised" or told.degraded, f"{verb} answered {told!r}"
                assert (await memory.health()).status == "down", verb
            assert await found(memory, "heron") == ["a heron"], verb
            page = await memory.scan()
            assert [item.text for item in page.items if hasattr(item, "text")] == ["a heron"], verb
            assert page.degraded is None
        await memory.record(observations=[{"entity": "NAS", "text": "and another heron"}])
        assert len(await found(memory, "heron")) == 2
        assert (await memory.health()).status != "down"


async def outcome(call):
    try:
        return await call
    except BackendError:
        return "raised"


# --- an index that lags, and rows of another form than the first ------------------------------------


@ON_EACH
async def test_single_writes_into_an_empty_store_and_updates_are_found_as_they_are_now(tmp_path, kind):
    async with opened(kind, tmp_path) as memory:
        assert await found(memory, "heron rare7") == []  # an index made now would be made of nothing
        await memory.record(entities=[thing("log")])
        for n in range(40):
            await memory.record(observations=[{"entity": "log", "text": f"heron rare{n} stands"}])
            assert (await memory.search(f"rare{n}")).items[0].text == f"heron rare{n} stands"
        for n in range(0, 40, 2):
            target = {"entity": "log", "text": f"heron rare{n} stands"}
            await memory.revise([target], successor={"text": f"heron fresh{n} flies"})
        assert len(await found(memory, "heron")) == 40
        assert len(await found(memory, "flies")) == len(await found(memory, "stands")) == 20
        for n in range(40):
            best = (await memory.search(f"heron rare{n}")).items[0].text
            assert (best == f"heron rare{n} stands") == bool(n % 2)
        assert (await memory.search("heron fresh4")).items[0].text == "heron fresh4 flies"


@ON_EACH
async def test_rows_with_more_fields_fewer_or_others_than_the_first_are_all_kept(tmp_path, kind):
    observations = [
        {"entity": "NAS", "text": "bare"},
        {"entity": "NAS", "text": "dated", "valid_from": "2025-01-01", "valid_to": "2025-06-01"},
        {"entity": "NAS", "text": "of a kind", "kind": "because"},
        {"entity": "NAS", "text": "bare again"},
    ]
    passages = [
        {"session": "talk", "text": "bare"},
        {"session": "talk", "text": "tagged", "tags": ["a", "b"], "speaker": "张三", "key": "m1"},
        {"session": "talk", "text": "of a file", "origin": {"path": "a.md", "sha256": "0" * 64, "line": 3}},
        {"session": "talk", "text": "of a file too", "origin": {"path": "b.md"}},
        {"session": "talk", "text": "untagged", "tags": []},
    ]
    async with opened(kind, tmp_path) as memory:
        await memory.record(entities=[{"name": "NAS", "entity_type": "thing", "domain": "software"}])
        for said in observations:
            await memory.record(observations=[said])
        for passage in passages:
            await memory.record(passages=[passage])
        await memory.record(
            entities=[thing("other", aliases=["o"], epistemic="hypothesis", visibility="shareable")]
        )
        items = await everything(memory)
        texts = [item.text for item in items if hasattr(item, "text")]
        assert texts == [each["text"] for each in (*observations, *passages)]
        by_text = {item.text: item for item in items if hasattr(item, "session")}
        assert by_text["tagged"].tags == ("a", "b")
        assert by_text["tagged"].speaker == "张三"
        assert by_text["untagged"].tags == ()
        assert by_text["of a file"].origin.line == 3
        assert by_text["of a file too"].origin.sha256 is None
        assert by_text["bare"].origin is None
        assert await found(memory, "bare", until="2025-12-31") == []
        assert await found(memory, "dated", until="2025-12-31") == ["dated"]
