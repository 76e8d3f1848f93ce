"""Tools that erase for good. All is looked up first: where one name is unknown, nothing is erased."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rawthink_core.errors import Fault, InvalidRequest, NotFound
from rawthink_core.identity import canonical_id
from rawthink_core.model import Entity
from rawthink_core.operations import MAX_SCAN
from rawthink_core.text import same_text
from rawthink_core.vocabulary import STATUSES
from rawthink_mcp_server.naming import named, split
from rawthink_mcp_server.telling import Told, count, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.operations import GraphPage
    from rawthink_mcp_server.house import Open

_SHOWN = 20
_OF_NAME = 80  # characters of what is not there


async def delete_entities(at: Open, *, entityNames: Sequence[str]) -> Told:  # noqa: N803 - the tool's argument
    """Erase entities with all that is said of them."""
    _some("entityNames", entityNames)
    ids, each = split(entityNames)
    held = [item.id for item in (await at.memory.get(*ids)).items] if ids else []
    found = await at.memory.get(*held, names=[name for name in each if name not in held])
    _refuse([f"entity {one_line(name)[:_OF_NAME]}" for name in found.missing])
    if strangers := [item.id for item in found.items if not isinstance(item, Entity)]:
        raise InvalidRequest([Fault("entityNames", f"{item} is no entity") for item in strangers])
    return await _forget(at, [item.id for item in found.items])


async def delete_observations(at: Open, *, deletions: Sequence[dict[str, Any]]) -> Told:
    """Erase what was said of entities, by exact text or id, retired or not."""
    _some("deletions", deletions)
    for index, deletion in enumerate(deletions):
        _some(f"deletions.{index}.observations", deletion["observations"])
    page = await _around(at, [deletion["entityName"] for deletion in deletions], depth=0)
    chosen: list[str] = []
    missing: list[str] = []
    for deletion in deletions:
        owner = named(page.entities, deletion["entityName"])
        if owner is None:
            missing.append(f"entity {one_line(deletion['entityName'])[:_OF_NAME]}")
            continue
        for text in deletion["observations"]:
            said = [
                item.id
                for item in page.observations
                if item.entity == owner.id
                and (item.id == canonical_id(text) or same_text(item.text) == same_text(text))
            ]
            chosen += said
            missing += [] if said else [f"observation {one_line(text)[:_OF_NAME]} of {one_line(owner.name)}"]
    _refuse(missing)
    return await _forget(at, list(dict.fromkeys(chosen)))


async def delete_relations(at: Open, *, relations: Sequence[dict[str, Any]]) -> Told:
    """Erase relations, retired or not."""
    _some("relations", relations)
    names = [given[end] for given in relations for end in ("from", "to")]
    page = await _around(at, names, depth=1)
    chosen: list[str] = []
    missing: list[str] = []
    for given in relations:
        source, target = named(page.entities, given["from"]), named(page.entities, given["to"])
        kind = given["relationType"]
        folded = at.words.relation(kind)
        ends = (source, target) if folded is None or not folded.turned else (target, source)
        found = [
            item.id
            for item in page.relations
            if ends[0] is not None
            and ends[1] is not None
            and (item.source, item.target) == (ends[0].id, ends[1].id)
            and item.type == (folded.type if folded else kind)
        ]
        chosen += found
        if not found:
            words = (given["from"], kind, given["to"])
            missing.append(" ".join(["relation", *(one_line(word)[:_OF_NAME] for word in words)]))
    _refuse(missing)
    return await _forget(at, list(dict.fromkeys(chosen)))


async def _around(at: Open, names: Sequence[str], depth: int) -> GraphPage:
    ids, each = split(names)
    return await at.memory.graph(
        *each, ids=ids, depth=depth, statuses=STATUSES, limit=MAX_SCAN, observations=not depth, listing=True
    )


def _some(name: str, given: Sequence[Any]) -> None:
    if not given:
        raise InvalidRequest([Fault(name, "must not be empty")])


def _refuse(missing: Sequence[str]) -> None:
    if missing:
        listed = "; ".join(missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise NotFound(
            f"Not in this memory: {listed}{more}. Nothing was erased. open_nodes shows what there is."
        )


async def _forget(at: Open, ids: Sequence[str]) -> Told:
    """Erase items, and say of each place that held them what became of it there."""
    done = await at.memory.forget(ids=ids)
    lines = [f"Erased for good: {count(done.count, 'item')}."]
    lines += [
        f"{place.outcome}: {place.place}" + (f" ({place.note})" if place.note else "")
        for place in done.places
    ]
    if any(place.outcome == "kept" for place in done.places):
        lines.append("What is kept lies outside of this memory; it must be erased there.")
    return Told("\n".join(lines), {"receipt": done})
