"""Spaces, moving and deleting in bulk, working memory and the context bundle."""

from __future__ import annotations

import hashlib
from typing import Any

from rawthink_nowledge_emulator import shapes
from rawthink_nowledge_emulator.call import Call, Route
from rawthink_nowledge_emulator.fields import Field
from rawthink_nowledge_emulator.refusals import Refusal
from rawthink_nowledge_emulator.state import DEFAULT_SPACE, Memory, Space
from rawthink_nowledge_emulator.wire import Reply


def listing(call: Call) -> dict[str, Any]:
    """List spaces."""
    return {"enabled": True, "spaces": [shapes.space(call.state, row) for row in call.state.spaces.values()]}


def _space(call: Call) -> Space:
    """Return the space in the path, by id before name and alias."""
    said = call.parts["id"]
    rows = list(call.state.spaces.values())
    for row in rows:
        if row.id == said:
            return row
    for row in rows:
        if said.casefold() in {row.name.casefold(), *(alias.casefold() for alias in row.aliases)}:
            return row
    raise Refusal(404, "Space not found")


def show(call: Call) -> dict[str, Any]:
    """Return one space."""
    return shapes.space(call.state, _space(call))


def create(call: Call) -> dict[str, Any]:
    """Create a space; its id is made of its name where none is given."""
    body = call.body
    space_id = body["id"] or body["key"] or body["name"].lower().replace(" ", "-")
    if space_id in call.state.spaces:
        raise Refusal(409, "Space already exists")
    return shapes.space(call.state, _fill(call.state.add_space(space_id, body["name"]), body))


def change(call: Call) -> dict[str, Any]:
    """Change a space's profile."""
    return shapes.space(call.state, _fill(_space(call), call.body))


def _fill(space: Space, body: dict[str, Any]) -> Space:
    names = {"sharedSpaceIds": "shared", "defaultRetrievalMode": "mode"}
    for name in ("name", "aliases", "description", "icon", "instructions", *names):
        if body[name] is not None:
            setattr(space, names.get(name, name), body[name])
    return space


def delete(call: Call) -> Reply | dict[str, Any]:
    """Delete an empty space; one that holds records is refused, in a shape of its own."""
    space = _space(call)
    if space.id == DEFAULT_SPACE:
        raise Refusal(422, "The default Space cannot be deleted")
    usage = shapes.usage(call.state, space)
    records = usage["memories"] + usage["threads"] + usage["sources"]
    if records or usage["hasWorkingMemory"]:
        blocked = {
            "type": "space_delete_blocked",
            "spaceId": space.id,
            "reason": "primary_records" if records else "working_memory",
            "message": "Space still holds records",
            "usage": usage,
            "canPurgeWorkingMemory": not records,
        }
        return Reply.of(blocked, 409)
    del call.state.spaces[space.id]
    return {"message": "Space deleted successfully"}


def _chosen(call: Call) -> tuple[list[Memory], list[str]]:
    """Return the memories that a selection means, and the ids that mean none."""
    selection = call.body["selection"]
    if selection.get("mode") == "space":
        space_id = call.known_space(str(selection.get("source_space_id", "")))
        kept = set(selection.get("exclude_memory_ids") or [])
        rows = call.state.memories.values()
        return [row for row in rows if row.space_id == space_id and row.id not in kept], []
    ids = [str(one) for one in selection.get("memory_ids") or []]
    known = [call.state.memories[one] for one in ids if one in call.state.memories]
    return known, [one for one in ids if one not in call.state.memories]


def delete_many(call: Call) -> dict[str, Any]:
    """Delete the memories of a selection, one by one."""
    rows, unknown = _chosen(call)
    for row in rows:
        call.state.drop_memory(row.id)
    results = [{"memory_id": row.id, "success": True} for row in rows]
    results += [{"memory_id": one, "success": False, "error": "Memory not found"} for one in unknown]
    return {
        "deleted_count": len(rows),
        "failed_count": len(unknown),
        "source_space_id": call.body["selection"].get("source_space_id"),
        "cascade_delete": call.body["cascade_delete"],
        "results": results,
        "message": f"Deleted {len(rows)} memories",
    }


