"""How rows are shown: MemoryPublic and MemoryNode, relations, threads, labels, spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from rawthink_nowledge_emulator.call import Call
    from rawthink_nowledge_emulator.state import Edge, Label, Link, Memory, Message, Space, State, Thread

RATINGS = 5
MINUTE, HOUR, DAY, WEEK = 60, 3600, 86400, 604800


def stamp(time: datetime) -> str:
    """Return a time as the API writes it."""
    return time.isoformat().replace("+00:00", "Z")


def age(then: datetime, now: datetime) -> str:
    """Return "2 hours ago" and the like."""
    seconds = round((now - then).total_seconds())
    for size, name in ((WEEK, "week"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def read_metadata(memory: Memory) -> dict[str, Any]:
    """Return stored metadata under the four keys that reading adds: the server's values win."""
    return {
        **memory.metadata,
        "event_start": memory.event_start,
        "event_end": memory.event_end,
        "temporal_context": memory.temporal_context,
        "created_at": stamp(memory.created_at),
    }


def source_thread(memory: Memory, state: State) -> dict[str, Any] | None:
    """Return where a memory was distilled from; none where that thread isn't there."""
    thread = state.thread(memory.source_thread_id) if memory.source_thread_id else None
    if thread is None:
        return None
    return {"id": thread.thread_id, "title": thread.title, "space_id": thread.space_id}


def memory_public(call: Call, memory: Memory) -> dict[str, Any]:
    """Return the shape of GET, PATCH, list and GET search."""
    extra = {
        "unit_type": memory.unit_type,
        "created_at": stamp(memory.created_at),
        "is_crystal": False,
        "review_status": memory.review_status,
        "lifecycle_state": memory.lifecycle,
        "is_latest": memory.is_latest,
        "claim_status": None,
        "source_grounding": None,
        "trust_warnings": [],
    }
    metadata = read_metadata(memory)
    if "unit_type" not in call.profile.public_fields:  # older builds: the client looks into metadata
        metadata["unit_type"] = memory.unit_type
    return {
        "id": memory.id,
        "title": memory.title,
        "content": memory.content,
        "source": memory.source,
        "time": age(memory.created_at, call.state.clock.now()),
        "importance": memory.importance,
        "rating": min(max(int(memory.importance * RATINGS), 1), RATINGS),
        "label_ids": list(memory.labels),
        "is_favorite": memory.is_favorite,
        "source_thread": source_thread(memory, call.state),
        "confidence": memory.confidence,
        "space_id": memory.space_id,
        "metadata": metadata,
        **{name: value for name, value in extra.items() if name in call.profile.public_fields},
    }


def memory_node(memory: Memory) -> dict[str, Any]:
    """Return the shape of POST create and POST search: no labels."""
    return {
        "id": memory.id,
        "node_type": "Memory",
        "created_at": stamp(memory.created_at),
        "updated_at": stamp(memory.updated_at),
        "metadata": dict(memory.metadata),
        "content": memory.content,
        "title": memory.title,
        "importance": memory.importance,
        "confidence": memory.confidence,
        "pagerank_score": 0.0,
        "embedding": None,
        "source_range": None,
        "source": memory.source,
        "space_id": memory.space_id,
        "semantic_field": None,
        "reindex_needed": False,
        "last_reindexed_at": None,
        "last_accessed_at": None,
        "access_count": 0,
        "appearances": 0,
        "clicks": 0,
        "total_dwell_time_ms": 0,
        "last_clicked_at": None,
        "decay_score_cached": None,
        "temporal_context": memory.temporal_context,
        "temporal_type": temporal_type(memory),
        "event_start": memory.event_start,
        "event_end": memory.event_end,
        "temporal_precision": memory.temporal_precision,
        "temporal_confidence": None,
        "unit_type": memory.unit_type,
        "is_latest": memory.is_latest,
        "version": memory.version,
        "is_crystal": False,
        "crystal_title": None,
        "source_unit_count": None,
        "extraction_method": "manual",
        "last_evaluated_at": None,
        "review_status": memory.review_status,
    }


