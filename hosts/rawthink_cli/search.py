"""`rawthink search`: what a question is about, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rawthink_cli import exits, paper, telling, waiting
from rawthink_cli.app import App, Verb
from rawthink_core.vocabulary import OBSERVATION_KINDS, STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_core.memory import Memory
    from rawthink_core.operations import SearchPage

_ITEMS = ("entity", "observation", "passage")
_PLACES = {
    "text": "WORDS",
    "statuses.*": "--status",
    "observation_kinds.*": "--kind",
    "entity_types.*": "--type",
    "domains.*": "--domain",
    "tags.*": "--tag",
    "sessions.*": "--session",
    "items.*": "--item",
}

_EXAMPLES = """
rawthink search why not redis
rawthink search 缓存 --kind rejected
rawthink search cache --as-of 2026-02-01 --status any
"""


@click.command("search", cls=Verb, examples=_EXAMPLES)
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--limit", default=10, show_default=True, metavar="N", type=int, help="At most this many, up to 100."
)
@click.option("--item", "items", multiple=True, type=click.Choice(_ITEMS), help="Only this sort of item.")
@click.option(
    "--kind",
    "observation_kinds",
    multiple=True,
    type=click.Choice(OBSERVATION_KINDS),
    help="Only statements of this kind.",
)
@click.option(
    "--type", "entity_types", multiple=True, metavar="TYPE", help="Only about entities of this type."
)
@click.option(
    "--domain", "domains", multiple=True, metavar="DOMAIN", help="Only about entities of this domain."
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only passages with this tag.")
@click.option("--session", "sessions", multiple=True, metavar="NAME", help="Only passages of this session.")
@click.option("--since", metavar="DATE", help="Only what is of this date or later.")
@click.option("--until", metavar="DATE", help="Only what is of this date or earlier.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([*STATUSES, "any"]),
    help="What stands (active, the default), ended, or proved wrong.",
)
@click.option("--as-of", metavar="DATE", help="As it was believed then.")
@click.option("--valid-at", metavar="DATE", help="What held then.")
@click.option("--group", is_flag=True, help="Group what is said by entity; --limit then counts entities.")
@click.option("--why", is_flag=True, help="Say how each answer came to its place.")
@click.option("--ids", is_flag=True, help="Print the id of each item.")
@waiting.option()
@click.pass_obj
def command(
    app: App, /, *, words: tuple[str, ...], group: bool, ids: bool, wait: float, **filters: Any
) -> int:
    """Find what the WORDS are about, in any language. What matches best comes first."""
    app.places = _PLACES
    asked = {name: value for name, value in filters.items() if value is not None and value != ()}
    if group:
        asked["group"] = "entity"
    if "any" in filters["statuses"]:
        asked["statuses"] = STATUSES

    async def work(memory: Memory) -> tuple[SearchPage, telling.Teller, str]:
        page = await waiting.until_indexed(lambda: memory.search(" ".join(words), **asked), wait)
        where = "" if page.items else await telling.emptiness(memory)
        return page, telling.teller_for(memory, app.columns, ids=ids), where

    page, tell, where = app.run(work)
    app.answer(page, lambda: _lines(page, tell, where, group=group))
    return _code(page)


def _code(page: SearchPage) -> int:
    if page.degraded:
        return exits.PARTIAL
    return exits.OK if page.items else exits.NOTHING


def _lines(page: SearchPage, tell: telling.Teller, where: str, *, group: bool) -> Iterator[str]:
    yield from telling.degraded(page.degraded, empty=not page.items)
    if not page.items:
        if not page.degraded:
            yield from paper.wrap(f"Nothing found.{where}", tell.columns)
        return
    number, last = 0, None
    for found in page.items:
        follows = group and found.entity == last and number > 0
        number, last = number + (not follows), found.entity
        lines = telling.hit(tell, found, "" if follows else f"{number}. ")
        yield from list(lines)[1:] if follows else lines
    if page.truncated:
        total = f" of {page.total:,}" if page.total is not None else ""
        yield f"The first {number}{total}; more with --limit."
