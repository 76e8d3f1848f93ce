"""What the server holds: memories, labels, spaces, threads, relations and EVOLVES edges. Rows, no rules."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from rawthink_nowledge_emulator.index import Index

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_SPACE = "default"
Lifecycle = Literal["active", "superseded", "deprecated", "archived", "forgotten"]


@dataclass
class Memory:
    """One memory; ``labels`` are label ids."""

    id: str
    content: str
    title: str
    space_id: str
    created_at: datetime
    updated_at: datetime
    source: str = "manual"
    importance: float = 0.5
    confidence: float = 0.5
    unit_type: str = "fact"
    labels: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    event_start: str | None = None
    event_end: str | None = None
    temporal_precision: str | None = None
    temporal_context: str = "timeless"
    source_thread_id: str | None = None
    provenance: dict[str, str] = field(default_factory=dict)
    lifecycle: Lifecycle = "active"
    is_latest: bool = True
    is_favorite: bool = False
    review_status: str = ""
    version: int = 1


@dataclass
class Label:
    """A label; its id is derived from its name."""

    id: str
    name: str
    color: str
    description: str
    created_at: datetime
    updated_at: datetime


@dataclass
class Space:
    """A space; ``mode`` says which other spaces its searches see."""

    id: str
    name: str
    created_at: datetime
    aliases: list[str] = field(default_factory=list)
    description: str = ""
    icon: str = ""
    instructions: str = ""
    shared: list[str] = field(default_factory=list)
    mode: str = "strict"
    working_memory: str = ""


@dataclass
class Message:
    """One message of a thread; ``identity`` is what it is told apart by."""

    id: str
    role: str
    content: str
    timestamp: str
    identity: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Thread:
    """A conversation; ``thread_id`` is the caller's, ``id`` the server's."""

    id: str
    thread_id: str
    title: str
    space_id: str
    created_at: datetime
    updated_at: datetime
    source: str = ""
    summary: str = ""
    participants: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    is_favorite: bool = False


@dataclass
class Link:
    """An explicit relation between two memories."""

    id: str
    source_id: str
    target_id: str
    created_at: datetime
    updated_at: datetime
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Edge:
    """One EVOLVES edge, older to newer. A reviewed one was decided by a person."""

    older_id: str
    newer_id: str
    relation: str
    created_at: datetime
    confidence: float = 1.0
    reason: str = ""
    reviewed: bool = False


class Clock:
    """Time as rows show it: never the same twice, so that the newest first is an order. Can be moved on."""

    def __init__(self, start: datetime | None = None) -> None:
        self._fixed = start
        self._ahead = timedelta()
        self._last = datetime.min.replace(tzinfo=UTC)

    def advance(self, seconds: float) -> None:
        """Move on by ``seconds``."""
        self._ahead += timedelta(seconds=seconds)

    def now(self) -> datetime:
        """Return the time, without making it an instant of its own."""
        return (self._fixed or datetime.now(UTC)) + self._ahead

    def tick(self) -> datetime:
        """Return an instant later than every one before."""
        self._last = max(self.now(), self._last + timedelta(microseconds=1))
        return self._last


class State:
    """All rows of one server."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.index = Index(clock.now)
        self.memories: dict[str, Memory] = {}
        self.labels: dict[str, Label] = {}
        self.spaces: dict[str, Space] = {}
        self.threads: dict[str, Thread] = {}
        self.links: dict[str, Link] = {}
        self.edges: list[Edge] = []
        self.entities: dict[str, list[str]] = {}  # entity name: memories that mention it
        self.feed: list[dict[str, Any]] = []
        self.add_space(DEFAULT_SPACE, "Default")

    def new_id(self) -> str:
        """Return an id as the server mints them."""
        return str(uuid.uuid4())

    def add_space(self, space_id: str, name: str = "", **more: Any) -> Space:
        """Add a space, or change the one with this id."""
        space = Space(space_id, name or space_id, self.clock.tick(), **more)
        self.spaces[space_id] = space
        return space

    def newest_first(self) -> list[Memory]:
        """Return all memories, the newest first."""
        return sorted(self.memories.values(), key=lambda memory: memory.created_at, reverse=True)

    def thread(self, name: str) -> Thread | None:
        """Return a thread by its server id or by its own id in any spelling."""
        found = self.threads.get(thread_key(name))
        return found or next((thread for thread in self.threads.values() if thread.id == name), None)

    def edges_of(self, memory_id: str) -> Iterator[Edge]:
        """Return the EVOLVES edges at a memory."""
        return (edge for edge in self.edges if memory_id in (edge.older_id, edge.newer_id))

    def edge(self, one: str, other: str) -> Edge | None:
        """Return the EVOLVES edge between two memories, whichever is older."""
        return next((edge for edge in self.edges_of(one) if other in (edge.older_id, edge.newer_id)), None)

    def evolve(self, older: str, newer: str, relation: str, **more: Any) -> Edge:
        """Put an edge between two memories, in place of the one that is there."""
        self.edges = [e for e in self.edges if {e.older_id, e.newer_id} != {older, newer}]
        edge = Edge(older, newer, relation, self.clock.tick(), **more)
        self.edges.append(edge)
        return edge

    def drop_memory(self, memory_id: str) -> int:
        """Delete a memory; return how many relations and edges went with it."""
        gone = [link.id for link in self.links.values() if memory_id in (link.source_id, link.target_id)]
        for link_id in gone:
            del self.links[link_id]
        edges = len(self.edges)
        self.edges = [edge for edge in self.edges if memory_id not in (edge.older_id, edge.newer_id)]
        del self.memories[memory_id]
        self.index.remove(memory_id)
        for memories in self.entities.values():
            if memory_id in memories:
                memories.remove(memory_id)
        return len(gone) + edges - len(self.edges)

    def drop_orphan_entities(self) -> int:
        """Delete the entities that no memory mentions; return how many."""
        orphans = [name for name, memories in self.entities.items() if not memories]
        for name in orphans:
            del self.entities[name]
        return len(orphans)


def thread_key(name: str) -> str:
    """Return a thread id as the server keeps it."""
    return name.lower().replace(" ", "-")


def label_key(name: str) -> str:
    """Return the id of a label with this name: several names have the same one."""
    return "label_" + name.lower().replace(" ", "_")
