"""What waits in the spool's file, as numbers: where the line of each turn starts, and of which talk it is.

Texts stay in the file, so that a hundred thousand turns may wait. Each look takes in only what was added
since the one before; who holds the lock also mends what a crash left.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from rawthink_core.clock import Clock, iso
from rawthink_core.commits import line_of
from rawthink_core.errors import StoreDamaged
from rawthink_core.spooling.files import LineFile, body_of, explained, header, write_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from rawthink_core.operations import AfterChat

_MARKS = (b'{"v":1,"done"', b'{"v":1,"failed"', b'{"v":1,"forgotten"')
_REMEMBERED = timedelta(hours=1)  # longer than any delivery takes that began before a turn was forgotten
_DEAD_LINES, _DEAD_BYTES = 1_000, 256 * 1024  # what may lie there of turns that are delivered
WORDS_OF_ERROR = 500


class Waiting(NamedTuple):
    """The next turn of a talk, and where its line stands."""

    request: AfterChat
    talk: str
    generation: str
    place: int


class SpoolIndex:
    """The file of a spool, and where in it what waits stands."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self.set_aside = folder / "aside" / "turns.jsonl"
        self._clock = clock
        self._file = LineFile(folder / "turns.jsonl")
        self._reset(None)

    def _reset(self, generation: str | None) -> None:
        self._generation = generation
        self._end = 0
        self._dead = 0
        self._damaged: list[int] = []
        self._waiting: dict[str, list[int]] = {}
        self._failures: dict[int, tuple[int, str]] = {}
        self._forgotten: dict[str, str] = {}

    def _count(self) -> int:
        return sum(map(len, self._waiting.values()))

    # --- the file -------------------------------------------------------------------------------

    def _look(self, *, mend: bool) -> None:
        """Take in what was added since the last look; with ``mend``, set aside what can't be read."""
        with explained("reading", self._file.path):
            torn = b""
            seen = False
            for generation, place, line in self._file.lines(self._generation, self._end):
                seen = True
                if generation != self._generation:
                    self._reset(generation)
                if not line.endswith(b"\n"):
                    torn = line
                    break
                self._take(place, body_of(line))
                self._end = place + len(line)
            if not seen and not self._file.path.exists():
                self._reset(None)
        if mend and torn:
            self._keep_piece(torn)
            self._file.cut(self._end)
        if mend and self._damaged:
            for line in self._file.lines_at(self._damaged):
                self._keep_piece(line)
            self._rewrite()

    def _take(self, place: int, body: dict[str, Any] | None) -> None:
        match body:
            case {"turn": str(), "talk": str(talk)}:
                self._waiting.setdefault(talk, []).append(place)
            case {"done": int(of), "talk": str(talk)}:
                self._dead += 2
                self._failures.pop(of, None)
                with suppress(KeyError, ValueError):
                    self._waiting[talk].remove(of)
                    if not self._waiting[talk]:
                        del self._waiting[talk]
            case {"failed": int(of), "tries": int(tries), "why": str(why)}:
                self._dead += 1
                self._failures.pop(of, None)
                self._failures[of] = tries, why
            case {"forgotten": str(turn), "at": str(at)}:
                self._forgotten[turn] = at
            case {"spool": str()}:
                pass
            case _:
                self._damaged.append(place)

    def _keep_piece(self, data: bytes) -> None:
        if not data.startswith(_MARKS):  # a mark says nothing that is not said again
            name = f"damaged-{iso(self._clock.now()).replace(':', '')}-{hashlib.sha256(data).hexdigest()[:8]}"
            with suppress(FileExistsError):
                write_beside(self.set_aside.parent / name, data)

    def _find(self, turn: Waiting) -> int | None:
        """Return where a turn stands now, None where it no longer waits."""
        places = self._waiting.get(turn.talk, [])
        if turn.generation == self._generation:
            return turn.place if turn.place in places else None
        return next((place for place in places if self._body(place)["turn"] == turn.request.id), None)

    def _body(self, place: int) -> dict[str, Any]:
        return next(self._bodies([place]))

    def _bodies(self, places: Iterable[int]) -> Iterator[dict[str, Any]]:
        for line in self._file.lines_at(places):
            body = body_of(line)
            if body is None:
                raise StoreDamaged(f"a line of {self._file.path} can't be read any more")
            yield body

    def _tidy(self) -> None:
        """Write the file anew when most of it is of no use any more."""
        self._look(mend=True)
        alive = self._count()
        if self._dead >= max(_DEAD_LINES, 2 * alive) or (not alive and self._end > _DEAD_BYTES):
            self._rewrite()

    def _rewrite(
        self, keeps: Callable[[dict[str, Any]], bool] | None = None, gone: set[str] | None = None
    ) -> None:
        """Put in the file's place what waits and is kept, in the same order."""
        self._look(mend=False)  # never from a view of yesterday
        limit = iso(self._clock.now() - _REMEMBERED)
        forgotten = {turn: at for turn, at in self._forgotten.items() if at > limit}
        places = sorted(place for each in self._waiting.values() for place in each)
        failures = self._failures
        count = 0

        def pieces() -> Iterator[bytes]:
            nonlocal count
            end = len(header())
            for place, body in zip(places, self._bodies(places), strict=True):
                if keeps is None or keeps(body):
                    count += 1
                    line = line_of(body)
                    yield line
                    if place in failures:
                        mark = line_of(failure_line(end, *failures[place]))
                        yield mark
                        end += len(mark)
                    end += len(line)
            for turn in gone or ():
                forgotten[turn] = iso(self._clock.now())
            for turn, at in forgotten.items():
                yield line_of({"v": 1, "forgotten": turn, "at": at})

        if places or forgotten:
            self._file.replace(pieces())
        if not count and not forgotten:
            self._file.remove()
        self._reset(None)
        self._look(mend=False)


def failure_line(place: int, tries: int, why: str) -> dict[str, Any]:
    """Return the mark of a failed delivery."""
    return {"v": 1, "failed": place, "tries": tries, "why": why[:WORDS_OF_ERROR]}
