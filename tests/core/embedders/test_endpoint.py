"""A server that is down, slow, wrong or confused: what is raised, how soon, and what it tells to do."""

from __future__ import annotations

import asyncio
import datetime as dt
import email.utils
import gc
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from rawthink_core.embedders.batches import Refused
from rawthink_core.embedders.connection import is_loopback
from rawthink_core.embedders.endpoint import Cures, Endpoint, Key
from rawthink_core.errors import (
    AuthenticationFailed,
    BackendError,
    BackendProtocolError,
    BackendTimeout,
    BackendUnavailable,
)

from .servers import Asked, Reply, free_port

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Serve

CURES = Cures(start="Start it.", model="Fetch it.", key="Look at the key.")
SECRET = "sk-very-secret-0123456789"
HTML = Reply(b"<html><body>Bad Gateway</body></html>", headers={"content-type": "text/html; charset=utf-8"})


def endpoint(url: str, key: Key | None = None, connect: float = 1.0) -> Endpoint:
    return Endpoint(url, key=key or Key(), connect=connect, cures=CURES)


def test_json_comes_back_and_a_body_is_posted(serve: Serve) -> None:
    server = serve(Reply({"ok": True}))
    there = endpoint(server.url + "/")
    assert there.ask("/a", seconds=2) == {"ok": True}
    assert there.ask("/b", {"input": ["中"]}, seconds=2) == {"ok": True}
    assert server.paths() == ["/a", "/b"]
    assert server.asked[1].body == {"input": ["中"]}
    there.close()


def test_refused_is_tried_again_and_then_says_how_to_start_it() -> None:
    start = time.monotonic()
    with pytest.raises(BackendUnavailable, match=r"can't be reached .*Start it\."):
        endpoint(f"http://127.0.0.1:{free_port()}").ask("/", seconds=5, tries=2)
    assert 0.15 < time.monotonic() - start < 2


def test_a_server_that_starts_meanwhile_is_reached(serve: Serve) -> None:
    server = serve(Reply(hang_up=True), Reply({"ok": 1}))
    assert endpoint(server.url).ask("/", {}, seconds=5) == {"ok": 1}
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "reply", [Reply({}, after=30), Reply({"slow": "x" * 50}, drip=0.05)], ids=["hangs", "drips"]
)
def test_a_server_without_an_answer_is_left_in_time(serve: Serve, reply: Reply) -> None:
    there = endpoint(serve(reply).url)
    start = time.monotonic()
    with pytest.raises(BackendTimeout, match="did not answer in time"):
        there.ask("/", {}, seconds=0.4)
    assert time.monotonic() - start < 1.5


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_says_where_it_is(serve: Serve, status: int) -> None:
    server = serve(Reply({"error": {"message": "Incorrect API key"}}, status))
    with pytest.raises(AuthenticationFailed, match=r"answered 40[13]: Incorrect API key\. Look at the key\."):
        endpoint(server.url).ask("/", {}, seconds=2)
    assert len(server.asked) == 1


def test_a_missing_model_says_how_to_fetch_it(serve: Serve) -> None:
    server = serve(Reply({"error": 'model "bge-m3" not found, try pulling it first'}, 404))
    with pytest.raises(BackendUnavailable, match=r"not found, try pulling it first\. Fetch it\."):
        endpoint(server.url).ask("/", {}, seconds=2)
    with pytest.raises(BackendProtocolError, match=r"answered 404.*Is its address right"):
        endpoint(serve(Reply(b"404 page not found", 404)).url).ask("/", {}, seconds=2)


def test_too_many_requests_waits_as_asked(serve: Serve) -> None:
    server = serve(Reply({"error": "slow down"}, 429, {"retry-after": "1"}), Reply({"ok": 1}))
    start = time.monotonic()
    assert endpoint(server.url).ask("/", {}, seconds=5) == {"ok": 1}
    assert time.monotonic() - start >= 1


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_who_would_wait_too_long_is_told_at_once(serve: Serve, form: str) -> None:
    then = dt.datetime.now(tz=dt.UTC) + dt.timedelta(hours=1)
    after = "3600" if form == "seconds" else email.utils.format_datetime(then, usegmt=True)
    server = serve(Reply({"error": "quota"}, 429, {"retry-after": after}))
    start = time.monotonic()
    with pytest.raises(BackendUnavailable, match=r"429: quota; it asks to wait 3[56]\d\d s"):
        endpoint(server.url).ask("/", {}, seconds=5)
    assert time.monotonic() - start < 1
    assert len(server.asked) == 1


