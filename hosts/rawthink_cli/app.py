"""What one run of the command line knows: the global options, the memory they lead to, and how it answers.

`App` is the object of every command (`click.pass_obj`). The core is imported when a memory is opened.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rawthink_cli import paper, startup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from pydantic import BaseModel

    from rawthink_core.config import Configuration
    from rawthink_core.memory import Memory

    T = TypeVar("T")

HOST = "rawthink-cli"  # written with everything that is recorded here


@dataclass
class App:
    """The global options, and what commands do with them.

    ``places`` maps places of a request to what the user typed there, so that faults speak of options.
    ``build`` makes the memory; tests give their own.
    """

    config: str | None = None
    space: str | None = None
    provider: str | None = None
    vault: str | None = None
    json: bool = False
    places: Mapping[str, str] = field(default_factory=dict)
    build: Callable[[Configuration, dict[str, Any]], Memory] | None = None
    _configuration: Configuration | None = None

    # --- the memory -----------------------------------------------------------------------------

    def configuration(self) -> Configuration:
        """Return the settings, with the global options over them. Raises ConfigError."""
        if self._configuration is None:
            from pathlib import Path  # noqa: PLC0415 - not on the path of --help

            from rawthink_core.config import load  # noqa: PLC0415 - not on the path of --help

            file = Path(self.config) if self.config else None
            self._configuration = load(file, provider=self.provider, space=self.space, vault=self.vault)
            for notice in self._configuration.notices:
                self.note(notice)
        return self._configuration

    def memory(self) -> Memory:
        """Return the memory that the options and settings describe, not opened yet."""
        _set_up_logging()
        configuration = self.configuration()
        chosen = configuration.settings
        settings: dict[str, Any] = {}
        if self.vault and "path" in chosen.providers.get(chosen.provider, {}):
            settings["path"] = self.vault  # what is typed counts more than what is written
        return (self.build or _memory_of)(configuration, settings)

    def memory_of(self, provider: str, settings: dict[str, Any]) -> Memory:
        """Return the memory of a provider, ``settings`` over those of its section, not opened yet."""
        from pathlib import Path  # noqa: PLC0415 - not on the path of --help

        from rawthink_core.config import load  # noqa: PLC0415 - not on the path of --help

        _set_up_logging()
        file = Path(self.config) if self.config else None
        configuration = load(file, provider=provider, space=self.space, vault=self.vault)
        return (self.build or _memory_of)(configuration, settings)

    def run(self, work: Callable[[Memory], Awaitable[T]]) -> T:
        """Open the memory, do ``work`` with it, close it, and return the result."""

        async def opened() -> T:
            memory = self.memory()
            await memory.provider.open()
            startup.collect_again()
            try:
                result = await work(memory)
            except Exception:
                await memory.close()
                raise  # on Ctrl-C nothing is closed: that would wait for a thread that waits
            await memory.close()
            return result

        return run_async(opened)

    # --- answers --------------------------------------------------------------------------------

    def answer(self, document: BaseModel | dict[str, Any], lines: Callable[[], Iterable[str]]) -> None:
        """Print ``document`` as JSON where ``--json`` was given, else ``lines()`` for people."""
        if self.json:
            self.print_json(document if isinstance(document, dict) else document.model_dump(mode="json"))
        else:
            for line in lines():
                click.echo(line)

    def print_json(self, document: dict[str, Any]) -> None:
        """Print one JSON document: on one line for programs, indented on a terminal."""
        import json  # noqa: PLC0415 - few runs need it

        indent = 2 if sys.stdout.isatty() else None
        click.echo(json.dumps(document, ensure_ascii=False, indent=indent))

    def note(self, text: str) -> None:
        """Tell people something beside the answer, on stderr."""
        click.echo(f"note: {paper.safe(text)}", err=True)

    @property
    def columns(self) -> int:
        """How many columns the output has: those of the terminal up to 100, else 80."""
        if not sys.stdout.isatty():
            return paper.COLUMNS
        try:
            return min(max(os.get_terminal_size(sys.stdout.fileno()).columns, 40), 100)
        except (OSError, ValueError):
            return paper.COLUMNS


def run_async(work: Callable[[], Awaitable[T]]) -> T:
    """Run ``work`` in an event loop of its own.

    Ctrl-C returns at once: a thread that still writes is not waited for, since its write is whole or absent.
    """
    import asyncio  # noqa: PLC0415 - not on the path of --help

    async def main() -> T:
        return await work()

    runner = asyncio.Runner()
    try:
        result = runner.run(main())
    except KeyboardInterrupt:
        raise
    except BaseException:
        runner.close()
        raise
    runner.close()
    return result


def _set_up_logging() -> None:
    """Log to stderr at the level that ``RAWTHINK_LOG_LEVEL`` names: by default warnings, as they are."""
    level = os.environ.get("RAWTHINK_LOG_LEVEL", "").strip().upper()
    if not level:
        return
    import logging  # noqa: PLC0415 - not on the path of --help

    if level not in logging.getLevelNamesMapping():
        raise click.UsageError(f"RAWTHINK_LOG_LEVEL is {level!r}: use DEBUG, INFO, WARNING or ERROR")
    logging.basicConfig(level=level, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")


def _memory_of(configuration: Configuration, settings: dict[str, Any]) -> Memory:
    from rawthink_core.guard import Guard  # noqa: PLC0415 - not on the path of --help
    from rawthink_core.memory import Memory  # noqa: PLC0415
    from rawthink_core.model import Provenance  # noqa: PLC0415
    from rawthink_core.opening import make_provider, state_folder  # noqa: PLC0415
    from rawthink_core.plugins import hook_manager  # noqa: PLC0415
    from rawthink_core.recall import Recaller  # noqa: PLC0415

    return Memory(
        make_provider(configuration, settings),
        space=configuration.settings.space,
        guard=Guard(hook_manager(), configuration.settings.redact),
        recaller=Recaller(configuration.settings.recall.deadline),
        provenance=Provenance(host=HOST),
        state=state_folder(),
    )


# --- options ------------------------------------------------------------------------------------


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Put a global option into the `App`, wherever on the line it stood; the last one counts."""
    if value in (None, False) or context.resilient_parsing:
        return
    app = context.ensure_object(App)
    if parameter.name in ("config", "vault"):
        value = os.path.abspath(os.path.expanduser(value))  # noqa: PTH100, PTH111 - pathlib costs --help 5 ms
    setattr(app, str(parameter.name), value)


