"""The spool: turns that wait for their store, a line each, in files that outlive this process.

::

    {"v":1,"spool":"<generation>","crc32":"…"}
    {"v":1,"turn":"<batch id>","talk":"…","space":"…","session":"…","at":"…Z","passages":[…],"by":{…},…}
    {"v":1,"done":<place of the turn's line>,"talk":"…","crc32":"…"}
    {"v":1,"failed":<the same>,"tries":3,"why":"…",…}
    {"v":1,"forgotten":"<batch id>","at":"…Z","crc32":"…"}

``talk`` stands for a space and session: turns of one talk are delivered in order. In memory there is a
number for each turn that waits, never its text. What is delivered is dropped when the file is written
anew. What can't be delivered goes to ``aside/turns.jsonl`` with the reason, and is never deleted.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rawthink_core.clock import Clock, SystemClock, iso
from rawthink_core.commits import line_of
from rawthink_core.errors import InvalidRequest, StoreDamaged
from rawthink_core.identity import canonical_id, passage_id
from rawthink_core.operations import AfterChat, parse
from rawthink_core.spooling.files import LineFile, body_of, explained, lock_at, make_folder
from rawthink_core.spooling.index import WORDS_OF_ERROR, SpoolIndex, Waiting, failure_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rawthink_core.operations import Forget

_VERSIONS = 8  # of one passage whose ids are known beforehand


class Dropped(NamedTuple):
    """What `forget` took out: how many turns, by which names, and whether unreadable bytes remain."""

    turns: int
    named: frozenset[str]
    unreadable: bool


class Report(NamedTuple):
    """How a spool is. ``since`` is when the oldest turn that waits came; ``why`` what it last met."""

    waiting: int = 0
    since: str | None = None
    why: str | None = None
    aside: int = 0
    reasons: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


def talk_of(space: str, session: str) -> str:
    """Return the short name of a conversation."""
    return hashlib.blake2b(repr((space, session)).encode(), digest_size=9).hexdigest()


class Spool(SpoolIndex):
    """The spool of one store. Safe to use from many threads and processes; every call may wait for a disk."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        super().__init__(folder, clock or SystemClock())
        self._drain: Any = None

    # --- turns ----------------------------------------------------------------------------------

    def append(self, *turns: tuple[AfterChat, str]) -> list[tuple[bool, str]]:
        """Keep turns with their sessions, on the disk when this returns: all, or none where it raises.

        Tells of each whether nothing of its talk waited before it, and which talk that is.
        """
        now = iso(self._clock.now())
        bodies = [_body_of(request, session, now) for request, session in turns]
        with self._file.held():
            self._look(mend=True)
            busy = set(self._waiting)
            self._file.add(bodies, durable=True)
            self._look(mend=True)
        told = []
        for body in bodies:
            told.append((body["talk"] not in busy, body["talk"]))
            busy.add(body["talk"])
        return told

    def talks(self) -> list[str]:
        """Return the talks in which something waits, the longest waiting first."""
        with self._file.held():
            self._look(mend=True)
            return list(self._waiting)

    def head(self, talk: str) -> Waiting | None:
        """Return the next turn of a talk."""
        with self._file.held():
            self._look(mend=True)
            while places := self._waiting.get(talk):
                place = places[0]
                body = self._body(place)
                try:
                    return Waiting(_request(body), talk, str(self._generation), place)
                except (InvalidRequest, KeyError) as error:  # a newer version wrote it
                    self._set_aside(place, talk, f"this version can't read it: {error}")
            return None

    def waits(self) -> int:
        """Return how many turns wait, as far as can be seen without the lock. Creates nothing."""
        with self._file.in_process:
            self._look(mend=False)
            return self._count()

    def delivered(self, turn: Waiting) -> bool:
        """Drop a turn that the store has. False when it was forgotten while it was on its way."""
        with self._file.held():
            self._look(mend=True)
            place = self._find(turn)
            if place is None:
                return turn.request.id not in self._forgotten
            self._file.add([{"v": 1, "done": place, "talk": turn.talk}], durable=False)
            self._tidy()
            return True

    def failed(self, turn: Waiting, why: str) -> int:
        """Note that a delivery failed; return how often that turn has failed."""
        with self._file.held():
            self._look(mend=True)
            place = self._find(turn)
            if place is None:
                return 0
            tries = self._failures.get(place, (0, ""))[0] + 1
            self._file.add([failure_line(place, tries, why)], durable=False)
            self._look(mend=True)
            return tries

    def put_aside(self, turn: Waiting, why: str) -> None:
        """Take a turn out of the way, and keep it with the reason."""
        with self._file.held():
            self._look(mend=True)
            place = self._find(turn)
            if place is None:
                return
            self._set_aside(place, turn.talk, why)

    def _set_aside(self, place: int, talk: str, why: str) -> None:
        body = {**self._body(place), "aside": iso(self._clock.now()), "why": why[:WORDS_OF_ERROR]}
        make_folder(self.set_aside.parent)
        LineFile(self.set_aside).add([body], durable=True)
        self._file.add([{"v": 1, "done": place, "talk": talk}], durable=False)
        self._tidy()

    def put_back(self) -> int:
        """Let the turns that were set aside wait again, behind the others; return how many."""
        with self._file.held():
            self._look(mend=True)
            aside = LineFile(self.set_aside)
            count = 0
            for body in self._aside():
                self._file.add([{k: v for k, v in body.items() if k not in ("aside", "why")}], durable=True)
                count += 1
            if count:
                aside.remove()  # after a crash before this they wait twice, and are written once
            return count

    def _aside(self) -> Iterator[dict[str, Any]]:
        """Yield what was set aside; what of it can't be read gets a file of its own, before this one goes."""
        for _, _, line in LineFile(self.set_aside).lines(None, 0):
            body = body_of(line)
            if body is None:
                self._keep_piece(line)
            elif "turn" in body:
                yield body

    # --- forgetting -----------------------------------------------------------------------------

    def forget(self, request: Forget) -> Dropped:
        """Take out every turn that a request names: no file here yields its text afterwards."""
        named: set[str] = set()
        gone: set[str] = set()

        def keeps(body: dict[str, Any]) -> bool:
            if (found := _named(body, request)) is None:
                return True
            named.update(found)
            gone.add(body["turn"])
            return False

        with self._file.held():
            self._look(mend=True)
            before = self._count()
            self._rewrite(keeps, gone)
            turns = before - self._count()
            aside = LineFile(self.set_aside)
            kept = [keeps(body) for body in self._aside()]
            if not all(kept):
                turns += kept.count(False)
                aside.replace(line_of(body) for body in _turns_of(aside) if keeps(body))
            if not any(kept):
                aside.remove()
            return Dropped(turns, frozenset(named), bool(self._pieces()))

    # --- how it is ------------------------------------------------------------------------------

    def report(self) -> Report:
        """Return how the spool is. Creates and mends nothing."""
        waiting = self.waits()
        since = why = None
        if waiting:
            first = min(places[0] for places in self._waiting.values())
            with suppress(OSError, StoreDamaged, KeyError):  # it was written anew meanwhile
                since = self._body(first)["at"]
            why = next(reversed(self._failures.values()), (0, None))[1]
        aside, reasons = 0, dict[str, None]()
        for body in _turns_of(LineFile(self.set_aside)):
            aside += 1
            reasons[str(body.get("why"))] = None
        return Report(waiting, since, why, aside, tuple(reasons), tuple(map(str, self._pieces())))

    def _pieces(self) -> list[Path]:
        return sorted(self.set_aside.parent.glob("damaged-*"))

    def start_draining(self) -> bool:
        """Become the one process that delivers what waits; False while another is."""
        from filelock import Timeout  # noqa: PLC0415 - see `lock_at`

        with explained("locking", self.folder):
            make_folder(self.folder)
            self._drain = self._drain or lock_at(self.folder / "drain.lock")
            try:
                if not self._drain.is_locked:
                    self._drain.acquire(blocking=False)
            except Timeout:
                return False
            return True

    def stop_draining(self) -> None:
        """Let another process deliver. May be called again."""
        if self._drain is not None:
            self._drain.release(force=True)

    def tidy(self) -> None:
        """Drop what is delivered, where nothing else waits."""
        if self._file.path.exists():
            with self._file.held():
                self._look(mend=True)
                if not self._waiting:
                    self._rewrite()


