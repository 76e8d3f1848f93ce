"""A backend whose store takes no turns while a file says so. Registered as `ailing` for the tests' processes."""

from __future__ import annotations

from pathlib import Path

from rawthink_core.errors import BackendUnavailable
from rawthink_core.plugins import ProviderPlugin
from rawthink_local.provider import LocalProvider
from rawthink_local.settings import LocalSettings


class Ailing(LocalProvider):
    @property
    def down(self):
        return Path(self.folder, "down").exists()

    async def on_after_chat(self, request):
        if self.down:
            raise BackendUnavailable("the store is down")
        return await super().on_after_chat(request)


plugin = ProviderPlugin(name="ailing", title="For tests", make=Ailing, settings=LocalSettings)
