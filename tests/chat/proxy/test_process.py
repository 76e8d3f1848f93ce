"""The proxy as people start it: a process, what it tells, how it ends, and what outlives it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
import tomllib
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from rawthink_chat.proxy.command import proxy as command
from rawthink_chat.proxy.running import bound, check
from rawthink_core.config import Settings, load
from rawthink_core.errors import ConfigError
from rawthink_core.hosting import ProxySettings, holder_of
from rawthink_core.turns import MAX_ITEMS, MAX_TOKENS

from .conftest import QUESTION, asking, until
from .upstreams import STREAM, answer, chunked, completion, events, saying, upstream

ROOT = Path(__file__).parents[3]
PACKAGES = [ROOT, *(ROOT / name for name in ("providers", "hosts", "conformance_tests"))]
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX signals")


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(home):
    """The environment of a process of ours, also from a bare checkout."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    points["rawthink.providers"]["ailing"] = "ailing:plugin"
    info = home / "rawthink-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rawthink\nVersion: 0.1\n")
    lines = [f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in some.items()) for g, some in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    (home / "ailing.py").write_bytes(Path(__file__).with_name("ailing.py").read_bytes())
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "XDG_"))}
    places = {f"RAWTHINK_{name.upper()}": str(home / name) for name in ("vault", "cache", "state")}
    path = os.pathsep.join(map(str, [home, *PACKAGES]))
    return {
        **kept,
        **places,
        "HOME": str(home),
        "PYTHONPATH": path,
        "RAWTHINK_PROVIDER": "ailing",
        "TZ": "UTC",
    }


@pytest.fixture
def started(environment, home):
    """Start it: ``async with started(address) as (process, base, log)``; the log grows."""

    @asynccontextmanager
    async def start(address, **more):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "rawthink_cli.main", "proxy", "--upstream", address, "--port", "0",
            env={**environment, **more}, stderr=asyncio.subprocess.PIPE, cwd=home,
        )  # fmt: skip
        log, told = [], asyncio.Event()

        async def read():
            async for line in process.stderr:
                log.append(line.decode())
                if line.startswith(b"set OPENAI_BASE_URL="):
                    told.set()

        reading = asyncio.create_task(read())
        try:
            await asyncio.wait(
                {asyncio.create_task(told.wait()), reading}, return_when=asyncio.FIRST_COMPLETED, timeout=60
            )
            assert told.is_set(), "".join(log)
            yield process, re.search(r"set OPENAI_BASE_URL=(\S+)", "".join(log))[1], log
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await reading

    return start


def journal(home):
    return (home / "vault" / "rawthink.jsonl").read_text("utf-8")


@posix
@pytest.mark.asyncio
async def test_it_tells_what_to_set_logs_no_word_of_a_chat_and_ends_with_its_answers(started, home):
    pieces = events("On Tuesday mornings.")
    going = asyncio.Event()

    async def script(asked, writer):
        writer.write(STREAM + chunked(pieces[0]))
        await going.wait()
        writer.write(b"".join(map(chunked, pieces[1:])) + b"0\r\n\r\n")

    key = {"Authorization": "Bearer sk-very-secret"}
    async with upstream(script) as up, started(up.address) as (process, base, log):
        assert f"{base} -> {up.address} (provider ailing, space default)" in log[0]
        async with (
            httpx2.AsyncClient(trust_env=False) as client,
            client.stream(
                "POST", f"{base}/chat/completions?q=private", json=asking(stream=True), headers=key
            ) as reply,
        ):
            come = reply.aiter_raw()
            first = await anext(come)
            process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.3)
            with pytest.raises(httpx2.ConnectError):
                await client.get(f"{base}/models")
            going.set()
            assert first + b"".join([piece async for piece in come]) == b"".join(pieces)
        assert await asyncio.wait_for(process.wait(), 30) == 0
    assert up.asked[0].values("authorization") == ["Bearer sk-very-secret"]
    assert "On Tuesday mornings." in journal(home)
    text = "".join(log)
    assert re.search(r"POST /v1/chat/completions 200 \d+ ms; kept; recalled 0 memories", text)
    for private in ("very-secret", "private", "Tuesday", QUESTION):
        assert private not in text
    kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert b"very-secret" not in kept


