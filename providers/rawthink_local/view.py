"""A view of one space of a store: from questions to states, by way of the row index and the journal.

One view serves one operation. It holds the journal file open, so that all of its reads see the same file
even while another process puts a new one in its place; where the index goes over to the new one meanwhile,
the view raises `Moved` and the operation begins anew.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import orjson

from rawthink_core.commits import Commit
from rawthink_core.graph import Facts, Needs
from rawthink_core.identity import entity_id
from rawthink_core.ranking import Place
from rawthink_core.rows import Row, Stamped, State, ends_of, fold
from rawthink_local.files import explained
from rawthink_local.lines import Line, Moved, journal_lines, read_line
from rawthink_local.lookup import OVERLAY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from io import FileIO

    from rawthink_local.journal import Journal
    from rawthink_local.lookup import RowIndex
    from rawthink_local.questions import Spot

T = TypeVar("T")

_HEAD_BYTES = 512
_OPS = b'"ops":'


class _Head(NamedTuple):
    commit: str
    at: str
    space: str
    by: dict[str, Any] | None


class View:
    """Reads states of one space. Not safe to share between threads. Use as a context manager."""

    def __init__(self, journal: Journal, index: RowIndex, space: str) -> None:
        self._journal = journal
        self._index = index
        self.space = space
        self._file: FileIO | None = None
        self._identity = (0, 0, 0)
        self._end = 0
        self._heads: dict[int, _Head] = {}
        self._states: dict[tuple[str, str | None], State | None] = {}

    def __enter__(self) -> Self:
        self._identity, self._end = self._index.identity, self._index.end
        if not any(self._identity[1:]):
            return self  # there is no journal yet
        with explained("reading", self._journal.path), suppress(FileNotFoundError):
            self._file = self._journal.path.open("rb", buffering=0)  # a row is shorter than a buffer
        state = os.fstat(self._file.fileno()) if self._file is not None else None
        if state is None or (state.st_dev, state.st_ino) != self._identity[1:]:
            self.close()
            raise Moved
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. May be called again."""
        if self._file is not None:
            self._file.close()

    def commits(self) -> Iterator[Commit]:
        """Yield every commit of the space once, in the order of time."""
        if self._file is None:
            return
        places: dict[str, tuple[str, str, int, int]] = {}
        with explained("reading", self._journal.path):
            for line in journal_lines(self._file, self._end):
                commit = read_line(line)
                if isinstance(commit, Commit) and commit.space == self.space:
                    place = (commit.at, commit.id, line.position, len(line.data))
                    places[commit.id] = min(place, places.get(commit.id, place))
        for _, _, position, length in sorted(places.values()):
            if isinstance(commit := read_line(Line(position, self._read(position, length))), Commit):
                yield commit

    # --- rows -----------------------------------------------------------------------------------

    def _find(self, kind: str, *parts: object) -> list[Spot]:
        return self._find_all(kind, [parts])[0]

    def _find_all(self, kind: str, asked: Sequence[tuple[object, ...]]) -> list[list[Spot]]:
        return self._same(self._index.find_all(kind, self.space, asked))

    def _same(self, answer: T) -> T:
        """Return what the index said, if it spoke of the file that this view reads."""
        if self._index.identity != self._identity:
            raise Moved
        return answer

    def _read(self, position: int, length: int) -> bytes:
        if position >= OVERLAY:
            return self._index.overlaid(position, length)
        if self._file is None:
            raise Moved
        try:  # many times a search, so without a context
            self._file.seek(position)
            return self._file.read(length)
        except OSError:
            with explained("reading", self._journal.path):
                raise

    def _head(self, line: int) -> _Head:
        head = self._heads.get(line)
        if head is None:
            size = _HEAD_BYTES
            while True:
                data = self._read(line, size)
                if (at := data.find(_OPS)) >= 0:
                    break
                if len(data) < size:
                    raise Moved
                size *= 4
            body = _loads(data[:at] + b'"ops":0}')
            if not body.keys() >= {"commit", "at", "space"}:
                raise Moved
            head = _Head(body["commit"], body["at"], body["space"], body.get("by"))
            self._heads[line] = head
        return head

    def _rows(self, spots: Iterable[Spot]) -> list[Stamped]:
        stamped: dict[tuple[str, bytes, int], Stamped] = {}  # a merge may have left a commit twice
        for position, length, line in sorted(set(spots)):
            head = self._head(line)
            if head.space != self.space:
                continue
            data = self._read(position, length)
            body = _loads(data)
            rows: list[Row] = body.get("ops", [body])
            for number, row in enumerate(rows):
                if "id" not in row:
                    raise Moved
                row_only = Stamped(head.at, head.commit, position + number, row, head.by)
                stamped.setdefault((head.commit, data, number), row_only)
        return list(stamped.values())

    def _ids(self, kind: str, asked: Iterable[tuple[object, ...]]) -> set[str]:
        """Return the ids of the items that may answer questions of one kind."""
        wanted = list(asked)
        if not wanted:
            return set()
        spots = (spot for found in self._find_all(kind, wanted) for spot in found)
        return {stamped.row["id"] for stamped in self._rows(spots)}

    def commit(self, commit_id: str) -> Commit | None:
        """Return a commit of this space by its id."""
        for spot in self._find("commit", commit_id):
            found = read_line(Line(spot.line, self._read(spot.line, spot.length)))
            if isinstance(found, Commit) and found.id == commit_id and found.space == self.space:
                return found
        return None

    def mentions(self, item: str) -> int:
        """Return how many rows may be about an item (at least as many as are)."""
        return len(set(self._find("id", item)))

    # --- states ---------------------------------------------------------------------------------

    def state(self, item: str, as_of: str | None = None) -> State | None:
        """Return the state of one item, an erased one too."""
        return self._load([item], as_of).get(item)

    def _load(self, ids: Iterable[str], as_of: str | None) -> dict[str, State]:
        """Return the states of items, erased ones too; each is read once in the life of the view."""
        wanted = list(dict.fromkeys(ids))
        fresh = [item for item in wanted if (item, as_of) not in self._states]
        if fresh:
            spots = self._find_all("id", [(item,) for item in fresh])
            for item, found in zip(fresh, spots, strict=True):
                rows = [stamped for stamped in self._rows(found) if stamped.row["id"] == item]
                self._states[item, as_of] = fold(rows, as_of)
        return {item: state for item in wanted if (state := self._states[item, as_of]) is not None}

    def _all(self, ids: Iterable[str], as_of: str | None) -> list[State]:
        return [state for state in self._load(ids, as_of).values() if not state.forgotten]

    def states(self, ids: Collection[str], as_of: str | None = None) -> Mapping[str, State]:
        """Return the states of items by id, and of the entities that they belong to."""
        found = {state.id: state for state in self._all(ids, as_of)}
        owners = {end for state in found.values() for end in ends_of(state)} - found.keys()
        return found | {state.id: state for state in self._all(owners, as_of)}

    def named(self, keys: Collection[str]) -> Mapping[str, str]:
        """Return the ids of the entities that answer to identity keys."""
        ids = self._ids("name", ((key, entity_id(self.space, key)) for key in keys))
        entities = [state for state in self._all(sorted(ids), None) if state.kind == "entity"]
        return {key: state.id for state in entities for key in state.identity_keys() if key in keys}

    def about(self, entities: Collection[str], as_of: str | None = None) -> list[State]:
        """Return every observation of these entities, retired ones too."""
        states = self._all(self._ids("about", ((entity,) for entity in entities)), as_of)
        return [state for state in states if state.kind == "observation" and state.row["entity"] in entities]

    def links(self, entities: Collection[str], as_of: str | None = None) -> list[State]:
        """Return every relation that touches these entities, retired ones too."""
        states = self._all(self._ids("touch", ((entity,) for entity in entities)), as_of)
        return [s for s in states if s.kind == "relation" and any(end in entities for end in ends_of(s))]

    def passages_at(self, places: Collection[Place], as_of: str | None = None) -> Mapping[Place, State]:
        """Return the active passages at these places of sessions."""
        found: dict[Place, State] = {}
        for state in self._all(sorted(self._ids("place", places)), as_of):
            if state.kind == "passage" and state.active:
                found[Place(state.row["session"], state.row["ordinal"])] = state
        return {place: found[place] for place in places if place in found}

    def session(self, session: str) -> list[State]:
        """Return every passage of a session."""
        states = self._all(self._ids("session", [(session,)]), None)
        return [state for state in states if state.row.get("session") == session]

    def facts(self, wanted: Needs) -> Facts:
        """Return what a plan needs to see."""
        space = self.space
        ids = set(wanted.ids)
        ids |= self._ids("name", ((key, entity_id(space, key)) for key in wanted.names))
        ids |= self._ids("said", wanted.texts)
        ids |= self._ids("link", wanted.links)
        ids |= self._ids("slot", wanted.slots)
        ids |= self._ids("decision", ((entity,) for entity in wanted.decisions))
        ids |= self._ids("origin", ((path,) for path in wanted.origins))
        states = self._load(ids, None).values()
        ordinals = {session: self._index.last_ordinal(space, session) for session in wanted.sessions}
        return Facts(wanted, states, self._same(ordinals))

    def born_after(self, at: int, item: str, limit: int) -> list[tuple[int, str]]:
        """Return the next items in the order of (recorded at, id), after the given pair."""
        return self._same(self._index.born_after(self.space, at, item, limit))


def _loads(data: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise Moved from None
    if not isinstance(body, dict):
        raise Moved
    return body
