"""Every way in which the server can fail is an error of its own, that says what to do and shows no key."""

from __future__ import annotations

import logging
import time

import pytest

from rawthink_core.errors import (
    AuthenticationFailed,
    BackendError,
    BackendProtocolError,
    BackendTimeout,
    BackendUnavailable,
    UnknownSpace,
)
from rawthink_nowledge.faults import (
    AccessDenied,
    Conflicting,
    LimitReached,
    MemoryMissing,
    Refused,
    RouteMissing,
    ServerFailed,
    SpaceMissing,
    Throttled,
    fault_of,
    said_by,
)
from rawthink_nowledge_emulator import Emulator

from .provided import memory_on, provider_on, sent, thing

pytestmark = pytest.mark.asyncio

LIST = "GET /memories"
AXUM = "Failed to deserialize the JSON body into the target type: missing field `content` at line 1 column 22"
FASTAPI = {"detail": [{"loc": ["body", "content"], "msg": "Field required", "type": "missing"}]}

ANSWERS = [
    (400, "Failed to parse the request body as JSON", Refused, "as JSON"),
    (401, {"detail": "Invalid API key"}, AuthenticationFailed, "NMEM_API_KEY"),
    (402, {"detail": "Memory limit reached."}, LimitReached, "upgrade"),
    (403, {"detail": "Access denied by IP allowlist."}, AccessDenied, "Access Anywhere"),
    (404, {"detail": "Memory not found: x"}, MemoryMissing, "Memory not found"),
    (404, {"detail": "Not Found"}, RouteMissing, "recent enough"),
    (404, "<html>nothing here</html>", RouteMissing, "no such address"),
    (404, {"detail": "Unknown space: x"}, SpaceMissing, "providers.nowledge.spaces"),
    (409, {"detail": "Decided.", "error_code": "reviewed_pair_protected"}, Conflicting, "Decided"),
    (413, "<html>too large</html>", Refused, "413"),
    (415, "Expected request with `Content-Type: application/json`", Refused, "415"),
    (422, AXUM, Refused, "missing field `content`"),
    (422, FASTAPI, Refused, "body.content: Field required"),
    (422, {"detail": "importance must be between 0.0 and 1.0"}, Refused, "importance"),
    (429, {"detail": "Too many invalid auth attempts."}, Throttled, "Too many"),
    (500, {"detail": "Search failed: x"}, ServerFailed, "Search failed"),
    (502, "<html><h1>502 Bad Gateway</h1></html>", ServerFailed, "502"),
    (503, {"detail": "Busy.", "error_code": "storage_admission_unavailable"}, ServerFailed, "Busy"),
    (302, "", BackendProtocolError, "moved"),
    (426, {"detail": "too old"}, BackendProtocolError, "too old"),
]


@pytest.mark.parametrize(("status", "body", "kind", "words"), ANSWERS, ids=lambda value: str(value)[:24])
async def test_each_answer_has_its_error(tmp_path, status, body, kind, words):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            server.fail(LIST, status, body=body, times=None)
            with pytest.raises(BackendError if kind is not MemoryMissing else MemoryMissing) as refused:
                await memory.scan()
    assert type(refused.value) is kind
    assert words in str(refused.value)
    assert server.url in str(refused.value)
    assert "<" not in str(refused.value)


@pytest.mark.parametrize("body", ["html", "empty", "no_json", "null", "list", "object"])
async def test_a_success_of_another_form_is_no_empty_answer(tmp_path, body):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            server.fail(LIST, body, times=None)
            with pytest.raises(BackendProtocolError, match="listing"):
                await memory.scan()
            with pytest.raises(BackendProtocolError):
                await memory.record(entities=[thing("Redis")])


@pytest.mark.parametrize("body", ["html", "empty", "no_json", "null", "list", "object"])
async def test_a_write_that_is_confirmed_in_another_form_is_not_confirmed(tmp_path, body):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.record(entities=[thing("Redis")])
            server.fail("POST /memories", body)
            with pytest.raises(BackendProtocolError, match="a new memory"):
                await memory.record(entities=[thing("Valkey")])
            assert (await memory.get(names=["Valkey"])).missing == ("Valkey",)


async def test_an_unreachable_server_says_how_to_start_it(tmp_path):
    with Emulator() as server:
        pass
    with pytest.raises(BackendUnavailable, match="Start it, or set NMEM_API_URL"):
        async with memory_on(server, tmp_path):
            pass


async def test_another_server_is_not_taken_for_a_nowledge_mem(tmp_path):
    with Emulator() as server:
        server.fail("GET /health", "object")
        with pytest.raises(BackendProtocolError, match="not as a Nowledge Mem"):
            async with memory_on(server, tmp_path):
                pass