@posix
@pytest.mark.asyncio
async def test_a_turn_that_was_written_down_outlives_the_process(started, home):
    (home / "vault").mkdir()
    (home / "vault" / "down").touch()
    async with upstream(saying(answer(completion("On Tuesday mornings.")))) as up:
        async with started(up.address) as (process, base, _), httpx2.AsyncClient(trust_env=False) as client:
            assert (await client.post(f"{base}/chat/completions", json=asking())).status_code == 200
            await until(lambda: any(b"Tuesday" in p.read_bytes() for p in (home / "state").rglob("*.jsonl")))
            process.kill()
        assert not (home / "vault" / "rawthink.jsonl").exists() or "Tuesday" not in journal(home)
        (home / "vault" / "down").unlink()
        async with started(up.address) as (process, _, _):
            await until(lambda: "On Tuesday mornings." in journal(home))
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0


# --- before it starts ---------------------------------------------------------------------------


def configured(tmp_path, text, **environ):
    file = tmp_path / "rawthink.toml"
    file.write_text(text, encoding="utf-8")
    return load(file, environ)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "--upstream"),
        ("[proxy]\nupstream = 'http://127.0.0.1:1/v1'\nhost = '0.0.0.0'", "--new-token"),
        ("[proxy]\nupstream = 'http://127.0.0.1:1/v1'\nhost = 'rawthink.example'", "--new-token"),
    ],
)
def test_it_does_not_start_where_that_can_not_be_meant(tmp_path, text, says):
    with pytest.raises(ConfigError, match=says):
        check(configured(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "[proxy]\nupstream = 'api.openai.com/v1'", "[proxy]\nupstream = 'https://key@api.example/v1'",
        "[proxy]\nupstream = 'https://api.example/v1?key=1'", "[proxy]\nupstream = 'file:///etc/passwd'",
        "[proxy]\nupstream = 'https://api.example:99999/v1'", "[proxy]\nforbidden = ['(']", "[proxy]\nprot = 1",
        "[tokens.ana]\nsha256 = 'abc'\nspace = 'a'", f"[tokens.ana]\nsha256 = '{'0' * 64}'",
    ],
)  # fmt: skip
def test_settings_that_can_not_be_meant_are_refused(tmp_path, text):
    with pytest.raises(ConfigError, match=r"proxy|tokens"):
        configured(tmp_path, text)


def test_an_address_that_is_taken_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="--port"):
        bound(ProxySettings(port=taken.getsockname()[1]))
    with pytest.raises(ConfigError, match="no address of this machine"):
        bound(ProxySettings(host="nowhere.invalid"))


@pytest.mark.asyncio
async def test_small_pieces_are_sent_at_once():
    with bound(ProxySettings(port=0)) as listening:
        accepted = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=listening)
        _, here = await asyncio.open_connection(*listening.getsockname())
        there = await accepted
        assert there.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        here.close()
        there.close()
        server.close()


def test_a_new_token_opens_its_space(tmp_path):
    done = CliRunner().invoke(command, ["--new-token", "ana", "--space", "Ana's"])
    assert done.exit_code == 0
    token = re.search(r"once: (\S+)", done.output)[1]
    settings = configured(tmp_path, done.output).settings
    assert token not in str(settings)
    name, found = holder_of(settings.tokens, token)
    assert (name, found.space, found.read_only) == ("ana", "Ana's", False)
    assert holder_of(settings.tokens, f"{token}x") is None
    assert CliRunner().invoke(command, ["--new-token", "a b"]).exit_code == 2


def test_settings_come_from_the_environment_too_and_never_from_a_vault(tmp_path):
    found = configured(
        tmp_path, "", RAWTHINK_PROXY__UPSTREAM="http://127.0.0.1:1/v1/", RAWTHINK_PROXY__PORT="5"
    )
    assert (found.settings.proxy.upstream, found.settings.proxy.port) == ("http://127.0.0.1:1/v1", 5)
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "rawthink.toml").write_text("[proxy]\nupstream = 'http://evil.example'", encoding="utf-8")
    with pytest.raises(ConfigError, match="people share"):
        configured(tmp_path, "", RAWTHINK_VAULT=str(vault))


def test_what_a_model_is_told_is_bounded_as_everywhere():
    proxy = Settings().proxy
    assert (proxy.recall_items, proxy.recall_tokens) == (MAX_ITEMS, MAX_TOKENS)
