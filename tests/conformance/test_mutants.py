"""Every check bites: each mutant is caught by the checks of the requirements that it breaks."""

import pytest

from rawthink_conformance import REQUIREMENTS, Report
from rawthink_conformance.checking import run_check
from rawthink_conformance.mutants import UNBITTEN, ZOO, Specimen, crashing
from rawthink_core.errors import RawThinkError

BITES = [(mutant, requirement) for mutant, broken in ZOO.items() for requirement in broken]


@pytest.fixture(autouse=True)
def little_patience(monkeypatch):
    monkeypatch.setattr("rawthink_conformance.checks.dense.LAG_SECONDS", 0.5)
    monkeypatch.setattr("rawthink_conformance.machine.SHORTEN_SECONDS", 0)


@pytest.mark.parametrize(("mutant", "requirement"), BITES, ids=[f"{m.__name__}-{r}" for m, r in BITES])
def test_a_mutant_is_caught(mutant, requirement):
    result = run_check(REQUIREMENTS[requirement], Specimen(mutant), {})
    assert result.outcome == "failed", f"{mutant.__doc__} {requirement} does not notice: {result}"
    assert isinstance(result.error, AssertionError | RawThinkError | NotImplementedError), result.detail
    table = Report(mutant.__name__, {}, (result,)).table()
    assert f"✗ {requirement}  " in table
    assert mutant.__name__ in table


def test_every_requirement_has_a_mutant_of_its_own_or_says_why_not():
    bitten = {own for own, *_ in ZOO.values()}
    assert REQUIREMENTS.keys() - bitten == UNBITTEN.keys()
    assert all(UNBITTEN.values())


def test_every_mutant_says_what_it_does():
    assert all(mutant.__doc__ for mutant in ZOO)


@pytest.mark.parametrize("requirement", ["crash.kept", "crash.whole", "writes.second_process", "open.reopen"])
def test_what_mutants_of_a_file_spoil_the_file_itself_keeps(requirement):
    result = run_check(REQUIREMENTS[requirement], Specimen(crashing.Journalled), {})
    assert result.outcome == "passed", result
