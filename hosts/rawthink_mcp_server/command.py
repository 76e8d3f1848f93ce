"""`rawthink mcp`: serves the memory to one client over stdin and stdout."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from typing import TYPE_CHECKING

import click

from rawthink_core.vocabulary import unknown

if TYPE_CHECKING:
    from rawthink_core.config import Configuration

_VARIABLE = "RAWTHINK_TOOL_PROFILE"
_SDK = "mcp"


@click.command("mcp")
@click.option("--profile", metavar="NAME", help="Tools to offer: agent (default), recall, record or full.")
@click.option("--structured", is_flag=True, help="Send each answer as JSON too, for programs.")
@click.option("--space", metavar="NAME", help="The memory to work in.")
@click.option("--vault", metavar="DIR", help="Folder of your memory and notes.")
@click.option("--provider", metavar="NAME", help="The backend to use.")
@click.option("--config", metavar="FILE", help="Settings to read.")
def mcp(
    profile: str | None,
    *,
    structured: bool,
    space: str | None,
    vault: str | None,
    provider: str | None,
    config: str | None,
) -> None:
    """Serve this memory to an MCP client, over stdin and stdout.

    Clients start this themselves: docs/mcp.md shows what to write into their settings. RAWTHINK_TOOL_PROFILE
    says which tools are offered, RAWTHINK_SPACE which memory is served; no tool can reach another one.
    """
    from rawthink_mcp_server.tools import PROFILES  # noqa: PLC0415 - not on the path of --help

    chosen = (profile or os.environ.get(_VARIABLE, "")).strip().lower() or "agent"
    if chosen not in PROFILES:
        where = "--profile" if profile else _VARIABLE
        raise click.UsageError(f"{where}: {unknown('profile', chosen, tuple(PROFILES))}")
    _set_up_logging()
    if importlib.util.find_spec(_SDK) is None:
        raise click.ClickException("the MCP server needs the MCP SDK: pip install 'rawthink[mcp]'")
    if sys.stdin is not None and sys.stdin.isatty():
        click.echo("rawthink mcp waits for an MCP client on stdin; Ctrl-D ends it.", err=True)

    from rawthink_mcp_server.descriptors import claim  # noqa: PLC0415 - now stdout is taken
    from rawthink_mcp_server.running import leave, serve  # noqa: PLC0415

    def load() -> Configuration:
        from pathlib import Path  # noqa: PLC0415 - in the thread that loads the rest

        from rawthink_core.config import load as read  # noqa: PLC0415

        file = Path(config) if config else None
        return read(file, space=space, vault=vault, provider=provider)

    told = structured or os.environ.get("RAWTHINK_TOOL_STRUCTURED", "").strip() in ("1", "true", "yes")
    serve(claim(), load, profile=chosen, structured=told, version=_version())
    leave()


def _set_up_logging() -> None:
    """Log to stderr at the level that ``RAWTHINK_LOG_LEVEL`` names; a wrong one is no reason to die."""
    level = os.environ.get("RAWTHINK_LOG_LEVEL", "").strip().upper() or "WARNING"
    known = level in logging.getLevelNamesMapping()
    logging.basicConfig(
        level=level if known else "WARNING", stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    if not known:
        logging.getLogger("rawthink.mcp").warning(
            "RAWTHINK_LOG_LEVEL is %r: use DEBUG, INFO, WARNING or ERROR", level
        )


def _version() -> str:
    import importlib.metadata  # noqa: PLC0415 - loaded already where the command was found by entry point

    try:
        return importlib.metadata.version("rawthink")
    except importlib.metadata.PackageNotFoundError:
        return "0"
