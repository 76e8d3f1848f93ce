"""The row index of a store: one for the journal, one for the log of files, and one answer from both.

A position in the log of files is told apart by `BASE`, which is added to it: places stay plain numbers, and
whoever reads one knows from which file. A store without such a log pays a `stat` for it, and nothing else.
"""

from __future__ import annotations

import heapq
import threading
from itertools import islice
from typing import TYPE_CHECKING

from rawthink_local.lines import Line
from rawthink_local.lookup import RowIndex
from rawthink_local.questions import Spot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from rawthink_core.commits import Commit
    from rawthink_local.journal import Journal
    from rawthink_local.passagelog import PassageLog

BASE = 1 << 59  # positions from here on, and below the overlay's, are in the log of files
_FILE = "passages.sqlite"


class StoreIndex:
    """Answers questions about a store. Safe to use from many threads.

    ``file`` is where the SQLite part for the journal lies, that of the log of files lies beside it; None
    keeps them in memory. Where anything turns out to be another than it was, questions raise `Moved`.
    """

    def __init__(self, journal: Journal, log: PassageLog, file: Path | None) -> None:
        self.main = RowIndex(journal, file)
        self.filed: RowIndex | None = None  # from the first time on that there is a log of files
        self._log = log
        self._lock = threading.Lock()

    @property
    def parts(self) -> tuple[RowIndex, ...]:
        """The index of the journal, and that of the log of files where there is one."""
        filed = self._filed()
        return (self.main,) if filed is None else (self.main, filed)

    def _filed(self) -> RowIndex | None:
        filed = self.filed
        return filed if filed is not None and filed.end else None

    # --- what it is about -----------------------------------------------------------------------

    @property
    def end(self) -> int:
        """Where the whole lines of the journal end that have been seen."""
        return self.main.end

    @property
    def size(self) -> int:
        """The bytes of whole lines that have been seen, of both files."""
        return sum(part.end for part in self.parts)

    @property
    def identity(self) -> tuple[int, ...]:
        """What stays the same while places stay right (see `Follower.identity`), of both files."""
        filed = self.filed
        return self.main.identity if filed is None else (*self.main.identity, *filed.identity)

    @property
    def last_at(self) -> str:
        """The latest commit time seen, ISO 8601."""
        return max(part.last_at for part in self.parts)

    def refresh(self) -> None:
        """See what was written since the last look. Costs a `stat` for each file when nothing was."""
        self.main.refresh()
        if self.filed is None:
            if self._log.stat() is None:
                return
            with self._lock:
                if self.filed is None:
                    place = self.main.file
                    self.filed = RowIndex(self._log, place.with_name(_FILE) if place is not None else None)
        self.filed.refresh()

    def check(self) -> None:
        """Look at every line again."""
        self._each(RowIndex.check)

    def catch_up(self) -> None:
        """Move the markers to the ends of the files now."""
        self._each(RowIndex.catch_up)

    def rebuild(self) -> None:
        """Build the SQLite parts anew."""
        self._each(RowIndex.rebuild)

    def close(self) -> None:
        """Stop the background work and close the files. May be called again."""
        self._each(RowIndex.close)

    def _each(self, do: Callable[[RowIndex], None]) -> None:
        do(self.main)
        if self.filed is not None:
            do(self.filed)

    def refuse_damage(self) -> None:
        """Raise StoreDamaged where a line of either file can't be read."""
        for part in self.parts:
            part.refuse_damage()

    def lines(self, position: int) -> Iterator[Line]:
        """Yield the lines of one file from a position on."""
        if position < BASE:
            yield from self.main.lines(position)
        elif self.filed is not None:
            yield from (Line(at + BASE, data) for at, data in self.filed.lines(position - BASE))

    # --- the overlay (see `RowIndex`) -----------------------------------------------------------

    def lay_over(self, commit: Commit | None) -> None:
        """Read on as if ``commit`` stood at the end of the journal; None ends that."""
        self.main.lay_over(commit)

    @property
    def overlay_line(self) -> bytes:
        """The line of the commit that is laid over, without its line break; empty where there is none."""
        return self.main.overlay_line

    def overlaid(self, position: int, length: int) -> bytes:
        """Return bytes of the overlay."""
        return self.main.overlaid(position, length)

    # --- answering ------------------------------------------------------------------------------

    def find(self, kind: str, space: str, *parts: object) -> list[Spot]:
        """Return the places of the rows that may answer a question (see `questions`)."""
        return self.find_all(kind, space, [parts])[0]

    def find_all(self, kind: str, space: str, asked: Sequence[tuple[object, ...]]) -> list[list[Spot]]:
        """Return the places that may answer each of many questions of one kind: cheaper than one by one."""
        found = self.main.find_all(kind, space, asked)
        if (filed := self._filed()) is None:
            return found
        more = filed.find_all(kind, space, asked)
        return [[*ours, *map(_raised, theirs)] for ours, theirs in zip(found, more, strict=True)]

    def last_ordinal(self, space: str, session: str) -> int:
        """Return the highest ordinal in a session, -1 where there is none."""
        return max(part.last_ordinal(space, session) for part in self.parts)

    def born_after(self, space: str, at: int, item: str, limit: int) -> list[tuple[int, str]]:
        """Return the next items of a space in the order of (recorded at, id), after the given pair."""
        found = [part.born_after(space, at, item, limit) for part in self.parts]
        if len(found) == 1:
            return found[0]
        return list(islice(dict.fromkeys(heapq.merge(*found)), limit))

    def born_count(self) -> int:
        """Return how many items of all spaces have come to be, as far as the markers and the tails know."""
        return sum(part.born_count() for part in self.parts)

    # --- what a merge leaves --------------------------------------------------------------------

    def retired_twice(self) -> list[list[Spot]] | None:
        """Return the rows that end one item, where there are several; None while that isn't known yet."""
        filed = self._filed()
        ends = self.main.ends(filed.ended() if filed is not None else ())
        if ends is None:
            return None
        if filed is not None:
            more = filed.ends(ends.keys())
            if more is None:
                return None
            for item, spots in more.items():
                ends.setdefault(item, set()).update(map(_raised, spots))
        return [sorted(spots) for spots in ends.values() if len(spots) > 1]

    def of_erased(self) -> list[Spot] | None:
        """Return every row about items that were erased, the marks included; None while that isn't known yet.

        Items of which only marks are left are not among them.
        """
        marks: dict[int, set[Spot]] = {}
        for part in self.parts:
            if (erased := part.erased()) is None:
                return None
            for item, spots in erased.items():
                marks.setdefault(item, set()).update(self._raised_of(part, spots))
        found: dict[int, set[Spot]] = {}
        for part in self.parts:
            if (answers := part.spots_of(marks.keys())) is None:
                return None
            for item, spot in answers:
                found.setdefault(item, set()).update(self._raised_of(part, [spot]))
        return sorted({spot for item, spots in found.items() if spots - marks[item] for spot in spots})

    def _raised_of(self, part: RowIndex, spots: Iterable[Spot]) -> Iterable[Spot]:
        return spots if part is self.main else map(_raised, spots)


def _raised(spot: Spot) -> Spot:
    return Spot(spot.position + BASE, spot.length, spot.line + BASE)
