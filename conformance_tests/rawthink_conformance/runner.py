"""`conform`: runs the suite on an installed provider, found by its entry point, without pytest."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from rawthink_conformance.bench import Bench
from rawthink_conformance.checking import Result, run_check
from rawthink_conformance.report import Report, versions
from rawthink_conformance.requirements import REQUIREMENTS
from rawthink_conformance.suite import spoil
from rawthink_core.errors import ConfigError, InvalidRequest
from rawthink_core.operations import faults_of
from rawthink_core.plugins import load_provider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rawthink_conformance.bench import Subject
    from rawthink_core.plugins import ProviderPlugin
    from rawthink_core.provider import Provider, ProviderInfo, World


class Installed:
    """A provider plugin as the subject of checks."""

    def __init__(self, plugin: ProviderPlugin, settings: Mapping[str, Any] | None = None) -> None:
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

    def make_unusable(self, world: World) -> None:
        """Put a file where the store's folder should be, or do what the plugin does."""
        if self._other is not None:
            self._other.make_unusable(world)
        else:
            spoil(world)

    def close(self) -> dict[str, str]:
        """Clear away what is not in a world's folder; return what was seen of the backend, if anything."""
        return dict(self._other.close() or {}) if self._other is not None else {}


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

    ``only`` is the beginning of the ids to check; ``waivers`` map ids to reasons; ``deep`` adds the state
    machine at length. ``told`` hears of each result as it comes. Raises PluginError when there is no such
    provider, ConfigError when it needs settings, and InvalidRequest when ``only`` or a waiver names nothing.
    """
    subject = Installed(load_provider(name), settings)
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
    chosen = [requirement for requirement in REQUIREMENTS.values() if requirement.id.startswith(only)]
    if not chosen:
        topics = ", ".join(sorted({requirement.split(".")[0] for requirement in REQUIREMENTS}))
        raise InvalidRequest(f"no requirement begins with {only!r}. Topics: {topics}")
    given = dict(waivers or {})
    for waived, reason in given.items():
        if waived not in REQUIREMENTS or not reason.strip():
            raise InvalidRequest(f"the waiver of {waived!r} needs a requirement's id and a reason")
    results: list[Result] = []
    for requirement in chosen:
        results.append(run_check(requirement, subject, given, deep=deep))
        if told is not None:
            told(results[-1])
    info = asyncio.run(_info(subject))
    capabilities = {str(capability): grade for capability, grade in info.capabilities.items()}
    return Report(info.name, capabilities, tuple(results), versions(info))


async def _info(subject: Subject) -> ProviderInfo:
    bench = Bench(subject)
    try:
        async with bench:
            return bench.provider.info
    except Exception:  # noqa: BLE001 - the checks have said already that it does not open
        return subject.make_provider(bench.world).info
