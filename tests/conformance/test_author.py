"""What an author writes: a few lines in an empty folder, with nothing of this repository around them."""

import subprocess
import sys

AUTHORS_FILE = """\
from rawthink_conformance import ProviderConformance, ReferenceProvider


class TestMine(ProviderConformance):
    waivers = {"get.order": "not yet"}

    def make_provider(self, world):
        return ReferenceProvider(world)
"""


def test_a_few_lines_are_enough_and_tests_are_called_by_their_ids(tmp_path):
    assert len(AUTHORS_FILE.splitlines()) <= 10
    (tmp_path / "test_mine.py").write_text(AUTHORS_FILE, "utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-v",
        "-k",
        "graph.bare or get.order",
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert "test_mine.py::TestMine::test_graph.bare PASSED" in ran.stdout
    assert "test_mine.py::TestMine::test_get.order FAILED" in ran.stdout
    assert "stale waiver: it passes now (not yet)" in ran.stdout
    assert "1 failed, 1 passed" in ran.stdout
