"""From settings to a `Memory`: finds the provider, builds its world, wires the guard. Opens nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from rawthink_core.config import Configuration, absolute, load
from rawthink_core.embedding import Embedder, NoEmbedder
from rawthink_core.errors import ConfigError
from rawthink_core.guard import Guard
from rawthink_core.memory import Memory
from rawthink_core.model import Provenance
from rawthink_core.operations import faults_of
from rawthink_core.plugins import ProviderPlugin, hook_manager, load_provider
from rawthink_core.provider import World
from rawthink_core.recall import Recaller
from rawthink_core.vocabulary import unknown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rawthink_core.provider import Provider


def build(
    provider: str | None = None,
    *,
    space: str | None = None,
    config: Path | None = None,
    hooks: Sequence[object] = (),
    host: str | None = None,
    **settings: Any,
) -> Memory:
    """Return the memory that the settings describe, not opened yet. Raises ConfigError or PluginError."""
    configuration = load(config, provider=provider, space=space)
    return Memory(
        make_provider(configuration, settings),
        space=configuration.settings.space,
        guard=Guard(hook_manager(hooks), configuration.settings.redact),
        recaller=Recaller(configuration.settings.recall.deadline),
        provenance=Provenance(host=host) if host else None,
    )


def make_provider(configuration: Configuration, settings: dict[str, Any] | None = None) -> Provider:
    """Return the configured provider, not opened yet. Raises ConfigError or PluginError."""
    chosen = configuration.settings
    plugin = load_provider(chosen.provider)
    given = {**chosen.providers.get(chosen.provider, {}), **(settings or {})}
    return plugin.make(_settings(plugin, given), world_of(configuration))


def world_of(configuration: Configuration) -> World:
    """Return the world of the configured machine and user."""
    import platformdirs  # noqa: PLC0415 - not on the path of --help

    return World(
        path=configuration.vault,
        vocabulary=configuration.vocabulary(),
        timezone=configuration.settings.timezone,
        embedder=_embedder(configuration.settings.embedder.name),
        cache=absolute(
            os.environ.get("RAWTHINK_CACHE") or platformdirs.user_cache_path("rawthink", appauthor=False)
        ),
        state=absolute(
            os.environ.get("RAWTHINK_STATE") or platformdirs.user_state_path("rawthink", appauthor=False)
        ),
    )


def _embedder(name: str) -> Embedder:
    if name == "none":
        return NoEmbedder()
    raise ConfigError(f"[embedder] name: {unknown('embedder', name, ('none',))}")


def _settings(plugin: ProviderPlugin, given: dict[str, Any]) -> Any:
    try:
        return plugin.settings.model_validate(given)
    except ValidationError as error:
        known = tuple(plugin.settings.model_fields)
        lines = [
            f"[providers.{plugin.name}] {fault.where}: "
            + (
                unknown("setting", fault.where, known)
                if "not an argument" in fault.problem
                else fault.problem
            )
            for fault in faults_of(error)
        ]
        raise ConfigError("; ".join(lines)) from None
