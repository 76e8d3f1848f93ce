"""Pages of mapped files that are given back."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest

from rawthink_local.resident import let_go

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing is done elsewhere")

SIZE = 8 << 20


def resident(path: Path) -> int:
    """Return the kilobytes that this process holds of a mapped file."""
    found, ours = 0, False
    for line in Path("/proc/self/smaps").read_text("utf-8").splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            ours = " ".join(rest[4:]) == str(path)
        elif ours and first == "Rss:":
            found += int(rest[0])
    return found


def test_pages_of_a_folder_are_given_back_and_no_byte_is_lost(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log of others").mkdir()
    ours, others = tmp_path / "log" / "a file", tmp_path / "log of others" / "b"
    with ours.open("w+b") as one, others.open("w+b") as two:
        one.truncate(SIZE)
        two.truncate(SIZE)
        with mmap.mmap(one.fileno(), SIZE) as here, mmap.mmap(two.fileno(), SIZE) as there:
            here[:] = there[:] = b"x" * SIZE
            assert resident(ours) == resident(others) == SIZE >> 10
            assert let_go(tmp_path / "log") == SIZE
            assert resident(ours) == 0
            assert resident(others) == SIZE >> 10
            assert here[:] == b"x" * SIZE
    assert ours.read_bytes() == b"x" * SIZE


def test_where_nothing_is_mapped_nothing_happens(tmp_path: Path) -> None:
    assert let_go(tmp_path) == 0
