"""Passages: their keys, places and files."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_conformance.checking import check
from rawthink_conformance.expect import contains, differ, equal, refused
from rawthink_conformance.talking import EVERY_STATUS
from rawthink_core.errors import InvalidRequest
from rawthink_core.identity import passage_id
from rawthink_core.model import Origin, Passage
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench
    from rawthink_conformance.talking import Space


async def _put(space: Space, **passage: Any) -> str:
    receipt = await space.record(passages=[{"session": "talk", **passage}])
    return receipt.ids("passage", "created", "unchanged")[0]


@check("passage.key")
async def another_text_under_a_key(bench: Bench) -> None:
    """Another text under a key supersedes the former one in its place; the same text changes nothing."""
    space = bench.space("team")
    first = await _put(space, key="m1", text="the first draft")
    await _put(space, key="m2", text="something else")
    equal(await _put(space, key="m1", text=" the first draft "), first, "the same text under its key")
    second = await _put(space, key="m1", text="the edited version")
    await bench.reopen()
    was, now = await space.one(Passage, first), await space.one(Passage, second)
    equal((was.status, was.superseded_by), ("ended", second), "the former text")
    seen = (now.status, now.supersedes, now.ordinal)
    equal(seen, ("active", (first,), was.ordinal), "the edited text")
    ids = [passage_id("team", "talk", "m1", n) for n in range(3)]
    equal([first, second, await _put(space, key="m1", text="the first draft")], ids, "ids under one key")
    equal(await space.said(), ["something else", "the first draft"], "what stands")
    equal(await space.texts("edited version"), [], "a search for the edited text")


@check("passage.place")
async def an_edited_question(bench: Bench) -> None:
    """What goes on from a stored passage supersedes what did before; from nothing stored, both stand."""
    space = bench.space()
    await _put(space, key="q1", text="the first turn")
    asked = await _put(space, key="q2", place="p1", after=["none", "q1"], text="what was asked")
    await bench.reopen()
    edited = await _put(space, key="q3", place="p1", after=["q1"], text="what was asked, edited")
    was, now = await space.one(Passage, asked), await space.one(Passage, edited)
    equal((was.status, was.superseded_by), ("ended", edited), "what was asked first")
    equal((now.status, now.supersedes, now.ordinal), ("active", (asked,), was.ordinal), "the edited question")
    for key in ("q4", "q5"):  # of somebody who sends the same examples each time
        await _put(space, key=key, place="p9", after=["q0"], text=f"turn {key}")
    standing = ["the first turn", "turn q4", "turn q5", "what was asked, edited"]
    equal(sorted(await space.said()), standing, "what stands")


@check("passage.ordinals")
async def passages_have_places(bench: Bench) -> None:
    """Without an ordinal a passage comes after the last of its session, whatever was stated or retired."""
    space = bench.space()
    ids = [await _put(space, text=f"turn {n}") for n in range(3)]
    ids.append(await _put(space, text="far ahead", ordinal=10))
    ids.append(await _put(space, text="after it"))
    ids += await space.turn("talk", "two more", "and the last")
    await space.turn("another", "elsewhere")
    await bench.reopen()
    ids += await space.turn("talk", "after reopening")
    found = [await space.one(Passage, item) for item in ids]
    equal([passage.ordinal for passage in found], [0, 1, 2, 10, 11, 12, 13, 14], "ordinals")
    await space.revise({"id": ids[-1]})
    last = await _put(space, text="after one that was retracted")
    equal((await space.one(Passage, last)).ordinal, 15, "the ordinal after a retired passage")
    if bench.grade(Capability.FORGET):
        await space.forget(sessions=["talk"])
        (first,) = await space.turn("talk", "as if nothing had been said")
        equal((await space.one(Passage, first)).ordinal, 0, "the ordinal after all were forgotten")


@check("passage.keyless")
async def without_a_key_the_text_is_its_own(bench: Bench) -> None:
    """Without a key, two texts are two passages and the same text is one, in each session."""
    space = bench.space()
    one, two = await space.turn("talk", "yes", "no")
    differ(one, two, "ids of two texts")
    equal(await space.turn("talk", "yes"), [one], "the id of a text said before")
    other = await space.turn("elsewhere", "yes")
    differ(other, [one], "ids of one text in two sessions")
    equal(sorted(await space.said()), ["no", "yes", "yes"], "what is stored")
    call = space.record(
        passages=[{"session": "talk", "key": "k", "text": "a"}, {"session": "talk", "key": "k", "text": "b"}]
    )
    await refused(InvalidRequest, call, "two texts under one key in one batch")


@check("passage.fields")
async def everything_about_a_passage_comes_back(bench: Bench) -> None:
    """Speaker, tags, visibility, origin and time of a passage come back as they were given."""
    space = bench.space()
    origin = {"path": "notes/2025/üç.md", "sha256": "ab" * 32, "line": 7}
    item = await _put(
        space,
        text="a section",
        session="s/1 ' \"",
        key="heading/ab12/0",
        speaker="张三",
        tags=["work", "2025", "work", "a,b"],
        visibility="shareable",
        origin=origin,
        valid_from="2025-03-04T05:06:07.000008Z",
        ordinal=3,
    )
    await bench.reopen()
    found = await space.one(Passage, item)
    seen = (found.session, found.key, found.speaker, found.tags, found.visibility, found.ordinal)
    given = ("s/1 ' \"", "heading/ab12/0", "张三", ("work", "2025", "a,b"), "shareable", 3)
    equal(seen, given, "fields")
    equal(found.origin, Origin.model_validate(origin), "origin")
    equal(found.valid_from and found.valid_from.isoformat(), "2025-03-04T05:06:07.000008+00:00", "time")


@check("passage.file")
async def a_file_that_shrank(bench: Bench) -> None:
    """A batch that replaces a file's passages ends those that it does not repeat, and no others."""
    space = bench.space()
    sections = {"a": "about herons", "b": "about storks", "c": "about cranes"}

    def batch(path: str, **wanted: str) -> dict[str, Any]:
        passages = [
            {"session": path, "key": key, "text": text, "origin": {"path": path}}
            for key, text in wanted.items()
        ]
        return {"passages": passages, "replaces_origin": path}

    first = (await space.record(**batch("birds.md", **sections))).ids("passage")
    await space.record(**batch("birds.md.bak", z="about geese"))
    await space.turn("talk", "we spoke about herons")
    receipt = await space.record(**batch("birds.md", a="about herons", b="about black storks"))
    equal(set(receipt.ids(None, "ended")), set(first[1:]), "passages ended")
    await bench.reopen()
    standing = ["about black storks", "about geese", "about herons", "we spoke about herons"]
    equal(sorted(await space.said()), standing, "what stands")
    equal(await space.texts("cranes"), [], "a search for what the file no longer holds")
    contains(await space.said(statuses=EVERY_STATUS), "about cranes", "what is kept")
    mixed = batch("birds.md", a="about herons") | {"observations": [{"entity": "x", "text": "y"}]}
    await refused(InvalidRequest, space.record(**mixed), "replacing a file beside other items")
    other = batch("birds.md", a="about herons") | {"replaces_origin": "other.md"}
    await refused(InvalidRequest, space.record(**other), "replacing a file with passages of another")
