"""What clients, users and disks do to a server that is not nice; the server is a process as clients start it.

Each test holds what public bug reports of other memory servers say went wrong there: answers without end,
schemas that clients refuse, ids that lead out of the vault, files that vanish, clients that do.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from rawthink_core.sync import open_memory_sync
from rawthink_mcp_server.tools import TOOLS

WIDE = {"entityType": "concept", "domain": "software"}
SOON = 5  # seconds within which a server is gone that nobody speaks to any more
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX signals and links")
linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


def entity(name, *texts):
    return {"name": name, **WIDE, "observations": list(texts)}


def raw(talk, tool, **arguments):
    """Call a tool with whatever JSON can carry, half characters included; return its text and whether it failed."""
    talk._count += 1
    number = talk._count
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    talk.write(json.dumps(message).encode() + b"\n")
    result = talk.result(number)
    return result["content"][0]["text"], bool(result.get("isError"))


def greeted(talk):
    talk.greet()
    return talk


def ended(talk):
    began = time.monotonic()
    code, _ = talk.end()
    assert code == 0
    assert time.monotonic() - began < SOON
    assert "Traceback" not in talk.stderr()


# --- answers without end ------------------------------------------------------------------------


def tokens(text):
    """Estimate as hosts do: four ASCII characters make one, any other character is one."""
    plain = sum(character.isascii() for character in text)
    return plain // 4 + len(text) - plain


def test_every_answer_of_a_large_memory_is_short_and_says_how_to_get_the_rest(serve, home):
    with open_memory_sync(path=str(home / "vault")) as memory:
        for start in range(0, 3_000, 90):
            numbers = range(start, min(start + 90, 3_000))
            said = [
                {"entity": f"节点 {n}", "text": f"记忆 number {n} {i} " + "很长的句子 and more " * 9}
                for n in numbers
                for i in range(10)
            ]
            named = [{"name": f"节点 {n}", "entity_type": "concept", "domain": "software"} for n in numbers]
            memory.record(entities=named, observations=said)
    talk = greeted(serve("--profile", "full"))
    while "INCOMPLETE" in talk.call("search_thoughts", query="记忆"):
        time.sleep(0.2)
    calls = {
        "search_thoughts": [{"query": "记忆"}, {"query": "记忆", "limit": 100}, {"query": "记忆", "mode": "overview", "limit": 100}],
        "search_nodes": [{"query": "记忆"}, {"query": "记忆", "limit": 100, "max_relations": 1000}],
        "read_graph": [{}, {"limit": 100}, {"offset": 2_950, "limit": 50}],
        "open_nodes": [{"names": [f"节点 {n}" for n in range(200)]}],
        "challenge": [{"topic": "记忆", "limit": 100}],
    }  # fmt: skip
    for tool, given in calls.items():
        for arguments in given:
            result = talk.result(talk.send_call(tool, **arguments))
            text = result["content"][0]["text"]
            assert not result.get("isError"), text
            assert "structuredContent" not in result
            assert tokens(text) < 25_000
            assert len(talk.line) < 100_000
            if tool != "challenge":
                assert re.search(r"More( match|: read_graph)|left out", text), (tool, arguments, text[-300:])
    summary = talk.call("read_graph", summary=True)
    assert re.match(r"3,000 entities|The oldest [\d,]+ entities of more", summary)  # it counts for a second
    assert tokens(summary) < 25_000
    seen, offset = set(), 0
    while offset < 200:
        page = talk.call("read_graph", offset=offset, limit=100)
        seen |= set(re.findall(r"^节点 (\d+) ", page, re.MULTILINE))
        offset = int(re.search(r"More: read_graph with offset (\d+)", page)[1])
    assert len(seen) == offset, "a page leaves out what the one before promised"
    assert talk.end()[0] == 0
    assert talk.stderr() == ""


@pytest.mark.parametrize("encoding", ["gbk", "cp1252", "ascii"])
def test_what_is_logged_and_warned_of_stays_out_of_the_protocol(serve, encoding):
    loud = {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "default", "RAWTHINK_LOG_LEVEL": "DEBUG"}
    text = "记忆 ✓ \u00a0 é 🙂"
    talk = greeted(serve("--profile", "full", PYTHONIOENCODING=encoding, **loud))
    talk.call("record", entities=[entity(text, text)])
    assert text in talk.call("search_thoughts", query="记忆")
    note = re.search(r"Stored note (\S+)", talk.call("store_thought", text=text, tags=[text]))[1]
    assert text in talk.call("get_session", session_id=note)
    talk.call("reindex", full=True)
    talk.call("delete_entities", entityNames=[text])
    assert talk.end() == (0, [])  # and every line before was JSON in UTF-8
    told = talk.stderr()
    assert "DEBUG" in told
    assert not re.search(r"(Resource|Deprecation|Syntax|Runtime|Bytes)Warning|never awaited|Traceback", told)


# --- schemas ------------------------------------------------------------------------------------


def strict(node):
    """Make of a schema what strict OpenAI clients make of it: everything required, optional ones may be null."""
    made = dict(node)
    if node["type"] == "object":
        inner = {name: strict(each) for name, each in node["properties"].items()}
        optional = inner.keys() - set(node.get("required", ()))
        for name in optional:
            inner[name] = {**inner[name], "type": [inner[name]["type"], "null"]}
        made |= {"properties": inner, "required": list(inner), "additionalProperties": False}
    elif node["type"] == "array":
        made["items"] = strict(node["items"])
    return made


def filled(node, words):
    """Make the arguments that a strict client sends at least: null for all that is optional."""
    kinds = node["type"]
    if isinstance(kinds, list):
        return None
    if kinds == "object":
        return {name: filled(each, words) for name, each in node["properties"].items()}
    if kinds == "array":
        return [filled(node["items"], words)]
    return node.get("enum", [words])[0] if kinds == "string" else 1 if kinds == "integer" else False


def gemini(node):
    """Make of a schema what Gemini takes, which knows no other words than these. Raises KeyError."""
    takes = {"type", "description", "enum", "properties", "required", "items"}
    kept = {name: value for name, value in node.items() if name != "additionalProperties"}
    assert kept.keys() <= takes
    if kept["type"] == "object":
        kept["properties"] = {name: gemini(each) for name, each in kept["properties"].items()}
        assert kept["properties"], "an object without properties is refused"
    if kept["type"] == "array":
        kept["items"] = gemini(kept["items"])
    return kept | {"type": kept["type"].upper()}


def test_what_is_listed_is_taken_by_strict_clients_and_gemini_and_works(serve):
    talk = greeted(serve("--profile", "full"))
    talk.call("record", entities=[entity("x", "x")])
    tools = talk.ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == list(TOOLS)
    for tool in tools:
        assert "outputSchema" not in tool
        assert gemini(tool["inputSchema"])["type"] == "OBJECT"
        text, failed = raw(talk, tool["name"], **filled(strict(tool["inputSchema"]), "x"))
        wrong = re.search(r"unknown argument|is required|must be a|Input validation", text)
        assert not (failed and wrong), (tool["name"], text)
        empty, failed = raw(talk, tool["name"], **dict.fromkeys(tool["inputSchema"]["properties"]))
        assert failed == bool(tool["inputSchema"].get("required") or tool["name"] == "record"), empty
    ended(talk)


# --- ids ----------------------------------------------------------------------------------------

OUT = [
    "../outside/secret", "../../etc/passwd", "..\\outside\\secret", "C:\\secret", "\\\\host\\share\\secret",
    "sessions/../../outside/secret", "%2e%2e/outside/secret", "~/secret", "file:///etc/passwd", ".", "..", "/",
    "secret\x00.md", "\x00", "a\nb", "con", "*", "secret\ud83d", "s" * 70_000,
]  # fmt: skip


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_id_leads_out_of_the_vault(serve, home):
    outside = home / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("hidden words", encoding="utf-8")
    (home / "secret.md").write_text("hidden words", encoding="utf-8")
    talk = greeted(serve("--profile", "full"))
    before = files(outside)
    for sent in [*OUT, str(outside / "secret.md"), str(outside / "secret")]:
        for tool in ("get_session", "reindex"):
            text, failed = raw(talk, tool, session_id=sent)
            assert failed, (tool, sent[:40])
            assert "unforeseen" not in text
            assert "hidden" not in text
        for given in ({"session_id": sent}, {"tags": [sent]}):
            text, failed = raw(talk, "store_thought", text="a thought", **given)
            assert "unforeseen" not in text
            [name] = given
            assert failed == ("\ud83d" in sent or len(sent) > 60_000), text
            assert text.startswith((f"{name}:", f"{name}.0:", "the session and the tags")) == failed, text
    assert files(outside) == before
    made = {path.relative_to(home).parts[0] for path in home.rglob("*")}
    assert made == {"outside", "secret.md", "rawthink.toml", "vault", "cache", "state"} & made
    assert {path.parent.name for path in (home / "vault").rglob("*.md")} == {"qnotes"}
    for path in (home / "vault" / "qnotes").iterdir():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d{6}(_\d+)?\.md", path.name)
        text, failed = raw(talk, "get_session", session_id=f"qnote_{path.stem}")
        assert not failed, text
        assert "a thought" in text
    ended(talk)


@posix
def test_no_link_leads_out_of_the_vault(serve, home):
    outside = home / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "secret.md").write_text("hidden words", encoding="utf-8")
    (outside / "deep" / "other.md").write_text("hidden words", encoding="utf-8")
    sessions = home / "vault" / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "good.md").write_text("good words", encoding="utf-8")
    (sessions / "file.md").symlink_to(outside / "secret.md")
    (sessions / "folder").symlink_to(outside / "deep")
    (home / "vault" / "qnotes").symlink_to(outside)
    before = files(outside)
    talk = greeted(serve("--profile", "full"))
    told = talk.call("reindex")
    assert told.startswith("1 file read")
    assert told.count("links are not followed") == 3
    for sent in ("file", "secret", "other", "folder/other"):
        text, failed = raw(talk, "get_session", session_id=sent)
        assert failed
        assert "hidden" not in text
    assert "hidden" not in talk.call("search_thoughts", query="hidden words")
    text, failed = raw(talk, "store_thought", text="a thought")
    assert failed
    assert "is a link" in text
    assert "Nothing was stored" in text
    assert files(outside) == before
    assert "good words" in talk.call("get_session", session_id="good")
    ended(talk)


def test_ids_and_names_of_any_form_come_back_as_they_were_given(serve, home):
    upper = "550E8400-E29B-41D4-A716-446655440000"
    sessions = home / "vault" / "sessions"
    sessions.mkdir(parents=True)
    given = ["mem-1", "a/b c", "2025-01-02_001", upper, upper.lower(), "会议-1"]
    for number, name in enumerate(given):
        (sessions / f"{number}.md").write_text(f'---\nid: "{name}"\n---\n\ntext number {number}\n', "utf-8")
    talk = greeted(serve("--profile", "full"))
    talk.call("reindex")
    for number, name in enumerate(given):
        assert f"text number {number}" in talk.call("get_session", session_id=name)
        assert f"session {name} (" in talk.call("search_thoughts", query=f"text number {number}", limit=1)
    talk.call("record", entities=[entity("mem-1", "one"), entity(upper, "said of an id", upper, "another")])
    for name in (upper, upper.lower()):
        opened = talk.call("open_nodes", names=[name])
        assert f"{upper} (concept" in opened
        assert "said of an id" in opened
        assert "+ note: said of an id" in talk.call("history", name=name)
    said = re.search(r"said of an id \[(\S+)\]", opened)[1]
    assert "said of an id" in talk.call("open_nodes", names=[said.upper()])
    assert f"+ note of {upper}: said of an id" in talk.call("history", name=said.upper())
    shown = talk.call("open_nodes", names=["mem-1", upper, said])
    assert shown.count("(concept") == 2
    for text in (upper, said.upper()):  # a text of that form, and an id
        assert "1 observation" in talk.call("revise", entity_name=upper, observations=[text])
    assert "1 item" in talk.call(
        "delete_observations", deletions=[{"entityName": upper, "observations": ["another"]}]
    )
    text, failed = raw(
        talk, "delete_entities", entityNames=[upper, said.replace(said[0], "f" if said[0] != "f" else "e")]
    )
    assert failed
    assert "Nothing was erased" in text
    assert "Erased for good" in talk.call("delete_entities", entityNames=[upper.lower()])
    assert "one" in talk.call("open_nodes", names=["mem-1"])
    ended(talk)


def test_what_erases_names_what_it_does_not_know_and_erases_nothing_then(serve, home):
    talk = greeted(serve("--profile", "full"))
    talk.call("record", entities=[entity("a", "x one", "y two"), entity("b")], relations=[{"from": "a", "to": "b", "relationType": "uses"}])  # fmt: skip
    before = (home / "vault" / "rawthink.jsonl").read_bytes()
    calls = [
        ("delete_entities", {"entityNames": ["a", "nobody"]}, "entity nobody"),
        ("delete_entities", {"entityNames": ["a", "n" * 50_000]}, "entity nnn"),
        ("delete_observations", {"deletions": [{"entityName": "a", "observations": ["x one", "zz"]}]}, "observation zz of a"),
        ("delete_observations", {"deletions": [{"entityName": "c", "observations": ["x one"]}]}, "entity c"),
        ("delete_observations", {"deletions": [{"entityName": "a", "observations": []}]}, "deletions.0.observations: must not be empty"),
        ("delete_relations", {"relations": [{"from": "a", "to": "b", "relationType": "uses"}, {"from": "b", "to": "a", "relationType": "uses"}]}, "relation b uses a"),
        ("delete_relations", {"relations": [{"from": "a", "to": "b", "relationType": "usess"}]}, "relation a usess b"),
    ]  # fmt: skip
    for tool, arguments, missing in calls:
        text, failed = raw(talk, tool, **arguments)
        assert failed
        assert missing in text
        assert ("Nothing was erased" in text) == ("must not be empty" not in text)
        assert len(text) < 1_000
    assert (home / "vault" / "rawthink.jsonl").read_bytes() == before
    assert "Erased for good: 4 items." in talk.call("delete_entities", entityNames=["a", "A"])
    ended(talk)


# --- files that vanish --------------------------------------------------------------------------


def held(cache):
    """Return the files of an index, but for SQLite's shared memory, which no process survives the loss of."""
    return [path for path in cache.rglob("*") if path.is_file() and not path.name.endswith("-shm")]


