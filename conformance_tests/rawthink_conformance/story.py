"""Stories of the state machine: replays them, shortens them, and writes them down as scripts to run."""

from __future__ import annotations

import inspect
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rawthink_conformance.expect import Broken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Step = tuple[str, dict[str, Any]]

_SCRIPT = '''"""A story in which a provider and the reference differ: run it, and it fails in the same way."""

import datetime  # noqa: F401
import sys

sys.path[:0] = {paths!r}

{imports}
from rawthink_conformance.machine import replay


def story(both):
{lines}


replay({subject}, story)
'''


class Machine(Protocol):
    """What can be driven: `machine.Lockstep`."""

    def begin(self) -> None:
        """Open both providers."""
        ...

    def they_agree(self) -> None:
        """Compare them."""
        ...

    def teardown(self) -> None:
        """Compare once more, and close both."""
        ...


class Driven:
    """A machine that compares after every step that it is told to take."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __getattr__(self, name: str) -> Callable[..., None]:
        move = getattr(self._machine, name)

        def step(**arguments: Any) -> None:
            move(**arguments)
            self._machine.they_agree()

        return step


def tell(machine: Machine, story: Callable[[Any], None]) -> None:
    """Let a machine live a story. Raises Broken where the two differ."""
    try:
        machine.begin()
        machine.they_agree()
        story(Driven(machine))
    except BaseException:
        with suppress(Broken):  # they differ, as has been said
            machine.teardown()
        raise
    machine.teardown()


def retold(steps: Sequence[Step]) -> Callable[[Any], None]:
    """Return steps as a story."""

    def story(both: Any) -> None:
        for name, arguments in steps:
            getattr(both, name)(**arguments)

    return story


def shortened(
    steps: list[Step], failure: Callable[[list[Step]], Broken | None], seconds: float
) -> list[Step]:
    """Leave out steps, ever smaller runs of them, as long as the story still fails; stop when time is up."""
    end, size = time.monotonic() + seconds, max(len(steps) // 2, 1)
    while time.monotonic() < end:
        for shorter in _without_a_run(steps, size):
            if time.monotonic() > end:
                return steps
            if failure(shorter) is not None:
                steps = shorter
                break
        else:
            if size == 1:
                return steps
            size //= 2
    return steps


def _without_a_run(steps: list[Step], size: int) -> Iterator[list[Step]]:
    for begin in range(len(steps) - size, -size, -size):
        yield steps[: max(begin, 0)] + steps[begin + size :]


def script(subject: Any, steps: Sequence[Step]) -> str:
    """Return a story as a script that replays it on the same subject."""
    paths, imports, code = _code_of(subject)
    lines = [f"    both.{name}({_arguments(arguments)})" for name, arguments in steps] or ["    pass"]
    return _SCRIPT.format(paths=paths, imports=imports, subject=code, lines="\n".join(lines))


def _arguments(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def _code_of(subject: Any) -> tuple[list[str], str, str]:
    """Return where to look for modules, what to import, and the expression that makes the subject."""
    if hasattr(subject, "as_code"):
        imports, code = subject.as_code()
        return [], imports, code
    kind = subject if inspect.isfunction(subject) or inspect.isclass(subject) else type(subject)
    module, name = kind.__module__, kind.__qualname__
    outer = name.partition(".")[0]
    if "<" in name:
        return [], f"# {name} of {module} can't be imported: make the subject here", "..."
    code = name if kind is subject else f"{name}()"
    return _paths_to(module), f"from {module} import {outer}", code


def _paths_to(module: str) -> list[str]:
    """Return the folder from which a module can be imported, where it is not found without."""
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        found = None
    inside = "site-packages" in str(file)
    if file is None or inside or (found is not None and module.startswith("rawthink")):
        return []
    return [str(Path(file).resolve().parents[module.count(".")])]
