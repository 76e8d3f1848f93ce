"""`rawthink providers`: which backends are installed, what they can do, and what can be set for one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from rawthink_cli import exits, paper
from rawthink_cli.app import App, Verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

    from rawthink_core.plugins import ProviderPlugin

_EXAMPLES = """
rawthink providers
rawthink providers local
rawthink providers lancedb --schema
"""


@click.command("providers", cls=Verb, examples=_EXAMPLES)
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--schema", is_flag=True, help="Print the settings of one as JSON Schema, for a program.")
@click.pass_obj
def command(app: App, /, *, name: str | None, schema: bool) -> int:
    """List the installed backends, what each can do, and why one can't be used; or the settings of one.

    Nothing is opened, and nothing is reached over a network.
    """
    if name is None:
        if schema:
            raise click.UsageError("--schema needs the NAME of a backend")
        rows = list(_installed(app))
        app.answer({"providers": rows}, lambda: _table(rows, app.columns))
        return exits.OK
    from rawthink_core.plugins import load_provider  # noqa: PLC0415 - with the rest of the core

    plugin = load_provider(name)
    if schema:
        app.print_json(plugin.settings.model_json_schema())
        return exits.OK
    settings = [_setting(plugin.name, field, info) for field, info in plugin.settings.model_fields.items()]
    capabilities, unknown = _capabilities(app, plugin)
    document = {
        "name": plugin.name, "title": plugin.title, "contract": plugin.contract, "settings": settings,
        "capabilities": capabilities, "capabilities_unknown": unknown,
    }  # fmt: skip
    able = f"can: {_able(capabilities)}" if capabilities is not None else str(unknown)
    app.answer(document, lambda: _described(plugin, settings, able, app.columns))
    return exits.OK


def _installed(app: App) -> Iterator[dict[str, Any]]:
    import importlib.metadata  # noqa: PLC0415 - not on the path of --help

    from rawthink_core.errors import ConfigError, PluginError  # noqa: PLC0415 - with the rest of the core
    from rawthink_core.opening import provider_settings  # noqa: PLC0415
    from rawthink_core.plugins import PROVIDERS, load_provider  # noqa: PLC0415

    chosen = app.configuration().settings.provider
    points = importlib.metadata.entry_points(group=PROVIDERS)
    for name, point in sorted({point.name: point for point in points}.items()):
        distribution = point.dist
        row: dict[str, Any] = {
            "name": name,
            "chosen": name == chosen,
            "distribution": f"{distribution.name} {distribution.version}" if distribution else "unknown",
            "object": point.value,
            "title": None, "available": False, "why": None, "capabilities": None,
        }  # fmt: skip
        try:
            plugin = load_provider(name)
            with suppress(ConfigError):  # which `_capabilities` tells
                plugin.check(provider_settings(app.configuration(), name, plugin))
        except PluginError as error:
            yield row | {"why": str(error)}
            continue
        capabilities, unknown = _capabilities(app, plugin)
        yield row | {
            "title": plugin.title, "available": True, "why": unknown, "capabilities": capabilities,
        }  # fmt: skip


def _capabilities(app: App, plugin: ProviderPlugin) -> tuple[dict[str, str] | None, str | None]:
    """Return what a backend can do at best, or why that isn't known: nothing is opened to learn it."""
    from rawthink_core.errors import RawThinkError  # noqa: PLC0415 - with the rest of the core

    try:
        info = app.memory_of(plugin.name, {}).info
    except RawThinkError as error:
        return None, str(error)
    return {str(name): grade for name, grade in info.capabilities.items()}, None


def _table(rows: list[dict[str, Any]], columns: int) -> Iterator[str]:
    if not rows:
        yield "No backend is installed. Install one with: pip install 'rawthink[local]'"
        return
    for row in rows:
        mark = "*" if row["chosen"] else " "
        yield from paper.wrap(
            f"{row['name']}: {row['title'] or 'can not be used'}  ({row['distribution']})",
            columns,
            f"{mark} ",
            "    ",
        )
        if row["why"]:
            yield from paper.wrap(row["why"], columns, "    ! ", "      ")
        if row["capabilities"] is not None:
            yield from paper.wrap(_able(row["capabilities"]), columns, "    ", "    ")
    yield "* is the one in use. Settings of one: rawthink providers NAME"


def _able(capabilities: dict[str, str]) -> str:
    """Return capabilities in words, grades where there are any."""
    return ", ".join(
        name if grade == "yes" else f"{name}: {grade}" for name, grade in sorted(capabilities.items())
    )


def _setting(plugin: str, name: str, info: FieldInfo) -> dict[str, Any]:
    secret = "Secret" in str(info.annotation)
    default = None if info.is_required() or secret else info.get_default(call_default_factory=True)
    return {
        "name": name,
        "title": info.title or name,
        "description": info.description or "",
        "required": info.is_required(),
        "secret": secret,
        "default": default
        if default is None or isinstance(default, bool | int | float | str)
        else str(default),
        "variable": f"RAWTHINK_PROVIDERS__{plugin.upper()}__{name.upper()}",
    }


def _described(
    plugin: ProviderPlugin, settings: list[dict[str, Any]], able: str, columns: int
) -> Iterator[str]:
    yield f"{plugin.name}: {plugin.title}"
    yield from paper.wrap(able, columns, "", "  ")
    if not settings:
        yield "It has no settings."
        return
    yield f"Settings, under [providers.{plugin.name}] in rawthink.toml or as variables:"
    for setting in settings:
        default = "required" if setting["required"] else f"default {_shown(setting)}"
        yield from paper.wrap(f"{setting['name']}  ({default})", columns, "  ", "    ")
        yield from paper.wrap(f"{setting['title']}: {setting['description']}", columns, "    ")
        yield f"    {setting['variable']}"


def _shown(setting: dict[str, Any]) -> str:
    if setting["secret"]:
        return "none; a secret"
    value = setting["default"]
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
