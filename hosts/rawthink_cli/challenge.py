"""`rawthink challenge`: what speaks against a plan, from your own memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rawthink_cli import exits, paper, telling, waiting
from rawthink_cli.app import App, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rawthink_core.decisions import Challenge
    from rawthink_core.memory import Memory
    from rawthink_core.model import Hit

_EXAMPLES = """
rawthink challenge "put a Redis in front of the search page"
"""


@click.command("challenge", cls=Verb, examples=_EXAMPLES)
@click.argument("topic", nargs=-1, required=True)
@click.option(
    "--limit",
    default=5,
    show_default=True,
    metavar="N",
    type=int,
    help="At most this many of each sort, up to 100.",
)
@click.option("--ids", is_flag=True, help="Print the id of each item.")
@waiting.option()
@click.pass_obj
def command(app: App, /, *, topic: tuple[str, ...], limit: int, ids: bool, wait: float) -> int:
    """Argue back: what you rejected, gave up, doubted or left open about TOPIC."""
    app.places = {"text": "TOPIC", "limit": "--limit"}

    async def work(memory: Memory) -> tuple[Challenge, telling.Teller, str]:
        found = await waiting.until_indexed(lambda: memory.challenge(" ".join(topic), limit=limit), wait)
        where = await telling.emptiness(memory) if found.empty else ""
        return found, telling.teller_for(memory, app.columns, ids=ids), where

    found, tell, where = app.run(work)
    app.answer(found, lambda: lines(found, tell, where))
    return exits.PARTIAL if found.degraded else exits.OK


def lines(found: Challenge, tell: telling.Teller, where: str = "") -> Iterator[str]:
    """Yield what speaks against a topic, a section for each sort."""
    yield from telling.degraded(found.degraded, empty=found.empty)
    if found.empty and not found.degraded:
        yield from paper.wrap(f"Nothing in this memory speaks against it.{where}", tell.columns)
    yield from telling.section("You rejected", _hits(found.rejected, tell))
    yield from telling.section("You believed, and gave up", _hits(found.revised, tell))
    contradictions = (line for item in found.contradictions for line in telling.relation(tell, item))
    yield from telling.section("It contradicts", contradictions)
    uncertain = (f"{paper.one_line(item.name)} (only a {item.epistemic})" for item in found.uncertain)
    yield from telling.section("It stands on", (line for text in uncertain for line in tell.text(text)))
    yield from telling.section("You left open", _hits(found.open_questions, tell))


def _hits(found: Iterable[Hit], tell: telling.Teller) -> Iterator[str]:
    for number, hit in enumerate(found, 1):
        yield from telling.hit(tell, hit, f"{number}. ")
