"""All that is no chat goes through as it is: method, path, query, headers and bytes, both ways."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from .conftest import asking
from .upstreams import answer, saying

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/models"),
        ("GET", "/v1/models/@cf/meta%2Fllama-3?limit=2&after=a%20b&x[]=1"),
        ("DELETE", "/v1/files/file-1"),
        ("PATCH", "/v1/odd//path/?"),
        ("GET", "/v1/chat/completions"),
        ("POST", "/v1/responses/r1/cancel"),
    ],
)
async def test_method_path_and_query_stay_as_they_are(chatting, method, target):
    async with chatting(saying(answer({"object": "list"}))) as (up, proxy):
        request = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        reply = await proxy.raw(request.encode())
        assert reply.endswith(b'{"object": "list"}')
        assert (up.asked[0].method, up.asked[0].target) == (method, target.removesuffix("?"))
        assert b"x-rawthink" not in reply


async def test_headers_go_through_but_those_of_one_connection(chatting):
    script = saying(
        b"HTTP/1.1 418 I'm a teapot\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Request-Id: r\r\n"
        b"Keep-Alive: timeout=5\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-RAWThink-Recall: forged\r\n"
        b"X-Latin: caf\xe9\r\nContent-Length: 2\r\n\r\nhi"
    )
    async with chatting(script) as (up, proxy):
        reply = await proxy.raw(
            b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nX-Two: a\r\n"
            b"X-Two: b\r\nTE: trailers\r\nProxy-Authorization: Basic eA==\r\nX-RAWThink-Session: s\r\n"
            b"Cookie: c=1\r\nOpenAI-Organization: caf\xe9\r\n\r\n"
        )
        head, _, body = reply.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        assert lines[0].startswith(b"HTTP/1.1 418 ")
        assert lines[1:] == [
            b"set-cookie: a=1", b"set-cookie: b=2", b"x-request-id: r", b"x-latin: caf\xe9", b"content-length: 2",
            b"Connection: close",
        ]  # fmt: skip
        assert body == b"hi"
        sent = {(name.lower(), value) for name, value in up.asked[0].headers}
        assert sent == {
            ("host", f"127.0.0.1:{up.port}"), ("x-two", "a"), ("x-two", "b"), ("cookie", "c=1"),
            ("openai-organization", "caf\xe9"),
        }  # fmt: skip
        await proxy.raw(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert up.asked[1].values("cookie") == []  # nobody's cookies are kept here


async def test_a_body_streams_up_and_a_packed_answer_comes_down_as_it_is(chatting):
    packed = gzip.compress(b"x" * 100_000)
    script = saying(answer(packed, "200 OK", "audio/mpeg", "Content-Encoding: gzip"))

    async def upload():
        for n in range(40):
            yield b"%d" % n * 50_000

    async with chatting(script, limit=1000) as (up, proxy), proxy.client() as client:
        async with client.stream("POST", "/files", content=upload()) as reply:
            assert reply.headers["content-encoding"] == "gzip"
            assert b"".join([piece async for piece in reply.aiter_raw()]) == packed
        assert up.asked[0].body == b"".join([piece async for piece in upload()])
        assert up.asked[0].values("transfer-encoding") == ["chunked"]
        await client.post("/audio/speech", content=b"y" * 300_000)
        assert up.asked[1].values("content-length") == ["300000"]


async def test_an_answer_before_the_end_of_a_body_reaches_the_client(chatting):
    async def script(asked, writer):
        writer.write(answer({"error": {}}, "413 Too Large"))
        await writer.drain()
        return "close"

    async with chatting(script) as (up, proxy), proxy.client() as client:
        up.reads = False
        reply = await client.post("/files", content=b"z" * 8_000_000)
        assert reply.status_code in (413, 502)  # the upstream may reset the connection before we have read


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("{up}/files/2?x=1", "/v1/files/2?x=1"),
        ("/v1/files/2", "/v1/files/2"),
        ("files/2", "files/2"),
        ("https://elsewhere.example/x", "https://elsewhere.example/x"),
        ("{up}2/x", "{up}2/x"),
    ],
)
async def test_a_redirect_is_the_clients_and_leads_it_back_here(chatting, location, told):
    async def script(asked, writer):
        writer.write(
            answer(b"", "307 Temporary Redirect", "text/plain", f"Location: {location.format(up=up.address)}")
        )

    async with chatting(script) as (up, proxy), proxy.client() as client:
        for call in (client.get("/files/1"), client.post("/chat/completions", json=asking())):
            reply = await call
            assert reply.status_code == 307
            assert reply.headers["location"] == told.format(up=up.address)
        assert len(up.asked) == 2


async def test_a_connection_is_used_again_and_an_answer_without_body_ends(chatting):
    async with chatting(saying(b"HTTP/1.1 204 No Content\r\n\r\n")) as (up, proxy), proxy.client() as client:
        for _ in range(5):
            assert (await client.delete("/files/1")).status_code == 204
        assert up.connections == 1
        up.script = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        assert (await client.head("/files/1")).headers["content-length"] == "5"


async def test_an_upstream_without_a_path_gets_paths_whole(running):
    from .upstreams import upstream

    async with upstream(saying(answer({}))) as up, running(up.address.removesuffix("/v1")) as proxy:
        for path in ("/api/tags", "/v1/models"):
            await proxy.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert [asked.target for asked in up.asked] == ["/api/tags", "/v1/models"]


async def test_a_slow_reader_slows_the_upstream(chatting):
    written = 0

    async def script(asked, writer):
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nContent-Length: 200000000\r\n\r\n")
        for _ in range(2000):
            writer.write(b"m" * 100_000)
            await writer.drain()
            written += 100_000

    async with chatting(script) as (_, proxy):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port, limit=1 << 16)
        writer.write(b"GET /v1/files/1/content HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.1)
        assert 0 < written < 50_000_000
        while written < 60_000_000:
            assert await reader.read(1 << 20)
        writer.transport.abort()
