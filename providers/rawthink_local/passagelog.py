"""The log `.rawthink/passages.jsonl`: passages whose truth is a file. It is derived, and may go at any time.

Its format is that of the journal, and its header names the store that it belongs to. One that can't be
trusted as a whole (a header of another store, or none that can be read) counts as not there, and the next
write drops it: whoever indexes the files puts them in again.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rawthink_core.commits import Header, LineDamaged, decode
from rawthink_core.rows import row_kind
from rawthink_local.files import explained
from rawthink_local.logfile import LogFile

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rawthink_core.commits import Commit
    from rawthink_local.lines import Snapshot

log = logging.getLogger("rawthink.local")

NAME = "passages.jsonl"
_HEADER_BYTES = 4096


class _Verdict(NamedTuple):
    marks: tuple[int, int, int]
    store: str | None
    trusted: bool


class PassageLog(LogFile):
    """The log of one store's files. ``store`` tells that store's id, None where there is no store (yet).

    An empty id means that the journal has lost its header: no reason to distrust this log.
    """

    absent = (FileNotFoundError, NotADirectoryError)

    def __init__(self, derived: Path, store: Callable[[], str | None]) -> None:
        super().__init__(derived / NAME)
        self._store = store
        self._verdict: _Verdict | None = None

    def stat(self) -> os.stat_result | None:
        """Return the file's state, or None where there is no log that can be trusted."""
        state = super().stat()
        if state is None:
            return None
        verdict = self._verdict
        if verdict is None or verdict[:2] != (_marks(state), self._store()):
            with super().opened() as file:
                return file.state if file is not None and self._trusts(file) else None
        return state if verdict.trusted else None

    @contextmanager
    def opened(self) -> Iterator[Snapshot | None]:
        """Open the file to read from it, None where there is none that can be trusted."""
        with super().opened() as file:
            yield file if file is not None and self._trusts(file) else None

    def _trusts(self, file: Snapshot) -> bool:
        marks, store, verdict = _marks(file.state), self._store(), self._verdict
        if verdict is None or verdict[:2] != (marks, store):
            why = _distrust(file, store)
            if why is not None and (verdict is None or verdict.trusted):
                log.warning("%s %s; it is left out, and the next write drops it", self.path, why)
            self._verdict = verdict = _Verdict(marks, store, why is None)
        return verdict.trusted

    def drop_untrusted(self) -> bool:
        """Delete a log that can't be trusted; tell whether there was one. Under the lock."""
        if super().stat() is None or self.stat() is not None:
            return False
        log.warning("%s is dropped: index the files again", self.path)
        with explained("deleting", self.path):
            self.path.unlink(missing_ok=True)
        return True


def _marks(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_ino, state.st_size, state.st_mtime_ns


def _distrust(file: Snapshot, store: str | None) -> str | None:
    """Say why a log can't be trusted, None where it can. Raises StoreTooNew."""
    first, _, _ = file.read(0, _HEADER_BYTES).partition(b"\n")
    try:
        header = decode(first.removesuffix(b"\r"))
    except LineDamaged as error:
        return f"has no header that can be read ({error})"
    if not isinstance(header, Header):
        return "does not begin with a header"
    if store is None or store not in ("", header.store):
        return "belongs to another store"
    return None


def is_filed(commit: Commit, filed: Callable[[set[str]], set[str]]) -> bool:
    """Tell whether a commit belongs into the log of files: each of its rows is about a passage from there.

    Those are the passages of files that it creates, and those of older ones that ``filed`` finds there. An
    older one that lies in the journal is ended there, or else it would be back when this log is dropped.
    """
    rows = commit.rows
    if not rows or any(row_kind(row) != "passage" or row["op"] == "forgotten" for row in rows):
        return False
    created = [row for row in rows if row["op"] == "passage"]
    if not all(row.get("origin") for row in created):
        return False
    older = {row["id"] for row in rows} - {row["id"] for row in created}
    return not older or filed(older) == older
