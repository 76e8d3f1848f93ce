"""A mirror: what this process knows of one Space of the server, and the ledgers that it makes of it.

Memories come in any order and more than once; a batch enters its ledger when its log and all that it made are
known. All of it can be read anew from the server. Safe to use from many threads.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rawthink_core.commits import Commit
from rawthink_nowledge.entries import Unreadable, entry_of
from rawthink_nowledge.ledger import Ledger
from rawthink_nowledge.lexicon import Lexicon
from rawthink_nowledge.marks import Mark, erased
from rawthink_nowledge.scribe import log_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from rawthink_core.rows import Row
    from rawthink_nowledge.api import Memory
    from rawthink_nowledge.entries import Entry, Log

_RECENT: Final = 256
_FOLLOWED: Final = 3  # logs that a new one names


class Mirror:
    """The memories of one store in one Space."""

    def __init__(self, store: str) -> None:
        self.store = store
        self._lock = threading.RLock()
        self.seen: set[str] = set()  # ids of all memories of the Space, others' too
        self.unreadable: dict[str, str] = {}  # memories of ours that can't be read, and why
        self._entries: dict[str, Entry] = {}
        self._items: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # space, item
        self._logs: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # space, commit
        self._referred: set[str] = set()  # memories that logs name and nobody has seen yet
        self._logless: set[tuple[str, str]] = set()  # batches of which only items are known
        self._lost: set[str] = set()  # memories that a log names and the server does not have
        self._ledgers: defaultdict[str, Ledger] = defaultdict(Ledger)
        self._lexicons: defaultdict[str, Lexicon] = defaultdict(Lexicon)
        self._recent: deque[str] = deque(maxlen=_RECENT)  # memories with logs, the newest last
        self._searched: set[str] = set()  # spaces whose words are indexed as they come
        self._waiting: set[tuple[str, str]] = set()  # batches whose memories are not all known
        self._stale: set[str] = set()  # spaces whose ledger is to be made anew
        self._gone: defaultdict[str, dict[str, Mark]] = defaultdict(dict)  # what was forgotten, by item
        self._emptied: defaultdict[str, dict[str, Commit]] = defaultdict(
            dict
        )  # what forgetting has left of them

    # --- taking in ------------------------------------------------------------------------------

    def absorb(self, memories: Iterable[Memory]) -> None:
        """Take in memories as the server shows them. Raises StoreTooNew."""
        with self._lock:
            for memory in reversed(list(memories)):  # lists begin with the newest
                self.seen.add(memory["id"])
                try:
                    entry = entry_of(memory, self.store)
                except Unreadable as error:
                    self.unreadable[memory["id"]] = str(error)
                    continue
                self.unreadable.pop(memory["id"], None)
                if entry is not None:
                    self._put(entry)
            self._assemble()

    def in_order(self, listed: Sequence[str]) -> None:
        """Note in which order the whole list shows its memories, the newest first."""
        with self._lock:
            place = {memory: n for n, memory in enumerate(listed)}
            logs = [m for m, entry in self._entries.items() if entry.log is not None]
            logs.sort(key=lambda memory: place.get(memory, len(place)), reverse=True)
            self._recent = deque(logs, maxlen=_RECENT)

    def put(self, entries: Iterable[Entry]) -> None:
        """Take in what was just written."""
        with self._lock:
            for entry in entries:
                self.seen.add(entry.memory)
                self._put(entry)
            self._assemble()

    def _put(self, entry: Entry) -> None:
        known = self._entries.get(entry.memory)
        self._entries[entry.memory] = entry
        self._lost.discard(entry.memory)
        if known is not None and (known.row, known.log) == (entry.row, entry.log):
            return
        if known is not None:
            self._stale.add(entry.space)  # it says something else now: a scrubbed log
        if entry.row is not None:
            self._items[entry.space, entry.item].add(entry.memory)
            if entry.log is None and not self._logs[entry.space, entry.commit]:
                self._logless.add((entry.space, entry.commit))
        if entry.log is not None:
            self._logs[entry.space, entry.commit].add(entry.memory)
            self._recent.append(entry.memory)
            self._logless.discard((entry.space, entry.commit))
            self._waiting.add((entry.space, entry.commit))
            self._referred |= entry.log.refers_to()
            self._take_in_forgotten(entry, entry.log)

    def _take_in_forgotten(self, entry: Entry, log: Log) -> None:
        space, mark = entry.space, Mark(log.at, log.commit, entry.created)
        gone, known = [row["id"] for _, row in log.rows if row["op"] == "forgotten"], self._gone[space]
        news = {item: mark for item in gone if item not in known or known[item][:2] < mark[:2]}
        emptied = {c: Commit(c, at, space, (), None, request) for c, at, request in log.emptied}
        if news or emptied.keys() - self._emptied[space].keys():
            known |= news
            self._emptied[space] |= emptied
            self._stale.add(space)

    def drop(self, memories: Collection[str]) -> None:
        """Forget memories that the server does not have any more."""
        with self._lock:
            for memory in memories:
                self.seen.discard(memory)
                self.unreadable.pop(memory, None)
                entry = self._entries.pop(memory, None)
                if entry is not None:
                    self._items[entry.space, entry.item].discard(memory)
                    self._logs[entry.space, entry.commit].discard(memory)
                    self._lost.add(memory)
                    self._stale.add(entry.space)
            self._assemble()

    # --- from memories to commits ---------------------------------------------------------------

    def missing(self) -> set[str]:
        """Return the memories that must be somewhere and that no list has shown: hidden, gone, or to come."""
        with self._lock:
            self._referred -= self._lost | self._entries.keys()
            logs = {log_id(self.store, *batch) for batch in self._logless}
            return self._referred | (logs - self._lost)

    def wanted(self, memories: Collection[str], few: int) -> set[str]:
        """Return the memories that must be known before these count: logs, else what else their batches made.

        Nothing for batches of which more than ``few`` are missing, and no more than that in all.
        """
        wanted: set[str] = set()
        with self._lock:
            for memory in memories:
                entry = self._entries.get(memory)
                if entry is None:
                    continue
                known = self._logs.get((entry.space, entry.commit))
                missing = self._missing(entry.space, entry.commit) if known else [self._log_id(entry)]
                if len(wanted.union(missing)) <= few:
                    wanted.update(missing)
        return wanted - self._lost

    def _log_id(self, entry: Entry) -> str:
        return log_id(self.store, entry.space, entry.commit)

    def lose(self, memories: Collection[str]) -> None:
        """Note that these were asked for: those that are not here by now are gone, or can't be read."""
        with self._lock:
            self._lost |= set(memories) - self._entries.keys()
            self._assemble()

    def _log(self, space: str, commit: str) -> tuple[Entry, Log] | None:
        entries = [self._entries[memory] for memory in self._logs.get((space, commit), ())]
        found = [(entry, entry.log) for entry in entries if entry.log is not None]
        return min(found, key=lambda pair: (-pair[1].revision, pair[0].created, pair[0].memory), default=None)

    def _missing(self, space: str, commit: str) -> list[str]:
        found = self._log(space, commit)
        if found is None:
            return []
        entry, log = found
        return [
            memory
            for _, item, memory in log.made
            if entry.item != item and memory not in self._entries and memory not in self._lost
        ]

    def _assemble(self) -> None:
        """Let the ledgers know what is whole by now."""
        for space in self._stale:
            keys = [key for key, memories in self._logs.items() if memories and key[0] == space]
            self._waiting |= {key for key in keys if self._missing(*key)}
            whole = {
                commit: self._made(space, commit)
                for _, commit in keys
                if (space, commit) not in self._waiting
            }
            former = self._ledgers[space]
            fresh = Ledger((self._emptied[space] | {c: made for c, made in whole.items() if made}).values())
            fresh.dirty |= former.dirty | former.ids()
            self._ledgers[space] = fresh
        self._stale.clear()
        for space, commit in list(self._waiting):
            if self._missing(space, commit):
                continue
            self._waiting.discard((space, commit))
            if commit not in self._ledgers[space].commits and (made := self._made(space, commit)):
                self._ledgers[space].add(made)
        for space in tuple(self._searched):
            self._lexicons[space].follow(self._ledgers[space])

    def _made(self, space: str, commit: str) -> Commit | None:
        """Return a commit with the rows of all its items that are still there."""
        found = self._log(space, commit)
        if found is None:
            return None
        entry, log = found
        rows: dict[int, Row] = dict(log.rows)
        for position, item, memory in log.made:
            held = entry if entry.item == item else self._entries.get(memory)
            if held is not None and held.row is not None:
                rows[position] = held.row
        gone = self._gone[space]
        ordered = tuple(rows[n] for n in sorted(rows) if not erased(rows[n], log, gone))
        return Commit(commit, log.at, space, ordered, dict(log.by) if log.by else None, log.request)

    def last_at(self) -> str:
        """Return the time of the latest commit of all spaces."""
        with self._lock:
            return max((ledger.last_at for ledger in self._ledgers.values()), default="")

    # --- asking ---------------------------------------------------------------------------------

    @contextmanager
    def ledger(self, space: str) -> Iterator[Ledger]:
        """Lend the ledger of a space: nothing is taken in meanwhile."""
        with self._lock:
            yield self._ledgers[space] if space in self._ledgers else Ledger()

    def index(self, space: str) -> None:
        """Index the words of a space as they come from now on: it is searched."""
        self._searched.add(space)

    @contextmanager
    def searchable(self, space: str) -> Iterator[tuple[Ledger, Lexicon]]:
        """Lend the ledger of a space, and the index of its words as they are now."""
        with self._lock:
            if space not in self._ledgers:
                yield Ledger(), Lexicon()
                return
            ledger, lexicon = self._ledgers[space], self._lexicons[space]
            lexicon.follow(ledger)
            yield ledger, lexicon

    def entries(self) -> list[Entry]:
        """Return every memory of the store."""
        with self._lock:
            return list(self._entries.values())

    def latest_logs(self) -> tuple[str, ...]:
        """Return the memories that hold the last few logs: what a new one follows on."""
        with self._lock:
            known = [memory for memory in self._recent if memory in self._entries]
            return tuple(dict.fromkeys(reversed(known)))[:_FOLLOWED]

    def recent_logs(self) -> dict[str, str]:
        """Return when the memories were created that hold the newest logs."""
        with self._lock:
            return {m: entry.created for m in self._recent if (entry := self._entries.get(m)) is not None}

    def entry(self, memory: str) -> Entry | None:
        """Return a memory of the store by the server's id."""
        with self._lock:
            return self._entries.get(memory)

    def of_items(self, space: str, items: Collection[str]) -> dict[str, list[Entry]]:
        """Return the memories that hold these items, by item."""
        with self._lock:
            held = {item: self._items.get((space, item), set()) for item in items}
            return {item: [self._entries[m] for m in sorted(ids)] for item, ids in held.items() if ids}

    def logs(self, space: str) -> dict[str, Entry]:
        """Return the memories that hold logs of a space."""
        with self._lock:
            return {m: e for m, e in self._entries.items() if e.space == space and e.log is not None}

    def forgotten(self, space: str) -> tuple[dict[str, Mark], set[str]]:
        """Return when items of a space were forgotten, and the batches of which nothing else is left."""
        with self._lock:
            return dict(self._gone[space]), set(self._emptied[space])

    def log_of(self, entry: Entry) -> Log | None:
        """Return the log of the batch that a memory belongs to."""
        with self._lock:
            found = self._log(entry.space, entry.commit)
            return found[1] if found is not None else None

    def zone(self) -> str:
        """Return the zone that the store was created in; empty where that is not known."""
        with self._lock:
            manifests = [entry for entry in self._entries.values() if entry.kind == "store" and entry.zone]
            return min(manifests, key=lambda e: (e.created, e.memory)).zone if manifests else ""
