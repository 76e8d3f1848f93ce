"""Standard input and output, kept for the protocol alone from the first moment on.

The protocol gets descriptors of its own. Descriptor 1 then leads to stderr and 0 to nothing, so that a stray
`print`, a C library or a child process can neither break a message nor swallow one.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

_STANDARD = 3  # below are stdin, stdout and stderr


class Descriptors(NamedTuple):
    """Where messages come from and go to."""

    read: int
    write: int


def claim() -> Descriptors:
    """Take stdin and stdout for the protocol. Once a process, before anything could print."""
    while (nothing := os.open(os.devnull, os.O_RDWR)) < _STANDARD:
        pass  # it was started without one of the three, which leads to nothing now
    claimed = Descriptors(_private(0), _private(1))
    os.dup2(2, 1)
    os.dup2(nothing, 0)
    os.close(nothing)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
    return claimed


def _private(standard: int) -> int:
    """Return a duplicate of a standard descriptor that no child inherits."""
    duplicate = os.dup(standard)
    os.set_inheritable(duplicate, False)
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - there alone

        msvcrt.setmode(duplicate, os.O_BINARY)
    return duplicate
