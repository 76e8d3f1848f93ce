"""`rawthink forget`: erase for good. To change your mind, `revise` instead."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from rawthink_cli import exits, paper, telling
from rawthink_cli.app import App, Verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_core.memory import Memory
    from rawthink_core.operations import ForgetReceipt

_EXAMPLES = """
rawthink forget "old plan"
rawthink forget --session standup-0412 --yes
"""


@click.command("forget", cls=Verb, examples=_EXAMPLES)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--id", "ids", multiple=True, metavar="ID", help="An item, by id.")
@click.option("--session", "sessions", multiple=True, metavar="NAME", help="All passages of a session.")
@click.option("--everything", is_flag=True, help="All of the space.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def command(app: App, /, *, yes: bool, **what: Any) -> int:
    """Erase each NAME and all that is said of it, from every place of ours, and say which.

    Afterwards nothing yields the text. What was merely wrong is better revised: then it is known why.
    """
    if not any(what.values()):
        raise click.UsageError("say what to forget: a NAME, --id, --session or --everything")
    if what["everything"] and (what["ids"] or what["names"] or what["sessions"]):
        raise click.UsageError("--everything stands alone")
    app.places = {"ids.*": "--id", "names.*": "NAME", "sessions.*": "--session"}
    if not yes:
        _ask(app, what)

    async def work(memory: Memory) -> ForgetReceipt:
        return await memory.forget(**what)

    receipt = app.run(work)
    app.answer(receipt, lambda: _lines(receipt, app.columns))
    if receipt.missing:
        return exits.NOTHING
    return exits.PARTIAL if any(place.outcome == "pending" for place in receipt.places) else exits.OK


def _ask(app: App, what: dict[str, Any]) -> None:
    """Ask before erasing. Raises UsageError where nobody can answer, Abort on no."""
    space = app.configuration().settings.space
    named = [paper.one_line(item) for key in ("ids", "names", "sessions") for item in what[key]]
    question = (
        f"Erase everything in the space {space!r}" if what["everything"] else f"Erase {', '.join(named)}"
    )
    if not _can_ask():
        raise click.UsageError(f"{question}? There is nobody to ask; add --yes to say so. Nothing was erased")
    if not click.confirm(f"{question} for good?", err=True):
        click.echo("Nothing was erased.", err=True)
        raise click.exceptions.Exit(exits.OK)


def _can_ask() -> bool:
    return sys.stdin.isatty()


def _lines(receipt: ForgetReceipt, columns: int) -> Iterator[str]:
    if receipt.missing:
        yield from paper.wrap(
            f"Not in this space: {', '.join(map(paper.one_line, receipt.missing))}", columns
        )
    yield f"{telling.count(receipt.count, 'item')} erased."
    if receipt.places:
        yield from paper.table([[p.outcome, p.place, p.note] for p in receipt.places], columns)
    if any(place.outcome == "kept" for place in receipt.places):
        yield "What is kept lies outside of this memory; erase it there yourself."
