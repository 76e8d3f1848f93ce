"""Everything that must hold before a change lands: format, lint, types, tests. For people and CI."""

from __future__ import annotations

import subprocess
import sys

STEPS = {
    "format": ["-m", "ruff", "format", "--check", "."],
    "lint": ["-m", "ruff", "check", "."],
    "types": ["-m", "mypy"],
    "tests": ["-m", "pytest"],
}
NAMED = {"node": ["tests/node/mcp_conformance.py"]}  # steps that run only when they are named
NEEDS = {"node": "Node 20 and npm"}


def main() -> int:
    """Run every step, or those named on the command line; return 1 when one of them failed."""
    unknown = [name for name in sys.argv[1:] if name not in STEPS | NAMED]
    if unknown:
        print(f"usage: python check.py [{'] ['.join(STEPS | NAMED)}]", flush=True)
        return 2
    failed = []
    for name in sys.argv[1:] or STEPS:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, *(STEPS | NAMED)[name]], check=False).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all well", flush=True)
    if not sys.argv[1:]:
        for name in NAMED:
            print(f"left out: {name} (python check.py {name}; needs {NEEDS[name]})", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
