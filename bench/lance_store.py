"""How the LanceDB provider does: ``python bench/lance_store.py [--only record,search,…]``.

``record`` and ``search`` at several sizes, ``small`` the curve of disk and latency over many small writes,
``together`` eight processes on one store, ``copy`` from the local provider, ``agree`` how often the first
hit is that of the local provider (XQuAD in the folder ``--data``). It is not called ``lancedb.py``, which
would hide the library.
"""

# ruff: noqa: ASYNC110, ASYNC240, D102 - a benchmark waits and looks at files; the protocol documents its embedder
from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from made import SPACE, Texts, commits, make_store
from speed import machine, timed

from rawthink_core.embedding import KeptVectors
from rawthink_core.memory import Memory
from rawthink_core.operations import Scope
from rawthink_core.provider import World
from rawthink_lancedb.plugin import make
from rawthink_lancedb.settings import LanceSettings
from rawthink_local.plugin import make as make_local
from rawthink_local.settings import LocalSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.commits import Commit

RECORDS, SEARCHES, WRITERS = 200, 100, 8
DIMENSIONS = 384


class Made:
    """Vectors made of nothing but the text: clusters, as texts have, and no model."""

    name = "made"
    dimensions = DIMENSIONS
    fingerprint = f"made; {DIMENSIONS}"
    dense_weight, min_similarity, window = 0.4, 0.3, 2000

    def __init__(self) -> None:
        self._centres = np.random.default_rng(1).normal(size=(200, DIMENSIONS))

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    def vector(self, text: str) -> list[float]:
        seed = random.Random(text).getrandbits(32)
        source = np.random.default_rng(seed)
        made = self._centres[seed % len(self._centres)] + source.normal(size=DIMENSIONS) * 0.8
        return (made / np.linalg.norm(made)).tolist()

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vector(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        return self.vector(text)


def world(folder: Path, embedder: Any = None) -> World:
    made = World(path=folder / "vault", cache=folder / "cache", state=folder / "state", timezone="UTC")
    return made if embedder is None else replace(made, embedder=embedder)


def quantiles(times: list[float]) -> str:
    times = sorted(times)
    middle, high = times[len(times) // 2], times[min(len(times) - 1, int(len(times) * 0.95))]
    return f"p50 {middle * 1e3:7.1f} ms   p95 {high * 1e3:7.1f} ms   max {times[-1] * 1e3:7.1f} ms"


def disk(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


async def opened(folder: Path, embedder: Any = None, **settings: Any) -> Memory:
    memory = Memory(make(LanceSettings(**settings), world(folder, embedder)))
    await memory.provider.open()
    return memory


async def fill(memory: Memory, observations: int, embedder: Made | None = None) -> float:
    """Restore so many observations, three an entity, and wait until they are found; return seconds."""
    piece: list[Commit] = []
    start = time.perf_counter()
    for commit in commits(observations // 3):
        piece.append(commit)
        if len(piece) == 500:
            await _restore(memory, piece, embedder)
            piece = []
    await _restore(memory, piece, embedder)
    restored = time.perf_counter() - start
    while (await memory.search("settle")).degraded:
        await asyncio.sleep(0.2)
    return restored


async def _restore(memory: Memory, piece: list[Commit], embedder: Made | None) -> None:
    vectors = None
    if embedder is not None:
        said = [row.get("text") or row["name"] for commit in piece for row in commit.rows]
        vectors = KeptVectors(embedder.fingerprint, {text: [embedder.vector(text)] for text in said})
    await memory.provider.restore(Scope(space=SPACE), piece, vectors)


async def one_record(memory: Memory, texts: Texts, _: int) -> None:
    name = f"new {time.monotonic_ns()}"
    await memory.record(
        entities=[{"name": name, "entity_type": "concept", "domain": "software"}],
        observations=[{"entity": name, "text": texts.sentence()} for _ in range(3)],
    )


async def record(root: Path, sizes: list[int]) -> None:
    print("\nrecord: one entity with 3 observations through Memory")
    for size in sizes:
        memory = await opened(root / f"record-{size}")
        if size:
            await fill(memory, size)
            await memory.maintain()
        one = partial(one_record, memory, Texts(5))
        await timed(10, one)
        print(f"  {size:>7,} observations   {quantiles(await timed(RECORDS, one))}", flush=True)
        await memory.close()


async def search(root: Path, sizes: list[int]) -> None:
    print("\nsearch: five words, limit 10, by words and by meaning")
    for size in sizes:
        if not size:
            continue
        embedder, texts = Made(), Texts(9)
        memory = await opened(root / f"search-{size}", embedder)
        seconds = await fill(memory, size, embedder)
        await memory.maintain()

        async def one(_: int, memory: Memory = memory, texts: Texts = texts) -> None:
            await memory.search(texts.sentence(5))

        await timed(10, one)
        print(
            f"  {size:>7,} observations   {quantiles(await timed(SEARCHES, one))}   "
            f"restored {size / seconds:,.0f}/s with vectors",
            flush=True,
        )
        await memory.close()


async def small(root: Path, writes: int) -> None:
    print(f"\nsmall: {writes:,} records of one observation each, a search after every 50th")
    folder, texts = root / "small", Texts(3)
    memory = await opened(folder)
    entities = [{"name": "Hub", "entity_type": "concept", "domain": "software"}]
    await memory.record(entities=entities)
    recorded: list[float] = []
    searched: list[float] = []
    data, begun = 0, time.perf_counter()
    for number in range(1, writes + 1):
        text = texts.sentence()
        data += len(text)
        start = time.perf_counter()
        await memory.record(observations=[{"entity": "Hub", "text": f"{text} {number}"}])
        recorded.append(time.perf_counter() - start)
        if number % 50 == 0:
            start = time.perf_counter()
            await memory.search(texts.sentence(5))
            searched.append(time.perf_counter() - start)
        if number % max(1, writes // 20) == 0:
            files = sum(1 for path in folder.rglob("*") if path.is_file())
            print(
                f"  {number:>7,}   record {quantiles(recorded)}   search {quantiles(searched)}   "
                f"{disk(folder):6.1f} MB in {files:,} files",
                flush=True,
            )
            recorded, searched = [], []
    print(
        f"  {writes / (time.perf_counter() - begun):.0f} records a second in all; text {data / 2**20:.1f} MB"
    )
    await memory.maintain()
    print(f"  after maintain: {disk(folder):.1f} MB")
    await memory.close()


def together(root: Path, each: int) -> None:
    for what in ("different", "same", "revise"):
        folder = root / f"together-{what}"
        folder.mkdir(parents=True)
        command = [sys.executable, __file__, "--child", what, "--root", str(folder), "--writes", str(each)]
        children = [
            subprocess.Popen([*command, "--name", str(n)], stdout=subprocess.PIPE, text=True)
            for n in range(WRITERS)
        ]
        times: list[float] = []
        ids: list[list[str]] = []
        for process in children:
            out, _ = process.communicate()
            if process.returncode:
                raise SystemExit("a writer failed")
            told = json.loads(out)
            times += told["times"]
            ids.append(told["ids"])
        print(f"\ntogether, {what}: {WRITERS} processes, {each} writes each, one store\n  {quantiles(times)}")
        asyncio.run(_checked(folder, what, ids))


async def child(folder: Path, what: str, name: str, each: int) -> None:
    memory, times, ids = await opened(folder), [], []
    for number in range(each):
        start = time.perf_counter()
        said = number if what == "same" else f"{name} {number}"
        receipt = await memory.record(
            entities=[{"name": f"entity {said}", "entity_type": "concept", "domain": "software"}],
            observations=[{"entity": f"entity {said}", "text": f"what is said of {said}"}],
        )
        times.append(time.perf_counter() - start)
        ids += receipt.ids("observation")
        if what == "revise":
            ids += await _revise(memory, number, name, times)
    await memory.close()
    print(json.dumps({"times": times, "ids": ids}))


async def _revise(memory: Memory, number: int, name: str, times: list[float]) -> list[str]:
    """Revise what all processes revise; a loser is told who won."""
    from rawthink_core.errors import AlreadyRevised

    subject = f"subject {number}"
    await memory.record(
        entities=[{"name": subject, "entity_type": "concept", "domain": "software"}],
        observations=[{"entity": subject, "text": "the belief"}],
    )
    start = time.perf_counter()
    with contextlib.suppress(AlreadyRevised):
        await memory.revise(
            [{"entity": subject, "text": "the belief"}], successor={"text": f"as {name} has it"}
        )
    times.append(time.perf_counter() - start)
    return []


async def _checked(folder: Path, what: str, ids: list[list[str]]) -> None:
    memory = await opened(folder)
    items, cursor = [], None
    while True:
        page = await memory.scan(
            items=("observation",), statuses=("active", "ended", "invalidated"), limit=1000, cursor=cursor
        )
        items += page.items
        if (cursor := page.cursor) is None:
            break
    known = {item.id for item in items}
    lost = sum(item not in known for some in ids for item in some)
    twins = len(items) - len(known)
    print(f"  {len(items):,} observations, {lost} lost, {twins} twins", flush=True)
    if what == "revise":
        heirs = [item for item in items if item.supersedes]
        old = [item for item in items if item.text == "the belief"]
        print(
            f"  {len(old)} beliefs, {len(heirs)} successors, {len({h.supersedes for h in heirs})} superseded"
        )
    await memory.close()


async def copy(root: Path, size: int) -> None:
    from rawthink_core.moving import copy as copy_space
    from rawthink_core.moving import survey

    folder = root / "copy"
    make_store(folder / "local" / "vault", size // 3)
    source = Memory(make_local(LocalSettings(), world(folder / "local")))
    await source.provider.open()
    target = await opened(folder / "lance")
    found = await survey(source, target.info)
    start = time.perf_counter()
    report = await copy_space(source, target, found)
    took = time.perf_counter() - start
    while (await target.search("settle")).degraded:
        await asyncio.sleep(0.2)
    whole = time.perf_counter() - start
    print(
        f"\ncopy: {report.restored:,} commits, {size:,} observations local to lancedb: {size / took:,.0f}/s; "
        f"index built {size / whole:,.0f}/s; peak RSS "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )
    await source.close()
    await target.close()


async def agree(root: Path, data: Path) -> None:
    from retrieval import xquad

    print("\nagree: the same first hit as the local provider, no embedder")
    for path in sorted(data.glob("xquad.*.json")):
        texts, questions = xquad(path)
        found: list[list[str]] = []
        for name, provider in (
            ("local", make_local(LocalSettings(), world(root / path.stem / "local"))),
            ("lancedb", make(LanceSettings(), world(root / path.stem / "lance"))),
        ):
            memory = Memory(provider)
            await memory.provider.open()
            await memory.record(passages=[{"text": t, "session": n, "key": n} for n, t in texts.items()])
            while (await memory.search("settle")).degraded:
                await asyncio.sleep(0.2)
            start = time.perf_counter()
            hits = [(await memory.search(q, limit=1, items=("passage",))).items for q, _ in questions]
            each = (time.perf_counter() - start) / len(questions) * 1e3
            right = sum(bool(h) and h[0].session in w for h, (_, w) in zip(hits, questions, strict=True))
            print(
                f"  {path.stem} {name:8} first hit right {right / len(questions):.4f}   "
                f"{each:.1f} ms a question"
            )
            found.append([hit[0].id if hit else "" for hit in hits])
            await memory.close()
        same = sum(a == b for a, b in zip(*found, strict=True))
        print(f"  {path.stem} the same first hit: {same / len(questions):.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="0,10000,100000")
    parser.add_argument("--only", default="record,search,small,together,copy")
    parser.add_argument("--writes", type=int, default=50_000)
    parser.add_argument("--each", type=int, default=50, help="writes of each of the processes together")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--child")
    parser.add_argument("--name", default="0")
    chosen = parser.parse_args()
    if chosen.child:
        asyncio.run(child(chosen.root, chosen.child, chosen.name, chosen.writes))
        return
    sizes, wanted = [int(size) for size in chosen.sizes.split(",")], chosen.only.split(",")
    print(machine())
    with tempfile.TemporaryDirectory(prefix="rawthink-bench-") as temporary:
        root = chosen.root or Path(temporary)
        if "agree" in wanted and chosen.data is not None:
            asyncio.run(agree(root, chosen.data))
        if "record" in wanted:
            asyncio.run(record(root, sizes))
        if "search" in wanted:
            asyncio.run(search(root, sizes))
        if "copy" in wanted:
            asyncio.run(copy(root, max(sizes)))
        if "together" in wanted:
            together(root, chosen.each)
        if "small" in wanted:
            asyncio.run(small(root, chosen.writes))


if __name__ == "__main__":
    main()
