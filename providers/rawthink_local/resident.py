"""What a process holds in memory of files that it has mapped, and no longer needs there."""

from __future__ import annotations

import ctypes
import logging
import sys
from pathlib import Path

log = logging.getLogger("rawthink.local")

_MAPS = Path("/proc/self/maps")  # Linux alone has it
_DONTNEED = 4  # MADV_DONTNEED of Linux


def let_go(folder: Path) -> int:
    """Give back the pages that this process holds of files in ``folder``; return their bytes as mapped.

    They stay in the system's cache and come back when they are touched: nothing is lost, of a shared mapping
    not even what was not written yet. Elsewhere than on Linux nothing is done.
    """
    if sys.platform != "linux" or not _MAPS.exists():
        return 0
    below = f"{folder}/"
    given = 0
    system = ctypes.CDLL(None, use_errno=True)
    for line in _MAPS.read_text("utf-8", "surrogateescape").splitlines():
        span, rights, *_, path = [*line.split(maxsplit=5), ""][:6]
        if not path.startswith(below) or not rights.endswith("s"):
            continue
        start, end = (int(each, 16) for each in span.split("-"))
        size = ctypes.c_size_t(end - start)
        if system.madvise(ctypes.c_void_p(start), size, ctypes.c_int(_DONTNEED)):
            log.info("%s stays in memory: error %d", path, ctypes.get_errno())
        else:
            given += end - start
    return given
