"""``rawthink conform NAME…``: checks installed providers from the command line."""

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
    from collections.abc import Callable, Iterator, Sequence

    from rawthink_conformance.checking import Result
    from rawthink_conformance.report import Report

_FILE = click.Path(dir_okay=False, path_type=Path)

_EVERY = 25  # checks between two lines of a log
_HYPOTHESIS = "HYPOTHESIS_STORAGE_DIRECTORY"


@click.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--markdown", type=_FILE, metavar="FILE", help="Also write the report as Markdown.")
@click.option(
    "--save",
    type=_FILE,
    metavar="FILE",
    help="Put the reports into a JSON document; those of other providers in it stay.",
)
@click.option(
    "-k",
    "--only",
    default="",
    metavar="EXPRESSION",
    help="Check those ids only: scope, time.as_of, 'search and not dense', …",
)
@click.option(
    "--waivers",
    type=_FILE,
    metavar="FILE",
    help='What is not kept yet, as TOML: text.long = "the reason".',
)
@click.option("--note", default="", metavar="TEXT", help="Keep a remark with the versions: which server, …")
@click.option("--deep", is_flag=True, help="Let the state machine run for minutes, not seconds.")
def conform(
    names: tuple[str, ...],
    *,
    as_json: bool,
    markdown: Path | None,
    save: Path | None,
    only: str,
    waivers: Path | None,
    note: str,
    deep: bool,
) -> None:
    """Check whether the installed provider NAME keeps the contract; several are shown side by side.

    Stores are made in temporary folders; nothing of yours is touched. The exit code is 0 when no
    requirement failed, 1 when one did, and 2 when a provider could not be tested at all.
    """
    from rawthink_conformance.supervising import supervised  # noqa: PLC0415 - not on the path of --help
    from rawthink_conformance.waiving import read_waivers  # noqa: PLC0415

    try:
        given = {} if waivers is None else read_waivers(waivers)
        told = None if as_json else _teller()
        with _hypothesis_elsewhere():
            reports = [
                supervised(name, only=only, waivers=given, deep=deep, note=note, told=told) for name in names
            ]
    except RawThinkError as error:
        raise _Untested(str(error)) from error
    _write(reports, markdown, save)
    if as_json:
        sys.stdout.buffer.write(_json(reports))
        sys.stdout.buffer.flush()
    else:
        click.echo("\r\033[K" if sys.stderr.isatty() else "", nl=False, err=True)
        click.echo(_table(reports))
    sys.exit(0 if all(report.ok for report in reports) else 1)


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


def _teller() -> Callable[[Result], None]:
    """Return what shows how far a run is: on one line of a terminal, else now and then on a line of a log."""
    done, failed = 0, 0

    def tell(result: Result) -> None:
        nonlocal done, failed
        done, failed = done + 1, failed + (result.outcome == "failed")
        if sys.stderr.isatty():
            click.echo(f"\r\033[K{result.outcome}: {result.requirement.id}", nl=False, err=True)
        elif result.outcome == "failed":
            click.echo(f"failed: {result.requirement.id}", err=True)
        elif done % _EVERY == 0:
            click.echo(f"{done} checked, {failed} failed", err=True)

    return tell


def _write(reports: Sequence[Report], markdown: Path | None, save: Path | None) -> None:
    from rawthink_conformance.matrix import dump, load, merged, page  # noqa: PLC0415

    for path in (markdown, save):
        try:
            if path is not None and path is save:
                kept = load(path.read_bytes()) if path.exists() else []
                path.write_bytes(dump(merged(kept, reports)))
            elif path is not None:
                path.write_text(reports[0].markdown() if len(reports) == 1 else page(reports), "utf-8")
        except OSError as error:
            raise _Untested(f"{path} can't be written: {error.strerror}") from error
        except RawThinkError as error:
            raise _Untested(f"{path}: {error}") from error


def _json(reports: Sequence[Report]) -> bytes:
    from rawthink_conformance.matrix import dump  # noqa: PLC0415

    return reports[0].json() if len(reports) == 1 else dump(reports)


def _table(reports: Sequence[Report]) -> str:
    from rawthink_conformance.matrix import table  # noqa: PLC0415

    if len(reports) == 1:
        return reports[0].table()
    failed = [report.failures() for report in reports if not report.ok]
    return "\n\n".join([*failed, table(reports)])
