"""The `Embedder` protocol, what fits into one vector, and the embedder that makes none.

An embedder turns text into vectors of a fixed size and length 1. It also says how far its scores are to be
trusted: ``dense_weight`` is its share when lists are fused, ``min_similarity`` the cosine below which a hit
that shares no word with the question means nothing. Both are measured per model. The embedders that ship
are in `rawthink_core.embedders`; anybody's are found through the entry points ``rawthink.embedders``.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from rawthink_core.errors import TextsNotEmbedded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "Embedder",
    "EmbedderPlugin",
    "KeptVectors",
    "NoEmbedder",
    "NoSettings",
    "TextsNotEmbedded",
    "first_window",
    "plain",
    "windows",
]


@runtime_checkable
class Embedder(Protocol):
    """Turns text into vectors. Implementations may be used from several threads and event loops."""

    name: str
    dimensions: int  # 0: there are no vectors. Behind HTTP it is known after `open`
    fingerprint: str  # what vectors must share to be compared, in one line: known after `open`
    dense_weight: float  # 0..1, the share of the dense list in fusion
    min_similarity: float  # cosine below which a dense-only hit does not count
    window: int  # characters that one vector stands for; longer text is cut by `windows`

    async def open(self) -> None:
        """Reach the model, learn its digest and dimensions. Raises BackendError; may be called again."""
        ...

    async def close(self) -> None:
        """Let go of connections and processes. May be called again; `open` opens anew."""
        ...

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector a text, for storing; each text fits the window.

        Raises TextsNotEmbedded when the model has no vector for some of them (it carries the others), any
        other BackendError when there is none for any: try again later.
        """
        ...

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question; of a long one, its first window's. Raises BackendError."""
        ...


@dataclass(frozen=True, slots=True)
class KeptVectors:
    """Vectors that a store keeps: ``of`` each text those of its `windows`, all made by one model."""

    fingerprint: str = ""
    of: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)


class NoSettings(BaseModel):
    """Settings of a plugin that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class EmbedderPlugin:
    """What an entry point of ``rawthink.embedders`` holds: how to make an embedder from its settings.

    ``settings`` is a pydantic model whose fields carry title, description and default; its fields are the
    keys of ``[embedder]`` beside ``name``. ``make`` gets an instance of it, and opens nothing.
    """

    name: str
    title: str
    make: Callable[[Any], Embedder]
    settings: type[BaseModel] = NoSettings


class NoEmbedder:
    """No vectors: search is lexical. A supported mode, and what an unreachable embedder degrades to."""

    name = "none"
    dimensions = 0
    fingerprint = "none"
    dense_weight = 0.0
    min_similarity = 1.0
    window = 2000

    async def open(self) -> None:
        """Do nothing: there is nothing to reach."""

    async def close(self) -> None:
        """Do nothing: nothing is held."""

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Return an empty vector for each text."""
        return [[] for _ in texts]

    async def embed_query(self, text: str) -> list[float]:  # noqa: ARG002 - the protocol's signature
        """Return an empty vector."""
        return []


plugin = EmbedderPlugin("none", "No vectors: search by words alone", lambda _: NoEmbedder())


# --- windows ------------------------------------------------------------------------------------

# Where text may be cut, the best first: after a paragraph, a sentence or a line, between words.
_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*\n\s*")
_SENTENCE: Final = re.compile(r"""[.!?…؟۔।]+["'”’»)\]]*(?=\s)|[。！？；｡]+["'”’」』）]*|\n""")
_WORD: Final = re.compile(r"(?<=\S)(?=\s)|(?<=\s)(?=\S)")
_LOOK_AHEAD = 64  # characters beyond a limit that tell whether a grapheme ends there
_JOINERS = "\u200c\u200d"


def plain(text: str) -> str:
    """Return text as a model takes it: no NUL, which ends a C string, no lone surrogate, never empty."""
    if "\0" in text:
        text = text.replace("\0", "")
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text or " "


def windows(text: str, size: int) -> list[str]:
    """Cut text into windows of at most ``size`` characters, which overlap by up to a tenth.

    Cuts fall on the end of a paragraph, else of a sentence, a word, a grapheme. All that is written is in
    some window, in order; NULs are dropped, as is space around a cut. There is always a window, and no
    window is empty: of an empty text it is one space.
    """
    if size < 1:
        raise ValueError(f"a window has at least 1 character, not {size}")
    text = plain(text)
    if len(text) <= size:
        return [text]
    found: list[str] = []
    start, overlap = 0, size // 10
    while (rest := len(text) - start) > size:
        # What is a little longer than one window becomes two of about the same length: a few words left
        # over would be near to anything.
        limit = size if 2 * rest >= 3 * size else min(size, rest // 2 + overlap + 1)
        end = _cut(text, start, start + limit)
        found.append(text[start:end].strip())
        start = _begin(text, max(start + 1, end - overlap), end)
    found.append(text[start:].strip())
    return [window for window in found if window] or [" "]


def first_window(text: str, size: int) -> str:
    """Return the first of the `windows`, at the same small cost however long the text is."""
    return windows(text[: 4 * size], size)[0]


def _cut(text: str, start: int, limit: int) -> int:
    """Return where to cut at the latest, in the second half of what may be taken."""
    low = start + (limit - start) // 2
    for borders in (_PARAGRAPH, _SENTENCE, _WORD):
        ends = [
            found.end()
            for found in borders.finditer(text, low, limit + 1)
            if low < found.end() <= limit and not _joined(text, found.end())
        ]
        if ends:
            return ends[-1]
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - only text without spaces needs it

    ends = [
        found.end()
        for found in regex.finditer(r"\X", text, pos=start, endpos=limit + _LOOK_AHEAD)
        if found.end() <= limit
    ]
    return ends[-1] if ends else limit


def _begin(text: str, low: int, end: int) -> int:
    """Return where the next window begins: at a sentence or a word of the overlap, else without one."""
    for borders in (_SENTENCE, _WORD):
        for found in borders.finditer(text, low, end):
            if low <= found.end() < end and not _joined(text, found.end()):
                return found.end()
    return end


def _joined(text: str, at: int) -> bool:
    """Tell whether a character belongs to the one before it: a mark or a joiner."""
    return at < len(text) and (unicodedata.category(text[at])[0] == "M" or text[at] in _JOINERS)
