"""Runs the suite on an installed provider in a process of its own, so that not even a crash ends the run.

Where the process dies or does not come back, the check that it was at has failed, and another process goes on
with the next. `main` is that process: it reads what to check from its standard input, and tells what happens
on what was its standard output, which the provider can't reach.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from rawthink_conformance.checking import BLOCK_SECONDS, CHECK_SECONDS, DEEP_SECONDS, Result, run_check
from rawthink_conformance.choosing import choose
from rawthink_conformance.expect import Broken
from rawthink_conformance.report import Report, versions
from rawthink_conformance.requirements import REQUIREMENTS, Requirement
from rawthink_conformance.runner import ENOUGH, information, installed
from rawthink_conformance.waiving import check_waivers
from rawthink_conformance.watching import Hung

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

GRACE_SECONDS = 60.0  # beyond the time of a check: it writes its story, and clears away


@dataclass(frozen=True, slots=True)
class Told:
    """A result as it comes from the other process."""

    id: str
    outcome: Any
    detail: str
    seconds: float
    where: str
    script: str
    hung: bool

    def result(self) -> Result:
        """Return the result."""
        error = (Hung if self.hung else Broken)(self.detail)
        error.script = self.script
        return Result(REQUIREMENTS[self.id], self.outcome, self.detail, self.seconds, self.where, error)


def supervised(
    name: str,
    *,
    only: str = "",
    waivers: Mapping[str, str] | None = None,
    deep: bool = False,
    note: str = "",
    told: Callable[[Result], None] | None = None,
) -> Report:
    """Check an installed provider in processes of its own; arguments and errors as `runner.conform`.

    ``note`` is kept with the versions of the report.
    """
    left, given = choose(only), dict(waivers or {})
    check_waivers(given)
    installed(name).close()  # what can't be loaded or set up is told at once
    results: list[Result] = []
    about: tuple[str, dict[str, str], dict[str, str]] = (name, {}, {})
    observed: dict[str, str] = {}
    while left and _spent(results) < ENOUGH:
        for message in _run(name, left, given, deep=deep):
            if isinstance(message, Result):
                results.append(message)
                left = left[1:]
                if told is not None:
                    told(message)
            elif isinstance(message, dict):
                observed |= message
            else:
                about = message
    why = f"not tried: {ENOUGH} checks before it have hung or crashed"
    results += [Result(requirement, "failed", why) for requirement in left]
    provider, capabilities, known = about
    known |= {"note": note} if note else {}
    return Report(provider, capabilities, tuple(results), known, observed)


def _spent(results: Sequence[Result]) -> int:
    return sum(isinstance(result.error, Hung) for result in results)


def _run(name: str, left: Sequence[Requirement], waivers: Mapping[str, str], *, deep: bool) -> Iterator[Any]:
    """Yield the results of one process until it ends; the last is of the check at which it died."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from rawthink_conformance.supervising import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    with process:
        messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        if process.stdin is None or process.stdout is None:
            return
        threading.Thread(target=_listen, args=(process.stdout, messages), daemon=True).start()
        with process.stdin as calls:
            pickle.dump((name, [requirement.id for requirement in left], dict(waivers), deep), calls)
        limit = (DEEP_SECONDS if deep else CHECK_SECONDS) + BLOCK_SECONDS + GRACE_SECONDS
        pending = list(left)
        while True:
            try:
                message = messages.get(timeout=limit)
            except queue.Empty:
                process.kill()
                message = None
            if isinstance(message, Told):
                pending.pop(0)
                yield message.result()
            elif message is not None:
                yield message
            else:
                break
        if pending:
            process.wait()
            yield _death(pending[0], waivers, process.returncode)


def _listen(pipe: IO[bytes], messages: queue.SimpleQueue[Any]) -> None:
    try:
        with suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while True:
                messages.put(pickle.load(pipe))  # noqa: S301 - of our own process
    finally:
        messages.put(None)


def _death(requirement: Requirement, waivers: Mapping[str, str], code: int) -> Result:
    how = f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.strsignal(-code)})"
    detail = f"the process of the provider ended in this check, with {how}"
    reason = waivers.get(requirement.id)
    if reason is not None:
        return Result(requirement, "waived", f"{reason} (seen: {detail})", error=Hung(detail))
    return Result(requirement, "failed", detail, error=Hung(detail))


# --- the other side -----------------------------------------------------------------------------


def main() -> None:
    """Check what standard input names, and tell each result."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does not disturb
    name, ids, waivers, deep = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own process
    subject, hung = installed(name), 0
    try:
        for requirement in ids:
            if hung == ENOUGH:
                break
            result = run_check(REQUIREMENTS[requirement], subject, waivers, deep=deep)
            hung += isinstance(result.error, Hung)
            _send(answers, _told(result))
        info = information(subject)
        capabilities = {str(capability): grade for capability, grade in info.capabilities.items()}
        _send(answers, (info.name, capabilities, versions(info)))
    finally:
        observed = subject.close()
    _send(answers, observed)
    answers.close()
    os._exit(0)  # a thread that hangs, of a provider that was left alone, would keep the process


def _told(result: Result) -> Told:
    hung = isinstance(result.error, Hung)
    identity, seconds = result.requirement.id, result.seconds
    return Told(identity, result.outcome, result.detail, seconds, result.where, result.script, hung)


def _send(answers: IO[bytes], message: object) -> None:
    pickle.dump(message, answers)
    answers.flush()
