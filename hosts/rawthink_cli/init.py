"""`rawthink init`: create the memory, and say where everything is and how to go on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rawthink_cli import paper
from rawthink_cli.app import App, Verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_core.memory import Memory

_HEAD = "# Settings of rawthink. Every command and every host reads this file."
_EXAMPLES = """
rawthink init
rawthink --vault ~/notes init
"""


@click.command("init", cls=Verb, examples=_EXAMPLES)
@click.pass_obj
def command(app: App) -> None:
    """Create the store and, where there is none yet, a settings file that remembers your choice of it.

    Run again, it changes nothing and says where everything is.
    """
    settings_file, written = _settings_file(app)

    async def work(memory: Memory) -> dict[str, str]:
        return {"store": memory.info.location, "timezone": memory.info.timezone, "provider": memory.info.name}

    try:
        found = app.run(work)
    except BaseException:
        if written:
            settings_file.unlink(missing_ok=True)
        raise
    configuration = app.configuration()
    document: dict[str, str | bool] = {
        "settings": str(settings_file),
        "settings_written": written,
        "vault": str(configuration.vault),
        "space": configuration.settings.space,
        **found,
    }
    app.answer(document, lambda: _lines(document, app.columns))


def _settings_file(app: App) -> tuple[Path, bool]:
    """Return the settings file, and whether it was written just now since there was none."""
    from rawthink_core.config import config_file, load  # noqa: PLC0415 - not on the path of --help

    file = Path(app.config) if app.config else config_file(os.environ)
    if file.exists():
        _warn_of_another_vault(app, file)
        return file, False
    environ = {name: value for name, value in os.environ.items() if name != "RAWTHINK_CONFIG"}
    nowhere = {**environ, "RAWTHINK_CONFIG": os.devnull}
    chosen = load(None, nowhere, provider=app.provider, space=app.space, vault=app.vault)
    lines = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in _choices(app, str(chosen.vault))
    ]
    try:
        text = ("\n".join([_HEAD, *lines]) + "\n").encode()
    except UnicodeEncodeError:
        raise click.UsageError(
            "the name of that folder is not UTF-8 text, so no settings file can hold it"
        ) from None
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with file.open("xb") as out:
        out.write(text)
    file.chmod(0o600)
    return file, True


def _warn_of_another_vault(app: App, file: Path) -> None:
    from rawthink_core.config import load  # noqa: PLC0415 - not on the path of --help

    written = load(file).vault
    if app.vault and str(written) != app.vault:
        app.note(f"{file} says vault = {str(written)!r}, and other runs will use that; edit it to change it")


def _choices(app: App, vault: str) -> Iterator[tuple[str, str]]:
    """Yield what is worth remembering: the vault, and what was said on the command line."""
    yield "vault", vault
    if app.provider:
        yield "provider", app.provider
    if app.space:
        yield "space", app.space


def _lines(document: dict[str, str | bool], columns: int) -> Iterator[str]:
    settings = f"{document['settings']}{' (written now)' if document['settings_written'] else ''}"
    rows = [
        ["settings", settings],
        ["vault", str(document["vault"])],
        ["store", f"{document['store']} ({document['provider']})"],
        ["space", str(document["space"])],
        ["time zone", str(document["timezone"])],
    ]
    yield "Your memory is ready."
    yield from ("  " + line for line in paper.table(rows, columns - 2))
    yield ""
    yield "Next:"
    yield '  rawthink decide "…" --domain software --decided "…" --because "…"'
    yield "  rawthink search what did we decide"
    yield "Agents and scripts use the same commands with --json; Python uses"
    yield "  from rawthink_core.memory import open_memory"
