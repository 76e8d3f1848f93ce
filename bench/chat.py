"""What the proxy costs and bears: ``python bench/chat.py [--only latency,streams,flow,prefix,ill,echo]``.

Each part starts the proxy as people do, a process of its own, between a client and an upstream on loopback,
and prints what it saw beside what is required. Ratios are of one run. Takes minutes; everything is made in a
temporary folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).parent))

from made import Texts
from talking import PAUSE, WORDS, a_proxy, an_upstream, environment, new_home

from rawthink_core.opening import build

QUESTION = "When do deploys go out, and what of the cache?"
PASSAGES = 10_000
STREAMS = 1_000


async def filled(home: Path, passages: int) -> None:
    """Make a store of so many passages, with its search index built."""
    os.environ.update({k: v for k, v in environment(home).items() if k.startswith("RAWTHINK_")})
    memory = build()
    await memory.open()
    texts = Texts(3)
    for start in range(0, passages, 500):
        rows = [
            {"text": f"{texts.sentence(20)} ({n})", "session": f"s{n % 50}"}
            for n in range(start, start + 500)
        ]
        await memory.record(passages=rows)
    await memory.record(
        passages=[{"text": "deploys go out on Tuesday; the cache is flushed", "session": "d"}]
    )
    while (page := await memory.search("deploys cache")).degraded:
        print(f"   {page.degraded}   ", end="\r", file=sys.stderr, flush=True)
        await asyncio.sleep(0.3)
    await memory.close()


def client(address: str) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    return httpx2.AsyncClient(base_url=address, trust_env=False, timeout=300, limits=limits)


def asked(text: str, model: str = "fast", before: list[dict[str, str]] | None = None) -> dict[str, Any]:
    return {"model": model, "stream": True, "messages": [*(before or []), {"role": "user", "content": text}]}


async def first_byte(http: httpx2.AsyncClient, body: dict[str, Any], **headers: str) -> float:
    """Return the seconds to the first byte of an answer, and read it to its end."""
    began = time.perf_counter()
    async with http.stream("POST", "/chat/completions", json=body, headers=headers) as reply:
        pieces = reply.aiter_raw()
        await anext(pieces)
        seconds = time.perf_counter() - began
        async for _ in pieces:
            pass
    return seconds


def told(seconds: list[float]) -> tuple[float, float]:
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2] * 1e3, ordered[int(len(ordered) * 0.99)] * 1e3


# --- the parts ----------------------------------------------------------------------------------


async def latency(root: Path) -> None:
    print(f"\nlatency: first byte, {PASSAGES:,} passages, no embedder; required: +15 ms p50, +40 ms p99")
    home = new_home(root, "latency")
    await filled(home, PASSAGES)
    with an_upstream() as up, a_proxy(home, up) as proxy:
        async with client(up) as direct, client(proxy.address) as through:
            texts, rounds = Texts(8), 400
            for _ in range(40):
                await first_byte(direct, asked(QUESTION))
                await first_byte(through, asked(QUESTION))
            times: dict[str, list[float]] = {"direct": [], "through": [], "no recall": []}
            for _ in range(rounds):
                question = f"What of the deploys and the {texts.sentence(6)}?"
                times["direct"].append(await first_byte(direct, asked(question)))
                times["through"].append(await first_byte(through, asked(question)))
                own = {"X-RAWThink-Recall": "no", "X-RAWThink-Remember": "no"}
                times["no recall"].append(await first_byte(through, asked(question), **own))
        base = told(times["direct"])
        for name, seconds in times.items():
            middle, high = told(seconds)
            print(f"  {name:>10}: p50 {middle:6.2f} ms  p99 {high:6.2f} ms", end="")
            print(f"   added: {middle - base[0]:6.2f} / {high - base[1]:6.2f} ms")


async def streams(root: Path) -> None:
    print(
        f"\nstreams: {STREAMS:,} at once, {WORDS} words, {1 / PAUSE:.0f}/s, a space each; required: no error"
    )
    home = new_home(root, "streams", "[recall]\ndeadline = 30.0\n")
    kept = root / "bodies"
    with an_upstream(kept) as up, a_proxy(home, up) as proxy:
        before, most, wrong = proxy.rss(), 0.0, []
        began = time.perf_counter()

        async def talk(http: httpx2.AsyncClient, n: int) -> None:
            secret, own = f"secret {n:06}", {"X-RAWThink-Space": f"space {n}"}
            for body in (
                asked(f"My number is {secret}.", "slow"),
                asked(f"What is my number? It was {secret}.", "fast"),
            ):
                async with http.stream("POST", "/chat/completions", json=body, headers=own) as reply:
                    text = (await reply.aread()).decode()
                others = {found for found in re.findall(r"secret \d{6}", text) if found != secret}
                if reply.status_code != 200 or others or not text.endswith("data: [DONE]\n\n"):
                    wrong.append((n, reply.status_code, others, text[-80:]))

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, proxy.rss())
                await asyncio.sleep(0.1)

        watching = asyncio.create_task(watch())
        async with client(proxy.address) as http:
            done = await asyncio.gather(*(talk(http, n) for n in range(STREAMS)), return_exceptions=True)
        watching.cancel()
        seconds = time.perf_counter() - began
        began, through = time.perf_counter(), len(kept.read_bytes().split(b"\x1e")) - 1
        async with client(up) as http:  # the same pool of connections without a proxy
            await asyncio.gather(*(talk(http, n) for n in range(STREAMS)))
        direct = time.perf_counter() - began
        errors = [one for one in done if one is not None]
    bodies = kept.read_bytes().split(b"\x1e")[:through]
    crossed = sum(len(set(re.findall(rb"secret \d{6}", body))) != 1 for body in bodies)
    words, failed = (WORDS + 1) * PAUSE, len(errors) + len(wrong)
    print(f"  {seconds:.1f} s (direct {direct:.1f} s, the words alone {words:.1f} s); errors {failed}")
    print(f"  requests {len(bodies):,}, with another's secret {crossed}", end="")
    print(f"; RSS {before:.0f} -> {most:.0f} MiB at most")
    for fault in [*errors, *wrong][:3]:
        print("   ", repr(fault)[:300])


async def flow(root: Path) -> None:
    print("\nflow: 1 GiB of one streamed answer; required: flat RSS")
    with an_upstream() as up, a_proxy(new_home(root, "flow"), up) as proxy:
        async with client(proxy.address) as http:
            await first_byte(http, asked(QUESTION))
            before, most, size, began = proxy.rss(), 0.0, 0, time.perf_counter()
            async with http.stream("POST", "/chat/completions", json=asked(QUESTION, "flow")) as reply:
                async for piece in reply.aiter_raw():
                    size += len(piece)
                    if size % (8 << 20) < len(piece):
                        most = max(most, proxy.rss())
            seconds = time.perf_counter() - began
        print(f"  {size / 2**30:.2f} GiB in {seconds:.0f} s ({size / 2**20 / seconds:.0f} MiB/s), ", end="")
        print(f"RSS {before:.0f} -> {most:.0f} MiB at most")


async def prefix(root: Path) -> None:
    print("\nprefix: 20 turns; required: all bytes before the last question identical and first")
    kept, said, sent = root / "prefixes", [], []
    with an_upstream(kept) as up, a_proxy(new_home(root, "prefix"), up) as proxy:
        async with client(proxy.address) as http:
            other = json.dumps(asked("Deploys go out on Tuesday mornings")).encode()  # another conversation
            await http.post("/chat/completions", content=other)
            await asyncio.sleep(1)
            for turn in range(20):
                body = json.dumps(asked(f"{turn}. When do deploys go out?", before=said), indent=1).encode()
                await http.post("/chat/completions", content=body)
                sent.append(body)
                said += [{"role": "user", "content": f"{turn}. When do deploys go out?"}]
                said += [{"role": "assistant", "content": "Yes."}]
                await asyncio.sleep(0.05)
    came = kept.read_bytes().split(b"\x1e")[1:-1]
    same = total = told_any = 0
    for own, theirs in zip(sent, came, strict=True):
        first = own.rindex(b'{\n   "role": "user"')
        total += first
        same += next((n for n in range(first) if own[n] != theirs[n]), first)
        told_any += b"Relevant memory" in theirs
    print(f"  {same:,} of {total:,} bytes: {same / total:.1%}; told something in {told_any} of 20 turns")


async def ill(root: Path) -> None:
    print("\nill: a store that hangs; required: bytes as sent, within the deadline, then no wait")
    kept, home = root / "ill-bodies", new_home(root, "ill", "provider = 'hanging'\n")
    plug = home / "hanging-1.dist-info"
    plug.mkdir()
    (plug / "METADATA").write_text("Metadata-Version: 2.1\nName: hanging\nVersion: 1\n", encoding="utf-8")
    (plug / "entry_points.txt").write_text(
        "[rawthink.providers]\nhanging = hanging:plugin\n", encoding="utf-8"
    )
    (home / "hanging.py").write_text(HANGING, encoding="utf-8")
    path = f"{environment(home)['PYTHONPATH']}{os.pathsep}{home}"
    with an_upstream(kept) as up, a_proxy(home, up, PYTHONPATH=path) as proxy:
        async with client(proxy.address) as http:
            body = json.dumps(asked(QUESTION)).encode()
            times = []
            for _ in range(8):
                began = time.perf_counter()
                await http.post("/chat/completions", content=body)
                times.append(time.perf_counter() - began)
    same = sum(one == body for one in kept.read_bytes().split(b"\x1e")[:-1])
    print(f"  seconds of 8 chats: {' '.join(f'{s:.3f}' for s in times)}; bytes as sent in {same} of 8")


HANGING = """
import asyncio
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.plugins import NoSettings, ProviderPlugin

class Hanging(ReferenceProvider):
    async def on_before_chat(self, request):
        await asyncio.sleep(3600)

def make(settings, world):
    return Hanging(world)

plugin = ProviderPlugin(name="hanging", title="Hangs", make=make, settings=NoSettings)
"""


async def echo(root: Path) -> None:
    print("\necho: 50 turns of a model that repeats what it is told; required: 50 turns, none with a block")
    home = new_home(root, "echo")
    with an_upstream() as up, a_proxy(home, up) as proxy:
        async with client(proxy.address) as http:
            for turn in range(50):
                await http.post("/chat/completions", json=asked(f"Deploys number {turn}: when?", "echo"))
    journal = (home / "vault" / "rawthink.jsonl").read_text("utf-8")
    turns, blocks = (
        journal.count('"Deploys number') + journal.count("[user] Deploys number"),
        journal.count("Relevant memory"),
    )
    print(f"  {turns} turns, {blocks} blocks among them")


PARTS = {one.__name__: one for one in (latency, streams, flow, prefix, ill, echo)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS))
    given = parser.parse_args()
    print(f"{platform.machine()} {os.cpu_count()} cores, Python {platform.python_version()}")
    for name in given.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(PARTS[name](Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
