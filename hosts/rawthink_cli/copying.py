"""`rawthink copy`: carry a whole space from one backend to another."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from rawthink_cli import exits, paper, telling, waiting
from rawthink_cli.app import App, Verb, run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rawthink_core.memory import Memory
    from rawthink_core.moving import CopyReport, Survey

_SHOWN = 20  # items that are listed one by one for people; --json lists all

_EXAMPLES = """
rawthink copy --from local --to lancedb --dry-run
rawthink copy --from local --to lancedb --to-set uri=s3://team-memory/prod
rawthink --space work copy --from local --from-set path=~/old-vault --to local
"""


class Setting(click.ParamType[tuple[str, str]]):
    """``KEY=VALUE``: one setting of a provider."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the pair."""
        if isinstance(value, tuple):
            return value
        key, given, text = str(value).partition("=")
        if not given or not key.strip():
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key.strip(), text


@click.command("copy", cls=Verb, examples=_EXAMPLES)
@click.option("--from", "source", metavar="NAME", required=True, help="The backend to copy from.")
@click.option("--to", "target", metavar="NAME", required=True, help="The backend to copy to.")
@click.option(
    "--from-set", "source_settings", type=Setting(), multiple=True,
    help="A setting of the one, over those of [providers.NAME].",
)  # fmt: skip
@click.option(
    "--to-set", "target_settings", type=Setting(), multiple=True, help="A setting of the other, likewise."
)
@click.option("--dry-run", is_flag=True, help="Say what would be copied; write nothing, create nothing.")
@click.option("--leave-out", is_flag=True, help="Copy all the rest where the other can't hold everything.")
@waiting.option(waiting.AFTER_IMPORT)
@click.pass_obj
def command(
    app: App,
    /,
    *,
    source: str,
    target: str,
    source_settings: tuple[tuple[str, str], ...],
    target_settings: tuple[tuple[str, str], ...],
    dry_run: bool,
    leave_out: bool,
    wait: float,
) -> int:
    """Copy everything of the space: ids, times, what replaced what, passages, and the vectors that are kept.

    What the other backend can't hold is listed before anything is written. Stopped half-way, run it again:
    what is there is skipped. The original stays as it is. Other spaces are copied one by one (--space).
    """
    here = app.memory_of(source, dict(source_settings))
    there = app.memory_of(target, dict(target_settings))
    survey, report, pending = run_async(
        lambda: _copy(here, there, dry_run=dry_run, leave_out=leave_out, wait=wait)
    )
    document = {
        "from": _place(here), "to": _place(there), "space": here.scope.space, "dry_run": dry_run,
        "commits": survey.commits, "items": dict(survey.items),
        "cannot_hold": [asdict(obstacle) for obstacle in survey.obstacles],
        "copied": asdict(report) if report is not None else None, "pending_embeddings": pending,
    }  # fmt: skip
    app.answer(document, lambda: _lines(here, there, survey, report, app.columns))
    if pending:
        app.note(f"{pending:,} texts wait for their vectors; the next process that opens {target} makes them")
    if report is None and not dry_run:
        app.note("nothing was written; --leave-out copies all the rest")
        return exits.REFUSED
    return exits.PARTIAL if survey.obstacles else exits.OK


async def _copy(
    here: Memory, there: Memory, *, dry_run: bool, leave_out: bool, wait: float
) -> tuple[Survey, CopyReport | None, int]:
    """Look through the space, then copy it where nothing stands against that."""
    from rawthink_core import moving  # noqa: PLC0415 - with the rest of the core
    from rawthink_core.errors import ConfigError, NotFound  # noqa: PLC0415

    if (here.info.name, here.info.location) == (there.info.name, there.info.location):
        raise ConfigError(f"both are {_place(here)}: a copy needs two places (--from-set, --to-set)")
    if not (await here.health()).exists:
        raise NotFound(f"there is no memory in {_place(here)}: there is nothing to copy")
    await here.provider.open()
    try:
        survey = await moving.survey(here, there.info)
        if not survey.commits:
            raise NotFound(
                f"the space {here.scope.space!r} of {_place(here)} is empty; choose one with --space"
            )
        if dry_run or (survey.obstacles and not leave_out):
            return survey, None, 0
        await there.provider.open()
        try:
            report = await moving.copy(here, there, survey, _progress(survey.commits))
            await waiting.until_found(there, wait)
            return survey, report, (await there.health()).pending_embeddings
        finally:
            await there.close()
    finally:
        await here.close()


def _progress(total: int) -> Callable[[int], None] | None:
    """Return what shows progress on stderr, where a person waits."""
    if not sys.stderr.isatty():
        return None

    def show(done: int) -> None:
        end = "\r\x1b[K" if done >= total else " "
        click.echo(f"\rcopying: {done:,} of {total:,} commits{end}", err=True, nl=False)

    return show


def _place(memory: Memory) -> str:
    return f"{memory.info.name} ({memory.info.location})" if memory.info.location else memory.info.name


def _lines(
    here: Memory, there: Memory, survey: Survey, report: CopyReport | None, columns: int
) -> Iterator[str]:
    held = ", ".join(telling.count(number, kind) for kind, number in sorted(survey.items.items()))
    yield from paper.wrap(f"from {_place(here)}", columns, "", telling.INDENT)
    yield from paper.wrap(f"to {_place(there)}", columns, "", telling.INDENT)
    yield from paper.wrap(
        f"space {here.scope.space!r}: {telling.count(survey.commits, 'commit')} with {held or 'no item'}",
        columns, telling.INDENT,
    )  # fmt: skip
    for obstacle in survey.obstacles[:_SHOWN]:
        said = f"{obstacle.kind} {obstacle.id} {paper.one_line(obstacle.text)}… has {obstacle.why}"
        yield from paper.wrap(said, columns, "!  can't be held: ", telling.INDENT)
    if len(survey.obstacles) > _SHOWN:
        yield f"!  can't be held: {len(survey.obstacles) - _SHOWN} more; --json lists all"
    if report is not None:
        yield (
            f"{telling.count(report.restored, 'commit')} copied, {report.skipped:,} were there already; "
            f"{telling.count(report.vectors, 'text')} came with vectors"
        )
