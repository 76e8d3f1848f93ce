"""The requirements as a page to read: `pages` writes it to ``docs/requirements.md``."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rawthink_conformance.contract import CLAUSES, holder_of
from rawthink_conformance.requirements import REQUIREMENTS

if TYPE_CHECKING:
    from rawthink_conformance.contract import Clause
    from rawthink_conformance.requirements import Requirement

_HEAD = """# Requirements

What a provider promises, one check each. A requirement binds where its capability is declared (none: all);
an undeclared one must refuse. `rawthink conform NAME -k TOPIC` runs one topic, and `pytest -k TOPIC` the same
checks of your class. *Holder* is where the mistake most likely is: in a model or plan of core that is not
used as it came, or in the provider itself. This page is generated from the data that the suite runs on.
"""
_RULES = """
## The rules, clause by clause

Every clause of the contract, with the checks that it is; where no provider can break it, with the tests of
ours that prove it.

| rule | clause | holder | proved by |
|---|---|---|---|
"""


def listing() -> str:
    """Return the page."""
    parts = [_HEAD]
    for topic, members in groupby(
        REQUIREMENTS.values(), key=lambda requirement: requirement.id.partition(".")[0]
    ):
        parts.append(
            f"\n## {topic}\n\n| requirement | rule | holder | capability | promise | when it fails |\n"
        )
        parts.append("|---|---|---|---|---|---|\n")
        parts.extend(_row(requirement) for requirement in members)
    return "".join([*parts, _RULES, *(_clause(clause) for clause in CLAUSES)])


def _row(requirement: Requirement) -> str:
    capability = requirement.capability.value if requirement.capability else ""
    if requirement.grades:
        capability += f" ({', '.join(requirement.grades)})"
    cells = (
        f"`{requirement.id}`",
        requirement.rule,
        holder_of(requirement.id),
        capability,
        requirement.statement,
        requirement.hint,
    )
    return f"| {' | '.join(cells)} |\n"


def _clause(clause: Clause) -> str:
    proof = ", ".join(f"`{name}`" for name in (*clause.checks, *clause.tests))
    return f"| {clause.rule} | {clause.says} | {clause.holder} | {proof} |\n"
