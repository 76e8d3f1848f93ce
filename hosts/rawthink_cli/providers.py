"""`rawthink providers`: which backends are installed, and what can be set for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rawthink_cli import paper
from rawthink_cli.app import App, Verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

    from rawthink_core.plugins import ProviderPlugin


@click.command("providers", cls=Verb)
@click.option("--describe", metavar="NAME", help="Show the settings of one.")
@click.pass_obj
def command(app: App, /, *, describe: str | None) -> None:
    """List the installed backends, without loading any of them."""
    chosen = app.configuration().settings.provider
    if describe is None:
        rows = list(_installed(chosen))
        app.answer({"providers": rows}, lambda: _table(rows, app.columns))
        return
    from rawthink_core.plugins import load_provider  # noqa: PLC0415 - with the rest of the core

    plugin = load_provider(describe)
    settings = [_setting(plugin.name, name, info) for name, info in plugin.settings.model_fields.items()]
    document = {"name": plugin.name, "title": plugin.title, "contract": plugin.contract, "settings": settings}
    app.answer(document, lambda: _described(plugin, settings, app.columns))


def _installed(chosen: str) -> Iterator[dict[str, Any]]:
    import importlib.metadata  # noqa: PLC0415 - not on the path of --help

    from rawthink_core.plugins import PROVIDERS  # noqa: PLC0415 - with the rest of the core

    points = importlib.metadata.entry_points(group=PROVIDERS)
    for name, point in sorted({point.name: point for point in points}.items()):
        distribution = point.dist
        source = f"{distribution.name} {distribution.version}" if distribution else "unknown"
        yield {"name": name, "chosen": name == chosen, "distribution": source, "object": point.value}


def _table(rows: list[dict[str, Any]], columns: int) -> Iterator[str]:
    if not rows:
        yield "No backend is installed. Install one with: pip install 'rawthink[local]'"
        return
    yield from paper.table(
        [["*" if row["chosen"] else " ", row["name"], row["distribution"], row["object"]] for row in rows],
        columns,
    )
    yield "* is the one in use. Settings of one: rawthink providers --describe NAME"


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


def _described(plugin: ProviderPlugin, settings: list[dict[str, Any]], columns: int) -> Iterator[str]:
    yield f"{plugin.name}: {plugin.title}"
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
    value = setting["default"]
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
