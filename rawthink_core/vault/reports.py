"""What a vault answers."""

from __future__ import annotations

from rawthink_core.frame import Answer
from rawthink_core.model import When
from rawthink_core.writes import RecordReceipt


class StoredNote(Answer):
    """A note that is on the disk: ``path`` is its place in the vault.

    Where it could not be indexed, there is no ``receipt`` and ``problem`` says why; the next `index` does it.
    """

    id: str
    path: str
    receipt: RecordReceipt | None = None
    problem: str | None = None


class SessionText(Answer):
    """A session or note as its file has it, front matter included.

    ``problem`` says what is wrong with the front matter, where anything is.
    """

    id: str
    title: str
    path: str
    text: str
    date: When | None = None
    tags: tuple[str, ...] = ()
    problem: str | None = None


class IndexReport(Answer):
    """What an index run did.

    Of ``files``, ``unchanged`` needed nothing. ``chunks`` are passages that are new in the memory, ``ended``
    those whose text is no longer there. ``failed`` are files that could not be used, by path and why: what
    the memory holds of them is as it was. ``warnings`` are about files that were used all the same.
    """

    files: int = 0
    unchanged: int = 0
    chunks: int = 0
    ended: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