async def test_a_read_is_tried_once_more_and_no_oftener(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            server.fail(LIST, "bad_gateway")
            assert (await memory.scan()).items == ()
            failing = server.fail(LIST, "bad_gateway", times=None)
            with pytest.raises(ServerFailed):
                await provider_again(memory)
            assert failing.met == 2


async def provider_again(memory):
    """Ask a provider that knows nothing yet."""
    memory.provider._rooms.opened.clear()
    return await memory.scan()


async def test_it_waits_as_long_as_the_server_asks_where_that_is_within_its_time(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path, read_seconds=3) as memory:
            server.fail(LIST, 429, body={"detail": "later"}, headers={"retry-after": "1"})
            began = time.monotonic()
            assert (await memory.scan()).items == ()
            assert time.monotonic() - began >= 1
            server.fail(LIST, 429, body={"detail": "later"}, headers={"retry-after": "60"}, times=None)
            began = time.monotonic()
            with pytest.raises(Throttled, match="in 60 s"):
                await provider_again(memory)
            assert time.monotonic() - began < 1


async def test_a_write_that_was_turned_away_is_sent_again(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            await memory.record(entities=[thing("Redis")])
            turned = server.fail("POST /memories", 429, body={"detail": "busy"}, headers={"retry-after": "0"})
            await memory.record(entities=[thing("Valkey")])
            assert turned.met == 1
            assert (await memory.get(names=["Valkey"])).missing == ()


async def test_a_server_that_refused_a_key_is_not_asked_with_it_again_and_again(tmp_path, monkeypatch):
    with Emulator(api_key="nmem_right") as server:
        monkeypatch.setenv("NMEM_API_KEY", "nmem_wrong")
        provider = provider_on(server, tmp_path)
        for _ in range(12):  # eight refusals would lock this machine out
            with pytest.raises(AuthenticationFailed) as refused:
                await provider.open()
            assert "nmem_wrong" not in str(refused.value)
        health = await provider.health()
        assert (health.status, health.checks[-1].name) == ("down", "key")
        assert "NMEM_API_KEY" in health.checks[-1].fix
        assert sum(seen.status == 401 for seen in server.requests) == 1
        monkeypatch.setenv("NMEM_API_KEY", "nmem_right")
        async with memory_on(server, tmp_path) as memory:
            assert (await memory.scan()).items == ()


async def test_a_key_travels_in_headers_only_and_is_never_logged(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    with Emulator(api_key="nmem_right") as server:
        async with memory_on(server, tmp_path, api_key="nmem_right") as memory:
            await memory.record(entities=[thing("Redis")])
            server.fail(LIST, 500, body={"detail": "broke with key nmem_right"}, times=None)
            assert "nmem_right" not in str((await memory.scan()).degraded)
        for seen in server.requests:
            assert "nmem_right" not in seen.request.path + repr(seen.request.query)
            assert b"nmem_right" not in seen.request.body
        assert server.requests[-1].request.headers["authorization"] == "Bearer nmem_right"
        assert server.requests[-1].request.headers["x-nmem-api-key"] == "nmem_right"
    assert "nmem_right" not in caplog.text


async def test_a_loopback_server_is_reached_past_system_proxies(tmp_path, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with Emulator() as server:
        async with memory_on(server, tmp_path) as memory:
            assert (await memory.scan()).items == ()


async def test_spaces_are_those_of_the_configuration_only(tmp_path):
    with Emulator() as server:
        server.add_space("space-of-team")
        async with memory_on(server, tmp_path, space="team", spaces={"team": "space-of-team"}) as memory:
            await memory.record(entities=[thing("Redis")])
            with pytest.raises(UnknownSpace, match=r"\[providers\.nowledge\.spaces\]"):
                await memory.in_space("Team").record(entities=[thing("Redis")])
        assert {body["space_id"] for body in sent(server, "POST /memories")} == {"space-of-team", "default"}
        assert not sent(server, "POST /spaces")


async def test_a_space_that_the_server_does_not_have_is_named(tmp_path):
    with Emulator() as server:
        async with memory_on(server, tmp_path, space="team", spaces={"team": "nowhere"}) as memory:
            with pytest.raises(SpaceMissing, match=r"providers\.nowledge\.spaces"):
                await memory.record(entities=[thing("Redis")])
            health = await memory.health()
            assert [check.detail for check in health.checks if check.status == "warn"] == [
                "the server has no Space 'nowhere'"
            ]


@pytest.mark.parametrize("way", ["hang", "drop", "cut", "truncated"])
async def test_a_broken_answer_is_an_error_in_time(tmp_path, way):
    with Emulator() as server:
        async with memory_on(server, tmp_path, read_seconds=0.5) as memory:
            server.fail(LIST, way, times=None)
            began = time.monotonic()
            with pytest.raises(BackendTimeout if way == "hang" else BackendError):
                await memory.scan()
            assert time.monotonic() - began < 2
            server.heal()
            assert (await memory.scan()).items == ()


async def test_what_a_server_says_is_shortened_and_without_the_key():
    said = said_by(b'{"detail": "' + b"long " * 100 + b'KEY"}', "KEY")
    assert len(said.detail) <= 201
    told = fault_of(500, {}, said_by(b"KEY broke", "KEY"), "a call", "http://host")
    assert "KEY" not in str(told)
