"""``python -m rawthink_conformance.mutants``: is each mutant caught by its own check? Prints the score.

With ``--all`` it runs every check on every mutant (the better part of an hour) and prints what else notices
which fault. One fault may break several requirements; those that the mutant doesn't name show how the
requirements hang together.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rawthink_conformance.checking import run_check
from rawthink_conformance.mutants import UNBITTEN, ZOO, Specimen
from rawthink_conformance.requirements import REQUIREMENTS

if TYPE_CHECKING:
    from rawthink_conformance.reference import ReferenceProvider


def main() -> int:
    """Run the check of each mutant's own requirement; return 1 when one does not notice."""
    caught, alone = 0, 0
    everything = "--all" in sys.argv[1:]
    for mutant, (own, *named) in ZOO.items():
        result = run_check(REQUIREMENTS[own], Specimen(mutant), {})
        caught += result.outcome == "failed"
        mark = "✓" if result.outcome == "failed" else "✗"
        print(f"{mark} {own}: {mutant.__doc__}", flush=True)  # noqa: T201 - what it is for
        if everything:
            also = [r for r in REQUIREMENTS if r != own and _notices(r, mutant)]
            alone += not also
            for requirement in also:
                print(f"    also {requirement}{'' if requirement in named else ' (not named)'}")  # noqa: T201
    bitten = len({own for own, *_ in ZOO.values()})
    beside = f", {len(UNBITTEN)} can't be broken by a provider" if UNBITTEN else ""
    print(  # noqa: T201
        f"\n{caught} of {len(ZOO)} mutants are caught by their own check; "
        f"{bitten} of {len(REQUIREMENTS)} requirements have one{beside}."
    )
    if everything:
        print(f"{alone} are noticed by no other check.")  # noqa: T201
    return int(caught < len(ZOO))


def _notices(requirement: str, mutant: type[ReferenceProvider]) -> bool:
    return run_check(REQUIREMENTS[requirement], Specimen(mutant), {}).outcome == "failed"


if __name__ == "__main__":
    sys.exit(main())
