"""The lines of a journal: how a file is cut into them, which of them are whole, and what a place in it is.

A `Snapshot` is one open file: whoever reads several things of a journal reads them from one, since another
process may put a new file in its place at any moment.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple

from rawthink_core.commits import FORMAT, Header, LineDamaged, checksum_fits, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_core.commits import Commit

TAIL_BYTES = 64
_PIECE = 4 * 2**20
_OURS = b'{"v":%d,' % FORMAT


class Moved(Exception):  # noqa: N818 - a signal to look again, not an error
    """The journal was replaced while it was being read."""


class Stamp(NamedTuple):
    """Which file a position belongs to: the same stamp, the same bytes before the position."""

    device: int
    inode: int
    tail: str

    @property
    def text(self) -> str:
        """The stamp as it is noted elsewhere."""
        return f"{self.device}|{self.inode}|{self.tail}"


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that can't be read: where it starts, how long it is, and why."""

    position: int
    length: int
    why: str


class Line(NamedTuple):
    """One whole line of the journal, without its line break."""

    position: int
    data: bytes


class Snapshot:
    """An open journal. It can grow and even be cut short meanwhile; it is the same file all the time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.state = os.fstat(file.fileno())

    @property
    def size(self) -> int:
        """The number of bytes when it was opened."""
        return self.state.st_size

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes between two positions, as far as there are any."""
        self._file.seek(start)
        return self._file.read(max(0, end - start))

    def stamp(self, position: int) -> Stamp:
        """Return the stamp of the bytes before a position."""
        return stamp_of(self.state, position, self.read(max(0, position - TAIL_BYTES), position))

    def unsound(self, end: int) -> set[int]:
        """Return the positions of the lines before ``end`` whose checksum is wrong. Reads all of it."""
        self._file.seek(0)
        lines = journal_lines(self._file, end, whole=False)
        return {line.position for line in lines if not is_whole(line)}


def stamp_of(state: os.stat_result, position: int, before: bytes) -> Stamp:
    """Return the stamp of a position, given the file's state and at least the last bytes before it."""
    digest = hashlib.blake2b(b"%d:" % position + before[-TAIL_BYTES:], digest_size=8).hexdigest()
    return Stamp(state.st_dev, state.st_ino, digest)


def lines_of(data: bytes, start: int) -> tuple[list[Line], int]:
    """Split bytes that begin at position ``start`` into whole lines; return them and where they end.

    What an editor or git makes of line breaks does no harm: a carriage return is no part of a line, and a
    last line whose checksum is right is whole without its line break.
    """
    lines: list[Line] = []
    begin = 0
    while (end := data.find(b"\n", begin)) >= 0:
        if text := data[begin:end].removesuffix(b"\r"):
            lines.append(Line(start + begin, text))
        begin = end + 1
    if checksum_fits(rest := data[begin:]):
        lines.append(Line(start + begin, rest))
        begin = len(data)
    return lines, start + begin


def journal_lines(file: IO[bytes], end: int, *, whole: bool = True) -> Iterator[Line]:
    """Yield the lines of an open journal before ``end``; with ``whole`` off, what is left of one too."""
    start, rest = 0, b""
    while piece := file.read(max(0, min(_PIECE, end - start - len(rest)))):
        data = rest + piece
        lines, after = lines_of(data, start)
        yield from lines
        rest, start = data[after - start :], after
    if rest and not whole:
        yield Line(start, rest)


def is_whole(line: Line) -> bool:
    """Tell whether a line is of this format and its checksum right, without reading what the line says."""
    return line.data.startswith(_OURS) and checksum_fits(line.data)


def read_line(line: Line) -> Commit | Header | Damage:
    """Decode a line; a damaged one is returned as `Damage`, not raised. Raises StoreTooNew."""
    try:
        return decode(line.data)
    except LineDamaged as error:
        return Damage(line.position, len(line.data), str(error))
