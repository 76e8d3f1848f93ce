"""A request leads below the upstream's address and nowhere else; what is no HTTP leads nowhere."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_chat.proxy.faults import Refused
from rawthink_chat.proxy.targets import checked_path, path_below
from rawthink_chat.proxy.upstream import Upstream

from .upstreams import answer, saying

BAD = [
    "http://evil.example/v1/models", "https://evil.example", "//evil.example/v1/models", "@evil.example/v1",
    "*", "evil.example:443", "/v1/../admin", "/v1/..", "/v1/./models", "/v1/%2e%2e/admin", "/v1/.%2E/admin",
    "/v1/%252e%252e/admin", "/v1/..;/admin", "/v1/..%2fadmin", "/v1/..%5cadmin", "/v1/\\evil.example",
    "/v1/%5c..%5cx", "/v1/a%00b", "/v1/a%0d%0aX:1", "/v1/a#b", "/v1/%25252525252e", "/v1/a\x01b", "/v1/a b",
    "/v1/%7f", "/v1/é",
]  # fmt: skip
GOOD = [
    "/v1/models",
    "/v1",
    "/v1/models/@cf/meta",
    "/v1/a%2Fb",
    "/v1/a..b/...",
    "/v1/%E4%BD%A0",
    "/v1//x",
    "/v1/a;b=1",
]


@pytest.mark.parametrize("path", BAD)
def test_what_could_lead_elsewhere_is_refused(path):
    with pytest.raises(Refused) as refused:
        checked_path(path.encode("latin-1"))
    assert refused.value.status == 400


@pytest.mark.parametrize("path", GOOD)
def test_a_path_stays_as_it_is(path):
    assert checked_path(path.encode()) == path
    assert path_below(path, "/up/v9") == "/up/v9" + path.removeprefix("/v1")


@pytest.mark.parametrize("path", ["/", "/v2/models", "/v1x/models", "/up/v9/models"])
def test_what_is_not_below_v1_is_not_there(path):
    with pytest.raises(Refused, match="/v1") as refused:
        path_below(path, "/up/v9")
    assert refused.value.status == 404
    assert path_below(path, "") == path


UP = Upstream("http://api.example:8080/up/v9")


@given(
    st.text(st.characters(max_codepoint=0xFF), max_size=12),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=12),
)
def test_whatever_the_target_only_the_upstream_is_asked(path, query):
    with suppress(Refused):
        url = UP.url(checked_path(f"/v1{path}".encode("latin-1")), query.encode())
        assert (url.scheme, url.host, url.port, url.userinfo) == ("http", "api.example", 8080, b"")
        assert url.raw_path == b"/up/v9" + path.encode("latin-1") + (b"?" + query.encode() if query else b"")


HEAD = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
SMUGGLED = "GET /v1/admin HTTP/1.1\r\nHost: localhost\r\n\r\n"
NO_HTTP = {
    "both lengths": f"{HEAD}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "two lengths": f"{HEAD}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd{SMUGGLED}",
    "a list of lengths": f"{HEAD}Content-Length: 4, 5\r\n\r\nabcd{SMUGGLED}",
    "a signed length": f"{HEAD}Content-Length: +4\r\n\r\nabcd{SMUGGLED}",
    "two codings": f"{HEAD}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "another coding": f"{HEAD}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "a coding behind a tab": f"{HEAD}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "a blank before the colon": f"{HEAD}Content-Length : 4\r\n\r\nabcd{SMUGGLED}",
    "a bad name": f"{HEAD}X(a): 1\r\n\r\n{SMUGGLED}",
    "a NUL": f"{HEAD}X-A: a\x00b\r\n\r\n{SMUGGLED}",
    "a bare CR": f"{HEAD}X-A: a\rContent-Length: 4\r\n\r\n{SMUGGLED}",
    "no host": "GET /v1/models HTTP/1.1\r\n\r\n",
    "two hosts": f"{HEAD}Host: localhost\r\n\r\n{SMUGGLED}",
    "a bad chunk": f"{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n{SMUGGLED}",
    "a folded first line": "GET /v1/models\r\n HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "too many headers": f"{HEAD}" + "X-A: aaaaaaaaaaaaaaaa\r\n" * 4000 + "\r\n",
    "no HTTP at all": "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "a whole URL": "GET http://127.0.0.1/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tunnel": "CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.asyncio
async def test_what_is_no_request_leads_nowhere_and_nothing_behind_it_is_read(chatting):
    async with chatting(saying(answer({}))) as (up, proxy):
        for name, data in NO_HTTP.items():
            reply = await proxy.raw(data.encode("latin-1"))
            assert int(reply.split(b" ")[1]) in (400, 403, 431, 501), name
            assert reply.count(b"HTTP/1.1 ") == 1, name
            assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"]["message"], name
        assert [(asked.method, asked.target) for asked in up.asked] == []


@pytest.mark.asyncio
async def test_a_request_that_says_its_length_twice_or_folds_a_header_goes_on_with_one_meaning(chatting):
    async with chatting(saying(answer({}))) as (up, proxy):
        await proxy.raw(
            f"{HEAD}Content-Length: 4\r\nContent-Length: 4\r\nX-A: a\r\n b\r\nConnection: close\r\n\r\nabcd".encode()
        )
        [asked] = up.asked
        assert (asked.values("content-length"), asked.values("x-a"), asked.body) == (["4"], ["a b"], b"abcd")


@pytest.mark.asyncio
async def test_websockets_are_refused_in_words(chatting):
    async with chatting(saying(answer({}))) as (up, proxy):
        reply = await proxy.raw(
            b"GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        assert reply.startswith(b"HTTP/1.1 501 ")
        assert b"websockets are not passed on" in reply
        assert up.asked == []
