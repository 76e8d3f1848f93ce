"""The suite itself: its data is whole, nothing can be switched off, and what is not declared must refuse."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rawthink_conformance import REQUIREMENTS, ProviderConformance, ReferenceProvider, Report
from rawthink_conformance.checking import CHECKS, run_check
from rawthink_conformance.contract import CLAUSES
from rawthink_conformance.expect import Broken, equal
from rawthink_conformance.matrix import dump, load, merged, stale
from rawthink_conformance.mutants import Specimen, revising, searching
from rawthink_conformance.mutants.robustness import Declares
from rawthink_conformance.requirements import RULES
from rawthink_conformance.runner import conform_subject
from rawthink_conformance.suite import tell_pytest
from rawthink_conformance.waiving import read_waivers
from rawthink_core.errors import BackendUnavailable, ConfigError
from rawthink_core.provider import Capability

ROOT = Path(__file__).parents[2]


class TestTheData:
    def test_every_requirement_has_a_check_and_a_test(self):
        import rawthink_conformance.checks

        assert rawthink_conformance.checks
        assert CHECKS.keys() == REQUIREMENTS.keys()
        for requirement in REQUIREMENTS.values():
            assert callable(getattr(ProviderConformance, requirement.test_name))

    def test_a_promise_is_worded_alike_in_data_and_code(self):
        for requirement in REQUIREMENTS.values():
            assert " ".join(CHECKS[requirement.id].__doc__.split()) == requirement.statement
            assert getattr(ProviderConformance, requirement.test_name).__doc__ == requirement.statement

    def test_statements_and_hints_are_single_sentences_of_one_line(self):
        for requirement in REQUIREMENTS.values():
            for text in (requirement.statement, requirement.hint):
                assert text.endswith("."), requirement.id
                assert "\n" not in text

    def test_importing_the_package_imports_neither_pytest_nor_hypothesis(self):
        code = (
            "import sys, rawthink_conformance as suite; suite.plugin; suite.ProviderConformance; suite.conform;"
            "sys.exit(bool({'pytest', 'hypothesis'} & sys.modules.keys()))"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class TestNothingIsSwitchedOff:
    @pytest.mark.parametrize("name", ["test_scope.exact", "test_scope_exact"])
    @pytest.mark.parametrize("instead", [None, lambda self: None, property(lambda self: None)])
    def test_a_check_can_not_be_overridden(self, name, instead):
        with pytest.raises(TypeError, match=r"overrides test_scope\.exact"):
            type(ProviderConformance)("Mine", (ProviderConformance,), {name: instead})

    def test_not_by_a_class_in_between_either(self):
        mixin = type("Mixin", (), {"test_scope.exact": lambda self: None})
        with pytest.raises(TypeError, match=r"overrides test_scope\.exact"):
            type(ProviderConformance)("Mine", (mixin, ProviderConformance), {})

    def test_not_afterwards_either(self):
        class Mine(ProviderConformance):
            pass

        for victim in (Mine, ProviderConformance):
            with pytest.raises(TypeError, match="can be waived, not switched off"):
                setattr(victim, "test_scope.exact", None)
            with pytest.raises(TypeError, match="can be waived, not switched off"):
                delattr(victim, "test_scope.exact")
        with pytest.raises(TypeError, match="no requirement"):
            Mine.waivers = {"scope.exactly": "some reason"}

    @pytest.mark.parametrize(
        "mark", [pytest.mark.skip, pytest.mark.xfail(strict=False), pytest.mark.skipif(True, reason="x")]
    )
    def test_a_class_can_not_be_marked_away(self, mark):
        with pytest.raises(TypeError, match="waive single requirements"):
            type(ProviderConformance)("Mine", (ProviderConformance,), {"pytestmark": [mark]})
        with pytest.raises(TypeError, match="waive single requirements"):

            @mark
            class Mine(ProviderConformance):
                pass

        @pytest.mark.filterwarnings("error")
        class Fine(ProviderConformance):
            pytestmark = pytest.mark.usefixtures("tmp_path")

    def test_a_class_can_not_be_hidden(self):
        with pytest.raises(TypeError, match="hides its checks"):
            type(ProviderConformance)("TestMine", (ProviderConformance,), {"__test__": False})

    def test_a_waiver_names_a_requirement_and_has_a_reason(self):
        with pytest.raises(
            TypeError, match=r"no requirement is called 'scope\.exactly'; did you mean 'scope\.exact'\?"
        ):
            type(ProviderConformance)(
                "Mine", (ProviderConformance,), {"waivers": {"scope.exactly": "some reason"}}
            )
        with pytest.raises(TypeError, match="needs a reason"):
            type(ProviderConformance)("Mine", (ProviderConformance,), {"waivers": {"scope.exact": " "}})

    def test_waivers_may_lie_in_a_file_beside_the_class(self, tmp_path, monkeypatch):
        (tmp_path / "test_mine.py").write_text(
            "from rawthink_conformance import ProviderConformance\n"
            "class TestMine(ProviderConformance):\n"
            '    waivers = {"scope.exact": "in code"}\n'
            '    waiver_file = "waivers.toml"\n',
            encoding="utf-8",
        )
        (tmp_path / "waivers.toml").write_text('text.long = "cut at 100 kB"\n', encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        import test_mine

        assert test_mine.TestMine.waivers == {"text.long": "cut at 100 kB", "scope.exact": "in code"}

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('text.lnog = "why"', r"no requirement is called 'text\.lnog'; did you mean 'text\.long'"),
            ('text.long = ""', r"'text\.long' needs a reason"),
            ("text.long = true", r"text\.long must be a reason in quotes"),
            ("text.long", "is no TOML"),
            (None, "can't be read"),
        ],
    )
    def test_a_waiver_file_that_is_wrong_is_refused_by_name(self, text, words, tmp_path):
        path = tmp_path / "waivers.toml"
        if text is not None:
            path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=f"waivers.toml.*{words}"):
            read_waivers(path)

    def test_a_waiver_turns_a_failure_into_waived_and_shows_why(self):
        broken = REQUIREMENTS["revise.retraction"]
        result = run_check(broken, Specimen(revising.NeverRetracts), {broken.id: "asked for in #42"})
        assert result.outcome == "waived"
        assert "asked for in #42" in result.detail
        assert "a revision needs a successor" in result.detail
        with pytest.raises(pytest.xfail.Exception, match="asked for in #42"):
            tell_pytest(result)

    def test_a_stale_waiver_fails(self):
        kept = REQUIREMENTS["revise.retraction"]
        result = run_check(kept, Specimen(ReferenceProvider), {kept.id: "asked for in #42"})
        assert result.outcome == "failed"
        assert "stale waiver" in result.detail

    def test_a_waiver_of_what_does_not_bind_is_stale_too(self):
        result = run_check(REQUIREMENTS["get.order"], Specimen(SearchOnly), {"get.order": "not yet"})
        assert (result.outcome, result.detail) == ("failed", "stale waiver: `get` is not declared (not yet)")

    def test_a_failure_tells_what_was_promised_seen_and_where_to_look(self):
        broken = REQUIREMENTS["get.order"]
        from rawthink_conformance.mutants.reading import TurnedItems

        said = r"(?s)get\.order.*promised:.*seen:.*hint:.*check: rawthink_conformance/checks/reading\.py:\d+$"
        with pytest.raises(Broken, match=said) as failure:
            tell_pytest(run_check(broken, Specimen(TurnedItems), {}))
        cause = failure.value.__cause__
        assert isinstance(cause, Broken)
        assert (
            Path(cause.__traceback__.tb_frame.f_code.co_filename).name == "reading.py"
        )  # the check, at once

    def test_of_long_values_the_part_is_shown_where_they_begin_to_differ(self):
        said = r"of it: seen …a+b' \(2003 characters\), promised …a+c+… \(2902 characters\)$"
        with pytest.raises(Broken, match=said) as failure:
            equal("a" * 2000 + "b", "a" * 2000 + "c" * 900, "the end of it")
        assert len(str(failure.value)) < 1400
        with pytest.raises(Broken, match=r"^it: seen \[1\], promised \[2\]$"):
            equal([1], [2], "it")


class SearchOnly(Declares):
    """Declares hardly anything, and refuses the rest."""

    changes = dict.fromkeys(Capability) | {
        Capability.LEXICAL: "yes",
        Capability.READ_YOUR_WRITES: "at once",
        Capability.RANKING: "native",
        Capability.FILTERS: "after",
    }

    async def refuse(self, request, *_):
        raise self._unsupported(self.refused, request)

    def __getattribute__(self, name):
        capabilities = object.__getattribute__(self, "__dict__").get("info")
        if capabilities and name in set(Capability) and not capabilities.can(Capability(name)):
            self.refused = name
            return self.refuse if name != "export" else self.refuse_export
        return super().__getattribute__(name)

    def refuse_export(self, request):
        raise self._unsupported("export", request)


class TestWhatIsNotDeclared:
    @pytest.mark.parametrize(
        ("requirement", "reason"),
        [
            ("get.order", "`get` is not declared"),
            ("forget.files", "`forget` is not declared"),
            ("export.order", "`export` is not declared"),
            ("restore.times", "`restore` is not declared"),
            ("time.as_of", "`as_of` is not declared"),
            ("search.ties", "`ranking` is declared as 'native'"),
            ("writes.second_instance", "`processes` is not declared"),
            ("time.lapsed", ""),
            ("search.limit", ""),
            ("search.filters_first", ""),
            ("search.relevant_only", ""),
            ("vocabulary.closed", "can only be seen through `get`"),
            ("write.faults", ""),
            ("scope.statistics", ""),
            ("unsupported.typed", "as_of"),
        ],
    )
    def test_is_unsupported_and_not_failed(self, requirement, reason):
        result = run_check(REQUIREMENTS[requirement], Specimen(SearchOnly), {})
        if requirement in ("time.as_of", "unsupported.typed"):  # it answers `as_of`, and must refuse it
            assert result.outcome == "failed", result
        else:
            assert result.outcome == ("unsupported" if reason else "passed"), result
            assert reason in result.detail

    def test_pytest_skips_it_and_says_why(self):
        result = run_check(REQUIREMENTS["get.order"], Specimen(SearchOnly), {})
        with pytest.raises(pytest.skip.Exception, match="unsupported: `get` is not declared"):
            tell_pytest(result)


class Lagging(Declares):
    """Shows what is new a moment after it was written."""

    changes = {Capability.READ_YOUR_WRITES: "seconds"}  # noqa: RUF012 - read only
    written = {}  # noqa: RUF012 - shared on purpose: who reopens sees the lag too

    def _keep(self, commit):
        super()._keep(commit)
        self.written[commit.id] = time.monotonic()

    def _standing(self, space, as_of=None):
        late = {
            commit.id
            for commit in self._shelf.commits
            if time.monotonic() - self.written.get(commit.id, 0) < 0.1
        }
        new = {
            row["id"]
            for c in self._shelf.commits
            if c.id in late
            for row in c.rows
            if row["op"] == "observation"
        }
        return {item: state for item, state in super()._standing(space, as_of).items() if item not in new}


class TestGrades:
    @pytest.mark.parametrize("requirement", ["revise.standing", "writes.read", "revise.search", "search.hit"])
    def test_a_provider_whose_reads_lag_passes_when_it_says_so(self, requirement):
        result = run_check(REQUIREMENTS[requirement], Specimen(Lagging), {})
        assert result.outcome == "passed", result

    def test_it_fails_when_it_does_not_say_so(self):
        class Silent(Lagging):
            changes = {}  # noqa: RUF012 - read only

        assert run_check(REQUIREMENTS["writes.read"], Specimen(Silent), {}).outcome == "failed"

    def test_a_provider_that_filters_late_passes_when_it_says_so(self):
        class Late(searching.FiltersAfterTopK, Declares):
            changes = {Capability.FILTERS: "after"}  # noqa: RUF012 - read only

        assert run_check(REQUIREMENTS["search.filters_first"], Specimen(Late), {}).outcome == "passed"


def test_a_check_that_hangs_fails(monkeypatch):
    import asyncio

    from rawthink_conformance import checking

    class Hangs(ReferenceProvider):
        async def search(self, query):
            await asyncio.sleep(60)

    monkeypatch.setattr(checking, "CHECK_SECONDS", 0.2)
    result = run_check(REQUIREMENTS["search.first"], Specimen(Hangs), {})
    assert result.outcome == "failed"
    assert "0.2 s" in result.detail


class WithoutVectors(Declares):
    """Has no use for an embedder."""

    changes = {Capability.DENSE: None}  # noqa: RUF012 - read only


def test_checks_by_meaning_bind_who_declares_vectors_in_a_world_with_an_embedder():
    finds = REQUIREMENTS["dense.finds"]
    assert run_check(finds, Specimen(ReferenceProvider), {}).outcome == "passed"
    assert run_check(finds, Specimen(WithoutVectors), {}).outcome == "unsupported"


class NeverOpens(ReferenceProvider):
    """Can't be opened."""

    async def open(self):
        raise BackendUnavailable("the server is not there; start it")


