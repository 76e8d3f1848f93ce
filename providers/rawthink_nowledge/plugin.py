"""How the Nowledge provider is found and made; listing providers loads no more than this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.plugins import ProviderPlugin
from rawthink_nowledge.settings import NowledgeSettings

if TYPE_CHECKING:
    from rawthink_core.provider import World
    from rawthink_nowledge.provider import NowledgeProvider
    from rawthink_nowledge.trial import Trial

__all__ = ["NowledgeSettings", "make", "plugin", "tried"]


def make(settings: NowledgeSettings, world: World) -> NowledgeProvider:
    """Return a provider over the server that the settings name, not opened yet. Raises ConfigError."""
    from rawthink_nowledge.provider import NowledgeProvider  # noqa: PLC0415 - listing must not load it

    return NowledgeProvider(settings, world)


def tried(settings: NowledgeSettings) -> Trial:
    """Return what a conformance run on a real server is made with. Raises ConfigError."""
    from rawthink_nowledge.trial import Trial  # noqa: PLC0415 - listing must not load it

    return Trial(settings)


plugin = ProviderPlugin(
    name="nowledge",
    title="Nowledge Mem: memories on its server, readable by its other clients",
    make=make,
    settings=NowledgeSettings,
    tried=tried,
)
