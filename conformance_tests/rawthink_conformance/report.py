"""The report of a run: every requirement with its outcome, as a terminal table, Markdown or JSON."""

from __future__ import annotations

import platform
from collections import Counter
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, get_args

import orjson

from rawthink_conformance.checking import Outcome, Result
from rawthink_conformance.requirements import REQUIREMENTS, Requirement
from rawthink_core.provider import CONTRACT_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rawthink_core.provider import ProviderInfo

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
MARKS: dict[Outcome, str] = {"passed": "✓", "failed": "✗", "unsupported": "–", "waived": "~"}


def versions(info: ProviderInfo) -> dict[str, str]:
    """Return the versions that a run depends on."""
    try:
        ours = version("rawthink")
    except PackageNotFoundError:  # run from a checkout
        ours = "unknown"
    return {
        "rawthink": ours,
        "contract": str(CONTRACT_VERSION),
        "provider": info.version,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


@dataclass(frozen=True, slots=True)
class Report:
    """What a run of the suite found. Waived and unsupported requirements are no failures."""

    provider: str
    capabilities: dict[str, str]
    results: tuple[Result, ...]
    versions: dict[str, str] = field(default_factory=dict)
    observed: dict[str, str] = field(default_factory=dict)  # of the backend, where its documents are silent

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.having("failed")

    def having(self, outcome: Outcome) -> list[Result]:
        """Return the results with one outcome."""
        return [result for result in self.results if result.outcome == outcome]

    @property
    def counts(self) -> dict[str, int]:
        """How many requirements had each outcome."""
        counted = Counter(result.outcome for result in self.results)
        return {outcome: counted[outcome] for outcome in OUTCOMES}

    def summary(self) -> str:
        """Return the counts as a sentence."""
        counts = ", ".join(f"{number} {outcome}" for outcome, number in self.counts.items() if number)
        left = len(REQUIREMENTS) - len(self.results)
        out = f"; {left} of {len(REQUIREMENTS)} requirements were left out" if left > 0 else ""
        return f"{self.provider}: {counts or 'nothing was checked'} in {self.seconds:.0f} s{out}"

    @property
    def seconds(self) -> float:
        """How long the checks took together."""
        return sum(result.seconds for result in self.results)

    def table(self) -> str:
        """Return the report for a terminal: a line a requirement, with the way on where one failed."""
        what = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        seen = [f"    {name}: {_line(value)}" for name, value in self.observed.items()]
        seen = ["seen of its backend, of which its documents say nothing:", *seen] if seen else []
        return "\n".join([*_lines(self.results), "", *seen, self.summary(), what])

    def failures(self) -> str:
        """Return for a terminal what failed, with the way on."""
        return "\n".join([f"{self.provider}:", *_lines(self.having("failed"))])

    def markdown(self) -> str:
        """Return the report as a Markdown page."""
        head = [
            f"# Conformance of `{self.provider}`",
            "",
            f"{self.summary()}.",
            "",
            "| | version |",
            "|---|---|",
            *(f"| {name} | {cell(number)} |" for name, number in self.versions.items()),
            "",
            "| capability | grade |",
            "|---|---|",
            *(f"| `{name}` | {cell(grade)} |" for name, grade in self.capabilities.items()),
            "",
            *(["| of its backend | seen |", "|---|---|"] if self.observed else []),
            *(f"| {name} | {cell(value)} |" for name, value in self.observed.items()),
            *([""] if self.observed else []),
            "| | requirement | rule | promise | |",
            "|---|---|---|---|---|",
        ]
        rows = [
            f"| {MARKS[result.outcome]} | `{result.requirement.id}` | {result.requirement.rule} "
            f"| {cell(result.requirement.statement)} | {cell(_said(result))} |"
            for result in self.results
        ]
        scripts = [
            f"\n## A program that shows {result.requirement.id}\n\n```python\n{result.script.rstrip()}\n```"
            for result in self.having("failed")
            if result.script
        ]
        return "\n".join([*head, *rows, *scripts, ""])

    def json(self) -> bytes:
        """Return the report as JSON."""
        return orjson.dumps(self.plain(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Report:
        """Return the report that `plain` made plain. Raises KeyError or TypeError where it is none."""
        results = tuple(
            Result(
                replace(_requirement(row["id"]), statement=row["statement"], rule=row["rule"]),
                row["outcome"],
                row["detail"],
                row["seconds"],
            )
            for row in body["results"]
        )
        return cls(body["provider"], dict(body["capabilities"]), results, dict(body["versions"]))

    def plain(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "provider": self.provider,
            "ok": self.ok,
            "counts": self.counts,
            "versions": self.versions,
            "capabilities": self.capabilities,
            "observed": self.observed,
            "results": [
                {
                    "id": result.requirement.id,
                    "rule": result.requirement.rule,
                    "statement": result.requirement.statement,
                    "outcome": result.outcome,
                    "detail": _clean(result.detail),
                    "where": result.where,
                    "seconds": round(result.seconds, 3),
                    **({"script": result.script} if result.script else {}),
                }
                for result in self.results
            ],
        }


def _requirement(name: str) -> Requirement:
    """Return a requirement, or one that stands for what it was when it was checked."""
    return REQUIREMENTS.get(name) or Requirement(name, "", "", "")


def _lines(results: Sequence[Result]) -> list[str]:
    width = max((len(result.requirement.id) for result in results), default=0)
    lines: list[str] = []
    for result in results:
        requirement = result.requirement
        lines.append(f"{MARKS[result.outcome]} {requirement.id:<{width}}  {requirement.statement}")
        if result.outcome == "failed":
            lines += [f"    seen: {_line(result.detail)}", f"    hint: {requirement.hint}"]
            lines += [f"    check: {result.where}"] if result.where else []
        elif result.detail:
            lines.append(f"    {result.outcome}: {_line(result.detail)}")
    for result in results:
        if result.outcome == "failed" and result.script:
            lines += ["", f"# {result.requirement.id}: this program shows it", "", result.script.rstrip()]
    return lines


def _said(result: Result) -> str:
    return f"{result.outcome}: {_line(result.detail)}" if result.detail else result.outcome


def _clean(text: str) -> str:
    """Return a text without what no terminal or file takes: control characters and halves of characters."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
    return shown.encode("utf-8", "backslashreplace").decode()


def _line(text: str) -> str:
    return " ".join(_clean(text).split())


def cell(text: str) -> str:
    """Return a text as a cell of a Markdown table."""
    return _line(text).replace("|", "\\|").replace("<", "&lt;")
