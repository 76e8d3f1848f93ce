"""Tools that write: what is known, what was decided, and changes of mind. All faults of a call at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_core.errors import InvalidRequest, NotFound
from rawthink_core.identity import canonical_id, looks_like_id
from rawthink_core.text import identity_key
from rawthink_mcp_server.faults import renamed
from rawthink_mcp_server.telling import Told, one_line, receipt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.operations import RecordReceipt
    from rawthink_mcp_server.house import Open

_SAID = 8  # texts that an error offers where none fits
_OFFERED = 120  # characters of each

_FIELDS = {
    "entityType": "entity_type",
    "domain": "domain",
    "epistemic": "epistemic",
    "visibility": "visibility",
}


class _Batch:
    """What a call says, as the core takes it, and where in the call each part of it stood."""

    def __init__(self) -> None:
        self.entities: list[dict[str, Any]] = []
        self.observations: list[dict[str, Any]] = []
        self.relations: list[dict[str, Any]] = []
        self.places: dict[str, str] = {}

    def entity(self, given: dict[str, Any], place: str) -> None:
        """Take an entity, and what is said of it in one go."""
        at = f"entities.{len(self.entities)}"
        fields = {ours: given[theirs] for theirs, ours in _FIELDS.items() if theirs in given}
        self.places |= {at: place, f"{at}.entity_type": f"{place}.entityType"}
        self.entities.append({"name": given["name"], **fields})
        for index, text in enumerate(given.get("observations", ())):
            self._say(
                {"entity": given["name"], "text": text},
                text=f"{place}.observations.{index}",
                owner=f"{place}.name",
                rest=place,
            )

    def observation(self, given: dict[str, Any], place: str) -> None:
        """Take what is said of one entity."""
        rest: dict[str, Any] = {name: given[name] for name in ("kind", "valid_from") if name in given}
        for index, text in enumerate(given["contents"]):
            self._say(
                {"entity": given["entityName"], "text": text, **rest},
                text=f"{place}.contents.{index}",
                owner=f"{place}.entityName",
                rest=place,
            )

    def _say(self, said: dict[str, Any], *, text: str, owner: str, rest: str) -> None:
        at = f"observations.{len(self.observations)}"
        self.places |= {at: rest, f"{at}.text": text, f"{at}.entity": owner}
        self.observations.append(said)

    def relation(self, given: dict[str, Any], place: str) -> None:
        """Take a relation."""
        at = f"relations.{len(self.relations)}"
        names = {"source": "from", "type": "relationType", "target": "to"}
        self.places |= {at: place} | {f"{at}.{ours}": f"{place}.{theirs}" for ours, theirs in names.items()}
        self.relations.append({ours: given[theirs] for ours, theirs in names.items()})


async def record(
    at: Open,
    *,
    entities: Sequence[dict[str, Any]] = (),
    relations: Sequence[dict[str, Any]] = (),
    observations: Sequence[dict[str, Any]] = (),
) -> Told:
    """Record entities, relations and observations in one commit."""
    batch = _Batch()
    for index, item in enumerate(entities):
        batch.entity(item, f"entities.{index}")
    for index, item in enumerate(observations):
        batch.observation(item, f"observations.{index}")
    for index, item in enumerate(relations):
        batch.relation(item, f"relations.{index}")
    if not (batch.entities or batch.observations or batch.relations):
        raise InvalidRequest("nothing to record: give entities, relations or observations")
    with renamed(batch.places):
        done = await at.memory.record(
            entities=batch.entities, observations=batch.observations, relations=batch.relations
        )
    return _told(done)


async def create_entities(at: Open, *, entities: Sequence[dict[str, Any]]) -> Told:
    """Record entities."""
    return await record(at, entities=entities)


async def create_relations(at: Open, *, relations: Sequence[dict[str, Any]]) -> Told:
    """Record relations."""
    return await record(at, relations=relations)


async def add_observations(at: Open, *, observations: Sequence[dict[str, Any]]) -> Told:
    """Record observations."""
    return await record(at, observations=observations)


async def record_decision(
    at: Open,
    *,
    name: str,
    domain: str,
    decided: str,
    because: str,
    rejected: Sequence[str] = (),
    touches: Sequence[str] = (),
    epistemic: str | None = None,
    visibility: str | None = None,
    supersedes: str | None = None,
) -> Told:
    """Record a decision; under a name that has one, it ends what was decided before."""
    fields = ("name", "domain", "epistemic", "visibility", "supersedes", "entity_type")
    parts = ["decided", "because"]
    parts += [f"rejected.{index}" for index in range(len(rejected))]
    parts += [f"touches.{index}" for index in range(len(touches))]
    places = {f"entities.0.{field}": field for field in fields} | {"entities.0.entity_type": "name"}
    for index, part in enumerate(parts):
        places |= {f"observations.{index}": part, f"observations.{index}.text": part}
        places[f"observations.{index}.entity"] = "name"
    with renamed(places):
        done = await at.memory.record_decision(
            name=name,
            domain=domain,
            decided=decided,
            because=because,
            rejected=rejected,
            touches=touches,
            epistemic=epistemic,
            visibility=visibility,
            supersedes=supersedes,
        )
    return _told(done)


# --- changes of mind ----------------------------------------------------------------------------


async def revise(
    at: Open,
    *,
    entity_name: str,
    observations: Sequence[str],
    superseded_by: str | None = None,
    superseding_entity: str | None = None,
    changed: bool = False,
) -> Told:
    """Retire observations, and say what is so instead.

    ``superseded_by`` is the reason. Where ``superseding_entity`` is named, it is said of that one too, takes
    the place of what is retired, and that entity supersedes the other. ``changed`` says that it was so
    until now; else it never was.
    """
    if not observations:
        raise InvalidRequest("observations: must not be empty; open_nodes shows what is said, with ids")
    ids = [text for text in observations if looks_like_id(text)]
    known = {item.id for item in (await at.memory.get(*ids)).items} if ids else set()
    targets = [
        {"id": text} if canonical_id(text) in known else {"entity": entity_name, "text": text}
        for text in observations
    ]
    change: dict[str, Any] = {"targets": targets, "reason": superseded_by}
    change |= {"cause": "changed"} if changed else {}
    relations: list[dict[str, Any]] = []
    if superseding_entity is not None:
        if superseded_by is not None:
            change["successor"] = {"entity": superseding_entity, "text": superseded_by}
        if identity_key(superseding_entity) != identity_key(entity_name):
            relations = [{"source": superseding_entity, "type": "supersedes", "target": entity_name}]
    places = {f"revisions.0.targets.{n}": f"observations.{n}" for n in range(len(targets))}
    places |= {f"revisions.0.targets.{n}.text": f"observations.{n}" for n in range(len(targets))}
    places |= {
        "revisions.0": "revise",
        "revisions.0.reason": "superseded_by",
        "revisions.0.successor": "superseded_by",
        "revisions.0.successor.text": "superseded_by",
        "revisions.0.successor.entity": "superseding_entity",
        "relations.0.source": "superseding_entity",
        "relations.0.target": "entity_name",
    }
    try:
        with renamed(places):
            done, note = await _revised(at, change, relations)
    except NotFound as error:
        raise NotFound(f"{error}{await _said(at, entity_name)}") from None
    told = _told(done)
    return told._replace(text=f"{told.text}\n{note}") if note else told


async def _revised(
    at: Open, change: dict[str, Any], relations: list[dict[str, Any]]
) -> tuple[RecordReceipt, str]:
    """Write a revision and the relation that goes with it; where only that makes no sense, without it."""
    try:
        return await at.memory.record(revisions=[change], relations=relations), ""
    except InvalidRequest as error:
        if not relations or not all(fault.where == "relations.0" for fault in error.faults):
            raise
        note = f"No supersedes relation was written: {error.faults[0].problem}."
        return await at.memory.record(revisions=[change]), note


async def invalidate_observations(
    at: Open, *, entity_name: str, observations: Sequence[str], superseded_by: str | None = None
) -> Told:
    """Retire observations and name nothing in their place."""
    return await revise(at, entity_name=entity_name, observations=observations, superseded_by=superseded_by)


async def _said(at: Open, entity: str) -> str:
    """Return what is said of an entity, so that the right text can be named."""
    page = await at.memory.graph(entity, depth=0)
    if not page.entities:
        return f"\nThere is no entity {one_line(entity)[:80]}: search_nodes finds names."
    lines = [f"\n- {one_line(item.text)[:_OFFERED]} [{item.id}]" for item in page.observations[:_SAID]]
    more = len(page.observations) - _SAID
    rest = f"\n{more} more: open_nodes" if more > 0 else ""
    return f"\n{one_line(page.entities[0].name)} says:{''.join(lines)}{rest}" if lines else ""


def _told(done: RecordReceipt) -> Told:
    return Told("\n".join(receipt(done)), {"receipt": done})
