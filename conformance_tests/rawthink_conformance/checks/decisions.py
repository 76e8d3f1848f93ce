"""Rule 8 and the nouns, for decisions: a new one ends the old, and what was rejected stays."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import contains, equal, refused, true
from rawthink_core.errors import InvalidRequest
from rawthink_core.model import Observation

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench
    from rawthink_conformance.talking import Space
    from rawthink_core.operations import RecordReceipt

DECISION = {"entity_type": "decision", "domain": "software"}


async def _decide(space: Space, name: str, decided: str, because: str, **entity: str) -> RecordReceipt:
    return await space.record(
        entities=[{"name": name, **DECISION, **entity}],
        observations=[
            {"entity": name, "kind": "decided", "text": decided},
            {"entity": name, "kind": "because", "text": because},
            {"entity": name, "kind": "rejected", "text": f"not {decided} — too early"},
            {"entity": name, "kind": "touches", "text": "api/cache.py"},
        ],
    )


async def _kinds(space: Space, ids: list[str]) -> dict[str, Observation]:
    return {item.kind: item for item in [await space.one(Observation, i) for i in ids]}


@check("decision.ends_the_former")
async def deciding_again_ends_what_was_decided(bench: Bench) -> None:
    """A new `decided` ends the old `decided` and `because` and begins there; `rejected`, `touches` stay."""
    space = bench.space()
    first = await _decide(space, "cache", "write-through", "simple")
    second = await _decide(space, "cache", "read-through", "the write path is the bottleneck")
    await bench.reopen()
    old = await _kinds(space, first.ids("observation"))
    new = await _kinds(space, second.ids("observation", "created"))
    for kind in ("decided", "because"):
        seen = (old[kind].status, old[kind].superseded_by, old[kind].valid_to)
        equal(seen, ("ended", new[kind].id, second.recorded_at), f"the old `{kind}`")
        contains(new[kind].supersedes, old[kind].id, f"what the new `{kind}` supersedes")
        begins = (old[kind].valid_from, new[kind].valid_from)
        equal(begins, (None, second.recorded_at), f"since when either `{kind}` has held")
    equal(old["rejected"].status, "active", "what was rejected before")
    equal(old["touches"].status, "active", "what it touches")
    standing = await space.texts("write read through", observation_kinds=["decided"])
    equal(standing, ["read-through"], "the decision that stands")


@check("decision.said_again")
async def saying_a_decision_again_ends_nothing(bench: Bench) -> None:
    """The same decision recorded again, or a new reason for it, ends nothing."""
    space = bench.space()
    first = await _decide(space, "cache", "write-through", "simple")
    again = await _decide(space, "cache", "write-through", "simple")
    equal([item.outcome for item in again.items], ["unchanged"] * 5, "outcomes of the repetition")
    await space.say("cache", "and safe", kind="because")
    old = await _kinds(space, first.ids("observation"))
    equal({said.status for said in old.values()}, {"active"}, "statuses")
    second = await _decide(space, "cache", "read-through", "fast")
    again = await _decide(space, "cache", "read-through", "fast")
    equal(
        set(again.ids(None, "unchanged")), set(again.ids()), "what the repetition of a later one left alone"
    )
    true(set(again.ids()) <= set(second.ids()), "the repetition must meet what was recorded")


@check("decision.supersedes")
async def one_decision_replaces_another(bench: Bench) -> None:
    """`supersedes` relates the new decision to the old, and ends the old one's `decided` and `because`."""
    space = bench.space()
    first = await _decide(space, "cache", "write-through", "simple")
    second = await _decide(space, "cache, second try", "no cache", "the database is fast", supersedes="Cache")
    old = await _kinds(space, first.ids("observation"))
    new = await _kinds(space, second.ids("observation", "created"))
    for kind in ("decided", "because"):
        equal((old[kind].status, old[kind].superseded_by), ("ended", new[kind].id), f"the old `{kind}`")
    equal(old["rejected"].status, "active", "what was rejected before")
    links = (await space.graph("cache, second try")).relations
    seen = [(link.source_name, link.type, link.target_name) for link in links]
    equal(seen, [("cache, second try", "supersedes", "cache")], "the relation")
    call = _decide(space, "third", "x", "y", supersedes="never decided")
    await refused(InvalidRequest, call, "superseding what does not exist", "never decided")
    call = space.record(entities=[{"name": "cache", "supersedes": "cache, second try"}])
    await refused(InvalidRequest, call, "superseding one's own successor")


@check("decision.forgotten")
async def a_forgotten_decision_leaves_no_name(bench: Bench) -> None:
    """Forgetting the decision that replaced another takes its name out of the other's history too."""
    space = bench.space()
    await _decide(space, "cache", "write-through", "simple")
    await _decide(space, "project Zanzibar", "no cache", "the database is fast", supersedes="cache")
    await space.forget(names=["project Zanzibar"])
    kept = repr(await space.history(name="cache")) + repr(await space.export())
    true("Zanzibar" not in kept, "the forgotten name is still in what is kept of the other decision")
