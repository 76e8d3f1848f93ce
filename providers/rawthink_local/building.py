"""Building a search index in a process of its own, and watching it from this one.

``python -m rawthink_local.building`` takes a slot, works off the journal, packs the index and ends. Its
standard input brings the overlay and tells it, by closing, that nobody waits any more; its standard output
says ``n m`` after each piece. Killed at any moment, it leaves an index that the next one goes on with.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rawthink_local.served import our_environment

if TYPE_CHECKING:
    from io import FileIO

    from rawthink_local.store import Store
    from rawthink_local.vectors import Kept

log = logging.getLogger("rawthink.local")

COMMAND = [sys.executable, "-m", "rawthink_local.building"]


class Builder:
    """A build that runs in another process."""

    def __init__(self, store: Store, root: Path, kept: Kept | None = None) -> None:
        order: dict[str, Any] = {
            "folder": str(store.journal.folder),
            "rows": str(store.index.main.file) if store.index.main.file else None,
            "root": str(root),
            "model": list(kept.model) if kept is not None else None,
        }
        self._done, self._all = 0, store.index.born_count()
        self._failed = ""
        self._ended = 0.0
        self._stopped = False
        self._overlay = store.index.overlay_line
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher = threading.Thread(target=self._watch, name="rawthink-build", daemon=True)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [*COMMAND, json.dumps(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=our_environment(),
            )
        except OSError as error:
            self._fail(str(error))
        else:
            self._watcher.start()

    def _fail(self, why: str) -> None:
        self._failed, self._ended = why, time.monotonic()
        log.warning("building the search index failed: %s", why)

    def _watch(self) -> None:
        process = self._process
        assert process is not None  # noqa: S101 - the watcher is started after it
        assert process.stdin is not None  # noqa: S101 - all three are pipes
        assert process.stdout is not None  # noqa: S101 - see above
        assert process.stderr is not None  # noqa: S101 - see above
        try:
            process.stdin.write(self._overlay + b"\n")
            process.stdin.flush()
        except OSError as error:
            log.debug("the builder ended early: %s", error)
        for line in process.stdout:
            done, _, total = line.decode().partition(" ")
            self._done, self._all = int(done), max(int(total), int(done))
        complaint = process.stderr.read().decode("utf-8", "replace").strip()
        if process.wait() != 0 and not self._stopped:
            self._fail(complaint.rpartition("\n")[2] or f"it ended with status {process.returncode}")
        for pipe in (process.stdin, process.stdout, process.stderr):
            with suppress(OSError):
                pipe.close()

    def progress(self) -> str | None:
        """Say how far the build is; None when it is done. A failed one is said once, then tried again."""
        if self._watcher.is_alive():
            return f"index {self._done} of {self._all}"
        return f"index not built: {self._failed}" if self._failed else None

    def failed_for(self, seconds: float) -> bool:
        """Tell whether the build failed at least so long ago."""
        return bool(self._failed) and time.monotonic() - self._ended >= seconds

    def stop(self) -> None:
        """End the build; what it has done is kept."""
        if self._process is not None:
            self._stopped = True
            if self._process.poll() is None:
                self._process.terminate()
            self._watcher.join()


def main(order: dict[str, Any]) -> None:
    """Work off the backlog of the store in ``order``, then pack."""
    from rawthink_core.clock import SystemClock  # noqa: PLC0415 - the parent needs none of this
    from rawthink_core.embedding_shelf import Model  # noqa: PLC0415 - see above
    from rawthink_core.provider import World  # noqa: PLC0415 - see above
    from rawthink_local.edge import EdgeIndex  # noqa: PLC0415 - see above
    from rawthink_local.places import SlotPlace  # noqa: PLC0415 - see above
    from rawthink_local.replica import Replica  # noqa: PLC0415 - see above
    from rawthink_local.store import Store  # noqa: PLC0415 - see above
    from rawthink_local.vectors import Kept  # noqa: PLC0415 - see above

    folder, root, rows = Path(order["folder"] or ""), Path(order["root"] or ""), order["rows"]
    store = Store(folder, Path(rows) if rows else None, World(path=folder), 1.0)
    store.index.refresh()
    store.index.catch_up()
    parent = os.fdopen(0, "rb", buffering=0, closefd=False)  # unbuffered: a thread waits on it to the end
    overlay = parent.readline().rstrip(b"\n")
    if overlay:
        store.lay_over(overlay)
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    kept = Kept(store.derived, Model(*order["model"])) if order["model"] else None
    place = SlotPlace(root, SystemClock(), EdgeIndex.open)  # nothing waits for this process
    replica = Replica(store, place, kept)
    total = store.index.born_count()
    try:
        for done in replica.build():
            print(done, total, flush=True)  # noqa: T201 - the protocol with the parent
    finally:
        replica.let_go()
        store.close()
        if kept is not None:
            kept.close()


def _end_with_parent(parent: FileIO) -> None:
    parent.read()
    os._exit(0)  # the index is safe to leave at any moment


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
