"""Tells the server what was retired, so that its own search and its other clients don't take it for current.

What counts for RAWThink stands in logs. This is for everybody else, comes after the commit, and may lag: what
could not be told is told again by the next write and by `maintain`, and health names it meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from rawthink_core.errors import RawThinkError
from rawthink_nowledge.faults import Conflicting, MemoryMissing, RouteMissing
from rawthink_nowledge.scribe import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rawthink_core.commits import Commit
    from rawthink_core.rows import State
    from rawthink_nowledge.api import Api, Memory
    from rawthink_nowledge.entries import Entry
    from rawthink_nowledge.following import Follower
    from rawthink_nowledge.mirror import Mirror

log = logging.getLogger("rawthink.nowledge")

SECONDS: Final = 5.0  # that a write waits for it
_REASON: Final = 500  # characters
_LATEST: Final = ("", "active", "latest", "current")


class Ending(NamedTuple):
    """One memory that no longer stands, what took its place, and why."""

    space: str
    item: str
    memory: str
    successor: str | None
    reason: str


class Lifecycle:
    """Keeps the server's own idea of what is current in step with ours, in one Space."""

    def __init__(self, api: Api, follower: Follower) -> None:
        self.waiting: dict[str, Ending] = {}  # by the memory that is to be retired
        self.refused: dict[str, str] = {}  # what the server won't retire, and why
        self.supported = True
        self._api = api
        self._follower = follower
        self._renamed: dict[str, tuple[str, str]] = {}  # memories of entities, and what they should show

    async def follow(self, commit: Commit) -> None:
        """Tell the server what a commit has retired or renamed. Never raises a RawThinkError."""
        endings, renamed = await asyncio.to_thread(_changes, self._follower.mirror, commit)
        self.waiting |= {ending.memory: ending for ending in endings if self.supported}
        self._renamed |= renamed
        if self.waiting or self._renamed:
            await self.catch_up(SECONDS)

    def notice(self) -> None:
        """Note what the server takes for current and is retired: an earlier process did not tell it."""
        for ending in _untold(self._follower.mirror):
            if self.supported and ending.memory not in self.refused:
                self.waiting.setdefault(ending.memory, ending)

    async def catch_up(self, seconds: float) -> None:
        """Tell the server what it has not been told yet, as far as ``seconds`` allow."""
        work = [self._tell(ending) for ending in list(self.waiting.values())]
        work += [self._show(memory, *texts) for memory, texts in list(self._renamed.items())]
        if not work:
            return
        tasks = [asyncio.create_task(each) for each in work]
        try:
            _, late = await asyncio.wait(tasks, timeout=seconds)
        finally:
            for task in tasks:
                task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, RawThinkError):
                raise outcome
        errors = [outcome for outcome in outcomes if isinstance(outcome, RawThinkError)]
        if errors or late:
            log.warning("Nowledge Mem was not told of %d retired memories yet", len(errors) + len(late))

    async def _tell(self, ending: Ending) -> None:
        """Retire a memory on the server, and look whether it is."""
        api, space = self._api, self._follower.space
        try:
            self._follower.count(None)  # the list may leave it out from now on
            if ending.successor is None:
                await api.deprecate(ending.memory, ending.reason, space)
            else:
                await api.supersede(ending.memory, ending.successor, ending.reason, space)
            memory = await api.get(ending.memory)
            if memory is not None and not await self._retired(ending, memory):
                self.refused[ending.memory] = "the server confirmed it and still shows it as current"
        except RouteMissing:
            self.supported = False
            self.waiting.clear()
            return
        except Conflicting as error:  # somebody decided otherwise, in Nowledge Mem
            self.refused[ending.memory] = str(error)
        except MemoryMissing:
            pass
        self.waiting.pop(ending.memory, None)

    async def _retired(self, ending: Ending, memory: Memory) -> bool:
        if "is_latest" not in memory and "lifecycle_state" not in memory:
            return ending.successor is None or await self._known(ending.memory)
        if memory.get("is_latest") is False or memory.get("lifecycle_state") not in (None, *_LATEST):
            return True
        return ending.successor is not None and await self._known(ending.memory)

    async def _known(self, memory: str) -> bool:
        try:
            return await self._api.replaced(memory)
        except RouteMissing:
            return True  # there is nobody to ask

    async def _show(self, memory: str, title: str, content: str) -> None:
        await self._api.patch(memory, {"title": title, "content": content})
        self._renamed.pop(memory, None)


def _changes(mirror: Mirror, commit: Commit) -> tuple[list[Ending], dict[str, tuple[str, str]]]:
    retired = {row["id"] for row in commit.rows if row["op"] == "retire"}
    renamed = {
        row["id"] for row in commit.rows if row["op"] == "field" and row["field"] in ("name", "aliases")
    }
    if not retired and not renamed:
        return [], {}
    with mirror.ledger(commit.space) as ledger:
        states = ledger.states(retired | renamed)
        heirs = {state.superseded_by for state in states.values() if state.superseded_by}
    held = mirror.of_items(commit.space, retired | renamed | heirs)
    endings = _endings(commit.space, (states[item] for item in retired if item in states), held)
    shows = {
        entry.memory: _shown(states[item])
        for item in renamed
        if item in states
        for entry in held.get(item, ())
    }
    return endings, shows


def _shown(state: State) -> tuple[str, str]:
    row = {**state.row, "name": state.value("name"), "aliases": state.value("aliases")}
    return shown(row, str)


def _endings(space: str, states: Iterable[State], held: dict[str, list[Entry]]) -> list[Ending]:
    return [
        Ending(
            space,
            state.id,
            entry.memory,
            next((heir.memory for heir in held.get(state.superseded_by or "", ())), None),
            (state.reason or state.status)[:_REASON],
        )
        for state in states
        for entry in held.get(state.id, ())
    ]


def _untold(mirror: Mirror) -> list[Ending]:
    """Return what is retired here and current on a server that says what is."""
    current = [
        e for e in mirror.entries() if e.row is not None and e.latest is True and e.lifecycle in _LATEST
    ]
    by_space: dict[str, set[str]] = {}
    for entry in current:
        by_space.setdefault(entry.space, set()).add(entry.item)
    found: list[Ending] = []
    for space, items in by_space.items():
        with mirror.ledger(space) as ledger:
            retired = [s for s in ledger.states(items).values() if s.status != "active" and s.id in items]
        heirs = {state.superseded_by for state in retired if state.superseded_by}
        found += _endings(space, retired, mirror.of_items(space, {state.id for state in retired} | heirs))
    return found
