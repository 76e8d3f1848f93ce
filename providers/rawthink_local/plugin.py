"""How the local provider is found and made; listing providers loads no more than this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.plugins import Needs, ProviderPlugin
from rawthink_local.settings import LocalSettings

if TYPE_CHECKING:
    from rawthink_core.provider import World
    from rawthink_local.provider import LocalProvider

__all__ = ["LocalSettings", "make", "needs", "plugin"]


def make(settings: LocalSettings, world: World) -> LocalProvider:
    """Return a provider over the store that the settings name, not opened yet."""
    from rawthink_local.provider import LocalProvider  # noqa: PLC0415 - listing must not load it

    return LocalProvider(settings, world)


def needs(settings: LocalSettings) -> Needs:
    """Return what holds the search index: the engine in this process, or the client of a server."""
    if settings.url is None:
        return Needs(("qdrant_edge",), "rawthink[local]")
    return Needs(("qdrant_client",), "rawthink[qdrant]")


plugin = ProviderPlugin(
    name="local",
    title="A folder on this machine: one readable journal, search without any server",
    make=make,
    settings=LocalSettings,
    install="rawthink[local]",
    needs=needs,
)
