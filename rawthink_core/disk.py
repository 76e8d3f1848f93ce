"""What is on the disk itself, and not only on its way there."""

from __future__ import annotations

import os
import sys


def sync(descriptor: int) -> None:
    """Wait until a file's bytes are on the disk itself, past the drive's own cache where the system can."""
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 - there is none on Windows

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)
