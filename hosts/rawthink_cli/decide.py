"""`rawthink decide`: a decision, its reasons, and what was rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rawthink_cli import telling
from rawthink_cli.app import App, Verb
from rawthink_core.vocabulary import EPISTEMICS, VISIBILITIES

if TYPE_CHECKING:
    from rawthink_core.memory import Memory
    from rawthink_core.operations import RecordReceipt

_EXAMPLES = r"""
rawthink decide "api/cache: read-through" --domain software \
    --decided "cache reads in the process itself" \
    --because "one page asks for the same recipe twenty times" \
    --rejected "Redis — one more thing to run"
"""


@click.command("decide", cls=Verb, examples=_EXAMPLES)
@click.argument("name")
@click.option("--decided", required=True, metavar="TEXT", help="What was decided.")
@click.option(
    "--because", multiple=True, required=True, metavar="TEXT", help="A reason. May stand more than once."
)
@click.option(
    "--rejected",
    multiple=True,
    metavar="'OPTION — WHY'",
    help="What was rejected, and why. May stand more than once.",
)
@click.option(
    "--domain", metavar="DOMAIN", help="What it is about: software, music, … (new decisions need it)."
)
@click.option("--touches", multiple=True, metavar="TEXT", help="What it affects. May stand more than once.")
@click.option("--supersedes", metavar="NAME", help="Another decision, which this one replaces.")
@click.option("--epistemic", type=click.Choice(EPISTEMICS), help="How sure this is.")
@click.option("--visibility", type=click.Choice(VISIBILITIES), help="Who may see it.")
@click.option("--valid-from", metavar="DATE", help="Since when it has held.")
@click.option("--batch-id", metavar="ID", help="Makes a retry safe: the same id is written once.")
@click.option("--ids", is_flag=True, help="Print the id of each item.")
@click.pass_obj
def command(app: App, /, *, ids: bool, **given: Any) -> None:
    """Record a decision under a NAME. Deciding again under the same name ends what was decided before."""
    if given["valid_from"]:
        given["valid_from"] = _date(given["valid_from"])
    app.places = {
        "entities.0.name": "NAME",
        "entities.0.domain": "--domain",
        "entities.0.supersedes": "--supersedes",
        "entities.0.entity_type": "NAME",
        "entities.0.epistemic": "--epistemic",
        "entities.0.visibility": "--visibility",
        "observations.0.text": "--decided",
        **{f"observations.{n + 1}.text": f"--{option}" for n, option in enumerate(_order(given))},
        "id": "--batch-id",
    }

    async def work(memory: Memory) -> tuple[RecordReceipt, telling.Teller]:
        return await memory.record_decision(**given), telling.teller_for(memory, app.columns, ids=ids)

    receipt, tell = app.run(work)
    app.answer(receipt, lambda: telling.receipt(tell, receipt))


def _order(given: dict[str, Any]) -> list[str]:
    return [option for option in ("because", "rejected", "touches") for _ in given[option]]


def _date(text: str) -> Any:
    from rawthink_core.model import parse_time  # noqa: PLC0415 - only where a date was given

    try:
        return parse_time(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--valid-from") from None
