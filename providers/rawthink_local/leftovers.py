"""The collections that this user has made on Qdrant servers, so that what nobody uses any more can be found.

A note a collection lies in the user's state folder: on which server it is, and for which store's folder. A
collection is left over where that folder is gone, has moved, or goes by another collection now. It holds
nothing that can't be built again, so dropping one too many costs an indexing.
"""

from __future__ import annotations

import hashlib
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rawthink_core.errors import BackendUnavailable
from rawthink_local.files import make_folder, replace
from rawthink_local.lock import DERIVED

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("rawthink.local")

FILE: Final = "collection.json"  # in a store's folder of what is derived
PREFIX: Final = "rawthink_"


class Named(NamedTuple):
    """A collection, and the folder of the store that it was named for."""

    name: str
    folder: str


class Collections:
    """Notes of collections. ``folder`` is where they lie; None takes none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def note(self, url: str, made: Named) -> None:
        """Remember a collection. Where that can't be, nothing fails for it."""
        if self._folder is None:
            return
        noted = json.dumps({"url": url, **made._asdict()}, ensure_ascii=False).encode("utf-8", "replace")
        try:
            make_folder(self._folder)
            if read(self._file(url, made.name)) != json.loads(noted):
                replace(self._file(url, made.name), [noted])
        except (BackendUnavailable, OSError) as error:
            log.info("that %s was made at %s could not be noted: %s", made.name, url, error)

    def _file(self, url: str, name: str) -> Path:
        assert self._folder is not None  # noqa: S101 - asked where there is one
        key = hashlib.blake2b(f"{url} {name}".encode("utf-8", "replace"), digest_size=12).hexdigest()
        return self._folder / f"{key}.json"

    def of(self, url: str) -> list[Named]:
        """Return what is noted of a server."""
        return sorted(made for at, made in self._all() if at == url)

    def _all(self) -> Iterator[tuple[str, Named]]:
        for file in self._folder.glob("*.json") if self._folder is not None else ():
            noted = read(file)
            if str(noted.get("name", "")).startswith(PREFIX):
                yield str(noted.get("url")), Named(str(noted["name"]), str(noted.get("folder")))

    def left_over(self, url: str) -> list[Named]:
        """Return the collections on a server that no folder goes by any more."""
        return [made for made in self.of(url) if read(Path(made.folder) / DERIVED / FILE) != made._asdict()]

    def drop(self, url: str, name: str) -> None:
        """Remember a collection no longer."""
        with suppress(OSError):  # then it is looked for once more
            self._file(url, name).unlink(missing_ok=True)


def read(file: Path) -> dict[str, Any]:
    """Return what a note says, nothing where it can't be read."""
    try:
        noted = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}
