"""`Vault`: the notes and sessions that lie as Markdown files beside a memory, and what it holds of them.

A file is the truth of its passages. Notes are written here, into ``qnotes/``; sessions are read, from
``sessions/``; `index` brings both into the memory. Nothing else in the folder is looked at.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rawthink_core.clock import Clock, SystemClock
from rawthink_core.errors import BackendTimeout, BackendUnavailable, InvalidRequest, NotFound, quoted
from rawthink_core.frame import MAX_BYTES
from rawthink_core.frame import parse as parse_request
from rawthink_core.model import zone_named
from rawthink_core.vault import frontmatter
from rawthink_core.vault.catalogue import Catalogue
from rawthink_core.vault.documents import Document, parse, passages, rules, session_id
from rawthink_core.vault.filing import File, Filing
from rawthink_core.vault.folder import NOTES, put, read, walk
from rawthink_core.vault.indexing import Run
from rawthink_core.vault.ledger import Ledger
from rawthink_core.vault.reports import IndexReport, SessionText, StoredNote
from rawthink_core.writes import Batch, NewPassage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from rawthink_core.memory import Memory
    from rawthink_core.writes import Advice, RecordReceipt

log = logging.getLogger("rawthink.vault")

LOCK_SECONDS = 60.0  # to wait for another process that indexes
_PAUSE = 0.05
_SIMILAR = 3
_HEAD = frontmatter.LONGEST - 100  # characters before the text of a note; a longer head is not read as one


class Vault:
    """The folder of one vault, and the memory that its files are indexed in. Holds nothing open.

    ``cache`` is the folder for what can be derived again, by default the user's own.
    """

    def __init__(
        self, folder: Path, memory: Memory, *, clock: Clock | None = None, cache: Path | None = None
    ) -> None:
        self.folder = Path(folder).expanduser().absolute()
        self._memory = memory
        self._clock = clock or SystemClock()
        self._cache = cache
        self._catalogue = Catalogue(self.folder)

    def _ledger(self) -> Ledger:
        if self._cache is None:
            import platformdirs  # noqa: PLC0415 - only where the folder is not given

            named = os.environ.get("RAWTHINK_CACHE")
            self._cache = Path(
                named or platformdirs.user_cache_path("rawthink", appauthor=False)
            ).expanduser()
        info = self._memory.info
        parts = (os.path.realpath(self.folder), info.name, info.location, self._memory.scope.space)
        return Ledger(self._cache, *parts)

    # --- notes ----------------------------------------------------------------------------------

    async def store_note(
        self, text: str, *, session: str | None = None, tags: Sequence[str] = ()
    ) -> StoredNote:
        """Keep a text as a note: a file that is on the disk before it is indexed.

        ``session`` names the session that it belongs to. Plugins and the look-out for secrets see it first,
        and the file gets what they let through. Raises InvalidRequest, HookRefused or BackendUnavailable;
        then nothing was stored.
        """
        if isinstance(text, str) and not text.strip():
            raise InvalidRequest("a note must not be blank")
        if isinstance(text, str) and len(text.encode("utf-8", "replace")) > MAX_BYTES:
            raise InvalidRequest(f"a note is at most {MAX_BYTES // 2**20} MiB long. Nothing was stored")
        if isinstance(tags, str):
            raise InvalidRequest("tags: must be a list")
        given = {"text": text, "session": session or "-", "tags": [tag for tag in tags if str(tag).strip()]}
        data = {"id": "-", "scope": self._memory.scope, "passages": [given]}
        try:
            batch = parse_request(Batch, data)
        except InvalidRequest as error:  # of the one passage that was put together here
            faults = [each._replace(where=each.where.removeprefix("passages.0.")) for each in error.faults]
            raise InvalidRequest(faults) from None
        passed, warnings = await self._memory.guard.before_record(batch)
        if not passed.passages:
            raise InvalidRequest("a plugin left nothing of the note. Nothing was stored")
        path, content = await asyncio.to_thread(self._put, passed.passages, session)
        document = await asyncio.to_thread(parse, path, content)
        try:
            receipt = await self._add(document)
        except Exception as error:  # the note is safe, whatever the store did: say both
            log.debug("indexing %s failed", path, exc_info=True)
            why = str(error) or type(error).__name__
            problem = f"the note is kept in {path}, and not indexed yet: {why}"
            return StoredNote(id=document.id, path=path, problem=problem)
        others = tuple(advice for advice in receipt.advice if advice.kind != "secret")
        receipt = receipt.model_copy(update={"advice": (*_about_note(warnings), *others)})
        return StoredNote(id=document.id, path=path, receipt=receipt)

    def _put(self, passed: Sequence[NewPassage], session: str | None) -> tuple[str, bytes]:
        """Write a note, named after the second; return its path in the vault and what it holds."""
        text = "\n\n".join(passage.text for passage in passed)
        now = self._clock.now().astimezone(zone_named(self._memory.info.timezone))

        def head(stem: str) -> str:
            fields: dict[str, str | tuple[str, ...]] = {"id": f"qnote_{stem}", "date": f"{now:%Y-%m-%d}"}
            fields["tags"] = passed[0].tags
            if session:
                fields["session_ref"] = session
            return frontmatter.write(fields)

        def content(stem: str) -> bytes:
            data = f"{head(stem)}\n{text}".encode()
            return data if data.endswith(b"\n") else data + b"\n"

        stem = f"{now:%Y-%m-%d_%H%M%S}"
        if len(head(stem)) > _HEAD:
            raise InvalidRequest(
                f"the session and the tags of a note are {_HEAD:,} characters at most. Nothing was stored"
            )
        return put(self.folder, NOTES, stem, content)

    async def _add(self, document: Document) -> RecordReceipt:
        """Index one document, whatever is known of it. Raises as `Memory.record`."""
        ledger = await asyncio.to_thread(self._ledger)
        filing = Filing(self._memory, ledger, os.urandom(16).hex())
        masking = self._memory.guard.masks
        found = await asyncio.to_thread(passages, document, masking=masking)
        receipts = await filing.write(File(document, found, rules(masking=masking)))
        await filing.close()
        whole: dict[str, Any] = {
            "items": tuple(item for receipt in receipts for item in receipt.items),
            "advice": tuple(each for receipt in receipts for each in receipt.advice),
        }
        return receipts[-1].model_copy(update=whole)

    # --- sessions -------------------------------------------------------------------------------

    async def session(self, session_id: str) -> SessionText:
        """Return the session or note with exactly this id: its front matter's ``id``, else its file's name.

        Raises NotFound; InvalidRequest where several files have the id; BackendUnavailable where it can't be
        read.
        """
        if not isinstance(session_id, str) or not session_id.strip() or "\0" in session_id:
            raise InvalidRequest("session_id: must be the id of a session or note")
        return await asyncio.to_thread(self._session, session_id)

    def _session(self, wanted: str) -> SessionText:
        ids = self._catalogue.ids(walk(self.folder), self._ledger().entries())
        paths = [path for path, said in ids.items() if said == session_id(wanted)]
        if not paths:
            raise NotFound(
                f"no session or note has the id {quoted(wanted)}{_similar(wanted, set(ids.values()))}"
            )
        if len(paths) > 1:
            named = ", ".join(paths)
            raise InvalidRequest(
                f"{quoted(wanted)} is the id of {len(paths)} files: {named}; give each its own"
            )
        [path] = paths
        try:
            document = parse(path, read(self.folder, path))
        except OSError as error:
            raise BackendUnavailable(f"{path} can't be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise BackendUnavailable(f"{path} is not UTF-8 (from byte {error.start + 1} on)") from error
        return SessionText(
            id=document.id,
            title=document.heading or document.id,
            path=path,
            text=document.text,
            date=document.date,
            tags=document.tags,
            problem=document.problem,
        )

    # --- indexing -------------------------------------------------------------------------------

    async def index(
        self,
        *,
        session: str | None = None,
        full: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> IndexReport:
        """Bring what has changed in the files into the memory: all files, or those of one session.

        What is no longer in a file, and what was in files that are gone, ends. ``full`` compares every file
        with the memory, whatever was indexed before. ``progress`` is told how many files are done, of how
        many. A file that can't be used is named in the report and stops nothing. Raises NotFound,
        BackendTimeout while another process indexes, or another BackendError; the next run goes on then.
        """
        ledger = await asyncio.to_thread(self._ledger)
        async with self._alone(ledger):
            run = Run(self.folder, self._memory, ledger, self._catalogue, full=full)
            return await run.go(session, progress)

    @asynccontextmanager
    async def _alone(self, ledger: Ledger) -> AsyncIterator[None]:
        """Keep others from indexing the same vault meanwhile. Raises BackendTimeout."""
        from filelock import FileLock, Timeout  # noqa: PLC0415 - only this needs it

        loop = asyncio.get_running_loop()
        end = loop.time() + LOCK_SECONDS
        lock = FileLock(ledger.lock, mode=0o600, thread_local=False)
        while True:
            try:
                ledger.make_folder()
                lock.acquire(blocking=False)
                break
            except Timeout:
                if loop.time() > end:
                    raise BackendTimeout(f"{self.folder} is being indexed already; try again later") from None
                await asyncio.sleep(_PAUSE)
            except OSError as error:  # nowhere to keep it: two runs may then do the same twice, and no harm
                log.warning("there is no lock on indexing: %s", error)
                break
        try:
            yield
        finally:
            lock.release()


def _similar(wanted: str, ids: set[str]) -> str:
    import difflib  # noqa: PLC0415 - only a miss needs it

    near = difflib.get_close_matches(wanted[:200], ids, n=_SIMILAR)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def _about_note(warnings: Sequence[Advice]) -> list[Advice]:
    """Return warnings about the text that was handed in, in the words of who handed it in."""
    return [each.model_copy(update={"text": each.text.replace("passages.0.", "", 1)}) for each in warnings]
