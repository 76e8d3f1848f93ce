"""The suite itself: its data is whole, nothing can be switched off, and what is not declared must refuse."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from rawthink_conformance import REQUIREMENTS, ProviderConformance, ReferenceProvider
from rawthink_conformance.checking import CHECKS, run_check
from rawthink_conformance.expect import Broken, equal
from rawthink_conformance.mutants import Specimen, revising, searching
from rawthink_conformance.mutants.robustness import Declares
from rawthink_conformance.requirements import RULES
from rawthink_conformance.runner import conform_subject
from rawthink_conformance.suite import tell_pytest
from rawthink_core.errors import BackendUnavailable
from rawthink_core.provider import Capability


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

    def test_every_rule_has_a_requirement_but_the_one_that_memory_holds_alone(self):
        assert set(RULES) - {requirement.rule for requirement in REQUIREMENTS.values()} == {"12"}

    def test_importing_the_package_imports_neither_pytest_nor_hypothesis(self):
        code = (
            "import sys, rawthink_conformance as suite; suite.plugin; suite.ProviderConformance; suite.conform;"
            "sys.exit(bool({'pytest', 'hypothesis'} & sys.modules.keys()))"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class TestNothingIsSwitchedOff:
    @pytest.mark.parametrize("instead", [None, lambda self: None, property(lambda self: None)])
    def test_a_check_can_not_be_overridden(self, instead):
        with pytest.raises(TypeError, match="overrides test_scope_exact"):
            type("Mine", (ProviderConformance,), {"test_scope_exact": instead})

    def test_not_by_a_class_in_between_either(self):
        mixin = type("Mixin", (), {"test_scope_exact": lambda self: None})
        with pytest.raises(TypeError, match="overrides test_scope_exact"):
            type("Mine", (mixin, ProviderConformance), {})

    @pytest.mark.parametrize("mark", [pytest.mark.skip, pytest.mark.xfail(strict=False)])
    def test_a_class_can_not_be_marked_away(self, mark):
        with pytest.raises(TypeError, match="waive single requirements"):
            type("Mine", (ProviderConformance,), {"pytestmark": [mark]})
        type("Mine", (ProviderConformance,), {"pytestmark": pytest.mark.usefixtures()})

    def test_a_waiver_names_a_requirement_and_has_a_reason(self):
        with pytest.raises(TypeError, match="no requirement"):
            type("Mine", (ProviderConformance,), {"waivers": {"scope.exactly": "some reason"}})
        with pytest.raises(TypeError, match="without a reason"):
            type("Mine", (ProviderConformance,), {"waivers": {"scope.exact": " "}})

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
    report = conform_subject(Specimen(NeverOpens), only="get.")
    assert [result.detail for result in report.results] == [
        "BackendUnavailable: the server is not there; start it"
    ]
    assert report.provider == "reference"
