"""Explicit relations between memories, and the graph around one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rawthink_nowledge_emulator import shapes
from rawthink_nowledge_emulator.call import Call, Route
from rawthink_nowledge_emulator.fields import Field
from rawthink_nowledge_emulator.refusals import Refusal
from rawthink_nowledge_emulator.state import Link

if TYPE_CHECKING:
    from rawthink_nowledge_emulator.state import Memory

DELETED = "deleted"
TOLD = ("strength", "confidence", "bidirectional", "status", "reviewed", "source", "author_id", "agent_id")


def normal_type(said: str, form: str) -> str:
    """Return a relation's type in the form that the server keeps it in."""
    snake = re.sub(r"\W+", "_", said.strip().lower()).strip("_")
    return {"snake": snake, "upper": snake.upper()}.get(form, said)


def put(call: Call) -> dict[str, Any]:
    """Create a relation, or update the one between these ends with this type."""
    source = call.memory()
    target = call.memory(call.body["target_memory_id"], anywhere=True)
    if source.space_id != target.space_id:
        raise Refusal(422, "Memory relations must stay within one Space")
    name = normal_type(call.body["relation_type"], call.assumed("relation_name"))
    if not name:
        raise Refusal(422, "relation_type must not be blank")
    fields = {told: call.body[told] for told in TOLD}
    fields |= {"relation_type": name, "source_app": call.body["source_app"], "reason": call.body["reason"]}
    fields["properties"] = call.body["properties"] or {}
    link = _known(call, source, target, name)
    now = call.state.clock.tick()
    if link is None:
        link = Link(call.state.new_id(), source.id, target.id, now, now)
        call.state.links[link.id] = link
    link.fields, link.updated_at = fields, now
    return shapes.relation(call.state, link, source.id)


def _known(call: Call, source: Memory, target: Memory, name: str) -> Link | None:
    if call.assumed("relation_key") == "never":
        return None
    wanted = (source.id, target.id, name)
    links = call.state.links.values()
    return next((x for x in links if (x.source_id, x.target_id, x.fields["relation_type"]) == wanted), None)


def listing(call: Call) -> dict[str, Any]:
    """List a memory's relations. Those deleted are only shown when asked for by their status."""
    memory = call.memory()
    query = call.query
    types = {normal_type(one, call.assumed("relation_name")) for one in _split(query["types"])}
    statuses = _split(query["status"])
    rows = [
        link
        for link in call.state.links.values()
        if (link.source_id == memory.id and query["direction"] in ("out", "both"))
        or (link.target_id == memory.id and query["direction"] in ("in", "both"))
    ]
    rows = [
        link
        for link in rows
        if link.fields["status"] in statuses and (not types or link.fields["relation_type"] in types)
    ]
    page, _ = call.page(rows)
    shown = [shapes.relation(call.state, link, memory.id) for link in page]
    return {"memory_id": memory.id, "relations": shown, "total": len(rows)}


def _split(said: str | None) -> set[str]:
    return {part.strip() for part in (said or "").split(",") if part.strip()}


def _link(call: Call) -> Link:
    found = call.state.links.get(call.parts["id"])
    if found is None or (call.request.method == "DELETE" and found.fields["status"] == DELETED):
        raise Refusal(404, "Memory relation not found")
    return found


def change(call: Call) -> dict[str, Any]:
    """Change a relation."""
    link = _link(call)
    said = {name: value for name, value in call.body.items() if value is not None}
    if "relation_type" in said:
        said["relation_type"] = normal_type(said["relation_type"], call.assumed("relation_name"))
    link.fields |= said
    link.updated_at = call.state.clock.tick()
    return shapes.relation(call.state, link, link.source_id)


def delete(call: Call) -> dict[str, str]:
    """Delete a relation softly: its row stays, with that status."""
    link = _link(call)
    link.fields["status"] = DELETED
    link.updated_at = call.state.clock.tick()
    return {"message": "Memory relation deleted successfully"}


