"""What the server does to memories by itself, between two calls. Here nothing happens but by hand.

Each job is a function of the state and of the names it needs; `JOBS` lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_nowledge_emulator import labels, shapes
from rawthink_nowledge_emulator.lifecycle import RELATIONS, decide, replace_memory
from rawthink_nowledge_emulator.memories import UNIT_TYPES
from rawthink_nowledge_emulator.state import label_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_nowledge_emulator.state import Memory, State

CAP = 0.8


def _memory(state: State, memory_id: str) -> Memory:
    if memory_id not in state.memories:
        raise ValueError(f"no such memory: {memory_id!r}")
    return state.memories[memory_id]


def cap_importance(state: State, memory_id: str, most: float = CAP) -> None:
    """Lower a memory's importance to what agents may claim."""
    memory = _memory(state, memory_id)
    memory.importance = min(memory.importance, most)


def retitle(state: State, memory_id: str, title: str) -> None:
    """Give a memory another title."""
    _memory(state, memory_id).title = title


def relabel(
    state: State, memory_id: str, add: list[str] | None = None, remove: list[str] | None = None
) -> None:
    """Add labels to a memory, and take some off."""
    memory = _memory(state, memory_id)
    labels.assign(state, memory, add or [])
    gone = {label_key(name) for name in remove or []}
    memory.labels = [label for label in memory.labels if label not in gone]


def classify(state: State, memory_id: str, unit_type: str) -> None:
    """Give a memory another unit type."""
    if unit_type not in UNIT_TYPES:
        raise ValueError(f"no such unit type: {unit_type!r}")
    _memory(state, memory_id).unit_type = unit_type


def annotate(state: State, memory_id: str, metadata: dict[str, Any]) -> None:
    """Write keys of the server's own into a memory's metadata."""
    _memory(state, memory_id).metadata |= metadata


def extract_entities(state: State, memory_id: str, names: list[str]) -> None:
    """Draw entities from a memory."""
    memory = _memory(state, memory_id)
    for name in names:
        mentions = state.entities.setdefault(name, [])
        if memory.id not in mentions:
            mentions.append(memory.id)


def evolve(state: State, older_id: str, newer_id: str, relation: str = "enriches") -> None:
    """Put an EVOLVES edge between two memories; one that replaces hides the older."""
    older, newer = _memory(state, older_id), _memory(state, newer_id)
    if relation not in RELATIONS:
        raise ValueError(f"no such relation: {relation!r}")
    if relation == "replaces":
        replace_memory(state, older, newer, "background")
    else:
        state.evolve(older.id, newer.id, relation, confidence=0.8, reason="background")


def contradict(state: State, older_id: str, newer_id: str) -> None:
    """Find that two memories contradict each other, and ask a person in the feed."""
    evolve(state, older_id, newer_id, "challenges")
    state.feed.append(
        {
            "id": state.new_id(),
            "event_type": "contradiction",
            "severity": "review",
            "title": "Two memories contradict each other",
            "memory_ids": [older_id, newer_id],
            "resolved": False,
            "created_at": shapes.stamp(state.clock.tick()),
        }
    )


def review(state: State, kept_id: str, other_id: str) -> None:
    """Let a person decide that one memory stands in the place of another: the API can't turn that round."""
    decision = {"decision": "keep_memory", "authoritative_memory_id": kept_id}
    decide(state, _memory(state, kept_id), _memory(state, other_id), decision)


def deduplicate(state: State, kept_id: str, other_id: str) -> None:
    """Merge a memory into another that says the same: its labels move, and it is superseded."""
    kept, other = _memory(state, kept_id), _memory(state, other_id)
    kept.labels += [label for label in other.labels if label not in kept.labels]
    replace_memory(state, other, kept, "duplicate")


def summarise(state: State, thread_id: str, summary: str, title: str = "") -> None:
    """Give a thread a summary and, where said, a title."""
    thread = state.thread(thread_id)
    if thread is None:
        raise ValueError(f"no such thread: {thread_id!r}")
    thread.summary = summary
    thread.title = title or thread.title


def delete(state: State, memory_id: str) -> None:
    """Let somebody else delete a memory."""
    state.drop_memory(_memory(state, memory_id).id)


JOBS: dict[str, Callable[..., None]] = {
    job.__name__: job
    for job in (
        cap_importance,
        retitle,
        relabel,
        classify,
        annotate,
        extract_entities,
        evolve,
        contradict,
        review,
        deduplicate,
        summarise,
        delete,
    )
}


def run(state: State, name: str, **said: Any) -> None:
    """Run a job by name; raise `ValueError` for one that there isn't, or for names that it doesn't know."""
    if name not in JOBS:
        raise ValueError(f"no such job: {name!r}; known are {', '.join(JOBS)}")
    try:
        JOBS[name](state, **said)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from None
