"""How fast the MCP server is, over stdio as clients use it: ``python bench/mcp.py [--sizes 0,10000,50000]``.

Prints what clients wait for: from the start of the process to the reply to `initialize`, the size of the list
of tools, records and searches in stores of any size, and the end. Everything is made in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from made import Texts, make_store
from speed import machine, quantiles

PROFILES = ("recall", "record", "agent", "full")
ENTITY = {"entityType": "concept", "domain": "software"}


class Client:
    """A client that knows no more of the protocol than it needs. One call at a time."""

    def __init__(self, home: Path, profile: str = "agent") -> None:
        places = {"VAULT": home / "vault", "CACHE": home / "cache", "STATE": home / "state"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAWTHINK_")}
        environment = {**kept, **{f"RAWTHINK_{name}": str(path) for name, path in places.items()}}
        environment |= {"HOME": str(home), "RAWTHINK_TOOL_PROFILE": profile}
        home.mkdir(parents=True, exist_ok=True)
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rawthink_cli.main", "mcp"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=home,
        )  # fmt: skip
        self._count = 0

    def ask(self, method: str, **params: Any) -> str:
        """Return the line that answers a request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._count += 1
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode()

    def greet(self) -> float:
        """Do the handshake; return the seconds from the start of the process to its reply."""
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        took = time.perf_counter() - self.began
        assert self.process.stdin is not None
        self.process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return took

    def call(self, name: str, **arguments: Any) -> str:
        """Return the text that a tool answers."""
        result = json.loads(self.ask("tools/call", name=name, arguments=arguments))["result"]
        text: str = result["content"][0]["text"]
        if result.get("isError"):
            raise SystemExit(f"{name}: {text}")
        return text

    def resident(self) -> float:
        """Return the megabytes that the server's own process holds (on Linux, else 0)."""
        status = Path(f"/proc/{self.process.pid}/status")
        lines = status.read_text("utf-8").splitlines() if status.exists() else []
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), 0.0)

    def end(self) -> float:
        """Close the server's input; return the seconds until it has ended."""
        assert self.process.stdin is not None
        began = time.perf_counter()
        self.process.stdin.close()
        if self.process.wait(timeout=30):
            raise SystemExit(f"the server ended with {self.process.returncode}")
        return time.perf_counter() - began


def milliseconds(times: list[float]) -> str:
    least, middle, most = (sorted(times)[at] * 1e3 for at in (0, len(times) // 2, -1))
    return f"p50 {middle:.0f} ms   min {least:.0f} ms   max {most:.0f} ms"


def start(root: Path) -> None:
    greeted, listed, ended, held = [], [], [], []
    for turn in range(11):
        client = Client(root / "start")
        took = client.greet()
        client.ask("tools/list")
        if turn:  # the first one fills the caches of the machine
            greeted.append(took)
            listed.append(time.perf_counter() - client.began)
        client.call("search_nodes", query="anything")
        time.sleep(0.3)
        held.append(client.resident())
        ended.append(client.end())
    print(f"spawn to initialize   {milliseconds(greeted)}")
    print(f"spawn to tools/list   {milliseconds(listed)}")
    print(f"end of input to exit  {milliseconds(ended)}")
    print(f"resident, idle        {max(held):.0f} MB")


def lists(root: Path) -> None:
    print("\ntools/list, one line of JSON-RPC")
    for profile in PROFILES:
        client = Client(root / "start", profile)
        client.greet()
        line = client.ask("tools/list")
        tools = json.loads(line)["result"]["tools"]
        print(f"  {profile:7} {len(tools):3} tools   {len(line.rstrip()):6,} characters")
        client.end()


def calls(root: Path, sizes: list[int], number: int) -> None:
    print("\ncalls through stdio, one after the other")
    texts = Texts(5)
    for size in sizes:
        home = root / str(size)
        if size and not home.exists():
            make_store(home / "vault", size)
        client = Client(home)
        client.greet()
        while "INCOMPLETE" in client.call("search_nodes", query="settle"):
            time.sleep(0.5)
        os.sync()  # what building left to be written is no part of a call
        wrote, found, asked = [], [], []
        for turn in range(number + 20):
            name = f"new {time.monotonic_ns()}"
            said = [texts.sentence() for _ in range(3)]
            said[0] += f" mark{turn}"
            query = " ".join(said[0].split()[-5:])
            began = time.perf_counter()
            client.call("record", entities=[{"name": name, **ENTITY, "observations": said}])
            written = time.perf_counter()
            shown = client.call("search_nodes", query=query)
            searched = time.perf_counter()
            client.call("search_nodes", query=query)
            if turn >= 20:
                wrote.append(written - began)
                found.append(searched - written)
                asked.append(time.perf_counter() - searched)
            if name not in shown:
                raise SystemExit(f"{name} was not found right after it was recorded:\n{shown}")
        print(f"  {size:>7,} entities   record                     {quantiles(wrote)}")
        print(f"  {'':7}            search_nodes after a write {quantiles(found)}")
        print(f"  {'':7}            search_nodes               {quantiles(asked)}")
        print(f"  {'':7}            resident {client.resident():.0f} MB   exit {client.end() * 1e3:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="0,10000,50000")
    parser.add_argument("--number", type=int, default=300, help="calls of each sort")
    parser.add_argument("--root", type=Path)
    chosen = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="rawthink-bench-") as temporary:
        root = chosen.root or Path(temporary)
        start(root)
        lists(root)
        calls(root, [int(size) for size in chosen.sizes.split(",")], chosen.number)


if __name__ == "__main__":
    main()
