"""The server as clients start it: a process that speaks over pipes, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time

import pytest
from mcp import Client, StdioServerParameters

from .trying import SLOW

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
WIDE = {"entityType": "concept", "domain": "software"}
TEXT = "记忆 ✓ \u00a0 é 🙂 ıİ"


def entity(name, *texts):
    return {"entities": [{"name": name, **WIDE, "observations": list(texts)}]}


def names(serve):
    """Return the names of all entities, as another process sees them."""
    talk = serve("--profile", "full", "--structured")
    talk.greet()
    number = talk.send_call("read_graph", limit=100)
    found = {item["name"] for item in talk.result(number)["structuredContent"]["entities"]}
    talk.end()
    return found


def started(home):
    """Wait until a slow write has begun."""
    end = time.monotonic() + 30
    while not (home / "vault" / "started").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert (home / "vault" / "started").exists()


# --- the official client ------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_official_client_in_either_era(home, path, mode):
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": path, "RAWTHINK_TOOL_PROFILE": "full"}
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "rawthink_cli.main", "mcp"], env=environment, cwd=str(home)
    )
    async with Client(parameters, mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert len(tools) == 19
        result = await client.call_tool("record", entity("x", TEXT))
        assert not result.is_error
        found, *others = await asyncio.gather(
            client.call_tool("open_nodes", {"names": ["x"]}),
            *(client.call_tool("search_thoughts", {"query": "记忆"}) for _ in range(8)),
        )
        assert all(TEXT in one.content[0].text for one in (found, *others))
        wrong = await client.call_tool("record", {"entity": []})
        assert wrong.is_error
        assert "did you mean" in wrong.content[0].text.lower()
        assert found.structured_content is None


# --- the protocol -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2099-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ],
)
def test_a_version_is_agreed_on(serve, asked, agreed):
    talk = serve()
    greeting = talk.greet(asked)
    assert greeting["protocolVersion"] == agreed
    assert greeting["serverInfo"]["name"] == "rawthink"
    assert greeting["serverInfo"]["version"]
    assert len(greeting["instructions"]) <= 650
    assert len(talk.ask("tools/list")["result"]["tools"]) == 11
    assert talk.end() == (0, [])


def test_junk_on_the_input_disturbs_nobody(serve):
    talk = serve()
    talk.write(b"\xef\xbb\xbf\nnot json\n{}\n[]\n\n\r\n\xff\xfe\n" + b"[" * 50_000 + b"\n")
    talk.greet()
    half = json.dumps(
        {"jsonrpc": "2.0", "id": "half", "method": "tools/call", "params": {"name": "record", "arguments": entity("x", "half \ud83d")}}
    )  # fmt: skip
    assert "\\ud83d" in half
    talk.write(half.encode() + b"\r\n")
    told = talk.answer("half")["result"]
    assert told["isError"]
    assert "a lone surrogate" in told["content"][0]["text"]
    talk.write(b'{"jsonrpc":"2.0","id":"\\ud83d","method":"no\\ud83d"}\n')
    assert talk.hear()["error"]["code"] == -32601
    talk.write(b'{"jsonrpc":"2.0","id":41,"method":"ping","params":"no object"}\n')
    assert talk.answer(41)["error"]["code"] in (-32600, -32602)
    talk.write(b'{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"x\xff"}}\n')
    assert talk.answer(42)["error"]["code"] == -32700
    assert talk.ask("no/method")["error"]["code"] == -32601
    assert talk.ask("tools/call", {"name": 7})["error"]["code"] == -32602
    assert "Recorded" in talk.call("record", **entity("x", "y"))
    assert talk.end()[0] == 0
    assert "Traceback" not in talk.stderr()


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "gbk"},
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["gbk", "cp1252", "C"],
)
def test_text_is_utf8_whatever_the_locale_says(serve, environment):
    talk = serve(RAWTHINK_LOG_LEVEL="DEBUG", **environment)
    talk.greet()
    talk.call("record", **entity(TEXT, TEXT))
    assert TEXT in talk.call("open_nodes", names=[TEXT])
    assert TEXT in talk.call("search_thoughts", query="记忆")
    assert json.dumps(TEXT, ensure_ascii=False)[1:-1].encode() in talk.line
    assert talk.end()[0] == 0


def test_what_prints_to_stdout_breaks_nothing(serve):
    talk = serve("--provider", "trying")
    talk.greet()
    assert "Recorded" in talk.call("record", **entity("x", "be loud"))
    assert "x" in talk.call("search_nodes", query="be loud")
    code, lines = talk.end()
    assert (code, lines) == (0, [])
    told = talk.stderr()
    for said in ("a module that prints", "printed", "written to descriptor 1", "a child prints"):
        assert said in told


def test_a_fault_of_ours_is_a_number_here_and_a_traceback_there(serve):
    talk = serve("--provider", "trying")
    talk.greet()
    told = talk.result(talk.send_call("search_thoughts", query="have a bug"))
    assert told["isError"]
    number = told["content"][0]["text"].split("(error ")[1][:8]
    assert "divided" not in told["content"][0]["text"]
    assert "Nothing found" in talk.call("search_thoughts", query="x")
    talk.end()
    assert number in talk.stderr()
    assert "ZeroDivisionError: somebody divided by zero" in talk.stderr()


# --- beside each other --------------------------------------------------------------------------


def test_a_slow_search_holds_up_nobody(serve):
    talk = serve("--provider", "trying")
    talk.greet()
    talk.call("record", **entity("warm", "up"))
    talk.call("search_thoughts", query="warm")
    slow = [talk.send_call("search_thoughts", query="be slow") for _ in range(3)]
    began = time.monotonic()
    assert "Recorded" in talk.call("record", **entity("x", "y"))
    talk.ask("ping")
    assert time.monotonic() - began < SLOW * 0.8
    assert sorted(talk.hear()["id"] for _ in slow) == slow


def test_a_cancelled_call_is_not_answered_and_the_next_ones_are(serve, home):
    talk = serve("--provider", "trying")
    talk.greet()
    talk.call("record", **entity("warm", "up"))
    (home / "vault" / "started").unlink()
    search = talk.send_call("search_thoughts", query="be slow")
    write = talk.send_call("record", **entity("written all the same", "be slow"))
    started(home)
    for number in (search, write):
        talk.note("notifications/cancelled", {"requestId": number, "reason": "changed my mind"})
    assert "warm" in talk.call("open_nodes", names=["warm"])
    code, lines = talk.end()
    assert (code, lines) == (0, [])
    assert names(serve) == {"warm", "written all the same"}


def test_many_calls_at_once_are_all_answered(serve):
    talk = serve()
    talk.greet()
    numbers = [talk.send_call("record", **entity(f"n{n}", f"text {n}")) for n in range(25)]
    numbers += [talk.send_call("search_thoughts", query="text") for _ in range(25)]
    answers = {message["id"]: message["result"] for message in (talk.hear() for _ in numbers)}
    assert set(answers) == set(numbers)
    assert not any(result.get("isError") for result in answers.values())
    assert talk.end()[0] == 0
    assert len(names(serve)) == 25


def test_two_servers_share_a_store(serve):
    one, two = serve(), serve()
    for talk in (one, two):
        talk.greet()
    numbers = [
        (talk, talk.send_call("record", **entity(f"{who} {n}", "both see it")))
        for n in range(20)
        for talk, who in ((one, "one"), (two, "two"))
    ]
    for talk, number in numbers:
        assert not talk.result(number).get("isError")
    for talk, other in ((one, "two"), (two, "one")):
        assert f"{other} 19 (concept" in talk.call("open_nodes", names=[f"{other} 19"])
        assert "More match" in talk.call("search_thoughts", query="both see it")
    assert [talk.end()[0] for talk in (one, two)] == [0, 0]
    assert len(names(serve)) == 40


def test_a_huge_call_and_its_answer_pass(serve):
    talk = serve("--profile", "full")
    talk.greet()
    text = "大" * 1_000_000
    assert "Recorded" in talk.call("record", **entity("huge", text))
    shown = talk.call("open_nodes", names=["huge"])
    assert len(shown) <= 20_000
    assert "(1,000,000 characters)" in shown
    many = talk.result(talk.send_call("record", entities=[{"name": f"n{n}", **WIDE} for n in range(1_001)]))
    assert many["isError"]
    assert "1000 at most" in many["content"][0]["text"]


# --- the end ------------------------------------------------------------------------------------


def test_the_end_of_input_ends_it_at_once(serve):
    talk = serve()
    talk.greet()
    began = time.monotonic()
    assert talk.end() == (0, [])
    assert time.monotonic() - began < 3
    assert talk.stderr() == ""
    idle = serve()
    assert idle.end() == (0, [])


def test_what_was_piped_in_is_answered(serve, home):
    talk = serve()
    asked = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "pipe", "version": "1"},
    }
    talk.send("initialize", asked)
    talk.note("notifications/initialized")
    talk.send_call("record", **entity("piped", "in"))
    talk.send("tools/list")
    code, lines = talk.end()
    assert code == 0
    assert sorted(json.loads(line)["id"] for line in lines) == [1, 2, 3]
    assert names(serve) == {"piped"}


def test_a_write_that_has_begun_when_the_input_ends_is_finished(serve, home):
    talk = serve("--provider", "trying")
    talk.greet()
    number = talk.send_call("record", **entity("last words", "be slow"))
    started(home)
    began = time.monotonic()
    code, lines = talk.end()
    assert code == 0
    assert time.monotonic() - began < SLOW + 3
    [answer] = [json.loads(line) for line in lines]
    assert answer["id"] == number
    assert "Recorded" in answer["result"]["content"][0]["text"]
    assert names(serve) == {"last words"}


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_a_write_is_finished(serve, home, number):
    talk = serve("--provider", "trying")
    talk.greet()
    talk.call("record", **entity("acknowledged", "x"))
    (home / "vault" / "started").unlink()
    talk.send_call("search_thoughts", query="be slow")
    talk.send_call("record", **entity("begun", "be slow"))
    started(home)
    began = time.monotonic()
    talk.process.send_signal(number)
    assert talk.over()[0] == 0
    assert time.monotonic() - began < SLOW + 3
    assert "Traceback" not in talk.stderr()
    assert names(serve) == {"acknowledged", "begun"}


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_server_at_once(serve, number):
    talk = serve()
    talk.greet()
    began = time.monotonic()
    talk.process.send_signal(number)
    assert talk.over() == (0, [])
    assert time.monotonic() - began < 3
    assert talk.stderr() == ""


@posix
def test_a_signal_while_it_still_loads_is_quiet(serve):
    for wait in (0.3, 0.6):
        talk = serve()
        time.sleep(wait)
        talk.process.send_signal(signal.SIGTERM)
        talk.over()
        assert "Traceback" not in talk.stderr()


def test_a_client_that_goes_away_takes_the_server_with_it(serve):
    talk = serve()
    talk.greet()
    numbers = [talk.send_call("record", **entity(f"n{n}", "x")) for n in range(3)]
    for number in numbers:
        talk.result(number)
    talk.process.stdin.close()
    assert talk.process.wait(timeout=30) == 0
    assert names(serve) == {"n0", "n1", "n2"}


@posix
def test_a_client_that_is_killed_takes_the_server_with_it(serve, tmp_path):
    talk = serve(wrapped=["sh", "-c", 'exec "$@" | head -n 1', "sh"])  # it reads one line and is gone
    talk.greet()
    talk.send_call("record", **entity("x", "y"))
    assert talk.over()[0] == 0
    assert "Traceback" not in talk.stderr()
    assert names(serve) == {"x"}


# --- where it starts ----------------------------------------------------------------------------


def test_it_starts_anywhere_and_leaves_nothing_there(serve, home, tmp_path):
    before = {place for place in tmp_path.iterdir() if not place.name.startswith("stderr")}
    talk = serve()
    talk.greet()
    talk.call("record", **entity("x", "y"))
    talk.end()
    after = {place for place in tmp_path.iterdir() if not place.name.startswith("stderr")}
    assert after == before
    assert (home / "vault" / "rawthink.jsonl").exists()


def test_options_say_which_memory_is_served(serve, home):
    talk = serve("--vault", home / "two words", "--space", "work", "--profile", "record")
    talk.greet()
    assert len(talk.ask("tools/list")["result"]["tools"]) == 5
    talk.call("record", **entity("x", "y"))
    talk.end()
    [line] = [
        json.loads(line)
        for line in (home / "two words" / "rawthink.jsonl").read_bytes().splitlines()
        if b'"ops"' in line
    ]
    assert line["space"] == "work"
    assert line["by"] == {"host": "rawthink-mcp", "client": "tests 1"}
    assert not (home / "vault").exists()


def test_a_wrong_level_of_logging_is_told_and_no_more(serve):
    talk = serve(RAWTHINK_LOG_LEVEL="loud")
    talk.greet()
    assert talk.end()[0] == 0
    assert "RAWTHINK_LOG_LEVEL is 'LOUD'" in talk.stderr()


@posix
def test_it_runs_without_any_stderr(serve):
    talk = serve(wrapped=["sh", "-c", 'exec "$@" 2>&-', "sh"])
    talk.greet()
    assert "Recorded" in talk.call("record", **entity("x", "y"))
    assert talk.end()[0] == 0
    without_input = serve(wrapped=["sh", "-c", 'exec "$@" <&-', "sh"])
    assert without_input.over() == (0, [])
