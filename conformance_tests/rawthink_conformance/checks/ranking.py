"""Search (DESIGN §4): who comes first. Scores of two engines are never compared, clear cases are."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import contains, differ, equal, lacks, true

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rawthink_conformance.bench import Bench
    from rawthink_conformance.talking import Space

SHORT = "redis cache"
LONGER = "redis cache, with a few more words around it so that it is a little longer than the other text was"


@check("search.first")
async def the_clear_winner_is_first(bench: Bench) -> None:
    """More of the question's words, and rarer ones, come first."""
    space = bench.space()
    for number in range(20):
        await space.turn(f"noise {number}", f"the server of customer {number} was restarted")
    for number, text in enumerate(
        (
            "the cache is cold",
            "tea is cold",
            "the cache of the server",
            "the server in zanzibar",
            "a zanzibar of sorts",
        )
    ):
        await space.turn(f"talk {number}", text)
    await space.about("api", "redis — needs another service to run", kind="rejected")
    cases = {
        "cold cache": "the cache is cold",
        "zanzibar server": "the server in zanzibar",
        "is the cache cold?": "the cache is cold",
        "server cache": "the cache of the server",
        "why not redis?": "redis — needs another service to run",
        "customer 13": "the server of customer 13 was restarted",
    }
    for question, first in cases.items():
        equal((await space.texts(question))[:1], [first], f"the first hit for {question!r}")


@check("search.scores")
async def scores_order_the_hits(bench: Bench) -> None:
    """Scores lie within 0 and 1, and no hit has a higher one than the hit before it."""
    space = bench.space()
    for number in range(40):
        await space.turn(f"talk {number % 7}", "heron " * (number % 5 + 1) + f"{number} " * (number % 9))
    for question in ("heron", "heron 7", "1 2 3"):
        scores = [hit.score for hit in (await space.search(question, limit=50)).items]
        true(
            all(0 <= score <= 1 for score in scores), f"a score for {question!r} is outside 0 and 1: {scores}"
        )
        equal(scores, sorted(scores, reverse=True), f"scores for {question!r}")


@check("search.ties")
async def ties_are_broken_alike(bench: Bench) -> None:
    """Of equal scores the newest comes first, and in one commit the lower id."""
    space = bench.space()
    ids: list[list[str]] = []
    for group in range(3):
        passages = [{"session": f"s{group}.{n}", "text": "the same heron"} for n in range(4)]
        ids.append((await space.record(passages=passages)).ids("passage"))
    hits = (await space.search("heron", limit=20)).items
    equal(len({hit.score for hit in hits}), 1, "different scores of equal texts")
    promised = [item for group in reversed(ids) for item in sorted(group)]
    equal([hit.id for hit in hits], promised, "order of ties")


@check("search.neighbours")
async def turns_of_a_session_support_each_other(bench: Bench) -> None:
    """The turns around a hit are found with it, behind it, near ones first; other sessions lend nothing."""
    space = bench.space()
    await space.turn("noise", *(f"filler {number} about something" for number in range(30)))
    turns = (
        "good morning",
        "where does the heron nest?",
        "by the old mill, in the reeds",
        "thanks a lot",
        "bye",
        "see you",
        "anything else?",
    )
    ids = await space.turn("talk", *turns)
    hits = (await space.search("heron")).items
    equal(hits[0].id, ids[1], "the first hit")
    equal([hit.text for hit in hits[:3]], [turns[1], turns[2], turns[0]], "the turns beside it")
    lacks([hit.id for hit in hits], ids[5], "a turn four places away")
    true(all(hit.session == "talk" for hit in hits), "a turn of another session is among the hits")
    one, other = "the stork and the mill", "the stork and the mall"
    await space.turn("lonely", one)
    await space.turn("together", "a stork again", other, "that stork")
    hits = (await space.search("stork mill mall")).items
    equal(hits[0].text, other, "the turn whose neighbours match too")
    strangers = [hit.text for hit in hits if hit.session not in ("talk", "lonely", "together")]
    equal(strangers, [], "neighbours from sessions in which nothing matches")
    hits = (await space.search("heron", sessions=["noise"])).items
    equal(hits, (), "neighbours outside of the filter")


@check("search.speaker")
async def who_is_named_speaks_first(bench: Bench) -> None:
    """Of turns about as good, that whose speaker the question names comes first."""
    space = bench.space()
    for number, who in enumerate(("张三", "Ayşe Yılmaz", "Mary", None)):
        await space.turn(f"talk {number}", "the heron is back", speaker=who)
    for who in ("张三", "Ayşe Yılmaz", "mary"):
        hits = (await space.search(f"{who}: heron", why=True)).items
        equal(str(hits[0].speaker).casefold(), who.casefold(), f"the first speaker where {who} is named")
        gained = [hit.why.speaker > 0 for hit in hits if hit.why is not None]
        equal(gained, [True, False, False, False], "who gained by being named")
    hits = (await space.search("heron of Yılmaz")).items
    equal(hits[0].speaker, None, "the first speaker, the newest, where half a name is said")


