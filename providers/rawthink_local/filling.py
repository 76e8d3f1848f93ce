"""A large backlog that a thread works off into a collection on a Qdrant server, in pieces."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from rawthink_core.errors import BackendError
from rawthink_local.lines import Moved
from rawthink_local.replica import Replica

if TYPE_CHECKING:
    from rawthink_local.places import IndexPlace
    from rawthink_local.store import Store
    from rawthink_local.vectors import Kept

log = logging.getLogger("rawthink.local")


class Filling:
    """A backlog that a thread works off: each piece in a turn of its own."""

    def __init__(self, store: Store, place: IndexPlace, kept: Kept | None) -> None:
        self._replica = Replica(store, place, kept)
        self._done, self._all = 0, store.index.born_count()
        self._failed = ""
        self._ended = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rawthink-build", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and self._piece():
                pass
        except Moved:
            log.info("the journal was replaced meanwhile; the next search builds the index")
        except BackendError as error:
            self._failed, self._ended = str(error), time.monotonic()
            log.warning("building the search index failed: %s", self._failed)
        finally:
            self._replica.close_index()

    def _piece(self) -> bool:
        """Apply one piece; tell whether there is more to do."""
        mine = self._replica
        if not mine.opened:
            mine.open()
        with mine.turn() as ours:
            if not ours:
                return True  # another process builds as well
            if not mine.fits():
                mine.start_over()
            done = next(mine.apply(), None)
            if done is not None:
                self._done, self._all = done, max(self._all, done)
            return done is not None

    def progress(self) -> str | None:
        """Say how far it is; None when it is done."""
        if self._thread.is_alive():
            return f"index {self._done} of {self._all}"
        return f"index not built: {self._failed}" if self._failed else None

    def failed_for(self, seconds: float) -> bool:
        """Tell whether it failed at least so long ago."""
        return bool(self._failed) and time.monotonic() - self._ended >= seconds

    def stop(self) -> None:
        """End it after the piece that it is at."""
        self._stop.set()
        self._thread.join()
