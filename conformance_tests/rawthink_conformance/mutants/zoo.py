"""The zoo: how a mutant is declared, and what the mutants share.

A mutant is the reference provider with one fault. It names its own requirement, the one that it is there to
break, and others that the same fault breaks as well; a test proves that each of their checks notices, so a
check that can't fail is found out. ``python -m rawthink_conformance.mutants`` prints the score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from rawthink_conformance.reference import ReferenceProvider
from rawthink_conformance.requirements import REQUIREMENTS
from rawthink_conformance.suite import spoil

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from rawthink_core.operations import Batch, RecordReceipt
    from rawthink_core.provider import Provider, World
    from rawthink_core.rows import Row

    M = TypeVar("M", bound=BaseModel)

ZOO: dict[type[ReferenceProvider], tuple[str, ...]] = {}  # what each breaks, its own requirement first


def breaks(own: str, *others: str) -> Callable[[type[ReferenceProvider]], type[ReferenceProvider]]:
    """Declare a class as a mutant of its own requirement, whose fault breaks some others as well."""
    requirements = (own, *others)

    def declare(mutant: type[ReferenceProvider]) -> type[ReferenceProvider]:
        if unknown := set(requirements) - REQUIREMENTS.keys():
            raise LookupError(f"{mutant.__name__} breaks what is no requirement: {sorted(unknown)}")
        ZOO[mutant] = requirements
        return mutant

    return declare


class Specimen:
    """A mutant as the subject of checks."""

    def __init__(self, mutant: type[ReferenceProvider]) -> None:
        self.name = mutant.__name__
        self._mutant = mutant

    def make_provider(self, world: World) -> Provider:
        """Return a mutant on a world."""
        return self._mutant(world)

    def as_code(self) -> tuple[str, str]:
        """Return what to import for a script, and the expression that makes this."""
        imports = f"from {self._mutant.__module__} import {self.name}\n"
        return f"{imports}from rawthink_conformance.mutants import Specimen", f"Specimen({self.name})"

    def make_unusable(self, world: World) -> None:
        """Put a file where the store's folder should be."""
        spoil(world)


def remade(model: M, **changes: Any) -> M:
    """Return a request or answer with other values."""
    return model.model_copy(update=changes)


class ChangesBatches(ReferenceProvider):
    """Base of mutants that write something else than they were given."""

    def changed(self, batch: Batch) -> Batch:
        """Return the batch that is written instead."""
        raise NotImplementedError

    def _record(self, batch: Batch) -> RecordReceipt:
        return super()._record(self.changed(batch))


class ChangesRows(ReferenceProvider):
    """Base of mutants that store other rows than were planned."""

    def changed(self, row: Row) -> Row | None:
        """Return the row that is stored instead; None for none."""
        raise NotImplementedError

    def _plan(self, *args: Any) -> tuple[Row, ...]:
        rows = (self.changed(dict(row)) for row in super()._plan(*args))
        return tuple(row for row in rows if row is not None)


def without(row: Mapping[str, Any], *fields: str) -> Row:
    """Return a row without some fields."""
    return {name: value for name, value in row.items() if name not in fields}
