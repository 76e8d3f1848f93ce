"""The vendor's own client, `nmem`, drives the emulator: commands, exit codes, and what it prints."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

BESIDE = Path(sys.executable).parent  # an environment that nobody activated
NMEM = shutil.which("nmem", path=os.pathsep.join([str(BESIDE), os.environ.get("PATH", "")]))
VERSIONS = pytest.mark.parametrize("generation", ["0.9", "0.10.28", "0.10"])

pytestmark = pytest.mark.skipif(NMEM is None, reason="nmem-cli is not installed")


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def nmem(start, tmp_path):
    """Start an emulator; return it, and how to run the client against it."""

    def begin(generation="0.10", *, key="", **more):
        ask = start(generation, **more)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NMEM_")}
        environment = {
            **kept,
            "HOME": str(tmp_path),
            "USERPROFILE": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path),
            "NO_COLOR": "1",
            "NO_PROXY": "127.0.0.1",
            "NMEM_API_URL": ask.server.url,
            "NMEM_API_KEY": key,
        }

        def run(*arguments):
            done = subprocess.run(
                [NMEM, *arguments],
                env=environment,
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=60,
            )
            return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

        return ask, run

    return begin


def well(done):
    """Return the output of a command that must have gone well."""
    assert done.code == 0, done
    assert done.err == ""
    return done.out


@VERSIONS
def test_it_adds_searches_and_shows(nmem, generation):
    _, run = nmem(generation)
    out = well(
        run("memories", "add", "tea at five", "--id", "tea", "-t", "Tea", "-l", "drinks", "--labels", "a,b")
    )
    assert out.splitlines() == ["Created: tea", "  title: Tea", "  labels: drinks, a, b"]
    out = well(run("memories", "search", "tea"))
    assert "Found 1 matches for tea" in out
    assert re.search(r"│ tea +Tea +1\.00 +fact +cli ", out)
    found = run("--json", "memories", "search", "tea", "-l", "drinks", "--unit-type", "fact").json
    assert (found["total"], found["search_mode"]) == (1, "fast_bm25_vector")
    (hit,) = found["memories"]
    assert (hit["id"], hit["score"], hit["content"]) == ("tea", 1.0, "tea at five")
    assert (hit["labels"], hit["label_ids"]) == (
        ["drinks", "a", "b"],
        ["label_drinks", "label_a", "label_b"],
    )
    assert run("--json", "memories", "search", "coffee").json["memories"] == []
    assert "No results for 'coffee'" in well(run("memories", "search", "coffee"))
    out = well(run("memories", "show", "tea"))
    assert out.split() == (
        f"Tea ID: tea Importance: 0.5 Source: cli Labels: drinks, a, b Date: {out.split()[-4]} tea at five".split()
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", out.split()[-4])
    shown = run("--json", "memories", "show", "tea").json
    assert (shown["id"], shown["unit_type"], shown["space_id"]) == ("tea", "fact", "default")


@VERSIONS
def test_it_upserts_updates_and_lists(nmem, generation):
    ask, run = nmem(generation)
    assert run("--json", "memories", "add", "one", "--id", "m").json["action"] == "created"
    assert run("--json", "memories", "add", "two", "--id", "m").json["action"] == "updated"
    assert well(run("memories", "update", "m", "-t", "Three", "-l", "x")).splitlines()[0] == "Updated: m"
    labels = ask.get("/memories/m").json()["label_ids"]
    assert labels == (["label_x"] if generation == "0.10" else [])
    listed = run("--json", "memories", "list").json
    assert (listed["total"], listed["memories"][0]["title"]) == (1, "Three")
    assert re.search(r"│ m +Three +0\.5 +fact ", well(run("memories", "list")))
    refused = run("memories", "update", "m", "-i", "7")
    assert refused.code == 1
    assert "importance must be between 0.0 and 1.0" in refused.err


@VERSIONS
def test_it_supersedes_and_retires(nmem, generation):
    _, run = nmem(generation)
    for name in ("old", "new", "shelf", "gone"):
        well(run("memories", "add", f"{name} cache", "--id", name))
    out = well(run("memories", "supersede", "old", "new", "--reason", "faster"))
    assert out.splitlines() == ["Superseded: old", "  replacement: new"]
    assert run("--json", "memories", "supersede", "old", "new").json["newer_memory_id"] == "new"
    assert well(run("memories", "archive", "shelf")).startswith("Archived: shelf")
    assert well(run("memories", "forget", "gone", "--force")).startswith("Forgotten: gone")
    found = run("--json", "memories", "search", "cache").json["memories"]
    assert [hit["id"] for hit in found] == ["new"]
    found = run("--json", "memories", "search", "cache", "--include-history").json["memories"]
    assert {hit["id"] for hit in found} == {"new", "old"}
    out = well(run("graph", "evolves", "old"))
    assert "replaces" in out
    assert out.index("old  old cache") < out.index("new  new cache")
    assert well(run("memories", "show", "shelf"))
    gone = run("memories", "show", "gone")
    assert (gone.code, gone.out) == (1, "")
    assert "returned 404: Memory not found" in gone.err
    assert run("memories", "supersede", "old", "nobody").code == 1


@VERSIONS
def test_it_relates(nmem, generation):
    _, run = nmem(generation)
    for name in ("a", "b"):
        well(run("memories", "add", f"memory {name}", "--id", name))
    out = well(run("memories", "link", "add", "a", "b", "--type", "Depends On", "--reason", "it does"))
    assert out.splitlines()[:2] == ["Memory Link: a --depends_on--> b", "  it does"]
    relation = out.splitlines()[2].split()[-1]
    again = run("--json", "memories", "link", "add", "a", "b", "--type", "depends_on").json
    assert again["id"] == relation
    assert re.search(r"│ depends_on +incoming +memory a ", well(run("memories", "link", "list", "b")))
    assert "b [100%]" in well(run("graph", "expand", "a"))
    assert relation in well(run("memories", "link", "delete", relation))
    assert "No memory links found." in well(run("memories", "link", "list", "a"))


@VERSIONS
def test_it_deletes(nmem, generation):
    ask, run = nmem(generation)
    for name in ("a", "b", "c"):
        well(run("memories", "add", f"memory {name}", "--id", name))
    assert "1 of 1 memory found, would be deleted." in well(run("memories", "delete", "a", "--dry-run"))
    assert run("memories", "delete", "a").code == 1  # not without --force
    assert well(run("memories", "delete", "a", "--force")) == "Deleted: a\n"
    again = run("--json", "memories", "delete", "a", "--force")
    assert (again.code, again.json["success"], again.json["failed"]) == (1, False, 1)
    assert well(run("memories", "delete", "b", "c", "--force"))
    assert ask.listed(state="all") == []


@VERSIONS
def test_it_creates_threads_and_appends(nmem, generation):
    ask, run = nmem(generation)
    out = well(run("threads", "create", "-t", "A talk", "-c", "hello there", "--id", "My Talk"))
    assert out.splitlines() == ["Created: my-talk", "  title: A talk", "  messages: 1"]
    append = (
        "threads",
        "append",
        "my-talk",
        "-c",
        "more",
        "--idempotency-key",
        "k",
        "--expected-message-count",
        "1",
    )
    for added in (1, 0):
        assert well(run(*append)).splitlines() == ["Appended: my-talk", f"  added: {added}, total: 2"]
    told = run("--json", "threads", "append", "my-talk", "-c", "again", "--role", "assistant").json
    assert (told["messages_added"], told["total_messages"]) == (1, 3)
    late = run("threads", "append", "my-talk", "-c", "late", "--expected-message-count", "1")
    assert late.code == 1
    assert "Checkpoint conflict." in late.err
    assert ("[checkpoint_conflict" in late.err) == (generation != "0.9")
    out = well(run("threads", "show", "my-talk"))
    assert "ID: my-talk  Messages: 3  Source: cli" in out
    assert re.search(r"USER:\s+hello there\s+USER:\s+more\s+ASSISTANT:\s+again", out)
    assert "my-talk" in well(run("threads", "list"))
    assert "Found 1 threads for hello" in well(run("threads", "search", "hello"))
    messages = json.dumps([{"role": "user", "content": "imported"}])
    out = well(run("threads", "import", "-m", messages, "--id", "other", "-t", "Other"))
    assert out == "Imported: other — Other (1 messages)\n"
    taken = run("threads", "create", "-t", "A talk", "-c", "hello", "--id", "My Talk")
    assert (taken.code, "already exists" in taken.err) == (1, True)
    unknown = run("threads", "append", "nobody", "-c", "x")
    assert (unknown.code, "Thread not found: nobody" in unknown.err) == (1, True)
    assert well(run("threads", "delete", "my-talk", "--force")).splitlines() == [
        "Deleted: my-talk",
        "  messages: 3",
    ]
    assert [thread.thread_id for thread in ask.server.threads()] == ["other"]


@VERSIONS
def test_it_tells_how_the_server_is(nmem, generation):
    ask, run = nmem(generation)
    out = well(run("status"))
    version = ask.get("/health").json()["version"]
    assert re.search(rf"server +v{re.escape(version)}\n +status +ok\n", out)
    ask.add("x", labels=["y"])
    assert re.search(r"memories +1\n +threads +0\n +entities +0\n +labels +1\n", well(run("stats")))
    assert "# Context" in well(run("context"))
    assert "No Working Memory for today." in well(run("working-memory", "read"))


def test_it_works_in_a_space_by_name(nmem):
    ask, run = nmem()
    ask.server.add_space("sp-1", "Work", aliases=["w"])
    well(run("memories", "add", "in work", "--id", "m", "--space", "w"))
    assert ask.server.memories()[0].space_id == "sp-1"
    assert run("--json", "memories", "list", "--space-id", "sp-1").json["total"] == 1
    assert run("--json", "memories", "list").json["total"] == 0
    assert re.search(r"│ Work +w +strict +— +1 memories", well(run("spaces", "list")))
    refused = run("memories", "add", "x", "--space-id", "nowhere")
    assert (refused.code, "[write_space_unavailable" in refused.err) == (1, True)
    assert well(run("memories", "move", "m", "--to-space", "default", "--force")).startswith(
        "Moved memories: 1"
    )
    assert ask.listed() == ["m"]


def test_it_corrects_history_by_preview_and_plan(nmem):
    ask, run = nmem()
    for name in ("a", "b"):
        ask.add(name, id=name)
    ask.post("/memories/a/supersede", {"newer_memory_id": "b"})
    revise = ("memories", "evolves", "revise", "a", "b", "--decision", "keep-memory", "--authoritative", "a")
    plan = re.search(r"--apply-plan (\S+)", well(run(*revise)))[1]
    assert ask.listed() == ["b"]
    well(run(*revise, "--apply-plan", plan))
    assert ask.listed() == ["a"]
    protected = run("memories", "supersede", "a", "b")
    assert (protected.code, "[reviewed_pair_protected" in protected.err) == (1, True)


def test_it_sends_its_key_and_is_told_without(nmem):
    ask, run = nmem(key="nmem_right", api_key="nmem_right")
    well(run("memories", "add", "x"))
    headers = ask.server.requests[0].request.headers
    assert (headers["authorization"], headers["x-nmem-api-key"]) == ("Bearer nmem_right", "nmem_right")
    _, other = nmem(key="nmem_wrong", api_key="nmem_right")
    refused = other("memories", "list")
    assert refused.code == 1
    assert refused.err


@pytest.mark.parametrize(
    "what", ["html", "drop", "cut", "truncated", "hawdb_search_admission_busy", "internal"]
)
def test_it_reports_what_breaks(nmem, what):
    ask, run = nmem()
    ask.server.fail("GET /memories*", what, times=None)
    broken = run("memories", "search", "x")
    assert (broken.code, broken.out) == (1, "")
    assert broken.err.startswith("error: ")


def test_an_empty_success_is_taken_for_one(nmem):
    ask, run = nmem()
    ask.server.fail("POST /memories", "empty")
    done = run("--json", "memories", "add", "x")
    assert (done.code, done.json["success"], done.json["id"]) == (0, True, "")
    assert ask.listed() == []
