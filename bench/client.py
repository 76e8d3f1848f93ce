"""A client of any MCP server over stdio, that knows no more of the protocol than it needs."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

PROTOCOL = "2025-06-18"
_FOREIGN = ("RAWTHINK_", "OLLAMA_", "QDRANT_", "MEMORY_FILE_PATH", "XDG_")  # would change what is measured
_SECONDS_TO_END = 60


class Refused(Exception):  # noqa: N818 - what it says of the server
    """A server flagged a call as an error, or ended."""


class Client:
    """A server's process and the calls to it, one at a time. What it says on stderr goes into a file."""

    def __init__(self, command: Sequence[str], home: Path, variables: dict[str, str]) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        environment = {**kept, "HOME": str(home), "NO_PROXY": "127.0.0.1", **variables}
        self.server: dict[str, str] = {}
        self._count = 0
        self._said = home / f"stderr-{time.monotonic_ns()}"
        with self._said.open("wb") as said:
            self.began = time.perf_counter()
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, env=environment, cwd=home
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end()

    def ask(self, method: str, **params: Any) -> str:
        """Return the line that answers a request; what else comes before it is passed over."""
        assert self.process.stdout is not None
        self._count += 1
        self._send({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params})
        while line := self.process.stdout.readline():
            if json.loads(line).get("id") == self._count:
                return line.decode()
        said = self._said.read_text("utf-8", "replace").strip().splitlines()
        raise Refused(f"the server ended: {said[-1] if said else 'it said nothing'}")

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def greet(self) -> float:
        """Do the handshake; return the seconds from the start of the process to its reply."""
        client = {"name": "bench", "version": "1"}
        line = self.ask("initialize", protocolVersion=PROTOCOL, capabilities={}, clientInfo=client)
        took = time.perf_counter() - self.began
        self.server = json.loads(line)["result"]["serverInfo"]
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return took

    def call(self, name: str, **arguments: Any) -> str:
        """Return the text that a tool answers. Raises Refused where it is an error."""
        answer = json.loads(self.ask("tools/call", name=name, arguments=arguments))
        if "error" in answer:
            raise Refused(f"{name}: {answer['error']['message']}")
        text: str = answer["result"]["content"][0]["text"]
        if answer["result"].get("isError"):
            raise Refused(f"{name}: {text}")
        return text

    def resident(self, *, alone: bool = False) -> float:
        """Return the megabytes that the process and all that it started hold, or it ``alone``: Linux, else 0.

        Pages that they share count once each, so a server of many processes looks no smaller than it is.
        """
        waiting, total = [self.process.pid], 0.0
        while waiting:
            place = Path(f"/proc/{waiting.pop()}")
            try:
                for children in () if alone else place.glob("task/*/children"):
                    waiting += [int(child) for child in children.read_text("utf-8").split()]
                lines = (place / "status").read_text("utf-8").splitlines()
            except FileNotFoundError:  # no Linux, or the process has ended by now
                continue
            total += sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))
        return total

    def end(self) -> float:
        """Close the server's input; return the seconds until it has ended. Raises Refused if it fails."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        began = time.perf_counter()
        self.process.stdin.close()
        try:
            code = self.process.wait(timeout=_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Refused(f"the server had not ended after {_SECONDS_TO_END} s") from None
        finally:
            self.process.stdout.close()
        if code:
            raise Refused(f"the server ended with {code}")
        return time.perf_counter() - began
