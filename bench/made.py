"""Stores of any size, made quickly: the journal is written as the provider would write it, line by line."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from rawthink_core.clock import iso
from rawthink_core.commits import Commit, encode, encode_header, new_header
from rawthink_core.identity import entity_id, observation_id
from rawthink_local.journal import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPACE = "default"
WORDS_A_TEXT = 15
_START = datetime(2024, 1, 1, tzinfo=UTC)


def words(seed: int = 7, size: int = 8_000) -> list[str]:
    """Return a vocabulary of made-up words."""
    source = random.Random(seed)
    return ["".join(source.choices("abcdefghijklmnoprstuvyz", k=source.randint(3, 10))) for _ in range(size)]


class Texts:
    """Sentences with the word frequencies of real text (Zipf's law)."""

    def __init__(self, seed: int = 11) -> None:
        self._random = random.Random(seed)
        self._words = words()
        self._weights = list(accumulate(1 / rank for rank in range(1, len(self._words) + 1)))

    def sentence(self, length: int = WORDS_A_TEXT) -> str:
        """Return a sentence."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=length))


def commits(entities: int, observations: int = 3) -> Iterator[Commit]:
    """Yield one commit an entity, each with some observations."""
    texts = Texts()
    for number in range(entities):
        name = f"entity {number}"
        owner = entity_id(SPACE, name)
        rows = [
            {
                "op": "entity",
                "id": owner,
                "name": name,
                "entity_type": "concept",
                "domain": "software",
                "epistemic": "unknown",
                "visibility": "private",
            }
        ]
        for _ in range(observations):
            text = texts.sentence()
            item = observation_id(SPACE, owner, "note", text, None, 0)
            rows.append({"op": "observation", "id": item, "entity": owner, "kind": "note", "text": text})
        at = iso(_START + timedelta(seconds=number))
        yield Commit(f"made-{number}", at, SPACE, tuple(rows), None, "0" * 32)


def make_store(folder: Path, entities: int) -> Path:
    """Write a store of so many entities with three observations each and return its journal."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    with path.open("wb") as file:
        file.write(encode_header(new_header("made", _START, "UTC")))
        for commit in commits(entities):
            file.write(encode(commit))
    return path


class Part(NamedTuple):
    """A part of a file of a vault: one passage."""

    session: str
    text: str


def make_vault(folder: Path, passages: int, a_file: int = 10) -> list[Part]:
    """Write sessions of so many passages in all, two paragraphs of 50 words each, and return the passages."""
    texts = Texts(17)
    (folder / "sessions").mkdir(parents=True, exist_ok=True)
    parts: list[Part] = []
    for first in range(0, passages, a_file):
        day = f"{_START + timedelta(days=first // a_file):%Y-%m-%d}"
        session = f"{day}_001"
        lines = ["---", f'id: "{session}"', f"date: {day}", 'tags: ["made"]', "---"]
        for number in range(first, min(first + a_file, passages)):
            halves = [texts.sentence(50), texts.sentence(50)]
            lines += ["", f"## Part {number}", "", halves[0], "", halves[1]]
            parts.append(Part(session, " ".join(halves)))
        (folder / "sessions" / f"{session}_made.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return parts