def expand(call: Call) -> dict[str, Any]:
    """Return what is around a memory: EVOLVES and RELATED neighbours, and the entities it mentions."""
    center = call.memory()
    edges: list[dict[str, Any]] = []
    seen, border = {center.id}, {center.id}
    for _ in range(call.query["depth"]):
        found = [edge for edge in _all_edges(call) if {edge["source"], edge["target"]} & border]
        edges += [edge for edge in found if edge not in edges]
        border = {end for edge in found for end in (edge["source"], edge["target"])} - seen
        seen |= border
    neighbors = [_neighbor(call, one) for one in sorted(seen - {center.id})][: call.query["limit"]]
    kept = {center.id, *(one["id"] for one in neighbors)}
    edges = [edge for edge in edges if {edge["source"], edge["target"]} <= kept]
    return {
        "center_node": {"id": center.id, "label": center.title, "metadata": {}},
        "depth": call.query["depth"],
        "neighbors": neighbors,
        "edges": edges,
        "total_neighbors": len(neighbors),
        "total_edges": len(edges),
    }


def _neighbor(call: Call, node: str) -> dict[str, Any]:
    memory = call.state.memories.get(node)
    return {"id": node, "label": memory.title if memory else node, "metadata": {}}


def _all_edges(call: Call) -> list[dict[str, Any]]:
    def edge(source: str, target: str, kind: str, weight: float = 1.0, **metadata: Any) -> dict[str, Any]:
        return {"source": source, "target": target, "edge_type": kind, "weight": weight, "metadata": metadata}

    found = [
        edge(row.older_id, row.newer_id, "EVOLVES", row.confidence, relation_type=row.relation)
        for row in call.state.edges
    ]
    found += [
        edge(
            row.source_id,
            row.target_id,
            "RELATED",
            row.fields["strength"],
            relation_type=row.fields["relation_type"],
        )
        for row in call.state.links.values()
        if row.fields["status"] == "active"
    ]
    for name, ids in call.state.entities.items():
        found += [edge(memory_id, name, "MENTIONS") for memory_id in ids]
    return found


def entities(call: Call) -> dict[str, Any]:
    """List the entities that the server drew from memories; there is no way to make one."""
    rows = [
        {"id": name, "name": name, "entity_type": "concept", "mention_count": len(ids)}
        for name, ids in sorted(call.state.entities.items())
    ]
    page, told = call.page(rows)
    return {"entities": page, "total": told["total"]}


STATUSES = ("active", "suggested", "dismissed")
PUT = (
    Field("target_memory_id", required=True),
    Field("relation_type", required=True),
    Field("strength", "number", default=1.0, least=0.0, most=1.0),
    Field("confidence", "number", default=1.0, least=0.0, most=1.0),
    Field("bidirectional", "boolean", default=False),
    Field("status", default="active", choices=STATUSES),
    Field("reviewed", "boolean", default=False),
    Field("source", default="api"),
    Field("author_id"),
    Field("agent_id"),
    Field("source_app"),
    Field("reason"),
    Field("properties", "object"),
    Field("space_id"),
)
LIST = (
    Field("direction", default="both", choices=("out", "in", "both")),
    Field("types"),
    Field("status", default="active"),
    Field("limit", "integer", default=50, least=1, most=200),
    Field("offset", "integer", default=0, least=0),
    Field("space_id"),
)
CHANGE = (
    Field("relation_type"),
    Field("reason"),
    Field("strength", "number", least=0.0, most=1.0),
    Field("confidence", "number", least=0.0, most=1.0),
    Field("status", choices=(*STATUSES, DELETED)),
)
EXPAND = (
    Field("depth", "integer", default=1, least=1, most=5),
    Field("limit", "integer", default=50, least=1, most=100),
    Field("include_metadata", "boolean", default=False),
    Field("space_id"),
)
ENTITIES = (
    Field("limit", "integer", default=50, least=1, most=200),
    Field("offset", "integer", default=0, least=0),
)
SINCE = (0, 9)

ROUTES = (
    Route("PATCH", "/memories/relations/{id}", change, body=CHANGE, since=SINCE),
    Route("DELETE", "/memories/relations/{id}", delete, since=SINCE),
    Route("POST", "/memories/{id}/relations", put, body=PUT, since=SINCE),
    Route("GET", "/memories/{id}/relations", listing, query=LIST, since=SINCE),
    Route("GET", "/graph/expand/{id}", expand, query=EXPAND),
    Route("GET", "/entities", entities, query=ENTITIES),
)
