"""Mutants of a reference that keeps its commits in a file: they lose them, tear them, or don't look again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from rawthink_conformance.meaning import Vectors
from rawthink_conformance.mutants.robustness import Declares
from rawthink_conformance.mutants.zoo import breaks
from rawthink_conformance.shelf import Shelf
from rawthink_core.commits import Commit, decode, encode
from rawthink_core.errors import BackendUnavailable
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class _Lines(list[Commit]):
    """The commits of a file; what is appended is written."""

    def __init__(self, file: Path, commits: Iterable[Commit]) -> None:
        super().__init__(commits)
        self._file = file

    def append(self, commit: Commit) -> None:
        """Write one more."""
        super().append(commit)
        with self._file.open("ab") as file:
            file.write(encode(commit))


class _FileShelf(Shelf):
    """A shelf whose commits lie in a file, which is read again whenever they are asked for."""

    def __init__(self, zone: str, folder: Path) -> None:
        self.file = folder / "commits"
        self.file.touch()
        self.zone = zone
        self.lock: Any = FileLock(folder / "lock")
        self.used = {}
        self.vectors = Vectors()
        self.model = None

    @property
    def commits(self) -> Any:
        """What the file holds."""
        lines = self.file.read_bytes().splitlines(keepends=True)
        read = (decode(line) for line in lines)
        return _Lines(self.file, (commit for commit in read if isinstance(commit, Commit)))

    @commits.setter
    def commits(self, commits: Any) -> None:
        self.file.write_bytes(b"".join(encode(commit) for commit in commits))


class Journalled(Declares):
    """The reference with its commits in a file: durable, and fit for several processes."""

    changes = {Capability.DURABLE: "process crash", Capability.PROCESSES: "many"}  # noqa: RUF012 - read only
    shelf: type[_FileShelf] = _FileShelf

    async def open(self) -> None:
        """Take up the file."""
        await super().open()
        self._opened = self.shelf(str(self._zone), self._world.path)


class _KeptBack(_FileShelf):
    """Writes nothing before it is told to."""

    def __init__(self, zone: str, folder: Path) -> None:
        super().__init__(zone, folder)
        self._held: list[Commit] = list(super().commits)

    @property
    def commits(self) -> Any:
        """What is held."""
        return self._held

    @commits.setter
    def commits(self, commits: Any) -> None:
        self._held = list(commits)

    def flush(self) -> None:
        """Write all of it."""
        self.file.write_bytes(b"".join(encode(commit) for commit in self._held))


@breaks("crash.kept")
class WritesAtClosing(Journalled):
    """Writes its file when it is closed."""

    changes = {Capability.DURABLE: "process crash"}  # noqa: RUF012 - read only
    shelf = _KeptBack

    async def close(self) -> None:
        """Write it now."""
        if isinstance(self._opened, _KeptBack):
            self._opened.flush()
        await super().close()


@breaks("crash.kept")
class LeavesItsLock(Journalled):
    """Marks its store as taken by a file, which it removes when it is closed."""

    changes = {Capability.DURABLE: "process crash"}  # noqa: RUF012 - read only

    async def open(self) -> None:
        """Refuse a store that is taken."""
        self._world.path.mkdir(parents=True, exist_ok=True)
        try:
            (self._world.path / "taken").touch(exist_ok=False)
        except FileExistsError as error:
            raise BackendUnavailable("the store is open elsewhere") from error
        await super().open()

    async def close(self) -> None:
        """Give it free."""
        if self._opened is not None:
            (self._world.path / "taken").unlink(missing_ok=True)
        await super().close()


class _RowByRow(_FileShelf):
    """Writes each row as a line of its own."""

    @property
    def commits(self) -> Any:
        """The commits, put together again from their rows."""
        whole: dict[tuple[str, str], Commit] = {}
        for part in super().commits:
            former = whole.get((part.space, part.id))
            rows = (*former.rows, *part.rows) if former else part.rows
            whole[part.space, part.id] = Commit(part.id, part.at, part.space, rows, part.by, part.request)
        return _Slowly(self.file, whole.values())

    @commits.setter
    def commits(self, commits: Any) -> None:
        self.file.write_bytes(b"".join(encode(commit) for commit in commits))


class _Slowly(_Lines):
    def append(self, commit: Commit) -> None:
        """Write it row by row."""
        for row in commit.rows:
            super().append(Commit(commit.id, commit.at, commit.space, (row,), commit.by, commit.request))
            time.sleep(0.001)


@breaks("crash.whole")
class WritesRowByRow(Journalled):
    """Writes the rows of a batch one after the other."""

    changes = {Capability.DURABLE: "process crash"}  # noqa: RUF012 - read only
    shelf = _RowByRow


class _AtOpening(_FileShelf):
    """Reads its file once."""

    def __init__(self, zone: str, folder: Path) -> None:
        super().__init__(zone, folder)
        self._read: list[Commit] = super().commits

    @property
    def commits(self) -> Any:
        """What was read, and what was written here since."""
        return self._read

    @commits.setter
    def commits(self, commits: Any) -> None:
        self._read = _Lines(self.file, commits)
        self.file.write_bytes(b"".join(encode(commit) for commit in commits))


@breaks("writes.second_process")
class NeverLooksAgain(Journalled):
    """Reads its file when it is opened, and then never again."""

    shelf = _AtOpening
