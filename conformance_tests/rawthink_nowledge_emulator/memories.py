"""Create, upsert, list, read, change and delete memories."""

from __future__ import annotations

import re
from typing import Any

from rawthink_nowledge_emulator import labels, shapes
from rawthink_nowledge_emulator.call import Call, Route
from rawthink_nowledge_emulator.fields import Field, range_sentence
from rawthink_nowledge_emulator.refusals import Refusal
from rawthink_nowledge_emulator.state import Memory

UNIT_TYPES = ("fact", "preference", "decision", "plan", "procedure", "learning", "context", "event")
FREE_MEMORIES = 20
TITLE = 50
DATE = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?")
PRECISIONS = ("year", "month", "day")
PROVENANCE = ("agent_id", "host_agent_id", "source_app", "import_origin")
LIFECYCLES = {"all", "active", "superseded", "deprecated", "archived", "forgotten"}

IMPORTANCE = Field("importance", "number", least=0.0, most=1.0)
CONFIDENCE = Field("confidence", "number", least=0.0, most=1.0)
CREATE = (
    Field("content", required=True, longest=32768),
    Field("id", shortest=1, longest=200),
    Field("title", longest=200),
    Field("source"),
    IMPORTANCE,
    CONFIDENCE,
    Field("labels", "array"),
    Field("unit_type"),
    Field("event_start"),
    Field("event_end"),
    Field("temporal_context", choices=("past", "present", "future", "timeless")),
    Field("space_id"),
    Field("metadata", "object"),
    Field("source_thread_id"),
    Field("source_message_id"),
    *(Field(name) for name in PROVENANCE),
)
LIST = (
    Field("limit", "integer", default=20, least=1, most=100),
    Field("offset", "integer", default=0, least=0),
    Field("state", default="active"),
    Field("importance_min", "number", least=0.0, most=1.0),
    Field("space_id"),
    Field("is_crystal", "boolean"),
    Field("unit_type"),
    Field("labels", many=True),
)
DEFAULTS: dict[str, Any] = {
    "source": "manual",
    "importance": 0.5,
    "confidence": 0.5,
    "unit_type": "fact",
    "temporal_context": "timeless",
    "event_start": None,
    "event_end": None,
    "temporal_precision": None,
    "source_thread_id": None,
}


def create(call: Call) -> dict[str, Any]:
    """Create a memory, or update the one with this id where the version knows ids."""
    known = call.state.memories.get(call.body["id"] or "") if call.profile.client_ids else None
    full = call.site.free_plan and len(call.state.memories) >= FREE_MEMORIES
    if full and (known is None or call.assumed("upsert_counts")):
        count = len(call.state.memories)
        raise Refusal(
            402,
            f"Memory limit reached. Free tier allows up to {FREE_MEMORIES} memories (current: {count}). "
            "Upgrade to Pro for unlimited memories.",
        )
    space_id = call.space(write=True)
    values = {name: value for name, value in call.body.items() if name in DEFAULTS and value is not None}
    values |= _event(call) | _unit_type(call)
    if known is None:
        now = call.state.clock.tick()
        memory = Memory(_new_id(call), "", "", space_id, now, now)
        call.state.memories[memory.id] = memory
    else:
        memory = known
        _upsert(call, memory, space_id, values)
    for name, value in values.items():
        setattr(memory, name, value)
    _say(memory, call.body["content"], call.body["title"])
    _annotate(call, memory, merge=known is not None and call.assumed("upsert_metadata") == "merged")
    assigned = labels.assign(call.state, memory, _names(call.body["labels"]))
    call.state.index.put(memory.id, indexed(memory))
    answer: dict[str, Any] = {
        "memory": shapes.memory_node(memory),
        "extracted_entities": [],
        "assigned_labels": assigned,
        "created_relationships": 0 if call.profile.created_relationships == "count" else [],
        "warnings": [],
    }
    if call.profile.client_ids:
        answer["action"] = "created" if known is None else "updated"
    return answer


