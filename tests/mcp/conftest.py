"""What the tests of the MCP server share: a home of its own, the server in this process, and in one of its own."""

from __future__ import annotations

import importlib.metadata
import json
import os
import queue
import subprocess
import sys
import threading
import tomllib
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client

from rawthink_core.config import load
from rawthink_mcp_server.house import House
from rawthink_mcp_server.server import Tools

ROOT = Path(__file__).parents[2]
PACKAGES = [str(ROOT), *(str(ROOT / name) for name in ("providers", "hosts", "conformance_tests"))]
PATIENCE = 60


# --- in this process ----------------------------------------------------------------------------


class Told:
    """The answer of a tool."""

    def __init__(self, result):
        [content] = result.content
        self.text = content.text
        self.failed = result.is_error
        self.data = result.structured_content


class Caller:
    """Calls tools by their names, as methods."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        async def call(**arguments):
            return Told(await self.client.call_tool(name, arguments))

        return call


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    folder.mkdir()
    for name, place in (("VAULT", "vault"), ("CACHE", "cache"), ("STATE", "state")):
        monkeypatch.setenv(f"RAWTHINK_{name}", str(folder / place))
    monkeypatch.setenv("RAWTHINK_CONFIG", str(folder / "rawthink.toml"))
    monkeypatch.setenv("RAWTHINK_TIMEZONE", "UTC")
    (folder / "rawthink.toml").write_text("", encoding="utf-8")
    return folder


@pytest.fixture
def connected(home):
    """Connect to the server in this process: ``async with connected(profile) as tools``."""

    @asynccontextmanager
    async def connect(profile="full", *, mode="legacy", structured=False, build=None, load=load):
        house = House(load, build)
        server = Tools(house, profile, structured=structured).server("1")
        failure = None
        async with Client(server, mode=mode) as client:
            try:
                yield Caller(client)
            except BaseException as error:  # noqa: BLE001 - out of the client's task groups, which would wrap it
                failure = error
        await house.close(10, 10)
        if failure is not None:
            raise failure

    return connect


# --- in a process of its own --------------------------------------------------------------------


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    """What a server process imports from: also from a bare checkout, and with a backend for tests."""
    folder = tmp_path_factory.mktemp("path")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    here = Path(__file__).with_name("trying.py")
    (folder / here.name).write_bytes(here.read_bytes())
    points = {"trying": {"rawthink.providers": {"trying": "trying:plugin"}}}
    try:
        importlib.metadata.version("rawthink")
    except importlib.metadata.PackageNotFoundError:
        points["rawthink"] = project["entry-points"]
    for name, groups in points.items():
        info = folder / f"{name}-{project['version']}.dist-info"
        info.mkdir()
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {project['version']}\n"
        (info / "METADATA").write_text(head, encoding="utf-8")
        lines = [
            f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in given.items())
            for group, given in groups.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return os.pathsep.join([*PACKAGES, str(folder)])


class Talk:
    """A server process, spoken to in lines of JSON."""

    def __init__(self, command, environment, folder):
        self.errors = folder / f"stderr-{id(self)}"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, cwd=folder
            )  # fmt: skip
        self.lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._count = 0

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method, params=None, *, number=None):
        """Send a request; return its id."""
        self._count += 1
        number = number or self._count
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
        self.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
        return number

    def note(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {})
        self.write(json.dumps(message).encode() + b"\n")

    def hear(self):
        """Return the next message, and keep its line; None at the end."""
        line = self.lines.get(timeout=PATIENCE)
        self.line = line
        return None if line is None else json.loads(line.decode("utf-8"))

    def answer(self, number):
        while (message := self.hear()) is not None:
            if message.get("id") == number:
                return message
        raise AssertionError(f"no answer to {number}: {self.stderr()}")

    def ask(self, method, params=None):
        return self.answer(self.send(method, params))

    def greet(self, version="2025-06-18"):
        asked = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        }
        message = self.ask("initialize", asked)
        self.note("notifications/initialized")
        return message["result"]

    def send_call(self, tool, **arguments):
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def result(self, number):
        return self.answer(number)["result"]

    def call(self, tool, **arguments):
        """Return the text that a tool answers; an error is one of this test too."""
        result = self.result(self.send_call(tool, **arguments))
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    def end(self):
        """Close the server's input and return its exit code and the lines that still came."""
        self.process.stdin.close()
        return self.over()

    def over(self):
        code = self.process.wait(timeout=PATIENCE)
        self._reader.join(timeout=PATIENCE)
        lines = []
        while (line := self.lines.get(timeout=PATIENCE)) is not None:
            lines.append(line)
        return code, lines

    def stderr(self):
        return self.errors.read_text(encoding="utf-8", errors="replace")


@pytest.fixture
def surroundings(home, path):
    """Return the environment of a process of ours, with some variables more; None takes one away."""

    def of(**more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "XDG_"))}
        given = {**kept, "HOME": str(home), "PYTHONPATH": path, "TZ": "UTC", **more}
        return {k: v for k, v in given.items() if v is not None}

    return of


@pytest.fixture
def rawthink(surroundings, tmp_path):
    """Run a command beside the server: ``rawthink(*arguments, **environment)``."""

    def run(*arguments, **environment):
        return subprocess.run(
            [sys.executable, "-m", "rawthink_cli.main", *map(str, arguments)],
            env=surroundings(**environment), cwd=tmp_path, capture_output=True, text=True, encoding="utf-8",
            timeout=PATIENCE, check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def serve(surroundings, tmp_path):
    """Start the server in a process of its own: ``serve(*arguments, **environment)``."""
    started = []

    def start(*arguments, wrapped=(), **environment):
        command = [*wrapped, sys.executable, "-m", "rawthink_cli.main", "mcp", *map(str, arguments)]
        talk = Talk(command, surroundings(**environment), tmp_path)
        started.append(talk)
        return talk

    yield start
    for talk in started:
        talk.process.kill()
        talk.process.wait()
        talk.process.stdin.close() if not talk.process.stdin.closed else None
        talk._reader.join(timeout=PATIENCE)
        talk.process.stdout.close()
