"""The local provider keeps every promise of the contract."""

from __future__ import annotations

from rawthink_conformance import ProviderConformance
from rawthink_local.provider import LocalProvider
from rawthink_local.settings import LocalSettings


class TestLocal(ProviderConformance):
    def make_provider(self, world):
        return LocalProvider(LocalSettings(path=str(world.path)), world)
