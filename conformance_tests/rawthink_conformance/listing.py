"""The requirements as a page to read: ``python -m rawthink_conformance.listing > docs/requirements.md``."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rawthink_conformance.requirements import REQUIREMENTS

if TYPE_CHECKING:
    from rawthink_conformance.requirements import Requirement

_HEAD = """# Requirements

What a provider promises, one check each. A requirement binds where its capability is declared (none: all);
an undeclared one must refuse. `rawthink conform NAME --only TOPIC` runs one topic. This page is generated
from the data that the suite runs on.
"""


def listing() -> str:
    """Return the page."""
    parts = [_HEAD]
    for topic, members in groupby(
        REQUIREMENTS.values(), key=lambda requirement: requirement.id.partition(".")[0]
    ):
        parts.append(f"\n## {topic}\n\n| requirement | rule | capability | promise |\n|---|---|---|---|\n")
        parts.extend(_row(requirement) for requirement in members)
    return "".join(parts)


def _row(requirement: Requirement) -> str:
    capability = requirement.capability.value if requirement.capability else ""
    return f"| `{requirement.id}` | {requirement.rule} | {capability} | {requirement.statement} |\n"


if __name__ == "__main__":
    print(listing(), end="")  # noqa: T201 - what it is for
