"""Forgetting: a mark that counts at once, then every memory that holds the text, deleted and looked for.

The mark holds ids only. It is written first: from then on no process of ours yields the text, however much
of the rest fails. What could not be deleted is `pending`; `maintain` and the next `forget` go on with it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rawthink_core.clock import iso
from rawthink_core.commits import Commit
from rawthink_core.errors import BackendError
from rawthink_core.operations import ForgetReceipt, Place
from rawthink_core.reading import meant
from rawthink_nowledge.marks import erased

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rawthink_core.clock import IdSource
    from rawthink_core.operations import Forget
    from rawthink_core.rows import State
    from rawthink_nowledge.api import Api
    from rawthink_nowledge.entries import Entry, Log
    from rawthink_nowledge.marks import Mark
    from rawthink_nowledge.writing import Writer

_DERIVED = (
    "what Nowledge Mem made of it by itself (entities, links, crystals, working memory, summaries), its feed "
    "and its backups stay on the server; look there, or delete the Space"
)


class Swept(NamedTuple):
    """What a sweep has left undone."""

    left: int = 0
    why: str = ""


async def forget(writer: Writer, api: Api, ids: IdSource, request: Forget) -> ForgetReceipt:
    """Forget what a request names. Raises a BackendError where not even the mark could be written."""
    space = request.scope.space
    async with writer.turn:
        await writer.follower.refresh()
        chosen, missing = await asyncio.to_thread(_chosen, writer, request)
        if not chosen:
            return ForgetReceipt(missing=tuple(missing))
        await _mark(writer, space, ids.new(), chosen)
        swept = await sweep(writer, api, space)
    return ForgetReceipt(ids=tuple(sorted(chosen)), missing=tuple(missing), places=_places(chosen, swept))


def _chosen(writer: Writer, request: Forget) -> tuple[dict[str, State], list[str]]:
    with writer.mirror.ledger(request.scope.space) as ledger:
        return meant(ledger, request, lambda: (state.id for state in ledger.all()))


async def _mark(writer: Writer, space: str, commit_id: str, chosen: dict[str, State]) -> None:
    def marked() -> tuple[Commit, list[Commit]]:
        with writer.mirror.ledger(space) as ledger:
            rows = tuple({"op": "forgotten", "of": chosen[item].kind, "id": item} for item in sorted(chosen))
            emptied = [each for each in ledger.commits.values() if each.rows and not _rest(each, chosen)]
            return Commit(commit_id, iso(writer.next_instant()), space, rows), emptied

    commit, emptied = await asyncio.to_thread(marked)
    await writer.placer.put_log(commit, (), emptied)
    writer.instants.take(commit)


def _rest(commit: Commit, gone: Collection[str]) -> bool:
    return any(row["id"] not in gone or row["op"] == "forgotten" for row in commit.rows)


# --- sweeping -----------------------------------------------------------------------------------


async def sweep(writer: Writer, api: Api, space: str) -> Swept:
    """Take everything that was forgotten off the server, as far as that can be done now."""
    items, logs = await asyncio.to_thread(_leftovers, writer, space)
    outcomes = await asyncio.gather(
        *(_scrub(writer, entry, log) for entry, log in logs), return_exceptions=True
    )
    failed = {logs[n][0].memory for n, outcome in enumerate(outcomes) if isinstance(outcome, BaseException)}
    items = [entry for entry in items if entry.memory not in failed]
    outcomes += await asyncio.gather(
        *(_delete(writer, api, entry) for entry in items), return_exceptions=True
    )
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for error in errors:
        if not isinstance(error, BackendError):
            raise error
    return Swept(len(errors), str(errors[0]) if errors else "")


def _leftovers(writer: Writer, space: str) -> tuple[list[Entry], list[tuple[Entry, Log | None]]]:
    """Return the memories of forgotten items, and those with logs that still speak of them.

    With the latter comes what is to stand in their place; None where a mark remembers the batch.
    """
    mirror = writer.mirror
    gone, emptied = mirror.forgotten(space)
    items: list[Entry] = []
    logs: list[tuple[Entry, Log | None]] = []
    for entry in mirror.entries():
        if entry.space != space:
            continue
        held = entry.row is not None and _gone(entry, mirror.log_of(entry), gone)
        if entry.log is None or (held and entry.commit in emptied):
            items += [entry] if held else []
        elif entry.commit in emptied:
            logs.append((entry, None))
        elif held or _without(entry.log, gone) != entry.log:
            logs.append((entry, replace(_without(entry.log, gone), revision=entry.log.revision + 1)))
    return items, logs


def _gone(entry: Entry, log: Log | None, gone: Mapping[str, Mark]) -> bool:
    """Tell whether a memory holds what was forgotten; of an unfinished batch, by the server's clock."""
    if entry.row is None or (mark := gone.get(entry.item)) is None:
        return False
    return erased(entry.row, log, gone) if log is not None else entry.created <= mark.created


def _without(log: Log, gone: Mapping[str, Mark]) -> Log:
    return replace(
        log,
        rows=tuple((n, row) for n, row in log.rows if not erased(row, log, gone)),
        made=tuple(made for made in log.made if not erased({"op": "", "id": made[1]}, log, gone)),
        held=tuple(held for held in log.held if held[0] not in gone),
    )


async def _scrub(writer: Writer, entry: Entry, log: Log | None) -> None:
    """Put a log that does not speak of what was forgotten in the place of one that does."""
    if log is not None:
        written = await writer.placer.write_log(entry.space, log)
        if written.memory == entry.memory:
            return
    await writer.placer.delete(entry.memory)


async def _delete(writer: Writer, api: Api, entry: Entry) -> None:
    await writer.placer.delete(entry.memory)
    if await api.get(entry.memory) is not None:
        raise BackendError(f"memory {entry.memory} was deleted and is still there; delete it in Nowledge Mem")


def _places(chosen: dict[str, State], swept: Swept) -> tuple[Place, ...]:
    if swept.left:
        note = f"{swept.left} memories are still there: {swept.why}. `rawthink maintain` goes on with it"
        places = [Place(place="Nowledge Mem", outcome="pending", note=note)]
    else:
        places = [Place(place="Nowledge Mem", outcome="erased", note="deleted, and looked for in vain")]
    places.append(Place(place="derived on the server", outcome="kept", note=_DERIVED))
    files = sorted({_path(state) for state in chosen.values()} - {""})
    places += [
        Place(place="vault file", outcome="kept", note=f"{path} holds the text as well; delete it there")
        for path in files
    ]
    return tuple(places)


def _path(state: State) -> str:
    origin: Any = state.row.get("origin")
    return str(origin["path"]) if origin else ""
