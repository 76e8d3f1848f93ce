"""Labels and the labels of memories. Several names are one label: its id is derived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_nowledge_emulator import shapes
from rawthink_nowledge_emulator.call import Call, Route
from rawthink_nowledge_emulator.fields import Field
from rawthink_nowledge_emulator.refusals import Refusal
from rawthink_nowledge_emulator.state import Label, label_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rawthink_nowledge_emulator.state import Memory, State

BLUE = "#3b82f6"


def ensure(state: State, name: str, color: str = BLUE, description: str = "") -> Label:
    """Return the label that a name means, made if it isn't there: the first spelling wins."""
    known = state.labels.get(label_key(name))
    if known is None:
        now = state.clock.tick()
        known = state.labels[label_key(name)] = Label(label_key(name), name, color, description, now, now)
    return known


def assign(state: State, memory: Memory, names: Iterable[str]) -> list[str]:
    """Add labels to a memory; return the names of those asked for, known to it before or not."""
    assigned: list[str] = []
    for name in names:
        label = ensure(state, name)
        if label.id not in memory.labels:
            memory.labels.append(label.id)
        if label.name not in assigned:
            assigned.append(label.name)
    return assigned


def carries(memory: Memory, names: list[str], rule: str) -> bool:
    """Return whether a memory passes a filter of labels: with ``any`` of them, or with ``all``."""
    wanted = [name if name.startswith("label_") else label_key(name) for name in names]
    if not wanted:
        return True
    found = [label in memory.labels for label in wanted]
    return all(found) if rule == "all" else any(found)


def listing(call: Call) -> list[dict[str, Any]]:
    """List labels, as a bare array."""
    rows = [shapes.label(call.state, row) for row in call.state.labels.values()]
    order = call.query["order_by"]
    rows.sort(key=lambda row: row.get(order, row["name"]), reverse=call.query["order_desc"])
    return rows[call.query["offset"] :][: call.query["limit"]]


def create(call: Call) -> dict[str, Any]:
    """Create a label from query parameters."""
    query = call.query
    return shapes.label(call.state, ensure(call.state, query["name"], query["color"], query["description"]))


def _label(call: Call, label_id: str) -> Label:
    found = call.state.labels.get(label_id)
    if found is None:
        raise Refusal(404, "Label not found")
    return found


def show(call: Call) -> dict[str, Any]:
    """Return one label."""
    return shapes.label(call.state, _label(call, call.parts["id"]))


def change(call: Call) -> dict[str, Any]:
    """Change a label's name, color or description; its id stays."""
    label = _label(call, call.parts["id"])
    for name in ("name", "color", "description"):
        if call.query[name] is not None:
            setattr(label, name, call.query[name])
    label.updated_at = call.state.clock.tick()
    return shapes.label(call.state, label)


def delete(call: Call) -> dict[str, str]:
    """Delete a label and take it off every memory."""
    label = _label(call, call.parts["id"])
    for memory in call.state.memories.values():
        memory.labels = [one for one in memory.labels if one != label.id]
    del call.state.labels[label.id]
    return {"message": "Label deleted successfully"}


def of_memory(call: Call) -> dict[str, Any]:
    """Return a memory's labels."""
    memory = call.memory()
    return {"labels": [shapes.label(call.state, call.state.labels[one]) for one in memory.labels]}


def add(call: Call) -> dict[str, Any]:
    """Add labels to a memory, named or by id."""
    memory = call.memory()
    names = [str(name) for name in call.body["labels"] or []]
    names += [_label(call, str(one)).name for one in call.body["label_ids"] or []]
    if not names:
        raise Refusal(422, "labels or label_ids is required")
    assign(call.state, memory, names)
    return of_memory(call)


def remove(call: Call) -> dict[str, str]:
    """Take a label off a memory."""
    memory = call.memory()
    label = _label(call, call.parts["label_id"])
    if label.id not in memory.labels:
        raise Refusal(404, "Label not found")
    memory.labels.remove(label.id)
    return {"message": "Label removed successfully"}


NAMED = (Field("name"), Field("color"), Field("description"))
LIST = (
    Field("limit", "integer", default=100, least=1, most=1000),
    Field("offset", "integer", default=0, least=0),
    Field("order_by", default="name"),
    Field("order_desc", "boolean", default=False),
)
CREATE = (
    Field("name", required=True, shortest=1),
    Field("color", default=BLUE),
    Field("description", default=""),
)

ROUTES = (
    Route("GET", "/labels", listing, query=LIST),
    Route("POST", "/labels", create, query=CREATE),
    Route("GET", "/labels/{id}", show),
    Route("PUT", "/labels/{id}", change, query=NAMED),
    Route("DELETE", "/labels/{id}", delete),
    Route("GET", "/memories/{id}/labels", of_memory),
    Route("POST", "/memories/{id}/labels", add, body=(Field("labels", "array"), Field("label_ids", "array"))),
    Route("DELETE", "/memories/{id}/labels/{label_id}", remove),
)