def _body_of(request: AfterChat, session: str, now: str) -> dict[str, Any]:
    dumped = request.model_dump(mode="json", exclude_defaults=True)
    return {
        "v": 1,
        "turn": request.id,
        "talk": talk_of(request.scope.space, session),
        "space": request.scope.space,
        "session": session,
        "at": now,
        "passages": dumped.get("passages", []),
        "by": dumped.get("provenance"),
    }


def _request(body: dict[str, Any]) -> AfterChat:
    return parse(
        AfterChat,
        {
            "id": body["turn"],
            "scope": {"space": body["space"]},
            "passages": body["passages"],
            "provenance": body.get("by"),
        },
    )


def _turns_of(file: LineFile) -> Iterator[dict[str, Any]]:
    for _, _, line in file.lines(None, 0):
        body = body_of(line)
        if body is not None and "turn" in body:
            yield body


def _named(body: dict[str, Any], request: Forget) -> set[str] | None:
    """Return by which of its names a request means a turn, None when it does not."""
    space = request.scope.space
    if body.get("space") != space:
        return None
    passages = body["passages"]
    sessions = {body["session"], *(passage["session"] for passage in passages)}
    ids = {body["turn"]} | {
        passage_id(space, passage["session"], key, n)
        for passage in passages
        for key in (passage.get("key"), passage.get("place"))
        if request.ids and key
        for n in range(_VERSIONS)
    }
    named = (sessions & set(request.sessions)) | (ids & {canonical_id(item) for item in request.ids})
    return named if named or request.everything else None
