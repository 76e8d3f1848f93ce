"""From settings to a `Memory`: finds the provider, builds its world, wires the guard. Opens nothing."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from rawthink_core.config import Configuration, absolute, load
from rawthink_core.embedding import Embedder, NoEmbedder
from rawthink_core.errors import ConfigError, PluginError
from rawthink_core.guard import Guard
from rawthink_core.memory import Memory
from rawthink_core.model import Provenance
from rawthink_core.operations import faults_of
from rawthink_core.plugins import EMBEDDERS, hook_manager, load_embedder, load_provider, names
from rawthink_core.provider import World
from rawthink_core.recall import Recaller
from rawthink_core.vocabulary import unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from rawthink_core.config import EmbedderSettings
    from rawthink_core.plugins import ProviderPlugin
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
    return memory_of(
        configuration, hooks=hooks, provenance=Provenance(host=host) if host else None, **settings
    )


def memory_of(
    configuration: Configuration,
    *,
    hooks: Sequence[object] = (),
    provenance: Provenance | None = None,
    **settings: Any,
) -> Memory:
    """Return the memory of a configuration that is read already; ``settings`` are over its provider's.

    Not opened yet. Raises ConfigError or PluginError.
    """
    place = settings.get("path")  # who names a folder here means that one, whatever the settings say
    return Memory(
        make_provider(configuration, settings),
        space=configuration.settings.space,
        guard=Guard(hook_manager(hooks), configuration.settings.redact),
        recaller=Recaller(configuration.settings.recall.deadline),
        provenance=provenance,
        vault=absolute(place) if isinstance(place, str | Path) else configuration.vault,
        state=state_folder(),
    )


def make_provider(configuration: Configuration, settings: dict[str, Any] | None = None) -> Provider:
    """Return the configured provider, not opened yet. Raises ConfigError or PluginError."""
    name = configuration.settings.provider
    plugin = load_provider(name)
    found = provider_settings(configuration, name, plugin, settings)
    plugin.check(found)
    return plugin.make(found, world_of(configuration))


def provider_settings(
    configuration: Configuration, name: str, plugin: ProviderPlugin, settings: dict[str, Any] | None = None
) -> BaseModel:
    """Return the settings of the provider installed as ``name``: ``settings`` over those of its section.

    Raises ConfigError.
    """
    given = {**configuration.settings.providers.get(name, {}), **(settings or {})}
    found: BaseModel = _settings(plugin.settings, given, f"[providers.{plugin.name}]")
    return found


def world_of(configuration: Configuration) -> World:
    """Return the world of the configured machine and user."""
    import platformdirs  # noqa: PLC0415 - not on the path of --help

    return World(
        path=configuration.vault,
        vocabulary=configuration.vocabulary(),
        timezone=configuration.settings.timezone,
        fusion=configuration.settings.ranking.fusion,
        embedder=make_embedder(configuration.settings.embedder),
        cache=absolute(
            os.environ.get("RAWTHINK_CACHE") or platformdirs.user_cache_path("rawthink", appauthor=False)
        ),
        state=state_folder(),
    )


def state_folder() -> Path:
    """Return the folder of what belongs to this user alone and can't be made again."""
    import platformdirs  # noqa: PLC0415 - not on the path of --help

    return absolute(
        os.environ.get("RAWTHINK_STATE") or platformdirs.user_state_path("rawthink", appauthor=False)
    )


def make_embedder(section: EmbedderSettings) -> Embedder:
    """Return the configured embedder, not opened yet. Raises ConfigError or PluginError."""
    name, given = section.name, dict(section.model_extra or {})
    if given and "name" not in section.model_fields_set:
        raise ConfigError(
            f"[embedder] sets {', '.join(sorted(given))} but no name: of which embedder are they?"
        )
    if name == "none":
        _known_somewhere(given)
        return NoEmbedder()
    if name == "auto":
        from rawthink_core.embedders.auto import AutoEmbedder  # noqa: PLC0415 - not on everybody's path
        from rawthink_core.embedders.ollama import OllamaSettings  # noqa: PLC0415 - see above

        return AutoEmbedder(_settings(OllamaSettings, given, "[embedder]", ("name",)))
    if name not in (known := names(EMBEDDERS)):
        allowed = tuple(sorted({"auto", "none", *known}))
        raise ConfigError(f"[embedder] name: {unknown('embedder', name, allowed)}")
    plugin = load_embedder(name)
    return plugin.make(_settings(plugin.settings, given, "[embedder]", ("name",)))


def _known_somewhere(given: dict[str, Any]) -> None:
    """Refuse keys that no embedder has; those of one that is switched off may stay in the file."""
    known: set[str] = set()
    for name in names(EMBEDDERS) if given else ():
        with suppress(PluginError):  # a broken one is in nobody's way but its own
            known |= load_embedder(name).settings.model_fields.keys()
    for key in sorted(given.keys() - known):
        raise ConfigError(f"[embedder] {key}: {unknown('setting', key, ('name', *sorted(known)))}")


def _settings(model: type[BaseModel], given: dict[str, Any], where: str, beside: tuple[str, ...] = ()) -> Any:
    """Return the settings of a plugin; ``beside`` are keys of the same section that are not its own."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        known = (*beside, *model.model_fields)
        lines = [
            f"{where} {fault.where}: "
            + (
                unknown("setting", fault.where, known)
                if "not an argument" in fault.problem
                else fault.problem
            )
            for fault in faults_of(error)
        ]
        raise ConfigError("; ".join(lines)) from None
