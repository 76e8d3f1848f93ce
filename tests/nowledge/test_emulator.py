"""The emulator itself: complete by its own tables, switched from outside, started as a process, and honest."""

from __future__ import annotations

import dataclasses
import http.client
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

import rawthink_nowledge_emulator
from rawthink_nowledge_emulator import ASSUMED, BEHAVIOURS, GENERATIONS, JOBS, PAGES, PROFILES, WAYS, Emulator
from rawthink_nowledge_emulator.behaviours import Behaviour
from rawthink_nowledge_emulator.control import SWITCHES
from rawthink_nowledge_emulator.service import NOT_EMULATED, ROUTES

from .asking import detail

HERE = Path(__file__).parent
PACKAGE = Path(rawthink_nowledge_emulator.__file__).parent


def test_every_behaviour_has_its_test_and_every_such_test_its_behaviour():
    assert [behaviour.number for behaviour in BEHAVIOURS] == list(range(1, 34))
    tests = [
        found
        for path in sorted(HERE.glob("test_emulated_*.py"))
        for found in re.findall(r"^def test_b(\d\d)_(\w+)\(", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted((int(number), name) for number, name in tests) == [one[:2] for one in BEHAVIOURS]
    assert all(one.sentence.endswith(".") for one in BEHAVIOURS)
    assert isinstance(BEHAVIOURS[0], Behaviour)


def test_profiles_differ_in_what_is_data():
    fields = [field.name for field in dataclasses.fields(PROFILES["0.6.6"])]
    for name in fields:
        assert len({repr(getattr(profile, name)) for profile in PROFILES.values()}) > 1, name
    assert {name: profile.version for name, profile in GENERATIONS.items()} == {
        "0.6": "0.6.6",
        "0.9": "0.9.15",
        "0.10": "0.10.109",
    }
    with pytest.raises(ValueError, match=r"unknown generation '1\.0': known are 0\.6"):
        Emulator("1.0")


def test_no_module_asks_for_the_version():
    for path in PACKAGE.glob("*.py"):
        if path.stem not in ("profiles", "service"):
            assert not re.search(r"\.version ==|profile\.number|generation ==", path.read_text("utf-8")), (
                path.stem
            )


def test_modules_are_short():
    assert {
        path.stem: lines
        for path in PACKAGE.glob("*.py")
        if (lines := len(path.read_text("utf-8").splitlines())) > 320
    } == {}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_health_tells_the_servers_version_and_openapi_another(start, generation):
    ask = start(generation)
    health = ask.get("/health").json()
    assert health["version"] == GENERATIONS[generation].version
    assert ask.get("/health/details").status_code == (200 if generation == "0.10" else 404)
    described = ask.get("/openapi.json").json()
    assert described["info"]["version"] != health["version"]
    assert "get" not in described["paths"]["/memories/search"]
    assert ("/memories/{id}/relations" in described["paths"]) == (generation != "0.6")


def test_what_isnt_emulated_says_so(start):
    ask = start()
    for path in NOT_EMULATED:
        concrete = path.replace("*", "x")
        answer = ask.post(concrete)
        assert answer.status_code == 501, concrete
        assert detail(answer).startswith("rawthink_nowledge_emulator doesn't emulate")


def test_no_two_routes_are_one():
    known = [(route.method, re.sub(r"\{\w+\}", "{}", route.path)) for route in ROUTES]
    assert len(set(known)) == len(known)


def test_statistics_count_rows(start):
    ask = start()
    ask.add("a", id="a", labels=["x", "y"])
    ask.add("b", id="b")
    ask.post("/memories/a/supersede", {"newer_memory_id": "b"})
    ask.post("/threads", {"thread_id": "t", "messages": []})
    told = ask.get("/stats").json()
    assert (told["memory_count"], told["label_count"], told["thread_count"]) == (2, 2, 1)
    assert told["total_relationships"] == 1


def test_requests_are_kept_as_they_came(start):
    ask = start()
    ask.http.post("/memories?x=1", json={"content": "é"}, headers={"X-Mine": "1"})
    (seen,) = ask.server.requests
    assert (seen.line, seen.status, seen.applied, seen.json()) == (
        "POST /memories",
        200,
        True,
        {"content": "é"},
    )
    assert (seen.request.query, seen.request.headers["x-mine"]) == ((("x", "1"),), "1")
    ask.server.reset()
    assert ask.server.requests == []
    assert ask.listed() == []


def test_a_connection_is_kept_and_a_chunked_body_is_read(start):
    ask = start()
    connection = http.client.HTTPConnection(ask.server.url.removeprefix("http://"), timeout=10)
    try:
        for number in range(3):
            body = iter([b'{"content": ', b'"chunked"}'])
            headers = {"content-type": "application/json"}
            connection.request("POST", "/memories", body=body, headers=headers, encode_chunked=True)
            connection.sock.settimeout(10)
            kept = connection.sock
            with connection.getresponse() as answer:
                assert answer.status == 200
                answer.read()
            assert connection.sock is kept, number
    finally:
        connection.close()
    assert len(ask.listed()) == 3


def test_nonsense_on_the_wire_is_refused_and_hurts_nobody(start):
    ask = start()
    connection = http.client.HTTPConnection(ask.server.url.removeprefix("http://"), timeout=10)
    try:
        connection.connect()
        connection.sock.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        assert connection.sock.recv(4096).startswith(b"HTTP/1.1 400 ")
    finally:
        connection.close()
    assert ask.get("/livez").json() == {"status": "ok"}


def test_rows_survive_a_restart_on_the_same_port(start):
    ask = start()
    ask.add("x", id="m")
    url = ask.server.url
    ask.server.stop()
    ask.server.start()
    assert ask.server.url == url
    assert ask.listed() == ["m"]


def test_a_taken_port_is_an_error(start):
    ask = start()
    port = int(ask.server.url.rpartition(":")[2])
    with pytest.raises(OSError, match=r"[Aa]ddress already in use|10048"), Emulator(port=port):
        pass


def test_a_fault_of_the_emulator_isnt_taken_for_the_servers():
    broken = Emulator()
    broken._service.apply = None
    broken.start()
    answer = httpx2.get(f"{broken.url}/stats", trust_env=False)
    assert answer.status_code == 500
    assert answer.text.startswith("the emulator broke")
    with pytest.raises(TypeError):
        broken.__exit__(None, None, None)


def test_switches_work_over_http_too(start):
    ask = start()
    control = lambda name, **said: ask.post(f"/__emulator__/{name}", said)  # noqa: E731
    assert control("fail", match="GET /stats", what=418, body={"detail": "tea"}).json() == {"done": "fail"}
    assert ask.get("/stats").status_code == 418
    control("add_space", space_id="work", mode="all")
    control("lag", never=True)
    ask.add("x", id="m", space_id="work")
    assert ask.found("x", space_id="work") == []
    control("reindex")
    assert ask.found("x", space_id="work") == ["m"]
    control("degrade", degraded=True)
    assert ask.get("/health").json()["embedding"]["degraded"]
    control("background", job="retitle", memory_id="m", title="y")
    assert ask.get("/memories/m").json()["title"] == "y"
    control("advance", seconds=7200)
    assert ask.get("/memories/m").json()["time"] == "2 hours ago"
    control("assume", forgotten_status=410)
    ask.post("/memories/m/forget")
    assert ask.get("/memories/m").status_code == 410
    shown = ask.get("/__emulator__/requests").json()
    assert shown[0]["status"] == 418
    assert {row["path"] for row in shown}.isdisjoint({"/__emulator__/lag"})
    assert ask.get("/__emulator__/assumed").json()["forgotten_status"]["value"] == 410
    assert len(ask.get("/__emulator__/behaviours").json()) == 33
    assert ask.get("/__emulator__/").json()["jobs"] == list(JOBS)
    for name, said in (
        ("fail", {"match": "*", "what": "x"}),
        ("advance", {"days": 1}),
        ("background", {"job": "x"}),
    ):
        assert control(name, **said).status_code == 400
    assert control("stop").status_code == control("_run").status_code == 404
    control("reset")
    assert ask.get("/stats").json()["memory_count"] == 0


@pytest.mark.parametrize("how", ["terminated", "parent gone"])
def test_it_runs_as_a_process(how):
    command = [sys.executable, "-m", "rawthink_nowledge_emulator", "--generation", "0.9", "--space", "work"]
    command += ["--api-key", "nmem_k"] + (["--until-stdin-closes"] if how == "parent gone" else [])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        url = process.stdout.readline().decode().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
        with httpx2.Client(base_url=url, trust_env=False) as client:
            assert client.get("/health").json()["version"] == "0.9.15"
            assert client.get("/spaces").status_code == 401
            spaces = client.get("/spaces", headers={"authorization": "Bearer nmem_k"}).json()["spaces"]
            assert [space["id"] for space in spaces] == ["default", "work"]
        if how == "terminated":
            process.terminate()
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_the_page_names_every_switch_failure_job_and_version():
    page = (HERE.parents[1] / "docs" / "nowledge-emulator.md").read_text("utf-8")
    named = {word for said in re.findall(r"`([^`\n]+)`", page) for word in re.findall(r"[\w.]+", said)}
    assert named >= {*SWITCHES, *WAYS, *PAGES, *JOBS, *PROFILES, *GENERATIONS}
    arguments = inspect.signature(Emulator).parameters
    assert set(re.findall(r"^\| `(\w+)` \| ", page, re.MULTILINE)) >= arguments.keys()
    header, *rows = (
        line.strip("| ").split(" | ")
        for line in re.findall(r"^\|.*0\.6\.6 \|.*(?:\n\|.*)+", page, re.MULTILINE)[0].split("\n")
    )
    assert header == list(PROFILES)
    assert all(len(row) == len(PROFILES) + 1 for row in rows[1:])


def test_the_page_lists_every_guess_as_it_is_used():
    page = (HERE.parents[1] / "docs" / "nowledge-emulator.md").read_text("utf-8")
    for name, guess in ASSUMED.items():
        others = ", ".join(f"`{other}`" for other in guess.others)
        row = f"| `{name}` | {guess.area} | {guess.statement} | `{guess.value}` | {others} |"
        assert row in page.splitlines()
