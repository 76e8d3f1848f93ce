"""The two searches over memories: they differ in names, defaults and shape."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rawthink_nowledge_emulator import labels, shapes
from rawthink_nowledge_emulator.call import Call, Route
from rawthink_nowledge_emulator.fields import Field
from rawthink_nowledge_emulator.memories import calendar_day

if TYPE_CHECKING:
    from rawthink_nowledge_emulator.state import Memory

STRATEGIES = {"fast": "fast_bm25_vector", "deep": "3_strategy_hybrid"}
DEGRADED = "Semantic search is unavailable; results match whole words only"
NO_FILTERS = ("q", "limit", "offset", "mode", "explain")
RANGES = {"today": 1, "week": 7, "month": 30, "year": 365}

DATES = (
    Field("event_date_from"),
    Field("event_date_to"),
    Field("recorded_date_from"),
    Field("recorded_date_to"),
)
POST = (
    Field("query"),
    Field("limit", "integer", default=10, least=1, most=100),
    Field("offset", "integer", default=0, least=0),
    Field("include_entities", "boolean", default=True),
    Field("filter_labels", "array"),
    Field("metadata_filters", "array"),
    Field("mode", default="deep"),
    Field("space_id"),
    Field("unit_type"),
    Field("temporal_context"),
    *DATES,
)
POST_STRICT = (Field("query", required=True), *POST[1:])
GET = (
    Field("q", default=""),
    Field("limit", "integer", default=20, least=1, most=100),
    Field("offset", "integer", default=0, least=0),
    Field("importance_min", "number", least=0.0, most=1.0),
    Field("confidence_min", "number", least=0.0, most=1.0),
    Field("mode", default="fast"),
    Field("time_range"),
    Field("labels", many=True),
    Field("metadata", many=True),
    Field("unit_type"),
    Field("include_history", "boolean", default=False),
    Field("explain", "boolean", default=False),
    Field("space_id"),
    *DATES,
)


def post(call: Call) -> list[dict[str, Any]]:
    """Answer POST search: a bare array, without labels, without a total."""
    question = (call.body["query"] or "").strip()
    if not question:
        return []
    filters = {**call.body, "labels": call.body["filter_labels"], "metadata": call.body["metadata_filters"]}
    hits = _hits(call, question, filters)
    start = call.body["offset"] if call.profile.search_offset else 0
    return [
        {
            "memory": memory and shapes.memory_node(memory),
            "similarity_score": value,
            "relevance_reason": reason,
            "related_entities": _entities(call, memory) if call.body["include_entities"] else [],
            "evolves_context": None,
            "related_memory_links": None,
        }
        for memory, value, reason in hits[start : start + call.body["limit"]]
    ]


def get(call: Call) -> dict[str, Any]:
    """Answer GET search: without ``q`` the newest, whatever the client believes that it asked."""
    question = call.query["q"].strip()
    limit, offset = call.query["limit"], call.query["offset"]
    hits = _hits(call, question, call.query) if question else _newest(call)
    fetched = hits[: limit + offset]
    page = [
        _found(call, memory, value, reason) if question else shapes.memory_public(call, memory)
        for memory, value, reason in fetched[offset:]
        if memory is not None
    ]
    more = len(hits) > limit + offset and call.assumed("search_has_more") == "true"
    told = {"limit": limit, "offset": offset, "total": len(fetched), "has_more": more}
    return {"memories": page, "pagination": told, "search_metadata": _metadata(call, question, len(fetched))}


def _metadata(call: Call, question: str, found: int) -> dict[str, Any]:
    used = {
        name: value
        for name, value in call.query.items()
        if value is not None and value is not False and value != [] and name not in NO_FILTERS
    }
    told: dict[str, Any] = {
        "query": question,
        "search_mode": STRATEGIES.get(call.query["mode"], STRATEGIES["fast"]) if question else "browse",
        "filters_applied": used,
        "total_found": found,
    }
    if call.state.index.degraded:
        told["fallback_status"] = {"degraded": True, "message": DEGRADED}
    return told


def _found(call: Call, memory: Memory, value: float, reason: str) -> dict[str, Any]:
    """Return a hit of GET search: the score lies over the memory's own confidence."""
    public = shapes.memory_public(call, memory)
    public["confidence"] = value
    public["metadata"] |= {
        "similarity_score": value,
        "search_query": call.query["q"],
        "created_at": shapes.stamp(memory.created_at),
        "importance": memory.importance,
        "relevance_reason": reason,
        "original_source": memory.source,
        "search_type": STRATEGIES.get(call.query["mode"], STRATEGIES["fast"]),
    }
    return public


