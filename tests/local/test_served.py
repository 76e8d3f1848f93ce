"""An index that another process holds open answers as one held open here, whatever happens to that process."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import sys
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from rawthink_core.errors import BackendUnavailable
from rawthink_local import served
from rawthink_local.edge import EdgeIndex
from rawthink_local.engine import IndexBusy, IndexDamaged
from rawthink_local.fields import FieldFilter, IndexPoint
from rawthink_local.served import IndexLost, ServedIndex

from .house import eventually, finds, memory_at, python, thing

ASKED = ([1, 2], [1.0, 1.0])


def uid(number):
    return str(uuid.UUID(int=number))


def point(number, terms, **fields):
    return IndexPoint(uid(number), (terms, [1.0] * len(terms)), {"space": "home", "kind": "note", **fields})


def gone(pid):
    """Tell whether a process has ended; one that nobody has reaped yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_it_answers_as_the_engine_does_in_this_process(tmp_path):
    points = [point(n, [n % 3, n % 5 + 10], status="active" if n % 2 else "ended") for n in range(40)]
    asked = ([1, 12], [1.0, 2.0])
    only = [FieldFilter("status", any_of=("active",))]
    with closing(EdgeIndex.open(tmp_path / "here")) as here:
        here.apply(points, [uid(3)], {"commit": "a"})
        expected = sorted(here.search(asked, space="home", filters=only, limit=40))
        bare = sorted(here.search(asked, space="home", limit=40, places=False))
    with closing(ServedIndex.open(tmp_path / "there")) as there:
        assert there.marker() is None
        there.apply(iter(points), {uid(3)}, {"commit": "a"})
        assert sorted(there.search(asked, space="home", filters=only, limit=40)) == expected
        assert sorted(there.search(asked, space="home", limit=40, places=False)) == bare
        assert {place for _, _, place in bare} == {None}
        assert (there.marker(), there.size()) == ({"commit": "a"}, 39 + 1)
    with closing(ServedIndex.open(tmp_path / "there")) as again:
        assert (again.marker(), again.size()) == ({"commit": "a"}, 40)
        assert not again.pack()


def test_the_engines_errors_arrive_as_what_they_are(tmp_path):
    folder = tmp_path / "index"
    with closing(ServedIndex.open(folder)) as index:
        with pytest.raises(ValueError, match="'text' is not a field"):
            index.apply([point(1, [1], text="secret")], [], {"commit": "a"})
        index.apply([point(1, [1])], [], {"commit": "a"})
    (folder / "index.json").write_text("{}")
    with pytest.raises(IndexDamaged, match="another version"):
        ServedIndex.open(folder)


def test_a_folder_in_use_is_waited_for_and_then_busy(tmp_path, monkeypatch):
    folder = tmp_path / "index"
    monkeypatch.setattr(
        served,
        "COMMAND",
        [sys.executable, "-c", "from rawthink_local import serving as s; s._BUSY_SECONDS = 0.3; s.main()"],
    )
    mine = ServedIndex.open(folder)
    mine.apply([point(1, [1])], [], {"commit": "a"})
    with pytest.raises(IndexBusy):
        ServedIndex.open(folder)
    monkeypatch.undo()
    mine._process.stdin.close()  # as when this process is killed: it flushes, then ends
    with closing(ServedIndex.open(folder)) as index:
        assert index.size() == 1
    mine.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGBUS])
def test_a_process_that_is_killed_is_said_and_its_files_go_on(tmp_path, how):
    index = ServedIndex.open(tmp_path / "index")
    index.apply([point(1, [1])], [], {"commit": "a"})
    os.kill(index._process.pid, how)
    with pytest.raises(IndexLost, match=how.name):
        index.search(ASKED, space="home", limit=5)
    with pytest.raises(IndexLost):
        index.size()
    index.close()
    index.close()
    with closing(ServedIndex.open(tmp_path / "index")) as again:
        assert (again.marker(), again.size()) == ({"commit": "a"}, 1)


def test_what_is_forgotten_without_closing_leaves_no_process(tmp_path):
    index = ServedIndex.open(tmp_path / "index")
    pid = index._process.pid
    del index
    gc.collect()
    assert gone(pid)


def test_ctrl_c_is_for_the_parent_alone(tmp_path):
    with closing(ServedIndex.open(tmp_path / "index")) as index:
        os.kill(index._process.pid, signal.SIGINT)
        index.apply([point(1, [1])], [], {"commit": "a"})
        assert index.size() == 1


def test_a_process_that_does_not_speak_is_an_error_and_no_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(served, "COMMAND", ["/bin/echo", "hello"])
    with pytest.raises(IndexLost):
        ServedIndex.open(tmp_path / "index")
    monkeypatch.setattr(served, "COMMAND", ["/no/such/program"])
    with pytest.raises(BackendUnavailable, match="could not start"):
        ServedIndex.open(tmp_path / "index")


def test_every_error_of_the_index_survives_the_pipe():
    for kind in (IndexDamaged, IndexBusy, BackendUnavailable):
        there = pickle.loads(pickle.dumps(kind("why")))
        assert (type(there), str(there)) == (kind, "why")


@pytest.mark.asyncio
async def test_a_search_whose_index_is_killed_opens_it_again_and_answers(tmp_path):
    async with memory_at(tmp_path) as memory:
        await memory.record(
            entities=[thing("Redis")], observations=[{"entity": "Redis", "text": "sentence one"}]
        )
        for _ in range(3):
            assert await finds(memory, "sentence") == ["sentence one"]
            served = memory.provider.opened.search._replica._index
            os.kill(served._process.pid, signal.SIGKILL)


@pytest.mark.asyncio
async def test_an_index_whose_parent_is_killed_flushes_and_ends(tmp_path):
    code = """
import asyncio

async def main():
    async with memory_at(Path(sys.argv[1])) as memory:
        await memory.record(entities=[thing("Redis")])
        await memory.search("Redis")
        print(memory.provider.opened.search._replica._index._process.pid, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""
    with python(code, tmp_path) as parent:
        pid = int(await asyncio.to_thread(parent.stdout.readline))
        parent.kill()
        parent.wait()
        await asyncio.to_thread(eventually, lambda: gone(pid))
    async with memory_at(tmp_path) as memory:
        assert await finds(memory, "Redis") == ["Redis"]
