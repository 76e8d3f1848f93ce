"""The judgement of `check.py node`: what is not expected is wrong, and so is what is expected and does not come."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

NODE = Path(__file__).parents[1] / "node"


@pytest.fixture(scope="module")
def expectations():
    spec = importlib.util.spec_from_file_location("node_expectations", NODE / "expectations.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def failure(says, status="FAILURE"):
    return {"id": "x", "description": "a check", "status": status, "errorMessage": says}


WELL = {"id": "x", "description": "a check", "status": "SUCCESS"}
INFO = {"id": "x", "description": "a check", "status": "INFO"}
NONE_YET = "Method not found"


@pytest.mark.parametrize(
    ("checks", "expected", "result"),
    [
        ([WELL], None, "passed"),
        ([WELL, INFO], None, "passed"),
        ([WELL], ("it tries nothing",), "hollow"),
        ([failure(NONE_YET)], ("no prompts", (NONE_YET,)), "expected"),
        ([WELL, failure(f"Failed: {NONE_YET}")], ("no prompts", (NONE_YET,)), "expected"),
        ([failure("one"), failure("two", "WARNING")], ("both", ("one", "two")), "expected"),
        ([failure(NONE_YET)], None, "FAILED"),
        ([WELL, failure("should", "WARNING")], None, "FAILED"),
        ([failure(NONE_YET)], ("it tries nothing",), "FAILED"),
        ([failure("Connection closed")], ("no prompts", (NONE_YET,)), "FAILED"),
        ([failure(NONE_YET), failure("Connection closed")], ("no prompts", (NONE_YET,)), "FAILED"),
        ([failure(NONE_YET)], ("no prompts", (NONE_YET,), "prompts"), "FAILED"),
        ([], None, "FAILED"),
        ([], ("no prompts", (NONE_YET,)), "FAILED"),
        ([INFO], ("it tries nothing",), "FAILED"),
        ([WELL], ("no prompts", (NONE_YET,)), "STALE"),
        ([failure("one")], ("both", ("one", "two")), "STALE"),
    ],
)
def test_a_scenario_is_judged_by_what_is_expected_of_it(expectations, checks, expected, result):
    known = {"s": expectations.Expectation(*expected)} if expected else {}
    [row] = expectations.judge(["s"], {"s": checks}, known, {"prompts", "tools"})
    assert row.result == result
    assert row.wrong == (result in ("FAILED", "STALE"))


def test_an_expectation_of_a_scenario_that_is_gone_is_stale(expectations):
    known = {"gone": expectations.Expectation("no prompts", (NONE_YET,))}
    rows = expectations.judge(["s"], {"s": [WELL]}, known)
    assert [(row.scenario, row.result) for row in rows] == [("s", "passed"), ("gone", "STALE")]
    assert "1 passed, 0 passed without trying this server, 0 failed as expected, 1 " in expectations.table(
        rows
    )


def test_results_are_found_under_the_name_of_their_scenario(expectations, tmp_path):
    for name in ("server-server-initialize", "server-json-schema-2020-12"):
        folder = tmp_path / f"{name}-2026-11-30T23-00-18-350Z"
        folder.mkdir()
        (folder / "checks.json").write_text(json.dumps([WELL]), encoding="utf-8")
    assert expectations.checks_of(tmp_path) == {"server-initialize": [WELL], "json-schema-2020-12": [WELL]}


@pytest.mark.parametrize(
    "text",
    [
        "failures:\n  - {reason: r, scenarios: [a]}\n",
        "failures:\n  - {says: [x], scenarios: [a]}\n",
        "hollow:\n  - {reason: r, says: [x], scenarios: [a]}\n",
        "failures:\n  - {reason: r, says: [x], scenarios: [a, a]}\n",
    ],
)
def test_an_entry_without_its_reason_or_said_twice_is_refused(expectations, tmp_path, text):
    file = tmp_path / "expected.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected\.yaml"):
        expectations.expectations(file)


def test_our_own_file_can_be_read(expectations):
    known = expectations.expectations(NODE / "expected-failures.yaml")
    assert all(known[name].says for name in ("prompts-list", "resources-list"))
