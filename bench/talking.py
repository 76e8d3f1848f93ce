"""An upstream, and the proxy before it, each a process of its own, for ``bench/chat.py``."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
WORDS = 30  # of a slow answer
PAUSE = 0.5  # seconds between them
GIGABYTE = 1 << 30
PIECE = json.dumps(
    {"choices": [{"index": 0, "delta": {"content": "x" * 4000}, "finish_reason": None}]}
).encode()


# --- the upstream, in a process of its own ------------------------------------------------------


def event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


END = event({}, "stop") + b"data: [DONE]\n\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


async def answer(body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Answer as the request's model says: at once, word by word, at length, or with what it was told."""
    kind = body["model"]
    said = body["messages"][-1]["content"]
    writer.write(HEAD)
    if kind == "flow":
        piece = chunked((b"data: " + PIECE + b"\n\n") * 16)
        for _ in range(GIGABYTE // len(piece)):
            writer.write(piece)
            await writer.drain()
    elif kind == "slow":
        for word in (said, *["word"] * WORDS):
            writer.write(chunked(event({"content": f"{word} "})))
            await asyncio.sleep(PAUSE)
    elif kind == "echo":
        told = "\n".join(message["content"] for message in body["messages"])
        writer.write(chunked(event({"content": f"You said: {told}"})))
    else:
        writer.write(chunked(event({"content": "Yes."})))
    writer.write(chunked(END) + b"0\r\n\r\n")


async def upstream(keep: Path | None) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(found[1]) if found else 0)
                if keep is not None:
                    with keep.open("ab") as file:
                        file.write(body + b"\x1e")
                await answer(json.loads(body), writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# --- what runs ----------------------------------------------------------------------------------


@contextmanager
def an_upstream(keep: Path | None = None) -> Iterator[str]:
    arguments = [sys.executable, __file__, *([str(keep)] if keep else [])]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Proxy:
    """A running proxy: its address, and how much memory it takes."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address

    def rss(self) -> float:
        """Return what it holds now, in MiB."""
        text = Path(f"/proc/{self.process.pid}/statm").read_text("ascii")
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def a_proxy(home: Path, up: str, **more: str) -> Iterator[Proxy]:
    process = subprocess.Popen(
        [sys.executable, "-m", "rawthink_chat.proxy", "--upstream", up, "--port", "0"],
        env={**environment(home), **more}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        told = ""
        while not (found := re.search(r"set OPENAI_BASE_URL=(\S+)", told)):
            line = process.stderr.readline()
            assert line, told
            told += line
        yield Proxy(process, found[1])
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def environment(home: Path) -> dict[str, str]:
    places = {f"RAWTHINK_{name.upper()}": str(home / name) for name in ("vault", "cache", "state")}
    path = [str(ROOT), *(str(ROOT / name) for name in ("providers", "hosts", "conformance_tests"))]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAWTHINK_")}
    return {**kept, **places, "PYTHONPATH": os.pathsep.join(path), "RAWTHINK_LOG_LEVEL": "WARNING",
            "RAWTHINK_CONFIG": str(home / "rawthink.toml")}  # fmt: skip


def new_home(root: Path, name: str, settings: str = "") -> Path:
    home = root / name
    home.mkdir()
    (home / "rawthink.toml").write_text(settings, encoding="utf-8")
    return home


if __name__ == "__main__":
    asyncio.run(upstream(Path(sys.argv[1]) if sys.argv[1:] else None))
