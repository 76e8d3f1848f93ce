"""A second process: it makes the same provider on the same world, does what it is told, and can be killed.

The subject is pickled, so the class of a test must stand at the top of a module, and its instance must hold
nothing that can't be pickled. Run as a module, this file is that process; it reads calls from its standard
input and answers on what was its standard output, which the provider can't reach.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rawthink_conformance.expect import Broken
from rawthink_conformance.watching import Hung, watched
from rawthink_core.clock import CountingIds, ManualClock
from rawthink_core.errors import RawThinkError
from rawthink_core.provider import World

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from rawthink_conformance.bench import Subject
    from rawthink_core.operations import Batch, RecordReceipt
    from rawthink_core.provider import Provider

CALL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """A world as it goes to another process: without clock and ids, which that one makes for itself."""

    path: Path
    cache: Path | None
    state: Path | None
    timezone: str | None
    now: datetime
    name: str

    def world(self) -> World:
        """Return it as a world, with a frozen clock and counted ids."""
        clock, ids = ManualClock(self.now), CountingIds(self.name)
        return World(self.path, clock, ids, timezone=self.timezone, cache=self.cache, state=self.state)


def carried(subject: Subject) -> bytes:
    """Return a subject as bytes. Raises Broken where it can't be taken into another process."""
    try:
        return pickle.dumps(subject)
    except Exception as error:
        raise Broken(
            f"{type(subject).__name__} can't be taken into another process ({error}): define it at the top "
            "of a module, and keep on its instance only what can be pickled"
        ) from error


class Elsewhere:
    """A process with the provider of a subject, not opened yet. `kill` it, or let it end with `close`."""

    def __init__(self, subject: Subject, world: World, name: str) -> None:
        where = Place(world.path, world.cache, world.state, world.timezone, world.clock.now(), name)
        kind = type(subject)
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        self._job = (kind.__module__, file, carried(subject), where)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        paths = [str(Path(path).resolve()) for path in (*sys.path, str(Path.cwd())) if path]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rawthink_conformance.elsewhere"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self._begin(self._job)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def call(self, verb: str, *args: Any) -> Any:
        """Call a verb there. Raises Broken with what it raised, or with how the process ended."""
        self._begin((verb, args))
        kind, answer = await self._told(verb)
        if kind != "answer":
            raise Broken(f"in another process, `{verb}` raised {kind}: {answer}")
        return answer

    async def attempt(self, batch: Batch) -> None:
        """Write a batch there, or be refused."""
        self.begin_record(batch)
        await self._told("record")

    async def _told(self, verb: str) -> tuple[str, Any]:
        try:
            return await asyncio.wait_for(asyncio.to_thread(self._answer), CALL_SECONDS)
        except TimeoutError as error:
            self.kill()
            raise Hung(f"in another process, `{verb}` did not answer within {CALL_SECONDS:g} s") from error
        except (EOFError, pickle.UnpicklingError) as error:
            self._process.kill()
            self._process.wait()
            raise Broken(f"the other process ended in `{verb}` ({self._last_words()})") from error

    async def record(self, batch: Batch) -> RecordReceipt:
        """Write a batch there."""
        receipt: RecordReceipt = await self.call("record", batch)
        return receipt

    def begin_record(self, batch: Batch) -> None:
        """Tell it to write a batch, and don't wait."""
        self._begin(("record", (batch,)))

    def kill(self) -> None:
        """End the process at once, as kill -9 does: it can neither flush nor release anything."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Let the process end by itself, its provider closed, and wait for it."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()
        try:
            self._process.wait(CALL_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if not self._said.closed:
            self._said.close()

    def _begin(self, call: object) -> None:
        pipe = self._process.stdin
        if pipe is not None:
            with suppress(OSError):  # it has ended: the answer will say so
                pickle.dump(call, pipe)
                pipe.flush()

    def _answer(self) -> tuple[str, Any]:
        pipe = self._process.stdout
        if pipe is None:
            raise EOFError
        kind, answer = pickle.load(pipe)  # noqa: S301 - of our own process
        return str(kind), answer

    def _last_words(self) -> str:
        if self._said.closed:
            return "it was killed"
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.poll()}"


# --- the other side -----------------------------------------------------------------------------


def _subject(module: str, file: str | None, body: bytes) -> Subject:
    """Unpickle a subject; its module is loaded from its file where it has no name by which to import it."""
    try:
        importlib.import_module(module)
    except ImportError:
        spec = importlib.util.spec_from_file_location(module, file) if file else None
        if spec is None or spec.loader is None:
            raise
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[module] = loaded
        spec.loader.exec_module(loaded)
    subject: Subject = pickle.loads(body)  # noqa: S301 - of our own process
    return subject


async def _serve(calls: IO[bytes], answers: IO[bytes]) -> None:
    module, file, body, where = pickle.load(calls)  # noqa: S301 - of our own process
    subject = _subject(module, file, body)
    provider = watched(lambda: subject.make_provider(where.world()))
    try:
        while True:
            try:
                verb, args = await asyncio.to_thread(pickle.load, calls)
            except EOFError:
                return
            pickle.dump(await _outcome(provider, verb, args), answers)
            answers.flush()
    finally:
        await provider.close()


async def _outcome(provider: Provider, verb: str, args: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return "answer", await getattr(provider, verb)(*args)
    except (RawThinkError, Broken) as error:
        return type(error).__name__, str(error)


def main() -> None:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does not disturb
    with answers, suppress(BrokenPipeError):
        asyncio.run(_serve(sys.stdin.buffer, answers))


if __name__ == "__main__":
    main()
