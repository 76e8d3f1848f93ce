"""What the tests of the local provider share: worlds, stores, batches, and real processes that use them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import uuid
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from rawthink_core.clock import ManualClock
from rawthink_core.embedding import NoEmbedder
from rawthink_core.graph import Rules
from rawthink_core.memory import Memory
from rawthink_core.operations import Batch, parse
from rawthink_core.provider import World
from rawthink_core.vocabulary import DEFAULT_VOCABULARY
from rawthink_local.provider import LocalProvider
from rawthink_local.settings import LocalSettings
from rawthink_local.store import Store, header_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from rawthink_core.clock import Clock
    from rawthink_core.embedding import Embedder
    from rawthink_core.operations import Health

SPACE = "home"
START = datetime(2026, 1, 1, tzinfo=UTC)
RULES = Rules(DEFAULT_VOCABULARY, ZoneInfo("UTC"))
ROOT = Path(__file__).parents[2]
EVERY = ("active", "ended", "invalidated")


def world_at(
    root: Path, clock: Clock | None = None, *, cache: bool = True, embedder: Embedder | None = None
) -> World:
    """Return a world whose folders all lie below ``root``; the store's is ``root/vault``."""
    return World(
        path=root / "vault",
        embedder=embedder or NoEmbedder(),
        clock=clock or ManualClock(START),
        timezone="UTC",
        cache=root / "cache" if cache else None,
        state=root / "state" if cache else None,
    )


def thing(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "entity_type": "thing", "domain": "software", **more}


def batch(batch_id: str | None = None, space: str = SPACE, **parts: Any) -> Batch:
    return parse(Batch, {"id": batch_id or str(uuid.uuid4()), "scope": {"space": space}, **parts})


def note(name: str, *texts: str, batch_id: str | None = None, space: str = SPACE) -> Batch:
    """Return a batch that says something of a thing."""
    said = [{"entity": name, "text": text} for text in texts]
    return batch(batch_id, space, entities=[thing(name)], observations=said)


@contextmanager
def store_at(
    root: Path, clock: Clock | None = None, *, cache: bool = True, wait: float = 5.0, keep_out: bool = False
) -> Iterator[Store]:
    """Open the store below ``root`` without a provider: everything happens in the caller's thread."""
    world = world_at(root, clock, cache=cache)
    store = Store(world.path, world.cache / "rows.sqlite" if world.cache else None, world, wait)
    try:
        store.open(lambda: header_of(world), keep_out=keep_out)
        yield store
    finally:
        store.close()


@asynccontextmanager
async def memory_at(
    root: Path,
    clock: Clock | None = None,
    *,
    space: str = SPACE,
    cache: bool = True,
    embedder: Embedder | None = None,
    **settings: Any,
) -> AsyncIterator[Memory]:
    """Open the store below ``root`` as an application does."""
    world = world_at(root, clock, cache=cache, embedder=embedder)
    memory = Memory(
        LocalProvider(LocalSettings(**{"path": str(world.path), "memory_space": space} | settings), world),
        space=space,
    )
    await memory.provider.open()
    try:
        yield memory
    finally:
        await memory.close()


def texts_in(store: Store, space: str = SPACE) -> list[str]:
    """Return the text of every active observation, in the order of time."""
    commits = store.commits(space)
    found = [row for commit in commits for row in commit.rows if row["op"] == "observation"]
    states = store.read(space, lambda view: view.states([row["id"] for row in found]))
    return [row["text"] for row in found if row["id"] in states and states[row["id"]].active]


async def everything(memory: Memory, **filters: Any) -> list[Any]:
    """Return every item of a memory, whatever became of it."""
    found: list[Any] = []
    cursor = None
    while True:
        page = await memory.scan(statuses=EVERY, cursor=cursor, **filters)
        found += page.items
        if (cursor := page.cursor) is None:
            return found


async def finds(memory: Memory, words: str, **filters: Any) -> list[str]:
    """Return the texts that a search finds, which must be a whole answer."""
    page = await memory.search(words, limit=100, **filters)
    assert page.degraded is None
    return [hit.text for hit in page.items]


def row(health: Health, name: str, words: str = "") -> Any:
    """Return the row of a health report that has a name and holds some words."""
    rows = [check for check in health.checks if check.name == name and words in check.detail]
    assert rows, f"no row {name!r} with {words!r} in {health.checks}"
    return rows[0]


def all_bytes(*folders: Path) -> dict[str, bytes]:
    """Return what every file below some folders holds, without the holes."""
    return {str(p): _written(p) for folder in folders for p in sorted(folder.rglob("*")) if p.is_file()}


def _written(path: Path) -> bytes:
    if not hasattr(os, "SEEK_DATA"):
        return path.read_bytes()
    pieces, at, size = [], 0, path.stat().st_size
    with path.open("rb", buffering=0) as file:
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break  # only a hole is left
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            file.seek(at)
            pieces.append(file.read(end - at))
            at = end
    return b"".join(pieces)


def spoil(file: Path) -> None:
    """Damage what lies in a file of vectors so that it opens, and can't be read."""
    content = file.read_bytes()
    size = int.from_bytes(content[16:18], "big")
    file.write_bytes(content[: 5 * size] + b"\xff" * (len(content) - 5 * size))


# --- processes ----------------------------------------------------------------------------------


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}


@contextmanager
def python(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a program of ours in a process of its own; it ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from tests.local.house import *\n" + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def play(story: str, *arguments: object) -> Any:
    """Run one of the stories of `writers` in a process that may fork, and return what it tells."""
    command = [sys.executable, "-m", "tests.local.writers", story, *map(str, arguments)]
    told = subprocess.run(
        command, env=ENVIRONMENT, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def eventually(what: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something outside this process is so."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)


def markdown_blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a documentation page in a language."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