def delete(cache):
    shutil.rmtree(cache)


def truncate(cache):
    for path in held(cache):
        os.truncate(path, path.stat().st_size // 2)


def copy_half(cache):
    copy = cache.with_name("copy")
    shutil.copytree(cache, copy)
    for path in sorted(held(cache))[::2]:
        (copy / path.relative_to(cache)).unlink()
    shutil.rmtree(cache)
    copy.rename(cache)


def scribble(cache):
    source = random.Random(7)
    for path in held(cache):
        with path.open("r+b") as file:
            file.write(source.randbytes(path.stat().st_size))


@posix
@pytest.mark.parametrize("harm", [delete, truncate, copy_half, scribble])
def test_an_index_that_is_harmed_while_it_is_used_costs_no_memory(serve, home, harm):
    talk = greeted(serve())
    for n in range(0, 60, 20):
        talk.call("record", entities=[entity(f"n{i}", f"a heron, number {i}") for i in range(n, n + 20)])
    assert "number 7" in talk.call("search_thoughts", query="heron number 7")
    harm(home / "cache")

    def found(query, text):
        """Search until the answer is whole; until then it must not pass for one."""
        end = time.monotonic() + 30
        while True:
            told = talk.call("search_thoughts", query=query)
            if "INCOMPLETE" not in told:
                assert text in told
                return
            assert time.monotonic() < end, told

    found("heron number 7", "number 7")
    talk.call("record", entities=[entity("new", "a stork, too")])
    found("stork", "a stork, too")
    found("heron number 41", "number 41")
    assert "number 33" in talk.call("open_nodes", names=["n33"])
    assert talk.call("read_graph", summary=True).startswith("61 entities")
    assert talk.end()[0] == 0
    talk = greeted(serve())
    found("stork", "a stork, too")
    found("heron number 7", "number 7")
    ended(talk)


@linux
def test_an_engine_that_is_killed_is_no_empty_answer(serve):
    talk = greeted(serve())
    talk.call("record", entities=[entity("x", "a heron stands still")])
    assert "heron" in talk.call("search_thoughts", query="heron")
    children = Path(f"/proc/{talk.process.pid}/task/{talk.process.pid}/children").read_text().split()
    own = Path(f"/proc/{talk.process.pid}/task").iterdir()
    children += [pid for task in own for pid in (task / "children").read_text().split()]
    assert children, "the engine has a process of its own"
    for pid in set(children):
        os.kill(int(pid), signal.SIGKILL)
    for tool in ("search_thoughts", "search_nodes"):
        told = talk.call(tool, query="heron")
        assert "heron" in told or "INCOMPLETE" in told
        assert "Nothing found for" not in told
    ended(talk)


# --- others beside it ---------------------------------------------------------------------------


def test_a_command_works_beside_the_server_and_each_sees_what_the_other_wrote(serve, rawthink):
    talk = greeted(serve())
    talk.call("record", entities=[entity("by the server", "a heron")])
    done = rawthink("record", "by the command", "a stork", "--type", "concept", "--domain", "software")
    assert (done.returncode, done.stderr) == (0, "")
    assert "a stork" in talk.call("search_thoughts", query="stork")
    found = rawthink("search", "heron")
    assert (found.returncode, found.stderr) == (0, "")
    assert "a heron" in found.stdout
    ended(talk)


@posix
def test_a_killed_server_leaves_a_store_that_opens(serve, rawthink):
    for turn in range(3):
        talk = greeted(serve())
        talk.call("record", entities=[entity(f"kept {turn}", f"a heron, number {turn}")])
        talk.send_call("search_thoughts", query="heron")
        talk.send_call("record", entities=[entity(f"cut {turn}", "a stork")])
        talk.process.send_signal(signal.SIGKILL)
        talk.process.wait(timeout=30)
        done = rawthink("search", "heron")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"a heron, number {turn}" in done.stdout
    talk = greeted(serve())
    for turn in range(3):
        assert f"number {turn}" in talk.call("open_nodes", names=[f"kept {turn}"])
    ended(talk)


# --- clients that vanish ------------------------------------------------------------------------


def many(turn):
    """Return a record that is worth watching: it is there whole, or not at all."""
    return {"entities": [entity(f"{turn} {n}", *(f"text {n} {i} " + "word " * 40 for i in range(4))) for n in range(150)]}  # fmt: skip


TWO_LINES = "".join(f'IFS= read -r l{n}; printf "%s\\n" "$l{n}"; ' for n in range(2))


@pytest.mark.parametrize(
    "wrapped",
    [(), pytest.param(("sh", "-c", f'"$@" | {{ {TWO_LINES} }}', "sh"), marks=posix)],
    ids=["sends no more", "is gone"],
)
def test_a_client_that_goes_in_mid_call_leaves_a_write_whole_or_absent(serve, wrapped):
    waits = [0.0, 0.01, 0.03, 0.1]
    for turn, wait in enumerate(waits):
        talk = greeted(serve(wrapped=wrapped))
        talk.call("search_thoughts", query="warm up")
        talk.send_call("record", **many(turn))
        time.sleep(wait)
        began = time.monotonic()
        talk.process.stdin.close()
        assert talk.process.wait(timeout=30) == 0
        assert time.monotonic() - began < SOON
        assert "Traceback" not in talk.stderr()
    talk = greeted(serve("--profile", "full", "--structured"))
    kept = 0
    for turn in range(len(waits)):
        found = talk.result(talk.send_call("open_nodes", names=[f"{turn} {n}" for n in range(150)]))
        text = found["content"][0]["text"]
        names = [] if found.get("isError") else found["structuredContent"]["graph"]["entities"]
        said = [] if found.get("isError") else found["structuredContent"]["graph"]["observations"]
        assert (len(names), len(said)) in {(0, 0), (150, 600)}, (turn, text[:200])
        kept += bool(names)
    assert kept, "at least what was there in time is kept"
    ended(talk)


@linux
def test_calls_that_are_given_up_leave_nothing_behind(serve):
    talk = greeted(serve())
    talk.call("record", entities=[entity("x", "a heron")])
    talk.call("search_thoughts", query="heron")

    def held():
        place = Path(f"/proc/{talk.process.pid}")
        return len(list((place / "fd").iterdir())), len(list((place / "task").iterdir()))

    def give_up(number):
        for n in range(number):
            asked = talk.send_call("search_thoughts", query=f"heron {n}")
            wrote = talk.send_call("record", entities=[entity(f"given up {n}", "a stork")])
            for call in (asked, wrote):
                talk.note("notifications/cancelled", {"requestId": call, "reason": "changed my mind"})
        talk.ask("ping")
        assert "heron" in talk.call("search_thoughts", query="heron")

    give_up(25)
    before = held()
    give_up(50)
    after = held()
    assert after[0] <= before[0] + 2, "descriptors"
    assert after[1] <= before[1] + 2, "threads"
    ended(talk)
