"""Watches a provider from outside: what leaves it must be an answer or an error of the contract, in time.

`Watched` stands around every provider that a check opens, and `Overheard` listens to standard output
meanwhile. Whatever a provider does wrong becomes `Broken` with the verb, the fault and where it happened.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import tempfile
import threading
import traceback
from collections import defaultdict
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rawthink_conformance.expect import Broken
from rawthink_core.commits import Commit
from rawthink_core.embedding import KeptVectors
from rawthink_core.errors import RawThinkError
from rawthink_core.operations import (
    ForgetReceipt,
    GraphPage,
    Health,
    History,
    Items,
    MaintainReceipt,
    Recall,
    RecordReceipt,
    RestoreReceipt,
    ScanPage,
    SearchPage,
)
from rawthink_core.provider import Provider, ProviderInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import FrameType, TracebackType
    from typing import Self

VERB_SECONDS = 60.0

ANSWERS: dict[str, type] = {
    "open": type(None),
    "close": type(None),
    "on_before_chat": Recall,
    "on_after_chat": RecordReceipt,
    "search": SearchPage,
    "record": RecordReceipt,
    "revise": RecordReceipt,
    "get": Items,
    "scan": ScanPage,
    "graph": GraphPage,
    "history": History,
    "forget": ForgetReceipt,
    "restore": RestoreReceipt,
    "kept_vectors": KeptVectors,
    "maintain": MaintainReceipt,
    "health": Health,
}


_UNDER_WAY: defaultdict[int, list[str]] = defaultdict(list)  # by thread: the verbs that have not answered yet


class Hung(Broken):
    """A provider did not answer at all."""


def watched(make: Callable[[], object]) -> Provider:
    """Return the provider that ``make`` makes, watched. Raises Broken where that goes wrong."""
    try:
        made = make()
    except (RawThinkError, Broken):
        raise
    except (Exception, SystemExit) as error:
        raise Broken(f"`make_provider` raised {_described(error)}") from error
    if made is None:
        raise Broken("`make_provider` returned None; it must return a provider")
    return cast("Provider", Watched(made))


class Watched:
    """A provider; each of its verbs is held to time, to the type of its answers and to errors of ours."""

    def __init__(self, provider: object) -> None:
        self._inside = provider

    def __getattr__(self, name: str) -> Any:
        try:
            found = getattr(self._inside, name)
        except AttributeError:
            if name in ANSWERS or name in ("export", "info"):
                kind = type(self._inside).__name__
                raise Broken(f"{kind} has no `{name}`; subclass `BaseProvider`") from None
            raise
        if name == "info" and not isinstance(found, ProviderInfo):
            raise Broken(f"`info` is {_a(found)}, not a ProviderInfo")
        if name == "export":
            return partial(self._export, found)
        return partial(self._call, name, found) if name in ANSWERS else found

    async def _call(self, verb: str, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        under_way = _UNDER_WAY[threading.get_ident()]
        under_way.append(verb)
        try:
            async with asyncio.timeout(VERB_SECONDS) as patience:
                answer = await _awaitable(verb, call(*args, **named))
        except (RawThinkError, Broken):
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, TimeoutError) and patience.expired():
                raise Hung(f"`{verb}` did not answer within {VERB_SECONDS:g} s") from error
            raise Broken(f"`{verb}` raised {_described(error)}") from error
        finally:
            under_way.remove(verb)
        if not isinstance(answer, ANSWERS[verb]):
            raise Broken(f"`{verb}` answered {_a(answer)}, not {_named(ANSWERS[verb])}")
        return answer

    async def _export(self, call: Callable[..., Any], *args: Any, **named: Any) -> AsyncIterator[Commit]:
        try:
            async for commit in _iterated(call(*args, **named)):
                yield _commit(commit)
        except (RawThinkError, Broken):
            raise
        except (Exception, SystemExit) as error:
            raise Broken(f"`export` raised {_described(error)}") from error


def _awaitable(verb: str, promised: Any) -> Awaitable[Any]:
    if not inspect.isawaitable(promised):
        raise Broken(f"`{verb}` returned {_a(promised)} at once; it must be `async def`")
    return promised


def _iterated(commits: Any) -> AsyncIterator[object]:
    if not hasattr(commits, "__aiter__"):
        with suppress(AttributeError):
            commits.close()  # a coroutine that nobody waits for
        raise Broken(f"`export` returned {_a(commits)}; it must yield commits")
    iterated: AsyncIterator[object] = commits
    return iterated


def _commit(yielded: object) -> Commit:
    if not isinstance(yielded, Commit):
        raise Broken(f"`export` yielded {_a(yielded)}, not a Commit")
    return yielded


def _a(value: object) -> str:
    kind = type(value).__name__
    return "None" if value is None else f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"


def _named(kind: type) -> str:
    return "None" if kind is type(None) else kind.__name__


def _described(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {place_of(frames[-1].filename, frames[-1].lineno)}" if frames else ""
    said = f": {error}" if str(error) else ""
    return f"its own {type(error).__name__}{said}{where}; a host expects errors of `rawthink_core.errors`"


def place_of(filename: str, line: int | None) -> str:
    """Return a place in code in a few words."""
    return f"{'/'.join(Path(filename).parts[-2:])}:{line}"


def place_of_frame(frame: FrameType | None, *own: str) -> str:
    """Return the innermost place of a stack that is neither the standard library's nor in files of ours."""
    library = str(Path(os.__file__).parent)
    innermost = frame
    while frame is not None:
        name = frame.f_code.co_filename
        inside = name.startswith(library) and "site-packages" not in name
        if not inside and name not in own and not name.startswith("<"):
            return f"{place_of(name, frame.f_lineno)} in {frame.f_code.co_name}"
        frame = frame.f_back
    return "?" if innermost is None else place_of(innermost.f_code.co_filename, innermost.f_lineno)


