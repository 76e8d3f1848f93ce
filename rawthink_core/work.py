"""A batch in canonical form, as the planner works on it.

`validation.prepare` makes it: relation types folded, times as ISO 8601 in UTC, names with their keys.
Each item knows where it stood in the request, so that a fault found later can name the place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rawthink_core.errors import Fault

if TYPE_CHECKING:
    from rawthink_core.model import Rules
    from rawthink_core.operations import Batch, Successor, Target
    from rawthink_core.vocabulary import Folded


@dataclass(frozen=True, slots=True)
class EntityItem:
    """An entity of a batch; `fields` holds only what was stated."""

    where: str
    name: str
    key: str
    fields: dict[str, Any]
    aliases: tuple[str, ...] = ()
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class ObservationItem:
    """An observation of a batch, its entity still a reference."""

    where: str
    entity: str
    text: str
    kind: str
    valid_from: str | None = None
    valid_to: str | None = None


@dataclass(frozen=True, slots=True)
class RelationItem:
    """A relation of a batch as it was stated: ``type`` says whether the arrow is to be turned.

    ``type`` is None where the word is outside the vocabulary; a fault says so.
    """

    where: str
    source: str
    type: Folded | None
    target: str
    valid_from: str | None = None
    valid_to: str | None = None


@dataclass(frozen=True, slots=True)
class PassageItem:
    """A passage of a batch, with its key settled."""

    where: str
    text: str
    session: str
    key: str
    ordinal: int | None
    rest: dict[str, Any]
    place: str | None = None  # the key where one of `after` is stored
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetItem:
    """A target of a change, with its times and words in canonical form."""

    where: str
    given: Target
    kind: str | None
    valid_from: str | None
    type: str | None
    source: str | None
    target: str | None


@dataclass(frozen=True, slots=True)
class ChangeItem:
    """A change of a batch in canonical form."""

    where: str
    targets: tuple[TargetItem, ...]
    successor: Successor | None
    successor_kind: str | None
    successor_type: Folded | None
    successor_times: tuple[str | None, str | None]
    fields: dict[str, Any] | None
    reason: str | None
    cause: str
    effective: str | None


@dataclass(slots=True)
class Work:
    """A prepared batch: its items in canonical form, and what is wrong with it so far.

    ``by`` is who said so, as it is written with the commit; its time is an instant.
    """

    batch: Batch
    rules: Rules
    by: dict[str, Any] | None = None
    entities: list[EntityItem] = field(default_factory=list)
    observations: list[ObservationItem] = field(default_factory=list)
    relations: list[RelationItem] = field(default_factory=list)
    passages: list[PassageItem] = field(default_factory=list)
    changes: list[ChangeItem] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    settled: object = field(default=None, repr=False, compare=False)  # the planner that lacked nothing

    @property
    def space(self) -> str:
        """The space that the batch writes to."""
        return self.batch.scope.space

    def fault(self, where: str, problem: str) -> None:
        """Note something wrong."""
        self.faults.append(Fault(where, problem))
