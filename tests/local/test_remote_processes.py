"""Real processes that share a store with its index on a server: turns, a kill, an outage, and what is left over."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import threading
import time

import pytest
from filelock import FileLock
from httpx import Headers, ReadTimeout
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from qdrant_client.models import VersionInfo

from rawthink_core.errors import BackendError, BackendTimeout
from rawthink_core.operations import Forget, Scope
from rawthink_local import replica
from rawthink_local.leftovers import Collections, Named
from rawthink_local.patience import LONGEST, Patient
from rawthink_local.server import check_version

from .house import RULES, SPACE, finds, memory_at, note, python, row, store_at, thing
from .servers import answering, qdrant

WRITER = """
import asyncio
sys.modules["qdrant_edge"] = None  # a server is enough
async def main(root, url, who):
    async with memory_at(Path(root), url=url) as memory:
        for n in range(6):
            said = [{"entity": "Redis", "text": f"sentence {who} {n}"}]
            await memory.record(entities=[thing("Redis")], observations=said)
            while (page := await memory.search("sentence", limit=100)).degraded is not None:
                assert page.degraded.startswith("index "), page.degraded  # the other one has its turn
            assert f"sentence {who} {n}" in [hit.text for hit in page.items]
        print("done", flush=True)
        sys.stdin.readline()
        print(json.dumps(sorted(await finds(memory, "sentence"))), flush=True)
asyncio.run(main(*sys.argv[1:]))
"""

BUILDER = """
import asyncio
from rawthink_local import replica
replica.BACKLOG, replica._PIECE = 0, 4_000
async def main(root, url):
    async with memory_at(Path(root), url=url) as memory:
        await memory.search("sentence")
        await asyncio.sleep(60)
