"""The Nowledge provider keeps every promise of the contract, on servers of either generation.

One set-up runs everything; those of each generation all that is short; the others what they may change. With
`DEEP_VARIABLE` set all of them run everything.
"""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
from typing import ClassVar

import httpx2
import pytest

from rawthink_conformance import ProviderConformance, machine
from rawthink_conformance.checking import run_check
from rawthink_conformance.suite import tell_pytest
from rawthink_nowledge.provider import NowledgeProvider
from rawthink_nowledge.settings import NowledgeSettings
from tests.conformance.keeping import AWAY, FEWER, FOUND, WRITTEN, kept

GUESSES_TURNED = {
    "upsert_omitted": "kept",
    "upsert_metadata": "merged",
    "upsert_lifecycle": "reset",
    "superseded_in_list": "shown",
    "lifecycle_receipt": "empty",
    "constraint_form": "text",
    "metadata_filter": "text",
    "search_has_more": "never",
    "deleted_in_index": "null",
    "forgotten_status": 410,
    "omitted_space_by_id": "default",
    "unknown_space_status": 422,
}


@pytest.fixture(scope="class")
def server(request):
    command = [sys.executable, "-m", "rawthink_nowledge_emulator", "--until-stdin-closes"]
    command += ["--generation", request.cls.generation]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()


class _OnEmulator:
    """Every world has a store of its own on one server, a process; `default` has a Space to itself."""

    generation: ClassVar[str] = "0.10"
    assume: ClassVar[dict[str, object]] = {}
    more: ClassVar[dict[str, object]] = {}

    @pytest.fixture(autouse=True)
    def _fresh(self, server, monkeypatch, tmp_path):
        monkeypatch.setenv("NMEM_CLI_CONFIG_DIR", str(tmp_path))
        monkeypatch.setattr(machine, "FAST", FEWER)
        for name in ("NMEM_API_URL", "NMEM_API_KEY", "NMEM_SPACE", "NMEM_SPACE_ID"):
            monkeypatch.delenv(name, raising=False)
        with httpx2.Client(base_url=f"{server}/__emulator__", trust_env=False) as switches:
            switches.post("/reset").raise_for_status()
            switches.post("/assume", json=self.assume).raise_for_status()
            switches.post("/add_space", json={"space_id": "others"}).raise_for_status()
        self.urls = {}
        self.url = server
        gc.freeze()  # a thousand requests take seconds: the loop is not to wait for pytest's own garbage
        yield
        gc.unfreeze()

    def make_provider(self, world):
        given = {
            "url": self.urls.get(world.path, self.url),
            "other_spaces": "others",
            "store": "-".join(world.path.parts[-3:-1]),
            **self.more,
        }
        return NowledgeProvider(NowledgeSettings.model_validate(given), world)

    def make_unusable(self, world):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.urls[world.path] = f"http://127.0.0.1:{free.getsockname()[1]}"


class TestNowledgeByWordsOnly(_OnEmulator, ProviderConformance):
    """Without the server's search, the order of hits is core's."""

    more: ClassVar = {"server_search": False}


class TestNowledgeOldest(_OnEmulator):
    """0.6: it takes no ids, and shows less of a memory."""

    generation = "0.6"

    @kept()
    def test_keeps(self, requirement):
        tell_pytest(run_check(requirement, self, {}))


class TestNowledge(_OnEmulator):
    """As it comes, the server's search included."""

    @kept()
    def test_keeps(self, requirement):
        tell_pytest(run_check(requirement, self, {}))


class TestNowledgePython(_OnEmulator):
    """0.9: it refuses, pages and hides failures as 0.6 does, and takes ids as 0.10."""

    generation = "0.9"

    @kept(*WRITTEN, *AWAY)
    def test_keeps(self, requirement):
        tell_pytest(run_check(requirement, self, {}))


class TestNowledgeOtherwise(_OnEmulator):
    """What nobody has seen a server do may be otherwise than the emulator assumes."""

    assume: ClassVar = GUESSES_TURNED

    @kept(*WRITTEN, *FOUND)
    def test_keeps(self, requirement):
        tell_pytest(run_check(requirement, self, {}))
