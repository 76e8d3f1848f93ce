"""Search (DESIGN §4) by meaning: what vectors add, and what must not depend on them."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import contains, equal, refused, true
from rawthink_conformance.talking import LAG_SECONDS
from rawthink_conformance.toys import ToyEmbedder
from rawthink_core.errors import EmbedderMismatch
from rawthink_core.operations import SearchQuery, parse

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench
    from rawthink_conformance.talking import Space


async def _embedded(bench: Bench) -> tuple[Space, ToyEmbedder]:
    embedder = ToyEmbedder()
    await bench.reopen(bench.new_world("embedded", embedder=embedder))
    return bench.space(), embedder


async def _found(space: Space, question: str, text: str) -> bool:
    """Tell whether a text is found by its meaning; vectors may come a little later than their texts."""
    for _ in range(int(LAG_SECONDS / 0.1)):
        if text in await space.texts(question):
            return True
        await asyncio.sleep(0.1)
    return False


@check("dense.finds")
async def meaning_is_found(bench: Bench) -> None:
    """What shares no word with a question is found by its meaning, and filters hold for it too."""
    space, _ = await _embedded(bench)
    await space.turn("one", "our feline sleeps", tags=["pets"])
    await space.turn("two", "an automobile was parked")
    await space.about("Ward", "the physician called")
    true(await _found(space, "cat", "our feline sleeps"), "a passage is not found by its meaning")
    true(await _found(space, "doctor", "the physician called"), "an observation is not found by its meaning")
    equal(await space.texts("cat", tags=["work"]), [], "hits outside of a filter")
    await bench.reopen()
    true(await _found(space, "cat", "our feline sleeps"), "it is not found after reopening")


@check("dense.floor")
async def far_is_not_near(bench: Bench) -> None:
    """A hit by meaning alone counts only from the embedder's measured similarity on."""
    space, _ = await _embedded(bench)
    await space.turn("one", "our feline sleeps")
    await space.turn("two", "an automobile was parked behind that old house")
    true(await _found(space, "cat", "our feline sleeps"), "the near text is not found")
    equal(await space.texts("cat"), ["our feline sleeps"], "hits for a word that nobody wrote")
    equal(await space.texts("spaceship"), [], "hits for a meaning that nobody wrote about")


@check("dense.degrades")
async def an_embedder_that_is_down(bench: Bench) -> None:
    """With its embedder down a store still writes and finds by words, says so, and catches up later."""
    space, embedder = await _embedded(bench)
    embedder.down = True
    (turn,) = await space.turn("one", "our feline sleeps")
    page = await space.provider.search(parse(SearchQuery, {"scope": space.scope, "text": "feline"}))
    equal([hit.id for hit in page.items], [turn], "hits by words while the embedder is down")
    true(page.degraded, "an answer without vectors must say so")
    embedder.down = False
    await bench.reopen()
    true(await _found(space, "cat", "our feline sleeps"), "what was written meanwhile has no vector later")


@check("dense.mismatch")
async def vectors_of_another_embedder(bench: Bench) -> None:
    """A different embedder is refused before any write, with both names."""
    space, _ = await _embedded(bench)
    await space.turn("one", "our feline sleeps")
    world = bench.world
    await bench.close(bench.provider)
    other = replace(world, embedder=ToyEmbedder("another"))

    async def write() -> object:
        bench.provider = await bench.open(other)
        return await space.turn("two", "an automobile was parked")

    await refused(EmbedderMismatch, write(), "a write with another embedder", "toy", "another")
    bench.provider = await bench.open(world)
    contains(await space.said(), "our feline sleeps", "what is stored")
    equal(len(await space.said()), 1, "passages stored")