def _entities(call: Call, memory: Memory | None) -> list[dict[str, str]]:
    mentions = call.state.entities.items()
    return [{"id": name, "name": name} for name, ids in mentions if memory is not None and memory.id in ids]


def _newest(call: Call) -> list[tuple[Memory | None, float, str]]:
    spaces = call.readable_spaces()
    rows = call.state.newest_first()
    return [(one, 0.0, "") for one in rows if one.space_id in spaces and _passes(call, one, call.query)]


def _hits(call: Call, question: str, filters: dict[str, Any]) -> list[tuple[Memory | None, float, str]]:
    """Return what matches and passes: the best first, of equals the newest."""
    spaces = call.readable_spaces()
    found: list[tuple[Memory | None, float, str]] = []
    for memory_id, value, reason in call.state.index.search(question):
        memory = call.state.memories.get(memory_id)
        if memory is None and call.assumed("deleted_in_index") == "null":
            found.append((None, value, reason))
        elif memory is not None and memory.space_id in spaces and _passes(call, memory, filters):
            found.append((memory, value, reason))
    newest = {memory.id: place for place, memory in enumerate(call.state.newest_first())}
    return sorted(found, key=lambda hit: (-hit[1], newest[hit[0].id] if hit[0] else -1))


def _passes(call: Call, memory: Memory, filters: dict[str, Any]) -> bool:
    return (
        _visible(call, memory, history=bool(filters.get("include_history")))
        and filters["unit_type"] in (None, memory.unit_type)
        and filters.get("temporal_context") in (None, memory.temporal_context)
        and memory.importance >= (filters.get("importance_min") or 0)
        and memory.confidence >= (filters.get("confidence_min") or 0)
        and labels.carries(
            memory, [str(name) for name in filters["labels"] or []], call.assumed("label_filter")
        )
        and _metadata_matches(call, memory, [str(one) for one in filters["metadata"] or []])
        and _within(memory.event_start, filters["event_date_from"], filters["event_date_to"])
        and _within(
            memory.created_at.date().isoformat(), filters["recorded_date_from"], filters["recorded_date_to"]
        )
        and _recent(call, memory, filters.get("time_range"))
    )


def _visible(call: Call, memory: Memory, *, history: bool) -> bool:
    if memory.lifecycle == "active":
        return memory.is_latest or history
    if memory.lifecycle == "archived":
        return history and call.assumed("archived_in_history") == "shown"
    return history and memory.lifecycle in ("superseded", "deprecated")


def _metadata_matches(call: Call, memory: Memory, filters: list[str]) -> bool:
    """Return whether every key asked for has one of its values. What is no ``key=value`` is ignored."""
    wanted: dict[str, set[str]] = {}
    for one in filters:
        key, equals, value = one.partition("=")
        if equals:
            wanted.setdefault(key, set()).add(value)
    for key, values in wanted.items():
        stored = memory.metadata.get(key)
        if stored is not None and not isinstance(stored, str) and call.assumed("metadata_filter") == "text":
            stored = str(stored)
        if not isinstance(stored, str) or stored not in values:
            return False
    return True


def _within(day: str | None, first: str | None, last: str | None) -> bool:
    """Return whether a day lies between two dates, which may be months or years; no day doesn't."""
    if first is None and last is None:
        return True
    if day is None:
        return False
    low = calendar_day(first)[0] if first else None
    return (low is None or day >= low) and (last is None or day[: len(last)] <= last)


def _recent(call: Call, memory: Memory, time_range: str | None) -> bool:
    days = RANGES.get(time_range or "")
    return days is None or call.state.clock.now() - memory.created_at <= timedelta(days=days)


ROUTES = (
    Route("GET", "/memories/search", get, query=GET, broken="Search failed: {error}"),
    Route("POST", "/memories/search", post, body=POST, broken="Search failed: {error}"),
)
