"""``python -m rawthink_conformance.mutants``: is each mutant caught by its own check? Prints the score."""

from __future__ import annotations

import sys

from rawthink_conformance.checking import run_check
from rawthink_conformance.mutants import UNBITTEN, ZOO, Specimen
from rawthink_conformance.requirements import REQUIREMENTS


def main() -> int:
    """Run the check of each mutant's own requirement; return 1 when one does not notice."""
    caught = 0
    for mutant, (own, *_) in ZOO.items():
        result = run_check(REQUIREMENTS[own], Specimen(mutant), {})
        caught += result.outcome == "failed"
        mark = "✓" if result.outcome == "failed" else "✗"
        print(f"{mark} {own}: {mutant.__doc__}", flush=True)  # noqa: T201 - what it is for
    bitten = len({own for own, *_ in ZOO.values()})
    beside = f", {len(UNBITTEN)} can't be broken by a provider" if UNBITTEN else ""
    print(  # noqa: T201
        f"\n{caught} of {len(ZOO)} mutants are caught by their own check; "
        f"{bitten} of {len(REQUIREMENTS)} requirements have one{beside}."
    )
    return int(caught < len(ZOO))


if __name__ == "__main__":
    sys.exit(main())
