"""Tools that ask: searches, short first and details by id, and what speaks against a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_core.operations import MAX_LIMIT, MAX_SCAN, GraphPage
from rawthink_core.provider import Capability
from rawthink_core.vault.documents import source_of, source_tags
from rawthink_mcp_server.faults import between, filled, renamed
from rawthink_mcp_server.telling import Sheet, Told, count, degraded, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rawthink_core.decisions import Challenge
    from rawthink_core.model import Hit
    from rawthink_core.operations import SearchPage
    from rawthink_core.vault.documents import Source
    from rawthink_mcp_server.house import Open
    from rawthink_mcp_server.telling import Teller

_PLACES = {"text": "query", "domains.0": "domain", "entity_types.0": "entity_type"}
_GRAPH = ("entity", "observation")
_FILES: tuple[Source, ...] = ("session", "qnote")
_MATCHES = 5  # of one entity that are listed
_LINE = 120  # characters of a text in an overview


async def search_thoughts(
    at: Open,
    *,
    query: str,
    source_type: str | None = None,
    tags: Sequence[str] = (),
    limit: int = 10,
    mode: str = "full",
) -> Told:
    """Search passages and graph, or one kind of source: files of sessions, notes, chats, the graph."""
    filled("query", query)
    between("limit", limit, 1, MAX_LIMIT)
    items = {None: (*_GRAPH, "passage"), "graph": _GRAPH}.get(source_type, ("passage",))
    sifted = source_type == "chat"  # what is of no file has no tag to search by
    depth = MAX_LIMIT if sifted or mode == "overview" else limit
    for source in _FILES:
        if source_type == source:
            tags = source_tags(source, tags)
    with renamed(_PLACES):
        page = await at.memory.search(query, items=items, tags=tags, limit=depth)
    hits = [hit for hit in page.items if not sifted or source_of(hit.tags) is None]
    sheet = Sheet()
    more = page.truncated
    if mode == "overview" and hits:
        shown, rest = _overview(at.tell, sheet, hits, limit)
        more = more or rest
    else:
        shown, more = hits[:limit], more or len(hits) > limit
        total = None if sifted else page.total
        sheet.always(_found(len(shown), total, "memory", query, page))
        said = [hit for hit in shown if hit.item != "entity"]
        for number, hit in enumerate(said, 1):
            if not sheet.add(*at.tell.hit(sheet, hit, f"{number}. {hit.score:.2f} ")):
                sheet.left_out += len(said) - number
                break
        named = [hit for hit in shown if hit.item == "entity"]
        if named:  # after what is said, which is what was asked for
            sheet.add(f"By name: {', '.join(map(_name, named))}")
        shown = [*said, *named]
    _close(sheet, page.degraded, more=more and bool(shown))
    return Told(sheet.text(), {"hits": shown, "query": query})


def _name(hit: Hit) -> str:
    return f"{one_line(hit.entity_name or '')} [{hit.id}]"


def _overview(tell: Teller, sheet: Sheet, hits: Sequence[Hit], limit: int) -> tuple[list[Hit], bool]:
    """Write a line for each session and entity; return the best hit of each, and whether there are more."""
    groups: dict[tuple[str, str], list[Hit]] = {}
    for hit in hits:
        key = ("entity", hit.entity) if hit.entity is not None else ("session", hit.session or "")
        groups.setdefault(key, []).append(hit)
    chosen = list(groups.values())[:limit]
    sheet.always(f"{len(chosen)} of {len(groups)} sessions and entities:")
    for group in chosen:
        best = group[0]
        name = best.entity_name if best.entity_name is not None else f"session {best.session}"
        text = "" if best.item == "entity" else f": {sheet.excerpt(best.text, _LINE)}"
        facts = f"{best.score:.2f}, {tell.day(best.date)}, {count(len(group), 'hit')}"
        sheet.add(f"- {one_line(name)} ({facts}){text}")
    return [group[0] for group in chosen], len(groups) > len(chosen)


async def search_nodes(
    at: Open,
    *,
    query: str,
    limit: int = 10,
    max_relations: int = 50,
    domain: str | None = None,
    entity_type: str | None = None,
) -> Told:
    """Search the graph, grouped by entity."""
    filled("query", query)
    between("limit", limit, 1, MAX_LIMIT)
    between("max_relations", max_relations, 0, MAX_SCAN)
    filters: dict[str, Any] = {
        "domains": [domain] if domain is not None else [],
        "entity_types": [entity_type] if entity_type is not None else [],
    }
    with renamed(_PLACES):
        page = await at.memory.search(query, items=_GRAPH, group="entity", limit=limit, **filters)
    groups: dict[str, list[Hit]] = {}
    for hit in page.items:
        groups.setdefault(hit.entity or "", []).append(hit)
    graph = await _around(at, list(groups), max_relations)
    known = {entity.id: entity for entity in graph.entities}
    sheet = Sheet()
    sheet.always(_found(len(groups), page.total, "entity", query, page))
    for number, (owner, hits) in enumerate(groups.items(), 1):
        name = one_line(hits[0].entity_name or owner)
        head = at.tell.entity(known[owner]) if owner in known else f"{name} [{owner}]"
        said = [hit for hit in hits if hit.item != "entity"]
        lines = [f"{number}. {max(hit.score for hit in hits):.2f} {head}"]
        for hit in said[:_MATCHES]:
            until = f" until {at.tell.day(hit.valid_to)}" if hit.valid_to else ""
            lines.append(
                f"  - {hit.kind}, {at.tell.day(hit.date)}{until}: {sheet.excerpt(hit.text)} [{hit.id}]"
            )
        lines += [f"  - {len(said) - _MATCHES} more that match"] if len(said) > _MATCHES else []
        if not sheet.add(*lines):
            sheet.left_out += len(groups) - number
            break
    if graph.relations and not sheet.left_out and sheet.add("Relations:"):
        for relation in graph.relations:
            sheet.add(at.tell.relation(relation))
    _close(sheet, page.degraded or graph.degraded, more=page.truncated and bool(groups))
    if graph.truncated:
        sheet.always(f"More than {max_relations} relations: raise max_relations, or open_nodes one entity.")
    shown = {"entities": graph.entities, "relations": graph.relations, "truncated": graph.truncated}
    return Told(sheet.text(), {"hits": [hit for hits in groups.values() for hit in hits], "graph": shown})


async def _around(at: Open, entities: list[str], most: int) -> GraphPage:
    """Return entities with their relations, where the backend has such a thing as a graph."""
    if not entities or not at.memory.info.can(Capability.GRAPH):
        return GraphPage()
    return await at.memory.graph(
        ids=entities, depth=1 if most else 0, limit=max(most, 1), observations=False, listing=True
    )


async def challenge(at: Open, *, topic: str, limit: int = 5) -> Told:
    """Return what speaks against a topic."""
    filled("topic", topic)
    between("limit", limit, 1, MAX_LIMIT)
    with renamed({"text": "topic"}):
        found = await at.memory.challenge(topic, limit=limit)
    sheet = Sheet()
    for line in degraded(found.degraded, empty=found.empty):
        sheet.always(line)
    if found.empty and not found.degraded:
        sheet.always("Nothing in this memory speaks against it.")
    for title, lines in _against(at.tell, sheet, found):
        if lines:
            sheet.add(title, *lines[0])
            for block in lines[1:]:
                sheet.add(*block)
    _close(sheet, None, more=False)
    return Told(sheet.text(), {"challenge": found})


def _against(tell: Teller, sheet: Sheet, found: Challenge) -> Iterable[tuple[str, list[list[str]]]]:
    def hits(listed: Iterable[Hit]) -> list[list[str]]:
        return [tell.hit(sheet, hit, "- ") for hit in listed]

    yield "Rejected before:", hits(found.rejected)
    yield "Believed, and given up:", hits(found.revised)
    yield "Contradictions:", [[tell.relation(item)] for item in found.contradictions]
    yield "It may rest on what is not certain:", [[f"- {tell.entity(item)}"] for item in found.uncertain]
    yield "Left open:", hits(found.open_questions)


# --- beginnings and ends of answers -------------------------------------------------------------


def _found(shown: int, total: int | None, noun: str, query: str, page: SearchPage) -> str:
    if not shown:
        if page.degraded:
            return "Nothing found so far."
        return f"Nothing found for {one_line(query)[:80]}; other words may find it."
    if total is not None and total > shown:
        return f"{shown} of {total:,} found:"
    return f"{count(shown, noun).replace('memorys', 'memories')} found:"


def _close(sheet: Sheet, reason: str | None, *, more: bool) -> None:
    """Say what is not in the answer, and how to get it."""
    if sheet.shortened:
        sheet.always("Shortened texts: open_nodes takes an id and shows all of it; get_session a session.")
    if sheet.left_out:
        sheet.always(f"{sheet.left_out} more left out, this answer is full: narrow the question.")
    elif more:
        sheet.always("More match: raise limit (up to 100), or narrow the question.")
    for line in degraded(reason, empty=False):
        sheet.always(line)
