"""Rules 5, 6 and 7: the closed vocabulary, relations that end at entities, and what is not stated."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import equal, refused
from rawthink_core.errors import InvalidRequest
from rawthink_core.model import Entity, Observation, Passage, Relation
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rawthink_conformance.bench import Bench

THING = {"entity_type": "concept", "domain": "software"}
STRAIGHT = {
    "uses": "uses",
    "connected_to": "related_to",
    "aspect_of": "part_of",
    "demonstrates": "exemplifies",
    "requires": "depends_on",
    "solves": "enables",
    "validates": "supports",
    "Depends On": "depends_on",
    "parcasi": "part_of",
}
TURNED = {
    "used_by": "uses",
    "supported_by": "supports",
    "validated_by": "supports",
    "informed_by": "informs",
    "solved_by": "enables",
    "extends": "evolved_into",
    "icerir": "part_of",
}


@check("vocabulary.closed")
async def unknown_words_are_refused(bench: Bench) -> None:
    """A word outside the vocabulary is refused with the nearest one and the list of those allowed."""
    space = bench.space()
    await space.create("Redis", "Valkey")
    attempts: tuple[tuple[str, str, str, Callable[[], Awaitable[object]]], ...] = (
        ("decission", "decision", "artifact", lambda: space.create("X", entity_type="decission")),
        ("sofware", "software", "galaxy", lambda: space.create("X", domain="sofware")),
        ("asertion", "assertion", "speculation", lambda: space.create("X", epistemic="asertion")),
        ("privat", "private", "shareable", lambda: space.create("X", visibility="privat")),
        ("rejectd", "rejected", "touches", lambda: space.say("Redis", "x", kind="rejectd")),
        (
            "depend_on",
            "depends_on",
            "contradicts",
            lambda: space.record(relations=[{"source": "Redis", "type": "depend_on", "target": "Valkey"}]),
        ),
        ("privat", "private", "shareable", lambda: space.turn("talk", "x", visibility="privat")),
        (
            "changd",
            "changed",
            "corrected",
            lambda: space.revise({"entity": "Redis", "text": "x"}, cause="changd"),
        ),
    )
    for word, nearest, allowed, call in attempts:
        await refused(
            InvalidRequest, call(), f"the word {word!r}", word, f"Did you mean {nearest!r}", allowed
        )
    equal((await space.get(names=["X"])).missing, ("X",), "the entity of refused batches")


@check("vocabulary.filters")
async def unknown_filters_are_refused(bench: Bench) -> None:
    """A filter by a word outside the vocabulary is refused like one in a record; known words fold."""
    space = bench.space()
    await space.create("Redis", entity_type="open-question")
    verbs: list[Callable[..., Awaitable[object]]] = [partial(space.search, "redis")]
    if bench.provider.info.can(Capability.SCAN):
        verbs.append(space.scan)
    for field, word, nearest, allowed in (
        ("entity_types", "decission", "decision", "artifact"),
        ("domains", "sofware", "software", "galaxy"),
        ("observation_kinds", "rejectd", "rejected", "touches"),
        ("statuses", "actve", "active", "invalidated"),
    ):
        for ask in verbs:
            hints = (word, f"Did you mean {nearest!r}", allowed)
            await refused(InvalidRequest, ask(**{field: [nearest, word]}), f"a filter by {word!r}", *hints)
    both = space.search("redis", entity_types=["redis"], domains=["redis"])
    await refused(InvalidRequest, both, "two unknown words", "entity_types.0", "domains.0")
    for known in ({"entity_types": ["Open Question"]}, {"domains": ["SOFTWARE "]}, {"statuses": ["Active"]}):
        equal(await space.texts("redis", **known), ["Redis"], f"hits with {known}")


@check("vocabulary.synonyms")
async def synonyms_fold_and_turn(bench: Bench) -> None:
    """A synonym of a relation type is stored as the type it means, the arrow turned where it must be."""
    space = bench.space()
    for number, (word, kind) in enumerate((STRAIGHT | TURNED).items()):
        one, other = f"one {number}", f"other {number}"
        await space.create(one, other)
        (made,) = (await space.record(relations=[{"source": one, "type": word, "target": other}])).ids(
            "relation"
        )
        found = await space.one(Relation, made)
        ends = (other, one) if word in TURNED else (one, other)
        equal((found.source_name, found.type, found.target_name), (ends[0], kind, ends[1]), f"{word!r}")
        plain = await space.record(relations=[{"source": ends[0], "type": kind, "target": ends[1]}])
        equal(plain.ids("relation", "unchanged"), [made], f"the plain form of {word!r}")


@check("vocabulary.extended")
async def the_store_uses_the_vocabulary_it_was_given(bench: Bench) -> None:
    """Words that the configuration adds are accepted, and only there."""
    larger = bench.world.vocabulary.extended(
        entity_types=["recipe"],
        domains=["cooking"],
        relations=["goes_with"],
        relation_aliases={"eaten_by": "<uses"},
    )
    await refused(InvalidRequest, bench.space().create("Soup", domain="cooking"), "a domain not added yet")
    await bench.reopen(replace(bench.world, vocabulary=larger))
    space = bench.space()
    await space.create("Soup", "Bread", entity_type="recipe", domain="cooking")
    made = await space.record(
        relations=[
            {"source": "Soup", "type": "goes_with", "target": "Bread"},
            {"source": "Soup", "type": "eaten_by", "target": "Bread"},
        ]
    )
    found = [await space.one(Relation, item) for item in made.ids("relation")]
    seen = [(link.source_name, link.type, link.target_name) for link in found]
    equal(seen, [("Soup", "goes_with", "Bread"), ("Bread", "uses", "Soup")], "relations of added types")
    if Capability.LEXICAL in bench.provider.info.capabilities:
        hits = await space.texts("soup", entity_types=["recipe"], domains=["Cooking"])
        equal(hits, ["Soup"], "hits with filters by added words")


@check("relation.ends")
async def relations_end_at_entities(bench: Bench) -> None:
    """A relation to what does not exist is refused; one to what the same batch creates is not."""
    space = bench.space()
    await space.create("Redis")
    ghost = [{"source": "Redis", "type": "uses", "target": "Ghost"}]
    await refused(InvalidRequest, space.record(relations=ghost), "a relation to a ghost", "Ghost")
    ghost = [{"source": "Ghost", "type": "used_by", "target": "Redis"}]
    await refused(InvalidRequest, space.record(relations=ghost), "a relation from a ghost", "Ghost")
    equal((await space.get(names=["Ghost"])).missing, ("Ghost",), "the ghost")
    equal((await space.graph("Redis")).relations, (), "relations of refused batches")
    owner = (await space.entity("Redis")).id
    made = await space.record(
        entities=[{"name": "Memory", **THING}],
        relations=[{"source": owner, "type": "uses", "target": "memory"}],
    )
    (link,) = made.ids("relation")
    equal((await space.one(Relation, link)).target_name, "Memory", "an end created in the same batch")


@check("relation.sense")
async def relations_without_sense(bench: Bench) -> None:
    """A relation to oneself, and a `supersedes` that reverses an active one, are refused."""
    space = bench.space()
    await space.create("New", "Old", aliases=[])
    to_itself = [{"source": "New", "type": "uses", "target": "new"}]
    await refused(InvalidRequest, space.record(relations=to_itself), "a relation to oneself")
    await space.record(relations=[{"source": "New", "type": "supersedes", "target": "Old"}])
    reverse = [{"source": "Old", "type": "supersedes", "target": "New"}]
    await refused(InvalidRequest, space.record(relations=reverse), "the reverse of a `supersedes`")
    await space.revise({"source": "New", "type": "supersedes", "target": "Old"}, reason="not so")
    await space.record(relations=reverse)
    seen = [(link.source_name, link.target_name) for link in (await space.graph("New")).relations]
    equal(seen, [("Old", "New")], "what stands after the first was retired")


@check("defaults.unknown")
async def what_is_not_stated_is_unknown(bench: Bench) -> None:
    """Epistemic status is `unknown` and visibility `private` unless stated, in decisions too."""
    space = bench.space()
    receipt = await space.record(
        entities=[
            {"name": "Redis", **THING},
            {"name": "api: cache", "entity_type": "decision", "domain": "software"},
            {"name": "Law", "epistemic": "assertion", "visibility": "shareable", **THING},
        ],
        observations=[
            {"entity": "api: cache", "text": "read-through", "kind": "decided"},
            {"entity": "Redis", "text": "is fast"},
        ],
        relations=[{"source": "api: cache", "type": "uses", "target": "Redis"}],
        passages=[{"session": "talk", "text": "hello"}],
    )
    await bench.reopen()
    items = (await space.get(*receipt.ids())).items
    entities = [item for item in items if isinstance(item, Entity)]
    seen = [(entity.epistemic, entity.visibility) for entity in entities]
    promised = [("unknown", "private"), ("unknown", "private"), ("assertion", "shareable")]
    equal(seen, promised, "epistemic status and visibility")
    equal([entity.pinned for entity in entities], [False] * 3, "pinned")
    dated = [item for item in items if not isinstance(item, Entity)]
    equal({item.status for item in dated}, {"active"}, "statuses")
    unset = {item.valid_from or item.valid_to or item.invalidated_at or item.superseded_by for item in dated}
    equal(unset, {None}, "times and links that nobody stated")
    kinds = [item.kind for item in dated if isinstance(item, Observation)]
    equal(kinds, ["decided", "note"], "kinds")
    (passage,) = (item for item in dated if isinstance(item, Passage))
    equal((passage.visibility, passage.speaker, passage.tags), ("private", None, ()), "the passage")
