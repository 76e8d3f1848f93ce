"""`rawthink record`: what you know about something, or a passage of a session, or a whole batch as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rawthink_cli import telling
from rawthink_cli.app import App, Verb
from rawthink_cli.given import entity_with_id, read_json, read_text, split_relation
from rawthink_core.vocabulary import EPISTEMICS, OBSERVATION_KINDS, VISIBILITIES

if TYPE_CHECKING:
    from rawthink_core.memory import Memory
    from rawthink_core.operations import RecordReceipt

_PLACES = {
    "entities.0.name": "NAME",
    "entities.0.entity_type": "--type",
    "entities.0.domain": "--domain",
    "entities.0.epistemic": "--epistemic",
    "entities.0.visibility": "--visibility",
    "entities.0.aliases.*": "--alias",
    "observations.*.text": "TEXT",
    "observations.*.entity": "NAME",
    "observations.*.kind": "--kind",
    "observations.*.valid_from": "--valid-from",
    "observations.*.valid_to": "--valid-to",
    "relations.*": "--relation",
    "relations.*.type": "--relation",
    "relations.*.source": "NAME",
    "relations.*.target": "--relation",
    "passages.*.text": "TEXT",
    "passages.*.session": "--session",
    "passages.*.key": "--key",
    "passages.*.speaker": "--speaker",
    "passages.*.tags.*": "--tag",
    "passages.*.visibility": "--visibility",
    "passages.*.valid_from": "--valid-from",
    "id": "--batch-id",
}
_BATCH = ("entities", "observations", "relations", "passages", "revisions", "batch_id", "replaces_origin")

_EXAMPLES = r"""
rawthink record "cache stampede" --type finding --domain software \
    "all keys expire at 04:00" --relation "caused_by: api/cache"
rawthink record --session standup-0412 --speaker Ada "the import runs"
git log -1 | rawthink record --session commits -
rawthink record --from-json batch.json
"""


@click.command("record", cls=Verb, examples=_EXAMPLES)
@click.argument("words", nargs=-1, metavar="[NAME] [TEXT]...")
@click.option(
    "--type",
    "entity_type",
    metavar="TYPE",
    help="What NAME is: finding, rule, artifact, … (new ones need it).",
)
@click.option("--domain", metavar="DOMAIN", help="What NAME is about: software, music, … (new ones need it).")
@click.option("--kind", type=click.Choice(OBSERVATION_KINDS), help="What kind of statement each TEXT is.")
@click.option(
    "--relation", "relations", multiple=True, metavar="'TYPE: TARGET'", help="Relate NAME to another entity."
)
@click.option("--alias", "aliases", multiple=True, metavar="NAME", help="Another name that it answers to.")
@click.option("--epistemic", type=click.Choice(EPISTEMICS), help="How sure this is.")
@click.option("--visibility", type=click.Choice(VISIBILITIES), help="Who may see it.")
@click.option("--pin", is_flag=True, help="Keep it from fading in searches.")
@click.option(
    "--valid-from", metavar="DATE", help="Since when it has been so; for a passage, when it was said."
)
@click.option("--valid-to", metavar="DATE", help="Until when it was so.")
@click.option(
    "--session", metavar="NAME", help="Record each TEXT as a passage of this session, about no NAME."
)
@click.option("--speaker", metavar="NAME", help="Who said the passage.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag of the passage.")
@click.option(
    "--key", metavar="ID", help="The passage's place in its session: a new text there replaces the old."
)
@click.option(
    "--from-json", "source", metavar="FILE", help="Read a whole batch from a file, or from stdin (-)."
)
@click.option("--batch-id", metavar="ID", help="Makes a retry safe: the same id is written once.")
@click.option("--ids", is_flag=True, help="Print the id of each item.")
@click.pass_obj
def command(app: App, /, *, source: str | None, ids: bool, **given: Any) -> None:
    """Record something under a NAME, each TEXT a statement of its own."""
    if source is not None:
        batch = _from_json(source, given)
    else:
        batch = _typed(given | {"words": [read_text(word) for word in given["words"]]})
    app.places = {"id": "--batch-id"} if source is not None else _PLACES

    async def work(memory: Memory) -> tuple[RecordReceipt, telling.Teller]:
        if source is None:
            await _settle_name(memory, batch)
        return await memory.record(**batch), telling.teller_for(memory, app.columns, ids=ids)

    receipt, tell = app.run(work)
    app.answer(receipt, lambda: telling.receipt(tell, receipt))


def _from_json(source: str, given: dict[str, Any]) -> dict[str, Any]:
    batch_id = given.pop("batch_id")
    if any(value not in (None, (), False) for value in given.values()):
        raise click.UsageError(
            "--from-json takes the whole batch from the file; only --batch-id goes with it"
        )
    batch = read_json(source)
    strange = sorted(batch.keys() - set(_BATCH)) if isinstance(batch, dict) else []
    if not isinstance(batch, dict) or strange:
        named = f", not {', '.join(map(repr, strange))}" if strange else ""
        raise click.UsageError(f"{source}: a batch is a JSON object with some of {', '.join(_BATCH)}{named}")
    return {**batch, "batch_id": batch_id} if batch_id else batch


def _typed(given: dict[str, Any]) -> dict[str, Any]:
    if given["session"] is not None:
        return _passages(given)
    if stray := next((name for name in ("speaker", "tags", "key") if given[name]), None):
        raise click.UsageError(f"--{stray.rstrip('s')} goes with --session")
    if not given["words"]:
        raise click.UsageError("missing NAME: what is this about?")
    name, *texts = given["words"]
    entity = {key: given[key] for key in ("entity_type", "domain", "epistemic", "visibility") if given[key]}
    entity |= {"name": name} | ({"aliases": given["aliases"]} if given["aliases"] else {})
    entity |= {"pinned": True} if given["pin"] else {}
    dates = {key: given[key] for key in ("valid_from", "valid_to") if given[key]}
    kind = {"kind": given["kind"]} if given["kind"] else {}
    return {
        "entities": [entity],
        "observations": [{"entity": name, "text": text, **kind, **dates} for text in texts],
        "relations": [{"source": name, **split_relation(text), **dates} for text in given["relations"]],
        "batch_id": given["batch_id"],
    }


async def _settle_name(memory: Memory, batch: dict[str, Any]) -> None:
    """Give the entity that was named by its id the name that it has; what has no such id here is a name."""
    for entity in batch.get("entities", ()):
        if (known := await entity_with_id(memory, entity["name"])) is not None:
            more = entity.keys() - {"name"}
            batch["entities"] = [entity | {"name": known.name}] if more else []


def _passages(given: dict[str, Any]) -> dict[str, Any]:
    wrong = ("entity_type", "domain", "kind", "relations", "aliases", "epistemic", "pin", "valid_to")
    if stray := next((name for name in wrong if given[name]), None):
        option = {"entity_type": "type", "relations": "relation", "aliases": "alias"}.get(stray, stray)
        raise click.UsageError(
            f"--{option.replace('_', '-')} does not go with --session: a passage is about no entity"
        )
    if not given["words"]:
        raise click.UsageError("missing TEXT: what was said in the session?")
    if given["key"] and len(given["words"]) > 1:
        raise click.UsageError("--key names one place, so it goes with one TEXT")
    fields = {
        key: given[key]
        for key in ("session", "speaker", "key", "visibility", "valid_from", "tags")
        if given[key]
    }
    return {"passages": [{"text": text, **fields} for text in given["words"]], "batch_id": given["batch_id"]}
