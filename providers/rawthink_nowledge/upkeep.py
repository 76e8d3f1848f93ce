"""Upkeep: reading everything again, finishing what was left undone, and adding commits of another store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rawthink_core.commits import Commit
from rawthink_core.errors import InvalidRequest
from rawthink_core.operations import MaintainReceipt, RestoreReceipt
from rawthink_nowledge.api import MAX_CONTENT
from rawthink_nowledge.forgetting import sweep
from rawthink_nowledge.lifecycle import SECONDS
from rawthink_nowledge.scribe import memory_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rawthink_core.operations import Maintain
    from rawthink_nowledge.api import Api
    from rawthink_nowledge.entries import Entry
    from rawthink_nowledge.mirror import Mirror
    from rawthink_nowledge.room import Room

_UNFINISHED: Final = timedelta(hours=1)  # after which nobody is writing a batch any more
_REPAIRED: Final = timedelta(minutes=5)  # the same, where somebody asks for repair


def commits(room: Room, space: str) -> list[Commit]:
    """Return every commit of a space, in the order of time."""
    with room.mirror.ledger(space) as ledger:
        return list(ledger.in_order())


async def restore(room: Room, space: str, given: Sequence[Commit]) -> RestoreReceipt:
    """Add commits as they are, ids and times included; those already there are skipped."""
    if any(commit.space != space for commit in given):
        raise InvalidRequest("a commit of another space can't be restored into this one")
    if any(len(row.get("text", "")) > MAX_CONTENT for commit in given for row in commit.rows):
        raise InvalidRequest(
            f"a text has more characters than a memory holds ({MAX_CONTENT}); nothing was written"
        )
    restored = 0
    async with room.writer.turn:
        await room.follower.refresh()
        for commit in given:
            fresh = await asyncio.to_thread(_unknown_part, room, commit)
            if fresh is None:
                continue
            await room.writer.placer.put(fresh)
            room.writer.instants.take(fresh)
            await room.lifecycle.follow(fresh)
            restored += 1
        if any(row["op"] == "forgotten" for commit in given for row in commit.rows):
            await sweep(room.writer, room.api, space)
    return RestoreReceipt(restored=restored, skipped=len(given) - restored)


def _unknown_part(room: Room, commit: Commit) -> Commit | None:
    """Return a commit without rows of forgotten items; None where the store has the commit already."""
    with room.mirror.ledger(commit.space) as ledger:
        if commit.id in ledger.commits:
            return None
        states = {row["id"]: ledger.state(row["id"]) for row in commit.rows}
    gone = {item for item, state in states.items() if state is not None and state.forgotten}
    rows = tuple(row for row in commit.rows if row["id"] not in gone or row["op"] == "forgotten")
    return Commit(commit.id, commit.at, commit.space, rows, commit.by, commit.request)


async def maintain(room: Room, api: Api, request: Maintain) -> MaintainReceipt:
    """Do upkeep of one room; say what was done."""
    done: list[str] = []
    async with room.writer.turn:
        await room.follower.whole()
        swept = await sweep(room.writer, api, request.scope.space)
        if swept.left:
            done.append(f"{swept.left} forgotten memories could not be deleted: {swept.why}")
        age, now = _REPAIRED if request.repair else _UNFINISHED, _time((await api.health()).get("timestamp"))
        unfinished = await asyncio.to_thread(lambda: list(_unfinished(room.mirror, age, now)))
        for entry in unfinished:
            await room.writer.placer.delete(entry.memory)
        if unfinished:
            done.append(f"deleted {len(unfinished)} memories of batches that were never finished")
        await asyncio.to_thread(room.lifecycle.notice)
        waiting = len(room.lifecycle.waiting)
        await room.lifecycle.catch_up(SECONDS + 0.1 * waiting)
        if waiting:
            left = len(room.lifecycle.waiting)
            done.append(
                f"told the server of {waiting - left} retired memories" + (f", {left} wait" if left else "")
            )
    return MaintainReceipt(done=tuple(done))


def _unfinished(mirror: Mirror, age: timedelta, now: datetime | None) -> Iterator[Entry]:
    """Yield memories of batches that have had no log for so long, by the server's clock.

    Only those with an id of ours: the log of such a batch was looked for by its id as well, not in lists
    alone.
    """
    entries = mirror.entries()
    counted = {memory for entry in entries if entry.log is not None for _, _, memory in entry.log.made}
    times = [time for entry in entries if (time := _time(entry.created)) is not None]
    latest = max([*times, now] if now is not None else times, default=None)
    for entry in entries:
        if entry.row is None or entry.log is not None or entry.memory in counted:
            continue
        if entry.memory != memory_id(mirror.store, entry.space, entry.commit, entry.item):
            continue
        created = _time(entry.created)
        if created is not None and latest is not None and latest - created > age:
            yield entry


def _time(text: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
