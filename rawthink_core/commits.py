r"""Commits, and the one line of JSON that each of them is in journals and exports.

::

    {"v":1,"commit":"<batch id>","at":"…Z","space":"…","by":{…},"request":"…","ops":[…],"crc32":"…"}
    {"v":1,"store":"<uuid>","created":"…Z","timezone":"…","generation":1,"crc32":"…"}

The first form is a commit, the second the header of a store (the last header in a file counts). A line
ends with ``\n`` and nothing else does, so any Unicode text may stand inside. ``crc32`` covers all bytes
before it. An export is a header and commits: it is itself a journal.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from rawthink_core.clock import iso
from rawthink_core.errors import Fault, InvalidRequest, StoreTooNew
from rawthink_core.operations import ItemReceipt, RecordReceipt
from rawthink_core.rows import CREATES, Row, Stamped, row_kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rawthink_core.clock import Clock
    from rawthink_core.operations import Batch
    from rawthink_core.rows import State

FORMAT = 1
_CRC = b',"crc32":"'
_TAIL = len(_CRC) + 10  # eight digits, a quote, a brace
_OPS = frozenset({*CREATES, "field", "retire", "link", "same", "forgotten"})


class LineDamaged(ValueError):  # noqa: N818 - says what happened, like the names in errors.py
    """A line is no whole commit. Says why; never quotes the line."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What one batch wrote. ``at`` is ISO 8601 in UTC; ``request`` a digest of what was asked for."""

    id: str
    at: str
    space: str
    rows: tuple[Row, ...]
    by: dict[str, Any] | None = None
    request: str = ""

    def stamped(self) -> Iterator[Stamped]:
        """Yield the rows with what `fold` needs to place them in time."""
        for position, row in enumerate(self.rows):
            yield Stamped(self.at, self.id, position, row, self.by)


@dataclass(frozen=True, slots=True)
class Header:
    """What a store is: its id, zone and generation (`forget` starts a new one)."""

    store: str
    created: str
    timezone: str
    generation: int = 1


def digest(batch: Batch) -> str:
    """Return a digest of what a batch asks for: the same id with another digest is refused."""
    body = batch.model_dump_json(exclude={"id", "provenance"}, exclude_defaults=True)
    return hashlib.blake2b(body.encode(), digest_size=16).hexdigest()


def next_instant(clock: Clock, last: str | None) -> datetime:
    """Return the time of the next commit: the clock's, or just after the last one's where that is later."""
    now = clock.now()
    if not last or iso(now) > last:
        return now
    return datetime.fromisoformat(last) + timedelta(microseconds=1)


def forgetting(commit_id: str, at: datetime, space: str, gone: Mapping[str, State]) -> Commit:
    """Return the commit that marks items as erased, so that their ids are never used again."""
    marks = tuple({"op": "forgotten", "of": gone[item].kind, "id": item} for item in sorted(gone))
    return Commit(commit_id, iso(at), space, marks)


def left_of(commit: Commit, gone: Collection[str]) -> Commit:
    """Return what a commit says but of items that are forgotten: it is restored where they are."""
    rows = tuple(row for row in commit.rows if row["id"] not in gone or row["op"] == "forgotten")
    return Commit(commit.id, commit.at, commit.space, rows, commit.by, commit.request)


def receipt_of(commit: Commit) -> RecordReceipt:
    """Return the receipt of a commit: the same whenever it is asked for."""
    items: dict[str, ItemReceipt] = {}
    for row in commit.rows:
        item = _item_receipt(row)
        known = items.get(item.id)
        if known is None or known.outcome == "unchanged" or row["op"] == "retire":
            items[item.id] = item
    return RecordReceipt(
        batch_id=commit.id, recorded_at=datetime.fromisoformat(commit.at), items=tuple(items.values())
    )


