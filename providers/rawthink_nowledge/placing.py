"""Puts commits on the server: memories of new items, several at a time, and the log that makes them count."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rawthink_core.errors import BackendError, BackendProtocolError, RawThinkError
from rawthink_nowledge.entries import Log, entry_of
from rawthink_nowledge.faults import LimitReached, Refused, SpaceMissing
from rawthink_nowledge.scribe import Scribe, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rawthink_core.commits import Commit
    from rawthink_nowledge.api import Api
    from rawthink_nowledge.entries import Entry
    from rawthink_nowledge.following import Follower


class Placer:
    """Writes memories of one store to one Space of the server, and lets the mirror know of them."""

    def __init__(self, api: Api, follower: Follower, store: str, abreast: int) -> None:
        self._api = api
        self._follower = follower
        self._mirror = follower.mirror
        self._store = store
        self._scribe = Scribe(store, follower.space)
        self._abreast = abreast  # requests at a time

    async def put(self, commit: Commit) -> Entry:
        """Write a commit as it is; return the memory that holds its log."""
        made, others = split(commit)
        if len(made) == 1 and not others:
            return await self.put_alone(commit)
        return await self.put_log(commit, await self.items(commit))

    async def put_alone(self, commit: Commit) -> Entry:
        """Write a commit that is one new item: in one memory, in one call."""
        return (await self._create([await asyncio.to_thread(self._alone, commit)]))[0]

    def _alone(self, commit: Commit) -> dict[str, Any]:
        names, row = self._names(commit), commit.rows[0]
        made = ((0, row["id"], ""),)
        whole = Log(
            commit.id, commit.at, commit.by, commit.request, made=made, after=self._mirror.latest_logs()
        )
        return self._scribe.item(commit, row, lambda entity: names.get(entity, entity), whole)

    async def items(self, commit: Commit) -> list[Entry]:
        """Write the memories of what a commit creates. They do not count yet."""
        return await self._create(await asyncio.to_thread(self._bodies, commit))

    def _bodies(self, commit: Commit) -> list[dict[str, Any]]:
        names = self._names(commit)
        made, _ = split(commit)
        return [self._scribe.item(commit, row, lambda entity: names.get(entity, entity)) for _, row in made]

    async def put_log(self, commit: Commit, held: Iterable[Entry], emptied: Iterable[Commit] = ()) -> Entry:
        """Write what makes a commit count."""
        written = await asyncio.to_thread(self._log_of, commit, list(held), list(emptied))
        return await self.write_log(commit.space, written)

    def _log_of(self, commit: Commit, made_in: list[Entry], emptied: list[Commit]) -> Log:
        made, others = split(commit)
        memories = {entry.item: entry.memory for entry in made_in}
        touched = {row["id"] for _, row in others if row["op"] != "forgotten"} - memories.keys()
        return Log(
            commit.id,
            commit.at,
            commit.by,
            commit.request,
            rows=tuple(others),
            made=tuple((n, row["id"], memories[row["id"]]) for n, row in made),
            emptied=tuple((each.id, each.at, each.request) for each in emptied),
            held=tuple(
                (item, entry.memory)
                for item, entries in self._mirror.of_items(commit.space, touched).items()
                for entry in entries
            ),
            after=self._mirror.latest_logs(),
        )

    async def write_log(self, space: str, written: Log) -> Entry:
        """Write a log memory."""
        return (await self._create([await asyncio.to_thread(self._scribe.log, space, written)]))[0]

    async def write_manifest(self, zone: str) -> None:
        """Write what holds for the whole store."""
        await self._create([self._scribe.manifest(zone)])

    def _names(self, commit: Commit) -> Mapping[str, str]:
        """Return the names of the entities that a commit speaks of."""
        ends = {row[end] for row in commit.rows for end in ("entity", "source", "target") if end in row}
        new = {row["id"]: row["name"] for row in commit.rows if row["op"] == "entity"}
        with self._mirror.ledger(commit.space) as ledger:
            states = ledger.states(ends - new.keys())
        return new | {item: str(state.value("name")) for item, state in states.items()}

    async def _create(self, bodies: list[dict[str, Any]]) -> list[Entry]:
        """Create memories, several at a time. Where one is refused for good, the others are taken back."""
        entries: list[Entry] = []
        waiting, failed = iter(bodies), asyncio.Event()

        async def work() -> None:
            for body in waiting:
                if failed.is_set():
                    return
                try:
                    entry = await self._create_one(body)
                except BaseException:
                    failed.set()  # what is under way ends first: else nobody knows what became of it
                    raise
                entries.append(entry)

        outcomes = await asyncio.gather(
            *(work() for _ in range(min(self._abreast, len(bodies)))), return_exceptions=True
        )
        await asyncio.to_thread(self._mirror.put, entries)
        error = next((outcome for outcome in outcomes if isinstance(outcome, BaseException)), None)
        if error is None:
            return entries
        if isinstance(error, LimitReached | Refused | SpaceMissing):
            await self.take_back(entries)
        elif entries and isinstance(error, BackendError):
            note = f"{len(entries)} of {len(bodies)} memories of this batch were written and don't count yet"
            raise type(error)(f"{note}: repeat it with the same id. {error}") from error
        raise error

    async def _create_one(self, body: dict[str, Any]) -> Entry:
        fresh = body["id"] not in self._mirror.seen
        memory = await self._api.create(body)
        shown = {
            **memory,
            "content": body["content"],
            "metadata": {**(memory.get("metadata") or {}), **body["metadata"]},
        }
        entry = entry_of(shown, self._store)
        if entry is None:
            raise BackendProtocolError("a memory that was just written is not ours")
        if fresh:
            self._follower.count(1)
        return entry

    async def take_back(self, entries: Iterable[Entry]) -> None:
        """Delete memories that were just written, as far as that can be done now."""
        for entry in entries:
            with suppress(RawThinkError):
                await self.delete(entry.memory)

    async def delete(self, memory: str) -> None:
        """Delete a memory, and let the mirror know."""
        if await self._api.delete(memory):
            self._follower.count(-1)
        await asyncio.to_thread(self._mirror.drop, [memory])

    async def withdraw(self, entry: Entry) -> None:
        """Take a batch back by what holds its log: the log first, so that it does not count any more."""
        found = entry.log
        await self.delete(entry.memory)
        made = {memory for _, _, memory in found.made if memory} if found else set()
        for memory in made - {entry.memory}:
            with suppress(BackendError):
                await self.delete(memory)
