"""The files of a store, held open for one operation: bytes, lines and rows, by the places of the index."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from rawthink_core.rows import Stamped
from rawthink_local.files import explained
from rawthink_local.lines import Line, Moved, journal_lines
from rawthink_local.lookup import OVERLAY
from rawthink_local.storeindex import BASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import FileIO

    from rawthink_core.rows import Row
    from rawthink_local.lookup import RowIndex
    from rawthink_local.questions import Spot
    from rawthink_local.storeindex import StoreIndex

_HEAD_BYTES = 512
_OPS = b'"ops":'


class Head(NamedTuple):
    """What stands before the rows of a commit."""

    commit: str
    at: str
    space: str
    by: dict[str, Any] | None


class OpenFiles:
    """The files that an index speaks of now. Raises Moved where it has gone over to others meanwhile.

    Not safe to share between threads.
    """

    def __init__(self, index: StoreIndex) -> None:
        self._index = index
        self._heads: dict[int, Head] = {}
        self._file: FileIO | None = None  # the journal
        self._filed: FileIO | None = None  # the log of files
        self.identity = index.identity
        filed = index.filed
        self._ends = (index.end, filed.end if filed is not None else 0)
        try:
            self._file = _opened(index.main, self.identity[:3])
            if filed is not None:
                self._filed = _opened(filed, self.identity[3:])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the files. May be called again."""
        for file in (self._file, self._filed):
            if file is not None:
                file.close()

    def lines(self) -> Iterator[Line]:
        """Yield every line, as many as there were at the beginning."""
        indexes, files = (self._index.main, self._index.filed), (self._file, self._filed)
        for index, file, end, base in zip(indexes, files, self._ends, (0, BASE), strict=True):
            if index is not None and file is not None:
                with explained("reading", index.journal.path):
                    yield from (Line(base + at, data) for at, data in journal_lines(file, end))

    def read(self, position: int, length: int) -> bytes:
        """Return bytes at a place, of the overlay too."""
        if position >= OVERLAY:
            return self._index.overlaid(position, length)
        file, part = self._file, self._index.main
        if position >= BASE and self._index.filed is not None:
            file, part, position = self._filed, self._index.filed, position - BASE
        if file is None:
            raise Moved
        try:  # many times a search, so without a context
            file.seek(position)
            return file.read(length)
        except OSError:
            with explained("reading", part.journal.path):
                raise

    def head(self, line: int) -> Head:
        """Return what stands before the rows of the commit at a place."""
        head = self._heads.get(line)
        if head is None:
            size = _HEAD_BYTES
            while True:
                data = self.read(line, size)
                if (at := data.find(_OPS)) >= 0:
                    break
                if len(data) < size:
                    raise Moved
                size *= 4
            body = _loads(data[:at] + b'"ops":0}')
            if not body.keys() >= {"commit", "at", "space"}:
                raise Moved
            head = Head(body["commit"], body["at"], body["space"], body.get("by"))
            self._heads[line] = head
        return head

    def rows(self, spots: Iterable[Spot], space: str) -> list[Stamped]:
        """Return the rows of a space at some places, each once; all of a line that is read as a whole."""
        stamped: dict[tuple[str, bytes, int], Stamped] = {}  # a merge may have left a commit twice
        for position, length, line in sorted(set(spots)):
            head = self.head(line)
            if head.space != space:
                continue
            data = self.read(position, length)
            body = _loads(data)
            rows: list[Row] = body.get("ops", [body])
            for number, row in enumerate(rows):
                if "id" not in row:
                    raise Moved
                row_only = Stamped(head.at, head.commit, position + number, row, head.by)
                stamped.setdefault((head.commit, data, number), row_only)
        return list(stamped.values())


def _opened(index: RowIndex, identity: tuple[int, ...]) -> FileIO | None:
    """Open the file that an index speaks of, None where there is none."""
    if not any(identity[1:]):
        return None
    with explained("reading", index.journal.path):
        try:
            file = index.journal.path.open("rb", buffering=0)  # a row is shorter than a buffer
        except index.journal.absent:
            raise Moved from None
        state = os.fstat(file.fileno())
    if (state.st_dev, state.st_ino) != identity[1:]:
        file.close()
        raise Moved
    return file


def _loads(data: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise Moved from None
    if not isinstance(body, dict):
        raise Moved
    return body
