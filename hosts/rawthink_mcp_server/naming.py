"""Names and ids that callers give for entities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.identity import canonical_id, looks_like_id
from rawthink_core.text import identity_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rawthink_core.model import Entity


def split(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return what has the form of an id, as stores keep it, and every name; each once and in order.

    What has the form of an id is a name too: somebody may have called an entity so.
    """
    each = list(dict.fromkeys(map(canonical_id, names)))
    return [name for name in each if looks_like_id(name)], each


def answers(entity: Entity, name: str) -> bool:
    """Tell whether an entity has an id, or answers to a name: a current, a former or another one."""
    if entity.id == canonical_id(name):
        return True
    former = [str(version.value) for version in entity.versions if version.field == "name"]
    aliases = [alias for version in entity.versions if version.field == "aliases" for alias in version.value]
    return identity_key(name) in map(identity_key, (entity.name, *entity.aliases, *former, *aliases))


def named(entities: Iterable[Entity], name: str) -> Entity | None:
    """Return the entity that answers to a name or an id."""
    return next((entity for entity in entities if answers(entity, name)), None)
