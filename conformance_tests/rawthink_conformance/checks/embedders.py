"""Search by meaning with an embedder that is down, slow, unable or knows nothing, and with long texts."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.checks.dense import (
    CAR,
    CAT,
    DOCTOR,
    all_embedded,
    ask_once,
    embedder_of,
    is_found,
)
from rawthink_conformance.expect import equal, only, true
from rawthink_conformance.toys import MeaninglessEmbedder

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench

SLOW_SECONDS = 1.0  # what an embedder takes that must not hold up a write


@check("dense.degrades")
async def an_embedder_that_is_down(bench: Bench) -> None:
    """With its embedder down a store finds by words and says so; once it is back, so is search by meaning."""
    space, embedder = bench.space(), embedder_of(bench)
    await space.turn("one", CAT)
    await space.turn("two", CAR)
    true(await is_found(space, "cat", CAT), "it is not found by its meaning")
    embedder.down = True
    page = await ask_once(space, "which feline is that")
    equal([hit.text for hit in page.items], [CAT], "hits by words while the embedder is down")
    true(page.degraded, "an answer without vectors must say so")
    embedder.down = False
    true(await is_found(space, "kitten", CAT), "it is not found by its meaning once the embedder is back")
    page = await ask_once(space, "my kitten")
    equal((page.degraded, [hit.text for hit in page.items]), (None, [CAT]), "an answer once it is back")


@check("dense.pending")
async def vectors_that_come_later(bench: Bench) -> None:
    """What is written with the embedder down is found by words, counted as pending, and embedded later."""
    space, embedder = bench.space(), embedder_of(bench)
    embedder.down = True
    receipt = await space.provider.record(space.batch(passages=[{"session": "one", "text": CAT}]))
    true(receipt.pending_embeddings >= 1, "the receipt does not say that a vector is still to come")
    equal([hit.text for hit in (await ask_once(space, "feline")).items], [CAT], "hits by words")
    true((await space.provider.health()).pending_embeddings >= 1, "health does not count what is to come")
    embedder.down = False
    true(await is_found(space, "cat", CAT), "what was written meanwhile has no vector later")
    equal((await space.provider.health()).pending_embeddings, 0, "vectors to come in the end")
    receipt = await space.provider.record(space.batch(passages=[{"session": "two", "text": CAR}]))
    true(await is_found(space, "vehicle", CAR), "what is written afterwards has no vector")


@check("dense.slow")
async def a_slow_embedder(bench: Bench) -> None:
    """A slow embedder holds up no write: its text is found by words at once, and by its meaning later."""
    space, embedder = bench.space(), embedder_of(bench)
    embedder.delay = SLOW_SECONDS
    began = time.perf_counter()
    await space.provider.record(space.batch(passages=[{"session": "one", "text": CAT}]))
    took = time.perf_counter() - began
    true(took < SLOW_SECONDS, f"a write waited {took:.2f} s for an embedder that takes {SLOW_SECONDS:g} s")
    equal([hit.text for hit in (await ask_once(space, "feline")).items], [CAT], "hits by words")
    embedder.delay = 0.0
    true(await is_found(space, "kitten", CAT), "what a slow embedder was given has no vector later")


@check("dense.unable")
async def a_text_without_a_vector(bench: Bench) -> None:
    """A text for which the embedder has no vector is found by words, and keeps no other from its vector."""
    space, embedder = bench.space(), embedder_of(bench)
    embedder.unable = "odd"
    odd = "an odd heron"
    for texts in ((odd, CAT), (CAR,)):
        turns = [{"session": text, "text": text} for text in texts]
        await space.provider.record(space.batch(passages=turns))
    for question, text in (("kitten", CAT), ("vehicle", CAR), ("heron", odd)):
        true(await is_found(space, question, text), f"{text!r} is not found beside a text without a vector")


@check("dense.meaningless")
async def an_embedder_that_knows_nothing(bench: Bench) -> None:
    """With an embedder to which nothing means anything, hits are those that share words, and no others."""
    world = bench.new_world("meaningless", embedder=MeaninglessEmbedder())
    space = bench.space(provider=await bench.open(world))
    for number, text in enumerate((CAT, CAR, DOCTOR, "our automobile", "a long and quiet day")):
        await space.turn(f"session {number}", text)
    await all_embedded(space)
    for question, promised in (("feline", [CAT]), ("kitten", []), ("physician", [DOCTOR])):
        equal(
            [hit.text for hit in (await ask_once(space, question)).items], promised, f"hits for {question!r}"
        )
    equal(set(await space.texts("automobile")), {CAR, "our automobile"}, "hits for 'automobile'")


@check("dense.windows")
async def long_texts_are_found_throughout(bench: Bench) -> None:
    """A text longer than the embedder's window is found by what any part of it means, and counts once."""
    space = bench.space()
    embedder_of(bench).window = 80
    filler = "Nothing much happened on that long and quiet day by that river. "
    long = f"{filler * 12}Then {CAT}. {filler * 12}Then {DOCTOR}. {filler * 12}And that feline again."
    await space.turn("long", long)
    await space.turn("short", CAR)
    for question in ("kitten", "medic"):
        true(await is_found(space, question, long), f"a long text is not found by what is {question!r} to it")
    await all_embedded(space)
    hit = only((await space.search("kitten", why=True)).items, "hits for what two parts of a text mean")
    equal(hit.text, long, "the text of the hit")
