"""Behaviours 27 and 29 to 31: who may ask, and everything that goes wrong between two machines."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import httpx2
import pytest

from rawthink_nowledge_emulator import CODES, PAGES, WAYS

from .asking import detail

MISSING = "Missing API key (use Authorization: Bearer <key> or X-NMEM-API-Key)"
SHORT = 0.2


def test_b27_access(start):
    ask = start(api_key="nmem_right", start=datetime(2026, 1, 1, tzinfo=UTC))

    def status(path="/stats", **headers):
        return ask.http.get(path, headers=headers).status_code

    answer = ask.get("/stats")
    assert (answer.status_code, detail(answer)) == (401, MISSING)
    answer = ask.http.get("/stats", headers={"x-nmem-api-key": "nmem_wrong"})
    assert (answer.status_code, detail(answer)) == (401, "Invalid API key")
    right = {"authorization": "Bearer nmem_right"}
    assert status(**right) == status(**{"x-nmem-api-key": "nmem_right"}) == 200
    for path in ("/livez", "/health", "/capabilities"):
        assert status(path) == 200
    assert status("/app/index.html") == 404  # exempt, and not there
    assert ask.http.get("/stats", params={"nmem_api_key": "nmem_right"}).status_code == 401
    wrong = {"authorization": "Bearer nmem_wrong"}
    assert [status(**wrong) for _ in range(9)] == [401] * 8 + [429]
    answer = ask.get("/stats")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "600")
    assert status(**right) == 200
    assert status(**wrong) == 401
    for _ in range(8):
        status(**wrong)
    assert status(**wrong) == 429
    ask.server.advance(601)
    assert status(**wrong) == 401


def test_b29_busy(start):
    ask = start()
    ask.server.fail("GET /memories/search", "hawdb_search_admission_busy")
    answer = ask.get("/memories/search", q="x")
    assert answer.status_code == 503
    assert answer.json().keys() == {"detail", "error_code", "retryable"}
    assert answer.json()["retryable"] is True
    ask.server.fail("* /memories/search", "internal", times=2)
    for broken in (ask.get("/memories/search", q="x"), ask.post("/memories/search", {"query": "x"})):
        assert (broken.status_code, detail(broken)) == (500, "Search failed: broken on request")
    ask.server.fail("POST /memories", "internal")
    assert detail(ask.post("/memories", {"content": "x"})) == "Memory creation failed"
    assert ask.get("/memories/search", q="x").status_code == 200
    old = start("0.9")
    old.server.fail("*", "storage_admission_unavailable")
    assert old.get("/stats").json().keys() == {"detail"}


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_the_registry_can_be_met(start, code):
    ask = start()
    met = ask.server.fail("POST /memories", code)
    answer = ask.post("/memories", {"content": "x"})
    assert answer.status_code >= 400
    assert answer.json()["error_code"] == code
    assert met.met == 1
    assert bool(ask.listed()) == (code == "memory_history_search_sync_failed")


@pytest.mark.parametrize("way", ["slow", "hang", "drop", "cut"])
def test_b30_ambiguous_write(start, way):
    ask = start()
    ask.server.fail("POST /memories", way, seconds=30, applied=True)
    with pytest.raises(httpx2.TransportError):
        ask.http.post("/memories", json={"content": "x", "id": "m"}, timeout=SHORT)
    assert ask.listed() == ["m"]
    assert ask.add("x", id="m") == "m"


def test_a_late_answer_comes(start):
    ask = start()
    ask.server.fail("POST /memories", "slow", seconds=SHORT)
    began = time.monotonic()
    assert ask.add("x", id="m") == "m"
    assert time.monotonic() - began >= SHORT


@pytest.mark.parametrize(
    ("way", "error"), [("drop", httpx2.RemoteProtocolError), ("hang", httpx2.ReadTimeout)]
)
def test_what_isnt_carried_out_leaves_no_row(start, way, error):
    ask = start()
    ask.server.fail("POST /memories", way, applied=False)
    with pytest.raises(error):
        ask.http.post("/memories", json={"content": "x"}, timeout=SHORT)
    assert ask.listed() == []
    assert [(seen.line, seen.applied, seen.failure) for seen in ask.server.requests] == [
        ("POST /memories", False, way),
        ("GET /memories", True, ""),
    ]


def test_b31_broken_answers(start):
    ask = start()
    ask.add("x" * 500, id="m")
    with ask.server.down(), pytest.raises(httpx2.ConnectError):
        ask.get("/memories/m")
    assert ask.listed() == ["m"]
    ask.server.fail("GET /memories/*", "cut")
    with pytest.raises(httpx2.RemoteProtocolError):
        ask.get("/memories/m")
    ask.server.fail("GET /memories/*", "truncated")
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        ask.get("/memories/m").json()
    ask.server.fail("GET /memories/*", "chunked")
    answer = ask.get("/memories/m")
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.json()["id"] == "m"
    for page, body in (
        ("empty", b""),
        ("object", b"{}"),
        ("list", b"[]"),
        ("null", b"null"),
        ("no_json", b"ok"),
    ):
        ask.server.fail("GET /memories/*", page)
        answer = ask.get("/memories/m")
        assert (answer.status_code, answer.content) == (200, body)
    ask.server.fail("GET /memories/*", "html")
    assert ask.get("/memories/m").headers["content-type"].startswith("text/html")
    assert ask.get("/memories/m").json()["id"] == "m"


@pytest.mark.parametrize("page", PAGES)
def test_every_page_can_be_met_and_nothing_is_written(start, page):
    ask = start()
    ask.server.fail("POST /memories", page)
    answer = ask.post("/memories", {"content": "x"})
    assert answer.content == PAGES[page].body
    assert answer.status_code == PAGES[page].status
    assert ask.listed() == []


def test_a_failure_of_ones_own_meets_the_requests_it_says(start):
    ask = start()
    met = ask.server.fail(
        "PATCH /memories/*", 429, body={"detail": "slow down"}, headers={"retry-after": "3"}, after=1, times=2
    )
    ask.add("x", id="m")
    answers = [ask.patch("/memories/m", title="y") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 429, 429, 200]
    assert answers[1].headers["retry-after"] == "3"
    assert met.met == 2
    ask.server.fail("*", 502, body="bad gateway", times=None)
    assert [ask.get("/stats").text for _ in range(3)] == ["bad gateway"] * 3
    ask.server.heal()
    assert ask.get("/stats").status_code == 200
    with pytest.raises(ValueError, match="no such failure: 'flood'"):
        ask.server.fail("*", "flood")


def test_what_hangs_is_let_go_of(start):
    ask = start()
    ask.server.fail("POST /memories", "hang", applied=True)
    ask.server.fail("DELETE /memories/m", "hang", applied=False)
    with ThreadPoolExecutor(2) as threads:
        created = threads.submit(ask.add, "x", id="m")
        deleted = threads.submit(ask.delete, "/memories/m")
        while len(ask.server.requests) < 2:
            time.sleep(0.01)
        ask.server.heal()
        assert created.result() == "m"
        with pytest.raises(httpx2.RemoteProtocolError):
            deleted.result()
    assert ask.listed() == ["m"]


def test_an_emulator_with_hanging_requests_ends_at_once(start):
    ask = start()
    ask.server.fail("*", "hang", times=None)
    with pytest.raises(httpx2.ReadTimeout):
        ask.http.get("/stats", timeout=SHORT)
    began = time.monotonic()
    ask.server.stop()
    assert time.monotonic() - began < 5
    with pytest.raises(httpx2.ConnectError):
        ask.get("/stats")


def test_a_body_too_large_is_refused(start):
    ask = start(largest=1000)
    answer = ask.post("/memories", {"content": "x" * 2000})
    assert answer.status_code == 413
    with pytest.raises(ValueError, match="Expecting value"):
        answer.json()
    chunks = (b"x" * 100_000 for _ in range(50))
    answer = ask.http.post("/memories", content=chunks, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert ask.add("small")


def test_ways_say_whether_the_request_is_carried_out():
    assert {way for way, applied in WAYS.items() if not applied} == {"drop", "hang", "internal"}
