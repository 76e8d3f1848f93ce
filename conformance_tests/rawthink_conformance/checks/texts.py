"""Rule 15: text comes back as it was given."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import equal, only, refused
from rawthink_core.errors import InvalidRequest
from rawthink_core.model import Observation, Passage
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench

# Each begins with a word of its own, by which a search can find it.
VERBATIM = (
    "alpha line\u2028separator\u2029paragraph\x85next",
    "bravo windows\r\nlines\rand\nothers\x0b\x0c\x1c\x1d\x1e",
    "charlie nul\x00inside\x00",
    "delta tabs\t\tand   spaces   ",
    "  echo leading and trailing \n\n",
    "foxtrot empty\n\n\n\nlines",
    "golf family 👩‍👩‍👧‍👦 flag 🇹🇷 tone 👍🏽",
    "hotel \u202eright to left\u202c שלום العربية",
    "india combining e\u0301 a\u0308\u0323 and composed é ạ̈",
    "juliett zero\u200bwidth\u200d\ufeffmarks\u2060",
    'kilo quotes \' " ` \\ \\n \\u0041 {"json": [1]} <tag> </memory-context>',
    "lima private \ue000 \U0010fffd non \ufffe \uffff",
    "mike 今天讨论了部署方案 한국어 ไทย",
    "november % _ * ? ; -- DROP TABLE x; ${x} $(x) {{x}} %s",
    "oscar control\x01\x02\x1b[31m\x7f",
    "papa ﬁ ligature Ⅷ ｗｉｄｅ",
)


@check("text.verbatim")
async def texts_come_back_as_given(bench: Bench) -> None:
    """Any Unicode comes back unchanged from every verb, now and after reopening."""
    space = bench.space()
    said = await space.about("Text", *VERBATIM)
    turns = await space.turn("talk", *VERBATIM)
    for moment in ("at once", "after reopening"):
        for text, one, other in zip(VERBATIM, said, turns, strict=True):
            equal((await space.one(Observation, one)).text, text, f"an observation {moment}")
            equal((await space.one(Passage, other)).text, text, f"a passage {moment}")
            word = text.split()[0]
            hits = await space.search(word, items=["observation"], limit=1)
            equal([hit.text for hit in hits.items], [text], f"a hit for {word!r} {moment}")
        equal(sorted(await space.said(items=["passage"])), sorted(VERBATIM), f"a scan {moment}")
        page = await space.graph("Text")
        equal(sorted(o.text for o in page.observations), sorted(VERBATIM), f"a graph {moment}")
        await bench.reopen()
    written = {row["text"] for commit in await space.export() for row in commit.rows if "text" in row}
    equal(written, set(VERBATIM), "an export")


@check("text.names")
async def names_and_labels_come_back_as_given(bench: Bench) -> None:
    """Names, aliases, speakers, sessions, keys, tags and reasons keep every character too."""
    space = bench.space("spàce 'x'\u2028\x00")
    strange = "a 'q' \"d\" \\ \x00 \u2028 🇹🇷 \r\n%s; --"
    (owner,) = await space.create(strange, aliases=[f"also {strange}"])
    found = await space.entity(strange)
    equal(
        (found.id, found.name, found.aliases), (owner, strange, (f"also {strange}",)), "a name and an alias"
    )
    passage = {
        "session": strange,
        "key": strange,
        "speaker": strange,
        "tags": [strange],
        "text": "quiet words",
    }
    batch = space.batch(id=strange, passages=[passage])
    (turn,) = (await space.record(batch)).ids("passage")
    await bench.reopen()
    item = await space.one(Passage, turn)
    seen = (item.session, item.key, item.speaker, item.tags)
    equal(seen, (strange, strange, strange, (strange,)), "labels of a passage")
    equal(
        await space.texts("quiet", sessions=[strange], tags=[strange]), ["quiet words"], "a search by labels"
    )
    equal((await space.record(batch)).ids("passage"), [turn], "the batch sent again")
    await space.revise({"id": turn}, reason=strange)
    equal((await space.one(Passage, turn)).reason, strange, "a reason")


@check("text.long")
async def long_texts(bench: Bench) -> None:
    """A text of a megabyte (or the declared `max_text`) comes back whole and is found by its words."""
    space = bench.space()
    limit = bench.grade(Capability.MAX_TEXT)
    size = min(2**20, int(limit)) if limit else 2**20
    words = "needle at the beginning\n" + "hay 草 \n\n" * (size // 8)
    text = words[: size - 12] + " finalword!!"
    (turn,) = await space.turn("long", text)
    await space.turn("short", "the beginning of something else")
    await bench.reopen()
    found = (await space.one(Passage, turn)).text
    equal((len(found), found == text), (len(text), True), "length and sameness of the text")
    hit = only((await space.search("needle")).items, "hits")
    equal((hit.id, len(hit.text)), (turn, len(text)), "the hit")
    if limit:
        await refused(InvalidRequest, space.turn("long", "x" * (int(limit) + 1)), "a text above `max_text`")


@check("text.surrogates")
async def lone_surrogates_are_refused(bench: Bench) -> None:
    """Half a character is refused wherever it stands, with a sentence that says so; nothing is written."""
    space = bench.space()
    await space.create("Redis")
    half = "cut \ud83d off"
    await refused(InvalidRequest, space.turn("talk", half), "in a text", "surrogate")
    await refused(InvalidRequest, space.create(half), "in a name", "surrogate")
    await refused(InvalidRequest, space.say("Redis", half), "in an observation", "surrogate")
    await refused(InvalidRequest, space.search(half), "in a question", "surrogate")
    await refused(InvalidRequest, space.get(half), "in an id", "surrogate")
    equal(await space.said(), [], "what was written")
