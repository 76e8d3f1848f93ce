"""The questions that the row index answers, as 64-bit keys, and which rows answer which question.

A key is a hash: it leads to candidates, and whoever asks looks at each row that comes back. Nothing that
could be read as text is in a key.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import orjson

from rawthink_core.clock import to_micros
from rawthink_core.rows import CREATES, Row
from rawthink_core.text import identity_key, same_text

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def key(kind: str, space: str, *parts: object) -> int:
    """Return the key of a question within one space."""
    data = "\x1f".join((kind, space, *map(str, parts))).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)


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
        result.entries.extend(Entry(question, spot) for question in _questions(space, row))
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


def _questions(space: str, row: Row) -> Iterator[int]:
    op = row["op"]
    if op == "same":
        return
    yield key("id", space, row["id"])
    match op:
        case "observation":
            yield key("about", space, row["entity"])
            yield key("said", space, row["entity"], same_text(row["text"]))
            if row["kind"] in ("decided", "because"):
                yield key("decision", space, row["entity"])
        case "relation":
            yield key("link", space, row["source"], row["type"], row["target"])
            yield key("touch", space, row["source"])
            yield key("touch", space, row["target"])
        case "passage":
            yield key("slot", space, row["session"], row["key"])
            yield key("place", space, row["session"], row["ordinal"])
            yield key("session", space, row["session"])
            if origin := row.get("origin"):
                yield key("origin", space, origin["path"])
        case "entity":
            for name in (row["name"], *row.get("aliases", ())):
                yield key("name", space, identity_key(name))
        case "field" if row["field"] == "name":
            yield key("name", space, identity_key(row["value"]))
        case "field" if row["field"] == "aliases":
            for name in row["value"]:
                yield key("name", space, identity_key(name))