def stuck(thread: int) -> str:
    """Say what keeps a thread from ending: which verb, and where."""
    verbs = " and ".join(f"`{verb}`" for verb in sorted(set(_UNDER_WAY[thread]))) or "something"
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the one way to see another thread
    own = [str(file) for file in Path(__file__).parent.glob("*.py")]
    if frame is None or frame.f_code.co_name == "select":  # an event loop that waits
        return f"{verbs} did not end when it was cancelled"
    return f"{verbs} has blocked the event loop, at {place_of_frame(frame, *own)}"


def leftover(tasks: set[asyncio.Task[Any]]) -> str:
    """Describe tasks that are still running."""
    told = []
    for task in tasks:
        coroutine: Any = task.get_coro()
        stack = task.get_stack(limit=1)
        where = f" at {place_of(stack[0].f_code.co_filename, stack[0].f_lineno)}" if stack else ""
        told.append(f"{getattr(coroutine, '__qualname__', coroutine)}{where}")
    return ", ".join(sorted(told))


class Overheard:
    """Keeps whatever is written to standard output, by Python or below it, and who wrote first."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._who = ""
        self._below = b""
        self.encoding = "utf-8"
        self.errors = "backslashreplace"

    def __enter__(self) -> Self:
        self._former = sys.stdout
        self._file = tempfile.TemporaryFile()
        try:
            self._former.flush()
            self._saved: int | None = os.dup(1)
        except OSError:  # a process without standard output
            self._saved = None
        else:
            os.dup2(self._file.fileno(), 1)
        sys.stdout = cast("Any", self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.stdout = self._former
        if self._saved is not None:
            os.dup2(self._saved, 1)
            os.close(self._saved)
        self._file.seek(0)
        self._below = self._file.read()
        self._file.close()

    def write(self, text: str) -> int:
        """Keep a text."""
        if text and not self._parts:
            self._who = place_of_frame(inspect.currentframe(), __file__)
        self._parts.append(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: all is kept."""

    def isatty(self) -> bool:
        """Say that this is no terminal."""
        return False

    def fileno(self) -> int:
        """Return the number under which what is below Python writes."""
        return 1

    def told(self) -> str:
        """Say what was written, and by whom; empty when nothing was."""
        said = "".join(self._parts)
        if said:
            return f"{said[:200]!r} was printed to standard output by {self._who}"
        if self._below:
            return f"{self._below[:200]!r} was written to standard output, below Python"
        return ""
