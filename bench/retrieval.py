"""How well a provider finds things: ``python bench/retrieval.py --data FOLDER [--embedder offline]``.

Reads retrieval sets (XQuAD: one file a language; LoCoMo) from a folder that is not part of this project,
stores them through `Memory` and asks every question. Prints recall at 5 and 10 and MRR beside two baselines
over the same texts: plain BM25 over words, and substring search. With an embedder it also asks in one
language what is written in another. ``--vectors FILE`` keeps vectors from one run to the next. Give figures
with their unit and k; LoCoMo leads under a point are noise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import sqlite3
import sys
import tempfile
import time
from array import array
from collections import Counter, defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rawthink_core.config import load
from rawthink_core.memory import Memory
from rawthink_core.opening import world_of
from rawthink_core.plugins import load_provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from rawthink_core.embedding import Embedder

K = 10
CROSS = (("zh", "en"), ("tr", "en"))


class Rate(NamedTuple):
    """How well one question was answered."""

    at_5: float
    at_10: float
    reciprocal: float


@dataclass(frozen=True)
class Run:
    """What is measured."""

    data: Path
    provider: str
    embedder: str
    vectors: Path | None
    fusion: str


class Kept:
    """An embedder that remembers what it made, in a file: a run is repeated in seconds."""

    def __init__(self, embedder: Embedder, file: Path) -> None:
        self._embedder = embedder
        self._file = sqlite3.connect(file, check_same_thread=False)
        self._file.execute("CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB)")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector a text."""
        return await self._each("passage", texts, self._embedder.embed_passages)

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""

        async def ask(texts: Sequence[str]) -> list[list[float]]:
            return [await self._embedder.embed_query(text) for text in texts]

        return (await self._each("query", [text], ask))[0]

    async def _each(
        self, side: str, texts: Sequence[str], make: Callable[[Sequence[str]], Awaitable[list[list[float]]]]
    ) -> list[list[float]]:
        keys = {text: f"{self._embedder.fingerprint}|{side}|{text}" for text in texts}
        known = {text: vector for text, key in keys.items() if (vector := self._read(key)) is not None}
        if missing := [text for text in keys if text not in known]:
            for text, vector in zip(missing, await make(missing), strict=True):
                known[text] = vector
                packed = array("f", vector).tobytes()
                self._file.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (keys[text], packed))
            self._file.commit()
        return [known[text] for text in texts]

    def _read(self, key: str) -> list[float] | None:
        row = self._file.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
        return None if row is None else array("f", row[0]).tolist()


class Baseline:
    """BM25 over lower-cased words split at white space and punctuation (k1 1.2, b 0.75)."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._documents = {name: Counter(self._words(text)) for name, text in texts.items()}
        self._length = {name: sum(words.values()) for name, words in self._documents.items()}
        self._mean = sum(self._length.values()) / max(1, len(self._length))
        self._frequency: Counter[str] = Counter()
        for words in self._documents.values():
            self._frequency.update(words.keys())

    @staticmethod
    def _words(text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())

    def search(self, question: str) -> list[str]:
        """Return the names of the best texts."""
        total = len(self._documents)
        scores: defaultdict[str, float] = defaultdict(float)
        for word in set(self._words(question)):
            n = self._frequency.get(word, 0)
            idf = math.log(1 + (total - n + 0.5) / (n + 0.5))
            for name, words in self._documents.items():
                if tf := words.get(word, 0):
                    norm = 1.2 * (0.25 + 0.75 * self._length[name] / self._mean)
                    scores[name] += idf * tf * 2.2 / (tf + norm)
        return sorted(scores, key=lambda name: -scores[name])[:K]


def substring(texts: dict[str, str], question: str) -> list[str]:
    """Count the question's words that occur as substrings."""
    words = question.lower().split()
    scores = {name: sum(word in text.lower() for word in words) for name, text in texts.items()}
    return sorted((name for name in scores if scores[name]), key=lambda name: -scores[name])[:K]


def xquad(path: Path) -> tuple[dict[str, str], list[tuple[str, set[str]]]]:
    texts: dict[str, str] = {}
    questions: list[tuple[str, set[str]]] = []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            name = f"p{len(texts)}"
            texts[name] = paragraph["context"]
            questions += [(qa["question"], {name}) for qa in paragraph["qas"]]
    return texts, questions


class Turn(NamedTuple):
    """One turn of a conversation."""

    text: str
    session: str
    ordinal: int
    speaker: str


def locomo(path: Path) -> Iterator[tuple[str, dict[str, Turn], list[tuple[str, set[str]]]]]:
    """Yield each conversation: its turns, and the questions that have evidence."""
    for conversation in json.loads(path.read_text(encoding="utf-8")):
        turns: dict[str, Turn] = {}
        sessions = conversation["conversation"]
        for key in sorted((k for k in sessions if re.fullmatch(r"session_\d+", k)), key=lambda k: int(k[8:])):
            for ordinal, turn in enumerate(sessions[key]):
                text = f"{turn['speaker']}: {turn['text']}"
                turns[turn["dia_id"]] = Turn(text, key, ordinal, turn["speaker"])
        questions = []
        for qa in conversation["qa"]:
            evidence = {m for e in qa.get("evidence", []) for m in re.findall(r"D\d+:\d+", e)} & turns.keys()
            if evidence:
                questions.append((qa["question"], evidence))
        yield str(conversation.get("sample_id", "")), turns, questions


