"""The emulator as tests hold it: a server on a free loopback port, in a thread of its own, and its switches.

```python
with Emulator(generation="0.10") as server:
    client = MyClient(server.url)
    server.fail("POST /memories", "drop", applied=True)   # an ambiguous write
```
"""

from __future__ import annotations

import asyncio
import copy
import threading
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rawthink_nowledge_emulator import background, failures
from rawthink_nowledge_emulator.assumed import assumptions
from rawthink_nowledge_emulator.call import Site
from rawthink_nowledge_emulator.control import PREFIX, answer
from rawthink_nowledge_emulator.index import Lag
from rawthink_nowledge_emulator.profiles import profile_of
from rawthink_nowledge_emulator.service import Seen, Service
from rawthink_nowledge_emulator.state import Clock
from rawthink_nowledge_emulator.wire import LOOPBACK, Reply, Request, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from rawthink_nowledge_emulator.failures import Failure
    from rawthink_nowledge_emulator.state import Memory, State, Thread

LARGEST = 2048 * 1024 * 1024
PATIENCE = 10.0


class Emulator:
    """A Nowledge Mem server on loopback. A context manager; methods may be called from any thread.

    ``generation``: "0.6", "0.9", "0.10", or one version of `PROFILES`. ``api_key``: asked for when given.
    ``free_plan``: at most 20 memories. ``assume``: other values for guesses of `ASSUMED`. ``start``: a fixed
    time for the server's clock, which then moves by `advance` only. ``largest``: bytes of a request's body.
    """

    def __init__(
        self,
        generation: str = "0.10",
        *,
        api_key: str | None = None,
        free_plan: bool = False,
        assume: dict[str, Any] | None = None,
        port: int = 0,
        start: datetime | None = None,
        largest: int = LARGEST,
    ) -> None:
        self._setup = (Site(profile_of(generation), assumptions(assume), free_plan), api_key, start)
        self._lock = threading.RLock()
        self._port = port
        self._largest = largest
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._crashes: list[BaseException] = []
        self._released = asyncio.Event()
        self._wire: Wire
        self._ended: asyncio.Event
        self.reset()

    # --- running --------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._crashes and error is None:
            raise self._crashes[0]

    def start(self) -> None:
        """Listen, and return once requests are answered; raise `OSError` where the port is taken."""
        ready = threading.Event()
        fault: list[BaseException] = []

        def serve() -> None:
            try:
                asyncio.run(self._serve(ready))
            except BaseException as error:  # noqa: BLE001 - told to the thread that waits
                fault.append(error)
            finally:
                ready.set()

        self._thread = threading.Thread(target=serve, name="nowledge-emulator", daemon=True)
        self._thread.start()
        ready.wait()
        if fault:
            self._thread = None
            raise fault[0]

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        await self._listen()
        ready.set()
        await self._ended.wait()
        await self._wire.close()

    async def _listen(self) -> None:
        self._wire = Wire(self._answer, self._largest, self._crashes.append)
        self._port = await self._wire.listen(self._port)

    def stop(self) -> None:
        """Drop every connection and end. Does nothing when stopped."""
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                raise RuntimeError("the emulator doesn't end")
            self._thread = self._loop = None

    @property
    def url(self) -> str:
        """Where the server is, without a slash at the end."""
        return f"http://{LOOPBACK}:{self._port}"

    @contextmanager
    def down(self) -> Iterator[None]:
        """Refuse connections inside the block; what is stored stays."""
        self._run(self._close())
        try:
            yield
        finally:
            self._run(self._listen())

    async def _close(self) -> None:
        await self._wire.close()

    def _run(self, work: Any) -> None:
        if self._loop is None:
            work.close()
            raise RuntimeError("the emulator isn't running")
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _answer(self, request: Request) -> Reply:
        try:
            return await self._respond(request)
        except Exception as error:  # noqa: BLE001 - a fault of ours: raised when the block ends
            self._crashes.append(error)
            text = "".join(traceback.format_exception(error))
            return Reply.text(f"the emulator broke, which says nothing of the real server\n{text}", 500)

    async def _respond(self, request: Request) -> Reply:
        with self._lock:
            if request.path.startswith(PREFIX):
                return answer(self, request)
            met = next((one for one in self._failures if one.takes(request)), None)
            reply = Reply()
            if met is None or met.applied or met.what == "internal":
                reply = self._service.apply(request, broken=met is not None and met.what == "internal")
            if met is None:
                self._seen.append(Seen(request, reply.status, applied=True))
            else:
                self._seen.append(Seen(request, met.status(reply), met.applied, met.what))
            if met is None or met.applied:
                self._run_jobs(request, reply)
            codes = self._service.site.profile.error_codes
        return reply if met is None else await met.spoil(reply, self._released, codes=codes)

    def _run_jobs(self, request: Request, reply: Reply) -> None:
        due = [job for job in self._jobs if failures.matches(job[0], request)]
        if reply.status < 400 and due:  # noqa: PLR2004 - success
            self._jobs.remove(due[0])
            due[0][1](self._service.state, reply.json())

    # --- rows -----------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Seen]:
        """Every request since the start or the last `reset`, the control ones left out."""
        with self._lock:
            return list(self._seen)

    def memories(self) -> list[Memory]:
        """Return copies of all memories, the newest first, hidden ones included."""
        with self._lock:
            return copy.deepcopy(self._service.state.newest_first())

    def threads(self) -> list[Thread]:
        """Return copies of all threads."""
        with self._lock:
            return copy.deepcopy(list(self._service.state.threads.values()))

    def add_space(self, space_id: str, name: str = "", **more: Any) -> None:
        """Add a space; ``mode`` and ``shared`` say which others its searches see."""
        with self._lock:
            self._service.state.add_space(space_id, name, **more)

    def reset(self) -> None:
        """Forget every row, request, failure and job, and let go of what hangs."""
        site, key, start = self._setup
        with self._lock:
            if self._loop is not None:
                self.release()
            self._service = Service(site, key, Clock(start))
            self._failures: list[Failure] = []
            self._jobs: list[tuple[str, Callable[[State, Any], None]]] = []
            self._seen: list[Seen] = []

    # --- switches -------------------------------------------------------------------------------

    def fail(self, match: str, what: str | int, **more: Any) -> Failure:
        """Let requests fail: ``fail("POST /memories/*", "drop", applied=True, times=2, after=1)``.

        ``what`` is a name of `failures.WAYS`, `PAGES` or `CODES`, or a status with ``body`` and ``headers``;
        the rest is told at `failures.failure`. The failure returned counts what it ``met``.
        """
        busy = self._service.site.assumed["busy_status"]
        made = failures.failure(match, what, busy=busy, **more)
        with self._lock:
            self._failures.append(made)
        return made

    def heal(self) -> None:
        """End every failure, and let go of what hangs."""
        with self._lock:
            self._failures.clear()
        self.release()

    def release(self) -> None:
        """Let go of what hangs: what was carried out is answered now, the rest is dropped."""

        def let_go() -> None:
            self._released.set()
            self._released = asyncio.Event()

        if self._loop is not None:
            self._loop.call_soon_threadsafe(let_go)

    def lag(self, *, searches: int = 0, seconds: float = 0.0, never: bool = False) -> None:
        """Let search lag behind writes from now on: by searches, by seconds, or until `reindex`."""
        with self._lock:
            self._service.state.index.lag = Lag(searches, seconds, never)

    def reindex(self) -> None:
        """Let search see every write."""
        with self._lock:
            self._service.state.index.reindex()

    def degrade(self, *, degraded: bool = True) -> None:
        """Take the embedder away (or give it back): search then matches whole words only, and says so."""
        with self._lock:
            self._service.state.index.degraded = degraded

    def advance(self, seconds: float) -> None:
        """Move the server's clock on: lags, blocks and ages are counted by it."""
        with self._lock:
            self._service.clock.advance(seconds)

    def assume(self, **values: Any) -> None:
        """Switch guesses of `ASSUMED` from now on; those not named keep their value."""
        site = self._service.site
        with self._lock:
            changed = assumptions({**site.assumed, **values})
            site.assumed.update(changed)

    def background(self, job: str, *, after: str | None = None, **names: Any) -> None:
        """Run a job of `background.JOBS` now, or once ``after`` the next successful request of that pattern.

        ``memory_id="$answer"`` then means the memory that was answered with.
        """
        with self._lock:
            if after is None:
                background.run(self._service.state, job, **names)
                return

            def later(state: State, told: Any) -> None:
                given = {
                    name: _answered(told) if value == "$answer" else value for name, value in names.items()
                }
                background.run(state, job, **given)

            if job not in background.JOBS:
                raise ValueError(f"no such job: {job!r}")
            self._jobs.append((after, later))

    @property
    def assumed(self) -> dict[str, Any]:
        """Every guess in use."""
        return dict(self._service.site.assumed)


def _answered(told: Any) -> str:
    """Return the id of the memory in an answer."""
    memory = told.get("memory", told) if isinstance(told, dict) else {}
    return str(memory.get("id", ""))
