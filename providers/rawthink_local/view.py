"""A view of one space of a store: from questions to states, by way of the row index and the journal.

One view serves one operation. It holds the journal file open, so that all of its reads see the same file
even while another process puts a new one in its place.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import orjson

from rawthink_core.commits import Commit
from rawthink_core.graph import Facts, Needs
from rawthink_core.identity import entity_id
from rawthink_core.ranking import Place
from rawthink_core.rows import Row, Stamped, State, ends_of, fold
from rawthink_local.files import explained
from rawthink_local.journal import Line, read_line
from rawthink_local.lookup import OVERLAY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from io import BufferedReader

    from rawthink_local.journal import Journal
    from rawthink_local.lookup import RowIndex
    from rawthink_local.questions import Spot

_HEAD_BYTES = 512
_OPS = b'"ops":'


class Moved(Exception):  # noqa: N818 - a signal to look again, not an error
    """The journal was replaced while it was being read."""


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
        self._file: BufferedReader | None = None
        self._heads: dict[int, _Head] = {}
        self._states: dict[tuple[str, str | None], State | None] = {}

    def __enter__(self) -> Self:
        with explained("reading", self._journal.path), suppress(FileNotFoundError):
            self._file = self._journal.path.open("rb")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    # --- rows -----------------------------------------------------------------------------------

    def _read(self, position: int, length: int) -> bytes:
        if position >= OVERLAY:
            return self._index.overlaid(position, length)
        if self._file is None:
            return b""
        self._file.seek(position)
        return self._file.read(length)

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
            head = _Head(body["commit"], body["at"], body["space"], body.get("by"))
            self._heads[line] = head
        return head

    def _rows(self, spots: Iterable[Spot]) -> list[Stamped]:
        stamped: list[Stamped] = []
        for position, length, line in set(spots):
            head = self._head(line)
            if head.space != self.space:
                continue
            body = _loads(self._read(position, length))
            rows: list[Row] = body.get("ops", [body])
            stamped += [
                Stamped(head.at, head.commit, position + number, row, head.by)
                for number, row in enumerate(rows)
            ]
        return stamped

    def _ids(self, spots: Iterable[Spot]) -> set[str]:
        return {stamped.row["id"] for stamped in self._rows(spots)}

    def commit(self, commit_id: str) -> Commit | None:
        """Return a commit of this space by its id."""
        for spot in self._index.find("commit", self.space, commit_id):
            found = read_line(Line(spot.line, self._read(spot.line, spot.length)))
            if isinstance(found, Commit) and found.id == commit_id and found.space == self.space:
                return found
        return None

    def mentions(self, item: str) -> int:
        """Return how many rows may be about an item (at least as many as are)."""
        return len(set(self._index.find("id", self.space, item)))

    # --- states ---------------------------------------------------------------------------------

    def state(self, item: str, as_of: str | None = None) -> State | None:
        """Return the state of one item, an erased one too."""
        return self._load([item], as_of).get(item)

    def _load(self, ids: Iterable[str], as_of: str | None) -> dict[str, State]:
        """Return the states of items, erased ones too; each is read once in the life of the view."""
        wanted = list(dict.fromkeys(ids))
        fresh = [item for item in wanted if (item, as_of) not in self._states]
        if fresh:
            spots = self._index.find_all("id", self.space, [(item,) for item in fresh])
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
        found: dict[str, str] = {}
        for key in keys:
            ids = self._ids(self._index.find("name", self.space, key, entity_id(self.space, key)))
            for state in self._all(sorted(ids), None):
                if state.kind == "entity" and key in state.identity_keys():
                    found[key] = state.id
        return found

    def about(self, entities: Collection[str], as_of: str | None = None) -> list[State]:
        """Return every observation of these entities, retired ones too."""
        ids = {i for entity in entities for i in self._ids(self._index.find("about", self.space, entity))}
        states = self._all(ids, as_of)
        return [state for state in states if state.kind == "observation" and state.row["entity"] in entities]

    def links(self, entities: Collection[str], as_of: str | None = None) -> list[State]:
        """Return every relation that touches these entities, retired ones too."""
        ids = {i for entity in entities for i in self._ids(self._index.find("touch", self.space, entity))}
        states = self._all(ids, as_of)
        return [s for s in states if s.kind == "relation" and any(end in entities for end in ends_of(s))]

    def passages_at(self, places: Collection[Place], as_of: str | None = None) -> Mapping[Place, State]:
        """Return the active passages at these places of sessions."""
        wanted = list(places)
        spots = self._index.find_all("place", self.space, [tuple(place) for place in wanted])
        ids = self._ids(spot for some in spots for spot in some)
        found: dict[Place, State] = {}
        for state in self._all(sorted(ids), as_of):
            if state.kind == "passage" and state.active:
                found[Place(state.row["session"], state.row["ordinal"])] = state
        return {place: found[place] for place in wanted if place in found}

    def session(self, session: str) -> list[State]:
        """Return every passage of a session."""
        states = self._all(self._ids(self._index.find("session", self.space, session)), None)
        return [state for state in states if state.row.get("session") == session]

    def facts(self, wanted: Needs) -> Facts:
        """Return what a plan needs to see."""
        space, find = self.space, self._index.find
        ids = set(wanted.ids)
        for key in wanted.names:
            ids |= self._ids(find("name", space, key, entity_id(space, key)))
        for said in wanted.texts:
            ids |= self._ids(find("said", space, *said))
        for link in wanted.links:
            ids |= self._ids(find("link", space, *link))
        for slot in wanted.slots:
            ids |= self._ids(find("slot", space, *slot))
        for entity in wanted.decisions:
            ids |= self._ids(find("decision", space, entity))
        for path in wanted.origins:
            ids |= self._ids(find("origin", space, path))
        states = self._load(ids, None).values()
        ordinals = {session: self._index.last_ordinal(space, session) for session in wanted.sessions}
        return Facts(wanted, states, ordinals)


def _loads(data: bytes) -> dict[str, Any]:
    try:
        body: dict[str, Any] = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise Moved from None
    return body
