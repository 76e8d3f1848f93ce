"""The state machine at length: ``python bench/machine.py NAME…`` compares backends with the reference.

Each backend gets hundreds of stories instead of the dozen that CI tells, and takes minutes. A story that
shows a difference is printed as a program that replays it.
"""

from __future__ import annotations

import sys
import time

from rawthink_conformance.expect import Broken
from rawthink_conformance.machine import DEEP, compare
from rawthink_conformance.runner import installed


def main() -> int:
    failed = 0
    for name in sys.argv[1:] or ["reference"]:
        subject, began = installed(name), time.perf_counter()
        try:
            compare(subject, deep=True)
        except Broken as broken:
            failed += 1
            print(f"{name}: {broken}\n\n{broken.script}")
        else:
            print(f"{name}: no difference in {DEEP.max_examples} stories", end="")
            print(f" of up to {DEEP.stateful_step_count} steps, {time.perf_counter() - began:.0f} s")
        finally:
            subject.close()
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
