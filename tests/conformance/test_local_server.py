"""The local provider keeps every promise with its index on a server, which the client's memory stands for."""

from __future__ import annotations

from typing import ClassVar

import pytest

from rawthink_conformance import ProviderConformance, machine
from rawthink_local.provider import LocalProvider
from rawthink_local.settings import LocalSettings
from tests.conformance.keeping import FEWER
from tests.local.servers import Shared


class TestLocalServer(ProviderConformance):
    waivers: ClassVar = {
        "writes.second_process": "what stands for the server is a memory of this process: no other reaches it"
    }

    @pytest.fixture(autouse=True)
    def _server(self, monkeypatch):
        shared = Shared()
        monkeypatch.setattr("rawthink_local.serverplace.connect", lambda settings: shared)
        monkeypatch.setattr(machine, "FAST", FEWER)

    def make_provider(self, world):
        settings = LocalSettings(path=str(world.path), url="http://127.0.0.1:6333")
        return LocalProvider(settings, world)
