"""What a provider promises: the requirements of the contract, as data (``requirements.toml``).

Each has one check of the same id in `checks`, and mutants that prove that the check bites.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from rawthink_core.provider import GRADES, Capability

if TYPE_CHECKING:
    from collections.abc import Mapping

Holder = Literal["model", "plan", "provider", "memory", "host"]
RULES = (*(str(number) for number in range(1, 18)), "contract", "nouns", "decisions", "chat", "search")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One promise: its ``id``, a ``statement`` in one line, and a ``hint`` for the author who breaks it.

    It binds providers that declare ``capability`` (all, when None) with one of ``grades`` (any, when
    empty). ``rule`` is the rule of the design that it belongs to.
    """

    id: str
    statement: str
    rule: str
    hint: str
    capability: Capability | None = None
    grades: tuple[str, ...] = ()

    @property
    def test_name(self) -> str:
        """The name of its test method: it holds the id as it is, so ``pytest -k`` takes ids as well."""
        return f"test_{self.id}"


def _read(data: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Requirement]:
    found: dict[str, Requirement] = {}
    for topic, promises in data.items():
        for name, fields in promises.items():
            capability = Capability(fields["capability"]) if "capability" in fields else None
            requirement = Requirement(
                id=f"{topic}.{name}",
                statement=fields["statement"],
                rule=fields["rule"],
                hint=fields["hint"],
                capability=capability,
                grades=tuple(fields.get("grades", ())),
            )
            _refuse_nonsense(requirement)
            found[requirement.id] = requirement
    return found


def _refuse_nonsense(requirement: Requirement) -> None:
    if requirement.rule not in RULES:
        raise ValueError(f"{requirement.id}: {requirement.rule!r} is no rule")
    known = GRADES.get(requirement.capability, ()) if requirement.capability else ()
    if not set(requirement.grades) <= set(known):
        raise ValueError(f"{requirement.id}: {requirement.grades} are no grades of {requirement.capability}")


REQUIREMENTS: Mapping[str, Requirement] = MappingProxyType(
    _read(tomllib.loads(files("rawthink_conformance").joinpath("requirements.toml").read_text("utf-8")))
)
