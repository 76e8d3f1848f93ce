"""The same memory without an event loop: inside a running one, across several, from many threads, to the end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from rawthink_conformance.reference import ReferenceProvider
from rawthink_core import opening
from rawthink_core.errors import BackendUnavailable, InvalidRequest
from rawthink_core.memory import Memory
from rawthink_core.sync import SyncMemory, open_memory_sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rawthink_core.operations import Batch, RecordReceipt
    from rawthink_core.provider import World

TOOL = {"name": "Tool", "entity_type": "thing", "domain": "software"}


def said(text: str) -> dict[str, Any]:
    return {"entity": "Tool", "text": text}


class Slow(ReferenceProvider):
    """A provider that can be made to wait, and that closes through a thread as real stores do."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.closed = 0
        self.wait = 0.0

    async def record(self, batch: Batch) -> RecordReceipt:
        await asyncio.sleep(self.wait)
        return await super().record(batch)

    async def close(self) -> None:
        self.closed = await asyncio.to_thread(lambda: self.closed + 1)


@pytest.fixture
def provider(world: World) -> Slow:
    return Slow(world)


@pytest.fixture
def memory(provider: Slow, monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncMemory]:
    monkeypatch.setattr(
        opening, "build", lambda *_, space=None, **__: Memory(provider, space=space or "default")
    )
    with open_memory_sync() as memory:
        memory.record(entities=[TOOL])
        yield memory


def texts(memory: SyncMemory) -> list[str]:
    return [item.text for item in memory.scan(items=["observation"]).items]


def test_turns_that_wait_are_flushed(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Down(ReferenceProvider):
        async def record(self, batch: Batch) -> RecordReceipt:
            if not up:
                raise BackendUnavailable("it is down")
            return await super().record(batch)

    up: list[bool] = []
    monkeypatch.setattr(opening, "build", lambda *_, **__: Memory(Down(world), state=tmp_path / "state"))
    with open_memory_sync() as memory:
        said = [{"role": "user", "content": "a heron"}]
        assert memory.after_chat(said, "noted", session="s").status == "queued"
        assert memory.flush() == 1
        up.append(True)
        assert memory.flush() == 0
        assert memory.search("heron").items


def test_every_verb_returns_its_result(memory: SyncMemory) -> None:
    memory.record(observations=[said("is red")])
    memory.revise([said("is red")], successor={"text": "is blue"})
    memory.record_decision(name="d", domain="software", decided="x", because="y")
    assert set(texts(memory)) == {"is blue", "x", "y"}
    assert memory.search("blue").items[0].text == "is blue"
    assert memory.challenge("blue").topic == "blue"
    assert memory.get(names=["tool"]).items[0].name == "Tool"
    assert memory.graph("Tool").entities[0].name == "Tool"
    assert len(memory.history(name="Tool").observations) == 2
    assert memory.info.name == "reference"
    assert memory.before_chat([{"role": "user", "content": "is the tool blue?"}]).degraded is None
    assert len(list(memory.export())) == 4
    assert memory.forget(names=["d"]).count == 3
    assert memory.health().status == "ok"


def test_it_has_every_method_of_the_asynchronous_one_with_its_documentation() -> None:
    for name in dir(Memory):
        if not name.startswith("_"):
            assert hasattr(SyncMemory, name), name
            if callable(getattr(Memory, name)):
                assert getattr(SyncMemory, name).__doc__, name


def test_errors_come_through(memory: SyncMemory) -> None:
    with pytest.raises(InvalidRequest, match="ghost"):
        memory.record(observations=[{"entity": "ghost", "text": "t"}])


def test_it_works_inside_a_running_loop(memory: SyncMemory) -> None:
    async def main() -> None:
        memory.record(observations=[said("from within")])

    asyncio.run(main())
    assert texts(memory) == ["from within"]


def test_it_outlives_the_loops_of_others(memory: SyncMemory) -> None:
    for n in range(2):

        async def main(n: int = n) -> None:
            await asyncio.to_thread(memory.record, observations=[said(f"run {n}")])

        asyncio.run(main())
    assert texts(memory) == ["run 0", "run 1"]


def test_many_threads_share_it(memory: SyncMemory) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: memory.record(observations=[said(f"thread {n}")]), range(64)))
    assert len(texts(memory)) == 64


def test_another_space_closes_with_it(memory: SyncMemory, provider: Slow) -> None:
    work = memory.in_space("work")
    work.record(entities=[TOOL], observations=[said("at work")])
    work.close()
    assert texts(memory) == []
    assert texts(work) == ["at work"]
    memory.close()
    with pytest.raises(BackendUnavailable, match="closed"):
        work.health()
    assert provider.closed == 1


def test_closing_twice_is_closing_once(memory: SyncMemory, provider: Slow) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: memory.close(), range(8)))
    assert provider.closed == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "rawthink-loop"]


