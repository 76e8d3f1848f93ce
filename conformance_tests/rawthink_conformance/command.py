"""``rawthink conform NAME``: checks an installed provider from the command line."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from rawthink_core.errors import RawThinkError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_conformance.checking import Result

_HYPOTHESIS = "HYPOTHESIS_STORAGE_DIRECTORY"


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the report as Markdown.",
)
@click.option("--only", default="", metavar="ID-PREFIX", help="Check what begins so: scope, time.as_of, …")
@click.option("--deep", is_flag=True, help="Let the state machine run for minutes, not seconds.")
def conform(name: str, *, as_json: bool, markdown: Path | None, only: str, deep: bool) -> None:
    """Check whether the installed provider NAME keeps the contract.

    Stores are made in temporary folders; nothing of yours is touched. The exit code is 0 when no
    requirement failed, 1 when one did, and 2 when the provider could not be tested at all.
    """
    from rawthink_conformance.runner import conform as run  # noqa: PLC0415 - not on the path of --help

    try:
        with _hypothesis_elsewhere():
            report = run(name, only=only, deep=deep, told=None if as_json else _tell)
    except RawThinkError as error:
        raise _Untested(str(error)) from error
    if markdown is not None:
        try:
            markdown.write_text(report.markdown(), "utf-8")
        except OSError as error:
            raise _Untested(f"{markdown} can't be written: {error.strerror}") from error
    if as_json:
        sys.stdout.buffer.write(report.json())
        sys.stdout.buffer.flush()
    else:
        click.echo("\r\033[K" if sys.stderr.isatty() else "", nl=False, err=True)
        click.echo(report.table())
    sys.exit(0 if report.ok else 1)


@contextmanager
def _hypothesis_elsewhere() -> Iterator[None]:
    """Let Hypothesis keep its caches in a temporary folder: left alone it makes one in the current folder."""
    with TemporaryDirectory(prefix="rawthink-") as folder:
        mine = os.environ.setdefault(_HYPOTHESIS, folder) == folder
        try:
            yield
        finally:
            if mine:
                del os.environ[_HYPOTHESIS]


class _Untested(click.ClickException):
    exit_code = 2


def _tell(result: Result) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{result.outcome}: {result.requirement.id}", nl=False, err=True)
