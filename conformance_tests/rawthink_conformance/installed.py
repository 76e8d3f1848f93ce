"""The reference provider as a plugin: what the entry point ``reference`` of ``rawthink.providers`` loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_core.plugins import NoSettings, ProviderPlugin

if TYPE_CHECKING:
    from rawthink_core.provider import Provider, World


def _make(settings: NoSettings, world: World) -> Provider:  # noqa: ARG001 - it has no settings
    from rawthink_conformance.reference import ReferenceProvider  # noqa: PLC0415 - listing imports nothing

    return ReferenceProvider(world)


plugin = ProviderPlugin(
    name="reference", title="In memory, for tests: forgotten when the process ends", make=_make
)
