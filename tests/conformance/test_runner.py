"""Running the suite without pytest: by name, from the command line, with a report to keep."""

import json
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from rawthink_conformance import REQUIREMENTS, conform, plugin, runner
from rawthink_conformance.choosing import choose
from rawthink_conformance.command import conform as command
from rawthink_conformance.matrix import load
from rawthink_conformance.mutants import revising
from rawthink_conformance.supervising import supervised
from rawthink_core.errors import ConfigError, InvalidRequest, PluginError
from rawthink_core.plugins import NoSettings, ProviderPlugin


@pytest.fixture
def broken(monkeypatch):
    """Put a mutant in the place of the reference."""
    mutant = ProviderPlugin("reference", "broken", lambda _, world: revising.NeverRetracts(world))
    monkeypatch.setattr(runner, "load_provider", lambda name: mutant)


@pytest.fixture
def deadly(tmp_path, monkeypatch):
    """Install a provider that ends its process in one verb, or already when it is opened."""
    home = tmp_path / "site"
    (home / "deadly-1.dist-info").mkdir(parents=True)
    (home / "deadly-1.dist-info" / "METADATA").write_text("Name: deadly\nVersion: 1\n", "utf-8")
    points = "[rawthink.providers]\ndeadly = deadly:plugin\n"
    (home / "deadly-1.dist-info" / "entry_points.txt").write_text(points, "utf-8")
    (home / "deadly.py").write_text(DEADLY, "utf-8")
    monkeypatch.syspath_prepend(home)


DEADLY = """
import os
from dataclasses import replace
from rawthink_conformance import ReferenceProvider
from rawthink_core.plugins import ProviderPlugin

class Deadly(ReferenceProvider):
    def _settle(self, zone):
        super()._settle(zone)
        self.info = replace(self.info, name="deadly")

    async def open(self):
        if "DEADLY_OPEN" in os.environ:
            os._exit(3)
        await super().open()

    async def history(self, query):
        os._exit(3)

plugin = ProviderPlugin("deadly", "dies", lambda settings, world: Deadly(world))
"""


class TestConform:
    def test_it_checks_an_installed_provider_by_name(self):
        told = []
        report = conform("reference", only="graph.", told=told.append)
        assert [result.requirement.id for result in report.results] == [
            i for i in REQUIREMENTS if i[:6] == "graph."
        ]
        assert told == list(report.results)
        assert report.ok
        assert report.counts == {"passed": 5, "failed": 0, "unsupported": 0, "waived": 0}
        assert report.versions.keys() == {"rawthink", "contract", "provider", "python", "system"}

    def test_it_finds_what_is_broken(self, broken):
        report = conform("reference", only="revise.")
        assert not report.ok
        assert [result.requirement.id for result in report.having("failed")] == [
            "revise.by_text",
            "revise.changed",
            "revise.retraction",
            "revise.not_found",
            "revise.relation",
        ]

    def test_waivers_are_told_and_a_stale_one_fails(self, broken):
        waivers = {"revise.retraction": "not yet", "revise.keeps": "not yet"}
        report = conform("reference", only="revise.", waivers=waivers)
        assert [result.requirement.id for result in report.having("waived")] == ["revise.retraction"]
        (stale,) = [result for result in report.having("failed") if result.requirement.id == "revise.keeps"]
        assert "stale" in stale.detail

    def test_what_does_not_exist_is_refused(self):
        with pytest.raises(PluginError, match="nosuch"):
            conform("nosuch")
        with pytest.raises(InvalidRequest, match=r"'scoop' chooses no requirement.*Topics: .*scope"):
            conform("reference", only="scoop")
        with pytest.raises(InvalidRequest, match="needs a reason"):
            conform("reference", only="graph", waivers={"graph.walk": ""})
        with pytest.raises(ConfigError, match="colour: is not an argument"):
            conform("reference", settings={"colour": "red"})

    @pytest.mark.parametrize(
        ("expression", "chosen"),
        [
            ("graph.walk", {"graph.walk"}),
            ("GRAPH.w", {"graph.walk"}),
            ("graph.walk or graph.bare", {"graph.walk", "graph.bare"}),
            ("graph. and not (walk or bare or limit)", {"graph.cycles", "graph.statuses"}),
            ("not not graph.bare", {"graph.bare"}),
            ("  ", set(REQUIREMENTS)),
        ],
    )
    def test_ids_are_chosen_as_pytest_chooses_tests(self, expression, chosen):
        assert {requirement.id for requirement in choose(expression)} == chosen

    @pytest.mark.parametrize("wrong", ["graph or", "(graph", "graph walk", "and", "graph )", "not"])
    def test_what_is_no_expression_is_refused(self, wrong):
        with pytest.raises(InvalidRequest, match="can't be read"):
            choose(wrong)

    def test_the_plugin_is_the_reference(self, tmp_path):
        from rawthink_core.provider import World

        assert plugin.make(NoSettings(), World(tmp_path)).info.name == plugin.name == "reference"


