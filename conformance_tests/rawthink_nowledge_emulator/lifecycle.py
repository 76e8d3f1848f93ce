"""Supersede, deprecate, archive, forget, and the EVOLVES edges they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_nowledge_emulator import shapes
from rawthink_nowledge_emulator.call import Call, Route
from rawthink_nowledge_emulator.fields import Field
from rawthink_nowledge_emulator.refusals import Refusal

if TYPE_CHECKING:
    from rawthink_nowledge_emulator.state import Lifecycle, Memory, State

PROTECTED = "A person already decided how these two Memories relate. Use memory_evolves_revise to change it."
RELATIONS = ("replaces", "enriches", "confirms", "challenges")
DECISIONS = ("keep_memory", "keep_both_linked", "mark_unrelated")


def replace_memory(
    state: State, older: Memory, newer: Memory, reason: str = "", *, reviewed: bool = False
) -> None:
    """Let ``newer`` stand in the place of ``older``, with an edge that says so."""
    older.is_latest = False
    older.lifecycle = "superseded"
    older.updated_at = state.clock.tick()
    state.evolve(older.id, newer.id, "replaces", reason=reason, reviewed=reviewed)


def supersede(call: Call) -> dict[str, Any]:
    """Link an old memory to its replacement."""
    older = call.memory()
    newer = _replacement(call, older, call.body["newer_memory_id"])
    replace_memory(call.state, older, newer, call.body["reason"] or "")
    return _receipt(call, older, newer_memory_id=newer.id, content_relation="replaces")


def _replacement(call: Call, older: Memory, newer_id: str) -> Memory:
    newer = call.state.memories.get(newer_id)
    if newer is None:
        status = call.assumed("supersede_unknown_status")
        raise Refusal(status, call.profile.not_found.format(id=newer_id))
    if newer.space_id != older.space_id:
        raise Refusal(422, "EVOLVES endpoints must belong to the same Space")
    if newer.id == older.id:
        raise Refusal(422, "A Memory cannot supersede itself")
    known = call.state.edge(older.id, newer.id)
    if known is not None and known.reviewed:
        raise Refusal(call.assumed("reviewed_pair_status"), PROTECTED, "reviewed_pair_protected")
    return newer


def deprecate(call: Call) -> dict[str, Any]:
    """Mark a memory obsolete; with a replacement it is superseded too."""
    memory = call.memory()
    newer_id = call.body["replacement_memory_id"]
    if newer_id is not None:
        replace_memory(call.state, memory, _replacement(call, memory, newer_id), call.body["reason"] or "")
    return _retire(call, memory, "deprecated")


def archive(call: Call) -> dict[str, Any]:
    """Hide a memory from recall; it stays readable by id."""
    return _retire(call, call.memory(), "archived")


def forget(call: Call) -> dict[str, Any]:
    """Hide a memory from recall and from reads by id."""
    return _retire(call, call.memory(), "forgotten")


def _retire(call: Call, memory: Memory, lifecycle: Lifecycle) -> dict[str, Any]:
    memory.lifecycle = lifecycle
    memory.updated_at = call.state.clock.tick()
    return _receipt(call, memory)


def _receipt(call: Call, memory: Memory, **more: Any) -> dict[str, Any]:
    if call.assumed("lifecycle_receipt") == "empty":
        return {}
    told = {"id": memory.id, "lifecycle_state": memory.lifecycle, "is_latest": memory.is_latest}
    return {**told, "reason": call.body["reason"], **more}


def evolves(call: Call) -> dict[str, Any]:
    """List EVOLVES edges, of one memory or of all, the newest first."""
    query = call.query
    edges = call.state.edges if query["memory_id"] is None else list(call.state.edges_of(query["memory_id"]))
    rows = [
        edge
        for edge in sorted(edges, key=lambda edge: edge.created_at, reverse=True)
        if query["content_relation"] in (None, edge.relation)
        and not (query["unreviewed_only"] and edge.reviewed)
    ]
    page, _ = call.page(rows)
    return {"edges": [shapes.edge(call.state, edge) for edge in page], "total": len(rows)}


def preview(call: Call) -> dict[str, Any]:
    """Say what a person's decision on a pair would change. The plan is the decision itself."""
    one, other = _pair(call)
    known = call.state.edge(one.id, other.id)
    return {
        "plan_id": _plan(call),
        "decision": call.body["decision"],
        "memory_ids": [one.id, other.id],
        "current": known and shapes.edge(call.state, known),
        "changes_required": True,
    }


