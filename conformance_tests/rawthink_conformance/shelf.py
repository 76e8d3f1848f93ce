"""Where the reference provider keeps things: a shelf for each folder, for as long as the process lives."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from rawthink_conformance.meaning import Vectors
from rawthink_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from datetime import date

    from rawthink_core.commits import Commit


class Shelf:
    """What one store holds: its zone, commits, vectors, and the day on which items were last read."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self.lock = threading.Lock()
        self.commits: list[Commit] = []
        self.used: dict[str, date] = {}
        self.vectors = Vectors()
        self.model: tuple[str, str] | None = None  # name and fingerprint of what made the vectors


_SHELVES: dict[str, Shelf] = {}


def shelf_at(path: Path, zone: str) -> Shelf:
    """Return the shelf of a folder, a new one in ``zone`` where there is none. Raises BackendUnavailable."""
    for known in [known for known in _SHELVES if not Path(known).is_dir()]:
        del _SHELVES[known]  # its folder is gone, and so is the store
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BackendUnavailable(
            f"{path} can't be made a folder: {error.strerror}. Choose another path"
        ) from error
    return _SHELVES.setdefault(str(path), Shelf(zone))


def known_shelf(path: Path) -> Shelf | None:
    """Return the shelf of a folder where there is one."""
    return _SHELVES.get(str(path))