class TestReport:
    def test_the_table_has_a_line_a_requirement_and_says_how_to_go_on(self, broken):
        table = conform("reference", only="revise.re", waivers={"revise.relation": "later"}).table()
        lines = table.splitlines()
        assert lines[0].startswith("✗ revise.retraction  Without a successor")
        assert lines[1].startswith("    seen: InvalidRequest: a revision needs a successor")
        assert lines[2].startswith("    hint: ")
        assert re.fullmatch(r"    check: rawthink_conformance/checks/revising\.py:\d+", lines[3])
        assert any(line.startswith("    waived: later (seen: ") for line in lines)
        assert "reference: 1 passed, 1 failed, 1 waived" in table
        assert "contract 1" in lines[-1]

    def test_markdown_is_one_table_whatever_was_seen(self, broken):
        page = conform("reference", only="revise.").markdown()
        rows = [line for line in page.splitlines() if line.startswith(("| ✓", "| ✗"))]
        assert len(rows) == sum(i.startswith("revise.") for i in REQUIREMENTS)
        assert all(row.replace("\\|", "").count("|") == 6 for row in rows)
        assert page.startswith("# Conformance of `reference`\n")

    def test_json_holds_it_all(self, broken):
        report = conform("reference", only="revise.re")
        body = json.loads(report.json())
        assert (body["provider"], body["ok"], body["counts"]["failed"]) == ("reference", False, 2)
        assert body["capabilities"]["forget"] == "erased"
        first = body["results"][0]
        assert first.keys() == {"id", "rule", "statement", "outcome", "detail", "where", "seconds"}
        assert (first["id"], first["rule"], first["outcome"]) == ("revise.retraction", "8", "failed")


class TestCommand:
    def test_all_well_is_zero(self):
        result = CliRunner().invoke(command, ["reference", "-k", "get.order"])
        assert result.exit_code == 0
        assert "✓ get.order" in result.output

    def test_a_failure_is_one_and_a_waiver_that_is_not_needed_is_one(self, tmp_path):
        waivers = tmp_path / "waivers.toml"
        waivers.write_text('get.order = "not yet"', "utf-8")
        result = CliRunner().invoke(command, ["reference", "-k", "get.order", "--waivers", str(waivers)])
        assert result.exit_code == 1
        assert "✗ get.order" in result.output
        assert "stale waiver: it passes now (not yet)" in result.output
        waivers.write_text('get.oder = "not yet"', "utf-8")
        result = CliRunner().invoke(command, ["reference", "--waivers", str(waivers)])
        assert result.exit_code == 2
        assert "did you mean 'get.order'?" in result.output

    def test_a_process_that_dies_has_failed_its_check_and_the_rest_goes_on(self, deadly, tmp_path):
        target = tmp_path / "reports.json"
        chosen = "graph.bare or health.works or history.entity"
        result = CliRunner().invoke(command, ["deadly", "reference", "-k", chosen, "--save", str(target)])
        assert result.exit_code == 1
        dead, alive = load(target.read_bytes())
        seen = {result.requirement.id: (result.outcome, result.detail) for result in dead.results}
        assert seen["graph.bare"] == seen["health.works"] == ("passed", "")
        assert seen["history.entity"][0] == "failed"
        assert (
            "the process of the provider ended in this check, with exit code 3" in seen["history.entity"][1]
        )
        assert (dead.provider, alive.provider, alive.ok) == ("deadly", "reference", True)
        lines = result.output.splitlines()
        assert "                deadly  reference" in lines
        assert "history.entity    ✗         ✓    " in lines

    def test_one_that_always_dies_is_given_up(self, deadly, monkeypatch):
        monkeypatch.setenv("DEADLY_OPEN", "1")
        report = supervised("deadly", only="graph")
        details = [result.detail for result in report.results]
        assert [detail[:9] for detail in details] == ["the proce"] * 3 + ["not tried"] * 2
        assert (report.provider, report.counts["failed"]) == ("deadly", 5)

    def test_what_can_not_be_tested_is_two(self, tmp_path):
        result = CliRunner().invoke(command, ["nosuch"])
        assert result.exit_code == 2
        assert "nosuch" in result.output
        target = str(tmp_path / "missing" / "report.md")
        result = CliRunner().invoke(command, ["reference", "-k", "get.order", "--markdown", target])
        assert result.exit_code == 2
        assert "can't be written" in result.output

    def test_nothing_is_left_in_the_current_folder(self, tmp_path):
        code = (
            "from hypothesis.configuration import storage_directory\n"
            "from rawthink_conformance import command, supervising\n"
            "def run(name, **_):\n"
            "    storage_directory('constants').create_if_missing()\n"
            "    raise SystemExit(7)\n"
            "supervising.supervised = run\n"
            "command.conform(['reference'])"
        )
        environ = {
            name: value for name, value in os.environ.items() if name != "HYPOTHESIS_STORAGE_DIRECTORY"
        }
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environ, check=False)
        assert done.returncode == 7
        assert list(tmp_path.iterdir()) == []

    def test_json_is_all_that_is_printed(self):
        result = CliRunner().invoke(command, ["reference", "-k", "get.order", "--json"])
        assert json.loads(result.stdout)["ok"] is True

    def test_markdown_goes_to_a_file(self, tmp_path):
        target = tmp_path / "report.md"
        CliRunner().invoke(command, ["reference", "-k", "get.order", "--markdown", str(target)])
        assert "| ✓ | `get.order` |" in target.read_text("utf-8")
