"""Putting documents into a memory, and ending there what is no longer in them.

One file is one batch, with which ends what the file no longer holds; files of which the memory holds nothing
share a batch. A file that is too long for a batch is several, and what is stale ends with the last of them.
The same file over the same former state goes under the same batch ids, until the run that began it is done.
"""

from __future__ import annotations

import re
import uuid
from asyncio import to_thread
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rawthink_core.errors import (
    BackendTimeout,
    BatchIdReused,
    HookRefused,
    InvalidRequest,
    UnsupportedOperation,
)
from rawthink_core.frame import MAX_ITEMS, MAX_SCAN
from rawthink_core.identity import derived_batch_id
from rawthink_core.model import Passage
from rawthink_core.vault.folder import NOTES, SESSIONS, Problem
from rawthink_core.vault.ledger import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rawthink_core.memory import Memory
    from rawthink_core.vault.documents import Document
    from rawthink_core.vault.folder import Mark
    from rawthink_core.vault.ledger import Ledger
    from rawthink_core.writes import Advice, RecordReceipt

Held = dict[tuple[str, str], Passage]
"""What a memory holds of one file: its active passages by session and key."""

_OURS = (f"{SESSIONS}/", f"{NOTES}/")
_TOGETHER = 500  # passages of several files in a batch: more would keep the event loop from other work
_NOTED_AT_ONCE = 200
_SECRET = re.compile(r"passages\.(\d+)\.\S+ (looks like it holds a secret \([^)]*\))")


@dataclass(frozen=True, slots=True)
class File:
    """A document with the passages that it should be, and the hash that was indexed before, if any."""

    document: Document
    passages: list[dict[str, Any]]
    rules: str
    mark: Mark | None = None
    former: str = ""

    @property
    def path(self) -> str:
        """Its path in the vault."""
        return self.document.path

    def is_held(self, held: Held) -> bool:
        """Tell whether a memory that holds ``held`` of it needs nothing."""
        return held.keys() == {(passage["session"], passage["key"]) for passage in self.passages}

    def entry(self) -> Entry:
        """Return what the ledger says of it when it is indexed."""
        document = self.document
        return Entry(self.path, document.sha256, document.id, self.rules, document.problem, self.mark)


async def held_by(memory: Memory, sessions: Iterable[str] = ()) -> dict[str, Held] | None:
    """Return what a memory holds of files of a vault, by path; None where it can't tell.

    It looks at every passage, or at those of some sessions.
    """
    found: dict[str, Held] = {}
    cursor: str | None = None
    while True:
        try:
            page = await memory.scan(
                items=("passage",),
                tags=("session", "qnote"),
                sessions=tuple(sessions),
                limit=MAX_SCAN,
                cursor=cursor,
            )
        except UnsupportedOperation:
            return None
        for item in page.items:
            if isinstance(item, Passage) and item.origin is not None and item.origin.path.startswith(_OURS):
                found.setdefault(item.origin.path, {})[item.session, item.key] = item
        if page.degraded:
            return None
        if (cursor := page.cursor) is None:
            return found


