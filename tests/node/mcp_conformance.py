"""The official MCP conformance suite against `rawthink mcp`: ``python check.py node``. Needs Node 20 and npm.

The suite speaks HTTP only, so a bridge stands before the server, and a client of the Python SDK goes through it
first, in both eras of the protocol. `expected-failures.yaml` says what the suite asks for that this server does
not offer; whatever else fails, and an entry that nothing meets any more, fails the check.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge import Started, bridge
from expectations import checks_of, expectations, judge, table
from mcp import Client, StdioServerParameters

if TYPE_CHECKING:
    from mcp.client.client import ConnectMode
    from pydantic import BaseModel

PACKAGE = "@modelcontextprotocol/conformance@0.1.13"  # later ones need Node 22
NODE = 20
ERAS: dict[str, ConnectMode] = {"2025-11-25": "legacy", "2026-07-28": "auto"}
PATIENCE = 600  # seconds for a run of the suite
SERVER = [sys.executable, "-m", "rawthink_cli.main", "mcp", "--profile", "full", "--structured"]
EXPECTED = Path(__file__).with_name("expected-failures.yaml")
QUIET = {f"npm_config_{name}": "false" for name in ("audit", "fund", "update_notifier")}
SAFE = {"npm_config_ignore_scripts": "true"}  # of packages: the suite needs none


class Failed(Exception):  # noqa: N818 - it ends the check, with a sentence
    """The check can't go on."""


def server(home: Path) -> Started:
    """Return how our server is started, with a home of its own."""
    (home / "rawthink.toml").touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAWTHINK_")}
    places = {f"RAWTHINK_{name}": str(home / name.lower()) for name in ("VAULT", "CACHE", "STATE")}
    environment = {**kept, **places, "RAWTHINK_CONFIG": str(home / "rawthink.toml")}
    return Started(SERVER, environment, home, home / "stderr")


async def greet(url: str, how: Started) -> set[str]:
    """Have the SDK's own client call tools through the bridge, and list what it lists over stdio.

    Returns the capabilities that the server declares.
    """
    command, *arguments = how.command
    plain = StdioServerParameters(command=command, args=arguments, env=how.environment, cwd=how.folder)
    declared: set[str] = set()
    for version, mode in ERAS.items():
        entity = {"name": f"bridge {version}", "entityType": "concept", "domain": "software"}
        recorded = {"entities": [{**entity, "observations": ["记忆 ✓"]}]}
        there = await heard(url, mode, ("record", recorded), ("search_nodes", {"query": "记忆"}))
        if there[:3] != (await heard(plain, mode))[:3]:
            raise Failed(f"the bridge ({version}): version, capabilities or tools are not those of stdio")
        if there[0] != version:
            raise Failed(f"the bridge ({version}): the server speaks {there[0]}")
        if not all(text in there[-1] for text in (entity["name"], "记忆 ✓")):
            raise Failed(f"the bridge ({version}): what was recorded is not found: {there[3:]}")
        declared |= json.loads(there[1]).keys()
    return declared


async def heard(
    where: str | StdioServerParameters, mode: ConnectMode, *calls: tuple[str, dict[str, Any]]
) -> list[str]:
    """Return the version, the capabilities, the tools and the answer to each call, as the SDK hears them."""
    async with Client(where, mode=mode) as client:
        answers: list[BaseModel] = [client.server_capabilities, await client.list_tools()]
        for tool, arguments in calls:
            answers.append(await client.call_tool(tool, arguments))
        texts = [answer.model_dump_json(by_alias=True, exclude_none=True) for answer in answers]
        return [client.protocol_version, *texts]


async def suite(folder: Path, *arguments: str) -> str:
    """Run the suite's command in a folder; return what it printed, and end all it started."""
    npx = shutil.which("npx")
    if npx is None or shutil.which("node") is None:
        raise Failed(f"needs Node {NODE} and npm")
    process = await asyncio.create_subprocess_exec(
        npx, "--yes", f"--package={PACKAGE}", "--", "conformance", *arguments,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **QUIET, **SAFE}, cwd=folder, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    except TimeoutError:
        raise Failed(f"the suite was not done after {PATIENCE} seconds") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return said.decode("utf-8", "replace")


async def scenarios(folder: Path) -> list[str]:
    """Return the suite's scenarios for servers; npm fetches it now where it has to."""
    said = await suite(folder, "list", "--server")
    if not (names := re.findall(r"^  - (\S+)$", said, re.MULTILINE)):
        raise Failed(f"npm could not start {PACKAGE}, which needs Node {NODE}:\n{said[-3000:]}")
    return names


async def check(folder: Path) -> bool:
    """Run the suite and print what became of each scenario; return whether all is as expected."""
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    names = await scenarios(work)
    how = server(home)
    async with bridge(how) as made:
        declared = await greet(made.url, how)
        said = await suite(
            work, "server", "--url", made.url, "--suite", "all", "--output-dir", str(work / "results")
        )
    rows = judge(names, checks_of(work / "results"), expectations(EXPECTED), declared)
    print(f"{PACKAGE}\n{table(rows)}")
    for fault in made.faults:
        print(f"fault of the server: {fault}")
    well = not made.faults and not any(row.wrong for row in rows)
    if not well:
        print(f"\nwhat the suite printed last:\n{said[-3000:]}")
        print(f"\nwhat the server logged last:\n{how.errors.read_text('utf-8', 'replace')[-3000:]}")
    return well


def main() -> int:
    """Run the check; return 0 where all is as expected."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whatever was started ends then too
    with tempfile.TemporaryDirectory(prefix="rawthink-node-", ignore_cleanup_errors=True) as folder:
        try:
            return 0 if asyncio.run(check(Path(folder))) else 1
        except (Failed, ValueError) as error:
            print(error)
        except KeyboardInterrupt:
            print("interrupted")
        return 1


if __name__ == "__main__":
    sys.exit(main())
