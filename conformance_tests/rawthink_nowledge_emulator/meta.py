"""Health, statistics and the description of the API."""

from __future__ import annotations

from typing import Any

from rawthink_nowledge_emulator import shapes
from rawthink_nowledge_emulator.call import Call, Route
from rawthink_nowledge_emulator.fields import Field
from rawthink_nowledge_emulator.lifecycle import decide
from rawthink_nowledge_emulator.refusals import Refusal


def live(call: Call) -> dict[str, str]:  # noqa: ARG001 - a handler
    """Say that the process runs."""
    return {"status": "ok"}


def health(call: Call) -> dict[str, Any]:
    """Return health: the version is the server's, unlike that of /openapi.json."""
    return {
        "status": "ok",
        "version": call.profile.version,
        "timestamp": shapes.stamp(call.state.clock.now()),
        "database_connected": True,
        "services_ready": True,
        "build_sha": "emulator",
        "embedding": call.state.index.health(),
    }


def capabilities(call: Call) -> dict[str, bool]:  # noqa: ARG001 - a handler
    """Return what the server can do."""
    return {"team": False, "spaces": True}


def stats(call: Call) -> dict[str, Any]:
    """Return counts of rows."""
    state = call.state
    relationships = len(state.links) + len(state.edges)
    nodes = len(state.memories) + len(state.threads) + len(state.entities) + len(state.labels)
    return {
        "memory_count": len(state.memories),
        "thread_count": len(state.threads),
        "entity_count": len(state.entities),
        "crystal_count": 0,
        "community_count": 0,
        "label_count": len(state.labels),
        "total_nodes": nodes,
        "total_relationships": relationships,
        "top_source": None,
    }


def index_status(call: Call) -> dict[str, Any]:
    """Return how far the search index is behind."""
    return {"status": "ready", "pending": call.state.index.pending, "reindex_needed": call.state.index.stuck}


def feed(call: Call) -> dict[str, Any]:
    """Return what happened of itself, the newest first."""
    rows = [row for row in call.state.feed[::-1] if not (call.query["unresolved_only"] and row["resolved"])]
    page, told = call.page(rows)
    return {"events": page, "total": len(rows), "has_more": told["has_more"]}


def resolve(call: Call) -> dict[str, Any]:
    """Let a person decide what an event asks about: from then on the pair is protected."""
    event = next((row for row in call.state.feed if row["id"] == call.parts["id"]), None)
    if event is None:
        raise Refusal(404, "Event not found")
    older, newer = (call.memory(one, anywhere=True) for one in event["memory_ids"])
    action = call.query["action"]
    if action == "delete_memory":
        call.state.drop_memory(older.id)
    else:
        decision = {"keep_newer": "keep_memory", "keep_both": "keep_both_linked"}[action]
        more = {"authoritative_memory_id": newer.id, "keep_both_relation": "challenges"}
        decide(call.state, older, newer, {"decision": decision, **more})
    event["resolved"] = True
    return {"success": True, "action": action}


def ensure_agent(call: Call) -> dict[str, str]:
    """Take note of an agent's name."""
    return {"id": call.parts["id"]}


FEED = (
    Field("limit", "integer", default=50, least=1, most=200),
    Field("offset", "integer", default=0, least=0),
    Field("unresolved_only", "boolean", default=False),
    Field("review_only", "boolean", default=False),
)
RESOLVE = (Field("action", required=True, choices=("delete_memory", "keep_newer", "keep_both")),)

ROUTES = (
    Route("GET", "/livez", live),
    Route("GET", "/health", health),
    Route("GET", "/health/details", health, since=(0, 10)),
    Route("GET", "/capabilities", capabilities),
    Route("GET", "/stats", stats),
    Route("GET", "/search-index/status", index_status),
    Route("GET", "/agent/feed/events", feed, query=FEED),
    Route("POST", "/agent/feed/events/{id}/resolve", resolve, query=RESOLVE),
    Route("POST", "/settings/agent-profiles/{id}/ensure", ensure_agent, body=()),
)