def test_a_provider_that_does_not_open_fails_its_checks_and_is_reported():
    report = conform_subject(Specimen(NeverOpens), only="get.order")
    assert [result.detail for result in report.results] == [
        "BackendUnavailable: the server is not there; start it"
    ]
    assert report.provider == "reference"


class TestTheRules:
    def test_every_rule_has_clauses_and_every_clause_is_proved(self):
        assert {clause.rule for clause in CLAUSES} == set(RULES)
        unproved = [
            f"{clause.rule}.{clause.name}" for clause in CLAUSES if not (clause.checks or clause.tests)
        ]
        assert unproved == []
        for clause in CLAUSES:
            assert clause.says.endswith(".")
            assert bool(clause.tests) == (clause.holder in ("memory", "host")), clause
            assert [test for test in clause.tests if not (ROOT / test).is_file()] == []

    def test_every_requirement_is_part_of_a_clause_of_its_rule(self):
        named = {(clause.rule, check) for clause in CLAUSES for check in clause.checks}
        promised = {(requirement.rule, requirement.id) for requirement in REQUIREMENTS.values()}
        assert promised - named == set()


class TestThePages:
    def test_a_page_whose_data_is_stale_is_refused(self):
        reports = load((ROOT / "docs" / "conformance.json").read_bytes())
        assert stale(reports) == ""
        fewer = replace(reports[0], results=reports[0].results[1:])
        assert f"other requirements: {reports[0].results[0].requirement.id}" in stale([fewer])
        reworded = Report.of(
            reports[0].plain() | {"results": [r | {"statement": "x"} for r in reports[0].plain()["results"]]}
        )
        assert "other requirements" in stale([reworded])

    def test_what_was_dumped_is_loaded_and_a_fresh_report_takes_the_place_of_the_old(self):
        one, other = (Report(name, {"get": "yes"}, (), {"python": "3"}) for name in ("one", "other"))
        assert load(dump([one, other])) == [one, other]
        fresh = replace(one, versions={"python": "4"})
        assert merged([one, other], [fresh]) == [fresh, other]
        with pytest.raises(ConfigError, match="no document of conformance reports"):
            load(b"[]")