@pytest.mark.parametrize("after", ["soon", "-5", "nan", ""])
def test_a_strange_wait_is_none(serve: Serve, after: str) -> None:
    server = serve(Reply({}, 503, {"retry-after": after}), Reply({"ok": 1}))
    assert endpoint(server.url).ask("/", {}, seconds=5) == {"ok": 1}


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_server_in_trouble_is_tried_three_times(serve: Serve, status: int) -> None:
    server = serve(Reply(HTML.body, status, HTML.headers))
    with pytest.raises(BackendUnavailable, match=rf"answered {status}; try again later") as told:
        endpoint(server.url).ask("/", {}, seconds=5)
    assert "<" not in str(told.value)
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "said", "too_long", "tries"),
    [
        (500, "failed to encode response: json: unsupported value: NaN", False, 1),
        (500, "input is too large to process. increase the physical batch size", True, 1),
        (500, 'do embedding request: Post "http://127.0.0.1:43229/embedding": EOF', False, 3),
        (400, "the input length exceeds the context length", True, 1),
        (400, "input length exceeds maximum context length", True, 1),
        (400, "This model's maximum context length is 8192 tokens, however you requested 9000", True, 1),
        (413, "Input validation error: `inputs` must have less than 512 tokens. Given: 1000", True, 1),
        (413, "", True, 1),
        (422, "batch size 64 > maximum allowed batch size 32", True, 1),
        (400, 'time: missing unit in duration "-1"', False, 1),
    ],
)
def test_what_may_be_for_the_text_says_so(
    serve: Serve, status: int, said: str, too_long: bool, tries: int
) -> None:
    server = serve(Reply({"error": said}, status))
    with pytest.raises(Refused) as told:
        endpoint(server.url).ask("/", {}, seconds=5)
    assert told.value.too_long is too_long
    assert said in str(told.value)
    assert len(server.asked) == tries


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (HTML, r"answered no JSON \(text/html\); is its address right"),
        (Reply(b""), "answered nothing"),
        (Reply(b" \n"), "answered nothing"),
        (Reply(b'{"cut": ['), "answered no JSON"),
        (
            Reply({}, 301, {"location": "https://else.example/v1?key=abc"}),
            r"moved to https://else.example/v1;",
        ),
        (Reply({}, 307, {"location": "http://me:pw@else.example/v1"}), r"moved to http://else.example/v1;"),
        (Reply({}, 418), "answered 418"),
    ],
)
def test_an_answer_of_another_kind_is_not_taken(serve: Serve, reply: Reply, said: str) -> None:
    server = serve(reply)
    with pytest.raises(BackendProtocolError, match=said) as told:
        endpoint(server.url).ask("/", {}, seconds=2)
    assert "abc" not in str(told.value)
    assert "pw" not in str(told.value)
    assert len(server.asked) == 1


def test_numbers_that_no_json_has_are_read(serve: Serve) -> None:
    found = endpoint(serve(Reply(b'{"embeddings": [[NaN, Infinity, 1]]}')).url).ask("/", seconds=2)
    assert str(found) == "{'embeddings': [[nan, inf, 1]]}"


def test_what_a_server_says_is_cut(serve: Serve) -> None:
    with pytest.raises(Refused) as told:
        endpoint(serve(Reply({"error": "word " * 1_000}, 400)).url).ask("/", {}, seconds=2)
    assert len(str(told.value)) < 400


# --- keys ---------------------------------------------------------------------------------------


