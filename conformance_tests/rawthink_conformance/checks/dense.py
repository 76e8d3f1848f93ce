"""Search (DESIGN §4) by meaning: what vectors add, and what must not depend on them.

These checks run in a world with an embedder that knows a few words: for it ``cat``, ``feline`` and ``kitten``
are the same, ``car`` and ``doctor`` something else. Vectors may come a little later than their texts.
"""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rawthink_conformance.agreement import agree_on_hits
from rawthink_conformance.checking import Unseen, check
from rawthink_conformance.expect import contains, equal, refused, true
from rawthink_conformance.reference import ReferenceProvider
from rawthink_conformance.talking import LAG_SECONDS, Space
from rawthink_conformance.toys import ToyEmbedder
from rawthink_core.errors import EmbedderMismatch
from rawthink_core.operations import BeforeChat, Maintain, SearchQuery, parse
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rawthink_conformance.bench import Bench
    from rawthink_core.model import Hit
    from rawthink_core.operations import SearchPage

ROUGHLY = 0.005  # by how much similarities may differ: a store may keep its vectors in short numbers
CAT, CAR, DOCTOR = "our feline sleeps", "an automobile was parked", "the physician called"


def embedder_of(bench: Bench) -> ToyEmbedder:
    """Return the embedder of the bench's world."""
    embedder = bench.world.embedder
    assert isinstance(embedder, ToyEmbedder)  # noqa: S101 - the bench of a check by meaning has one
    return embedder


async def is_found(space: Space, question: str, text: str, **filters: Any) -> bool:
    """Tell whether a text is found by its meaning, sooner or later."""
    for _ in range(int(LAG_SECONDS / 0.1)):
        if text in [hit.text for hit in (await ask_once(space, question, **filters)).items]:
            return True
        await asyncio.sleep(0.1)
    return False


async def ask_once(space: Space, question: str, **filters: Any) -> SearchPage:
    """Search once, whatever the answer says of itself."""
    query = parse(SearchQuery, {"scope": space.scope, "text": question, **filters})
    return await space.provider.search(query)


async def all_embedded(space: Space) -> None:
    """Wait until everything that was written has its vectors."""
    for _ in range(int(LAG_SECONDS / 0.1)):
        if not (await space.provider.health()).pending_embeddings:
            return
        await asyncio.sleep(0.1)


@check("dense.finds")
async def meaning_is_found(bench: Bench) -> None:
    """What shares no word with a question is found by its meaning, and filters hold for it too."""
    space = bench.space()
    await space.turn("one", CAT, tags=["pets"])
    await space.turn("two", CAR)
    await space.about("Ward", DOCTOR)
    await space.create("Kitten")
    true(await is_found(space, "cat", CAT), "a passage is not found by its meaning")
    true(await is_found(space, "doctor", DOCTOR), "an observation is not found by its meaning")
    true(await is_found(space, "cat", "Kitten"), "an entity is not found by what its name means")
    equal(set(await space.texts("cat")), {CAT, "Kitten"}, "hits")
    equal(await space.texts("cat", tags=["pets"]), [CAT], "hits within a filter")
    equal(await space.texts("cat", tags=["work"]), [], "hits outside of a filter")
    await bench.reopen()
    true(await is_found(space, "cat", CAT), "it is not found after reopening")


@check("dense.floor")
async def far_is_not_near(bench: Bench) -> None:
    """A hit by meaning alone counts only from the embedder's measured similarity on."""
    space = bench.space()
    await space.turn("one", CAT)
    await space.turn("two", "an automobile was parked behind that old house")
    true(await is_found(space, "cat", CAT), "the near text is not found")
    equal(await space.texts("cat"), [CAT], "hits for a word that nobody wrote")
    equal(await space.texts("spaceship"), [], "hits for a meaning that nobody wrote about")


@check("dense.filters_first")
async def filters_come_before_the_nearest(bench: Bench) -> None:
    """An item that passes a filter is found by its meaning, however many nearer ones do not pass."""
    space = bench.space()
    many = 120 if bench.grade(Capability.FILTERS) == "before_top_k" else 20
    await space.about("Noise", *(f"cat cat cat {n}" for n in range(many)), valid_from="2020-01-01")
    nearer = [f"cat cat cat {n}" for n in range(many)]
    await space.turn("noise", *nearer, tags=["noise"], valid_from="2020-01-01")
    await space.record(entities=[{"name": "Song", "entity_type": "artifact", "domain": "music"}])
    said, told = "one feline was on that old roof", "another feline sat on this wall"
    await space.say("Song", said, kind="decided", valid_from="2025-01-01")
    await space.turn("quiet", told, tags=["needle"], valid_from="2024-01-01")
    await space.revise({"entity": "Noise", "text": "cat cat cat 7"})
    await all_embedded(space)
    cases: tuple[tuple[dict[str, object], str], ...] = (
        ({"observation_kinds": ["decided"]}, said),
        ({"domains": ["music"], "items": ["observation"]}, said),
        ({"entity_types": ["artifact"], "items": ["observation"]}, said),
        ({"tags": ["needle"]}, told),
        ({"sessions": ["quiet"]}, told),
        ({"since": "2024-06-01", "items": ["observation"]}, said),
        ({"since": "2023-01-01", "until": "2024-12-31"}, told),
        ({"statuses": ["invalidated"]}, "cat cat cat 7"),
    )
    for filters, text in cases:
        true(
            await is_found(space, "kitten", text, limit=3, **filters), f"{text!r} is not found with {filters}"
        )
        equal(await space.texts("kitten", limit=3, **filters), [text], f"hits with {filters}")


