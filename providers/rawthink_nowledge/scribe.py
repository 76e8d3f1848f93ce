"""Writes the bodies of memories: what `entries` reads, and what people and the server's search see of it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

import orjson

from rawthink_core.rows import CREATES, Row
from rawthink_nowledge.api import MAX_CONTENT, MAX_TITLE
from rawthink_nowledge.entries import SCHEMA, Log

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_core.commits import Commit

_NAMESPACE: Final = uuid.UUID("0b6a2f2e-9d0e-5c55-b0a7-6f3c1d1f6f11")
_LABEL: Final = "rawthink"
_KEPT: Final = 300  # characters of a text that stands there for people and filters

_UNIT_TYPES: Final = {"decided": "decision", "because": "learning", "rejected": "decision"}


def memory_id(store: str, space: str, commit: str, item: str) -> str:
    """Return the id that a memory is written under: the same for the same item of the same batch.

    The batch is part of it: of two batches that race for one item, none may overwrite what the other wrote.
    """
    return str(uuid.uuid5(_NAMESPACE, orjson.dumps([store, space, commit, item]).decode()))


def log_id(store: str, space: str, commit: str) -> str:
    """Return the id of the memory that holds a batch's log."""
    return str(uuid.uuid5(_NAMESPACE, orjson.dumps([store, space, commit]).decode()))


def store_id(store: str) -> str:
    """Return the id of the memory that says what holds for a whole store."""
    return str(uuid.uuid5(_NAMESPACE, orjson.dumps([store]).decode()))


def split(commit: Commit) -> tuple[list[tuple[int, Row]], list[tuple[int, Row]]]:
    """Return the rows that create something and the others, each with its position."""
    numbered = list(enumerate(commit.rows))
    made = [(n, row) for n, row in numbered if row["op"] in CREATES]
    return made, [(n, row) for n, row in numbered if row["op"] not in CREATES]


class Scribe:
    """Writes the bodies of memories of one store, for one Space of the server."""

    def __init__(self, store: str, server_space: str) -> None:
        self.store = store
        self.server_space = server_space

    def item(
        self, commit: Commit, row: Row, name_of: Callable[[str], str], log: Log | None = None
    ) -> dict[str, Any]:
        """Return the body of the memory that holds a new item; with ``log``, the whole of its batch."""
        title, content = shown(row, name_of)
        metadata = self._metadata(commit.space, row["op"], commit.id)
        metadata |= {"xm_id": row["id"], "xm_row": orjson.dumps(row).decode()}
        metadata |= _for_people(row, name_of)
        if log is not None:
            metadata["xm_log"] = log_text(log)
        return self._body(
            memory_id(self.store, commit.space, commit.id, row["id"]),
            title,
            content,
            metadata,
            unit_type=_unit_type(row),
            event_start=(row.get("valid_from") or "")[:10] or None,
        )

    def log(self, space: str, log: Log) -> dict[str, Any]:
        """Return the body of the memory that holds a batch's log."""
        metadata = self._metadata(space, "log", log.commit) | {"xm_log": log_text(log)}
        content = f"RAWThink keeps its log here ({len(log.made)} new, {len(log.rows)} changes, {log.at}). "
        content += "Deleting this hides them from RAWThink."
        return self._body(
            log_id(self.store, space, log.commit), "RAWThink log", content, metadata, importance=0.0
        )

    def manifest(self, zone: str) -> dict[str, Any]:
        """Return the body of the memory that says what holds for the whole store."""
        metadata = self._metadata("", "store", "") | {"xm_zone": zone}
        content = f"RAWThink keeps the settings of its store {self.store!r} here. "
        content += "Deleting this loses its time zone."
        return self._body(store_id(self.store), "RAWThink store", content, metadata, importance=0.0)

    def _metadata(self, space: str, kind: str, commit: str) -> dict[str, str]:
        return {
            "xm_schema": SCHEMA,
            "xm_store": self.store,
            "xm_space": space,
            "xm_kind": kind,
            "xm_commit": commit,
        }

    def _body(
        self,
        memory: str,
        title: str,
        content: str,
        metadata: dict[str, str],
        *,
        unit_type: str = "context",
        importance: float = 0.5,
        event_start: str | None = None,
    ) -> dict[str, Any]:
        """Return a complete body: what is left out may be reset by the server, or not."""
        body: dict[str, Any] = {
            "id": memory,
            "title": title[:MAX_TITLE],
            "content": content[:MAX_CONTENT],
            "source": _LABEL,
            "importance": importance,
            "confidence": 0.5,
            "labels": [_LABEL],
            "unit_type": unit_type,
            "temporal_context": "timeless",
            "space_id": self.server_space,
            "metadata": metadata,
        }
        return body | ({"event_start": event_start} if event_start else {})


def shown(row: Row, name_of: Callable[[str], str]) -> tuple[str, str]:
    """Return the title and content by which people and the server's search find an item."""
    match row["op"]:
        case "entity":
            return row["name"], "\n".join([row["name"], *row.get("aliases", ())])
        case "observation":
            return name_of(row["entity"]), row["text"]
        case "relation":
            says = f"{name_of(row['source'])} {row['type'].replace('_', ' ')} {name_of(row['target'])}"
            return says, says
        case _:
            return str(row["session"]), row["text"]


def _for_people(row: Row, name_of: Callable[[str], str]) -> dict[str, str]:
    said = {
        "xm_entity": name_of(row["entity"]) if row["op"] == "observation" else row.get("name"),
        "xm_type": row.get("kind") or row.get("type") or row.get("entity_type"),
        "xm_session": row.get("session"),
        "xm_speaker": row.get("speaker"),
        "xm_valid_from": row.get("valid_from"),
    }
    return {key: value[:_KEPT] for key, value in said.items() if value}


def _unit_type(row: Row) -> str:
    if row["op"] == "observation":
        return _UNIT_TYPES.get(row["kind"], "fact")
    return "fact" if row["op"] == "relation" else "context"


def log_text(log: Log) -> str:
    """Return a log as the text that is kept of it."""
    body = {
        "commit": log.commit,
        "at": log.at,
        "by": log.by,
        "request": log.request,
        "rows": log.rows,
        "made": log.made,
        "emptied": log.emptied,
        "revision": log.revision,
        "held": log.held,
        "after": log.after,
    }
    return orjson.dumps(
        {key: value for key, value in body.items() if value not in (None, (), "", 0)}
    ).decode()
