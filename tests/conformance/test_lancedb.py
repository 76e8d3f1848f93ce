"""The LanceDB provider keeps every promise of the contract, in a folder and in a bucket.

In a bucket a step takes ten times as long: what hangs on where the tables lie runs there each time, and
everything with `DEEP_VARIABLE` set.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from rawthink_conformance import ProviderConformance
from rawthink_conformance.checking import run_check
from rawthink_conformance.suite import tell_pytest
from rawthink_lancedb.provider import LanceProvider
from rawthink_lancedb.settings import LanceSettings
from tests.conformance.keeping import AWAY, WRITTEN, kept


def _bucket():
    """Return the module that serves S3 to the tests of the provider."""
    name = "rawthink_tests_bucket"
    if name not in sys.modules:
        path = Path(__file__).parents[1] / "lancedb" / "bucket.py"
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


class TestFolder(ProviderConformance):
    def make_provider(self, world):
        return LanceProvider(LanceSettings(), world)


class TestBucket:
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _serve(cls):
        with _bucket().serving() as cls.server:
            yield

    @kept(*WRITTEN, *AWAY)
    def test_keeps(self, requirement):
        tell_pytest(run_check(requirement, self, {}))

    def __getstate__(self):
        """Go into another process, where the same server is reached, but is not ours to stop."""
        return {**vars(self.server), "_process": None}

    def __setstate__(self, state):
        self.server = object.__new__(_bucket().Server)
        vars(self.server).update(state)

    def make_provider(self, world):
        if (world.path.parent / "unusable").exists():
            return LanceProvider(
                self.server.settings("no-such-bucket", world.path.parent / "settings"), world
            )
        return self.server.provider(world)

    def make_unusable(self, world):
        world.path.parent.mkdir(parents=True, exist_ok=True)
        (world.path.parent / "unusable").touch()
