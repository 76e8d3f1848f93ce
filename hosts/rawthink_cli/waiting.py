"""Waiting for an index that is being built: a command that runs once wants the whole answer."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SECONDS = 10.0  # by default
_PAUSE = 0.1
_BUILDING = re.compile(r"index (\d+) of (\d+)")


class _Page(Protocol):
    @property
    def degraded(self) -> str | None: ...


P = TypeVar("P", bound=_Page)

option = click.option(
    "--wait",
    type=float,
    default=SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for an index that is being built; 0 answers at once.",
)


async def until_indexed(ask: Callable[[], Awaitable[P]], seconds: float) -> P:
    """Return what ``ask`` answers, asked again while an index is being built, for ``seconds`` at most.

    Other reasons for a degraded answer do not go away by waiting, so nothing waits for them.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    shown = False
    page = await ask()
    while (found := _BUILDING.match(page.degraded or "")) and loop.time() < end:
        if sys.stderr.isatty():
            click.echo(f"\rbuilding the search index: {found[1]} of {found[2]} ", err=True, nl=False)
            shown = True
        await asyncio.sleep(_PAUSE)
        page = await ask()
    if shown:
        click.echo("\r\x1b[K", err=True, nl=False)
    return page
