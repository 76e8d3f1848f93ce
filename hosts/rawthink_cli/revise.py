"""`rawthink revise`: retire a belief, keep it, say why, and what takes its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rawthink_cli import paper, telling
from rawthink_cli.app import App, Verb
from rawthink_cli.given import entity_with_id, split_fields, split_relation
from rawthink_core.vocabulary import OBSERVATION_KINDS

if TYPE_CHECKING:
    from rawthink_core.memory import Memory
    from rawthink_core.operations import RecordReceipt

_SHOWN = 8  # texts that are offered where none fits

_EXAMPLES = r"""
rawthink revise "image store" "we keep photos in Postgres" \
    --to "photos are in S3" --changed --effective 2026-03-01 \
    --reason "the dump took an hour"
rawthink revise --id 5b0c… --reason "measured again: not so"
rawthink revise "image store" --field domain=software
"""


@click.command("revise", cls=Verb, examples=_EXAMPLES)
@click.argument("entity", required=False)
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option(
    "--id", "ids_given", multiple=True, metavar="ID", help="What to retire, by id instead of ENTITY and TEXT."
)
@click.option("--relation", metavar="'TYPE: TARGET'", help="Retire this relation of ENTITY.")
@click.option(
    "--to",
    metavar="TEXT",
    help="What is so instead (for a relation: 'TYPE: TARGET'). Without it: a retraction.",
)
@click.option("--reason", metavar="TEXT", help="Why you changed your mind.")
@click.option("--changed", is_flag=True, help="It was so, and no longer is. By default it never was.")
@click.option("--effective", metavar="DATE", help="When it changed (with --changed; by default now).")
@click.option("--kind", type=click.Choice(OBSERVATION_KINDS), help="Only a TEXT of this kind.")
@click.option("--valid-from", metavar="DATE", help="Only a TEXT that held from this date.")
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a field of ENTITY: name, type, domain, epistemic, visibility, aliases, pinned.",
)
@click.option("--batch-id", metavar="ID", help="Makes a retry safe: the same id is written once.")
@click.option("--ids", is_flag=True, help="Print the id of each item.")
@click.pass_obj
def command(app: App, /, *, entity: str | None, ids: bool, **given: Any) -> None:
    """Change your mind. The old belief stays, dated and linked to what replaced it."""
    change = _change(entity, given)
    app.places = {
        "change.fields.*": "--field",
        **{f"revisions.0.fields.{name}": f"--field {name}" for name in change.get("fields") or ()},
        "revisions.0.targets.*": "TEXT" if given["texts"] else "--id",
        "revisions.0.successor": "--to",
        "revisions.0.successor.text": "--to",
        "revisions.0.successor.type": "--to",
        "revisions.0.successor.target": "--to",
        "revisions.0.effective": "--effective",
        "revisions.0.reason": "--reason",
        "change.effective": "--effective",
        "change.targets.*.valid_from": "--valid-from",
        "id": "--batch-id",
    }

    async def work(memory: Memory) -> tuple[RecordReceipt, telling.Teller]:
        from rawthink_core.errors import NotFound  # noqa: PLC0415 - with the rest of the core

        owner = await entity_with_id(memory, entity) if given["fields"] and entity is not None else None
        target = {} if owner is None else {"targets": [{"id": owner.id}]}
        try:
            receipt = await memory.revise(**change | target, batch_id=given["batch_id"])
        except NotFound as error:
            raise NotFound(f"{error}{await _said(memory, entity)}") from None
        return receipt, telling.teller_for(memory, app.columns, ids=ids)

    receipt, tell = app.run(work)
    app.answer(receipt, lambda: telling.receipt(tell, receipt))


def _change(entity: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Memory.revise`. Raises UsageError where the command line makes no sense."""
    fields = split_fields(given["fields"])
    _check(entity, given)
    change: dict[str, Any] = {"reason": given["reason"]}
    if fields:
        return change | {"targets": [{"entity": str(entity)}], "fields": fields}
    change |= {"targets": _targets(entity, given), "cause": "changed" if given["changed"] else "corrected"}
    if given["effective"]:
        change["effective"] = given["effective"]
    if given["to"] is not None:
        change["successor"] = (
            split_relation(given["to"]) if given["relation"] is not None else {"text": given["to"]}
        )
    return change


def _check(entity: str | None, given: dict[str, Any]) -> None:
    ways = [
        bool(given["texts"]),
        bool(given["ids_given"]),
        given["relation"] is not None,
        bool(given["fields"]),
    ]
    if sum(ways) != 1:
        raise click.UsageError(
            "say what to revise in one way: ENTITY TEXT, --id, ENTITY --relation, or ENTITY --field"
        )
    if entity is None and not given["ids_given"]:
        raise click.UsageError("missing ENTITY: whose belief changes?")
    if entity is not None and given["ids_given"]:
        raise click.UsageError("--id needs no ENTITY: give one or the other")
    if given["effective"] and not given["changed"]:
        raise click.UsageError("--effective goes with --changed: it says when something stopped being so")
    if given["fields"] and (given["to"] is not None or given["changed"]):
        raise click.UsageError("--field takes its new value itself; --to and --changed do not go with it")


def _targets(entity: str | None, given: dict[str, Any]) -> list[dict[str, Any]]:
    if given["ids_given"]:
        return [{"id": item} for item in given["ids_given"]]
    if given["relation"] is not None:
        return [{"source": entity, **split_relation(given["relation"])}]
    narrowed = {name: given[name] for name in ("kind", "valid_from") if given[name]}
    return [{"entity": entity, "text": text, **narrowed} for text in given["texts"]]


async def _said(memory: Memory, entity: str | None) -> str:
    """Return what an entity does say, with ids, so that the right one can be named."""
    if entity is None:
        return ""
    owner = await entity_with_id(memory, entity)
    page = await (memory.graph(entity, depth=0) if owner is None else memory.graph(ids=[owner.id], depth=0))
    if not page.observations:
        return ""
    lines = [f"\n  - {paper.cut(said.text, 74)}\n    --id {said.id}" for said in page.observations[:_SHOWN]]
    more = len(page.observations) - _SHOWN
    rest = f"\n  … and {more} more: rawthink show" if more > 0 else ""
    return f"\n{paper.one_line(entity)} says:{''.join(lines)}{rest}"
