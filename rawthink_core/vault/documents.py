"""A file of the vault as a document: its id, title, tags and time, and the passages that it is in a memory.

Which passages are notes and which are parts of sessions stands in their tags, because one can search by
these: every passage of a file has the tag ``qnote`` or ``session``, and once more with each of its own tags
(``qnote:work``). `source_tags` gives the filter; `own_tags` leaves out what is not the file's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import orjson

from rawthink_core.redaction import redact
from rawthink_core.tokens import normalized
from rawthink_core.vault import frontmatter
from rawthink_core.vault.chunking import LIMIT, chunks
from rawthink_core.vault.folder import NOTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Source = Literal["session", "qnote"]

# Raise it when the passages of any file would be others than before: then every file is read anew.
_RULES = "vault-1"

_RESERVED = re.compile(r"(?:session|qnote)(?::|$)")
_HEADING_IN_KEY = 80
_NAMED_AT = re.compile(r"(\d{4}-\d\d-\d\d)_(\d\d)(\d\d)(\d\d)(?:_\d+)?")
_DAY = 10  # characters of 2026-01-05
_ONLY_RULES = re.compile(r"[-*_=\s]+")


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read. ``body`` is where its text begins after the front matter."""

    path: str
    source: Source
    id: str
    title: str | None
    tags: tuple[str, ...]
    date: date | None
    text: str
    body: int
    sha256: str
    problem: str | None

    @property
    def heading(self) -> str | None:
        """What to call it: its title, else its first heading."""
        return self.title or next((c.heading[0] for c in chunks(self.text, self.body) if c.heading), None)


def rules(*, masking: bool) -> str:
    """Return the name of the rules by which files become passages."""
    return f"{_RULES}-masked" if masking else _RULES


def session_id(text: str) -> str:
    """Return an id in the form in which ids are compared: a file system may have taken its letters apart."""
    return normalized("NFC", text)


def parse(path: str, data: bytes) -> Document:
    """Read a file. ``path`` is its path in the vault. Raises UnicodeDecodeError."""
    text = data.decode("utf-8-sig")
    head = frontmatter.read(text)
    stem = PurePosixPath(path).stem
    source: Source = "qnote" if path.startswith(f"{NOTES}/") else "session"
    return Document(
        path=path,
        source=source,
        id=session_id(head.text("id") or stem),
        title=head.text("title"),
        tags=tuple(tag for tag in head.words("tags") if not _RESERVED.match(tag)),
        date=_date(head, stem, source),
        text=text,
        body=head.end,
        sha256=hashlib.sha256(data).hexdigest(),
        problem=head.problem,
    )


def _date(head: frontmatter.FrontMatter, stem: str, source: Source) -> date | None:
    """Return when a file is of: what its front matter says, else its name; a note's name tells the second."""
    said = _sane(head.time("date")) or _sane(head.time("created"))
    at = _NAMED_AT.fullmatch(stem) if source == "qnote" else None
    with contextlib.suppress(ValueError):
        if at and not isinstance(said, datetime) and (said is None or said.isoformat() == at[1]):
            return datetime.fromisoformat(f"{at[1]}T{at[2]}:{at[3]}:{at[4]}")
    with contextlib.suppress(ValueError):
        return said or _sane(date.fromisoformat(stem[:_DAY]))
    return None


def _sane(day: date | None) -> date | None:
    """Return a date that every time zone has: no file is lost for a date that few calendars know."""
    return day if day and date.min.year < day.year < date.max.year else None


# --- passages -----------------------------------------------------------------------------------


def passages(document: Document, *, masking: bool = False) -> list[dict[str, Any]]:
    """Return what a memory holds of a document: `NewPassage` as plain data, in the order of the file.

    A key says where a passage comes from and what it is: the same in the same place is the same, and whatever
    changes (its text, tags, date, or the file's path) makes it another. With ``masking``, secrets are masked
    here already: the memory sees each chunk alone, and half a private key does not look like one.
    """
    text = _masked(document.text, document.body) if masking else document.text
    tags = [*document.tags, document.source, *(f"{document.source}:{tag}" for tag in document.tags)]
    when = document.date.isoformat() if document.date else None
    seen: Counter[str] = Counter()
    found: list[dict[str, Any]] = []
    for heading, line, piece in _pieces(document, text):
        about = orjson.dumps((document.path, heading, tags, when, piece))
        digest = hashlib.blake2b(about, digest_size=16).hexdigest()
        origin = {"path": document.path, "sha256": document.sha256, "line": line}
        passage = {
            "text": piece,
            "session": document.id,
            "key": f"{' > '.join(heading)[:_HEADING_IN_KEY]}#{digest}#{seen[digest]}",
            "ordinal": len(found),
            "tags": tags,
            "origin": origin,
        }
        found.append(passage | {"valid_from": document.date} if document.date else passage)
        seen[digest] += 1
    return found


def _pieces(document: Document, text: str) -> Iterator[tuple[tuple[str, ...], int, str]]:
    """Yield heading path, first line and text of each passage: the title first, where the text lacks it."""
    cut = chunks(text, document.body)
    if (title := document.title) and title.casefold() not in (cut[0].text.casefold() if cut else ""):
        yield (), 1, title[:LIMIT]
    for chunk in cut:
        if not _ONLY_RULES.fullmatch(chunk.text):
            yield chunk.heading, chunk.first_line, chunk.text


def _masked(text: str, start: int) -> str:
    """Return a text without the secrets after ``start``, with as many lines as before."""
    done = redact(text[start:])
    if not done.found:
        return text
    pieces, at = [text[:start]], start
    for secret in done.found:
        begin, end = start + secret.start, start + secret.end
        pieces += text[at:begin], f"[redacted {secret.kind}]", "\n" * text.count("\n", begin, end)
        at = end
    return "".join((*pieces, text[at:]))


# --- tags ---------------------------------------------------------------------------------------


def source_tags(source: Source, tags: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the filter ``tags`` of a search in notes or in sessions, with any of some tags."""
    return tuple(f"{source}:{tag}" for tag in tags) or (source,)


def own_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of a passage that its file has, without those that tell notes from sessions."""
    return tuple(tag for tag in tags if not _RESERVED.match(tag))


def source_of(tags: Iterable[str]) -> Source | None:
    """Return whether a passage is part of a note or of a session file; None where it is of no file."""
    known = set(tags)
    return "qnote" if "qnote" in known else "session" if "session" in known else None