def global_options() -> list[click.Parameter]:
    """Return the options that every command takes, before or after its name."""
    return [
        click.Option(
            ["--json"], is_flag=True, expose_value=False, callback=_keep, help="Print one JSON document."
        ),
        click.Option(
            ["--space"], metavar="NAME", expose_value=False, callback=_keep, help="The memory to work in."
        ),
        click.Option(
            ["--vault"],
            metavar="DIR",
            expose_value=False,
            callback=_keep,
            help="Folder of your memory and notes.",
        ),
        click.Option(
            ["--provider"], metavar="NAME", expose_value=False, callback=_keep, help="The backend to use."
        ),
        click.Option(
            ["--config"], metavar="FILE", expose_value=False, callback=_keep, help="Settings to read."
        ),
    ]


GLOBAL = ("json", "space", "vault", "provider", "config")


class Verb(click.Command):
    """A command of ours: takes the global options too, and shows examples in its help."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += global_options()
        self.examples = examples.strip().splitlines()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the names of the global ones."""
        own = [p for p in self.get_params(ctx) if isinstance(p, click.Option) and p.name not in GLOBAL]
        records = [record for p in own if (record := p.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(records)
        named = ", ".join(f"--{name}" for name in GLOBAL)
        formatter.write_paragraph()
        formatter.write_text(f"Also {named}, as in `rawthink --help`.")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the examples, as they are typed."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