def move(call: Call) -> dict[str, Any]:
    """Move the memories of a selection to another space."""
    rows, unknown = _movable(call)
    for row in rows:
        row.space_id = call.body["target_space_id"]
    return {
        "moved_count": len(rows),
        "failed_count": len(unknown),
        "index_updated_count": len(rows),
        "index_repair_needed": False,
        "message": f"Moved {len(rows)} memories",
    }


def preview_move(call: Call) -> dict[str, Any]:
    """Say what a move would move."""
    rows, unknown = _movable(call)
    return {"move_count": len(rows), "count": len(rows), "failed_count": len(unknown)}


def _movable(call: Call) -> tuple[list[Memory], list[str]]:
    target = call.known_space(call.body["target_space_id"], write=True)
    rows, unknown = _chosen(call)
    if any(row.space_id == target for row in rows):
        raise Refusal(422, "Choose a different target space")
    return rows, unknown


def read_working_memory(call: Call) -> dict[str, Any]:
    """Return today's working memory of a space; there is none of another day."""
    space = call.space_row()
    today = call.state.clock.now().date().isoformat()
    date = call.query["date"] or today
    exists = bool(space.working_memory) and date == today
    return {
        "exists": exists,
        "content": space.working_memory if exists else "",
        "date": date,
        "path": f"working-memory/{date}.md",
        "parsed": None,
        "space_id": space.id,
    }


def write_working_memory(call: Call) -> dict[str, Any]:
    """Replace today's working memory."""
    space = call.space_row(write=True)
    space.working_memory = call.body["content"]
    return {"success": True, "space_id": space.id}


def bundle(call: Call) -> dict[str, Any]:
    """Return what a session starts with. Holds no memories that were searched for."""
    space = call.space_row()
    memory = space.working_memory if call.query["include_working_memory"] else ""
    text = f"# Context\n\nSpace: {space.name}\n\n{space.instructions}\n\n{memory}".rstrip()
    return {
        "schema_version": 1,
        "generated_at": shapes.stamp(call.state.clock.now()),
        "bundle_kind": "context",
        "owner_profile": None,
        "agent_profile": None,
        "active_space": shapes.space(call.state, space),
        "rule_stack": [],
        "working_memory": {"exists": bool(memory), "content": memory},
        "kfs_roots": [],
        "authorship": {"agent_id": call.query["agent_id"], "source_app": call.query["source_app"]},
        "warnings": [],
        "rendered_markdown": text,
        "compiled_hash": hashlib.sha256(text.encode()).hexdigest(),
    }


PROFILE = (
    Field("name", shortest=1),
    Field("aliases", "array"),
    Field("description"),
    Field("icon"),
    Field("instructions"),
    Field("sharedSpaceIds", "array"),
    Field("defaultRetrievalMode", choices=("strict", "shared", "all")),
)
CREATE = (Field("name", required=True, shortest=1), Field("id"), Field("key"), *PROFILE[1:])
SELECTION = Field("selection", "object", required=True)
TARGET = Field("target_space_id", required=True)
BUNDLE = (
    Field("agent_id"),
    Field("source_app"),
    Field("host_agent_id"),
    Field("space_id"),
    Field("include_working_memory", "boolean", default=True),
)

ROUTES = (
    Route("GET", "/spaces", listing),
    Route("GET", "/spaces/roster", listing),
    Route("POST", "/spaces", create, body=CREATE),
    Route("GET", "/spaces/{id}", show),
    Route("PATCH", "/spaces/{id}", change, body=PROFILE),
    Route("DELETE", "/spaces/{id}", delete),
    Route(
        "POST",
        "/memories/bulk/delete",
        delete_many,
        body=(SELECTION, Field("cascade_delete", "boolean", default=True)),
    ),
    Route("POST", "/memories/bulk/move", move, body=(SELECTION, TARGET)),
    Route("POST", "/memories/bulk/move/preview", preview_move, body=(SELECTION, TARGET)),
    Route("GET", "/agent/working-memory", read_working_memory, query=(Field("date"), Field("space_id"))),
    Route(
        "PUT",
        "/agent/working-memory",
        write_working_memory,
        body=(Field("content", required=True, shortest=1, longest=10000), Field("space_id")),
    ),
    Route("GET", "/context/bundle", bundle, query=BUNDLE),
)
