"""Which files of a vault a memory lacks, and which it holds that are gone: one index run.

A file whose hash is in the ledger costs a read and no more. Where the ledger is not to be trusted (it is new,
or another store than the one that it speaks of is there now), files are compared with what the memory holds.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from typing import TYPE_CHECKING

from rawthink_core.errors import NotFound, quoted
from rawthink_core.provider import Capability
from rawthink_core.vault.documents import parse, passages, rules, session_id
from rawthink_core.vault.filing import File, Filing, held_by
from rawthink_core.vault.folder import LONGEST, Problem, read, walk
from rawthink_core.vault.reports import IndexReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rawthink_core.memory import Memory
    from rawthink_core.vault.catalogue import Catalogue
    from rawthink_core.vault.filing import Held
    from rawthink_core.vault.folder import Listing
    from rawthink_core.vault.ledger import Entry, Ledger

_FILES_AT_ONCE, _BYTES_AT_ONCE = 64, 4 * 2**20  # read between two looks at the progress
_MANY = 32  # new files: as many are worth asking whether the memory holds any of them, to write them together


class Run:
    """One index run. ``full`` trusts no ledger."""

    def __init__(
        self, folder: Path, memory: Memory, ledger: Ledger, catalogue: Catalogue, *, full: bool
    ) -> None:
        self._folder = folder
        self._memory = memory
        self._ledger = ledger
        self._catalogue = catalogue
        self._full = full
        self._rules = rules(masking=memory.guard.masks)
        self._known: dict[str, Entry] = {}  # what the ledger says, where it can be trusted
        self._held: dict[str, Held] | None = None  # what the memory says, where it was asked
        self._filing = Filing(memory, ledger, uuid.uuid4().hex)
        self._unchanged = 0

    async def go(self, session: str | None, progress: Callable[[int, int], None] | None) -> IndexReport:
        """Index what has changed: of all files, or of those of one session. Raises NotFound."""
        listing = await asyncio.to_thread(walk, self._folder)
        entries = await asyncio.to_thread(self._ledger.entries)
        if (
            not listing.exists and session is None
        ):  # a disk that is not there is no reason to end what it held
            if entries:
                raise NotFound(f"neither sessions nor notes are in {self._folder} now. Nothing was changed")
            return self._report(0, listing)
        paths = list(listing.files)
        if session is not None:
            paths, entries = await self._of_session(session, listing, entries)
        sure = await self._begin(entries, paths, alone=session is not None)
        try:
            await self._index(paths, listing, progress)
            await self._end_gone(entries, listing)
        finally:
            await self._filing.close()
        notes = {"last": self._filing.last, "run": None} | ({"whole": "yes"} if sure else {})
        await asyncio.to_thread(lambda: self._ledger.set(**notes))
        return self._report(len(paths), listing if session is None else None)

    async def _of_session(
        self, session: str, listing: Listing, entries: dict[str, Entry]
    ) -> tuple[list[str], dict[str, Entry]]:
        """Return the files of one session, and what the ledger says of it."""
        wanted = session_id(session)
        ids = await asyncio.to_thread(self._catalogue.ids, listing, entries)
        paths = [path for path, said in ids.items() if said == wanted]
        entries = {path: e for path, e in entries.items() if e.session == wanted or path in paths}
        if not paths and all(path in listing.files for path in entries):
            raise NotFound(f"no session or note in {self._folder} has the id {quoted(session)}")
        return paths, entries

    async def _begin(self, entries: dict[str, Entry], paths: Sequence[str], *, alone: bool) -> bool:
        """Find out what can be trusted, and ask the memory where that is not enough.

        Return whether all that it holds of files is known, if all files are looked at now.
        """
        notes, filing = await asyncio.to_thread(self._ledger.notes), self._filing
        filing.run, filing.last = notes.get("run", filing.run), notes.get("last")
        if not (stands := await self._stands(entries)):
            await asyncio.to_thread(self._ledger.clear)
            filing.last = None
        await asyncio.to_thread(lambda: self._ledger.set(run=filing.run))
        trusted = stands and not self._full and ("whole" in notes or alone)
        self._known = entries if trusted else {}
        new = sum(path not in self._known for path in paths)
        if not alone and (new > _MANY or not trusted):
            self._held = await held_by(self._memory)
        return not alone and (trusted or self._held is not None)

    async def _stands(self, entries: dict[str, Entry]) -> bool:
        """Tell whether the memory is the one that the ledger speaks of: it holds what was written last."""
        if (last := self._filing.last) is None:
            return not entries
        if not self._memory.info.can(Capability.GET):
            return True
        items = (await self._memory.get(last)).items
        return bool(items) and getattr(items[0], "status", "") == "active"

    async def _index(
        self, paths: Sequence[str], listing: Listing, progress: Callable[[int, int], None] | None
    ) -> None:
        for done, some in _slices(paths, listing):
            for each in await asyncio.to_thread(self._read, some, listing):
                await self._settle(each)
            if progress is not None:
                progress(done, len(paths))
        await self._filing.flush()

    async def _end_gone(self, entries: dict[str, Entry], listing: Listing) -> None:
        """End what the memory holds of files that are no longer there."""
        gone = [path for path in entries if path not in listing.files and not listing.hides(path)]
        if self._held is not None:
            await asyncio.to_thread(self._ledger.drop, gone)
            gone = [path for path in self._held if path not in listing.files and not listing.hides(path)]
        for path in gone:
            await self._filing.end(path)

    def _read(self, paths: Sequence[str], listing: Listing) -> list[File | Entry | Problem]:
        return [self._look_at(path, listing) for path in paths]

    def _look_at(self, path: str, listing: Listing) -> File | Entry | Problem:
        """Return a file to be indexed, what is known of it where nothing changed, or why it is neither."""
        try:
            data = read(self._folder, path)
            entry = self._known.get(path)
            if entry and entry.rules == self._rules and entry.sha256 == hashlib.sha256(data).hexdigest():
                return entry._replace(mark=listing.files[path])
            document = parse(path, data)
        except OSError as error:
            return Problem(path, f"can't be read: {error.strerror}")
        except UnicodeDecodeError as error:
            return Problem(path, f"is not UTF-8 (from byte {error.start + 1} on)")
        former = entry.sha256 if entry else ""
        found = passages(document, masking=self._memory.guard.masks)
        return File(document, found, self._rules, listing.files[path], former)

    async def _settle(self, found: File | Entry | Problem) -> None:
        filing = self._filing
        if isinstance(found, Problem):
            filing.failed.append(found)
            return
        problem = found.document.problem if isinstance(found, File) else found.problem
        if problem:
            filing.warnings.append(Problem(found.path, problem))
        if not isinstance(found, File):
            self._unchanged += 1
            if found != self._known[found.path]:  # touched, and the same as before
                await filing.settle(found)
        elif self._held is None:
            await filing.replace(found)
        elif found.is_held(held := self._held.get(found.path, {})):
            self._unchanged += 1
            filing.last = filing.last or next((passage.id for passage in held.values()), None)
            await filing.settle(found.entry())
        elif held:
            await filing.replace(found, held)
        else:
            await filing.add(found)

    def _report(self, files: int, listing: Listing | None) -> IndexReport:
        filing = self._filing
        failed = [*(listing.problems if listing else ()), *filing.failed]
        return IndexReport(
            files=files,
            unchanged=self._unchanged,
            chunks=filing.chunks,
            ended=filing.ended,
            failed=tuple(sorted(failed)),
            warnings=tuple(sorted(filing.warnings)),
        )


def _slices(paths: Sequence[str], listing: Listing) -> Iterator[tuple[int, list[str]]]:
    """Yield paths some at a time, with how many there were so far."""
    some: list[str] = []
    size = 0
    for done, path in enumerate(paths, 1):
        some.append(path)
        size += min(listing.files[path].size, LONGEST)
        if len(some) == _FILES_AT_ONCE or size >= _BYTES_AT_ONCE or done == len(paths):
            yield done, some
            some, size = [], 0