def rate(found: list[str], wanted: set[str]) -> Rate:
    first = next((1 / rank for rank, name in enumerate(found, 1) if name in wanted), 0.0)
    at_5, at_10 = (len(wanted.intersection(found[:k])) / len(wanted) for k in (5, K))
    return Rate(at_5, at_10, first)


def mean(rates: list[Rate]) -> str:
    count = len(rates) or 1
    at_5, at_10, reciprocal = (sum(column) / count for column in zip(*rates, strict=True))
    return f"R@5 {at_5:.4f}   R@{K} {at_10:.4f}   MRR@{K} {reciprocal:.4f}"


@asynccontextmanager
async def opened(run: Run) -> AsyncIterator[Memory]:
    """Open an empty store of the provider, in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            "RAWTHINK_VAULT": str(Path(folder) / "vault"),
            "RAWTHINK_PROVIDER": run.provider,
            "RAWTHINK_EMBEDDER": run.embedder,
            "RAWTHINK_RANKING__FUSION": run.fusion,
        }
        world = replace(world_of(load(environ=environ)), cache=Path(folder) / "cache")
        if run.vectors is not None and run.embedder != "none":
            world = replace(world, embedder=Kept(world.embedder, run.vectors))
        plugin = load_provider(run.provider)
        memory = Memory(plugin.make(plugin.settings(), world))
        await memory.provider.open()
        try:
            yield memory
        finally:
            await memory.close()


async def settled(memory: Memory) -> None:
    """Wait until the index is built and everything has its vectors."""
    while (await memory.search("settle")).degraded or (await memory.health()).pending_embeddings:  # noqa: ASYNC110 - another process builds, no event tells
        await asyncio.sleep(0.2)


async def ask(memory: Memory, question: str) -> list[str]:
    page = await memory.search(question, limit=K, items=("passage",))
    if page.degraded:
        print(f"degraded: {page.degraded}", file=sys.stderr)
    return [hit.text for hit in page.items]


async def run_xquad(run: Run, language: str, asked_in: str) -> None:
    texts, questions = xquad(run.data / f"xquad.{language}.json")
    if asked_in != language:
        _, questions = xquad(run.data / f"xquad.{asked_in}.json")
    by_text = {text: name for name, text in texts.items()}
    async with opened(run) as memory:
        await memory.record(
            passages=[{"text": text, "session": name, "key": name} for name, text in texts.items()]
        )
        await settled(memory)
        start = time.perf_counter()
        rates = [rate([by_text[t] for t in await ask(memory, q)], wanted) for q, wanted in questions]
        each = (time.perf_counter() - start) / len(questions) * 1e3
    name = f"xquad.{language}" if asked_in == language else f"xquad.{language} asked in {asked_in}"
    print(f"{name}: {len(texts)} paragraphs, {len(questions)} questions, {each:.1f} ms a question")
    bm25 = Baseline(texts)
    report(
        rates,
        [rate(bm25.search(q), w) for q, w in questions],
        [rate(substring(texts, q), w) for q, w in questions],
    )


def report(rates: list[Rate], bm25: list[Rate], parts: list[Rate]) -> None:
    for name, each in (("rawthink", rates), ("BM25, words", bm25), ("substring", parts)):
        print(f"  {name:<14} {mean(each)}", flush=True)


async def run_locomo(run: Run, path: Path) -> None:
    rates, bm25s, parts = [], [], []
    turns_count, seconds = 0, 0.0
    async with opened(run) as memory:
        for name, turns, questions in locomo(path):
            one = memory.in_space(name or "conversation")
            items = [{"key": key, **turn._asdict()} for key, turn in turns.items()]
            for begin in range(0, len(items), 500):
                await one.record(passages=items[begin : begin + 500])
            await settled(one)
            texts = {key: turn.text for key, turn in turns.items()}
            by_text: dict[str, str] = {}
            for key, text in texts.items():
                by_text.setdefault(text, key)
            bm25 = Baseline(texts)
            start = time.perf_counter()
            answers = [await ask(one, question) for question, _ in questions]
            seconds += time.perf_counter() - start
            for (question, wanted), found in zip(questions, answers, strict=True):
                rates.append(rate([by_text[text] for text in found], wanted))
                bm25s.append(rate(bm25.search(question), wanted))
                parts.append(rate(substring(texts, question), wanted))
            turns_count += len(turns)
    each = seconds / len(rates) * 1e3
    print(f"{path.stem}: {turns_count} turns, {len(rates)} questions with evidence, {each:.1f} ms a question")
    report(rates, bm25s, parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--provider", default="local")
    parser.add_argument("--embedder", default="none")
    parser.add_argument("--vectors", type=Path, help="a file that keeps vectors from one run to the next")
    parser.add_argument("--fusion", default="minmax", choices=("minmax", "rrf"))
    parser.add_argument("--only", default="", help="xquad, xquad.en, locomo, cross")
    chosen = parser.parse_args()
    run = Run(chosen.data, chosen.provider, chosen.embedder, chosen.vectors, chosen.fusion)
    languages = [path.name.split(".")[1] for path in sorted(chosen.data.glob("xquad.*.json"))]
    for language in languages:
        if chosen.only in f"xquad.{language}":
            asyncio.run(run_xquad(run, language, language))
    for asked_in, language in CROSS if run.embedder != "none" else ():
        if chosen.only in ("", "cross") and {asked_in, language} <= set(languages):
            asyncio.run(run_xquad(run, language, asked_in))
    for path in sorted(chosen.data.glob("locomo*.json")):
        if chosen.only in path.name:
            asyncio.run(run_locomo(run, path))


if __name__ == "__main__":
    main()
