"""Which file has which id: asked often, answered without reading what has not changed."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rawthink_core.vault.documents import parse, session_id
from rawthink_core.vault.folder import read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rawthink_core.vault.folder import Listing, Mark
    from rawthink_core.vault.ledger import Entry


class Catalogue:
    """The ids of the files of one vault. What waits for the disk belongs into a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[Mark, str]] = {}

    def ids(self, listing: Listing, entries: Mapping[str, Entry]) -> dict[str, str]:
        """Return the id of each file, by its path. One that can't be read has the id that its name gives."""
        before = self._known
        found: dict[str, tuple[Mark, str]] = {}
        for path, mark in listing.files.items():
            entry = entries.get(path)
            if path in before and before[path][0] == mark:
                found[path] = before[path]
            elif entry is not None and entry.mark == mark:
                found[path] = mark, entry.session
            else:
                found[path] = mark, self._read(path)
        self._known = found
        return {path: said for path, (_, said) in found.items()}

    def _read(self, path: str) -> str:
        try:
            return parse(path, read(self._folder, path)).id
        except (OSError, UnicodeDecodeError):
            return session_id(PurePosixPath(path).stem)
