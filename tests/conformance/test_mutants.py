"""Every check bites: each mutant is caught by the checks of the requirements that it breaks."""

import pytest

from rawthink_conformance import REQUIREMENTS
from rawthink_conformance.checking import run_check
from rawthink_conformance.mutants import UNBITTEN, ZOO, Specimen
from rawthink_core.errors import RawThinkError

BITES = [(mutant, requirement) for mutant, broken in ZOO.items() for requirement in broken]


@pytest.fixture(autouse=True)
def little_patience(monkeypatch):
    monkeypatch.setattr("rawthink_conformance.checks.dense.LAG_SECONDS", 0.5)


@pytest.mark.parametrize(("mutant", "requirement"), BITES, ids=[f"{m.__name__}-{r}" for m, r in BITES])
def test_a_mutant_is_caught(mutant, requirement):
    result = run_check(REQUIREMENTS[requirement], Specimen(mutant), {})
    assert result.outcome == "failed", f"{mutant.__doc__} {requirement} does not notice: {result}"
    assert isinstance(result.error, AssertionError | RawThinkError | NotImplementedError), result.detail


def test_every_requirement_is_bitten_or_says_why_not():
    bitten = {requirement for broken in ZOO.values() for requirement in broken}
    assert REQUIREMENTS.keys() - bitten == UNBITTEN.keys()
    assert all(UNBITTEN.values())


def test_every_mutant_says_what_it_does():
    assert all(mutant.__doc__ for mutant in ZOO)
