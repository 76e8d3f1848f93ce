"""The rules of the contract, clause by clause, as data (``rules.toml``): who holds each, what proves it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, get_args

from rawthink_conformance.requirements import REQUIREMENTS, RULES, Holder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOLDERS: tuple[Holder, ...] = get_args(Holder)


@dataclass(frozen=True, slots=True)
class Clause:
    """One sentence of a rule. ``checks`` are the requirements that it is.

    ``tests`` are files of the repository that prove it instead, where no provider can break it.
    """

    rule: str
    name: str
    says: str
    holder: Holder
    checks: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


def _read(data: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[Clause]:
    for rule, clauses in data.items():
        for name, fields in clauses.items():
            clause = Clause(
                rule,
                name,
                fields["says"],
                fields["holder"],
                tuple(fields.get("checks", ())),
                tuple(fields.get("tests", ())),
            )
            if rule not in RULES or clause.holder not in HOLDERS or set(clause.checks) - REQUIREMENTS.keys():
                raise ValueError(f"clause {rule}.{name} names a rule, holder or requirement that is none")
            yield clause


CLAUSES: tuple[Clause, ...] = tuple(
    _read(tomllib.loads(files("rawthink_conformance").joinpath("rules.toml").read_text("utf-8")))
)


def holder_of(requirement: str) -> Holder:
    """Return where the mistake most likely is when a requirement is broken."""
    return next(clause.holder for clause in CLAUSES if requirement in clause.checks)
