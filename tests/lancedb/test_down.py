"""A store that goes away, between any two calls, is never taken for an empty one; when it is back, so are we."""

from __future__ import annotations

import asyncio
import shutil
import time

import pytest

from rawthink_core.errors import (
    AuthenticationFailed,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    RawThinkError,
)
from rawthink_core.memory import Memory
from rawthink_lancedb.errors import explained
from rawthink_lancedb.provider import LanceProvider
from rawthink_lancedb.settings import LanceSettings

from .bucket import KEY, SECRET, serving
from .house import finds, memory_at, say, tell, world_at

VERBS = {
    "search": lambda memory: memory.search("heron"),
    "get": lambda memory: memory.get(names=("NAS",)),
    "scan": lambda memory: memory.scan(),
    "graph": lambda memory: memory.graph(names=("NAS",)),
    "history": lambda memory: memory.history(name="NAS"),
    "record": lambda memory: tell(memory, "while it was away"),
    "export": lambda memory: _all(memory.export()),
    "other space": lambda memory: memory.in_space("other").scan(),
    "write to another space": lambda memory: tell(memory.in_space("new"), "while it was away"),
}


async def _all(stream):
    return [one async for one in stream]


@pytest.mark.asyncio
@pytest.mark.parametrize("verb", VERBS)
async def test_a_folder_that_goes_away_between_two_calls_is_down_and_not_empty(tmp_path, verb):
    folder, away = tmp_path / "vault", tmp_path / "away"
    async with memory_at(tmp_path) as memory:
        await say(memory, "NAS", "a heron")
        assert await finds(memory, "heron") == ["a heron"]
        shutil.move(folder, away)
        with pytest.raises(BackendError):
            await VERBS[verb](memory)
        assert (await memory.health()).status == "down"
        assert not folder.exists(), "nothing was made anew in its place"
        shutil.move(away, folder)
        assert await finds(memory, "heron") == ["a heron"]
        await tell(memory, "another heron")
        assert set(await finds(memory, "heron")) == {"a heron", "another heron"}
        assert (await memory.health()).status == "ok"


@pytest.mark.asyncio
async def test_a_server_that_goes_away_says_so_within_seconds_and_is_used_again(tmp_path):
    with serving() as server:
        settings = server.settings(server.bucket("gone"), tmp_path, timeout_seconds=3)
        async with memory_at(tmp_path, settings=settings) as memory:
            await say(memory, "NAS", "a heron")
            server.pause()
            for call in (memory.search("heron"), tell(memory, "x"), memory.scan()):
                start = time.monotonic()
                with pytest.raises(BackendError):
                    await call
                assert time.monotonic() - start < 15
            health = await memory.health()
            assert health.status == "down"
            server.resume()
            assert await finds(memory, "heron") == ["a heron"]
            await tell(memory, "another heron")
            assert set(await finds(memory, "heron")) == {"a heron", "another heron"}


@pytest.mark.asyncio
async def test_an_address_that_nobody_answers_refuses_to_open_and_is_told_as_down(tmp_path):
    with serving() as server:
        settings = server.settings("a-bucket", tmp_path)
        server.stop()
    provider = LanceProvider(settings, world_at(tmp_path))
    with pytest.raises(BackendError):
        await provider.open()
    health = await provider.health()
    assert health.status == "down"
    assert all(row.fix for row in health.checks if row.status == "fail")
    with pytest.raises(BackendUnavailable, match="not open"):
        await tell(Memory(provider), "a heron")
    await provider.close()


@pytest.mark.asyncio
async def test_no_secret_is_in_an_error_a_health_report_or_the_settings(tmp_path):
    with serving() as server:
        settings = server.settings("no-such-bucket", tmp_path)
        provider = LanceProvider(settings, world_at(tmp_path))
        with pytest.raises(RawThinkError) as raised:
            await provider.open()
        told = f"{raised.value} {await provider.health()} {settings!r}"
        assert SECRET not in told
        assert KEY not in told


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("status: 403 <Code>AccessDenied</Code>", AuthenticationFailed),
        ("<Code>InvalidAccessKeyId</Code><Message>The key does not exist</Message>", AuthenticationFailed),
        ("<Code>SignatureDoesNotMatch</Code>", AuthenticationFailed),
        ("operation timed out", BackendTimeout),
        ("Permission denied (os error 13)", BackendUnavailable),
        ("No space left on device (os error 28)", BackendUnavailable),
        ("Connection refused", BackendUnavailable),
    ],
)
def test_what_the_engine_says_becomes_an_error_of_ours(said, kind):
    noise = f"{said}, location: Location {{ file: /build/.cargo/x.rs }} key={SECRET}"
    error = explained("reading", "s3://b/p", RuntimeError(noise), [SECRET])
    assert type(error) is kind
    assert "s3://b/p" in str(error)
    assert ".cargo" not in str(error)
    assert SECRET not in str(error)


@pytest.mark.asyncio
async def test_a_call_that_hangs_ends_after_its_time(tmp_path):
    async with memory_at(tmp_path, timeout_seconds=0.2) as memory:
        engine = memory.provider.opened.engine
        with pytest.raises(BackendTimeout, match="timeout_seconds"):
            await asyncio.to_thread(engine.run, "reading", lambda: asyncio.sleep(60))
        await tell(memory, "a heron")
        assert await finds(memory, "heron") == ["a heron"]


@pytest.mark.asyncio
async def test_a_lock_that_is_held_too_long_is_a_timeout(tmp_path):
    async with memory_at(tmp_path) as one, memory_at(tmp_path, lock_seconds=0.2) as two:
        await tell(one, "a heron")
        with one.provider.opened.store.locks.held("write"):
            with pytest.raises(BackendTimeout, match="another process has written"):
                await tell(two, "another")
            assert await finds(two, "heron") == ["a heron"], "reading takes no lock"
        await tell(two, "another")


@pytest.mark.asyncio
async def test_closing_while_calls_run_ends_soon_and_leaves_no_thread(tmp_path):
    import threading

    before = set(threading.enumerate())
    provider = LanceProvider(LanceSettings(), world_at(tmp_path))
    await provider.open()
    calls = [asyncio.ensure_future(provider.health()) for _ in range(4)]
    await asyncio.wait_for(provider.close(), 20)
    await asyncio.gather(*calls, return_exceptions=True)
    left = {t for t in set(threading.enumerate()) - before if t.name.startswith("rawthink-lancedb")}
    assert not left
