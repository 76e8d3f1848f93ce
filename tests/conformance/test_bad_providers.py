"""Whatever a provider does wrong is a failure with a name and a culprit; the suite itself always comes through."""

import asyncio
import os
import sys
import time

import pytest

from rawthink_conformance import REQUIREMENTS, ReferenceProvider, checking, watching
from rawthink_conformance.checking import run_check
from rawthink_conformance.mutants import Specimen
from rawthink_conformance.mutants.robustness import Declares
from rawthink_conformance.runner import conform_subject
from rawthink_core.operations import SearchPage
from rawthink_core.provider import Capability


class HangsForGood(ReferenceProvider):
    async def search(self, query):
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if asyncio.current_task().cancelling() > 2:
                    raise


class Waits(ReferenceProvider):
    async def search(self, query):
        await asyncio.sleep(60)


class BlocksTheLoop(ReferenceProvider):
    async def search(self, query):
        time.sleep(6)  # noqa: ASYNC251 - that is the fault


class CrashesOnOpen(ReferenceProvider):
    async def open(self):
        raise ZeroDivisionError("no disk")


class ExitsOnOpen(ReferenceProvider):
    async def open(self):
        sys.exit(3)


class LeaksTasks(ReferenceProvider):
    async def open(self):
        await super().open()
        self.task = asyncio.ensure_future(self.poll())

    async def poll(self):
        await asyncio.sleep(60)


class Prints(ReferenceProvider):
    async def search(self, query):
        print("searching")  # noqa: T201 - that is the fault
        return await super().search(query)


class PrintsFromBelow(ReferenceProvider):
    async def search(self, query):
        os.write(1, b"searching\n")
        return await super().search(query)


class AnswersAList(ReferenceProvider):
    async def search(self, query):
        return []


class IsNoCoroutine(ReferenceProvider):
    def search(self, query):
        return SearchPage()


class ExportsAList(ReferenceProvider):
    def export(self, request):
        return []


class ExportsRows(ReferenceProvider):
    async def export(self, request):
        yield {"op": "entity"}


class RaisesItsOwn(ReferenceProvider):
    async def search(self, query):
        raise KeyError("term")


class TimesOutByItself(ReferenceProvider):
    async def search(self, query):
        raise TimeoutError("the engine")


class FailsToClose(ReferenceProvider):
    async def close(self):
        raise OSError("disk full")


class HasNoInfo(ReferenceProvider):
    def _settle(self, zone):
        super()._settle(zone)
        self.info = {"name": "mine"}


class IsNoProvider:
    def __init__(self, world):
        pass


class CanNotBeMade:
    def __init__(self, world):
        raise ValueError("no such table")


class LiesAboutForgetting(Declares):
    changes = {Capability.EXPORT: "yes"}  # noqa: RUF012 - read only

    def export(self, request):
        raise self._unsupported("export", request)


class LiesAboutItsVersion(ReferenceProvider):
    def _settle(self, zone):
        super()._settle(zone)
        object.__setattr__(self.info, "version", 2.0)


FIRST = "search.first"
BAD = [
    (HangsForGood, FIRST, ["Hung: `search` did not end when it was cancelled"]),
    (Waits, FIRST, ["`search` did not answer within 0.5 s"]),
    (
        BlocksTheLoop,
        FIRST,
        ["Hung: `search` has blocked the event loop, at conformance/test_bad_providers.py:", "in search"],
    ),
    (
        CrashesOnOpen,
        FIRST,
        ["`open` raised its own ZeroDivisionError: no disk at conformance/test_bad_providers.py:"],
    ),
    (ExitsOnOpen, FIRST, ["`open` raised its own SystemExit: 3"]),
    (
        LeaksTasks,
        FIRST,
        ["after `close` these still run: LeaksTasks.poll at conformance/test_bad_providers.py:"],
    ),
    (
        Prints,
        FIRST,
        [
            "'searching\\n",
            "was printed to standard output by conformance/test_bad_providers.py:",
            "in search",
        ],
    ),
    (PrintsFromBelow, FIRST, ["b'searching\\n", "below Python"]),
    (AnswersAList, FIRST, ["`search` answered a list, not SearchPage"]),
    (IsNoCoroutine, FIRST, ["`search` returned a SearchPage at once; it must be `async def`"]),
    (ExportsAList, "export.order", ["`export` returned a list; it must yield commits"]),
    (ExportsRows, "export.order", ["`export` yielded a dict, not a Commit"]),
    (RaisesItsOwn, FIRST, ["`search` raised its own KeyError: 'term' at conformance/test_bad_providers.py:"]),
    (TimesOutByItself, FIRST, ["`search` raised its own TimeoutError: the engine"]),
    (FailsToClose, FIRST, ["`close` raised its own OSError: disk full"]),
    (HasNoInfo, FIRST, ["`info` is a dict, not a ProviderInfo"]),
    (IsNoProvider, FIRST, ["IsNoProvider has no `open`; subclass `BaseProvider`"]),
    (CanNotBeMade, FIRST, ["`make_provider` raised its own ValueError: no such table at"]),
    (LiesAboutForgetting, "unsupported.typed", ["`export` is declared, yet refused"]),
    (LiesAboutItsVersion, "info.declares", ["its version must be text, not 2.0"]),
]


@pytest.fixture
def little_patience(monkeypatch):
    monkeypatch.setattr(watching, "VERB_SECONDS", 0.5)
    monkeypatch.setattr(checking, "CHECK_SECONDS", 2)
    monkeypatch.setattr(checking, "BLOCK_SECONDS", 0.5)


@pytest.mark.parametrize(("bad", "requirement", "words"), BAD, ids=[bad.__name__ for bad, *_ in BAD])
def test_it_fails_and_the_culprit_is_named(bad, requirement, words, request):
    if bad in (HangsForGood, Waits, BlocksTheLoop):
        request.getfixturevalue("little_patience")
    result = run_check(REQUIREMENTS[requirement], Specimen(bad), {})
    assert result.outcome == "failed"
    said = f"{type(result.error).__name__}: {result.detail}"
    assert not [word for word in words if word not in said], said


def test_what_is_seen_in_every_check_can_be_waived_once_for_all():
    waivers = {"host.stdout": "its engine greets; asked for in #7"}
    assert run_check(REQUIREMENTS[FIRST], Specimen(Prints), waivers).outcome == "passed"
    assert run_check(REQUIREMENTS["host.stdout"], Specimen(Prints), waivers).outcome == "waived"
    waivers = {"host.tasks": "asked for in #8"}
    assert run_check(REQUIREMENTS[FIRST], Specimen(LeaksTasks), waivers).outcome == "passed"
    assert run_check(REQUIREMENTS["host.tasks"], Specimen(LeaksTasks), waivers).outcome == "waived"


@pytest.mark.parametrize("bad", [CrashesOnOpen, IsNoProvider, CanNotBeMade, HasNoInfo])
def test_a_report_is_made_all_the_same(bad):
    report = conform_subject(Specimen(bad), only="get.order or info")
    assert {result.outcome for result in report.results} == {"failed"}
    assert report.provider == ("reference" if bad is CrashesOnOpen else bad.__name__)


def test_of_a_provider_that_hangs_three_checks_are_enough(little_patience):
    report = conform_subject(Specimen(Waits), only="search.f or search.l")
    assert [result.outcome for result in report.results] == ["failed"] * len(report.results)
    assert "not tried" in report.results[-1].detail
    assert sum("not tried" not in result.detail for result in report.results) == 3