@check("search.fusion")
async def lists_are_fused_as_configured(bench: Bench) -> None:
    """Hits are fused as the world says: by score, or by rank."""
    for fusion in ("minmax", "rrf"):
        await bench.reopen(bench.new_world(fusion, fusion=fusion))
        space = bench.space()
        for number, text in enumerate((SHORT, LONGER, "a cache")):
            await space.turn(f"talk {number}", text)
        reasons = [hit.why for hit in (await space.search("redis cache", why=True)).items if hit.why]
        scores = [why.lexical_score or 0.0 for why in reasons]
        by_score = [score / scores[0] for score in scores]
        promised = by_score if fusion == "minmax" else [1.0, 11 / 12, 11 / 13]
        seen = [why.fused for why in reasons]
        close = len(seen) == len(promised) and all(
            abs(a - b) < 1e-5  # noqa: PLR2004 - scores have six digits
            for a, b in zip(seen, promised, strict=True)
        )
        true(close, f"fused scores by {fusion}: seen {seen}, promised {promised}")


async def _two_ages(bench: Bench, space: Space, days: int, *, pinned: bool = False) -> None:
    await space.create("Old", pinned=pinned)
    await space.create("New")
    await space.say("Old", SHORT)
    bench.clock.tick(timedelta(days=days))
    await space.say("New", LONGER)


@check("search.decay")
async def age_orders_near_ties_only(bench: Bench) -> None:
    """Of two hits about as good the fresher comes first; age never buries a clearly better one."""
    control, space, buried = bench.spaces("control", "aged", "buried")
    await _two_ages(bench, control, 0)
    equal(await control.texts("redis cache"), [SHORT, LONGER], "hits of one age")
    await _two_ages(bench, space, 200)
    equal(await space.texts("redis cache"), [LONGER, SHORT], "hits of two ages")
    await space.search("redis cache")
    equal(await space.texts("redis cache"), [LONGER, SHORT], "hits after they were listed")
    await buried.about("Old", "redis cache eviction policy")
    bench.clock.tick(timedelta(days=3000))
    await buried.about("New", "redis was mentioned")
    equal(
        (await buried.texts("redis cache eviction"))[0],
        "redis cache eviction policy",
        "a much better old hit",
    )


@check("search.pinned")
async def what_is_pinned_does_not_age(bench: Bench) -> None:
    """What belongs to a pinned entity does not age."""
    space = bench.space()
    await _two_ages(bench, space, 200, pinned=True)
    equal(await space.texts("redis cache"), [SHORT, LONGER], "hits, of which the older is pinned")
    await space.revise({"entity": "Old"}, fields={"pinned": False})
    equal(await space.texts("redis cache"), [LONGER, SHORT], "hits once it is unpinned")


@check("search.past_is_ageless")
async def the_past_does_not_age(bench: Bench) -> None:
    """A search of the past ranks without age."""
    space = bench.space()
    await _two_ages(bench, space, 200)
    equal(await space.texts("redis cache", as_of=bench.clock.now()), [SHORT, LONGER], "hits as of today")


@check("search.use")
async def what_is_read_stays_fresh(bench: Bench) -> None:
    """Reading an item by `get`, `history` or its graph makes it fresh again; listing its graph does not."""
    reads: dict[str, Callable[[Space, str], Awaitable[object]]] = {
        "get": lambda space, item: space.get(item),
        "history": lambda space, item: space.history(id=item),
        "graph": lambda space, _: space.graph("Old"),
    }
    for verb, read in reads.items():
        space = bench.space(verb)
        await _two_ages(bench, space, 200)
        item = next(hit.id for hit in (await space.search("redis cache")).items if hit.text == SHORT)
        await space.graph("Old", listing=True)
        await asyncio.sleep(0.05)  # as long as noting takes, if it were noted
        equal(await space.texts("redis cache"), [LONGER, SHORT], f"hits before `{verb}`, after being listed")
        await read(space, item)
        for _ in range(40):  # it is noted after the answer
            if (await space.texts("redis cache"))[0] == SHORT:
                break
            await asyncio.sleep(0.05)
        equal(await space.texts("redis cache"), [SHORT, LONGER], f"hits after `{verb}`")


@check("search.why")
async def a_hit_explains_its_place(bench: Bench) -> None:
    """Asked for it, a hit says its rank and what fusion, neighbours and decay made of its score; else not."""
    space = bench.space()
    await space.turn("talk", "a heron in the reeds", "it stood still")
    await space.turn("other", "heron heron")
    bench.clock.tick(timedelta(days=46))
    plain = (await space.search("heron")).items
    equal([hit.why for hit in plain], [None] * len(plain), "explanations that nobody asked for")
    hits = (await space.search("heron", why=True)).items
    equal(
        [(hit.id, hit.score) for hit in hits],
        [(hit.id, hit.score) for hit in plain],
        "hits with explanations",
    )
    ranks = sorted(hit.why.lexical_rank for hit in hits if hit.why and hit.why.lexical_rank is not None)
    equal(ranks, [1, 2], "ranks of the lexical list")
    for hit in hits:
        differ(hit.why, None, f"the explanation of {hit.text!r}")
        if hit.why is None:
            continue
        made = (hit.why.fused + hit.why.neighbours + hit.why.speaker) * hit.why.decay
        true(abs(made - hit.score) < 1e-5, f"the parts of {hit.text!r} make {made}, its score is {hit.score}")  # noqa: PLR2004 - scores have six digits
        true(abs(hit.why.decay - 0.925) < 1e-3, f"two half-lives make a decay of 0.925, not {hit.why.decay}")  # noqa: PLR2004 - 1 − 0.1 + 0.1/4
    neighbour = [hit.why.neighbours > 0 for hit in hits if hit.why and hit.text == "it stood still"]
    contains([[True]], neighbour, "what the neighbour got")
