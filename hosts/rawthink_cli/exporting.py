"""`rawthink export`: every commit of a space, in the journal's own line format."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rawthink_cli import telling
from rawthink_cli.app import App, Verb

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_core.commits import Header
    from rawthink_core.memory import Memory

_EXAMPLES = """
rawthink export backup.jsonl
rawthink export - | gzip > backup.jsonl.gz
"""


@click.command("export", cls=Verb, examples=_EXAMPLES)
@click.argument("file", metavar="FILE|-")
@click.option("--force", is_flag=True, help="Replace FILE where it exists.")
@click.pass_obj
def command(app: App, /, *, file: str, force: bool) -> None:
    """Write a header and every commit of the space, one a line. It is itself a journal; `import` reads it."""
    if file == "-":
        if app.json:
            raise click.UsageError("--json would mix its document into the export; give a FILE")
        app.run(lambda memory: _write(memory, _to_stdout))
        return
    target = Path(file).expanduser().absolute()
    _refuse(target, force=force)
    commits = app.run(lambda memory: _to_file(memory, target, force=force))
    space = app.configuration().settings.space
    document = {"file": str(target), "space": space, "commits": commits}
    app.answer(
        document, lambda: [f"{telling.count(commits, 'commit')} of space {space!r} written to {target}"]
    )


def _refuse(target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise click.UsageError(f"{target} is a folder; name a file in it")
    if target.exists() and not force:
        raise click.UsageError(f"{target} exists; --force replaces it")


async def _write(memory: Memory, put: Callable[[bytes], object]) -> int:
    """Put an export's lines, and return how many commits it has. Raises NotFound where there are none."""
    from rawthink_core.commits import encode, encode_header  # noqa: PLC0415 - with the rest of the core
    from rawthink_core.errors import NotFound  # noqa: PLC0415

    count = 0
    async for commit in memory.export():
        if count == 0:
            put(encode_header(_header(memory, commit.at)))
        put(encode(commit))
        count += 1
    if count == 0:
        raise NotFound(f"the space {memory.scope.space!r} is empty: there is nothing to export")
    return count


def _to_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)


def _header(memory: Memory, created: str) -> Header:
    """Return the header of an export: the same each time, and no other store's."""
    from rawthink_core.commits import Header  # noqa: PLC0415 - with the rest of the core
    from rawthink_core.identity import derived_batch_id  # noqa: PLC0415

    own = derived_batch_id("export", memory.info.location, memory.scope.space)
    return Header(store=own, created=created, timezone=memory.info.timezone)


async def _to_file(memory: Memory, target: Path, *, force: bool) -> int:
    """Write an export whole or not at all, readable by this user alone."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            count = await _write(memory, out.write)
            out.flush()
            os.fsync(out.fileno())
        _refuse(target, force=force)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return count
