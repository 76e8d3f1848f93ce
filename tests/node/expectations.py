"""What the conformance suite is expected to say of our server, and what it says, side by side.

An expectation is a scenario, what it says when it fails as we know it, and why that is right. Whatever is not
expected is an error, and so is an expectation that nothing meets any more.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

_PROBLEMS = ("FAILURE", "WARNING")
_SAYS = {"failures": True, "hollow": False}


class Expectation(NamedTuple):
    """Why a scenario fails, or passes without having tried anything; ``says`` is empty for the latter.

    ``lacks`` is the capability that the server must not declare for the reason to hold.
    """

    reason: str
    says: tuple[str, ...] = ()
    lacks: str = ""


class Row(NamedTuple):
    """What became of a scenario: ``passed``, ``hollow``, ``expected``, ``FAILED`` or ``STALE``."""

    scenario: str
    result: str
    reason: str = ""

    @property
    def wrong(self) -> bool:
        """Tell whether somebody has to do something."""
        return self.result.isupper()


def expectations(file: Path) -> dict[str, Expectation]:
    """Read a file of expectations; ValueError where a scenario stands twice, or an entry lacks its reason."""
    found: dict[str, Expectation] = {}
    document: dict[str, list[dict[str, Any]]] = yaml.safe_load(file.read_text("utf-8"))
    for kind, groups in document.items():
        for group in groups:
            says = tuple(group.get("says", ()))
            if not group.get("reason") or bool(says) != _SAYS[kind]:
                raise ValueError(f"{file.name}: an entry of {kind} lacks its reason, or what it says")
            for scenario in group["scenarios"]:
                if scenario in found:
                    raise ValueError(f"{file.name}: {scenario} stands there twice")
                found[scenario] = Expectation(group["reason"], says, group.get("lacks", ""))
    return found


def checks_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return what the suite wrote: the checks of each scenario that ran to its end."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in folder.glob("server-*/checks.json"):
        name = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT.*", file.parent.name)
        if name is not None:
            found.setdefault(name[1], []).extend(json.loads(file.read_text("utf-8")))
    return found


def judge(
    scenarios: Iterable[str],
    checks: dict[str, list[dict[str, Any]]],
    expected: dict[str, Expectation],
    declared: Collection[str] = (),
) -> list[Row]:
    """Return what became of each scenario, and each expectation of one that there is no more.

    ``declared`` are the capabilities that the server declares.
    """
    names = list(scenarios)
    rows = [_row(name, checks.get(name, []), expected.get(name), declared) for name in names]
    gone = "the suite has no such scenario: take it out of the file"
    return rows + [Row(name, "STALE", gone) for name in expected if name not in names]


def _row(
    name: str, checks: list[dict[str, Any]], expectation: Expectation | None, declared: Collection[str]
) -> Row:
    said = [
        str(check.get("errorMessage") or check.get("description"))
        for check in checks
        if check["status"] in _PROBLEMS
    ]
    if not said and not any(check["status"] == "SUCCESS" for check in checks):
        return Row(name, "FAILED", "it did not run, or checked nothing")
    if expectation is None or not expectation.says:
        if said:
            return Row(name, "FAILED", "; ".join(said))
        return Row(name, "hollow", expectation.reason) if expectation else Row(name, "passed")
    if not said:
        return Row(name, "STALE", "it passes now: take it out of the file")
    if expectation.lacks in declared:
        return Row(name, "FAILED", f"the server declares {expectation.lacks}; {'; '.join(said)}")
    if other := [problem for problem in said if not any(part in problem for part in expectation.says)]:
        return Row(name, "FAILED", f"otherwise than expected: {'; '.join(other)}")
    if gone := [part for part in expectation.says if not any(part in problem for problem in said)]:
        return Row(name, "STALE", f"it no longer says {' or '.join(gone)!r}")
    return Row(name, "expected", expectation.reason)


def table(rows: list[Row]) -> str:
    """Return the rows as text, and a line that counts them."""
    width = max(len(row.scenario) for row in rows)
    lines = [f"{row.scenario:{width}}  {row.result:8}  {row.reason}".rstrip() for row in rows]
    count = Counter("wrong" if row.wrong else row.result for row in rows)
    lines.append(
        f"{count['passed']} passed, {count['hollow']} passed without trying this server, "
        f"{count['expected']} failed as expected, {count['wrong']} did what is not expected"
    )
    return "\n".join(lines)
