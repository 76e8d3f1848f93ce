"""The end of every run: an exit code, a sentence for people, a document for programs."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from rawthink_cli import exits, paper

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_cli.app import App


def run(command: Callable[[], Any], app: App, *, wants_json: bool) -> int:
    """Run a command and return its exit code. Never shows a traceback for an error of ours."""
    try:
        result = command()
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return exits.PIPE_CLOSED
    except click.exceptions.Exit as end:
        return _flushed(end.exit_code)
    except (click.Abort, KeyboardInterrupt, EOFError):
        click.echo("Stopped.", err=True)
        return exits.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else error.format_message())
        return _flushed(exits.REFUSED)
    except Exception as error:  # noqa: BLE001 - each kind gets its code and its words
        app.json = app.json or wants_json
        return _failed(error, app)
    return result if isinstance(result, int) and not isinstance(result, bool) else exits.OK


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return exits.PIPE_CLOSED
    return code


def _failed(error: Exception, app: App) -> int:
    """Tell people and programs what went wrong, and return the exit code."""
    code, kind, message, hint, faults = _words(error, app)
    try:
        click.echo(f"rawthink: {paper.safe(message)}{hint}", err=True)
        if app.json:
            app.print_json({"error": {"kind": kind, "message": message, "faults": faults}})
        sys.stdout.flush()
    except OSError:  # nobody reads, or the disk under the output is full: there is no better place to say so
        _drop_output()
    return code


def _words(error: Exception, app: App) -> tuple[int, str, str, str, list[dict[str, str]]]:
    """Return the code, kind, message, further lines and faults of an error."""
    kind = type(error).__name__
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        hint = f"\nTry: {context.command_path} --help" if context is not None else ""
        return exits.REFUSED, "UsageError", error.format_message(), hint, []
    if exits.is_ours(error):
        message, faults = exits.explain(error, app.places)
        return exits.code_of(error), kind, message, "", faults
    if isinstance(error, OSError):
        about = f": {error.filename}" if error.filename else ""
        return exits.FAILED, kind, f"{error.strerror or error}{about}", "", []
    import traceback  # noqa: PLC0415 - only a bug needs it

    trace = "\n" + "".join(traceback.format_exception(error))
    return (
        exits.BUG,
        kind,
        f"{kind}: {error} - this is a fault of rawthink; please report what follows",
        trace,
        [],
    )


def _drop_output() -> None:
    """Send what is still to be flushed nowhere, so that the interpreter does not complain at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def whole(argument: str) -> str:
    """Return an argument as the text that was typed: UTF-8, also where the locale takes bytes one by one."""
    try:
        return os.fsencode(argument).decode("utf-8") if not argument.isascii() else argument
    except (UnicodeDecodeError, UnicodeEncodeError):
        return argument
