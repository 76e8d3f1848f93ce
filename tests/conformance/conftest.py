"""After a run: how many mutants of the zoo were caught."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter):
    counts = {
        outcome: sum(
            "test_a_mutant_is_caught" in report.nodeid for report in terminalreporter.getreports(outcome)
        )
        for outcome in ("passed", "failed")
    }
    if tried := sum(counts.values()):
        terminalreporter.write_line(
            f"zoo: {counts['passed']} of {tried} mutants caught by the checks they are for"
        )
