"""Several reports side by side: providers × requirements, for a terminal, as Markdown, and by topic."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import orjson

from rawthink_conformance.report import MARKS, OUTCOMES, Report, cell
from rawthink_conformance.requirements import REQUIREMENTS
from rawthink_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rawthink_conformance.checking import Outcome

LEGEND = ", ".join(f"{mark} {outcome}" for outcome, mark in MARKS.items())
_NOTHING = " "  # was not checked


def dump(reports: Sequence[Report]) -> bytes:
    """Return reports as one JSON document."""
    body = {"reports": [report.plain() for report in reports]}
    return orjson.dumps(body, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def load(data: bytes) -> list[Report]:
    """Return the reports of a document that `dump` wrote. Raises ConfigError where it is none."""
    try:
        return [Report.of(body) for body in orjson.loads(data)["reports"]]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ConfigError(f"this is no document of conformance reports: {error}") from error


def merged(kept: Sequence[Report], fresh: Sequence[Report]) -> list[Report]:
    """Return reports, those of the same provider replaced by fresh ones in their places."""
    by_name = {report.provider: report for report in (*kept, *fresh)}
    return list(by_name.values())


def stale(reports: Sequence[Report]) -> str:
    """Say why reports are not of the suite as it is now; empty where they are."""
    for report in reports:
        checked = {result.requirement.id: result.requirement.statement for result in report.results}
        promised = {requirement.id: requirement.statement for requirement in REQUIREMENTS.values()}
        differing = sorted({name for name, _ in checked.items() ^ promised.items()})
        if differing:
            return f"{report.provider} was checked against other requirements: {', '.join(differing)}"
    return ""


def table(reports: Sequence[Report]) -> str:
    """Return the matrix for a terminal."""
    names = [report.provider for report in reports]
    ids = _ids(reports)
    width = max(map(len, ids), default=0)
    lines = [f"{'':<{width}}  {'  '.join(names)}"]
    for name in ids:
        marks = "  ".join(f"{_mark(report, name):^{len(report.provider)}}" for report in reports)
        lines.append(f"{name:<{width}}  {marks}")
    return "\n".join([*lines, "", LEGEND, *(report.summary() for report in reports)])


def page(reports: Sequence[Report]) -> str:
    """Return the matrix as a Markdown page, with versions, timings, waivers, and what was not passed."""
    names = [f"`{report.provider}`" for report in reports]
    parts = ["# Conformance", "", f"Providers × requirements: {LEGEND}.", "", *_about(reports), ""]
    for topic, members in groupby(_ids(reports), key=_topic):
        parts += [f"## {topic}", "", *_head(["requirement", *names])]
        parts += [_row([f"`{name}`", *(_mark(report, name) for report in reports)]) for name in members]
        parts.append("")
    parts += ["## What was not passed, and why", ""]
    for report in reports:
        told = [result for result in report.results if result.outcome != "passed"]
        parts += [
            f"- `{report.provider}` {MARKS[result.outcome]} `{result.requirement.id}`: {cell(result.detail)}"
            for result in told
        ]
    return "\n".join([*parts, ""])


def summary(reports: Sequence[Report]) -> str:
    """Return a small Markdown table: how many requirements of each topic a provider keeps."""
    lines = _head(["topic", *map(_title, reports)])
    for topic, members in groupby(_ids(reports), key=_topic):
        ids = list(members)
        lines.append(_row([topic, *(_counted(report, ids) for report in reports)]))
    ids = _ids(reports)
    lines.append(_row(["**all**", *(f"**{_counted(report, ids)}**" for report in reports)]))
    return "\n".join(lines)


def _title(report: Report) -> str:
    note = report.versions.get("note", "")
    return f"`{report.provider}`" + (f" ({cell(note)})" if note else "")


def _about(reports: Sequence[Report]) -> list[str]:
    keys = list(dict.fromkeys(key for report in reports for key in report.versions))
    lines = _head(["", *(f"`{report.provider}`" for report in reports)])
    lines += [_row([key, *(cell(report.versions.get(key, "")) for report in reports)]) for key in keys]
    lines += [_row([outcome, *(str(report.counts[outcome]) for report in reports)]) for outcome in OUTCOMES]
    lines.append(_row(["seconds", *(f"{report.seconds:.0f}" for report in reports)]))
    return lines


def _ids(reports: Sequence[Report]) -> list[str]:
    """Return the ids of what any was checked for, in the suite's order."""
    checked = {result.requirement.id for report in reports for result in report.results}
    return [*(name for name in REQUIREMENTS if name in checked), *sorted(checked - REQUIREMENTS.keys())]


def _topic(name: str) -> str:
    return name.partition(".")[0]


def _mark(report: Report, name: str) -> str:
    outcome = _outcomes(report).get(name)
    return _NOTHING if outcome is None else MARKS[outcome]


def _outcomes(report: Report) -> dict[str, Outcome]:
    return {result.requirement.id: result.outcome for result in report.results}


def _counted(report: Report, ids: Iterable[str]) -> str:
    outcomes = _outcomes(report)
    seen = [outcomes[name] for name in ids if name in outcomes]
    counts = [(MARKS[outcome], seen.count(outcome)) for outcome in OUTCOMES]
    return " ".join(f"{number} {mark}" for mark, number in counts if number) or _NOTHING


def _head(cells: Sequence[Any]) -> list[str]:
    return [_row(cells), "|" + "---|" * len(cells)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
