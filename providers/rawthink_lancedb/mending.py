"""Who does upkeep, and when: after writes, beside the verbs; or at once, where `maintain` asks for it."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from rawthink_core.errors import BackendError, BackendTimeout
from rawthink_core.operations import MaintainReceipt
from rawthink_lancedb.erasure import TIDY, finish
from rawthink_lancedb.errors import Raced
from rawthink_lancedb.upkeep import index_vectors, optimize, tidy

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_core.operations import Maintain
    from rawthink_lancedb.settings import LanceSettings
    from rawthink_lancedb.store import Space, Store

log = logging.getLogger("rawthink.lancedb")

_PAUSE, _REMOTE_PAUSE = 0.2, 2.0  # seconds without a write after which the index catches up
_MARGIN: Final = 5.0
_SHARE: Final = 10.0  # times as long as it took that it waits while somebody writes
_ASKED: Final = 5.0  # seconds that old files stay where somebody asked for upkeep: who reads them looks anew


class Caretaker:
    """One thread that keeps the index up with the log and looks after both tables, for one process."""

    def __init__(self, store: Store, settings: LanceSettings) -> None:
        self._store = store
        self._settings = settings
        self._pause = _REMOTE_PAUSE if store.engine.remote else _PAUSE
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._written: set[str] = set()
        self._later: dict[str, float] = {}  # space → when old files may be deleted that others read till then
        self._cost: dict[str, float] = {}  # space → seconds that this took last
        self._closed = False
        self.kept_up: Callable[[], object] = lambda: None  # told when indexes have taken in what was written
        self._thread: threading.Thread | None = None

    def written(self, space: str) -> None:
        """Take note that something was written in a space."""
        with self._lock:
            self._written.add(space)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="rawthink-lancedb-care", daemon=True)
                self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Stop, after what is being done. May be called again."""
        with self._lock:
            self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        behind: set[str] = set()
        while not self._closed:
            quiet = not self._wake.wait(self._pause if behind else self._until_later())
            self._wake.clear()
            with self._lock:
                names, self._written = self._written, set()
            behind |= names
            for name in names:
                self._do(name, look_after)
            if quiet:
                for name in behind:
                    self._do(name, keep_up)
                if behind:
                    self.kept_up()
                behind = set()
            for name in self._due(quiet=quiet):
                del self._later[name]
                begun = time.monotonic()
                self._do(name, drop_old_files)
                self._cost[name] = time.monotonic() - begun

    def _due(self, *, quiet: bool) -> list[str]:
        """Return the spaces whose old files are to go: also while somebody writes, or the disk would fill.

        Then it is the rarer the longer it takes, for meanwhile nothing can be added to the index.
        """
        now = time.monotonic()
        pause = 0.0 if quiet else _SHARE
        return [name for name, due in self._later.items() if due + pause * self._cost.get(name, 0.0) <= now]

    def _until_later(self) -> float | None:
        return max(0.0, min(self._later.values()) - time.monotonic()) if self._later else None

    def _do(self, name: str, work: Callable[[Store, Space, LanceSettings], list[str]]) -> None:
        if self._closed:
            return
        space = self._store.space(name)
        try:
            done = work(self._store, space, self._settings)
        except Raced as error:  # to be expected where many write; what is due stays due
            log.info("upkeep of %s waits for others: %s", space.log.table.name, error)
            self._later.setdefault(name, time.monotonic() + self._settings.keep_seconds + _MARGIN)
            return
        except BackendError as error:
            space.index.trouble = str(error)
            log.info("upkeep of %s did not succeed: %s", space.log.table.name, error)
            return
        space.index.trouble = None
        for what in done:
            log.debug("%s", what)
            if what.startswith(("optimized", "gathered")):
                self._later.setdefault(name, time.monotonic() + self._settings.keep_seconds + _MARGIN)


def keep_up(store: Store, space: Space, settings: LanceSettings) -> list[str]:  # noqa: ARG001 - as the others
    """Bring the index of a space up to date, so that the next search need not.

    That is for whoever wrote last, or all who write would do it at once and hold each other up.
    """
    if space.log.look() and space.log.wrote_last:
        space.index.sound(space.index.catch_up)
    return []


def look_after(store: Store, space: Space, settings: LanceSettings) -> list[str]:
    """Do what is due in a space; say what was done. Where another process is at it, nothing."""
    every, keep, index = settings.gather_every, settings.keep_seconds, space.index
    done: list[str] = []
    with store.locks.held(TIDY, wait=False) as mine:
        if not mine:
            return done
        if space.log.table.found():
            done += tidy(space.log.table, "rid", gather_every=every, keep=keep)
        if index.table.found():
            with store.locks.held(index.table.name):
                done += tidy(index.table, "point", gather_every=every, keep=keep)
            if done and (column := index.vectors.searched()) is not None:
                done += index_vectors(index.table, column, settings.exact_up_to)
    return done


def drop_old_files(store: Store, space: Space, settings: LanceSettings) -> list[str]:
    """Delete what optimizing has left for others that read it, and what came after."""
    with store.locks.held(TIDY, wait=False) as mine:
        if mine:
            _optimize(store, space, settings.keep_seconds)
    return []


def _optimize(store: Store, space: Space, keep: float) -> None:
    optimize(space.log.table, keep)
    if space.index.table.found():
        with store.locks.held(space.index.table.name):
            optimize(space.index.table, keep)


def finish_erasures(store: Store, name: str) -> int:
    """Delete what a restore has brought of erased items; return how many rows that were."""
    with store.locks.held(TIDY):
        return finish(store, store.space(name))


def maintain(store: Store, settings: LanceSettings, request: Maintain) -> MaintainReceipt:
    """Repair, re-index or compact every space, and say what was done."""
    done: list[str] = []
    for space in store.spaces():
        name = space.log.space
        if left := finish_erasures(store, name):
            done.append(f"{name}: erased {left} row(s) of forgotten items that were still there")
        if request.reindex:
            with store.locks.held(space.index.table.name):
                space.index.drop()
            done.append(f"{name}: deleted the search index; the next search builds it")
        if not space.log.look():
            continue
        with store.locks.held(TIDY):
            done.append(f"{name}: {_compact(store, space, settings)}")
    return MaintainReceipt(done=tuple(done))


def _compact(store: Store, space: Space, settings: LanceSettings) -> str:
    """Let the engine compact both tables, as soon as others let it; say what became of it."""
    try:
        for _ in store.engine.tries():
            try:
                _optimize(store, space, min(settings.keep_seconds, _ASKED))
            except Raced:
                continue
            break
    except BackendTimeout:
        return "not compacted, for others write all the time; it happens by itself when they pause"
    return "compacted"
