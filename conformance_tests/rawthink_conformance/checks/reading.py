"""The verbs that read without searching: get, scan, graph and history."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import equal, refused, true
from rawthink_conformance.talking import EVERY_STATUS
from rawthink_core.errors import InvalidRequest, NotFound
from rawthink_core.identity import successor_id
from rawthink_core.model import Observation, Passage, kind_of
from rawthink_core.operations import Scan, parse

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench
    from rawthink_conformance.talking import Space

THING = {"entity_type": "concept", "domain": "software"}


@check("get.order")
async def items_come_in_the_order_asked_for(bench: Bench) -> None:
    """Items come in the order asked for, ids before names, each once; what is not there is listed."""
    space = bench.space()
    one, two = await space.about("Redis", "is fast", "is small")
    await space.create("Valkey")
    owner = (await space.entity("Redis")).id
    found = await space.get(two, "nothing", one, two, names=["valkey", "Nobody", "REDIS"])
    names = [item.id for item in found.items]
    equal(names, [two, one, (await space.entity("Valkey")).id, owner], "items")
    equal(found.missing, ("nothing", "Nobody"), "what is missing")
    both = await space.get(owner, names=["Redis", "redis"])
    equal([item.id for item in both.items], [owner], "an entity asked for three times")


async def _library(space: Space) -> None:
    """Write a little of everything, so that each filter has something to keep and to drop."""
    await space.record(
        entities=[
            {"name": "Redis", **THING},
            {"name": "Sonata", "entity_type": "artifact", "domain": "music"},
        ],
        observations=[
            {"entity": "Redis", "text": "note on redis"},
            {"entity": "Redis", "text": "decided on redis", "kind": "decided", "valid_from": "2024-05-01"},
            {"entity": "Sonata", "text": "note on the sonata"},
        ],
        relations=[{"source": "Redis", "type": "related_to", "target": "Sonata"}],
        passages=[
            {"session": "s1", "text": "tagged turn", "tags": ["work", "x"]},
            {"session": "s2", "text": "old turn", "valid_from": "2023-01-01T12:00:00Z"},
            {"session": "s2", "text": "retired turn"},
        ],
    )
    await space.revise({"id": (await space.search("retired turn")).items[0].id})


_FILTERS: tuple[tuple[dict[str, object], set[str]], ...] = (
    ({"items": ["observation"]}, {"note on redis", "decided on redis", "note on the sonata"}),
    ({"observation_kinds": ["decided"]}, {"decided on redis"}),
    ({"domains": ["music"]}, {"note on the sonata"}),
    ({"entity_types": ["concept"]}, {"note on redis", "decided on redis"}),
    ({"entity_types": ["concept", "artifact"], "domains": ["music"]}, {"note on the sonata"}),
    ({"tags": ["x", "y"]}, {"tagged turn"}),
    ({"sessions": ["s2"]}, {"old turn"}),
    ({"sessions": ["s2"], "statuses": ["invalidated"]}, {"retired turn"}),
    ({"until": "2024-12-31"}, {"decided on redis", "old turn"}),
    ({"since": "2024-01-01", "until": "2024-12-31"}, {"decided on redis"}),
    ({"tags": ["work"], "sessions": ["s2"]}, set()),
)


@check("scan.filters")
async def scans_are_filtered(bench: Bench) -> None:
    """Each filter of a scan keeps what has the field and the value, and nothing else."""
    space = bench.space()
    await _library(space)
    for filters, texts in _FILTERS:
        equal(set(await space.said(**filters)), texts, f"scan with {filters}")
    kinds = [kind_of(item) for item in await space.scan()]
    counted = {kind: kinds.count(kind) for kind in ("entity", "observation", "relation", "passage")}
    equal(counted, {"entity": 2, "observation": 3, "relation": 1, "passage": 2}, "a scan without filters")


@check("search.filters")
async def searches_are_filtered(bench: Bench) -> None:
    """Each filter of a search keeps what has the field and the value, and nothing else."""
    space = bench.space()
    await _library(space)
    everything = "note decided redis sonata tagged old retired turn"
    for filters, texts in _FILTERS:
        filters = {"items": ["observation", "passage"], **filters}  # noqa: PLW2901 - names are items too
        equal(set(await space.texts(everything, **filters)), texts, f"search with {filters}")
    kinds = {hit.item for hit in (await space.search(everything)).items}
    equal(kinds, {"entity", "observation", "passage"}, "kinds of a search without filters")


@check("scan.pages")
async def pages_hold_everything_once(bench: Bench) -> None:
    """Pages hold every item exactly once, oldest first, though more is written and retired between them."""
    space = bench.space()
    for number in range(4):
        await space.about(f"Entity {number}", *(f"fact {number}.{n}" for n in range(8)))
        await space.turn("talk", *(f"turn {number}.{n}" for n in range(3)))
    whole = await space.scan(limit=1000, statuses=EVERY_STATUS)
    equal(len(whole), 48, "items of the whole scan")
    order = [(item.recorded_at, item.id) for item in whole]
    equal(order, sorted(order), "the order of a scan")
    for limit in (1, 5, 47, 48):
        equal(
            [i.id for i in await space.scan(limit=limit, statuses=EVERY_STATUS)],
            [i.id for i in whole],
            f"pages of {limit}",
        )
    seen: list[str] = []
    retired: set[str] = set()
    cursor: str | None = None
    while len(seen) < 200:  # noqa: PLR2004 - or it does not end
        page = await space.provider.scan(parse(Scan, {"scope": space.scope, "limit": 7, "cursor": cursor}))
        true(len(page.items) <= 7, f"a page of at most 7 has {len(page.items)} items")  # noqa: PLR2004 - as asked
        seen += [item.id for item in page.items]
        cursor = page.cursor
        if cursor is None:
            break
        await space.turn("late", f"written after {len(seen)}")
        said = [item for item in page.items if isinstance(item, Observation)]
        for item in said[:2]:
            await space.revise({"id": item.id})
        retired |= {item.id for item in said[:2]}
    known = {item.id for item in whole}
    equal([item for item in seen if item in known], [item.id for item in whole], "pages while writing")
    true(retired, "the check itself must retire something between pages")
    equal(len(seen), len(set(seen)), "items seen twice")


@check("scan.cursor")
async def only_cursors_of_scans_are_taken(bench: Bench) -> None:
    """A cursor that no scan returned is refused; it is not the end of the pages."""
    space = bench.space()
    await space.turn("talk", *(f"turn {number}" for number in range(5)))
    for forged in ("garbage", "zzzz|zzzz", "' OR 1=1 --", "\x00"):
        await refused(InvalidRequest, space.scan(cursor=forged), f"the cursor {forged!r}")


@check("graph.walk")
async def a_graph_is_walked(bench: Bench) -> None:
    """A graph holds what is said of the start, and what lies within `depth` steps in either direction."""
    space = bench.space()
    await space.create("A", "B", "C", "D", "Z")
    await space.record(
        observations=[{"entity": "A", "text": "start"}, {"entity": "B", "text": "not the start"}],
        relations=[
            {"source": "B", "type": "uses", "target": "A"},
            {"source": "B", "type": "part_of", "target": "C"},
            {"source": "C", "type": "uses", "target": "D"},
        ],
    )
    reach = {0: "A", 1: "AB", 2: "ABC", 3: "ABCD", 5: "ABCD"}
    for depth, names in reach.items():
        page = await space.graph("a", "Nobody", depth=depth)
        equal("".join(sorted(entity.name for entity in page.entities)), names, f"entities at depth {depth}")
        equal(len(page.relations), min(depth, 3), f"relations at depth {depth}")
        equal([said.text for said in page.observations], ["start"], f"observations at depth {depth}")
        equal((page.missing, page.truncated), (("Nobody",), False), f"the rest at depth {depth}")
    owner = (await space.entity("A")).id
    equal(
        await space.graph(depth=2, ids=[owner.upper()]), await space.graph("A", depth=2), "a walk from an id"
    )


@check("graph.cycles")
async def a_graph_with_cycles(bench: Bench) -> None:
    """Cycles end: each entity and relation is there once."""
    space = bench.space()
    await space.create("A", "B", "C")
    ring = [("A", "B"), ("B", "C"), ("C", "A"), ("B", "A")]
    await space.record(relations=[{"source": s, "type": "depends_on", "target": t} for s, t in ring])
    page = await space.graph("A", depth=5)
    equal(sorted(entity.name for entity in page.entities), ["A", "B", "C"], "entities")
    equal(sorted((r.source_name, r.target_name) for r in page.relations), sorted(ring), "relations")


@check("graph.limit")
async def a_graph_is_bounded(bench: Bench) -> None:
    """At most `limit` relations come back, and the page says that there are more."""
    space = bench.space()
    await space.create("Hub", *(f"Spoke {n}" for n in range(30)))
    await space.record(
        relations=[{"source": f"Spoke {n}", "type": "uses", "target": "Hub"} for n in range(30)]
    )
    page = await space.graph("Hub", depth=2, limit=10)
    equal((len(page.relations), page.truncated), (10, True), "relations of a bounded page")
    known = {entity.id for entity in page.entities}
    true(
        all({r.source, r.target} <= known for r in page.relations), "an end of a relation is not on the page"
    )
    page = await space.graph("Hub", limit=30)
    equal((len(page.relations), page.truncated), (30, False), "relations of a whole page")


@check("graph.statuses")
async def a_graph_shows_what_stands(bench: Bench) -> None:
    """A graph shows active observations and relations; others when it is asked for their status."""
    space = bench.space()
    old, _ = await space.about("A", "was so", "is so")
    await space.create("B")
    (link,) = (await space.record(relations=[{"source": "A", "type": "uses", "target": "B"}])).ids("relation")
    await space.revise({"id": old})
    await space.revise({"id": link}, cause="changed")
    page = await space.graph("A")
    seen = ([e.name for e in page.entities], [o.text for o in page.observations], page.relations)
    equal(seen, (["A"], ["is so"], ()), "a plain graph")
    page = await space.graph("A", statuses=["ended", "invalidated"])
    equal([e.name for e in page.entities], ["A", "B"], "entities among retired relations")
    equal(
        ([o.id for o in page.observations], [r.id for r in page.relations]), ([old], [link]), "retired items"
    )


@check("graph.bare")
async def a_graph_without_observations(bench: Bench) -> None:
    """A graph that is asked for without observations holds none; entities and relations stay as they are."""
    space = bench.space()
    await space.about("A", "is said")
    await space.create("B")
    await space.record(
        observations=[{"entity": "B", "text": "is said too"}],
        relations=[{"source": "A", "type": "uses", "target": "B"}],
    )
    whole = await space.graph("A", "Nobody", depth=2)
    equal([said.text for said in whole.observations], ["is said"], "observations of a whole page")
    bare = await space.graph("A", "Nobody", depth=2, observations=False)
    equal(bare.observations, (), "observations that nobody asked for")
    equal(bare, whole.model_copy(update={"observations": ()}), "the rest of the page")
    equal((await space.graph("A", depth=0, observations=False)).observations, (), "observations at depth 0")


@check("history.entity")
async def the_history_of_an_entity(bench: Bench) -> None:
    """A history of an entity holds all that was ever said of it, oldest first, and its relations."""
    space = bench.space()
    (old,) = await space.about("NAS", "runs on Synology")
    await space.create("Desk")
    await space.record(relations=[{"source": "NAS", "type": "part_of", "target": "Desk"}])
    await space.revise({"id": old}, successor={"text": "runs on fnOS"})
    await space.say("Desk", "is brown")
    many = [f"fact {number}" for number in range(7)]
    await space.say("Desk", *many)
    told = [said.text for said in (await space.history(name="Desk")).observations]
    equal(told, ["is brown", *many], "observations of one commit, in the order in which they were said")
    shown = [said.text for said in (await space.graph("Desk")).observations]
    equal(shown, told, "observations in the graph")
    history = await space.history(name="nas")
    equal(history.entity and history.entity.name, "NAS", "the entity")
    texts = [said.text for said in history.observations]
    equal(texts, ["runs on Synology", "runs on fnOS"], "observations, oldest first")
    equal([link.target_name for link in history.relations], ["Desk"], "relations")
    await refused(NotFound, space.history(name="Nobody"), "a history of nobody")
    await refused(NotFound, space.history(id="no id"), "a history of nothing")
    await refused(InvalidRequest, space.history(), "a history of neither a name nor an id")


@check("history.chain")
async def the_history_of_an_item(bench: Bench) -> None:
    """A history of an item holds what it replaced and what replaced it, from whichever end it is asked."""
    space = bench.space()
    one, two, other = await space.about("NAS", "has two disks", "has few disks", "is loud")
    await space.revise({"id": one}, {"id": two}, successor={"text": "has four disks"})
    last = successor_id(successor_id(one))
    await space.revise({"id": successor_id(one)}, successor={"text": "has six disks"})
    for start in (one, two, successor_id(one), last):
        history = await space.history(id=start)
        seen = {said.id for said in history.observations}
        equal(seen, {one, two, successor_id(one), last}, "the chain")
    equal([said.id for said in (await space.history(id=other)).observations], [other], "a chain of one")
    receipt = await space.record(passages=[{"session": "s", "key": "m", "text": "draft"}])
    await space.record(passages=[{"session": "s", "key": "m", "text": "final"}])
    passages = (await space.history(id=receipt.ids()[0])).passages
    equal([passage.text for passage in passages], ["draft", "final"], "versions of a passage")
    true(all(isinstance(passage, Passage) for passage in passages), "passages must come as passages")
