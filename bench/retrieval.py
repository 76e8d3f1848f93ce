"""How well a provider finds things: ``python bench/retrieval.py --data FOLDER``.

Reads retrieval sets (XQuAD: one file a language; LoCoMo) from a folder that is not part of this project,
stores them through `Memory` and asks every question. Prints MRR and recall at 10 beside two baselines over
the same texts: plain BM25 over words, and substring search. Give figures with their unit and k; LoCoMo
leads under a point are noise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from rawthink_core.config import load
from rawthink_core.memory import Memory
from rawthink_core.opening import make_provider

if TYPE_CHECKING:
    from collections.abc import Iterator

K = 10


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


def locomo(path: Path) -> Iterator[tuple[str, dict[str, tuple[str, str, int]], list[tuple[str, set[str]]]]]:
    """Yield each conversation: its turns as (text, session, ordinal), and questions with evidence."""
    for conversation in json.loads(path.read_text(encoding="utf-8")):
        turns: dict[str, tuple[str, str, int]] = {}
        sessions = conversation["conversation"]
        for key in sorted((k for k in sessions if re.fullmatch(r"session_\d+", k)), key=lambda k: int(k[8:])):
            for ordinal, turn in enumerate(sessions[key]):
                turns[turn["dia_id"]] = (f"{turn['speaker']}: {turn['text']}", key, ordinal)
        questions = []
        for qa in conversation["qa"]:
            evidence = {m for e in qa.get("evidence", []) for m in re.findall(r"D\d+:\d+", e)} & turns.keys()
            if evidence:
                questions.append((qa["question"], evidence))
        yield str(conversation.get("sample_id", "")), turns, questions


def rate(found: list[str], wanted: set[str]) -> tuple[float, float]:
    """Return reciprocal rank and recall at K."""
    first = next((1 / rank for rank, name in enumerate(found, 1) if name in wanted), 0.0)
    return first, len(wanted.intersection(found)) / len(wanted)


def mean(rates: list[tuple[float, float]]) -> str:
    count = len(rates) or 1
    mrr, recall = sum(r for r, _ in rates) / count, sum(r for _, r in rates) / count
    return f"MRR@{K} {mrr:.4f}   R@{K} {recall:.4f}"


def open_store(provider: str, folder: Path) -> Memory:
    environ = {"RAWTHINK_VAULT": str(folder), "RAWTHINK_PROVIDER": provider}
    return Memory(make_provider(load(environ=environ)))


async def settled(memory: Memory) -> None:
    while (await memory.search("settle")).degraded:  # noqa: ASYNC110 - another process builds, no event tells
        await asyncio.sleep(0.2)


async def ask(memory: Memory, question: str) -> list[str]:
    page = await memory.search(question, limit=K, items=("passage",))
    return [hit.text for hit in page.items]


async def run_xquad(provider: str, path: Path) -> None:
    texts, questions = xquad(path)
    by_text = {text: name for name, text in texts.items()}
    with tempfile.TemporaryDirectory() as folder:
        memory = open_store(provider, Path(folder) / "vault")
        await memory.provider.open()
        await memory.record(
            passages=[{"text": text, "session": name, "key": name} for name, text in texts.items()]
        )
        await settled(memory)
        start = time.perf_counter()
        rates = [rate([by_text[t] for t in await ask(memory, q)], wanted) for q, wanted in questions]
        each = (time.perf_counter() - start) / len(questions) * 1e3
        await memory.close()
    report(path.stem, "paragraph", len(texts), questions, rates, each, texts)


def report(
    name: str,
    unit: str,
    size: int,
    questions: list[tuple[str, set[str]]],
    rates: list[tuple[float, float]],
    each: float,
    texts: dict[str, str],
) -> None:
    print(f"{name}: {size} {unit}s, {len(questions)} questions")
    print(f"  rawthink       {mean(rates)}   {each:.1f} ms a question")
    bm25 = Baseline(texts)
    print(f"  BM25, words    {mean([rate(bm25.search(q), w) for q, w in questions])}")
    print(f"  substring      {mean([rate(substring(texts, q), w) for q, w in questions])}", flush=True)


async def run_locomo(provider: str, path: Path) -> None:
    all_rates, all_bm25, all_substring = [], [], []
    turns_count = 0
    with tempfile.TemporaryDirectory() as folder:
        memory = open_store(provider, Path(folder) / "vault")
        await memory.provider.open()
        start = time.perf_counter()
        for name, turns, questions in locomo(path):
            one = memory.in_space(name or "conversation")
            items = [
                {"text": text, "session": session, "key": key, "ordinal": ordinal}
                for key, (text, session, ordinal) in turns.items()
            ]
            for begin in range(0, len(items), 500):
                await one.record(passages=items[begin : begin + 500])
            await settled(one)
            texts = {key: text for key, (text, _, _) in turns.items()}
            by_text: defaultdict[str, list[str]] = defaultdict(list)
            for key, text in texts.items():
                by_text[text].append(key)
            bm25 = Baseline(texts)
            for question, wanted in questions:
                page = await one.search(question, limit=K, items=("passage",))
                found = [next(iter(by_text[hit.text])) for hit in page.items]
                all_rates.append(rate(found, wanted))
                all_bm25.append(rate(bm25.search(question), wanted))
                all_substring.append(rate(substring(texts, question), wanted))
            turns_count += len(turns)
        took = time.perf_counter() - start
        await memory.close()
    print(f"{path.stem}: {turns_count} turns, {len(all_rates)} questions with evidence, {took:.0f} s in all")
    print(f"  rawthink       {mean(all_rates)}")
    print(f"  BM25, words    {mean(all_bm25)}")
    print(f"  substring      {mean(all_substring)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--provider", default="local")
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    for path in sorted(chosen.data.glob("xquad.*.json")):
        if chosen.only in path.name:
            asyncio.run(run_xquad(chosen.provider, path))
    for path in sorted(chosen.data.glob("locomo*.json")):
        if chosen.only in path.name:
            asyncio.run(run_locomo(chosen.provider, path))


if __name__ == "__main__":
    main()