asyncio.run(main(*sys.argv[1:]))
"""


def names(memory):
    return [found.name for found in memory.get_collections().collections]


def test_two_processes_write_and_search_one_collection(tmp_path):
    with (
        qdrant() as (url, memory, _),
        python(WRITER, tmp_path, url, "a") as a,
        python(WRITER, tmp_path, url, "b") as b,
    ):
        for process in (a, b):
            assert process.stdout.readline() == "done\n"
        for process in (a, b):
            process.stdin.write("\n")
            process.stdin.flush()
            said = [f"sentence {who} {n}" for who in "ab" for n in range(6)]
            assert json.loads(process.stdout.readline()) == said
        assert len(names(memory)) == 1


@pytest.mark.asyncio
async def test_whoever_waits_for_its_turn_uses_the_collection_once_another_has_made_it(tmp_path):
    with qdrant() as (url, _, _):
        async with memory_at(tmp_path, url=url) as first:
            await first.record(
                entities=[thing("Redis")], observations=[{"entity": "Redis", "text": "a cache"}]
            )
            assert await finds(first, "cache") == ["a cache"]
        (name,) = tmp_path.rglob("collection.json")
        aside = name.rename(tmp_path / "aside")  # as before it was made
        with FileLock(name.with_name("index.lock")):  # the other one is never done
            async with memory_at(tmp_path, url=url) as second:
                found = asyncio.create_task(finds(second, "cache"))
                await asyncio.sleep(0.4)
                assert not found.done()
                aside.rename(name)
                assert await found == ["a cache"]


@pytest.mark.asyncio
async def test_a_build_that_is_killed_is_noticed_and_gone_on_with(tmp_path, monkeypatch):
    with store_at(tmp_path) as store:
        for number in range(40):
            store.record(note("Redis", f"sentence {number} " + "word " * 50), RULES)
    written, go = threading.Semaphore(0), threading.Semaphore(5)  # then the server hangs

    def hold(method, path):
        if (method, path.rpartition("/")[2]) == ("PUT", "points"):
            written.release()
            go.acquire(timeout=30)

    with qdrant(hold) as (url, memory, asked):
        with python(BUILDER, tmp_path, url) as builder:
            for _ in range(6):
                assert written.acquire(timeout=30)
            os.kill(builder.pid, signal.SIGKILL)
            builder.wait()
        for _ in range(1_000):
            go.release()
        monkeypatch.setattr(replica, "BACKLOG", 0)
        monkeypatch.setattr(replica, "_PIECE", 4_000)
        half = len(asked)
        async with memory_at(tmp_path, url=url) as again:
            end = time.monotonic() + 30
            while (page := await again.search("sentence", limit=100)).degraded is not None:
                assert page.degraded.startswith("index ")
                assert time.monotonic() < end
            assert len(page.items) == 40
        assert ("DELETE", f"/collections/{names(memory)[0]}") not in asked, "what was built is kept"
        pieces = [path for method, path in asked[half:] if (method, path[-7:]) == ("PUT", "/points")]
        assert len(pieces) < 2 * len(range(40)) // 6 + 2


# --- a server that is down --------------------------------------------------------------------------


class Failing:
    """A client whose server fails as it is told, in its own time."""

    def __init__(self):
        self.now, self.took, self.asked = 1_000.0, 0.0, 0
        self.error = None

    def info(self):
        self.asked += 1
        self.now += self.took
        if self.error is not None:
            raise self.error
        return VersionInfo(title="qdrant", version="1.20.0")


def answered(status):
    return UnexpectedResponse(status, "", b"", Headers())


def asks(client):
    try:
        return check_version(client, "http://h")
    except BackendError as error:
        return error


def pause(server, client):
    """Return how long the server is left alone, asking twice a second."""
    asked, began = server.asked, server.now
    while server.asked == asked:
        assert "Asked again in" in str(asks(client))
        server.now += 0.5
        asks(client)
    return server.now - began


def test_a_server_that_is_down_is_left_alone_for_longer_and_longer():
    server = Failing()
    client = Patient(server, "http://h", lambda: server.now)
    server.error = answered(503)
    assert "503" in str(asks(client))
    assert [pause(server, client) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    server.error, server.now = None, server.now + LONGEST
    assert asks(client) == "1.20.0"
    server.error, server.took = ResponseHandlingException(ReadTimeout("")), 5.0
    assert isinstance(asks(client), BackendTimeout)
    server.took = 0.0
    assert pause(server, client) == 5, "as long as the answer was waited for"
    client.ask_again()
    server.error = None
    assert asks(client) == "1.20.0"


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_server_that_answers_is_asked_again_whatever_it_answers(status):
    server = Failing()
    client = Patient(server, "http://h", lambda: server.now)
    server.error = answered(status)
    for _ in range(3):
        assert isinstance(asks(client), BackendError)
    assert server.asked == 3


@pytest.mark.asyncio
async def test_searches_do_not_wait_again_for_a_server_that_hangs_but_forgetting_does(tmp_path):
    with answering(lambda method, path: None) as (url, asked):
        async with memory_at(tmp_path, url=url, timeout=1) as memory:
            await memory.record(entities=[thing("Redis")])
            with pytest.raises(BackendTimeout, match="did not answer in time"):
                await memory.search("redis")
            asks = len(asked)
            for _ in range(3):
                with pytest.raises(BackendTimeout, match="Asked again in"):
                    await memory.search("redis")
            assert len(asked) == asks
            (item,) = (await memory.scan()).items
            receipt = await memory.forget(ids=[item.id])
            assert len(asked) > asks
            assert "pending" in {place.outcome for place in receipt.places}


# --- what is left over ------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_collections_that_nobody_uses_are_told_and_dropped_with_the_own_one(tmp_path):
    stuck = set()

    def hold(method, path):
        if method == "DELETE" and path.rpartition("/")[2] in stuck:
            raise ValueError("not today")

    async def say(memory):
        await memory.record(entities=[thing("Redis")], observations=[{"entity": "Redis", "text": "fast"}])
        assert await finds(memory, "fast") == ["fast"]

    with qdrant(hold) as (url, memory, _):
        async with memory_at(tmp_path, url=url) as first:
            await say(first)
            checks = (await first.provider.health()).checks
            assert not [check for check in checks if check.name == "collections"]
        (old,) = names(memory)
        moved = tmp_path / "vault" / ".." / "moved"
        shutil.move(tmp_path / "vault", moved)
        noted = Collections(tmp_path / "state" / "local" / "collections")
        noted.note(url, Named("rawthink_gone_1", str(tmp_path / "gone")))
        for name in ("rawthink_gone_1", "rawthink_stranger_1", "of others"):
            memory.create_collection(name, vectors_config={})
        stuck |= {old, "rawthink_gone_1"}
        async with memory_at(tmp_path, url=url, path=str(moved)) as second:
            await say(second)
            health = await second.provider.health()
            left = row(health, "collections", "2 left over")
            assert old in left.detail
            assert "rawthink_gone_1" in left.detail
            assert "reindex" in left.fix
            assert "stranger" not in left.detail
            assert row(health, "collections", "1 at").status == "note"
            (hit,) = [hit for hit in (await second.search("fast")).items if hit.text == "fast"]
            receipt = await second.provider.forget(Forget(scope=Scope(space=SPACE), ids=(hit.id,)))
            (place,) = [place for place in receipt.places if place.place == "search index"]
            assert place.outcome == "pending", "the old one holds what was forgotten"
            stuck.remove(old)
            await second.maintain(reindex=True)
            assert set(names(memory)) == {"rawthink_gone_1", "rawthink_stranger_1", "of others"}
            stuck.clear()
            await second.maintain(reindex=True)
            assert set(names(memory)) == {"rawthink_stranger_1", "of others"}
            assert noted.left_over(url) == []
            assert (await second.search("redis")).items
