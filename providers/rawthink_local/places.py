"""Where a search index lies: in a slot of this machine, one for each process, or on a server, one for all."""

from __future__ import annotations

import logging
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from rawthink_core.errors import BackendUnavailable
from rawthink_core.upkeep import Check
from rawthink_local.building import Builder
from rawthink_local.edge import has_index
from rawthink_local.engine import IndexDamaged
from rawthink_local.files import make_folder
from rawthink_local.replicas import Slot, copy_from_free_slot, drop_free_slots, examine_slots, take_slot
from rawthink_local.served import ServedIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from datetime import date

    from rawthink_core.clock import Clock
    from rawthink_local.edge import EdgeIndex
    from rawthink_local.remote import RemoteIndex
    from rawthink_local.store import Store
    from rawthink_local.vectors import Kept

    Index: TypeAlias = EdgeIndex | ServedIndex | RemoteIndex

log = logging.getLogger("rawthink.local")


class Build(Protocol):
    """A large backlog that is being worked off beside the searches."""

    def progress(self) -> str | None:
        """Say how far it is, or why it failed; None when it is done."""

    def failed_for(self, seconds: float) -> bool:
        """Tell whether it failed at least so long ago."""

    def stop(self) -> None:
        """End it; what it has done is kept."""


class IndexPlace(Protocol):
    """What a replica asks of the place that its index lies in."""

    shared: bool
    """Whether other processes write the same index."""

    def open(self, generation: str, dimensions: int, *, much: bool) -> Index:
        """Open the index, made where there is none; ``much`` tells that building it would take long."""

    def renew(self, generation: str, dimensions: int) -> Index:
        """Delete the index, closed before, and make an empty one."""

    def look(self, index: Index) -> bool:
        """Read the marker anew where another process may have written; tell whether that is so."""

    def turn(self, *, wait: bool) -> AbstractContextManager[bool]:
        """Keep others from writing; yield whether that succeeded."""

    def intact(self) -> bool:
        """Tell whether the open index is still where it was."""

    def tidy(self) -> None:
        """Note that the place is in use."""

    def release(self) -> None:
        """Let go of the place; the index was closed before. May be called again."""

    def build(self, store: Store, kept: Kept | None) -> Build:
        """Start to work off a large backlog."""

    def forget(self) -> tuple[int, str]:
        """Delete the index; return how many other processes still hold one, and what was deleted."""

    def name(self) -> str:
        """Return where the index lies, for people."""

    def checks(self) -> list[Check]:
        """Return what `doctor` says of the place."""

    def close(self) -> None:
        """Let go of everything for good."""


class SlotPlace:
    """A slot of the user's cache, of this process alone."""

    shared = False

    def __init__(
        self, root: Path | None, clock: Clock, opener: Callable[[Path, int], Index] = ServedIndex.open
    ) -> None:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self.root = self._usable(root)
        self._clock = clock
        self._opener = opener
        self._touched: date | None = None
        self._slot: Slot | None = None

    def _usable(self, root: Path | None) -> Path:
        """Return the folder for replicas: one of this process alone where the user's cache can't be used."""
        try:
            if root is not None:
                make_folder(root)
                return root
        except BackendUnavailable as error:
            log.warning("no place for a search index: %s. It is built anew in each process", error)
        self._temporary = tempfile.TemporaryDirectory(prefix="rawthink-")
        return Path(self._temporary.name)

    def _take(self, generation: str) -> Slot:
        if self._slot is None:
            self._slot = take_slot(self.root, self._clock.now(), generation=generation)
        return self._slot

    def open(self, generation: str, dimensions: int, *, much: bool) -> Index:
        """Take a slot and open its index, or the copy of another one's."""
        slot = self._take(generation)
        if much:
            copy_from_free_slot(slot)
        try:
            return self._opener(slot.folder, dimensions)
        except IndexDamaged as error:
            log.info("%s. It is built anew.", error)
            slot.empty(self._clock.now(), generation=generation)
            return self._opener(slot.folder, dimensions)

    def renew(self, generation: str, dimensions: int) -> Index:
        """Empty the slot."""
        try:
            self._take(generation).empty(self._clock.now(), generation=generation)
        except BackendUnavailable:  # the whole folder was deleted, its lock included
            self.release()
            self._take(generation).empty(self._clock.now(), generation=generation)
        return self._opener(self._take(generation).folder, dimensions)

    def look(self, index: Index) -> bool:  # noqa: ARG002 - nobody else writes it
        """Return False: nobody else writes here."""
        return False

    @contextmanager
    def turn(self, *, wait: bool) -> Iterator[bool]:  # noqa: ARG002 - see above
        """Yield True: nobody else writes here."""
        yield True

    def intact(self) -> bool:
        """Tell whether the slot still holds an index."""
        return self._slot is not None and has_index(self._slot.folder)

    def tidy(self) -> None:
        """Date the slot, once a day."""
        now = self._clock.now()
        if self._slot is not None and self._touched != now.date():
            self._touched = now.date()
            self._slot.touch(now)

    def release(self) -> None:
        """Release the slot."""
        slot, self._slot = self._slot, None
        if slot is not None:
            with suppress(BackendUnavailable):  # its lock is free all the same
                slot.release(self._clock.now())

    def build(self, store: Store, kept: Kept | None) -> Build:
        """Build in a process of its own, so that nothing waits for it."""
        return Builder(store, self.root, kept)

    def forget(self) -> tuple[int, str]:
        """Delete every free slot."""
        return drop_free_slots(self.root), "replicas deleted"

    def name(self) -> str:
        """Return the slot's folder."""
        return str(self._slot.folder) if self._slot is not None else "not open"

    def checks(self) -> list[Check]:
        """Say which replicas there are, and which nobody needs."""
        used, free, orphans = examine_slots(self.root)
        detail = f"{used} replica(s) of the index in use, {free} kept for the next process"
        if orphans:
            detail += f", {orphans} left over (deleted by the next process that searches)"
        return [Check(name="replicas", status="ok", detail=detail)]

    def close(self) -> None:
        """Delete the folder that was of this process alone."""
        if self._temporary is not None:
            self._temporary.cleanup()
