"""When two providers agree, and what holds of any memory: the comparisons that the state machine makes."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from rawthink_conformance.expect import Broken, equal, true
from rawthink_conformance.talking import EVERY_STATUS
from rawthink_core.model import Entity, Observation, Passage, Relation
from rawthink_core.provider import Capability
from rawthink_core.rows import fold, noun
from rawthink_core.text import identity_key, same_text

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from rawthink_conformance.talking import Space
    from rawthink_core.commits import Commit
    from rawthink_core.model import Hit, Item
    from rawthink_core.rows import Stamped

_STORIES = 6
CLEAR = 0.2  # by how much a first hit must lead for its place to be beyond doubt


def plain(value: Any) -> Any:
    """Return an answer as plain data, its times to the millisecond.

    Two stores may count commits differently (forgetting is one or none), and a clock that stands still makes
    each commit a microsecond later; the order of items shows the rest.
    """
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000).isoformat()
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


async def agree(mine: Space, theirs: Space, names: Sequence[str]) -> None:
    """Require that two providers answer alike, with each verb that the first one declares."""
    info = mine.provider.info
    items = await theirs.scan(statuses=EVERY_STATUS)
    ids = [item.id for item in items]
    if info.can(Capability.SCAN):
        equal(plain(await mine.scan(statuses=EVERY_STATUS)), plain(items), "scan")
    if info.can(Capability.GET):
        one, other = await mine.get(*ids, names=names), await theirs.get(*ids, names=names)
        equal(plain(one), plain(other), "get")
    if info.can(Capability.GRAPH):
        walks = [await space.graph(*names, depth=2, statuses=EVERY_STATUS) for space in (mine, theirs)]
        equal(plain(walks[0]), plain(walks[1]), "graph")
    if info.can(Capability.HISTORY):
        for item in _storied(items):
            stories = [await space.history(id=item) for space in (mine, theirs)]
            equal(plain(stories[0]), plain(stories[1]), f"history of {item}")
    if info.can(Capability.EXPORT):
        equal(plain(_folded(await mine.export())), plain(_folded(await theirs.export())), "export, folded")


def _storied(items: Sequence[Item]) -> list[str]:
    """Return the ids of all entities, and of the newest items that replaced others or were replaced."""
    linked = [i.id for i in items if not isinstance(i, Entity) and (i.superseded_by or i.supersedes)]
    return [*(item.id for item in items if isinstance(item, Entity)), *linked[-_STORIES:]]


def _folded(commits: Iterable[Commit]) -> list[Item]:
    """Return the items that an export amounts to, erased ones left out."""
    rows: dict[str, list[Stamped]] = {}
    for commit in commits:
        for stamped in commit.stamped():
            rows.setdefault(stamped.row["id"], []).append(stamped)
    states = {item: state for item, stamped in rows.items() if (state := fold(stamped)) is not None}
    standing = {item: state for item, state in states.items() if not state.forgotten}
    items = [noun(state, lambda entity: str(standing[entity].value("name"))) for state in standing.values()]
    return sorted(items, key=lambda item: (item.recorded_at, item.id))


def agree_on_hits(mine: Sequence[Hit], theirs: Sequence[Hit], question: str, *, ranked_alike: bool) -> None:
    """Require that two searches find the same, and where one hit leads clearly, that it is first in both.

    A provider that ranks by itself may find more and order it otherwise; the clear leader must be there.
    """
    leads = len(theirs) == 1 or (len(theirs) > 1 and theirs[0].score - theirs[1].score >= CLEAR)
    found = [hit.id for hit in mine]
    if ranked_alike:
        equal(set(found), {hit.id for hit in theirs}, f"hits for {question!r}")
        if leads:
            equal(found[0], theirs[0].id, f"the first hit for {question!r}")
    elif leads:
        true(theirs[0].id in found, f"{theirs[0].text!r} is not found for {question!r}")


def laws(items: Sequence[Item]) -> None:
    """Require what holds of every memory, whoever keeps it; ``items`` are all of one space, in any status."""
    known = {item.id: item for item in items}
    if len(known) != len(items):
        raise Broken("an item is listed twice")
    dated = [item for item in items if not isinstance(item, Entity)]
    for item in dated:
        true(
            (item.status == "active") == (item.invalidated_at is None), f"{item.id}: status and date disagree"
        )
        if item.valid_from is not None and item.valid_to is not None:
            true(item.valid_from <= item.valid_to, f"{item.id} ends before it begins")
        heir = known.get(item.superseded_by or "")
        if heir is not None:
            true(
                not isinstance(heir, Entity) and item.id in heir.supersedes,
                f"{heir.id} does not link back to {item.id}",
            )
        for former in item.supersedes:
            old = known.get(former)
            true(
                old is None or (not isinstance(old, Entity) and old.superseded_by == item.id),
                f"{former} does not link to its successor {item.id}",
            )
        for end in _ends(item):
            true(isinstance(known.get(end), Entity), f"{item.id} ends at {end}, which is no entity here")
    _at_most_one(
        map(_claim, (item for item in dated if item.status == "active")), "active items that say the same"
    )
    names = [(key, entity.id) for entity in items if isinstance(entity, Entity) for key in _keys(entity)]
    _at_most_one((key for key, _ in set(names)), "entities that answer to one name")


def _ends(item: Item) -> tuple[str, ...]:
    match item:
        case Observation():
            return (item.entity,)
        case Relation():
            return (item.source, item.target)
        case _:
            return ()


def _claim(item: Observation | Relation | Passage) -> Hashable:
    """Return what only one active item may be."""
    match item:
        case Observation():
            return "observation", item.entity, item.kind, same_text(item.text), item.valid_from
        case Relation():
            return "relation", item.source, item.type, item.target
        case Passage():
            return "passage", item.session, item.key


def _keys(entity: Entity) -> set[str]:
    names = [entity.name, *entity.aliases]
    for version in entity.versions:
        if version.field == "name":
            names.append(version.value)
        elif version.field == "aliases":
            names += version.value
    return {identity_key(name) for name in names}


def _at_most_one(claims: Iterable[Hashable], what: str) -> None:
    double = [claim for claim, number in Counter(claims).items() if number > 1]
    if double:
        raise Broken(f"{what}: {double[0]!r}")


def kept(before: dict[str, Item], now: Sequence[Item], forgotten: set[str]) -> None:
    """Require that nothing has vanished, changed its words or moved in time; what was erased stays gone."""
    found = {item.id: item for item in now}
    for item_id, old in before.items():
        new = found.get(item_id)
        if item_id in forgotten:
            continue
        if new is None:
            raise Broken(f"{old!r} has vanished")
        equal(new.recorded_at, old.recorded_at, f"when {item_id} was recorded")
        equal(getattr(new, "text", None), getattr(old, "text", None), f"the text of {item_id}")
        if not isinstance(old, Entity) and old.status != "active":
            equal(getattr(new, "status", None), old.status, f"the status of {item_id}, once it was retired")
    back = [item for item in forgotten & found.keys() if not isinstance(found[item], Entity)]
    equal(back, [], "items that were forgotten and are back")
