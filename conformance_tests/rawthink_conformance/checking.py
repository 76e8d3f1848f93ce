"""Runs one check on one subject and says how it went: passed, failed, unsupported or waived."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rawthink_conformance.bench import Bench
from rawthink_conformance.expect import refused
from rawthink_conformance.requirements import REQUIREMENTS, Requirement
from rawthink_conformance.toys import ToyEmbedder
from rawthink_core.errors import UnsupportedOperation
from rawthink_core.operations import Maintain
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType

    from rawthink_conformance.bench import Subject
    from rawthink_conformance.talking import Space
    from rawthink_core.provider import ProviderInfo

    Body = Callable[[Bench], Awaitable[None]]

Outcome = Literal["passed", "failed", "unsupported", "waived"]
CHECK_SECONDS = 180.0
DEEP_SECONDS = 3600.0
_CHECKS = Path(__file__).parent / "checks"
DEEP_VARIABLE = "RAWTHINK_CONFORM_DEEP"  # set it to run the state machine at length under pytest too

CHECKS: dict[str, Body] = {}


def check(requirement: str) -> Callable[[Body], Body]:
    """Register an async function as the check of a requirement."""

    def register(body: Body) -> Body:
        if requirement not in REQUIREMENTS:
            raise LookupError(f"no requirement is called {requirement!r}")
        if requirement in CHECKS:
            raise LookupError(f"{requirement!r} has a check already")
        CHECKS[requirement] = body
        return body

    return register


class Unseen(Exception):  # noqa: N818 - says why a check has no answer
    """A check can't look where it must: nothing is known, for better or worse."""


@dataclass(frozen=True, slots=True)
class Result:
    """How the check of one requirement went. ``detail`` says why it did not simply pass.

    ``where`` is the line of the check that did not get what it wanted.
    """

    requirement: Requirement
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0
    where: str = ""
    error: BaseException | None = field(default=None, compare=False)


def run_check(
    requirement: Requirement, subject: Subject, waivers: Mapping[str, str], *, deep: bool | None = None
) -> Result:
    """Check one requirement in an event loop of its own.

    A waiver turns a failure into ``waived``; where there is nothing to waive any more, it is stale and fails.
    """
    import rawthink_conformance.checks  # noqa: F401, PLC0415 - registers them all

    deep = bool(os.environ.get(DEEP_VARIABLE)) if deep is None else deep
    limit = DEEP_SECONDS if deep else CHECK_SECONDS
    began = time.perf_counter()
    reason = waivers.get(requirement.id)
    failure: Exception
    try:
        detail = asyncio.run(asyncio.wait_for(_attempt(requirement, subject, deep=deep), limit))
    except TimeoutError as error:
        detail, failure = f"took more than {limit:g} s, or timed out: {error}", error
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in a check is its result
        detail, failure = str(error) or type(error).__name__, error
    else:
        seconds = time.perf_counter() - began
        if detail:
            return Result(requirement, "unsupported", detail, seconds)
        if reason is not None:
            return Result(requirement, "failed", f"stale waiver: it passes now ({reason})", seconds)
        return Result(requirement, "passed", "", seconds)
    seconds, where = time.perf_counter() - began, _cut_to_the_check(failure)
    if reason is not None:
        return Result(requirement, "waived", f"{reason} (seen: {detail})", seconds, where, failure)
    if not isinstance(failure, AssertionError):
        detail = f"{type(failure).__name__}: {detail}"
    return Result(requirement, "failed", detail, seconds, where, failure)


def _cut_to_the_check(error: Exception) -> str:
    """Leave what ran the check out of a traceback; return the last line of a check that is in it."""
    frames, last = error.__traceback__, ""
    while frames is not None and not _of_a_check(frames):
        frames = frames.tb_next
    if frames is not None:
        error.__traceback__ = frames
    while frames is not None:
        if _of_a_check(frames):
            file = Path(frames.tb_frame.f_code.co_filename).name
            last = f"rawthink_conformance/checks/{file}:{frames.tb_lineno}"
        frames = frames.tb_next
    return last


def _of_a_check(frame: TracebackType) -> bool:
    return Path(frame.tb_frame.f_code.co_filename).parent == _CHECKS


async def _attempt(requirement: Requirement, subject: Subject, *, deep: bool) -> str:
    """Run a check; return why it does not apply, or an empty text."""
    embedder = ToyEmbedder() if requirement.capability is Capability.DENSE else None
    async with Bench(subject, deep=deep, embedder=embedder) as bench:
        info = bench.provider.info
        if requirement.capability is not None and not info.can(requirement.capability):
            if (refusal := VERBS.get(requirement.capability)) is not None:
                what = f"`{requirement.capability}` is not declared, so it must be refused"
                error = await refused(UnsupportedOperation, refusal(bench.space()), what)
                if error.provider != info.name:
                    raise AssertionError(
                        f"the refusal names {error.provider!r}, not {info.name!r}"
                    ) from error
            return f"`{requirement.capability}` is not declared"
        if requirement.capability is not None and requirement.grades:
            grade = info.capabilities[requirement.capability]
            if grade not in requirement.grades:
                return f"`{requirement.capability}` is declared as {grade!r}"
        try:
            await CHECKS[requirement.id](bench)
        except Unseen as error:
            return str(error)
        except UnsupportedOperation as error:
            if _declared(error.operation, info):
                raise
            return f"can only be seen through `{error.operation}`, which is not declared"
        return ""


def _declared(verb: str, info: ProviderInfo) -> bool:
    return verb not in set(Capability) or info.can(Capability(verb))


# For each capability that has a verb or an argument of its own: the smallest call that needs it.
VERBS: Mapping[Capability, Callable[[Space], Awaitable[object]]] = {
    Capability.GET: lambda space: space.get("an id"),
    Capability.SCAN: lambda space: space.scan(),
    Capability.GRAPH: lambda space: space.graph("a name"),
    Capability.HISTORY: lambda space: space.history(name="a name"),
    Capability.FORGET: lambda space: space.forget(ids=["an id"]),
    Capability.EXPORT: lambda space: space.export(),
    Capability.RESTORE: lambda space: space.restore([]),
    Capability.MAINTAIN: lambda space: space.provider.maintain(Maintain(scope=space.scope)),
    Capability.AS_OF: lambda space: space.search("words", as_of="2026-01-01"),
    Capability.VALID_AT: lambda space: space.search("words", valid_at="2026-01-01"),
}
