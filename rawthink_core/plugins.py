"""Finding providers and embedders by name, and the three hooks.

Providers and embedders are registered by entry point only, in the groups ``rawthink.providers`` and
``rawthink.embedders``; listing them imports none of them. Hooks are pluggy plugins in the group
``rawthink.hooks``::

    from rawthink_core.plugins import hookimpl

    @hookimpl
    def before_record(batch):
        ...

``RAWTHINK_PLUGINS`` names the hook plugins to load, separated by commas; ``none`` loads none.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rawthink_core.embedding import EmbedderPlugin, NoSettings
from rawthink_core.errors import PluginError
from rawthink_core.provider import CONTRACT_VERSION, Provider, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pluggy
    from pydantic import BaseModel

PROVIDERS = "rawthink.providers"
EMBEDDERS = "rawthink.embedders"
HOOKS = "rawthink.hooks"

__all__ = [
    "EMBEDDERS",
    "HOOKS",
    "HOOK_NAMES",
    "PROVIDERS",
    "EmbedderPlugin",
    "HookSpecs",
    "Needs",
    "NoSettings",
    "ProviderPlugin",
    "hook_manager",
    "hookimpl",
    "load_embedder",
    "load_provider",
    "names",
]

# What to install for the providers of this distribution when their libraries are missing.
_EXTRAS = {"local": "rawthink[local]", "lancedb": "rawthink[lancedb]", "nowledge": "rawthink[nowledge]"}


class Needs(NamedTuple):
    """Modules that must be there, and what pip installs them by."""

    modules: tuple[str, ...]
    install: str = ""

    def missing(self) -> str | None:
        """Say which modules are not there and how to install them, None where nothing is missing."""
        gone = [name for name in self.modules if importlib.util.find_spec(name) is None]
        if not gone:
            return None
        hint = f"; install it with: pip install '{self.install}'" if self.install else ""
        return f"{', '.join(gone)} is not installed{hint}"


@dataclass(frozen=True, slots=True)
class ProviderPlugin:
    """What an entry point of ``rawthink.providers`` holds: how to make a provider from its settings.

    ``settings`` is a pydantic model whose fields carry title, description and default; secrets are
    ``SecretStr``. ``make`` gets an instance of it and the `World`. ``requires`` names the modules that must
    be there, and ``install`` what pip installs them by: loading the plugin imports none of them. What only
    some settings need, ``needs`` tells of an instance. A store lies where its world says; a provider whose
    stores lie elsewhere brings ``tried``, which turns settings into the subject of a conformance run: each
    world has a store of its own there, and ``close`` clears them away and returns what was seen of the
    backend, by name, for the report.
    """

    name: str
    title: str
    make: Callable[[Any, World], Provider]
    settings: type[BaseModel] = NoSettings
    contract: int = CONTRACT_VERSION
    requires: tuple[str, ...] = ()
    install: str = ""
    needs: Callable[[Any], Needs] | None = None
    tried: Callable[[Any], Any] | None = None

    def check(self, settings: BaseModel | None = None) -> None:
        """Raise PluginError where a module is missing: of ``requires``, and of what these settings need."""
        wanted = [Needs(self.requires, self.install)]
        if settings is not None and self.needs is not None:
            wanted.append(self.needs(settings))
        for needs in wanted:
            if (missing := needs.missing()) is not None:
                raise PluginError(f"provider {self.name!r} can't be used: {missing}")


def names(group: str = PROVIDERS) -> list[str]:
    """Return the names registered in a group, sorted, without importing any of them."""
    return sorted({point.name for point in importlib.metadata.entry_points(group=group)})


def load_provider(name: str) -> ProviderPlugin:
    """Return the provider plugin called ``name``.

    Raises PluginError when none is installed (naming what to install), when it can't be imported, when it
    speaks another version of the contract, or when a library that it needs in any case is missing (what its
    settings need, `ProviderPlugin.check` knows).
    """
    plugin = _load(PROVIDERS, name, "provider")
    if not isinstance(plugin, ProviderPlugin):
        raise PluginError(
            f"provider {name!r} is no ProviderPlugin but a {type(plugin).__name__}; ask its author"
        )
    if plugin.contract != CONTRACT_VERSION:
        older = "the plugin" if plugin.contract < CONTRACT_VERSION else "rawthink"
        raise PluginError(
            f"provider {name!r} speaks contract version {plugin.contract}, this rawthink speaks "
            f"{CONTRACT_VERSION}; upgrade {older}"
        )
    plugin.check()
    return plugin


def load_embedder(name: str) -> EmbedderPlugin:
    """Return the embedder plugin called ``name``. Raises PluginError when there is none that works."""
    plugin = _load(EMBEDDERS, name, "embedder")
    if not isinstance(plugin, EmbedderPlugin):
        raise PluginError(
            f"embedder {name!r} is no EmbedderPlugin but a {type(plugin).__name__}; ask its author"
        )
    return plugin


def _load(group: str, name: str, what: str) -> object:
    points = importlib.metadata.entry_points(group=group, name=name)
    if not points:
        known = ", ".join(names(group)) or "none"
        hint = f" Install it with: pip install '{_EXTRAS[name]}'" if name in _EXTRAS else ""
        raise PluginError(f"no {what} called {name!r} is installed.{hint} Installed: {known}")
    point = next(iter(points))
    try:
        return point.load()
    except Exception as error:  # a plugin's import may fail in any way
        hint = f"; install it with: pip install '{_EXTRAS[name]}'" if name in _EXTRAS else ""
        raise PluginError(f"{what} {name!r} can't be imported: {error}{hint}") from error


# --- hooks --------------------------------------------------------------------------------------


class HookSpecs:
    """The hooks. All are plain functions; they run in a thread and have one second."""

    def before_record(self, batch: Any) -> Any:
        """Look at a `Batch` before it is written; return another one to write instead, or None.

        Raise any exception to refuse it. An error or a time-out refuses it too (the hook fails closed).
        """

    def before_capture(self, passages: Any) -> Any:
        """Look at the passages (a tuple of `NewPassage`) of a chat turn before they are stored.

        Return others to store instead, or None. Fails closed like ``before_record``.
        """

    def after_commit(self, receipt: Any) -> None:
        """Learn of a `RecordReceipt` after it was committed. Errors are logged and change nothing."""


HOOK_NAMES = ("before_record", "before_capture", "after_commit")


def hookimpl(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as an implementation of the hook of the same name."""
    import pluggy  # noqa: PLC0415 - only who has hooks pays for it

    marked: Callable[..., Any] = pluggy.HookimplMarker("rawthink")(function)
    return marked


