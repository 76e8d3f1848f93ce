"""A view of one space of a store: from questions to states, by way of the row index and the files.

One view serves one operation. It holds the files open, so that all of its reads see the same ones even while
another process puts a new one in a file's place; where the index goes over to the new one meanwhile, the
view raises `Moved` and the operation begins anew.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Self, TypeVar

from rawthink_core.clock import to_micros
from rawthink_core.commits import Commit
from rawthink_core.keyed import KeyedReader
from rawthink_core.selection import owner_of
from rawthink_local.lines import Line, Moved, read_line
from rawthink_local.lookup import OVERLAY
from rawthink_local.openfiles import OpenFiles
from rawthink_local.storeindex import BASE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from rawthink_core.rows import Stamped, State
    from rawthink_core.selection import Selection
    from rawthink_local.questions import Spot
    from rawthink_local.storeindex import StoreIndex

T = TypeVar("T")

_FIRST = -(2**63)  # microseconds: before all that is


class View(KeyedReader):
    """Reads states of one space, and its commits. Not safe to share between threads.

    Use as a context manager.
    """

    def __init__(self, index: StoreIndex, space: str) -> None:
        super().__init__(space)
        self._index = index
        self._files: OpenFiles | None = None

    def __enter__(self) -> Self:
        self._files = OpenFiles(self._index)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files. May be called again."""
        if self._files is not None:
            self._files.close()

    @property
    def _open(self) -> OpenFiles:
        assert self._files is not None  # noqa: S101 - whoever asks has entered
        return self._files

    def commits(self) -> Iterator[Commit]:
        """Yield every commit of the space once, in the order of time."""
        files = self._open
        places: dict[str, tuple[str, str, int, int]] = {}
        for line in files.lines():
            commit = read_line(line)
            if isinstance(commit, Commit) and commit.space == self.space:
                place = (commit.at, commit.id, line.position, len(line.data))
                places[commit.id] = min(place, places.get(commit.id, place))
        for _, _, position, length in sorted(places.values()):
            if isinstance(commit := read_line(Line(position, files.read(position, length))), Commit):
                yield commit

    # --- rows -----------------------------------------------------------------------------------

    def find(self, kind: str, *parts: object) -> list[Spot]:
        """Return the places of the rows that may answer a question (see `questions`)."""
        return self._find_all(kind, [parts])[0]

    def _find_all(self, kind: str, asked: Sequence[tuple[object, ...]]) -> list[list[Spot]]:
        return self._same(self._index.find_all(kind, self.space, asked))

    def _same(self, answer: T) -> T:
        """Return what the index said, if it spoke of the file that this view reads."""
        if self._index.identity != self._open.identity:
            raise Moved
        return answer

    def by_space(self, spots: Iterable[Spot]) -> dict[str, list[Spot]]:
        """Return places of rows by the space that they are of, whichever this view is of."""
        found: dict[str, list[Spot]] = {}
        for spot in spots:
            found.setdefault(self._open.head(spot.line).space, []).append(spot)
        return found

    def rows_at(self, spots: Iterable[Spot]) -> list[Stamped]:
        """Return the rows of this space at some places: all rows of a line that is read as a whole."""
        return self._open.rows(spots, self.space)

    def commit(self, commit_id: str) -> Commit | None:
        """Return a commit of this space by its id."""
        for spot in self.find("commit", commit_id):
            found = read_line(Line(spot.line, self._open.read(spot.line, spot.length)))
            if isinstance(found, Commit) and found.id == commit_id and found.space == self.space:
                return found
        return None

    def mentions(self, item: str) -> int:
        """Return how many rows may be about an item (at least as many as are)."""
        return len(set(self.find("id", item)))

    def in_files(self, items: Collection[str]) -> bool:
        """Tell whether a row about any of these items may be in the log of files."""
        spots = (spot for found in self._find_all("id", [(item,) for item in items]) for spot in found)
        return any(BASE <= spot.position < OVERLAY for spot in spots)

    def filed(self, items: Collection[str]) -> set[str]:
        """Return which of these passages lie in the log of files, and nowhere else."""
        found = set()
        for item, spots in zip(items, self._find_all("id", [(item,) for item in items]), strict=True):
            rows = (stamped for stamped in self.rows_at(spots) if stamped.row["id"] == item)
            made = [stamped.position for stamped in rows if stamped.row["op"] == "passage"]
            if made and all(BASE <= position < OVERLAY for position in made):
                found.add(item)
        return found

    def only_in_files(self, items: Collection[str]) -> set[str]:
        """Return which of these items the journal says nothing of."""
        found = zip(items, self._find_all("id", [(item,) for item in items]), strict=True)
        return {item for item, spots in found if all(BASE <= spot.position < OVERLAY for spot in spots)}

    # --- what core's reader asks ----------------------------------------------------------------

    def answers(self, kind: str, asked: Sequence[tuple[object, ...]]) -> list[list[Stamped]]:
        """Return the rows that may answer questions."""
        return [self.rows_at(spots) for spots in self._find_all(kind, asked)]

    def ids(self, kind: str, asked: Sequence[tuple[object, ...]]) -> set[str]:
        """Return the ids of the items that may answer questions: a line is read once for all of them."""
        spots = (spot for found in self._find_all(kind, asked) for spot in found)
        return {stamped.row["id"] for stamped in self.rows_at(spots)}

    def last_ordinal(self, session: str) -> int:
        """Return the highest ordinal of a session, -1 where it has no passage."""
        return self._same(self._index.last_ordinal(self.space, session))

    # --- in the order of time -------------------------------------------------------------------

    def born_after(self, at: int, item: str, limit: int) -> list[tuple[int, str]]:
        """Return the next items in the order of (recorded at, id), after the given pair."""
        return self._same(self._index.born_after(self.space, at, item, limit))

    def following(self, chosen: Selection, at: str, item: str, limit: int) -> Iterator[State]:
        """Yield the states that pass, in the order of (recorded at, id), after the given pair."""
        last = (to_micros(datetime.fromisoformat(at)) if at else _FIRST, item)
        while born := self.born_after(*last, limit):
            states = self.states({came for _, came in born}, chosen.as_of)
            for micros, came in born:
                state = states.get(came)
                if state is None or to_micros(datetime.fromisoformat(state.recorded_at)) != micros:
                    continue  # it came to be again at another time, and is told of there
                if chosen.passes(state, owner_of(state, states)):
                    yield state
            if len(born) < limit:
                return
            last = born[-1]
