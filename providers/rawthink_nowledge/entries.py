r"""How rows lie in memories of the server, and how they are read back.

What a batch creates is one memory an item, written once and never changed. A *log* memory holds everything
else of the batch: the rows about items that were there before, and which memories belong to it. It is
written last, in one call, and what has no log does not count; so a batch is whole or absent, however many
calls it takes. A batch that is one new item and nothing more needs no memory of its own for that: the item
carries its log.

All of ours stands in flat texts under ``xm_``, because filters of the server compare texts and other keys
have a meaning to it:

============ ===================================================================================
key          value
============ ===================================================================================
xm_schema    "1"
xm_store     which memory of RAWThink this is, where several share a server
xm_space     our space, exactly
xm_kind      entity, observation, relation, passage, log or store
xm_commit    the id of the batch
xm_id        the id of the item
xm_row       the row that creates it, as JSON: the truth, whatever the server does to the content
xm_log       the log of the batch, as JSON
xm_zone      (store) the zone of naive times
xm_entity, xm_type, xm_session, xm_speaker, xm_valid_from: for people and filters; never read back
============ ===================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from rawthink_core.errors import StoreTooNew
from rawthink_core.rows import CREATES, Row
from rawthink_nowledge.api import MAX_CONTENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rawthink_nowledge.api import Memory

SCHEMA: Final = "1"


class Unreadable(ValueError):  # noqa: N818 - says what is so, like the names in errors.py
    """A memory says that it is ours, but can't be read."""


@dataclass(frozen=True, slots=True)
class Log:
    """What a batch wrote, but for what its items hold.

    ``rows`` are the rows about what was there before and ``made`` the items it created, each with its
    position in the commit; of what was made also the memory that holds it. ``emptied`` are commits of which
    forgetting has left nothing but that they were (id, time, request). A log with a higher ``revision``
    takes the place of another. Servers may hide memories from their lists, so ``held`` names those of the
    items that ``rows`` are about, and ``after`` those with the last logs before.
    """

    commit: str
    at: str
    by: Mapping[str, Any] | None = None
    request: str = ""
    rows: tuple[tuple[int, Row], ...] = ()
    made: tuple[tuple[int, str, str], ...] = ()
    emptied: tuple[tuple[str, str, str], ...] = ()  # id, at, request
    revision: int = 0
    held: tuple[tuple[str, str], ...] = ()  # items that rows are about, and the memories that hold them
    after: tuple[str, ...] = ()  # memories that hold the logs before this one

    def refers_to(self) -> set[str]:
        """Return the memories that this one names: servers may hide them from lists."""
        named = {memory for _, _, memory in self.made} | {memory for _, memory in self.held} | set(self.after)
        return named - {""}


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory of ours as the server has it. ``memory`` is the server's id, ``item`` ours."""

    memory: str
    space: str
    kind: str
    commit: str
    created: str
    item: str = ""
    row: Row | None = None
    log: Log | None = None
    zone: str = ""
    latest: bool | None = None  # what the server makes of it; None where it does not say
    lifecycle: str = ""
    changed: bool = False  # somebody changed its content on the server


# --- reading ------------------------------------------------------------------------------------


def entry_of(memory: Memory, store: str) -> Entry | None:
    """Read a memory; None where it is not one of this store.

    Raises Unreadable where it is but can't be read, StoreTooNew where a newer version wrote it.
    """
    metadata = memory.get("metadata")
    if not isinstance(metadata, dict) or "xm_schema" not in metadata or metadata.get("xm_store") != store:
        return None
    if metadata["xm_schema"] != SCHEMA:
        raise StoreTooNew(
            f"the store {store!r} was written in format {metadata['xm_schema']}; this version of rawthink "
            f"reads format {SCHEMA}. Upgrade with: pip install --upgrade rawthink"
        )
    try:
        row = orjson.loads(metadata["xm_row"]) if "xm_row" in metadata else None
        log = _log(orjson.loads(metadata["xm_log"])) if "xm_log" in metadata else None
        kind, space = metadata["xm_kind"], metadata["xm_space"]
        item = metadata.get("xm_id", "")
        if kind in CREATES and not (isinstance(row, dict) and row["op"] == kind and row["id"] == item):
            raise Unreadable(f"memory {memory['id']} holds no row of its {kind}")
        if kind == "log" and log is None:
            raise Unreadable(f"memory {memory['id']} holds no log")
        created = memory.get("created_at") or metadata.get("created_at") or ""
        latest, lifecycle = memory.get("is_latest"), memory.get("lifecycle_state")
        return Entry(
            memory=memory["id"],
            space=space,
            kind=kind,
            commit=metadata.get("xm_commit", ""),
            created=created if isinstance(created, str) else "",
            item=item,
            row=row,
            log=log,
            zone=metadata.get("xm_zone", ""),
            latest=latest if isinstance(latest, bool) else None,
            lifecycle=lifecycle if isinstance(lifecycle, str) else "",
            changed=row is not None
            and "text" in row
            and _stripped(memory.get("content")) != _stripped(row["text"][:MAX_CONTENT]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(
            f"memory {memory.get('id')} can't be read ({type(error).__name__}: {error})"
        ) from None


def _log(body: Any) -> Log:
    return Log(
        commit=body["commit"],
        at=body["at"],
        by=body.get("by"),
        request=body.get("request", ""),
        rows=tuple((int(n), row) for n, row in body.get("rows", ())),
        made=tuple((int(n), item, memory) for n, item, memory in body.get("made", ())),
        emptied=tuple((commit, at, request) for commit, at, request in body.get("emptied", ())),
        revision=int(body.get("revision", 0)),
        held=tuple((item, memory) for item, memory in body.get("held", ())),
        after=tuple(body.get("after", ())),
    )


def _stripped(text: Any) -> Any:
    return text.strip() if isinstance(text, str) else text
