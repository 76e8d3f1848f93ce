"""Tools for texts: sessions and notes, read by exact id, kept, and indexed."""

from __future__ import annotations

import asyncio
from datetime import date, datetime
from typing import TYPE_CHECKING

from rawthink_core.errors import NotFound
from rawthink_core.model import Passage
from rawthink_core.operations import MAX_SCAN
from rawthink_mcp_server.faults import between, filled, renamed
from rawthink_mcp_server.telling import LIMIT, Sheet, Told, advice, count, degraded, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_mcp_server.house import Open

_HEAD = 1_000  # characters that are kept free for what stands around the text
_BREAK = 500  # how far before the limit a line may end, for a page to end there


async def get_session(at: Open, *, session_id: str, offset: int = 0) -> Told:
    """Show the text of a session or note from an offset on, as much of it as one answer holds."""
    filled("session_id", session_id)
    between("offset", offset, 0, 2**53)
    with renamed({"sessions.0": "session_id"}):
        head, text, reason = await _text_of(at, session_id)
    page, end = _page(text, offset)
    lines = [head]
    if offset or end < len(text):
        lines.append(f"Characters {offset:,} to {end:,} of {len(text):,}:")
    lines += ["", page]
    if end < len(text):
        lines += ["", f"More: get_session with offset {end}."]
    lines += degraded(reason)
    return Told("\n".join(lines), {"session": session_id, "text": page, "offset": offset, "total": len(text)})


async def _text_of(at: Open, session_id: str) -> tuple[str, str, str | None]:
    """Return the head, the text and what makes it incomplete. Raises NotFound."""
    try:
        session = await at.vault.session(session_id)
    except NotFound:
        pass
    else:
        facts = [_day(at, session.date)] if session.date else []
        title = f": {one_line(session.title)}" if session.title else ""
        facts += [f"#{one_line(tag)}" for tag in session.tags]
        head = f"session {one_line(session.id)}{title} ({', '.join([*facts, one_line(session.path)])})"
        return f"{head}\n! {session.problem}" if session.problem else head, session.text, None
    passages, reason = await _passages(at, session_id)
    if not passages:
        raise NotFound(
            f"No session or note has the id {one_line(session_id)[:80]}. Ids are exact: see search_thoughts."
        )
    first, last = (at.tell.day(item.valid_from or item.recorded_at) for item in (passages[0], passages[-1]))
    dates = first if first == last else f"{first} to {last}"
    head = f"session {one_line(session_id)} ({dates}, {count(len(passages), 'passage')})"
    return head, "\n\n".join(_turn(item) for item in passages), reason


async def _passages(at: Open, session_id: str) -> tuple[list[Passage], str | None]:
    """Return the passages of a session that has no file (a chat, say), in their order."""
    found: list[Passage] = []
    cursor: str | None = None
    while True:
        page = await at.memory.scan(items=("passage",), sessions=[session_id], limit=MAX_SCAN, cursor=cursor)
        found += [item for item in page.items if isinstance(item, Passage)]
        cursor = page.cursor
        if cursor is None:
            break
    if found:
        await at.memory.get(*(item.id for item in found[:MAX_SCAN]))  # a session that is read is in use
    return sorted(found, key=lambda item: item.ordinal), page.degraded


def _day(at: Open, when: date) -> str:
    """Return the date of a time as files have it: a day, or a moment."""
    if not isinstance(when, datetime):
        return when.isoformat()
    return at.tell.day(when if when.tzinfo else when.replace(tzinfo=at.tell.zone))


def _turn(item: Passage) -> str:
    """Return the text of a passage, with its speaker where the text does not begin with one."""
    if item.speaker and not item.text.startswith(f"[{item.speaker}]"):
        return f"[{item.speaker}] {item.text}"
    return item.text


def _page(text: str, offset: int) -> tuple[str, int]:
    """Return the part of a text from an offset on, and where it ends: at a line's end, if one is near."""
    end = offset + LIMIT - _HEAD
    if end >= len(text):
        return text[offset:], len(text)
    at = text.rfind("\n", max(offset + 1, end - _BREAK), end)
    end = at + 1 if at >= 0 else end
    return text[offset:end], end


async def store_thought(
    at: Open, *, text: str, session_id: str | None = None, tags: Sequence[str] = ()
) -> Told:
    """Keep a thought as a note in the vault."""
    filled("text", text)
    with renamed({"session": "session_id"}):
        note = await at.vault.store_note(text, session=session_id, tags=tuple(tags))
    lines = [f"Stored note {one_line(note.id)} in {note.path}."]
    if note.problem:
        lines.append(f"! The file is safe, but it can't be found by searching yet: {one_line(note.problem)}")
    if note.receipt is not None:
        lines += advice(note.receipt.advice)
    return Told("\n".join(lines), {"id": note.id, "path": note.path})


async def reindex(at: Open, *, session_id: str | None = None, full: bool = False) -> Told:
    """Index the files of the vault; with ``full``, also build the search index anew."""
    reports: set[asyncio.Task[None]] = set()

    def told(done: int, total: int) -> None:
        report = asyncio.ensure_future(at.report(done, total, None))
        reports.add(report)
        report.add_done_callback(reports.discard)

    with renamed({"session": "session_id"}):
        done = await at.vault.index(session=session_id, full=full, progress=told)
    read = f"{count(done.files, 'file')} read, {done.unchanged:,} unchanged"
    lines = [f"{read}; {count(done.chunks, 'passage')} indexed, {done.ended:,} ended."]
    lines += [f"! {one_line(path)}: {one_line(why)}" for path, why in (*done.failed, *done.warnings)]
    if full and session_id is None:
        kept = await at.memory.maintain(reindex=True)
        lines += kept.done
    return Told(_bounded(lines), {"files": done.files, "chunks": done.chunks, "ended": done.ended})


def _bounded(lines: list[str]) -> str:
    sheet = Sheet()
    for line in lines:
        sheet.add(line)
    if sheet.left_out:
        sheet.always(f"{sheet.left_out} more lines left out; `rawthink doctor` has them all.")
    return sheet.text()