def hook_manager(extra: Iterable[object] = ()) -> pluggy.PluginManager | None:
    """Return the loaded hook plugins, or None when there are none (most users; nothing is imported then).

    ``extra`` are plugin objects given by the application. Raises PluginError when a plugin that was asked for
    by name is not installed or can't be loaded.
    """
    wanted = os.environ.get("RAWTHINK_PLUGINS", "").strip()
    points = list(importlib.metadata.entry_points(group=HOOKS)) if wanted != "none" else []
    if wanted and wanted != "none":
        chosen = {name.strip() for name in wanted.split(",") if name.strip()}
        if missing := chosen - {point.name for point in points}:
            raise PluginError(
                f"RAWTHINK_PLUGINS names plugins that are not installed: {', '.join(sorted(missing))}"
            )
        points = [point for point in points if point.name in chosen]
    own = list(extra)
    if not points and not own:
        return None
    import pluggy  # noqa: PLC0415 - only who has hooks pays for it

    manager = pluggy.PluginManager("rawthink")
    specification = pluggy.HookspecMarker("rawthink")
    for name in HOOK_NAMES:
        specification(getattr(HookSpecs, name))
    manager.add_hookspecs(HookSpecs)
    for point in points:
        try:
            _register(manager, point.load(), point.name)
        except Exception as error:  # a plugin's import may fail in any way
            raise PluginError(
                f"plugin {point.name!r} can't be loaded: {error}. RAWTHINK_PLUGINS=none skips all"
            ) from error
    for plugin in own:
        try:
            _register(manager, plugin, None)
        except (TypeError, ValueError, pluggy.PluginValidationError) as error:
            raise PluginError(f"a hook plugin of this application can't be used: {error}") from error
    return manager


def _register(manager: pluggy.PluginManager, plugin: object, name: str | None) -> None:
    name = manager.register(plugin, name=name)
    manager.check_pending()  # a hook whose name is misspelt would never run, and so fail open
    for hook in HOOK_NAMES:
        for found in getattr(manager.hook, hook).get_hookimpls():
            special = inspect.iscoroutinefunction(found.function) or found.hookwrapper or found.wrapper
            if found.plugin_name == name and special:
                raise TypeError(f"{hook} must be a plain function")
