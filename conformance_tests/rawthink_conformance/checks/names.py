"""Entities: what they answer to, and how their fields change."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import differ, equal, refused, true
from rawthink_core.errors import InvalidRequest
from rawthink_core.model import Observation

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench

THING = {"entity_type": "concept", "domain": "software"}

ONE_NAME = (
    ("İstanbul", "istanbul", "ISTANBUL", " i̇stanbul "),
    ("Rust", "Ｒｕｓｔ", "RUST", "\u2009rust\u2009"),
    ("Grade 4", "grade \t 4", "GRADE\u00a04"),
    ("Straße", "STRASSE", "strasse"),
    ("café", "cafe\u0301", "CAFÉ"),
    ("ΟΔΟΣ", "οδος", "οδοσ"),
    ("ﬁlter", "filter", "FILTER"),
)
TWO_NAMES = (("ılık", "ilik"), ("resume", "résumé"), ("a-b", "a b"), ("日本", "日"), ("c++", "c"))


@check("entity.keys")
async def spellings_of_one_name(bench: Bench) -> None:
    """Spellings that differ in case, width or white space are one name; the first is kept."""
    space = bench.space()
    for first, *spellings in ONE_NAME:
        (owner,) = await space.create(first)
        for spelling in spellings:
            found = await space.entity(spelling)
            equal((found.id, found.name), (owner, first), f"{spelling!r} after {first!r}")
            equal(await space.create(spelling), [owner], f"{spelling!r} recorded after {first!r}")
    for one, other in TWO_NAMES:
        differ(await space.create(one), await space.create(other), f"{one!r} and {other!r}")


@check("entity.renamed")
async def a_renamed_entity_answers_to_both_names(bench: Bench) -> None:
    """A new name keeps the id and all that was said; the old name still answers, now and after reopening."""
    space = bench.space()
    (said,) = await space.about("Redis", "is fast")
    owner = (await space.entity("Redis")).id
    await space.revise({"entity": "Redis"}, fields={"name": "Valkey"}, reason="forked")
    await space.revise({"entity": "redis"}, fields={"name": "KeyDB"}, reason="again")
    for moment in ("at once", "after reopening"):
        for name in ("Redis", "VALKEY", "keydb"):
            found = await space.entity(name)
            equal((found.id, found.name), (owner, "KeyDB"), f"{name!r} {moment}")
        equal((await space.one(Observation, said)).entity_name, "KeyDB", f"the observation's entity {moment}")
        equal(await space.create("redis"), [owner], f"the old name recorded again {moment}")
        equal([node.name for node in (await space.graph("Redis")).entities], ["KeyDB"], f"graph {moment}")
        await bench.reopen()


@check("entity.old_names")
async def no_other_entity_takes_a_name(bench: Bench) -> None:
    """A name, former name or alias of one entity is refused to every other one, twice in one batch too."""
    space = bench.space()
    await space.create("Redis", aliases=["RDS"])
    await space.create("Memcached")
    await space.revise({"entity": "Redis"}, fields={"name": "Valkey"})
    for taken in ("valkey", "REDIS", "rds"):
        call = space.revise({"entity": "Memcached"}, fields={"name": taken})
        await refused(InvalidRequest, call, f"the name {taken!r} for another entity")
        alias = space.create("Memcached", aliases=[taken])
        await refused(InvalidRequest, alias, f"the alias {taken!r} for another entity")
        call = space.revise({"entity": "Memcached"}, fields={"aliases": [taken]})
        await refused(InvalidRequest, call, f"{taken!r} revised into the aliases of another entity")
    both = [
        {"targets": [{"entity": "Memcached"}], "fields": {"name": "Cache"}},
        {"targets": [{"entity": "Valkey"}], "fields": {"name": "cache"}},
    ]
    await refused(InvalidRequest, space.record(revisions=both), "one new name for two entities in a batch")
    equal((await space.entity("Memcached")).aliases, (), "aliases of the other entity")
    equal((await space.entity("Redis")).name, "Valkey", "the name that nobody took")


@check("entity.aliases")
async def aliases_answer(bench: Bench) -> None:
    """An entity answers to its aliases, those added later and those revised away included."""
    space = bench.space()
    (owner,) = await space.create("PostgreSQL", aliases=["Postgres", "postgres "])
    await space.record(entities=[{"name": "postgres", "aliases": ["pg"]}])
    await bench.reopen()
    equal((await space.entity("PG")).aliases, ("Postgres", "pg"), "aliases")
    await space.say("pg", "has extensions")
    equal(len((await space.history(name="PostgreSQL")).observations), 1, "what was said under an alias")
    await space.revise({"id": owner}, fields={"aliases": ["pg"]})
    equal((await space.entity("PG")).aliases, ("pg",), "aliases after the revision")
    equal((await space.entity("postgres")).id, owner, "what a former alias answers")


@check("entity.kept")
async def nothing_is_changed_in_passing(bench: Bench) -> None:
    """Recording an entity again with another type, domain, epistemic status or visibility is refused."""
    space = bench.space()
    await space.create("Redis", epistemic="hypothesis", visibility="shareable")
    changes = {
        "entity_type": ("concept", "artifact"),
        "domain": ("software", "music"),
        "epistemic": ("hypothesis", "assertion"),
        "visibility": ("shareable", "private"),
    }
    for field, (old, new) in changes.items():
        call = space.record(
            entities=[{"name": "Redis", field: new}], observations=[{"entity": "Redis", "text": "lost"}]
        )
        await refused(InvalidRequest, call, f"another {field} in passing", old, new, "revise")
    await space.record(entities=[{"name": "redis"}])
    found = await space.entity("Redis")
    seen = (found.entity_type, found.domain, found.epistemic, found.visibility)
    equal(seen, ("concept", "software", "hypothesis", "shareable"), "fields that were left out later")
    equal((await space.history(name="Redis")).observations, (), "observations of the refused batches")


@check("entity.filling")
async def what_is_unknown_may_be_filled(bench: Bench) -> None:
    """An epistemic status that was unknown is filled by a later record, and dated."""
    space = bench.space()
    await space.create("Redis")
    created = (await space.entity("Redis")).recorded_at
    bench.clock.tick()
    receipt = await space.record(entities=[{"name": "Redis", "epistemic": "hypothesis"}])
    equal([item.outcome for item in receipt.items], ["updated"], "the outcome of filling")
    found = await space.entity("Redis")
    equal(found.epistemic, "hypothesis", "the filled field")
    equal(found.recorded_at, created, "when the entity was recorded")
    values = [(v.n, v.value, v.recorded_at) for v in found.versions if v.field == "epistemic"]
    equal(values, [(1, "unknown", created), (2, "hypothesis", receipt.recorded_at)], "versions of the field")


@check("entity.versions")
async def fields_are_revised_with_versions(bench: Bench) -> None:
    """A revised field keeps its former values, with when and why they ended; the id stays."""
    space = bench.space()
    (owner,) = await space.create("Redis", epistemic="speculation")
    first = (await space.entity("Redis")).recorded_at
    bench.clock.tick()
    second = await space.revise({"id": owner}, fields={"epistemic": "hypothesis"}, reason="measured once")
    bench.clock.tick()
    third = await space.revise(
        {"entity": "Redis"}, fields={"epistemic": "assertion", "domain": "finance", "pinned": True}
    )
    await bench.reopen()
    found = await space.entity("Redis")
    seen = (found.id, found.epistemic, found.domain, found.pinned, found.entity_type)
    equal(seen, (owner, "assertion", "finance", True, "concept"), "fields after two revisions")
    versions = [v for v in found.versions if v.field == "epistemic"]
    equal(
        [(v.n, v.value, v.recorded_at, v.invalidated_at, v.reason) for v in versions],
        [
            (1, "speculation", first, second.recorded_at, "measured once"),
            (2, "hypothesis", second.recorded_at, third.recorded_at, None),
            (3, "assertion", third.recorded_at, None, None),
        ],
        "versions of a field",
    )
    entity = (await space.history(id=owner)).entity
    true(
        entity is not None and entity.versions == found.versions, "history must show the same versions as get"
    )


@check("entity.complete")
async def a_new_entity_is_complete(bench: Bench) -> None:
    """A new entity needs a type and a domain, and a name that shows something."""
    space = bench.space()
    call = space.record(entities=[{"name": "Redis", "domain": "software"}])
    await refused(InvalidRequest, call, "an entity without a type", "entity_type", "decision")
    call = space.record(entities=[{"name": "Redis", "entity_type": "concept"}])
    await refused(InvalidRequest, call, "an entity without a domain", "domain", "software")
    for blank in ("", "  ", "\u200b", "\u2800", "\u3164", "\n"):
        await refused(InvalidRequest, space.create(blank), f"the name {blank!r}")
        await refused(InvalidRequest, space.create("Seen", aliases=[blank]), f"the alias {blank!r}")
    for name in ("?", "🦀", "7", "c++", ".env", "ⅷ"):
        (owner,) = await space.create(name)
        equal((await space.entity(name)).id, owner, f"the entity called {name!r}")