@pytest.mark.filterwarnings("error")
def test_after_closing_it_says_that_it_is_closed(memory: SyncMemory) -> None:
    memory.close()
    with pytest.raises(BackendUnavailable, match="this memory is closed"):
        memory.record(entities=[TOOL])
    with pytest.raises(BackendUnavailable, match="this memory is closed"):
        list(memory.export())


def test_closing_does_not_leave_others_waiting(memory: SyncMemory, provider: Slow) -> None:
    provider.wait = 60
    ended: list[BaseException] = []

    def write() -> None:
        try:
            memory.record(observations=[said("late")])
        except BaseException as error:  # noqa: BLE001 - any end will do
            ended.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.1)
    memory.close()
    writer.join(5)
    assert [type(error) for error in ended] == [BackendUnavailable]


def test_a_memory_that_cannot_be_opened_leaves_no_thread(
    provider: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> None:
        raise BackendUnavailable("locked")

    monkeypatch.setattr(provider, "open", refuse)
    monkeypatch.setattr(opening, "build", lambda *_, **__: Memory(provider))
    with pytest.raises(BackendUnavailable, match="locked"):
        open_memory_sync()
    assert not [thread for thread in threading.enumerate() if thread.name == "rawthink-loop"]


PROGRAM = """
import asyncio, os, sys, threading
from pathlib import Path
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core import opening
from rawthink_core.memory import Memory
from rawthink_core.provider import World
from rawthink_core.sync import open_memory_sync

class Filed(ReferenceProvider):
    async def close(self):
        commits = len(self._shelf.commits)
        await asyncio.to_thread(Path(sys.argv[1], "flushed").write_text, str(commits))

opening.build = lambda *_, **__: Memory(Filed(World(path=Path(sys.argv[1]))))
memory = open_memory_sync()
tool = {"name": "Tool", "entity_type": "thing", "domain": "software"}
def record(n=0):
    memory.record(entities=[tool], observations=[{"entity": "Tool", "text": str(n)}])
record()
"""
# How a program ends, and how many commits it has made by then.
SERVER = """
import time
threading.Thread(target=lambda: [time.sleep(0.1), record(1), time.sleep(0.1), record(2)]).start()
"""
POOL = """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
for n in range(20):
    pool.submit(record, n)
"""
RUNNING = """
import time
memory._memory.provider.on_before_chat = lambda request: asyncio.sleep(60)
ask = lambda: memory.before_chat([{'role': 'user', 'content': 'is the tool red?'}])
threading.Thread(target=ask, daemon=True).start()
time.sleep(0.1)
"""
ENDINGS = {
    "the last line": ("", 1),
    "sys.exit": ("sys.exit(0)", 1),
    "an error": ("sys.excepthook = lambda *_: None; raise ValueError", 1),
    "loops that ended": ("async def main(): record(1)\nasyncio.run(main()); asyncio.run(main())", 3),
    "a thread that goes on": ("threading.Thread(target=lambda: [record(n) for n in range(50)]).start()", 51),
    "a server in a thread": (SERVER, 3),
    "a pool": (POOL, 21),
    "an iteration left unfinished": ("commits = iter(memory.export()); next(commits)", 1),
    "a call that is still running": (RUNNING, 1),
}


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(folder)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_whatever_ends_the_program_flushes_without_a_word(ending: str, tmp_path: Path) -> None:
    last_lines, commits = ENDINGS[ending]
    done = run(PROGRAM + last_lines, tmp_path)
    assert done.stderr == ""
    assert int((tmp_path / "flushed").read_text()) == commits


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_of_a_fork_is_told_to_open_its_own(tmp_path: Path) -> None:
    child = """
sys.stdout.flush()
if os.fork() == 0:
    try:
        record(1)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    os._exit(0)
os.wait()
"""
    done = run("import warnings; warnings.simplefilter('ignore')\n" + PROGRAM + child, tmp_path)
    assert "BackendUnavailable this memory is closed in this process; open it anew" in done.stdout
    assert done.returncode == 0


def test_its_vault_needs_no_loop_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("CACHE", "STATE", "CONFIG"):
        monkeypatch.setenv(f"RAWTHINK_{folder}", str(tmp_path / folder.lower()))
    (tmp_path / "config").write_text("")
    with open_memory_sync("local", path=str(tmp_path / "vault")) as memory:
        note = memory.vault.store_note("herons stand still", tags=["birds"])
        assert memory.vault.session(note.id).text.strip().endswith("herons stand still")
        assert memory.vault.index().unchanged == 1
        assert [hit.text for hit in memory.search("herons").items] == ["herons stand still"]
    with pytest.raises(AttributeError):
        memory.vault.nothing_of_the_kind()
