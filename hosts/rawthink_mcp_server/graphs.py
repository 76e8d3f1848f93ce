"""Tools that read the graph by name and id: what stands, page by page, and how it came to be."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from rawthink_core.errors import Fault, InvalidRequest, NotFound, RawThinkError
from rawthink_core.identity import looks_like_id
from rawthink_core.model import Entity, Observation, Passage, Relation
from rawthink_core.operations import MAX_LIMIT, MAX_SCAN
from rawthink_core.vocabulary import STATUSES
from rawthink_mcp_server.faults import between, filled, renamed
from rawthink_mcp_server.naming import answers, named, split
from rawthink_mcp_server.telling import KINDS, Sheet, Told, count, degraded, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from rawthink_core.model import Item
    from rawthink_core.operations import GraphPage, History
    from rawthink_mcp_server.house import Open
    from rawthink_mcp_server.telling import Teller

_RELATIONS = 200  # of the entities that are opened
_LONG = 4_000  # characters of one text beside others; its id alone shows more
_PER_ENTITY = 5  # observations of an entity on a page of the graph
_SUMMARY_SECONDS = 1.0
_NEAR = 3


# --- open_nodes ---------------------------------------------------------------------------------


async def open_nodes(at: Open, *, names: Sequence[str]) -> Told:
    """Show all that stands about entities, and any item by its id."""
    if not names:
        raise InvalidRequest([Fault("names", "must not be empty")])
    ids, each = split(names)
    page = await at.memory.graph(*each, ids=ids, depth=1, statuses=STATUSES, limit=_RELATIONS)
    opened = [entity for entity in page.entities if any(answers(entity, name) for name in each)]
    absent = set(page.missing)
    missing = [name for name in each if name in absent and named(opened, name) is None]
    items: tuple[Item, ...] = ()
    if others := [name for name in missing if name in ids]:
        found = await at.memory.get(*others)
        items = found.items
        missing = [name for name in missing if name not in ids or name in found.missing]
    if not opened and not items:
        raise NotFound(await _nobody(at, missing))
    sheet = Sheet()
    for entity in opened:
        _entity(at.tell, sheet, entity, page)
    for item in items:
        _item(at.tell, sheet, item)
    if missing:
        sheet.always(await _nobody(at, missing))
    if page.truncated:
        sheet.always(f"More than {_RELATIONS} relations: open fewer entities at once.")
    _full(sheet, "open fewer at once, or `rawthink show ID` on a command line")
    for line in degraded(page.degraded):
        sheet.always(line)
    return Told(sheet.text(), {"graph": page, "items": items, "missing": missing})


def _entity(tell: Teller, sheet: Sheet, entity: Entity, page: GraphPage) -> None:
    said = [item for item in page.observations if item.entity == entity.id]
    links = [item for item in page.relations if entity.id in (item.source, item.target)]
    sheet.add(tell.entity(entity))
    if entity.aliases:
        sheet.add(f"also called {', '.join(map(one_line, entity.aliases))}")
    for item in sorted((i for i in said if i.status == "active"), key=lambda i: KINDS.index(i.kind)):
        sheet.add(tell.observation(item, sheet.excerpt(item.text, _LONG)))
    for link in links:
        if link.status == "active":
            sheet.add(tell.relation(link, entity.id))
    gone = sum(item.status != "active" for item in (*said, *links))
    if gone:
        sheet.add(f"{count(gone, 'item')} given up: history shows them")


def _item(tell: Teller, sheet: Sheet, item: Item) -> None:
    match item:
        case Observation():
            sheet.add(
                f"{one_line(item.entity_name)} [{item.entity}]", tell.observation(item, one_line(item.text))
            )
        case Relation():
            sheet.add(tell.relation(item))
        case Passage():
            sheet.add(*tell.passage(item, item.text).split("\n"))
        case Entity():
            sheet.add(tell.entity(item))


async def _nobody(at: Open, missing: Sequence[str]) -> str:
    """Say that nothing has these names, and which ones are near."""
    listed = ", ".join(one_line(name)[:80] for name in missing[:20])
    near: dict[str, None] = {}
    for name in [name for name in missing if not looks_like_id(name)][:_NEAR]:
        try:
            page = await at.memory.search(name, items=("entity",), limit=_NEAR)
        except RawThinkError:
            break  # it was only to help
        near.update(dict.fromkeys(one_line(hit.entity_name) for hit in page.items if hit.entity_name))
    meant = f" Did you mean: {', '.join(near)}?" if near else " search_nodes finds names."
    return f"Not in this memory: {listed}.{meant}"


# --- read_graph ---------------------------------------------------------------------------------


async def read_graph(
    at: Open, *, summary: bool = False, entity_type: str | None = None, offset: int = 0, limit: int = 20
) -> Told:
    """Show the graph page by page, oldest entities first, or how much of what there is."""
    between("offset", offset, 0, 2**53)
    between("limit", limit, 1, MAX_LIMIT)
    with renamed({"entity_types.0": "entity_type"}):
        if summary:
            return await _summary(at, entity_type)
        return await _page(at, entity_type, offset, limit)


async def _page(at: Open, entity_type: str | None, offset: int, limit: int) -> Told:
    entities, cursor, reason = await _entities_from(at, entity_type, offset, limit)
    sheet = Sheet()
    if not entities:
        what = f"no entity of type {entity_type}" if entity_type else "no entity"
        sheet.always(f"There is {what} at offset {offset}." if offset else f"There is {what} yet.")
    graph = None
    if entities:
        graph = await at.memory.graph(
            ids=[entity.id for entity in entities], depth=1, limit=MAX_SCAN, listing=True
        )
        sheet.always(f"Entities {offset + 1:,} to {offset + len(entities):,}, oldest first:")
    shown = 0
    for entity in entities:
        said = [item for item in graph.observations if item.entity == entity.id] if graph else []
        said.sort(key=lambda item: KINDS.index(item.kind))
        lines = [at.tell.entity(entity)]
        lines += [at.tell.observation(item, sheet.excerpt(item.text)) for item in said[:_PER_ENTITY]]
        lines += [f"- {len(said) - _PER_ENTITY} more: open_nodes"] if len(said) > _PER_ENTITY else []
        if not sheet.add(*lines):
            break
        shown += 1
    whole = shown == len(entities)
    if graph is not None and graph.relations and whole and sheet.add("Relations:"):
        for relation in graph.relations:
            sheet.add(at.tell.relation(relation))
    if not whole or cursor is not None:
        sheet.always(f"More: read_graph with offset {offset + shown}.")
    if whole and sheet.left_out:
        sheet.always(f"{sheet.left_out} relations left out: open_nodes shows those of an entity.")
    if sheet.shortened:
        sheet.always("Shortened texts: open_nodes shows all of an entity or id.")
    for line in degraded(reason):
        sheet.always(line)
    return Told(sheet.text(), {"entities": entities, "offset": offset} | ({"graph": graph} if graph else {}))


async def _entities_from(
    at: Open, entity_type: str | None, offset: int, limit: int
) -> tuple[list[Entity], str | None, str | None]:
    """Return a page of entities, the cursor behind it, and what makes it incomplete.

    Skips from the nearest page whose beginning is known: whoever pages through a graph reads it once.
    """
    known = [begin for kind, begin in at.pages if kind == entity_type and begin <= offset]
    begin = max(known, default=0)
    cursor: str | None = at.pages.get((entity_type, begin))
    filters: dict[str, Any] = {"items": ("entity",), "entity_types": [entity_type] if entity_type else []}
    while begin < offset:
        skipped = await at.memory.scan(**filters, limit=min(offset - begin, MAX_SCAN), cursor=cursor)
        begin += len(skipped.items)
        cursor = skipped.cursor
        if cursor is None:
            return [], None, skipped.degraded
    page = await at.memory.scan(**filters, limit=limit, cursor=cursor)
    entities = [item for item in page.items if isinstance(item, Entity)]
    if page.cursor is not None:
        if len(at.pages) >= MAX_SCAN:
            at.pages.clear()
        at.pages[entity_type, begin + len(entities)] = page.cursor
    return entities, page.cursor, page.degraded


async def _summary(at: Open, entity_type: str | None) -> Told:
    """Count entities by type and domain, for a second at most, and name the newest that were counted."""
    filters: dict[str, Any] = {"items": ("entity",), "entity_types": [entity_type] if entity_type else []}
    end = time.monotonic() + _SUMMARY_SECONDS
    types: dict[str, list[Entity]] = {}
    domains: Counter[str] = Counter()
    cursor: str | None = None
    while True:
        page = await at.memory.scan(**filters, limit=MAX_SCAN, cursor=cursor)
        for item in page.items:
            if isinstance(item, Entity):
                types.setdefault(item.entity_type, []).append(item)
                domains[item.domain or "no domain"] += 1
        cursor = page.cursor
        if cursor is None or time.monotonic() > end:
            break
    number = sum(map(len, types.values()))
    sheet = Sheet()
    sheet.always(
        count(number, "entity") if cursor is None else f"The oldest {count(number, 'entity')} of more"
    )
    if domains:
        sheet.always("Domains: " + ", ".join(f"{name} {n:,}" for name, n in domains.most_common()))
    room = sheet.room // max(len(types), 1)
    for kind, entities in sorted(types.items(), key=lambda pair: -len(pair[1])):
        line, rest = f"{kind} ({len(entities):,}):", room
        for entity in reversed(entities):
            name = f" {one_line(entity.name)};"
            if len(name) > rest - len(line):
                line += " …"
                break
            line += name
        sheet.add(line.rstrip(";"))
    sheet.always("Newest names first; search_nodes finds, open_nodes shows, read_graph pages through all.")
    for line in degraded(page.degraded):
        sheet.always(line)
    return Told(sheet.text(), {"entities": number, "types": {k: len(v) for k, v in types.items()}})


# --- history ------------------------------------------------------------------------------------


async def history(at: Open, *, name: str) -> Told:
    """Show how an entity or item came to be what it is, oldest first."""
    filled("name", name)
    try:
        found = await _past(at, name)
    except NotFound:
        raise NotFound(await _nobody(at, [name])) from None
    sheet = Sheet()
    for line in degraded(found.degraded):
        sheet.always(line)
    if found.entity is not None:
        sheet.add(at.tell.entity(found.entity))
    for _, line in sorted(_events(at.tell, sheet, found), key=lambda event: event[0]):
        sheet.add(line)
    _full(sheet, "ask for the history of one item, by id")
    return Told(sheet.text(), {"history": found})


async def _past(at: Open, name: str) -> History:
    """Return the history of an item by its id, else of an entity by its name. Raises NotFound."""
    if looks_like_id(name):
        with contextlib.suppress(NotFound):
            return await at.memory.history(item_id=name)
    return await at.memory.history(name=name)


def _events(tell: Teller, sheet: Sheet, found: History) -> Iterator[tuple[tuple[datetime, int], str]]:
    owner = found.entity is None
    for item in (*found.observations, *found.relations, *found.passages):
        who = f" of {one_line(item.entity_name)}" if owner and isinstance(item, Observation) else ""
        match item:
            case Observation():
                what = f"{item.kind}{who}: {sheet.excerpt(item.text)}"
            case Relation():
                what = tell.relation(item).removeprefix("- ")
            case Passage():
                what = f"passage of session {one_line(item.session)}: {sheet.excerpt(item.text)}"
        tail = "" if isinstance(item, Relation) else f" [{item.id}]"
        held = f", held from {tell.day(item.valid_from)}" if item.valid_from else ""
        yield (item.recorded_at, 1), f"{tell.day(item.recorded_at)} + {what}{held}{tail}"
        if item.status != "active" and item.invalidated_at is not None:
            until = f", held until {tell.day(item.valid_to)}" if item.valid_to else ""
            reason = f", because {one_line(item.reason)}" if item.reason else ""
            heir = f", now [{item.superseded_by}]" if item.superseded_by else ""
            ended = f"{tell.day(item.invalidated_at)} - {item.status} [{item.id}]{until}{reason}{heir}"
            yield (item.invalidated_at, 0), ended
    for version in found.entity.versions if found.entity is not None else ():
        if version.n > 1:
            value = ", ".join(version.value) if isinstance(version.value, list) else version.value
            line = f"{tell.day(version.recorded_at)} = {version.field}: {one_line(str(value))}"
            yield (version.recorded_at, 2), line


def _full(sheet: Sheet, how: str) -> None:
    if sheet.left_out or sheet.shortened:
        said = f"{sheet.left_out} lines left out" if sheet.left_out else "Shortened"
        sheet.always(f"{said}, this answer is full: {how}.")
