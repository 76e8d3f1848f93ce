"""`rawthink history`: how something came to be what it is, oldest first."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from rawthink_cli import exits, paper, telling
from rawthink_cli.app import App, Verb
from rawthink_cli.show import similar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from rawthink_core.memory import Memory
    from rawthink_core.model import Entity, Observation, Passage, Relation
    from rawthink_core.operations import History

_EXAMPLES = """
rawthink history "image store"
"""


@click.command("history", cls=Verb, examples=_EXAMPLES)
@click.argument("name", metavar="NAME|ID")
@click.option("--ids", is_flag=True, help="Print the id of each item.")
@click.pass_obj
def command(app: App, /, *, name: str, ids: bool) -> int:
    """Show every version of an item, or of all that is said about an entity: what was given up too."""
    app.places = {"name": "NAME", "id": "ID"}

    async def work(memory: Memory) -> tuple[History, telling.Teller]:
        from rawthink_core.errors import NotFound  # noqa: PLC0415 - with the rest of the core

        try:
            found = await _past(memory, name)
        except NotFound as error:
            near = await similar(memory, [name])
            meant = f". Did you mean: {', '.join(map(paper.one_line, near))}" if near else ""
            raise NotFound(f"{error}{meant}") from None
        return found, telling.teller_for(memory, app.columns, ids=ids)

    found, tell = app.run(work)
    app.answer(found, lambda: lines(found, tell))
    return exits.PARTIAL if found.degraded else exits.OK


async def _past(memory: Memory, name: str) -> History:
    """Return the history of an item by its id, else of an entity by its name. Raises NotFound."""
    from rawthink_core.errors import NotFound  # noqa: PLC0415 - with the rest of the core
    from rawthink_core.identity import looks_like_id  # noqa: PLC0415 - see above

    if looks_like_id(name):
        with suppress(NotFound):
            return await memory.history(item_id=name)
    return await memory.history(name=name)


def lines(found: History, tell: telling.Teller) -> Iterator[str]:
    """Yield what happened, in the order in which it did."""
    yield from telling.degraded(found.degraded, empty=False)
    events: list[tuple[datetime, int, list[str]]] = []
    if found.entity is not None:
        yield from telling.entity(tell, found.entity)
        events += _fields(tell, found.entity)
    items: tuple[Observation | Relation | Passage, ...] = (
        *found.observations,
        *found.relations,
        *found.passages,
    )
    for item in items:
        events += _events(tell, item, owner=found.entity is None)
    for _, _, text in sorted(events, key=lambda event: event[:2]):
        yield from text


def _events(
    tell: telling.Teller, item: Observation | Relation | Passage, *, owner: bool
) -> Iterator[tuple[datetime, int, list[str]]]:
    said = _words(item)
    kind = getattr(item, "kind", "note")
    about = (
        f" ({paper.one_line(getattr(item, 'entity_name', ''))})"
        if owner and hasattr(item, "entity_name")
        else ""
    )
    verb = "relates" if hasattr(item, "source_name") else "says" if kind == "note" else kind
    lead = f"{tell.minute(item.recorded_at)}  +{about} {verb}: "
    lines = tell.excerpt(said, lead, " " * 20)
    if item.valid_from is not None:
        lines += tell.text(f"held from {tell.day(item.valid_from)}", " " * 20)
    yield item.recorded_at, 1, [*lines, *tell.label(item.id)]
    if item.status != "active" and item.invalidated_at is not None:
        what = "ended" if item.status == "ended" else "corrected"
        until = f" (held until {tell.day(item.valid_to)})" if item.valid_to else ""
        reason = f", because {item.reason}" if item.reason else ""
        lead = f"{tell.minute(item.invalidated_at)}  - {what}: "
        yield item.invalidated_at, 0, tell.excerpt(f"{said}{until}{reason}", lead, " " * 20)


def _words(item: Observation | Relation | Passage) -> str:
    if hasattr(item, "text"):
        return str(item.text)
    return f"{paper.one_line(item.source_name)} —{item.type}→ {paper.one_line(item.target_name)}"


def _fields(tell: telling.Teller, item: Entity) -> Iterator[tuple[datetime, int, list[str]]]:
    former = {(version.field, version.n): version for version in item.versions}
    for version in item.versions:
        before = former.get((version.field, version.n - 1))
        if before is None:
            continue
        reason = f", because {before.reason}" if before.reason else ""
        lead = f"{tell.minute(version.recorded_at)}  = {version.field}: "
        change = f"{_value(before.value)} → {_value(version.value)}{reason}"
        yield version.recorded_at, 2, tell.excerpt(change, lead, " " * 20)


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
