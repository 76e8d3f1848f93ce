"""Waiting for an index that is being built: a command that runs once wants the whole answer."""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from rawthink_cli import paper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from rawthink_core.memory import Memory

SECONDS = 10.0  # that a search waits by default
AFTER_IMPORT = 600.0
_PAUSE = 0.1
_BUILDING = re.compile(r"index (\d+) of (\d+)")


T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")


@contextmanager
def bar(steps: Sequence[T], label: str) -> Iterator[Iterable[T]]:
    """Show a progress bar on stderr while a person waits for several steps."""
    hidden = not sys.stderr.isatty() or len(steps) <= 1
    with click.progressbar(steps, label=paper.cut(label, 40), file=sys.stderr, hidden=hidden) as shown:
        yield shown


class _Page(Protocol):
    @property
    def degraded(self) -> str | None: ...


P = TypeVar("P", bound=_Page)


def option(seconds: float = SECONDS) -> Callable[[F], F]:
    """Return the option ``--wait`` with ``seconds`` by default."""
    return click.option(
        "--wait",
        type=float,
        default=seconds,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for an index that is being built; 0 waits for nothing.",
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


async def until_found(memory: Memory, seconds: float) -> str | None:
    """Wait until what was written is found by searching; return what is missing where that takes longer."""
    from rawthink_core.provider import Capability  # noqa: PLC0415 - with the rest of the core

    if seconds <= 0 or not memory.info.can(Capability.LEXICAL):
        return None
    return (await until_indexed(lambda: memory.search("index", limit=1), seconds)).degraded
