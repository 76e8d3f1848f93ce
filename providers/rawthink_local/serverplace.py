"""A search index on a Qdrant server as its place: one collection for all processes of a store.

``.rawthink/collection.json`` names it, with the folder that it was named for, so that a copied store gets a
collection of its own. ``.rawthink/index.lock`` lets one process write at a time.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from rawthink_core.embedders.connection import is_loopback
from rawthink_core.errors import BackendError, BackendTimeout
from rawthink_core.upkeep import Check
from rawthink_local.engine import IndexDamaged
from rawthink_local.files import FILE_MODE, explained, replace
from rawthink_local.lines import Moved
from rawthink_local.remote import RemoteIndex, delete_collection
from rawthink_local.replica import Replica
from rawthink_local.server import check_version, connect, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_local.places import Index
    from rawthink_local.settings import LocalSettings
    from rawthink_local.store import Store
    from rawthink_local.vectors import Kept

log = logging.getLogger("rawthink.local")

_FILE, _LOCK = "collection.json", "index.lock"
_SECONDS: Final = 2.0  # that a search waits for another process that writes


class ServerPlace:
    """A collection on a Qdrant server. Safe to use from many threads."""

    shared = True

    def __init__(self, store: Store, settings: LocalSettings) -> None:
        self._store = store
        self._settings = settings
        self._url = settings.url or ""
        self._making = threading.Lock()
        self._client: Any = None
        self._name = ""
        self._writing = threading.RLock()
        self._lock = FileLock(store.derived / _LOCK, mode=FILE_MODE, thread_local=False)

    def _connected(self) -> Any:
        with self._making:
            if self._client is None:
                self._client = connect(self._settings)
            return self._client

    def _collection(self) -> str:
        """Return the collection's name, given once to each folder. Call it in a turn."""
        if not self._name:
            file, folder = self._store.derived / _FILE, str(self._store.journal.folder.resolve())
            noted = _noted(file)
            if noted.get("folder") != folder or not str(noted.get("name", "")).startswith("rawthink_"):
                store = self._store.journal.header().store if self._store.journal.exists() else ""
                name = f"rawthink_{store.replace('-', '') or 'new'}_{uuid.uuid4().hex[:8]}"
                noted = {"folder": folder, "name": name}
                with explained("writing", file):
                    replace(file, [json.dumps(noted).encode()])
            self._name = str(noted["name"])
        return self._name

    def open(self, generation: str, dimensions: int, *, much: bool) -> Index:  # noqa: ARG002 - the marker tells
        """Open the collection. Raises a BackendError where the server does not let us."""
        with self._my_turn():
            client, name = self._connected(), self._collection()
            try:
                return RemoteIndex.open(client, self._url, name, dimensions)
            except IndexDamaged as error:
                log.info("%s. It is built anew.", error)
                return self.renew(generation, dimensions)

    def renew(self, generation: str, dimensions: int) -> Index:  # noqa: ARG002 - the marker tells
        """Delete the collection and make it again."""
        with self._my_turn():
            client, name = self._connected(), self._collection()
            delete_collection(client, self._url, name)
            return RemoteIndex.open(client, self._url, name, dimensions)

    def look(self, index: Index) -> bool:
        """Read the marker anew."""
        assert isinstance(index, RemoteIndex)  # noqa: S101 - no other is opened here
        index.look()
        return True

    @contextmanager
    def turn(self, *, wait: bool) -> Iterator[bool]:
        """Hold the lock of the index against threads and processes, if it comes free soon."""
        seconds = _SECONDS if wait else 0.0
        if not self._writing.acquire(timeout=seconds):
            yield False
            return
        try:
            self._store.lock.make_derived()
            with explained("locking", self._store.derived / _LOCK):
                try:
                    self._lock.acquire(timeout=seconds, poll_interval=0.01)
                except Timeout:
                    ours = False
                else:
                    ours = True
            try:
                yield ours
            finally:
                if ours:
                    self._lock.release()
        finally:
            self._writing.release()

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        with self.turn(wait=True) as ours:
            if not ours:
                raise BackendTimeout(
                    f"another process writes to the search index at {self._url}; try again soon"
                )
            yield

    def intact(self) -> bool:
        """Return True: reading the marker has shown it."""
        return True

    def tidy(self) -> None:
        """Do nothing: a collection does not grow old."""

    def release(self) -> None:
        """Do nothing: the connection is for the next who opens."""

    def build(self, store: Store, kept: Kept | None) -> Filling:
        """Fill the collection from a thread, in pieces, between which others may write."""
        return Filling(store, self, kept)

    def forget(self) -> tuple[int, str]:
        """Delete the collection. Raises a BackendError where the server does not let us."""
        with self._my_turn():
            name = self._collection()
            delete_collection(self._connected(), self._url, name)
        return 0, f"collection {name} deleted at {self._url}; the next search builds it"

    def name(self) -> str:
        """Return the collection and its server."""
        return f"collection {self._name} at {self._url}" if self._name else f"not open, at {self._url}"

    def checks(self) -> list[Check]:
        """Say whether the server answers, and whether the key travels in the open."""
        try:
            version = check_version(self._connected(), self._url)
            key = key_of(self._settings)
        except BackendError as error:
            return [
                Check(
                    name="server", status="fail", detail=str(error), fix="mend what it says, then look again"
                )
            ]
        parts = urlsplit(self._url)
        if key and parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            detail = f"Qdrant {version} at {self._url}; the key is sent without encryption"
            return [
                Check(name="server", status="warn", detail=detail, fix="use https in providers.local.url")
            ]
        return [Check(name="server", status="ok", detail=f"Qdrant {version} at {self._url}")]

    def close(self) -> None:
        """Close the connection."""
        with self._making:
            client, self._client = self._client, None
        if client is not None:
            client.close()


class Filling:
    """A backlog that a thread works off: each piece in a turn of its own."""

    def __init__(self, store: Store, place: ServerPlace, kept: Kept | None) -> None:
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


def _noted(file: Any) -> dict[str, Any]:
    try:
        noted = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}
