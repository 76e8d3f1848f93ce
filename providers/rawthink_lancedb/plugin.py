"""How the LanceDB provider is found and made; listing providers loads no more than this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.plugins import ProviderPlugin
from rawthink_lancedb.settings import LanceSettings

if TYPE_CHECKING:
    from rawthink_core.provider import World
    from rawthink_lancedb.provider import LanceProvider

__all__ = ["LanceSettings", "make", "plugin"]


def make(settings: LanceSettings, world: World) -> LanceProvider:
    """Return a provider over the store that the settings name, not opened yet."""
    from rawthink_lancedb.provider import LanceProvider  # noqa: PLC0415 - listing must not load it

    return LanceProvider(settings, world)


plugin = ProviderPlugin(
    name="lancedb",
    title="LanceDB tables in a folder or an object store (s3://), for one machine or a team",
    make=make,
    settings=LanceSettings,
    requires=("lancedb", "pyarrow"),
    install="rawthink[lancedb]",
)