@check("dense.spaces")
async def other_spaces_are_not_near(bench: Bench) -> None:
    """What another space holds changes neither hits, order nor scores of a search by meaning."""
    space, other = bench.spaces("mine", "theirs")
    await space.turn("one", CAT, "a kitten on that roof of ours")
    await space.turn("two", CAR)
    true(await is_found(space, "cat", CAT), "it is not found by its meaning")
    await all_embedded(space)
    before = _form((await space.search("cat")).items)
    await other.turn("one", *(f"cat cat cat {n}" for n in range(120)))
    true(await is_found(other, "kitten", "cat cat cat 5", limit=100), "the other space does not find its own")
    await all_embedded(other)
    equal(_form((await space.search("cat")).items), before, "hits beside a full space")
    equal((await bench.space("nobody's").search("cat")).items, (), "hits of an empty space")


def _form(hits: Sequence[Hit]) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in hits]


@check("dense.as_of")
async def the_past_is_found_by_its_meaning(bench: Bench) -> None:
    """A search of the past finds by meaning what was believed then, and nothing by what came later."""
    if Capability.AS_OF not in bench.provider.info.capabilities:
        raise Unseen("`as_of` is not declared")
    space = bench.space()
    await space.about("Ward", DOCTOR)
    await space.create("Kitten")
    true(await is_found(space, "doctor", DOCTOR), "it is not found by its meaning")
    then = bench.clock.tick()
    bench.clock.tick()
    await space.revise({"entity": "Ward", "text": DOCTOR}, successor={"text": CAR})
    await space.revise({"entity": "Kitten"}, fields={"name": "Automobile"})
    true(await is_found(space, "vehicle", CAR), "what came later is not found by its meaning")
    true(await is_found(space, "vehicle", "Automobile"), "a new name is not found by its meaning")
    equal(await space.texts("medic"), [], "hits for what is believed no more")
    equal(await space.texts("medic", as_of=then), [DOCTOR], "hits for what was believed then")
    equal(await space.texts("vehicle", as_of=then), [], "hits of then for what came later")


@check("dense.recall")
async def a_chat_is_told_what_is_near(bench: Bench) -> None:
    """A chat is told what is near in meaning to its words, and nothing that is neither near nor named."""
    space = bench.space()
    await space.turn("one", CAT)
    await space.turn("two", "an automobile was parked behind that old house")
    await space.create("Kitten")
    true(await is_found(space, "cat", CAT), "it is not found by its meaning")
    await all_embedded(space)
    for text, told in (("kitten", [CAT]), ("spaceship", [])):
        request = parse(BeforeChat, {"scope": space.scope, "text": text})
        recall = await space.provider.on_before_chat(request)
        equal([hit.text for hit in recall.items], told, f"what a chat about {text!r} is told")


@check("dense.forget")
async def forgotten_vectors(bench: Bench) -> None:
    """What was forgotten is not found by its meaning; where it is erased, no file holds its vector."""
    if Capability.FORGET not in bench.provider.info.capabilities:
        raise Unseen("`forget` is not declared")
    space = bench.space()
    meant = "feline automobile physician quay quay quay quay"  # four numbers of ½ in its vector, twelve of 0
    (gone,) = await space.turn("one", meant)
    await space.turn("two", CAT)
    true(await is_found(space, "kitten vehicle medic", meant), "it is not found by its meaning")
    (vector,) = await embedder_of(bench).embed_passages([meant])
    await bench.reopen()  # whatever is only written at the end is written now
    receipt = await space.forget(ids=[gone])
    if any(place.outcome == "pending" for place in receipt.places):
        if Capability.MAINTAIN in bench.provider.info.capabilities:
            await space.provider.maintain(Maintain(scope=space.scope))
        await bench.reopen()
    for moment in ("at once", "after reopening"):
        true(await is_found(space, "cat", CAT), f"what stays is not found {moment}")
        equal(await space.texts("kitten vehicle medic"), [], f"hits {moment}")
        if bench.grade(Capability.FORGET) == "erased":
            equal(_files_with(bench.folder, vector), [], f"files that hold the vector {moment}")
        await bench.reopen()