def _item_receipt(row: Row) -> ItemReceipt:
    kind = row_kind(row)
    match row["op"]:
        case "field" | "link":
            return ItemReceipt(id=row["id"], kind=kind, outcome="updated")
        case "same":
            return ItemReceipt(id=row["id"], kind=kind, outcome="unchanged")
        case "retire":
            return ItemReceipt(
                id=row["id"], kind=kind, outcome=row["status"], successor=row.get("superseded_by")
            )
        case "forgotten":
            return ItemReceipt(id=row["id"], kind=kind, outcome="invalidated")
        case _:
            return ItemReceipt(id=row["id"], kind=kind, outcome="created")


# --- the line -----------------------------------------------------------------------------------


def line_of(body: dict[str, Any]) -> bytes:
    r"""Return an object as a line with its checksum at the end, ``\n`` included. Raises InvalidRequest."""
    try:
        data = orjson.dumps(body)
    except (orjson.JSONEncodeError, TypeError) as error:
        raise InvalidRequest([Fault("batch", f"cannot be written as JSON: {error}")]) from None
    return data[:-1] + _CRC + b'%08x"}\n' % zlib.crc32(data[:-1])


def encode(commit: Commit) -> bytes:
    r"""Return the line of a commit, its ``\n`` included."""
    body: dict[str, Any] = {"v": FORMAT, "commit": commit.id, "at": commit.at, "space": commit.space}
    if commit.by:
        body["by"] = commit.by
    body["request"] = commit.request
    body["ops"] = commit.rows
    return line_of(body)


def encode_header(header: Header) -> bytes:
    r"""Return the line of a store's header, its ``\n`` included."""
    return line_of(
        {
            "v": FORMAT,
            "store": header.store,
            "created": header.created,
            "timezone": header.timezone,
            "generation": header.generation,
        }
    )


def checksum_fits(data: bytes) -> bool:
    r"""Tell whether a line (without its ``\n``) ends in the right checksum, without reading what it says."""
    if data[-_TAIL : -_TAIL + len(_CRC)] != _CRC:
        return False
    try:
        return zlib.crc32(data[:-_TAIL]) == int(data[-10:-2], 16)
    except ValueError:
        return False


def decode(line: bytes) -> Commit | Header:
    """Read a line. Raises LineDamaged, or StoreTooNew where a newer version wrote it."""
    data = line.rstrip(b"\n")
    if data[-_TAIL : -_TAIL + len(_CRC)] != _CRC:
        _refuse_newer(data)
        raise LineDamaged("it does not end in a checksum")
    try:
        checksum = int(data[-10:-2], 16)
    except ValueError:
        raise LineDamaged("its checksum is no number") from None
    if zlib.crc32(data[:-_TAIL]) != checksum:
        raise LineDamaged("its checksum does not match")
    return _build(data)


def _build(data: bytes) -> Commit | Header:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise LineDamaged(f"it is not JSON: {error}") from None
    _refuse_newer_body(body)
    try:
        if "store" in body:
            return Header(body["store"], body["created"], body["timezone"], int(body["generation"]))
        rows = tuple(body["ops"])
        commit = Commit(body["commit"], body["at"], body["space"], rows, body.get("by"), body["request"])
        well_formed = (
            isinstance(commit.id, str)
            and isinstance(commit.space, str)
            and iso(datetime.fromisoformat(commit.at)) == commit.at  # text order must be time order
            and all(row["op"] in _OPS and isinstance(row["id"], str) and row_kind(row) for row in rows)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise LineDamaged(f"a field is missing or has the wrong type ({error})") from None
    if not well_formed:
        raise LineDamaged("a row is of no kind known to this version")
    return commit


def _refuse_newer(data: bytes) -> None:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return
    _refuse_newer_body(body)


def _refuse_newer_body(body: Any) -> None:
    if isinstance(body, dict) and isinstance(version := body.get("v"), int) and version > FORMAT:
        raise StoreTooNew(
            f"this memory was written in format {version}; this version of rawthink reads format {FORMAT}. "
            f"Upgrade with: pip install --upgrade rawthink"
        )


def new_header(store: str, created: datetime, timezone: str) -> Header:
    """Return the header of a new store."""
    return Header(store=store, created=iso(created), timezone=timezone)
