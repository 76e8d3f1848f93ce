"""How fast the local provider is: ``python bench/speed.py [--only record] [--sizes 0,10000]``.

Prints one table a measure with the machine's name. Ratios between sizes are from one run. Runs for some
minutes; everything is made in a temporary folder.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))

from made import Texts, make_store

from rawthink_core.memory import Memory
from rawthink_core.provider import World
from rawthink_local.plugin import LocalSettings, make

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RECORDS = 400
SEARCHES = 300


def world(folder: Path) -> World:
    return World(path=folder / "vault", cache=folder / "cache", state=folder / "state")


def store(root: Path, entities: int) -> Path:
    """Return a folder with a store of so many entities, made once a run."""
    folder = root / str(entities)
    if not folder.exists():
        if entities:
            make_store(folder / "vault", entities)
        else:
            folder.mkdir(parents=True)
    return folder


def quantile(times: list[float], part: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * part))]


def quantiles(times: list[float]) -> str:
    middle, high, most = (quantile(times, part) * 1e3 for part in (0.5, 0.99, 1))
    return f"p50 {middle:7.2f} ms   p99 {high:7.2f} ms   max {most:7.2f} ms"


async def timed(number: int, call: Callable[[int], Awaitable[object]]) -> list[float]:
    times = []
    for turn in range(number):
        start = time.perf_counter()
        await call(turn)
        times.append(time.perf_counter() - start)
    return times


async def settled(memory: Memory) -> None:
    """Wait until the row index and the search index have caught up."""
    while (page := await memory.search("settle")).degraded:
        print(f"   {page.degraded}   ", end="\r", file=sys.stderr, flush=True)
        await asyncio.sleep(0.5)


async def one_record(memory: Memory, texts: Texts, observations: int, _: int) -> None:
    name = f"new {time.monotonic_ns()}"
    await memory.record(
        entities=[{"name": name, "entity_type": "concept", "domain": "software"}],
        observations=[{"entity": name, "text": texts.sentence()} for _ in range(observations)],
    )


async def one_search(memory: Memory, texts: Texts, _: int) -> None:
    await memory.search(texts.sentence(5))


async def record(root: Path, sizes: list[int]) -> None:
    print("\nrecord: one entity with 3 observations through Memory, durable")
    texts = Texts(5)
    for size in sizes:
        memory = Memory(make(LocalSettings(), world(store(root, size))))
        await memory.provider.open()
        await memory.maintain(reindex=True)  # the row index is whole; no search index is being built beside
        os.sync()  # what building left to be written is no part of a record
        one = partial(one_record, memory, texts, 3)
        await timed(20, one)
        print(f"  {size:>7,} entities   {quantiles(await timed(RECORDS, one))}")
        await memory.close()


async def search(root: Path, sizes: list[int]) -> None:
    print("\nsearch: five words, limit 10 (entities hold 3 observations each)")
    for size in sizes:
        if not size:
            continue
        texts = Texts(9)
        memory = Memory(make(LocalSettings(), world(store(root, size))))
        await memory.provider.open()
        await settled(memory)
        one = partial(one_search, memory, texts)
        await timed(20, one)
        times = await timed(SEARCHES, one)
        print(f"  {size:>7,} entities   {quantiles(times)}")
        await memory.close()


def opening(root: Path, sizes: list[int]) -> None:
    print("\nopen: a new process, to the first answered call (import of the library not counted)")
    for size in sizes:
        if not size:
            continue
        folder = store(root, size)
        for state in ("without side files", "with fresh side files"):
            if state == "without side files":
                subprocess.run(["rm", "-rf", str(folder / "cache")], check=True)
            else:
                asyncio.run(_prepare(folder))
            for what in ("get", "record", "search"):
                if what == "search" and state == "without side files":
                    continue
                command = [sys.executable, __file__, "--child", what, "--folder", str(folder)]
                line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
                print(f"  {size:>7,} entities   {state:22} {what:7} {line}")
                if state == "without side files":
                    subprocess.run(["rm", "-rf", str(folder / "cache")], check=True)


async def _prepare(folder: Path) -> None:
    memory = Memory(make(LocalSettings(), world(folder)))
    await memory.provider.open()
    await settled(memory)
    await memory.close()


async def child(what: str, folder: Path) -> None:
    start = time.perf_counter()
    memory = Memory(make(LocalSettings(), world(folder)))
    await memory.provider.open()
    match what:
        case "get":
            items = await memory.get(names=["entity 77"])
            note = f"{len(items.items)} item"
        case "record":
            receipt = await memory.record(
                entities=[{"name": f"child {time.time_ns()}", "entity_type": "concept", "domain": "software"}]
            )
            note = receipt.status
        case _:
            page = await memory.search("settle")
            note = page.degraded or "whole answer"
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{took * 1e3:8.1f} ms   peak RSS {peak:5.0f} MB   {note}")
    await memory.close()


def together(root: Path) -> None:
    print("\ntogether: 8 processes, 200 records each, one store")
    folder = root / "together"
    folder.mkdir()
    command = [sys.executable, __file__, "--child-writer", "--folder", str(folder)]
    children = [
        subprocess.Popen([*command, "--name", str(n)], stdout=subprocess.PIPE, text=True) for n in range(8)
    ]
    times: list[float] = []
    for process in children:
        out, _ = process.communicate()
        if process.returncode:
            raise SystemExit("a writer failed")
        times += [float(word) for word in out.split()]
    times.sort()
    kept = asyncio.run(_count(folder))
    print(
        f"  {kept} of 1600 kept   p50 {times[800] * 1e3:.2f} ms   p95 {times[1520] * 1e3:.2f} ms   "
        f"max {times[-1] * 1e3:.2f} ms"
    )


async def writer(folder: Path, name: str) -> None:
    memory = Memory(make(LocalSettings(), world(folder)))
    await memory.provider.open()
    print(*await timed(200, partial(one_record, memory, Texts(int(name)), 1)))
    await memory.close()


async def _count(folder: Path) -> int:
    memory = Memory(make(LocalSettings(), world(folder)))
    await memory.provider.open()
    count, cursor = 0, None
    while True:
        page = await memory.scan(items=("entity",), limit=1000, cursor=cursor)
        count += len(page.items)
        cursor = page.cursor
        if cursor is None:
            break
    await memory.close()
    return count


async def freshness(root: Path) -> None:
    print("\nfreshness: another process's commit, seen by the next read of this one")
    folder = store(root, 10_000) if (root / "10000").exists() else store(root, 1_000)
    memory = Memory(make(LocalSettings(), world(folder)))
    await memory.provider.open()
    await memory.get(names=["entity 1"])
    command = [sys.executable, __file__, "--child", "record", "--folder", str(folder)]
    before = (await memory.scan(items=("entity",), since="2026-01-01", limit=1000)).items
    subprocess.run(command, check=True, capture_output=True)
    start = time.perf_counter()
    after = (await memory.scan(items=("entity",), since="2026-01-01", limit=1000)).items
    print(f"  seen: {len(after) - len(before) == 1}   read took {(time.perf_counter() - start) * 1e3:.1f} ms")
    await memory.close()


def machine() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    cpu = next(named, platform.processor())
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{cpu}, {os.cpu_count()} cores, {system}, load {os.getloadavg()[0]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="0,10000,50000,100000,500000")
    parser.add_argument("--only", default="record,search,open,together,freshness")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--child")
    parser.add_argument("--child-writer", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--name", default="0")
    chosen = parser.parse_args()
    if chosen.child:
        asyncio.run(child(chosen.child, chosen.folder))
        return
    if chosen.child_writer:
        asyncio.run(writer(chosen.folder, chosen.name))
        return
    sizes = [int(size) for size in chosen.sizes.split(",")]
    print(machine())
    with tempfile.TemporaryDirectory(prefix="rawthink-bench-") as temporary:
        root = chosen.root or Path(temporary)
        wanted = chosen.only.split(",")
        if "record" in wanted:
            asyncio.run(record(root, sizes))
        if "search" in wanted:
            asyncio.run(search(root, [size for size in sizes if size <= 100_000]))
        if "open" in wanted:
            opening(root, [size for size in sizes if size <= 100_000])
        if "together" in wanted:
            together(root)
        if "freshness" in wanted:
            asyncio.run(freshness(root))


if __name__ == "__main__":
    main()
