"""What goes wrong at the upstream, at the client or in the memory: the others see it as it is, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket

import httpx2
import pytest

from rawthink_chat.proxy import client as client_module
from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.errors import BackendUnavailable
from rawthink_core.memory import Memory
from rawthink_core.recall import MAX_ABANDONED, Recaller

from .conftest import QUESTION, asking, until
from .upstreams import STREAM, answer, chunk, chunked, completion, event, events, saying, streaming

pytestmark = pytest.mark.asyncio

GOOD = b"".join(events("On Tuesday."))
SSE = "text/event-stream"
ODD = {  # what an upstream sends, and how many turns of it are kept
    "an error": (
        answer({"error": {"message": "slow down"}}, "429 Too Many", "application/json", "Retry-After: 3"),
        0,
    ),
    "a fault": (answer(b"<html>oops", "500 Internal Server Error", "text/html"), 0),
    "a page": (answer(b"<html>log in</html>", "200 OK", "text/html"), 0),
    "broken JSON": (answer(b'{"choices": [{"message"'), 0),
    "no UTF-8": (answer(b'{"a": "\xff"}'), 0),
    "other JSON": (answer([1, 2]), 0),
    "nothing": (answer(b""), 0),
    "no events": (answer(b"data: {oops\n\ndata\n\n:\n\n\n\nevent: x\n\n", "200 OK", SSE), 0),
    "an error in a stream": (answer(event({"error": {"message": "x"}}), "200 OK", SSE), 0),
    "the end twice": (answer(GOOD + event("[DONE]"), "200 OK", SSE), 1),
    "no end mark": (answer(GOOD.removesuffix(event("[DONE]")), "200 OK", SSE), 1),
    "no finish": (answer(b"".join(events("On", finish=None)), "200 OK", SSE), 0),
    "other line ends": (answer(GOOD.replace(b"\n", b"\r\n"), "200 OK", SSE), 1),
}


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_answer_goes_through_as_it_is(chatting, name):
    data, kept = ODD[name]
    async with chatting(saying(data)) as (_, proxy), proxy.client() as client:
        reply = await client.post("/chat/completions", json=asking(stream=True))
        head, _, body = data.partition(b"\r\n\r\n")
        assert reply.content == body
        assert reply.status_code == int(head.split(b" ")[1])
        assert reply.headers.get("retry-after") == ("3" if b"Retry-After" in head else None)
        assert len(await proxy.turns()) == kept


@pytest.mark.parametrize("cut", [1, 40, len(GOOD) // 2])
async def test_an_answer_that_breaks_off_breaks_off_for_the_client_too(chatting, cut):
    async def script(asked, writer):
        writer.write(STREAM + chunked(GOOD[:cut]))
        await writer.drain()
        return "close"

    async with chatting(script) as (_, proxy), proxy.client() as client:
        come = b""
        async with client.stream("POST", "/chat/completions", json=asking(stream=True)) as reply:
            pieces = reply.aiter_raw()
            while len(come) < cut:
                come += await anext(pieces)
            with pytest.raises(httpx2.RemoteProtocolError):
                await anext(pieces)
        assert come == GOOD[:cut]
        assert await proxy.turns() == []


async def test_an_upstream_that_is_not_there_is_told_with_what_to_do(running):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with running(f"http://127.0.0.1:{port}/v1") as proxy, proxy.client() as client:
        for call in (client.post("/chat/completions", json=asking()), client.get("/models")):
            reply = await call
            assert reply.status_code == 502
            assert "--upstream" in reply.json()["error"]["message"]


async def test_an_upstream_that_hangs_up_at_once_is_told(chatting):
    async def script(asked, writer):
        return "close"

    async with chatting(script) as (up, proxy), proxy.client() as client:
        reply = await client.post("/chat/completions", json=asking())
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_unreachable")
        up.script = saying(b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n")
        assert (await client.get("/models")).json()["error"]["code"] == "bad_upstream"


# --- the client ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_client_that_leaves_is_followed_by_the_upstreams_connection_once(chatting, path, begun):
    async def script(asked, writer):
        if begun:
            writer.write(STREAM + chunked(event(chunk({"content": "On"}))))
            await writer.drain()
        await asyncio.sleep(60)

    async with chatting(script) as (up, proxy):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        body = json.dumps(asking(stream=True)).encode()
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        await (reader.readuntil(b"On") if begun else until(lambda: up.asked))
        writer.close()
        await until(lambda: up.closed)
        await until(lambda: not proxy.proxy.running)
        assert (up.closed, up.connections) == (1, 1)
        assert await proxy.turns() == []


async def test_a_client_may_leave_when_it_has_read_the_end(chatting):
    """Many close as soon as they have seen ``[DONE]``, whatever still comes."""

    async def script(asked, writer):
        writer.write(STREAM + chunked(GOOD))
        await writer.drain()
        await asyncio.sleep(60)

    async with chatting(script) as (_, proxy):
        body = json.dumps(asking(stream=True)).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        await proxy.raw(head.encode() + body, until=b"[DONE]\n\n")
        await until(lambda: not proxy.proxy.running)
        assert await proxy.turns() == [f"[user] {QUESTION}\n[me] On Tuesday."]


async def test_an_answer_that_was_sent_whole_is_kept_however_long_its_upstream_takes_to_close(
    chatting, monkeypatch, caplog
):
    close = httpx2.Response.aclose

    async def slowly(response):
        await asyncio.sleep(0.02)
        await close(response)

    monkeypatch.setattr(httpx2.Response, "aclose", slowly)
    caplog.set_level("INFO", "rawthink.proxy")
    async with chatting(saying(answer(completion("Yes.")))) as (_, proxy), proxy.client() as client:
        await client.post("/chat/completions", json=asking())
        await until(lambda: not proxy.proxy.running)
    assert re.search(r"POST /v1/chat/completions 200 \d+ ms; kept; recalled 1 memory", caplog.text)


async def test_a_client_that_leaves_in_its_own_body_leaves_nothing_behind(chatting):
    async with chatting(saying(answer({}))) as (up, proxy):
        for path in ("/v1/chat/completions", "/v1/files"):
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(
                f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf".encode()
            )
            await writer.drain()
            await until(lambda: proxy.proxy.running)
            writer.close()
            await until(lambda: not proxy.proxy.running)
        assert up.asked == []


async def test_bounds_are_kept_and_told(chatting, monkeypatch):
    going = asyncio.Event()

    async def script(asked, writer):
        await going.wait()
        writer.write(answer({}))

    async with chatting(script, limit=1 << 20, most=2) as (up, proxy), proxy.client() as client:
        for body in ({"content": b"x" * (1 << 20) + b"y"}, {"content": _pieces(2 << 20)}):
            reply = await client.post("/chat/completions", **body)
            assert (reply.status_code, reply.json()["error"]["code"]) == (413, "body_too_large")
        assert up.asked == []
        waiting = [asyncio.create_task(client.get("/models")) for _ in range(2)]
        await until(lambda: proxy.proxy.running == 2)
        reply = await client.get("/models")
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        going.set()
        assert [(await one).status_code for one in waiting] == [200, 200]
        monkeypatch.setattr(client_module, "PIECE_SECONDS", 0.05)
        reply = await proxy.raw(
            b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf"
        )
        assert reply.startswith(b"HTTP/1.1 408 ")


async def test_the_bodies_of_all_requests_are_bounded_together(chatting):
    async def half():
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        writer.write(b"x" * 999)
        return writer

    async with chatting(saying(answer({})), limit=1000) as (_, proxy), proxy.client() as client:
        room = proxy.proxy._room
        halves = [await half() for _ in range(16)]
        await until(lambda: room._left == 16)
        reply = await client.post("/chat/completions", content=b"y" * 17)
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "too_much_at_once")
        for writer in halves:
            writer.close()
        await until(lambda: room._left == 16_000)
        assert (await client.post("/chat/completions", content=b"y" * 17)).status_code == 200
        await until(lambda: room._left == 16_000)


async def _pieces(size):
    for _ in range(size // 65_536):
        yield b"x" * 65_536


async def test_a_connection_that_says_nothing_is_closed(chatting, monkeypatch):
    monkeypatch.setattr("rawthink_chat.proxy.server.HEADER_SECONDS", 0.05)
    async with chatting(saying(answer({}))) as (_, proxy):
        assert await proxy.raw(b"") == b""
        assert await proxy.raw(b"GET /v1/models HTTP/1.1\r\nHost: loc") == b""
        reply = await proxy.raw(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1/mo")
        assert reply.count(b"HTTP/1.1 200") == 1


# --- the memory ---------------------------------------------------------------------------------


class Ill(ReferenceProvider):
    """A store that hangs or fails."""

    hangs = False

    async def on_before_chat(self, request):
        if self.hangs:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            await asyncio.sleep(0.05)  # a call that is cancelled may take its time
        raise BackendUnavailable("the store is down")

    async def on_after_chat(self, request):
        raise BackendUnavailable("the store is down")


@pytest.mark.parametrize("hangs", [False, True])
async def test_an_ill_memory_changes_no_byte_and_costs_no_more_than_its_deadline(chatting, world, hangs):
    def build():
        provider = Ill(world)
        provider.hangs = hangs
        return Memory(provider, recaller=Recaller(0.05))

    body = json.dumps(asking(stream=True)).encode()
    loop = asyncio.get_running_loop()
    async with chatting(streaming(events("Yes.")), build=build) as (up, proxy), proxy.client() as client:
        times = []
        for _ in range(MAX_ABANDONED + 3):
            began = loop.time()
            reply = await client.post("/chat/completions", content=body)
            times.append(loop.time() - began)
            assert reply.content == b"".join(events("Yes."))
            assert "degraded=" in reply.headers["x-rawthink-recall"]
        assert {asked.body for asked in up.asked} == {body}
        assert max(times) < 10  # where the store hangs for a minute
        assert ("asking again in" in reply.headers["x-rawthink-recall"]) is hangs  # without asking it


async def test_a_store_that_can_not_be_opened_is_tried_again_while_chats_go_on(running, world):
    from .upstreams import upstream

    down = True

    class Down(ReferenceProvider):
        async def open(self):
            if down:
                raise BackendUnavailable("the store is down")
            await super().open()

    made = []

    def build():
        made.append(Memory(Down(world)))
        return made[-1]

    body = json.dumps(asking()).encode()
    async with (
        upstream(saying(answer(completion("Yes.")))) as up,
        running(up.address, build=build, patience=0.02, pause=0.05) as proxy,
        proxy.client() as client,
    ):
        reply = await client.post("/chat/completions", content=body)
        assert up.asked[0].body == body
        assert "can't be opened" in reply.headers["x-rawthink-recall"]
        down = False
        await until(lambda: proxy.house.chat is not None)
        await client.post("/chat/completions", content=body)
        await made[-1].flush()
        assert len((await made[-1].scan(items=["passage"])).items) == 1
