"""The bridge of `check.py node`: messages pass as they are, to whom they belong, and servers end."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path

import httpx2
import pytest

BRIDGE = Path(__file__).parents[1] / "node" / "bridge.py"
PATIENCE = 30

# Says what line it got, oddly spaced, after progress where that is asked for and a notification of its own.
ECHO = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "die":
        sys.exit(3)
    if message.get("method") == "babble":
        print("Loading …")
    if "id" in message and message.get("method") != "hang":
        token = message.get("params", {}).get("_meta", {}).get("progressToken")
        if token is not None:
            print('{"method": "notifications/progress","params":{"progressToken":%s}}' % json.dumps(token))
        print('{"id":%s,   "result" : %s}' % (json.dumps(message["id"]), json.dumps(line)), flush=True)
"""


@pytest.fixture(scope="module")
def bridging():
    spec = importlib.util.spec_from_file_location("node_bridge", BRIDGE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def how(bridging, tmp_path):
    environment = {**os.environ, "PYTHONUTF8": "1"}
    return bridging.Started([sys.executable, "-c", ECHO], environment, tmp_path, tmp_path / "stderr")


def events(response):
    return [line[len("data: ") :] for line in response.text.split("\n") if line.startswith("data: ")]


async def opened(client, url):
    response = await client.post(url, content=b'{"jsonrpc":"2.0","id":1,"method":"initialize"}')
    assert response.status_code == 200
    return {"mcp-session-id": response.headers["mcp-session-id"]}


def client():
    return httpx2.AsyncClient(timeout=PATIENCE, trust_env=False)


@pytest.mark.asyncio
async def test_messages_pass_as_they_came(bridging, how):
    async with bridging.bridge(how) as made, client() as http:
        session = await opened(http, made.url)
        body = '{"id" : "a\\n",\n "method":"x", "params":{"t":"记忆 \\ud83d"}}'.encode()
        [line] = events(await http.post(made.url, content=body, headers=session))
    received = json.dumps(body.decode().replace("\n", " ") + "\n")
    assert line == '{"id":"a\\n",   "result" : ' + received + "}"
    assert not made.faults


@pytest.mark.asyncio
async def test_answers_and_progress_go_to_who_asked(bridging, how):
    async with bridging.bridge(how) as made, client() as http:
        session = await opened(http, made.url)

        async def ask(number):
            asked = {"id": number, "method": "x", "params": {"_meta": {"progressToken": f"t{number}"}}}
            return events(await http.post(made.url, json=asked, headers=session))

        for number, answer in enumerate(await asyncio.gather(*map(ask, range(5)))):
            progress, result = map(json.loads, answer)
            assert progress["params"]["progressToken"] == f"t{number}"
            assert result["id"] == number


@pytest.mark.asyncio
async def test_a_cancelled_request_is_not_waited_for(bridging, how):
    async with bridging.bridge(how) as made, client() as http:
        session = await opened(http, made.url)
        hanging = asyncio.create_task(http.post(made.url, json={"id": 7, "method": "hang"}, headers=session))
        note = {"method": "notifications/cancelled", "params": {"requestId": 7}}
        while not hanging.done():
            assert (await http.post(made.url, json=note, headers=session)).status_code == 202
            await asyncio.sleep(0.01)
        assert events(await hanging) == []


@pytest.mark.asyncio
async def test_the_era_without_sessions_has_a_server_for_each_request(bridging, how):
    async with bridging.bridge(how) as made, client() as http:
        modern = {"mcp-protocol-version": "2026-07-28"}
        first, second = [
            await http.post(made.url, json={"id": 1, "method": "x"}, headers=modern) for _ in range(2)
        ]
    assert events(first) == events(second) != []
    assert first.headers["mcp-session-id"] != second.headers["mcp-session-id"]


@pytest.mark.asyncio
async def test_what_is_not_meant_for_it_is_refused(bridging, how):
    async with bridging.bridge(how) as made, client() as http:

        async def status(headers=None, content=b'{"id":1,"method":"x"}'):
            return (await http.post(made.url, content=content, headers=headers)).status_code

        assert await status() == 400
        assert await status({"mcp-session-id": "unknown"}) == 404
        assert await status({"host": "example.com"}) == 403
        assert await status({"origin": "http://example.com"}) == 403
        session = await opened(http, made.url)
        assert await status(session, b"[]") == 400
        assert await status(session, b"{") == 400
        assert await status(session) == 200
        assert (await http.delete(made.url, headers=session)).status_code == 200
        assert await status(session) == 404


@pytest.mark.asyncio
async def test_what_is_no_message_is_a_fault(bridging, how):
    async with bridging.bridge(how) as made, client() as http:
        session = await opened(http, made.url)
        assert (
            len(events(await http.post(made.url, json={"id": 2, "method": "babble"}, headers=session))) == 1
        )
    assert made.faults == [f"a server wrote what is no message: {'Loading …'.encode()!r}"]


@pytest.mark.asyncio
async def test_a_server_that_ends_badly_is_a_fault_and_holds_nobody_up(bridging, how):
    async with bridging.bridge(how) as made, client() as http:
        session = await opened(http, made.url)
        for method in ("die", "x"):
            asked = {"id": 2, "method": method}
            assert events(await http.post(made.url, json=asked, headers=session)) == []
    assert made.faults == ["a server ended with exit code 3"]
