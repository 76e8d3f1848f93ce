"""`rawthink show`: what a memory holds under a name or an id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rawthink_cli import exits, paper, telling
from rawthink_cli.app import App, Verb
from rawthink_core.vocabulary import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rawthink_core.memory import Memory
    from rawthink_core.model import Item, Observation
    from rawthink_core.operations import GraphPage

_KINDS = ("decided", "because", "rejected", "touches", "note")  # the order in which a reader wants them

_EXAMPLES = """
rawthink show "api/cache: read-through"
rawthink show "image store" --status any --ids
"""


@click.command("show", cls=Verb, examples=_EXAMPLES)
@click.argument("names", nargs=-1, required=True, metavar="NAME|ID...")
@click.option(
    "--depth",
    default=1,
    show_default=True,
    metavar="N",
    type=int,
    help="How many relations away to go, up to 5.",
)
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([*STATUSES, "any"]),
    help="What stands (active, the default), ended, or proved wrong.",
)
@click.option("--as-of", metavar="DATE", help="As it was believed then.")
@click.option("--ids", is_flag=True, help="Print the id of each item.")
@click.pass_obj
def command(app: App, /, *, names: tuple[str, ...], ids: bool, **options: Any) -> int:
    """Show entities with what is said of them and their relations, or any item by its id."""
    app.places = {"names.*": "NAME", "ids.*": "ID", "statuses.*": "--status"}
    asked = {name: value for name, value in options.items() if value not in (None, ())}
    if "any" in options["statuses"]:
        asked["statuses"] = STATUSES

    async def work(memory: Memory) -> tuple[GraphPage, list[Item], list[str], telling.Teller]:
        graph, others = await _look_up(memory, names, asked)
        near = await similar(memory, graph.missing)
        return graph, others, near, telling.teller_for(memory, app.columns, ids=ids)

    graph, others, near, tell = app.run(work)
    document = graph.model_dump(mode="json") | {"items": [item.model_dump(mode="json") for item in others]}
    app.answer(document, lambda: _lines(graph, others, tell))
    _tell_missing(graph.missing, near)
    if graph.degraded:
        return exits.PARTIAL
    return exits.NOTHING if graph.missing else exits.OK


async def _look_up(
    memory: Memory, names: Sequence[str], asked: dict[str, Any]
) -> tuple[GraphPage, list[Item]]:
    """Return the entities with their surroundings, and the other items that were named by id.

    What has the form of an id, and is none here, is a name.
    """
    from rawthink_core.identity import canonical_id, looks_like_id  # noqa: PLC0415 - with the core

    ids = [name for name in names if looks_like_id(name)]
    found = (await memory.get(*ids, as_of=asked.get("as_of"))).items if ids else ()
    known = {item.id for item in found}
    words = [name for name in names if canonical_id(name) not in known]  # an entity may be called so
    entities = [item.id for item in found if hasattr(item, "entity_type")]
    others = [item for item in found if item.id not in entities]
    return await memory.graph(*words, ids=entities, **asked), others


async def similar(memory: Memory, missing: Sequence[str]) -> list[str]:
    """Return names that the missing ones may have meant."""
    from rawthink_core.errors import RawThinkError  # noqa: PLC0415 - with the rest of the core

    names: dict[str, None] = {}
    for name in missing[:3]:
        try:
            page = await memory.search(name, items=["entity"], limit=3, relevant_only=True)
        except RawThinkError:
            return []  # a courtesy: it must not hide that something is missing
        names.update((found.text, None) for found in page.items)
    return list(names)


def _tell_missing(missing: Sequence[str], near: Sequence[str]) -> None:
    if not missing:
        return
    click.echo(f"rawthink: not in this space: {', '.join(map(paper.one_line, missing))}", err=True)
    if near:
        click.echo(f"Did you mean: {', '.join(paper.one_line(name) for name in near)}", err=True)


def _lines(graph: GraphPage, others: Sequence[Item], tell: telling.Teller) -> Iterator[str]:
    yield from telling.degraded(graph.degraded, empty=not graph.entities)
    owners = {said.entity for said in graph.observations}
    blocks = 0
    for item in graph.entities:
        said = sorted((o for o in graph.observations if o.entity == item.id), key=_by_kind)
        links = [r for r in graph.relations if item.id in (r.source, r.target)]
        if item.id not in owners and blocks and links:
            continue  # only the far end of a relation that stands above
        if blocks:
            yield ""
        blocks += 1
        yield from telling.entity(tell, item)
        yield from (line for o in said for line in telling.observation(tell, o))
        yield from (line for r in links for line in telling.relation(tell, r))
    for other in others:
        yield from _other(tell, other)
    if graph.truncated:
        yield "There are more relations than these."


def _by_kind(said: Observation) -> int:
    return _KINDS.index(said.kind)


def _other(tell: telling.Teller, item: Item) -> Iterator[str]:
    from rawthink_core.model import Observation, Passage, Relation  # noqa: PLC0415 - with the rest of the core

    if isinstance(item, Observation):
        yield from telling.observation(tell, item, owner=True)
    elif isinstance(item, Relation):
        yield from telling.relation(tell, item)
    elif isinstance(item, Passage):
        yield from telling.passage(tell, item)
