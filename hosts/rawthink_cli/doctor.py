"""`rawthink doctor`: how the store is, a row for each check, and how to mend what is not well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rawthink_cli import exits, paper
from rawthink_cli.app import App, Verb, run_async

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_core.errors import RawThinkError
    from rawthink_core.memory import Memory
    from rawthink_core.operations import Check, Health

_MARKS = {"ok": "ok", "note": "note", "warn": "WARN", "fail": "FAIL"}


@click.command("doctor", cls=Verb)
@click.option(
    "--fix", is_flag=True, help="Mend what can be mended; damaged parts are set aside, not deleted."
)
@click.pass_obj
def command(app: App, /, *, fix: bool) -> int:
    """Check the settings and the store. Works on a store that can't be opened; creates none."""
    done, health = run_async(lambda: _examine(app, fix=fix))
    rows = [*_settings(app), *health.checks]
    document = health.model_dump(mode="json") | {
        "done": list(done),
        "checks": [row.model_dump(mode="json") for row in rows],
    }
    app.answer(document, lambda: _lines(app, health, rows, done))
    if health.status == "down" or any(row.status == "fail" for row in rows):
        return exits.FAILED
    return exits.PARTIAL if health.status == "degraded" else exits.OK


async def _examine(app: App, *, fix: bool) -> tuple[tuple[str, ...], Health]:
    """Return what was mended, and how the store is now. Where there is none, none is made."""
    from rawthink_core.errors import RawThinkError  # noqa: PLC0415 - with the rest of the core
    from rawthink_core.operations import Check, Health  # noqa: PLC0415

    memory = app.memory()
    if (absent := await _absent(memory)) is not None:
        return (), absent
    closed: RawThinkError | None = None
    try:
        await memory.provider.open()
    except RawThinkError as error:
        closed = error
    try:
        done = (await memory.maintain(repair=True)).done if fix else ()
        if fix and closed is not None:
            await memory.provider.open()
            closed = None
        health = await memory.health()
    except RawThinkError as error:
        closed = closed or error
        done, health = (), Health(status="down", location=memory.info.location)
    finally:
        await memory.close()
    if closed is not None and not any(row.status == "fail" for row in health.checks):
        row = Check(name="open", status="fail", detail=str(closed), fix=_way_out(closed, fix=fix))
        health = health.model_copy(update={"status": "down", "checks": (row, *health.checks)})
    return done, health


async def _absent(memory: Memory) -> Health | None:
    """Return what is said of a place where there is no store yet: to open it would make one."""
    from rawthink_core.errors import RawThinkError  # noqa: PLC0415 - with the rest of the core

    try:
        health = await memory.health()
    except RawThinkError:
        return None
    if health.exists:
        return None
    await memory.close()
    return health


def _way_out(error: RawThinkError, *, fix: bool) -> str:
    from rawthink_core.errors import StoreDamaged  # noqa: PLC0415 - with the rest of the core

    return "rawthink doctor --fix" if isinstance(error, StoreDamaged) and not fix else ""


def _settings(app: App) -> Iterator[Check]:
    from rawthink_core.operations import Check  # noqa: PLC0415 - with the rest of the core

    configuration = app.configuration()
    where = str(configuration.file) if configuration.file else "none; defaults and the environment"
    yield Check(name="settings", status="ok", detail=where)
    for notice in configuration.notices:
        yield Check(name="settings", status="note", detail=notice)


def _lines(app: App, health: Health, rows: list[Check], done: tuple[str, ...]) -> Iterator[str]:
    yield from (line for sentence in done for line in paper.wrap(sentence, app.columns, "mended: "))
    yield from paper.wrap(health.location, app.columns, "store: ")
    name_width = max(paper.width(row.name) for row in rows)
    for row in rows:
        lead = f"{_MARKS[row.status]:<5} {paper.fill(row.name, name_width)}  "
        yield from paper.wrap(row.detail, app.columns, lead)
        if row.fix:
            yield from paper.wrap(row.fix, app.columns, " " * len(lead) + "→ ")
    if health.pending_embeddings:
        yield f"{health.pending_embeddings} texts wait for their vectors."
    if not health.exists:
        yield "There is no store yet."
        return
    yield {
        "ok": "All is well.",
        "degraded": "Usable, but not all is well.",
        "down": "The store can't be used.",
    }[health.status]
