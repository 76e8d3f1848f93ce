"""Who may come in, and into which memory."""

from __future__ import annotations

import hashlib

import pytest

from rawthink_core.hosting import TokenSettings

from .conftest import asking
from .upstreams import answer, completion, saying

pytestmark = pytest.mark.asyncio


def token(text, **more):
    return TokenSettings(sha256=hashlib.sha256(text.encode()).hexdigest(), **more)


TOKENS = {"ana": token("t-ana", space="ana"), "bo": token("t-bo", space="bo", read_only=True)}
YES = answer(completion("Yes."))


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        ({"X-RAWThink-Token": "t-ana", "Authorization": "Bearer sk-1"}, {"authorization": "Bearer sk-1"}),
        ({"Authorization": "Bearer rawthink-t-ana:sk-1"}, {"authorization": "Bearer sk-1"}),
        ({"Authorization": "bearer rawthink-t-ana:rawthink-x:y"}, {"authorization": "bearer rawthink-x:y"}),
        ({"Authorization": "Bearer rawthink-t-ana:"}, {}),
        ({"Authorization": "Bearer rawthink-t-ana"}, {}),
        ({"api-key": "rawthink-t-ana:az"}, {"api-key": "az"}),
        (
            {"X-RAWThink-Token": "t-ana", "Authorization": "Bearer rawthink-t-bo:k"},
            {"authorization": "Bearer k"},
        ),
    ],
)
async def test_a_token_opens_its_space_and_stays_here(chatting, sent, arrives):
    async with chatting(saying(YES), tokens=TOKENS) as (up, proxy), proxy.client() as client:
        assert (await client.post("/chat/completions", json=asking(), headers=sent)).status_code == 200
        came = {name.lower(): value for name, value in up.asked[0].headers}
        assert {name: came[name] for name in ("authorization", "api-key") if name in came} == arrives
        assert "t-ana" not in str(up.asked[0].headers)
        assert (len(await proxy.turns("ana")), len(await proxy.turns())) == (1, 0)


@pytest.mark.parametrize(
    "sent", [{}, {"X-RAWThink-Token": "wrong"}, {"Authorization": "Bearer rawthink-no:k"}]
)
@pytest.mark.parametrize("path", ["/chat/completions", "/files"])
async def test_without_a_known_token_nothing_goes_on(chatting, sent, path):
    async with chatting(saying(YES), tokens=TOKENS) as (up, proxy), proxy.client() as client:
        reply = await client.post(path, json=asking(), headers=sent)
        assert reply.status_code == 401
        assert reply.json()["error"]["code"] == "invalid_token"
        assert "X-RAWThink-Token" in reply.json()["error"]["message"]
        assert up.asked == []


async def test_a_token_that_only_reads_recalls_but_keeps_nothing(chatting):
    async with chatting(saying(YES), tokens=TOKENS) as (up, proxy), proxy.client() as client:
        await proxy.memory.in_space("bo").record(passages=[{"text": "deploys go out late", "session": "s"}])
        own = {"X-RAWThink-Token": "t-bo", "X-RAWThink-Remember": "on"}
        await client.post("/chat/completions", json=asking(), headers=own)
        assert b"late" in up.asked[0].body
        assert b"Tuesday" not in up.asked[0].body
        assert len(await proxy.turns("bo")) == 1


async def test_a_space_by_header_counts_only_where_there_are_no_tokens(chatting):
    async with chatting(saying(YES)) as (_, proxy), proxy.client() as client:
        await client.post("/chat/completions", json=asking(), headers={"X-RAWThink-Space": "other"})
        assert (len(await proxy.turns("other")), len(await proxy.turns())) == (1, 0)
    async with chatting(saying(YES), tokens=TOKENS) as (up, proxy), proxy.client() as client:
        own = {"X-RAWThink-Space": "ana", "X-RAWThink-Token": "t-ana"}
        reply = await client.post("/chat/completions", json=asking(), headers=own)
        assert (reply.status_code, reply.json()["error"]["code"], up.asked) == (403, "space_by_header", [])


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Host: localhost", 200), ("Host: 127.0.0.1:9", 200), ("Host: [::1]:9", 200), ("Host: Gate.Example:80", 200),
        ("Host: app.localhost", 200), ("Host: evil.example", 403), ("Host: 127.0.0.1.evil.example", 403),
        ("Host: evil@localhost", 403), ("Host: ", 403), ("Host: localhost\r\nOrigin: http://localhost:3000", 200),
        ("Host: localhost\r\nOrigin: https://gate.example", 200), ("Host: localhost\r\nOrigin: null", 403),
        ("Host: localhost\r\nOrigin: https://evil.example", 403),
        ("Host: localhost\r\nOrigin: file://localhost", 403),
    ],
)  # fmt: skip
async def test_only_names_of_this_machine_and_known_ones_lead_here(chatting, header, status):
    async with chatting(saying(YES), names=("gate.example",)) as (up, proxy):
        reply = await proxy.raw(f"GET /v1/models HTTP/1.1\r\n{header}\r\nConnection: close\r\n\r\n".encode())
        assert int(reply.split(b" ")[1]) == status
        assert len(up.asked) == (status == 200)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"X-RAWThink-Sesion": "s"}, "X-RAWThink-Session"),
        ({"X-RAWThink-Remember": "maybe"}, "yes, no, off, on"),
        ({"X-RAWThink-Session": b"\xff"}, "UTF-8"),
    ],
)
async def test_a_header_of_ours_that_can_not_be_meant_is_refused(chatting, header, says):
    async with chatting(saying(YES)) as (up, proxy), proxy.client() as client:
        reply = await client.post("/chat/completions", json=asking(), headers=header)
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "bad_header")
        assert says in reply.json()["error"]["message"]
        assert up.asked == []
