"""Everything that must hold before a change lands: format, lint, types, tests. For people and CI."""

from __future__ import annotations

import subprocess
import sys

STEPS = {
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
    "types": ["mypy"],
    "tests": ["pytest"],
}


def main() -> int:
    """Run every step, or those named on the command line; return 1 when one of them failed."""
    failed = []
    for name in sys.argv[1:] or STEPS:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", *STEPS[name]], check=False).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all well", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
