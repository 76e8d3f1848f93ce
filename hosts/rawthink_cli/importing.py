"""`rawthink import`: exports of ours, and memory graph files of other servers, told apart by content."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import click

from rawthink_cli import exits, foreigners, paper, telling, waiting
from rawthink_cli.app import App, Verb
from rawthink_cli.given import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_core.commits import Commit
    from rawthink_core.memory import Memory

_AT_ONCE = 200  # commits of an export that are restored together
_FIRST_LINES = 20
_OF_A_JOURNAL = re.compile(rb'^\{"v":\d+,"(?:commit|store)":|,"ops":\[\{"op":')
_SHOWN = 20  # problems that are listed one by one for people; --json lists all


@dataclass
class Outcome:
    """What became of one file. ``problems`` name the lines that could not be used."""

    file: str
    form: str  # "export" or "memory graph"
    found: dict[str, int]  # what the file holds
    new: dict[str, int] = field(default_factory=dict)  # what was added, or would be
    notes: list[str] = field(default_factory=list)  # what was settled on the way
    problems: list[dict[str, int | str]] = field(default_factory=list)


_EXAMPLES = """
rawthink import ~/vault/memory.jsonl --dry-run
"""


@click.command("import", cls=Verb, examples=_EXAMPLES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--dry-run", is_flag=True, help="Say what would be added; write nothing.")
@waiting.option(waiting.AFTER_IMPORT)
@click.pass_obj
def command(app: App, /, *, files: tuple[str, ...], dry_run: bool, wait: float) -> int:
    """Add what a FILE holds: an export of rawthink, or the memory file of another MCP memory server.

    The file is only read. What is here already is not added twice, so it can be imported again. What can't be
    used is named by file and line.
    """
    contents = {file: read_bytes(file) for file in files}

    async def work(memory: Memory) -> tuple[list[Outcome], str | None]:
        outcomes = []
        for file, data in contents.items():
            if _is_export(data):
                outcomes.append(await _restore(memory, file, data, dry_run=dry_run))
            else:
                outcomes.append(await _adopt(app, memory, file, data, dry_run=dry_run))
        return outcomes, None if dry_run else await waiting.until_found(memory, wait)

    outcomes, degraded = app.run(work)
    document = {"dry_run": dry_run, "files": [asdict(outcome) for outcome in outcomes], "degraded": degraded}
    app.answer(document, lambda: _lines(outcomes, app.columns, dry_run=dry_run))
    if degraded:
        app.note(f"all is written, and not all is found by searching yet: {degraded}")
    return exits.PARTIAL if degraded or any(outcome.problems for outcome in outcomes) else exits.OK


def _is_export(data: bytes) -> bool:
    """Tell whether a file is a journal: one of its first lines is a commit or a header, whole or damaged."""
    lines = [
        line for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n", _FIRST_LINES)[:_FIRST_LINES] if line
    ]
    return any(_OF_A_JOURNAL.search(line) for line in lines)


async def _restore(memory: Memory, file: str, data: bytes, *, dry_run: bool) -> Outcome:
    """Add the commits of an export that belong to this space."""
    from rawthink_core.commits import Commit, LineDamaged, decode  # noqa: PLC0415 - with the rest of the core

    commits: list[Commit] = []
    others: dict[str, int] = {}
    problems: list[dict[str, int | str]] = []
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            entry = decode(line.rstrip(b"\r"))
        except LineDamaged as error:
            problems.append({"line": number, "what": str(error)})
            continue
        if isinstance(entry, Commit) and entry.space == memory.scope.space:
            commits.append(entry)
        elif isinstance(entry, Commit):
            others[entry.space] = others.get(entry.space, 0) + 1
    for space, n in others.items():
        command_line = f"rawthink --space {shlex.quote(space)} import {shlex.quote(file)}"
        problems.append({"line": 0, "what": f"{telling.count(n, 'commit')} of another space; {command_line}"})
    outcome = Outcome(file, "export", {"commit": len(commits)}, problems=problems)
    if dry_run:
        outcome.notes.append("commits that are here already would be skipped")
    else:
        restored = await _put(memory, commits, file, at_once=_AT_ONCE)
        outcome.new = {"commit": restored} if restored else {}
    return outcome


async def _adopt(app: App, memory: Memory, file: str, data: bytes, *, dry_run: bool) -> Outcome:
    """Add what a memory graph of another server has and this memory has not."""
    plan = await foreigners.plan(memory, app.configuration().vocabulary(), file, data)
    outcome = Outcome(file, "memory graph", plan.found, plan.new, plan.notes, plan.problems)
    if not dry_run and plan.commits:
        await _put(memory, plan.commits, file, at_once=1)
        outcome.new = await foreigners.arrived(memory, plan)
        if forgotten := sum(plan.new.values()) - sum(outcome.new.values()):
            what = (
                f"{telling.count(forgotten, 'item')} forgotten here before, and not brought back by an import"
            )
            outcome.problems.append({"line": 0, "what": what})
    return outcome


async def _put(memory: Memory, commits: list[Commit], file: str, *, at_once: int) -> int:
    """Restore commits some at a time, with a progress bar where a person waits; return how many were new."""
    restored = 0
    with waiting.bar(range(0, len(commits), at_once), f"writing {file}") as steps:
        for start in steps:
            restored += (await memory.restore(commits[start : start + at_once])).restored
    return restored


def _lines(outcomes: list[Outcome], columns: int, *, dry_run: bool) -> Iterator[str]:
    for outcome in outcomes:
        yield f"{paper.safe(outcome.file)} ({outcome.form})"
        yield from paper.wrap(_counted(outcome.found), columns, f"{telling.INDENT}holds ")
        if outcome.new or not dry_run or outcome.form != "export":
            yield from paper.wrap(
                _counted(outcome.new), columns, f"{telling.INDENT}{'would add' if dry_run else 'added'} "
            )
        for note in outcome.notes:
            yield from paper.wrap(note, columns, telling.INDENT)
        for problem in outcome.problems[:_SHOWN]:
            where = f"line {problem['line']}: " if problem["line"] else ""
            yield from paper.wrap(str(problem["what"]), columns, f"!  not used: {where}", telling.INDENT)
        if len(outcome.problems) > _SHOWN:
            yield f"!  not used: {len(outcome.problems) - _SHOWN} more; --json lists all"


def _counted(counts: dict[str, int]) -> str:
    parts = [telling.count(number, noun) for noun, number in counts.items() if number]
    return ", ".join(parts) or "nothing"