def temporal_type(memory: Memory) -> str:
    """Return whether a memory's event is a day, a range or not known."""
    if memory.event_start is None:
        return "unknown"
    return "range" if memory.event_end else "exact"


def relation(state: State, link: Link, seen_from: str) -> dict[str, Any]:
    """Return a relation as its memory ``seen_from`` shows it."""
    source, target = state.memories[link.source_id], state.memories[link.target_id]
    return {
        "id": link.id,
        "source_memory_id": source.id,
        "source_title": source.title,
        "source_space_id": source.space_id,
        "target_memory_id": target.id,
        "target_title": target.title,
        "target_space_id": target.space_id,
        **link.fields,
        "created_at": stamp(link.created_at),
        "updated_at": stamp(link.updated_at),
        "direction": "outgoing" if seen_from == source.id else "incoming",
    }


def edge(state: State, row: Edge) -> dict[str, Any]:
    """Return an EVOLVES edge."""
    older, newer = state.memories[row.older_id], state.memories[row.newer_id]
    return {
        "older_id": older.id,
        "newer_id": newer.id,
        "older_title": older.title,
        "newer_title": newer.title,
        "content_relation": row.relation,
        "confidence": row.confidence,
        "reason": row.reason,
        "reviewed": row.reviewed,
        "created_at": stamp(row.created_at),
    }


def label(state: State, row: Label) -> dict[str, Any]:
    """Return a label, with how many memories carry it."""
    return {
        "id": row.id,
        "name": row.name,
        "color": row.color,
        "description": row.description,
        "created_at": stamp(row.created_at),
        "updated_at": stamp(row.updated_at),
        "usage_count": sum(row.id in memory.labels for memory in state.memories.values()),
    }


def message(row: Message, order: int) -> dict[str, Any]:
    """Return a message of a thread."""
    return {
        "id": row.id,
        "role": row.role,
        "content": row.content,
        "order_index": order,
        "timestamp": row.timestamp,
        "token_count": tokens(row.content),
        "metadata": row.metadata,
    }


def tokens(text: str) -> int:
    """Return a rough number of tokens."""
    return -(-len(text) // 4)


def thread_node(row: Thread) -> dict[str, Any]:
    """Return a thread as creating and reading it show it."""
    return {
        "id": row.id,
        "thread_id": row.thread_id,
        "title": row.title,
        "summary": row.summary,
        "message_count": len(row.messages),
        "source": row.source,
        "participants": row.participants,
        "space_id": row.space_id,
        "metadata": row.metadata,
        "is_favorite": row.is_favorite,
        "created_at": stamp(row.created_at),
        "updated_at": stamp(row.updated_at),
    }


def thread_line(row: Thread) -> dict[str, Any]:
    """Return a thread as the list shows it: ``id`` is the caller's id here, ``messages`` a number."""
    return {
        "id": row.thread_id,
        "title": row.title,
        "summary": row.summary,
        "source": row.source,
        "messages": len(row.messages),
        "date": f"{row.created_at:%b} {row.created_at.day}, {row.created_at.year}",
        "is_favorite": row.is_favorite,
        "space_id": row.space_id,
        "metadata": row.metadata,
        "agent_id": None,
        "source_app": None,
        "host_agent_id": None,
    }


def space(state: State, row: Space) -> dict[str, Any]:
    """Return a space and what it holds."""
    return {
        "id": row.id,
        "key": row.id,
        "name": row.name,
        "aliases": row.aliases,
        "description": row.description,
        "icon": row.icon,
        "instructions": row.instructions,
        "sharedSpaceIds": row.shared,
        "defaultRetrievalMode": row.mode,
        "usage": usage(state, row),
        "observed": True,
        "hasProfile": True,
    }


def usage(state: State, row: Space) -> dict[str, Any]:
    """Return how many records a space holds."""
    return {
        "memories": sum(memory.space_id == row.id for memory in state.memories.values()),
        "threads": sum(thread.space_id == row.id for thread in state.threads.values()),
        "sources": 0,
        "hasWorkingMemory": bool(row.working_memory),
    }