def apply(call: Call) -> dict[str, Any]:
    """Carry a decision out; refuses a plan that isn't the one previewed."""
    one, other = _pair(call)
    if call.body["plan_id"] != _plan(call):
        raise Refusal(409, "The plan no longer fits these Memories. Preview again.", "plan_conflict")
    decide(call.state, one, other, call.body)
    return {"applied": True, "plan_id": call.body["plan_id"], "decision": call.body["decision"]}


def _pair(call: Call) -> tuple[Memory, Memory]:
    ids = [str(one) for one in call.body["memory_ids"]]
    if len(set(ids)) != 2:  # noqa: PLR2004 - a pair
        raise Refusal(422, "memory_ids must be two different Memories")
    if call.body["decision"] == "keep_memory" and call.body["authoritative_memory_id"] not in ids:
        raise Refusal(422, "authoritative_memory_id must be one of memory_ids")
    one, other = (call.memory(memory_id, anywhere=True) for memory_id in ids)
    return one, other


def _plan(call: Call) -> str:
    said = [*sorted(map(str, call.body["memory_ids"])), call.body["decision"]]
    said.append(call.body["authoritative_memory_id"] or call.body["keep_both_relation"] or "")
    return "plan:" + ":".join(said)


def decide(state: State, one: Memory, other: Memory, decision: dict[str, Any]) -> None:
    """Store what a person decided about two memories: the API can't supersede one by the other then."""
    if decision["decision"] == "keep_memory":
        kept, dropped = (one, other) if decision["authoritative_memory_id"] == one.id else (other, one)
        kept.lifecycle, kept.is_latest = "active", True
        replace_memory(state, dropped, kept, decision.get("reason") or "", reviewed=True)
        return
    for memory in (one, other):
        if memory.lifecycle == "superseded":
            memory.lifecycle, memory.is_latest = "active", True
    if decision["decision"] == "mark_unrelated":
        state.edges = [edge for edge in state.edges if {edge.older_id, edge.newer_id} != {one.id, other.id}]
    else:
        state.evolve(one.id, other.id, decision.get("keep_both_relation") or "confirms", reviewed=True)


REASON = Field("reason")
SPACE = Field("space_id")
REVISION = (
    Field("memory_ids", "array", required=True),
    Field("decision", required=True, choices=DECISIONS),
    Field("authoritative_memory_id"),
    Field("keep_both_relation", choices=("confirms", "challenges")),
    REASON,
    Field("plan_id"),
)
EVOLVES = (
    Field("limit", "integer", default=50, least=1, most=200),
    Field("offset", "integer", default=0, least=0),
    Field("content_relation", choices=RELATIONS),
    Field("unreviewed_only", "boolean", default=False),
    Field("memory_id"),
)
SINCE = (0, 9)

ROUTES = (
    Route(
        "POST",
        "/memories/{id}/supersede",
        supersede,
        body=(Field("newer_memory_id", required=True), REASON, SPACE),
        since=SINCE,
    ),
    Route(
        "POST",
        "/memories/{id}/deprecate",
        deprecate,
        body=(REASON, Field("replacement_memory_id"), SPACE),
        since=SINCE,
    ),
    Route("POST", "/memories/{id}/archive", archive, body=(REASON, SPACE), since=SINCE),
    Route("POST", "/memories/{id}/forget", forget, body=(REASON, SPACE), since=SINCE),
    Route("POST", "/memories/evolves/revision/preview", preview, body=REVISION, since=(0, 10)),
    Route("POST", "/memories/evolves/revision/apply", apply, body=REVISION, since=(0, 10)),
    Route("GET", "/agent/evolves", evolves, query=EVOLVES),
)