@pytest.fixture(params=["variable", "file"])
def key(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Key:
    if request.param == "variable":
        monkeypatch.setenv("MY_KEY", f" {SECRET}\n")
        return Key("MY_KEY")
    (tmp_path / "key").write_text(f"{SECRET}\n", encoding="utf-8")
    return Key(file=tmp_path / "key")


def echo(asked: Asked) -> Reply:
    """Answer an error that repeats all that was sent, at the place where it would be cut."""
    return Reply({"error": "no " * 63 + json.dumps(asked.headers)}, 401)


def test_a_key_goes_into_its_header_and_nowhere_else(
    serve: Serve, key: Key, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = serve(echo)
    there = endpoint(server.url, key)
    with pytest.raises(AuthenticationFailed) as told:
        there.ask("/v1", {"input": ["x"]}, seconds=2)
    assert server.asked[0].headers["authorization"] == f"Bearer {SECRET}"
    for text in (str(told.value), repr(told.value), repr(there), repr(key), caplog.text, *server.paths()):
        assert SECRET[:8] not in text


@pytest.mark.parametrize("held", ["", " \n", "two\nlines", "schlüssel", "a\x00b"])
def test_what_is_no_key_is_not_sent(serve: Serve, held: str, tmp_path: Path) -> None:
    server = serve(Reply({}))
    (tmp_path / "key").write_text(held, encoding="utf-8")
    with pytest.raises(AuthenticationFailed, match="key file") as told:
        endpoint(server.url, Key(file=tmp_path / "key")).ask("/", seconds=2)
    assert not held.strip() or held not in str(told.value)
    assert server.asked == []


def test_a_key_that_is_not_there_names_its_place(serve: Serve, tmp_path: Path) -> None:
    there = serve(Reply({})).url
    with pytest.raises(AuthenticationFailed, match="the variable NOT_SET holds no key"):
        endpoint(there, Key("NOT_SET")).ask("/", seconds=2)
    with pytest.raises(AuthenticationFailed, match=r"the key file .*none can't be read"):
        endpoint(there, Key(file=tmp_path / "none")).ask("/", seconds=2)


def test_a_new_key_counts_at_once(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(Reply({}))
    there = endpoint(server.url, Key("MY_KEY"))
    for value in ("one", "two"):
        monkeypatch.setenv("MY_KEY", value)
        there.ask("/", seconds=2)
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer one", "Bearer two"]


# --- proxies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("me.localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", True),
        ("192.168.1.5", False),
        ("example.com", False),
        ("localhost.example.com", False),
        ("", False),
    ],
)
def test_what_this_machine_is_called(host: str, here: bool) -> None:
    assert is_loopback(host) is here


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_is_reached_past_every_proxy(
    serve: Serve, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "socks5h://x")
    try:
        server = serve(Reply({"ok": 1}), host="::1" if host == "::1" else "127.0.0.1")
    except OSError:
        pytest.skip("no IPv6 here")
    url = server.url if host != "localhost" else f"http://localhost:{server.port}"
    assert endpoint(url).ask("/", seconds=5) == {"ok": 1}


def test_a_proxy_that_is_of_no_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5h://x")
    with pytest.raises(BackendUnavailable, match="proxy that the system has set"):
        endpoint("http://embedder.invalid:1").ask("/", seconds=2)


def test_another_machine_is_reached_by_the_proxy(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = serve(Reply({"through": "the proxy"}))
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    assert endpoint("http://embedder.invalid:1").ask("/x", seconds=2) == {"through": "the proxy"}


# --- threads, loops, life -----------------------------------------------------------------------


def test_many_threads_and_loops_may_share_it(serve: Serve) -> None:
    there = endpoint(serve(lambda asked: Reply({"said": asked.body["n"]})).url)

    def ask(number: int) -> Any:
        return there.ask("/", {"n": number}, seconds=10)["said"]

    async def ask_there(number: int) -> Any:
        return await asyncio.to_thread(ask, number)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(64))) == list(range(64))
    for number in range(3):
        assert asyncio.run(ask_there(number)) == number
    there.close()
    assert ask(1) == 1


def test_connections_end_with_it(serve: Serve) -> None:
    server = serve(Reply({}))
    there = endpoint(server.url)
    there.ask("/", seconds=2)
    shared = there._connections._shared
    assert shared is not None
    client = shared.client
    del there, shared
    gc.collect()
    assert client.is_closed


def test_closing_may_be_repeated(serve: Serve) -> None:
    there = endpoint(serve(Reply({})).url)
    there.close()
    there.ask("/", seconds=2)
    there.close()
    there.close()


def test_every_error_is_a_backend_error(serve: Serve) -> None:
    for status in [*range(300, 309), *range(400, 430), 451, *range(500, 512)]:
        there = endpoint(serve(Reply({"error": "no"}, status)).url)
        with pytest.raises(BackendError):
            there.ask("/", {}, seconds=2, tries=1)


def test_closing_lets_requests_under_way_come_to_their_end(serve: Serve) -> None:
    there = endpoint(serve(Reply({"ok": 1}, after=0.05)).url)
    with ThreadPoolExecutor(5) as pool:
        answers = pool.map(lambda _: there.ask("/", {}, seconds=10), range(40))
        for _ in range(20):
            time.sleep(0.02)
            there.close()
        assert list(answers) == [{"ok": 1}] * 40
