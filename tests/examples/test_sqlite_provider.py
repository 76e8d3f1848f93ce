"""The example provider, beyond what the suite asks: many processes, crashes, damage, and the built wheel."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rawthink_core.errors import BackendTimeout, BackendUnavailable, StoreTooNew
from rawthink_core.operations import Batch, Forget, Get, Scan, SearchQuery, parse
from rawthink_core.provider import World
from rawthink_core.text import query_vector
from rawthink_sqlite import SqliteProvider, SqliteSettings, plugin
from rawthink_sqlite.reader import word

EXAMPLE = Path(__file__).parents[2] / "examples" / "sqlite_provider"
SCOPE = {"space": "home"}

WRITER = """
import asyncio, sys
from pathlib import Path
from rawthink_core.operations import Batch, parse
from rawthink_core.provider import World
from rawthink_sqlite import SqliteProvider, SqliteSettings

async def main(folder, name, batches):
    provider = SqliteProvider(SqliteSettings(), World(Path(folder)))
    await provider.open()
    for n in range(int(batches)):
        turns = [{"text": f"{name} {n} {i}", "session": name} for i in range(5)]
        await provider.record(parse(Batch, {"id": f"{name} {n}", "scope": {"space": "home"}, "passages": turns}))
        print(n, flush=True)
    await provider.close()

asyncio.run(main(*sys.argv[1:]))
"""


def path_of(ours):
    """Return the path of this process with one place of the example in it, and no other."""
    return os.pathsep.join([str(ours), *(place for place in sys.path if place not in {"", str(EXAMPLE)})])


def writer(folder, name, batches):
    command = [sys.executable, "-c", WRITER, str(folder), name, str(batches)]
    environ = os.environ | {"PYTHONPATH": path_of(EXAMPLE)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)


def on(folder, work, **more):
    """Return what some work gives with a provider that is open meanwhile."""

    async def run():
        provider = SqliteProvider(SqliteSettings(), World(folder, **more))
        await provider.open()
        try:
            return await work(provider)
        finally:
            await provider.close()

    return asyncio.run(run())


def turns(batch_id, *texts):
    passages = [{"text": text, "session": "s"} for text in texts]
    return parse(Batch, {"id": batch_id, "scope": SCOPE, "passages": passages})


def words_of(text):
    """Return what the index holds of a text, as the file has it."""
    return [word("home", term)[4:].encode() for term in query_vector(text)[0]]  # FTS5 shares beginnings


def test_processes_that_begin_at_once_share_a_store_and_one_may_be_killed(tmp_path):
    folder = tmp_path / "store"
    others = [writer(folder, name, 10) for name in ("one", "two")]
    with writer(folder, "victim", 1_000_000) as victim:
        confirmed = [victim.stdout.readline() for _ in range(3)]
        victim.send_signal(signal.SIGKILL)
        confirmed += [line for line in victim.stdout if line.endswith("\n")]
    for other in others:
        assert len(other.communicate(timeout=60)[0].splitlines()) == 10
        assert other.returncode == 0

    async def look(provider):
        found = {}
        for session in ("one", "two", "victim"):
            page = await provider.scan(parse(Scan, {"scope": SCOPE, "sessions": [session], "limit": 1000}))
            found[session] = [item.ordinal for item in page.items]
        return found, await provider.health()

    found, health = on(folder, look)
    assert health.status == "ok"
    assert sorted(found["one"]) == sorted(found["two"]) == list(range(50))
    assert len(found["victim"]) in (
        5 * len(confirmed),
        5 * len(confirmed) + 5,
    )  # whole batches, the confirmed ones


def test_a_store_that_another_program_writes_to_is_busy_not_broken(tmp_path, monkeypatch):
    monkeypatch.setattr("rawthink_sqlite.store.PATIENCE", 0.05)

    async def write(provider):
        await provider.record(turns("a", "first"))
        other = sqlite3.connect(tmp_path / "rawthink.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            with pytest.raises(BackendTimeout, match="locked"):
                await provider.record(turns("b", "second"))
            return (await provider.search(parse(SearchQuery, {"scope": SCOPE, "text": "first"}))).total
        finally:
            other.close()

    assert on(tmp_path, write) == 1


def test_what_is_no_database_or_of_a_newer_format_is_refused_and_left_alone(tmp_path):
    file = tmp_path / "rawthink.sqlite"
    file.write_bytes(b"these are somebody's notes\n" * 100)
    before = file.read_bytes()
    provider = SqliteProvider(SqliteSettings(), World(tmp_path))

    async def refuse(kind):
        for _ in range(2):  # the second time is no success either
            with pytest.raises(kind):
                await provider.open()
        health = await provider.health()
        with pytest.raises(BackendUnavailable):
            await provider.get(parse(Get, {"scope": SCOPE, "names": ["x"]}))
        await provider.close()
        return health

    health = asyncio.run(refuse(BackendUnavailable))
    assert (health.status, health.exists, file.read_bytes()) == ("down", True, before)
    file.unlink()
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version = 9")
    db.close()
    health = asyncio.run(refuse(StoreTooNew))
    assert (health.status, health.exists) == ("down", True)
    assert "format 9" in health.checks[0].detail


def test_forgetting_leaves_no_term_in_the_index_and_says_what_a_reader_holds(tmp_path, monkeypatch):
    monkeypatch.setattr("rawthink_sqlite.store.PATIENCE", 0.05)
    file = tmp_path / "rawthink.sqlite"

    async def forget(provider):
        await provider.record(turns("a", "zanzibar", "harbour"))
        page = await provider.search(parse(SearchQuery, {"scope": SCOPE, "text": "zanzibar"}))
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN")
        other.execute("SELECT * FROM rows").fetchone()
        receipt = await provider.forget(parse(Forget, {"scope": SCOPE, "ids": [page.items[0].id]}))
        other.close()
        return receipt

    receipt = on(tmp_path, forget)
    assert {place.place: place.outcome for place in receipt.places}["write-ahead log"] == "pending"
    kept = file.read_bytes()
    assert all(word in kept for word in words_of("harbour"))
    assert not any(word in kept for word in words_of("zanzibar"))
    assert b"zanzibar" not in kept  # closing the store finished what was pending
    assert not file.with_name(file.name + "-wal").exists()


def test_the_files_are_for_their_owner_alone(tmp_path):
    async def nothing(provider):
        return provider.info

    info = on(tmp_path / "store", nothing, timezone="Asia/Shanghai")
    assert info.timezone == "Asia/Shanghai"
    assert info.location == str(tmp_path / "store" / "rawthink.sqlite")
    if os.name == "posix":
        assert oct((tmp_path / "store").stat().st_mode)[-3:] == "700"
        assert oct((tmp_path / "store" / "rawthink.sqlite").stat().st_mode)[-3:] == "600"


def test_its_settings_say_where_it_lies(tmp_path):
    provider = plugin.make(plugin.settings(path=str(tmp_path / "elsewhere")), World(tmp_path))
    assert provider.info.location == str(tmp_path / "elsewhere" / "rawthink.sqlite")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a folder into which the built wheel was unpacked, as an installer does."""
    made, site = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(made)]
    subprocess.run(build, cwd=EXAMPLE, check=True, capture_output=True)
    [wheel] = made.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    return site


def test_the_wheel_is_a_plugin_that_the_command_finds_from_an_empty_folder(installed, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "rawthink_cli.main", "conform", "sqlite", "--only", "scope"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path_of(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "sqlite: 9 passed" in done.stdout
    assert not list(tmp_path.iterdir())
