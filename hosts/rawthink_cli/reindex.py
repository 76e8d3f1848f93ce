"""`rawthink reindex`: bring the notes and sessions of the vault into the memory, as they are now."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from rawthink_cli import exits, paper, telling, waiting
from rawthink_cli.app import App, Verb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rawthink_core.memory import Memory
    from rawthink_core.vault import IndexReport

_SHOWN = 20  # problems that are listed one by one for people; --json lists all

_PAUSE = 0.5  # seconds between looks at what waits for its vectors

_EXAMPLES = """
rawthink reindex
rawthink reindex --vectors
rawthink reindex --session 2026-01-05_001
"""


@click.command("reindex", cls=Verb, examples=_EXAMPLES)
@click.option("--session", metavar="ID", help="Only the session or note with this id.")
@click.option(
    "--full", is_flag=True, help="Compare every file with the memory, and erase what ended with its file."
)
@click.option(
    "--vectors",
    is_flag=True,
    help="Also make the search index and all vectors anew, by the embedder that is configured now.",
)
@waiting.option(waiting.AFTER_IMPORT)
@click.pass_obj
def command(app: App, /, *, session: str | None, full: bool, vectors: bool, wait: float) -> int:
    """Index what has changed in the files of the vault: `sessions` and `qnotes`.

    What is no longer in a file ends in the memory too. Files are only read; one that can't be used is named,
    and the others are indexed all the same.
    """

    async def work(memory: Memory) -> tuple[IndexReport, str | None]:
        from rawthink_core.errors import UnsupportedOperation  # noqa: PLC0415 - with the rest of the core
        from rawthink_core.vault import Vault  # noqa: PLC0415 - see above

        if vectors:
            await memory.maintain(reindex=True)
        vault = Vault(app.configuration().vault, memory)
        report = await vault.index(session=session, full=full, progress=_progress())
        if full:
            with suppress(UnsupportedOperation):
                await memory.maintain()
        written = report.chunks or report.ended or vectors
        if vectors:
            await _embedded(memory)
        return report, await waiting.until_found(memory, wait) if written else None

    app.places = {"session": "--session"}
    report, degraded = app.run(work)
    app.answer(report.model_dump(mode="json") | {"degraded": degraded}, lambda: _lines(report, app.columns))
    if degraded:
        app.note(f"all is written, and not all is found by searching yet: {degraded}")
    return exits.PARTIAL if degraded or report.failed else exits.OK


async def _embedded(memory: Memory) -> None:
    """Wait until everything has its vectors; stopped, the next process goes on."""
    await memory.search("index", limit=1)  # opens the index, which knows what waits
    total = waits = (await memory.health()).pending_embeddings
    while waits:
        if sys.stderr.isatty():
            click.echo(f"\rembedding: {total - waits:,} of {total:,} ", err=True, nl=False)
        await asyncio.sleep(_PAUSE)
        health = await memory.health()
        troubled = [check for check in health.checks if check.name == "embedder" and check.status != "ok"]
        if troubled:
            raise click.ClickException(f"{troubled[0].detail}. The rest follows when it answers again")
        waits = health.pending_embeddings
        total = max(total, waits)
    if total and sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


def _progress() -> Callable[[int, int], None] | None:
    """Return what shows progress on stderr, where a person waits."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\r\x1b[K" if done == total else " "
        click.echo(f"\rindexing: {done} of {total} files{end}", err=True, nl=False)

    return show


def _lines(report: IndexReport, columns: int) -> Iterator[str]:
    unchanged = f", {report.unchanged} of them unchanged" if report.unchanged else ""
    yield f"{telling.count(report.files, 'file')}{unchanged}"
    yield f"{telling.INDENT}{telling.count(report.chunks, 'passage')} added, {report.ended} ended"
    for label, problems in (("not used", report.failed), ("note", report.warnings)):
        for path, why in problems[:_SHOWN]:
            yield from paper.wrap(f"{paper.one_line(path)} {why}", columns, f"!  {label}: ", telling.INDENT)
        if len(problems) > _SHOWN:
            yield f"!  {label}: {len(problems) - _SHOWN} more; --json lists all"
