"""`conform`: runs the suite on an installed provider, found by its entry point, without pytest."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from rawthink_conformance.bench import Bench
from rawthink_conformance.checking import Result, run_check
from rawthink_conformance.choosing import choose
from rawthink_conformance.report import Report, versions
from rawthink_conformance.suite import spoil
from rawthink_conformance.waiving import check_waivers
from rawthink_conformance.watching import VERB_SECONDS, Hung
from rawthink_core.errors import ConfigError
from rawthink_core.operations import faults_of
from rawthink_core.plugins import load_provider
from rawthink_core.provider import ProviderInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rawthink_conformance.bench import Subject
    from rawthink_core.plugins import ProviderPlugin
    from rawthink_core.provider import Provider, World

ENOUGH = 3  # checks that hang: the rest would take hours to say the same


class Installed:
    """A provider plugin as the subject of checks."""

    def __init__(self, plugin: ProviderPlugin, settings: Mapping[str, Any] | None = None) -> None:
        self.name = plugin.name
        self._plugin = plugin
        try:
            self._settings = plugin.settings.model_validate(dict(settings or {}))
        except ValidationError as error:
            faults = "; ".join(str(fault) for fault in faults_of(error))
            raise ConfigError(
                f"provider {plugin.name!r} needs other settings to be tested: {faults}"
            ) from None
        plugin.check(self._settings)
        self._other: Any = None if plugin.tried is None else plugin.tried(self._settings)

    def make_provider(self, world: World) -> Provider:
        """Return a provider on a world."""
        if self._other is not None:
            return cast("Provider", self._other.make_provider(world))
        return self._plugin.make(self._settings, world)

    def as_code(self) -> tuple[str, str]:
        """Return what to import for a script, and the expression that makes this; settings stay out of it."""
        imports = "from rawthink_conformance.runner import installed"
        return imports, f"installed({self.name!r})"

    def make_unusable(self, world: World) -> None:
        """Put a file where the store's folder should be, or do what the plugin does."""
        if self._other is not None:
            self._other.make_unusable(world)
        else:
            spoil(world)

    def close(self) -> dict[str, str]:
        """Clear away what is not in a world's folder; return what was seen of the backend, if anything."""
        return dict(self._other.close() or {}) if self._other is not None else {}


def installed(name: str, settings: Mapping[str, Any] | None = None) -> Installed:
    """Return the installed provider as a subject. Raises PluginError or ConfigError."""
    return Installed(load_provider(name), settings)


def conform(
    name: str,
    *,
    settings: Mapping[str, Any] | None = None,
    only: str = "",
    waivers: Mapping[str, str] | None = None,
    deep: bool = False,
    told: Callable[[Result], None] | None = None,
) -> Report:
    """Check the provider that is installed under ``name`` and return the report.

    ``only`` chooses ids as pytest's ``-k`` chooses tests; ``waivers`` map ids to reasons; ``deep`` lets the
    state machine run at length. ``told`` hears of each result as it comes. Raises PluginError when there is
    no such provider, ConfigError when it needs settings, InvalidRequest when ``only`` or a waiver is wrong.
    """
    subject = installed(name, settings)
    observed: dict[str, str] = {}
    try:
        report = conform_subject(subject, only=only, waivers=waivers, deep=deep, told=told)
    finally:
        observed = subject.close()
    return replace(report, observed=observed)


def conform_subject(
    subject: Subject,
    *,
    only: str = "",
    waivers: Mapping[str, str] | None = None,
    deep: bool = False,
    told: Callable[[Result], None] | None = None,
) -> Report:
    """Check any subject; arguments and errors as `conform`."""
    chosen = choose(only)
    given = dict(waivers or {})
    check_waivers(given)
    results: list[Result] = []
    for requirement in chosen:
        if sum(isinstance(result.error, Hung) for result in results) < ENOUGH:
            result = run_check(requirement, subject, given, deep=deep)
        else:
            result = Result(requirement, "failed", f"not tried: {ENOUGH} checks before it have hung")
        results.append(result)
        if told is not None:
            told(result)
    info = information(subject)
    capabilities = {str(capability): grade for capability, grade in info.capabilities.items()}
    return Report(info.name, capabilities, tuple(results), versions(info))


def information(subject: Subject) -> ProviderInfo:
    """Return what a provider says of itself, opened where it can be opened."""
    with suppress(Exception):  # the checks have said already that it does not open
        return asyncio.run(asyncio.wait_for(_opened(subject), VERB_SECONDS))
    bench = Bench(subject)
    try:
        return bench.make().info
    except Exception:  # noqa: BLE001 - nor can it be made
        return ProviderInfo(getattr(subject, "name", type(subject).__name__), "unknown", {})
    finally:
        bench.discard()


async def _opened(subject: Subject) -> ProviderInfo:
    async with Bench(subject) as bench:
        return bench.provider.info
