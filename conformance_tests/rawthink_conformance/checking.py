"""Runs one check on one subject and says how it went: passed, failed, unsupported or waived."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rawthink_conformance.bench import Bench
from rawthink_conformance.expect import Broken, refused
from rawthink_conformance.requirements import REQUIREMENTS, Requirement
from rawthink_conformance.toys import ToyEmbedder
from rawthink_conformance.watching import Hung, Overheard, leftover, stuck
from rawthink_core.errors import UnsupportedOperation
from rawthink_core.operations import Maintain
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from types import TracebackType

    from rawthink_conformance.bench import Subject
    from rawthink_conformance.talking import Space
    from rawthink_core.provider import ProviderInfo

    Body = Callable[[Bench], Awaitable[None]]

Outcome = Literal["passed", "failed", "unsupported", "waived"]
CHECK_SECONDS = 180.0
BLOCK_SECONDS = 5.0  # how long a check may outlive its time before its thread is left alone
END_SECONDS = 0.5  # what a task that was told to end may take
STDOUT, TASKS = "host.stdout", "host.tasks"  # found out in every check, and waived for all of them at once
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


class NotDeclared(Exception):  # noqa: N818 - says why a check does not bind
    """A requirement is about what a provider does not declare."""


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

    @property
    def script(self) -> str:
        """A program that shows the failure, where the check could write one."""
        return getattr(self.error, "script", "")


def run_check(
    requirement: Requirement, subject: Subject, waivers: Mapping[str, str], *, deep: bool | None = None
) -> Result:
    """Check one requirement in a thread and an event loop of its own.

    A waiver turns a failure into ``waived``; where there is nothing to waive any more, it is stale and fails.
    Nothing that a provider does (but ending the process) gets out of here, not even a loop that never ends.
    """
    import rawthink_conformance.checks  # noqa: F401, PLC0415 - registers them all

    deep = bool(os.environ.get(DEEP_VARIABLE)) if deep is None else deep
    limit = DEEP_SECONDS if deep else CHECK_SECONDS
    began = time.perf_counter()
    reason = waivers.get(requirement.id)
    failure: BaseException
    try:
        with Overheard() as overheard:
            attempt = _patiently(lambda: _attempt(requirement, subject, waivers, deep=deep), limit)
        if (told := overheard.told()) and STDOUT not in waivers.keys() - {requirement.id}:
            raise Broken(told)  # noqa: TRY301 - a failure like any other
    except NotDeclared as error:
        seconds = time.perf_counter() - began
        if reason is not None:
            return Result(requirement, "failed", f"stale waiver: {error} ({reason})", seconds)
        return Result(requirement, "unsupported", str(error), seconds)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in a check is its result
        detail, failure = str(error) or type(error).__name__, error
    else:
        seconds = time.perf_counter() - began
        if attempt:
            return Result(requirement, "unsupported", attempt, seconds)
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


def _patiently(attempt: Callable[[], Coroutine[Any, Any, str]], limit: float) -> str:
    """Run a coroutine in a thread that can be left alone. Raises Hung where it does not end."""
    done: list[str | BaseException] = []

    def work() -> None:
        try:
            done.append(asyncio.run(asyncio.wait_for(attempt(), limit)))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            done.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    thread.start()
    thread.join(limit + BLOCK_SECONDS)
    if not done:
        raise Hung(f"{stuck(thread.ident or 0)}; it was left alone after {limit + BLOCK_SECONDS:g} s")
    (outcome,) = done
    match outcome:
        case str():
            return outcome
        case TimeoutError():
            raise Hung(f"took more than {limit:g} s, or timed out: {outcome}") from outcome
        case Exception():
            raise outcome
        case _:
            raise Broken(f"the check was ended by {type(outcome).__name__}: {outcome}") from outcome


async def _attempt(
    requirement: Requirement, subject: Subject, waivers: Mapping[str, str], *, deep: bool
) -> str:
    """Run a check; return why nothing can be seen, or an empty text. Raises NotDeclared."""
    before = asyncio.all_tasks()
    unseen = await _body(requirement, subject, deep=deep)
    tasks = asyncio.all_tasks() - before - {asyncio.current_task()}
    if tasks:
        _, tasks = await asyncio.wait(tasks, timeout=END_SECONDS)
    if tasks and TASKS not in waivers.keys() - {requirement.id}:
        raise Broken(f"after `close` these still run: {leftover(tasks)}")
    return unseen


async def _body(requirement: Requirement, subject: Subject, *, deep: bool) -> str:
    embedder = ToyEmbedder() if requirement.capability is Capability.DENSE else None
    async with Bench(subject, deep=deep, embedder=embedder) as bench:
        info = bench.provider.info
        if requirement.capability is not None and not info.can(requirement.capability):
            if (refusal := VERBS.get(requirement.capability)) is not None:
                what = f"`{requirement.capability}` is not declared, so it must be refused"
                error = await refused(UnsupportedOperation, refusal(bench.space()), what)
                if error.provider != info.name:
                    raise Broken(f"the refusal names {error.provider!r}, not {info.name!r}") from error
            raise NotDeclared(f"`{requirement.capability}` is not declared")
        if requirement.capability is not None and requirement.grades:
            grade = info.capabilities[requirement.capability]
            if grade not in requirement.grades:
                raise NotDeclared(f"`{requirement.capability}` is declared as {grade!r}")
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
