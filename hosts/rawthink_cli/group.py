"""`rawthink` itself: its commands, found without importing them, and the end of every run.

``rawthink --help`` reads the table below and imports no command. Commands of other distributions register
in the entry point group ``rawthink.commands``, and are looked up when a name is not in the table.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from rawthink_cli import ending, exits, startup
from rawthink_cli.app import GLOBAL, App, Verb, global_options

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = "rawthink.commands"


class Entry(NamedTuple):
    """A command of the table. ``module`` is empty where an entry point has it."""

    module: str
    help: str


SECTIONS: dict[str, dict[str, Entry]] = {
    "Begin": {
        "demo": Entry("demo", "Show in one screen what this is for."),
        "init": Entry("init", "Create your memory and say where everything is."),
    },
    "Write": {
        "decide": Entry("decide", "Record a decision, its reasons, and what was rejected."),
        "record": Entry("record", "Record what you know, or a passage of a session."),
        "revise": Entry("revise", "Change your mind: retire a belief, keep it, say why."),
        "forget": Entry("forget", "Erase for good, from every place."),
    },
    "Ask": {
        "search": Entry("search", "Find what a question is about, in any language."),
        "show": Entry("show", "Show an entity: what is said of it, and its relations."),
        "history": Entry("history", "Show how something came to be what it is."),
        "challenge": Entry("challenge", "Show what speaks against a plan, from your own memory."),
    },
    "Keep": {
        "export": Entry("exporting", "Write every commit of a space to a file."),
        "import": Entry("importing", "Read an export, or the file of another memory server."),
        "copy": Entry("copying", "Carry a whole space from one backend to another."),
        "reindex": Entry("reindex", "Index the notes and sessions of the vault as they are now."),
        "doctor": Entry("doctor", "Check the store, say how to mend it, or mend it."),
        "providers": Entry("providers", "List installed backends and their settings."),
        "conform": Entry("", "Check that a backend keeps the contract."),
    },
    "Serve": {
        "mcp": Entry("", "Serve this memory to an MCP client, over stdio."),
        "proxy": Entry("", "Serve a chat API with this memory beside it."),
    },
}
TABLE = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class Rawthink(click.Group):
    """The group of all commands. Imports one only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the table."""
        return list(TABLE)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Return a command of the table, else one that a distribution registered under the name."""
        entry = TABLE.get(cmd_name)
        if entry is not None and entry.module:
            module = importlib.import_module(f"rawthink_cli.{entry.module}")
            command: click.Command = module.command
            return command
        return _registered(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; hand global options on to one of another distribution."""
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None:
            if ctx.resilient_parsing or name.startswith("-"):
                return super().resolve_command(ctx, args)
            raise click.UsageError(_unknown(name), ctx)
        if isinstance(command, Verb):
            return name, command, args[1:]
        return name, command, [*_handed_on(ctx.ensure_object(App), command, ctx), *args[1:]]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table."""
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.help) for name, entry in section.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write what the exit codes mean."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in exits.MEANINGS.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002 - click's signature; we always end the process
        **extra: Any,
    ) -> NoReturn:
        """Run, and exit with the code of what happened."""
        if "_RAWTHINK_COMPLETE" in os.environ:
            super().main(args, prog_name, complete_var, **extra)
        given = [ending.whole(argument) for argument in (sys.argv[1:] if args is None else args)]
        app = extra.pop("obj", None) or App()
        if "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
            extra["color"] = False

        def command() -> Any:
            with self.make_context(prog_name or "rawthink", list(given), obj=app, **extra) as context:
                return self.invoke(context)

        options = given[: given.index("--")] if "--" in given else given
        sys.exit(ending.run(command, app, wants_json="--json" in options))


def _registered(name: str) -> click.Command | None:
    import importlib.metadata  # noqa: PLC0415 - 30 ms that --help does not have

    startup.lengthen()
    for point in importlib.metadata.entry_points(group=COMMANDS, name=name):
        try:
            loaded = point.load()
        except ImportError as error:
            raise click.ClickException(f"the plugin command {name!r} can't be loaded: {error}") from error
        if isinstance(loaded, click.Command):
            return loaded
        raise click.ClickException(
            f"the plugin command {name!r} ({point.value}) is no click command; ask its author"
        )
    return None


def _unknown(name: str) -> str:
    import difflib  # noqa: PLC0415 - only a typing error needs it

    near = difflib.get_close_matches(name, [*TABLE, *_registered_names()], n=1)
    return f"there is no command {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _registered_names() -> list[str]:
    import importlib.metadata  # noqa: PLC0415 - 30 ms that --help does not have

    return [point.name for point in importlib.metadata.entry_points(group=COMMANDS)]


def _handed_on(app: App, command: click.Command, ctx: click.Context) -> list[str]:
    """Return the global options that were given, as arguments of a command that does not know `App`."""
    flags = {flag for parameter in command.params for flag in parameter.opts}
    handed: list[str] = []
    for name in GLOBAL:
        value = getattr(app, name)
        if value in (None, False):
            continue
        if f"--{name}" not in flags:
            raise click.UsageError(f"{command.name} takes no --{name}", ctx)
        handed += [f"--{name}"] if value is True else [f"--{name}", value]
    return handed


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    import importlib.metadata  # noqa: PLC0415 - 30 ms that --help does not have

    try:
        version = importlib.metadata.version("rawthink")
    except importlib.metadata.PackageNotFoundError:
        version = "(not installed)"
    click.echo(f"rawthink {version}")
    context.exit()


rawthink = Rawthink(
    name="rawthink",
    help=(
        "A memory that knows what you decided, what you rejected, and why you changed your mind.\n\n"
        "Options may stand before or after a command."
    ),
    params=[
        *global_options(),
        click.Option(
            ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=_print_version,
            help="Print the version.",
        ),
    ],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)  # fmt: skip
