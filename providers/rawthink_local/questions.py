"""Which rows of a journal answer which questions, and where they stand: what the row index holds."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import orjson

from rawthink_core.clock import to_micros
from rawthink_core.questions import key, questions
from rawthink_core.rows import CREATES

if TYPE_CHECKING:
    from rawthink_core.commits import Commit
    from rawthink_local.lines import Line

_OPS = b'"ops":['


class Spot(NamedTuple):
    """Where a row stands: its bytes, and the line that it is part of."""

    position: int
    length: int
    line: int


class Entry(NamedTuple):
    """One answer to one question."""

    key: int
    spot: Spot


class Born(NamedTuple):
    """An item that came to be: what `scan` goes by."""

    space: int
    at: int  # microseconds since 1970
    item: str


class Seat(NamedTuple):
    """A passage in its session."""

    session: int
    ordinal: int


class End(NamedTuple):
    """A row that retires or erases an item: a merge can leave two, or text of what was erased."""

    item: int  # the key of its id
    erased: bool
    spot: Spot


class Extract(NamedTuple):
    """All that a line adds to the row index."""

    entries: list[Entry]
    born: list[Born]
    seats: list[Seat]
    ends: list[End]


def extract(line: Line, commit: Commit) -> Extract:
    """Return what a line of the journal adds to the index."""
    result = Extract([], [], [], [])
    space = commit.space
    space_key = key("space", space)
    whole = Spot(line.position, len(line.data), line.position)
    result.entries.append(Entry(key("commit", space, commit.id), whole))
    spots = _spots(line, commit)
    micros = to_micros(datetime.fromisoformat(commit.at))
    for row, spot in zip(commit.rows, spots, strict=True):
        result.entries.extend(Entry(question, spot) for question in questions(space, row))
        if row["op"] in CREATES:
            at = to_micros(datetime.fromisoformat(row["at"])) if "at" in row else micros
            result.born.append(Born(space_key, at, row["id"]))
        if row["op"] == "passage":
            result.seats.append(Seat(key("session", space, row["session"]), row["ordinal"]))
        if row["op"] in ("retire", "forgotten"):
            result.ends.append(End(key("id", space, row["id"]), row["op"] == "forgotten", spot))
    return result


def _spots(line: Line, commit: Commit) -> list[Spot]:
    """Return where each row stands. A line that was not written by us in one go counts as a whole."""
    at = line.data.find(_OPS) + len(_OPS)
    spots: list[Spot] = []
    for row in commit.rows:
        data = orjson.dumps(row)
        if line.data[at : at + len(data)] != data:
            return [Spot(line.position, len(line.data), line.position)] * len(commit.rows)
        spots.append(Spot(line.position + at, len(data), line.position))
        at += len(data) + 1
    return spots