def _files_with(folder: Path, vector: list[float]) -> list[str]:
    forms = [struct.pack(f"<{len(vector)}{kind}", *vector) for kind in "fde"]
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [str(path) for path in files if any(form in path.read_bytes() for form in forms)]


@check("dense.agrees")
async def fusion_as_by_brute_force(bench: Bench) -> None:
    """Hits by words and by meaning are those of the reference, with its similarities and clear winners."""
    if bench.grade(Capability.RANKING) != "core":
        raise Unseen("`ranking` is not declared as 'core'")
    theirs = ReferenceProvider(bench.new_world("reference"))
    await theirs.open()
    try:
        mine, other = bench.space(), bench.space(provider=theirs)
        for space in (mine, other):
            for number, text in enumerate(
                (CAT, CAR, "a cat and a car", "the cat sat", "no doctor here", DOCTOR)
            ):
                batch = space.batch(id=f"turn {number}", passages=[{"session": f"s{number}", "text": text}])
                await space.record(batch)
            await space.record(
                space.batch(
                    id="facts",
                    entities=[{"name": "Vet", "entity_type": "concept", "domain": "health"}],
                    observations=[
                        {"entity": "Vet", "text": text}
                        for text in ("a physician of felines", "has a vehicle")
                    ],
                )
            )
            await all_embedded(space)
        for question in ("cat", "kitten", "the car", "medic", "a physician for my kitten", "where is that"):
            seen = await mine.search(question, why=True, limit=50)
            promised = await other.search(question, why=True, limit=50)
            agree_on_hits(seen.items, promised.items, question, ranked_alike=True)
            for this, their in zip(_similarities(seen), _similarities(promised), strict=True):
                close = this[1] is not None and their[1] is not None and abs(this[1] - their[1]) < ROUGHLY
                true(this == their or close, f"similarity to {question!r}: seen {this}, promised {their}")
    finally:
        await theirs.close()


def _similarities(page: SearchPage) -> list[tuple[str, float | None]]:
    """Return the similarity of each hit, as the explanation gives it."""
    return sorted((hit.text, hit.why.dense_score if hit.why is not None else None) for hit in page.items)


@check("dense.carried")
async def vectors_go_with_an_export(bench: Bench) -> None:
    """Vectors that a store keeps go with its export, and a copy that gets them embeds nothing again."""
    if not (bench.grade(Capability.EXPORT) and bench.grade(Capability.RESTORE)):
        raise Unseen("`export` and `restore` are not both declared")
    space, embedder = bench.space("team"), embedder_of(bench)
    await space.turn("one", CAT, CAR)
    await space.about("Kitten", DOCTOR)
    await space.revise({"entity": "Kitten"}, fields={"name": "Feline"}, reason="grown up")
    true(await is_found(space, "cat", "Feline"), "a name is not found by what it means")
    await all_embedded(space)
    texts = [CAT, CAR, DOCTOR, "Feline\nKitten", "Feline", "never said"]
    kept = await space.provider.kept_vectors(texts)
    equal(kept.fingerprint, embedder.fingerprint, "the fingerprint of what is kept")
    true({CAT, CAR, DOCTOR} <= kept.of.keys(), f"vectors are kept of {sorted(kept.of)} only")
    true("never said" not in kept.of, "there is a vector of what was never said")
    copy = bench.space("team", await bench.open(bench.new_world("copy")))
    before = embedder.embedded
    await copy.restore(await space.export(), kept)
    for question, text in (("kitten", CAT), ("vehicle", CAR), ("doctor", DOCTOR)):
        true(await is_found(copy, question, text), f"{text!r} is not found by its meaning in the copy")
    await all_embedded(copy)
    equal(embedder.embedded - before, 0, "texts that were embedded again")
    other = bench.space("team", await bench.open(bench.new_world("stranger")))
    await other.restore(await space.export(), replace(kept, fingerprint="another; 3"))
    true(
        await is_found(other, "kitten", CAT), f"{CAT!r} is not found where the vectors were of another model"
    )
    equal(embedder.embedded - before > 0, True, "vectors of another model were not made again")


@check("dense.mismatch")
async def vectors_of_another_embedder(bench: Bench) -> None:
    """A different embedder is refused before any write, with both names."""
    space = bench.space()
    await space.turn("one", CAT)
    world = bench.world
    await bench.close(bench.provider)
    other = replace(world, embedder=ToyEmbedder("another"))

    async def write() -> object:
        bench.provider = await bench.open(other)
        return await space.turn("two", CAR)

    await refused(EmbedderMismatch, write(), "a write with another embedder", "toy", "another")
    bench.provider = await bench.open(world)
    contains(await space.said(), CAT, "what is stored")
    equal(len(await space.said()), 1, "passages stored")