def _new_id(call: Call) -> str:
    return (call.profile.client_ids and call.body["id"]) or call.state.new_id()


def _upsert(call: Call, memory: Memory, space_id: str, values: dict[str, Any]) -> None:
    """Prepare a known memory for new values, as assumed."""
    if call.said_space() is not None and space_id != memory.space_id:
        if call.assumed("upsert_other_space") == "refused":
            raise Refusal(409, "Memory belongs to another Space", "write_destination_required")
        if call.assumed("upsert_other_space") == "moved":
            memory.space_id = space_id
    if call.assumed("upsert_omitted") == "reset":
        values |= {name: default for name, default in DEFAULTS.items() if name not in values}
    if call.assumed("upsert_lifecycle") == "reset":
        memory.lifecycle, memory.is_latest = "active", True
    memory.version += 1
    memory.updated_at = call.state.clock.tick()


def _say(memory: Memory, content: str, title: str | None) -> None:
    memory.content = content
    memory.title = title or (content[:TITLE] + "..." if len(content) > TITLE else content)


def _annotate(call: Call, memory: Memory, *, merge: bool) -> None:
    """Store metadata, with what the server writes into it itself."""
    given = {**(memory.metadata if merge else {}), **(call.body["metadata"] or {})}
    if call.body["source_message_id"]:
        given["source_message_id"] = call.body["source_message_id"]
    memory.metadata = {**given, "created_via": "api", "source_id": memory.id, "extract_entities": False}
    memory.provenance = {name: call.body[name] for name in PROVENANCE if call.body[name]}


def _event(call: Call) -> dict[str, Any]:
    """Return event dates as stored: whole days, or nothing for what is no date."""
    found: dict[str, Any] = {}
    for name in ("event_start", "event_end"):
        said = call.body[name]
        if said is None:
            continue
        if call.assumed("event_datetime") == "date":
            said = said.partition("T")[0]
        date, precision = calendar_day(said)
        found[name] = date
        if name == "event_start":
            found["temporal_precision"] = precision
    return found


def calendar_day(said: str) -> tuple[str | None, str | None]:
    """Return YYYY, YYYY-MM or YYYY-MM-DD as a day, and its precision; none for anything else."""
    match = DATE.fullmatch(said)
    if match is None:
        return None, None
    given = [part for part in match.groups() if part]
    return "-".join([*given, "01", "01"][:3]), PRECISIONS[len(given) - 1]


def _unit_type(call: Call) -> dict[str, str]:
    said = call.body.get("unit_type")
    if said is None or said in UNIT_TYPES:
        return {}
    if call.assumed("unknown_unit_type") == "refused":
        raise Refusal(422, f"unit_type must be one of {', '.join(UNIT_TYPES)}")
    return {"unit_type": str(call.assumed("unknown_unit_type"))}


def _names(said: list[Any] | None) -> list[str]:
    return [name for name in said or [] if isinstance(name, str) and name.strip()]


def indexed(memory: Memory) -> str:
    """Return the text that a memory is found by."""
    return f"{memory.title}\n{memory.content}"


def listing(call: Call) -> dict[str, Any]:
    """List memories, the newest first."""
    space_id, state = call.space(), call.query["state"]
    rows = [memory for memory in call.state.newest_first() if memory.space_id == space_id]
    rows = [memory for memory in rows if _listed(call, memory)]
    if not call.profile.state_after_limit:
        rows = [memory for memory in rows if _in_state(call, memory, state)]
    page, told = call.page(rows)
    if call.profile.state_after_limit:
        page = [memory for memory in page if _in_state(call, memory, state)]
    return {"memories": [shapes.memory_public(call, memory) for memory in page], "pagination": told}


