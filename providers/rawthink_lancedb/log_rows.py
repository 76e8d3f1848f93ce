"""From commits to rows of a log and back: pure functions over what the tables hold."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson

from rawthink_core.clock import to_micros
from rawthink_core.commits import Commit
from rawthink_core.errors import StoreDamaged
from rawthink_core.questions import key, questions
from rawthink_core.rows import CREATES, Row, Stamped
from rawthink_lancedb.ledger import rid_of
from rawthink_lancedb.schema import log_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

HEAD = "commit"
COLUMNS = ["rid", "commit", "n", "at", "by", "op", "row"]  # what it takes to read a row


def rows_of(claim: int, commits: Sequence[Commit]) -> pa.Table:
    """Return the rows of commits that are appended together under a number."""
    import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

    bodies: list[dict[str, Any]] = []
    for commit in commits:
        by = orjson.dumps(commit.by).decode() if commit.by else None
        same = {"claim": claim, "commit": commit.id, "at": commit.at, "by": by}
        head = {
            "op": HEAD,
            "n": -1,
            "size": len(commit.rows),
            "request": commit.request,
            "keys": [key("commit", commit.space, commit.id)],
        }
        bodies.append({**same, **head, "rid": rid_of(claim, len(bodies))})
        for n, row in enumerate(commit.rows):
            bodies.append({**same, **_columns(commit, row), "n": n, "rid": rid_of(claim, len(bodies))})
    return pa.Table.from_pylist(bodies, schema=log_schema())


def _columns(commit: Commit, row: Row) -> dict[str, Any]:
    creates = row["op"] in CREATES
    return {
        "op": row["op"],
        "item": row["id"],
        "row": orjson.dumps(row).decode(),
        "keys": list(questions(commit.space, row)),
        "born": to_micros(datetime.fromisoformat(row.get("at", commit.at))) if creates else None,
        "session": key("session", commit.space, row["session"]) if row["op"] == "passage" else None,
        "ordinal": row["ordinal"] if row["op"] == "passage" else None,
    }


def stamped(table: str, body: Mapping[str, Any]) -> Stamped:
    """Return a row as core knows it. Raises StoreDamaged, which names the table."""
    try:
        by = orjson.loads(body["by"]) if body["by"] else None
        return Stamped(body["at"], body["commit"], body["n"], orjson.loads(body["row"]), by)
    except (ValueError, TypeError) as error:
        raise StoreDamaged(f"row {body['rid']} of {table} can't be read: {error}") from None


def commit_of(
    table: str, space: str, bodies: Mapping[int, Mapping[str, Any]], head: int, size: int
) -> Commit:
    """Return a commit, given rows by their numbers and where its head is; erased rows are left out."""
    first = bodies[head]
    there = (bodies.get(rid) for rid in range(head + 1, head + size + 1))
    rows = tuple(stamped(table, body).row for body in there if body is not None)
    by = orjson.loads(first["by"]) if first["by"] else None
    return Commit(first["commit"], first["at"], space, rows, by, first["request"])


def joined(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield spans of numbers, those that touch as one."""
    last: tuple[int, int] | None = None
    for first, end in spans:
        if last is not None and first <= last[1] + 1:
            last = (last[0], max(last[1], end))
        else:
            if last is not None:
                yield last
            last = (first, end)
    if last is not None:
        yield last
