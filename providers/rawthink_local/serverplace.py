"""A search index on a Qdrant server as its place: one collection for all processes of a store.

``.rawthink/collection.json`` names it, with the folder that it was named for, so that a copied store gets a
collection of its own. ``.rawthink/index.lock`` lets one process write at a time. What is left over of stores
that are gone is told by `checks`, and dropped together with the own collection.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from rawthink_core.embedders.connection import is_loopback
from rawthink_core.errors import BackendError, BackendTimeout
from rawthink_core.upkeep import Check
from rawthink_local.engine import IndexDamaged
from rawthink_local.files import FILE_MODE, explained, replace
from rawthink_local.filling import Filling
from rawthink_local.leftovers import FILE, PREFIX, Collections, Named, read
from rawthink_local.patience import Patient
from rawthink_local.remote import RemoteIndex, collections_of, delete_collection
from rawthink_local.served import IndexLost
from rawthink_local.server import check_version, connect, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_local.places import Index
    from rawthink_local.settings import LocalSettings
    from rawthink_local.store import Store
    from rawthink_local.vectors import Kept

log = logging.getLogger("rawthink.local")

_LOCK = "index.lock"
_LISTED: Final = 5
_SECONDS: Final = 2.0  # that a search waits for another process that writes
_LOOK_SECONDS: Final = 0.25  # after so long, whoever waits sees whether the collection can be used by now


class ServerPlace:
    """A collection on a Qdrant server. Safe to use from many threads."""

    shared = True

    def __init__(self, store: Store, settings: LocalSettings, noted: Collections | None = None) -> None:
        self._store = store
        self._settings = settings
        self._url = settings.url or ""
        self._making = threading.Lock()
        self._noted = noted if noted is not None else Collections(None)
        self._client: Patient | None = None
        self._name = ""
        self._file = store.derived / FILE
        self._writing = threading.RLock()
        self._lock = FileLock(store.derived / _LOCK, mode=FILE_MODE, thread_local=False)

    def _connected(self) -> Patient:
        with self._making:
            if self._client is None:
                self._client = Patient(connect(self._settings), self._url)
            return self._client

    def _collection(self) -> str:
        """Return the collection's name, given once to each folder. Call it in a turn."""
        if not self._name:
            name = self._named()
            made = Named(name or f"{self._prefix() or f'{PREFIX}new'}_{uuid.uuid4().hex[:8]}", self._folder())
            if not name:
                with explained("writing", self._file):
                    replace(self._file, [json.dumps(made._asdict()).encode()])
            self._use(made)
        return self._name

    def _use(self, made: Named) -> None:
        self._name = made.name
        self._noted.note(self._url, made)

    def _named(self) -> str:
        """Return the name that this folder's collection was given, empty where it was given none."""
        noted = read(self._file)
        name = str(noted.get("name", ""))
        return name if noted.get("folder") == self._folder() and name.startswith(PREFIX) else ""

    def _folder(self) -> str:
        return str(self._store.journal.folder.resolve())

    def _prefix(self) -> str:
        """Return how the collections of this store begin, in whatever folder; empty where it has no id."""
        store = self._store.journal.header().store if self._store.journal.exists() else ""
        return f"{PREFIX}{store.replace('-', '')}" if store else ""

    def open(self, generation: str, dimensions: int, *, much: bool) -> Index:  # noqa: ARG002 - the marker tells
        """Open the collection. Raises a BackendError where the server does not let us.

        What is in use already, or comes into use meanwhile, needs no turn: others may write to it for long.
        """
        end = time.monotonic() + self._longest()
        while True:
            if (found := self._in_use(dimensions)) is not None:
                return found
            with self._turn(_LOOK_SECONDS) as ours:
                if ours:
                    return self._opened(generation, dimensions)
            if time.monotonic() >= end:
                raise self._busy()

    def _opened(self, generation: str, dimensions: int) -> Index:
        client, name = self._connected(), self._collection()
        try:
            return RemoteIndex.open(client, self._url, name, dimensions)
        except IndexDamaged as error:
            log.info("%s. It is built anew.", error)
            return self.renew(generation, dimensions)

    def _in_use(self, dimensions: int) -> Index | None:
        if not (name := self._name or self._named()):
            return None
        try:
            found = RemoteIndex.open_filled(self._connected(), self._url, name, dimensions)
        except (IndexDamaged, IndexLost) as error:
            log.debug("%s. It is looked at again, in turn.", error)
            return None
        if found is not None and not self._name:
            self._use(Named(name, self._folder()))
        return found

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
        with self._turn(_SECONDS if wait else 0.0) as ours:
            yield ours

    @contextmanager
    def _turn(self, seconds: float) -> Iterator[bool]:
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
        with self._turn(self._longest()) as ours:
            if not ours:
                raise self._busy()
            yield

    def _longest(self) -> float:
        return max(_SECONDS, self._settings.timeout)

    def _busy(self) -> BackendTimeout:
        return BackendTimeout(f"another process writes to the search index at {self._url}; try again soon")

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
        """Delete the collection, and those that are left over. Raises a BackendError where that can't be."""
        client = self._connected()
        client.ask_again()
        with self._my_turn():
            name = self._collection()
            delete_collection(client, self._url, name)
        dropped = self._drop_left_over(client)
        also = f", and {dropped} that nobody used" if dropped else ""
        return 0, f"collection {name} deleted at {self._url}{also}; the next search builds it"

    def _drop_left_over(self, client: Patient) -> int:
        """Drop what is left over; only of this store, which may hold what is forgotten, must it succeed."""
        dropped, prefix = 0, self._prefix()
        for name, folder in self._noted.left_over(self._url):
            try:
                dropped += delete_collection(client, self._url, name)
            except BackendError as error:
                if prefix and name.startswith(prefix):
                    raise
                log.warning("collection %s of %s could not be dropped: %s", name, folder, error)
            else:
                self._noted.drop(self._url, name)
        return dropped

    def name(self) -> str:
        """Return the collection and its server."""
        return f"collection {self._name} at {self._url}" if self._name else f"not open, at {self._url}"

    def checks(self) -> list[Check]:
        """Say whether the server answers, and whether the key travels in the open."""
        try:
            client = self._connected()
            client.ask_again()
            version = check_version(client, self._url)
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
            server = Check(
                name="server", status="warn", detail=detail, fix="use https in providers.local.url"
            )
        else:
            server = Check(name="server", status="ok", detail=f"Qdrant {version} at {self._url}")
        return [server, *self._others(client)]

    def _others(self, client: Patient) -> list[Check]:
        """Say which collections on the server nobody uses, and how many are none of this user's."""
        try:
            there = {name for name in collections_of(client, self._url) if name.startswith(PREFIX)}
        except BackendError as error:
            log.info("what is left over could not be looked for: %s", error)
            return []
        checks = []
        if left := [made for made in self._noted.left_over(self._url) if made.name in there]:
            named = ", ".join(f"{made.name} ({made.folder})" for made in left[:_LISTED])
            more = f" and {len(left) - _LISTED} more" if len(left) > _LISTED else ""
            detail = f"{len(left)} left over at {self._url}, of folders that are gone or moved: {named}{more}"
            fix = "rawthink reindex --vectors drops them, and builds this store's index anew"
            checks.append(Check(name="collections", status="note", detail=detail, fix=fix))
        if others := there - {made.name for made in self._noted.of(self._url)} - {self._name}:
            detail = f"{len(others)} at {self._url} of which this user's notes know nothing: "
            detail += "of other users or machines, or left over; only they can tell"
            checks.append(Check(name="collections", status="note", detail=detail))
        return checks

    def close(self) -> None:
        """Close the connection."""
        with self._making:
            client, self._client = self._client, None
        if client is not None:
            client.close()