def _listed(call: Call, memory: Memory) -> bool:
    query = call.query
    return (
        memory.lifecycle != "forgotten"
        and (query["importance_min"] is None or memory.importance >= query["importance_min"])
        and (query["unit_type"] is None or memory.unit_type == query["unit_type"])
        and not query["is_crystal"]
        and labels.carries(memory, query["labels"], call.assumed("label_filter"))
    )


def _in_state(call: Call, memory: Memory, state: str) -> bool:
    if state == "all":
        return True
    own = memory.metadata.get("state", "active") if call.profile.state_in_metadata else "active"
    lifecycle = (
        "active"
        if memory.lifecycle == "superseded" and call.assumed("superseded_in_list") == "shown"
        else memory.lifecycle
    )
    return own == "active" and lifecycle == (state if state in LIFECYCLES else "active")


def show(call: Call) -> dict[str, Any]:
    """Return one memory; also one that was superseded, deprecated or archived."""
    return shapes.memory_public(call, call.memory())


def change(call: Call) -> dict[str, Any]:
    """Change fields of a memory; keeps nothing of what was. Unknown keys are taken and ignored."""
    memory = call.memory()
    for field in (IMPORTANCE, CONFIDENCE):
        value = call.body[field.name]
        if value is not None and not 0.0 <= value <= 1.0:
            raise Refusal(422, range_sentence(field))
    space_id = call.body["space_id"] or call.body["space"]
    if space_id is not None:
        memory.space_id = call.known_space(space_id, write=True)
    for name, value in {**call.body, **_unit_type(call)}.items():
        if value is not None and name in ("title", "content", "importance", "confidence", "unit_type"):
            setattr(memory, name, value)
    if call.body["labels"] is not None and call.profile.patch_labels == "replaced":
        memory.labels = []
        labels.assign(call.state, memory, _names(call.body["labels"]))
    memory.updated_at = call.state.clock.tick()
    call.state.index.put(memory.id, indexed(memory))
    return shapes.memory_public(call, memory)


def delete(call: Call) -> dict[str, Any]:
    """Delete a memory, its relations and edges and, cascading, the entities that only it mentioned."""
    memory = call.memory(forgotten=True)
    relationships = call.state.drop_memory(memory.id)
    entities = call.state.drop_orphan_entities() if call.query["cascade_delete"] else 0
    return {
        "message": "Memory deleted successfully",
        "deleted_relationships": relationships,
        "deleted_entities": entities,
    }


def favorite(call: Call) -> dict[str, Any]:
    """Mark a memory, or unmark it."""
    memory = call.memory()
    memory.is_favorite = call.query["is_favorite"]
    return {"is_favorite": memory.is_favorite}


def reindex(call: Call) -> dict[str, Any]:
    """Bring the search index up to date."""
    return {"status": "completed", "indexed": call.state.index.reindex()}


CHANGE = (
    Field("title"),
    Field("content"),
    Field("importance", "number"),
    Field("confidence", "number"),
    Field("unit_type"),
    Field("space_id"),
    Field("space"),
    Field("labels", "array"),
)
SPACE = (Field("space_id"),)

ROUTES = (
    Route("POST", "/memories", create, body=CREATE, broken="Memory creation failed"),
    Route(
        "GET",
        "/memories",
        listing,
        query=LIST,
        broken="Failed to list memories",
        broken_as={"memories": [], "pagination": {"limit": 20, "offset": 0, "total": 0, "has_more": False}},
    ),
    Route("POST", "/memories/reindex", reindex, body=()),
    Route("GET", "/memories/{id}", show, query=SPACE, broken="Failed to get memory"),
    Route("PATCH", "/memories/{id}", change, body=CHANGE, broken="Failed to update memory"),
    Route(
        "DELETE",
        "/memories/{id}",
        delete,
        query=(Field("cascade_delete", "boolean", default=True), *SPACE),
        broken="Failed to delete memory",
    ),
    Route(
        "POST", "/memories/{id}/favorite", favorite, query=(Field("is_favorite", "boolean", required=True),)
    ),
)
