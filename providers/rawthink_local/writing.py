"""What a writer does to a log under the lock of the store: bring its end in order, append to it, begin it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rawthink_core.commits import encode
from rawthink_core.errors import BackendUnavailable
from rawthink_local.lines import Line, Moved

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rawthink_core.commits import Commit
    from rawthink_local.journal import Journal
    from rawthink_local.lookup import RowIndex
    from rawthink_local.passagelog import PassageLog
    from rawthink_local.storeindex import StoreIndex


def put_in_order(index: RowIndex, now: datetime) -> None:
    """Set a torn tail aside, and end the last line. Raises StoreDamaged where lines are damaged."""
    log = index.journal
    index.refuse_damage()
    if index.torn:
        log.cut_torn_tail(index.end, now)
        index.refresh()
    if index.end and log.read(index.end - 1, index.end) != b"\n":
        log.append(b"\n", index.end)  # an editor took the last line break away
        index.refresh()


def append(index: RowIndex, commits: Sequence[Commit]) -> None:
    """Append commits to a log that is in order, synced."""
    lines = [encode(commit) for commit in commits]
    position = index.end
    state = index.journal.append(b"".join(lines), position)
    for line, commit in zip(lines, commits, strict=True):
        index.appended(Line(position, line[:-1]), commit, state)
        position += len(line)
    index.refresh()


def append_filed(
    log: PassageLog, index: StoreIndex, journal: Journal, commits: Sequence[Commit], now: datetime
) -> None:
    """Append commits to the log of files, or begin it with them, synced.

    Raises StoreDamaged where lines of it are damaged, and Moved where somebody deletes it just now.
    """
    if log.stat() is None:
        log.rewrite(replace(journal.header(), generation=1), map(encode, commits))
        index.refresh()
        return
    index.refresh()
    part = index.filed
    if part is None or not part.end:
        raise Moved
    try:
        put_in_order(part, now)
        append(part, commits)
    except BackendUnavailable:
        if log.stat() is None:
            raise Moved from None
        raise