@dataclass(slots=True)
class Filing:
    """One run of writing to a memory. ``run`` is part of every batch id.

    ``last`` is a passage that stands as long as the memory is the one that was written to.
    """

    memory: Memory
    ledger: Ledger
    run: str
    chunks: int = 0
    ended: int = 0
    last: str | None = None
    failed: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    _together: list[File] = field(default_factory=list)
    _size: int = 0
    _settled: list[Entry] = field(default_factory=list)

    async def add(self, file: File) -> None:
        """Put a file there of which the memory holds nothing: at once, or with the next of them."""
        if len(file.passages) > MAX_ITEMS:
            await self.replace(file, {})
            return
        if self._size + len(file.passages) > _TOGETHER:
            await self.flush()
        self._together.append(file)
        self._size += len(file.passages)

    async def flush(self) -> None:
        """Write what waits for more."""
        files, self._together, self._size = self._together, [], 0
        passages = [passage for file in files for passage in file.passages]
        if not passages:
            await self.settle(*(file.entry() for file in files))
            return
        try:
            await self._record(self._batch_id(files), passages)
        except (InvalidRequest, HookRefused):
            for file in files:  # one of them is to blame; the others need not suffer
                await self.replace(file, {})
        else:
            await self.settle(*(file.entry() for file in files))

    async def replace(self, file: File, held: Held | None = None) -> None:
        """Make a file what the memory holds of it; note it as failed where the memory refuses."""
        try:
            await self.write(file, held)
        except (InvalidRequest, HookRefused) as error:
            self.failed.append(Problem(file.path, str(error)))

    async def write(self, file: File, held: Held | None = None) -> list[RecordReceipt]:
        """Make a file what the memory holds of it (``held``, where that is known). Raises as `record`."""
        if len(file.passages) <= MAX_ITEMS:
            receipts = [await self._record(self._batch_id([file]), file.passages, replaces=file.path)]
        else:
            receipts = await self._write_long(file, held)
        await self.settle(file.entry())
        return receipts

    async def _write_long(self, file: File, held: Held | None) -> list[RecordReceipt]:
        if held is None:
            everywhere = await held_by(self.memory)
            held = (everywhere or {}).get(file.path, {})
            if everywhere is None:
                why = "is too long for one batch, and this backend can't tell which of its passages are stale"
                self.warnings.append(Problem(file.path, why))
        wanted = {(passage["session"], passage["key"]): passage for passage in file.passages}
        items: list[tuple[str, Any]] = [("passages", p) for key, p in wanted.items() if key not in held]
        items += [("stale", passage) for key, passage in held.items() if key not in wanted]
        receipts = []
        for part, start in enumerate(range(0, len(items), MAX_ITEMS)):
            some = items[start : start + MAX_ITEMS]
            passages = [item for kind, item in some if kind == "passages"]
            stale = [item for kind, item in some if kind == "stale"]
            receipts.append(await self._record(self._batch_id([file], part), passages, stale=stale))
        return receipts

    async def end(self, path: str) -> None:
        """End what the memory holds of a file that is gone."""
        batch_id = derived_batch_id("vault", self.memory.scope.space, self.run, "gone", path)
        await self._record(batch_id, [], replaces=path)
        await to_thread(self.ledger.drop, [path])

    async def settle(self, *entries: Entry) -> None:
        """Note that the memory holds these files as they are: in the ledger after `close` at the latest."""
        self._settled += entries
        if len(self._settled) >= _NOTED_AT_ONCE:
            await self.close()

    async def close(self) -> None:
        """Bring the ledger up to date."""
        settled, self._settled = self._settled, []
        if settled:
            await to_thread(self.ledger.keep, settled)

    def _batch_id(self, files: Sequence[File], part: int = 0) -> str:
        contents = [said for file in files for said in (file.path, file.former, file.document.sha256)]
        return derived_batch_id("vault", self.memory.scope.space, self.run, str(part), *contents)

    async def _record(
        self,
        batch_id: str,
        passages: list[dict[str, Any]],
        *,
        replaces: str | None = None,
        stale: Sequence[Passage] = (),
    ) -> RecordReceipt:
        async def write(under: str = batch_id) -> RecordReceipt:
            return await self.memory.record(
                passages=passages, revisions=_endings(stale), batch_id=under, replaces_origin=replaces
            )

        try:
            receipt = await write()
        except BackendTimeout:
            receipt = await write()  # under the same id it is written once
        except BatchIdReused:  # a run that broke off wrote it by other rules, or with another plugin
            receipt = await write(uuid.uuid4().hex)
        self.chunks += len(receipt.ids("passage", "created"))
        ended = receipt.ids("passage", "ended", "invalidated")
        self.ended += len(ended)
        self.last = None if self.last in ended else self.last
        self.last = next(reversed(receipt.ids("passage", "created", "unchanged")), self.last)
        self._warn(receipt.advice, passages)
        return receipt

    def _warn(self, advice: Iterable[Advice], passages: Sequence[dict[str, Any]]) -> None:
        """Say of each file once what was found in its passages."""
        for each in advice:
            if found := _SECRET.match(each.text):
                problem = Problem(passages[int(found[1])]["origin"]["path"], found[2])
                if problem not in self.warnings:
                    self.warnings.append(problem)


def _endings(stale: Sequence[Passage]) -> list[dict[str, Any]]:
    """Return the changes that end passages, as `replaces_origin` does."""
    causes: dict[str, list[dict[str, str]]] = {"changed": [], "corrected": []}
    for passage in stale:  # what is of a day to come can't have been so until now
        ahead = passage.valid_from is not None and passage.valid_from >= passage.recorded_at
        causes["corrected" if ahead else "changed"].append({"id": passage.id})
    return [
        {"targets": targets, "cause": cause, "reason": "no longer in its file"}
        for cause, targets in causes.items()
        if targets
    ]
