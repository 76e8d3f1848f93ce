"""How the local provider is found and made; listing providers loads no more than this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.plugins import ProviderPlugin
from rawthink_local.settings import LocalSettings

if TYPE_CHECKING:
    from rawthink_core.provider import World
    from rawthink_local.provider import LocalProvider

__all__ = ["LocalSettings", "make", "plugin"]


def make(settings: LocalSettings, world: World) -> LocalProvider:
    """Return a provider over the store that the settings name, not opened yet."""
    from rawthink_local.provider import LocalProvider  # noqa: PLC0415 - listing must not load it

    return LocalProvider(settings, world)


plugin = ProviderPlugin(
    name="local",
    title="A folder on this machine: one readable journal, search without any server",
    make=make,
    settings=LocalSettings,
    requires=("qdrant_edge",),
    install="rawthink[local]",
)
