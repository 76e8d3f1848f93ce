"""An index on a server finds what the one in a folder finds, and a server that fails says how.

The client's own memory stands for a server that works; HTTP on loopback for one that does not.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import sys
import threading
import uuid
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rawthink_conformance.toys import ToyEmbedder
from rawthink_core.errors import (
    AuthenticationFailed,
    BackendError,
    BackendProtocolError,
    BackendTimeout,
    BackendUnavailable,
)
from rawthink_core.operations import Forget, Scope
from rawthink_local import replica, serverplace
from rawthink_local.edge import EdgeIndex
from rawthink_local.engine import IndexDamaged
from rawthink_local.fields import FieldFilter, IndexPoint, known_at
from rawthink_local.remote import RemoteIndex
from rawthink_local.served import IndexLost
from rawthink_local.server import connect, key_of
from rawthink_local.settings import LocalSettings

from .house import RULES, SPACE, finds, memory_at, note, store_at, thing
from .servers import Shared, answering, version

URL = "http://127.0.0.1:6333"
NAME = "rawthink_test"
T = 1_800_000_000_000_000


def uid(number):
    return str(uuid.UUID(int=number))


def point(number, words, *vectors, **fields):
    held = {"space": "home", "status": "active", "kind": "note"} | fields
    return IndexPoint(uid(number), (list(words), [1.0 + number % 3] * len(words)), held, vectors)


@pytest.fixture
def client():
    return Shared()


@pytest.fixture
def index(client):
    return RemoteIndex.open(client, URL, NAME, 2)


def found(index, *words, space="home", filters=()):
    hits = index.search((list(words), [1.0] * len(words)), space=space, filters=filters, limit=100)
    return {hit[0] for hit in hits}


# --- the same as in a folder ------------------------------------------------------------------------


points = st.lists(
    st.builds(
        lambda words, east, space, status, kind, tags, date, retired: (
            words,
            [(1.0, 0.0)] if east else [(0.0, 1.0), (0.5, 0.5)],
            {"space": space, "status": status, "kind": kind, "tags": tags, "date": T + date}
            | {"recorded_at": T + date}
            | ({"retired_at": T + retired} if retired else {}),
        ),
        st.sets(st.integers(1, 6), max_size=4),
        st.booleans(),
        st.sampled_from(["home", "away", "Home", "家"]),
        st.sampled_from(["active", "ended"]),
        st.sampled_from(["note", "decided"]),
        st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True),
        st.integers(0, 5),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=25,
)
FILTERS = [
    [],
    [FieldFilter("status", any_of=("active",))],
    [FieldFilter("kind", any_of=())],
    [FieldFilter("kind", any_of=("note", "decided")), FieldFilter("tags", any_of=("b", "none"))],
    [FieldFilter("date", gte=T + 1, lt=T + 4)],
    [FieldFilter("status", any_of=("active", "ended")), FieldFilter("date", lt=T + 2)],
    list(known_at(T + 3)),
]


@settings(max_examples=25, deadline=None)
@given(points, st.sets(st.integers(1, 6), min_size=1, max_size=3), st.sets(st.integers(0, 24), max_size=5))
def test_the_server_finds_what_the_folder_finds(tmp_path_factory, drawn, words, gone):
    written = [
        point(number, sorted(terms), *near, **fields) for number, (terms, near, fields) in enumerate(drawn)
    ]
    remote = RemoteIndex.open(Shared(), URL, NAME, 2)
    with closing(EdgeIndex.open(tmp_path_factory.mktemp("edge") / "index", 2)) as edge:
        for one in (edge, remote):
            one.apply(written, [], {"n": 1})
            one.apply([], [uid(number) for number in gone], {"n": 2})
        assert remote.size() == edge.size()
        for space in ("home", "away", "家", "nowhere"):
            for filters in FILTERS:
                ask = {"space": space, "filters": filters, "limit": 100}
                terms = (sorted(words), [1.0] * len(words))
                ours, theirs = remote.search(terms, **ask), edge.search(terms, **ask)
                assert {hit[0]: hit[1] for hit in ours} == pytest.approx(
                    {hit[0]: hit[1] for hit in theirs}, rel=1e-4
                )
                near, nearer = remote.nearest((1.0, 0.0), **ask), edge.nearest((1.0, 0.0), **ask)
                assert {hit[0]: hit[1] for hit in near} == pytest.approx(
                    {hit[0]: hit[1] for hit in nearer}, abs=1e-3
                )


def test_another_space_changes_neither_order_nor_scores(index):
    index.apply([point(n, [1, 2 + n % 3]) for n in range(10)], [], {"n": 1})
    before = index.search(([1, 2], [1.0, 1.0]), space="home", limit=100)
    index.apply([point(100 + n, [2], space="away") for n in range(200)], [], {"n": 2})
    assert index.search(([1, 2], [1.0, 1.0]), space="home", limit=100) == before
    assert len(before) == 10


def test_a_point_is_replaced_whole_and_a_passage_says_where_it_stands(index):
    index.apply([point(1, [1], (1.0, 0.0))._replace(place=("s", 7, "Ada"))], [], {"n": 1})
    assert index.search(([1], [1.0]), space="home", limit=1)[0][2] == ("s", 7, "Ada")
    assert index.search(([1], [1.0]), space="home", limit=1, places=False)[0][2] is None
    index.apply([point(1, [2])], [], {"n": 2})
    assert (found(index, 1), found(index, 2)) == (set(), {uid(1)})
    assert index.nearest((1.0, 0.0), space="home", limit=5) == []


def test_what_waits_for_its_vectors_is_listed(index):
    index.apply([point(1, [1], vector="waiting", space="a=b"), point(2, [1], (1.0, 0.0))], [], {"n": 1})
    assert (index.waiting(9), index.waiting_count()) == ([("a=b", uid(1))], 1)


def test_a_marker_is_seen_by_others_once_they_look(client, index):
    other = RemoteIndex.open(client, URL, NAME, 2)
    index.apply([point(1, [1])], [], {"position": 5})
    assert other.marker() is None
    other.look()
    assert (other.marker(), other.size()) == ({"position": 5}, 1)


def test_a_collection_for_other_vectors_is_refused(client, index):
    with pytest.raises(IndexDamaged, match="another model"):
        RemoteIndex.open(client, URL, NAME, 3)
    index.apply([], [], {"n": 1})
    with pytest.raises(IndexDamaged, match="another version"):
        RemoteIndex.open(client, URL, NAME, 0)


def test_a_write_that_was_cut_short_before_the_first_marker_counts_for_nothing(client, index, monkeypatch):
    monkeypatch.setattr(index, "_write", lambda made: client.upsert(NAME, made[:1]) and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index.apply([point(1, [1])], [], {"n": 1})
    with pytest.raises(IndexDamaged, match="no marker"):
        RemoteIndex.open(client, URL, NAME, 2)


def test_a_field_that_is_none_of_ours_is_refused(index):
    with pytest.raises(ValueError, match="'colour' is not a field"):
        index.apply([point(1, [1], colour="red")], [], {"n": 1})
    assert index.size() == 0


# --- servers that fail ------------------------------------------------------------------------------


def json_of(status, body=None):
    return status, body or {"status": {"error": "echoes s3cret"}, "time": 0}, "application/json"


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (None, BackendTimeout, "did not answer in time"),
        (json_of(401), AuthenticationFailed, "QDRANT_API_KEY"),
        (json_of(403), AuthenticationFailed, "QDRANT_API_KEY"),
        (json_of(404), IndexLost, "is not there"),
        (json_of(429), BackendUnavailable, "429"),
        (json_of(500), BackendUnavailable, "500"),
        (json_of(503), BackendUnavailable, "503"),
        (json_of(400), BackendProtocolError, "400"),
        ((200, "<html>Welcome</html>", "text/html"), BackendProtocolError, "not Qdrant's protocol"),
        ((200, {"version": "1.18.2", "title": "q"}, "application/json"), BackendProtocolError, "1.19"),
        ((200, {"version": "new", "title": "q"}, "application/json"), BackendProtocolError, "no version"),
    ],
)
def test_each_failure_has_its_kind_says_where_and_holds_no_key(answer, kind, says):
    with answering(lambda method, path: answer) as (url, asked):
        client = connect(LocalSettings(url=url, api_key="s3cret", timeout=1))
        with closing(client), pytest.raises(kind) as raised:
            RemoteIndex.open(client, url, NAME)
    assert says in str(raised.value)
    assert url in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert {name.lower(): value for name, value in asked[0][2].items()}["api-key"] == "s3cret"
    assert "s3cret" not in asked[0][1]


def test_a_refused_connection_says_what_to_start():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        down = pytest.raises(BackendUnavailable, match=r"providers\.local\.url")
        with closing(connect(LocalSettings(url=url))) as client, down:
            RemoteIndex.open(client, url, NAME)


def test_loopback_is_reached_past_a_proxy(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with (
        answering(lambda method, path: version() if path == "/" else json_of(500)) as (url, asked),
        closing(connect(LocalSettings(url=url))) as client,
        pytest.raises(BackendUnavailable, match="500"),
    ):
        RemoteIndex.open(client, url, NAME)
    assert [path for _, path, *_ in asked] == ["/", f"/collections/{NAME}/exists"]


def test_what_goes_to_a_server_asks_for_tenants_and_idf_of_one_space():
    bodies = []

    class Recording:
        def __getattr__(self, name):
            return lambda *args, **named: bodies.append((name, args, named)) or Shared().info()

    from qdrant_client import models

    index = RemoteIndex(Recording(), models, URL, NAME, 2)
    index._make()
    index._index_fields()
    made = {args[1]: named["field_schema"] for name, args, named in bodies if name == "create_payload_index"}
    assert made["space"].is_tenant is True
    (named,) = [named for name, _, named in bodies if name == "create_collection"]
    dense, words = named["vectors_config"]["dense"], named["sparse_vectors_config"]["lexical"]
    assert (dense.datatype, dense.distance, dense.size) == ("float16", "Dot", 2)
    assert (dense.multivector_config.comparator, words.modifier) == ("max_sim", "idf")


def test_a_search_says_on_the_wire_over_what_idf_is_counted():
    hit = {"id": uid(1), "version": 1, "score": 0.5, "payload": {"place": ["s", 1, None]}}
    answer = 200, {"result": {"points": [hit]}, "status": "ok", "time": 0.1}, "application/json"
    from qdrant_client import models

    with (
        answering(lambda method, path: answer) as (url, asked),
        closing(connect(LocalSettings(url=url))) as client,
    ):
        index = RemoteIndex(client, models, url, NAME, 2)
        assert index.search(([7], [2.0]), space="home", limit=5) == [(uid(1), 0.5, ("s", 1, None))]
        assert index.nearest((1.0, 0.0), space="home", limit=5)[0][:2] == (uid(1), 0.5)
    words, near = (json.loads(body) for *_, body in asked)
    here = {"must": [{"key": "space", "match": {"value": "home"}}]}
    assert words["params"] == {"idf": {"corpus": here}}
    nearest = {"indices": [7], "values": [2.0]}
    assert (words["filter"], words["query"]) == (here, {"nearest": nearest})
    assert (near["params"], near["filter"]) == ({"exact": True}, here)
    assert near["query"] == {"nearest": [[1.0, 0.0]]}


# --- settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://u:pa55@h:1", "http://h?api_key=pa55", "h:0"])
def test_an_address_that_is_none_or_holds_a_secret_is_refused(url):
    with pytest.raises(ValidationError) as raised:
        LocalSettings(url=url)
    assert "pa55" not in str(raised.value)


def test_a_key_comes_from_the_file_then_the_setting_then_the_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)
    assert key_of(LocalSettings(url=URL)) is None
    monkeypatch.setenv("QDRANT_API_KEY", "of the variable")
    assert key_of(LocalSettings(url=URL)) == "of the variable"
    assert key_of(LocalSettings(url=URL, api_key="set")) == "set"
    (tmp_path / "key").write_text("of the file\n", "utf-8")
    both = LocalSettings(url=URL, api_key="set", api_key_file=tmp_path / "key")
    assert key_of(both) == "of the file"
    assert "set'" not in repr(both).replace("api_key=SecretStr('**********')", "")


def test_without_the_client_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(BackendUnavailable, match=r"rawthink\[qdrant\]"):
        connect(LocalSettings(url=URL))


# --- a memory with its index on a server --------------------------------------------------------------


@pytest.fixture
def shared(monkeypatch, client):
    monkeypatch.setattr(serverplace, "connect", lambda settings: client)
    return client


def names(client):
    return [collection.name for collection in client.get_collections().collections]


async def say(memory, *texts):
    await memory.record(
        entities=[thing("Redis")], observations=[{"entity": "Redis", "text": text} for text in texts]
    )


@pytest.mark.asyncio
async def test_two_that_share_a_collection_find_what_either_writes(tmp_path, shared):
    async with memory_at(tmp_path, url=URL) as one, memory_at(tmp_path, url=URL) as other:
        await say(one, "sentence one")
        assert await finds(other, "sentence") == ["sentence one"]
        await say(other, "sentence two")
        assert set(await finds(one, "sentence")) == {"sentence one", "sentence two"}
        assert len(names(shared)) == 1
        rows = {check.name: check for check in (await one.provider.health()).checks}
        assert rows["server"].status == "ok"
        assert names(shared)[0] in rows["search"].detail
        assert list((tmp_path / "cache").rglob("slot-*")) == []


@pytest.mark.asyncio
async def test_a_collection_that_vanishes_is_built_again(tmp_path, shared):
    async with memory_at(tmp_path, url=URL) as memory:
        await say(memory, "sentence one")
        assert await finds(memory, "sentence") == ["sentence one"]
        shared.delete_collection(names(shared)[0])
        assert await finds(memory, "sentence") == ["sentence one"]


@pytest.mark.asyncio
async def test_a_copied_store_gets_a_collection_of_its_own(tmp_path, shared):
    async with memory_at(tmp_path / "a", url=URL) as memory:
        await say(memory, "sentence one")
        await finds(memory, "sentence")
    shutil.copytree(tmp_path / "a" / "vault", tmp_path / "b" / "vault")
    async with memory_at(tmp_path / "b", url=URL) as copy, memory_at(tmp_path / "a", url=URL) as memory:
        await say(copy, "sentence two")
        assert len(await finds(copy, "sentence")) == 2
        assert len(await finds(memory, "sentence")) == 1
    assert len(names(shared)) == 2


@pytest.mark.asyncio
async def test_what_is_forgotten_leaves_the_server(tmp_path, shared):
    async with memory_at(tmp_path, url=URL) as one, memory_at(tmp_path, url=URL) as other:
        await say(one, "sentence one", "sentence two")
        assert len(await finds(other, "sentence")) == 2
        hit = (await one.search("one", limit=1)).items[0]
        receipt = await one.provider.forget(Forget(scope=Scope(space=SPACE), ids=(hit.id,)))
        places = {place.place: place for place in receipt.places}
        assert places["search index"].outcome == "erased"
        assert names(shared) == []
        assert await finds(other, "sentence") == ["sentence two"]
        ids = [str(found.id) for found in shared.scroll(names(shared)[0], limit=99)[0]]
        assert hit.id not in ids


@pytest.mark.asyncio
async def test_a_large_backlog_is_worked_off_in_pieces_and_said_meanwhile(tmp_path, shared, monkeypatch):
    with store_at(tmp_path) as store:
        for number in range(30):
            store.record(note("Redis", f"sentence {number} " + "word " * 50), RULES)
    monkeypatch.setattr(replica, "BACKLOG", 0)
    monkeypatch.setattr(replica, "_PIECE", 4_000)
    async with memory_at(tmp_path, url=URL) as memory:
        page = await memory.search("sentence", limit=100)
        assert page.degraded is not None
        assert page.degraded.startswith("index ")
        while (page := await memory.search("sentence", limit=100)).degraded is not None:
            assert page.degraded.startswith("index ")
            await asyncio.sleep(0.01)
        assert len(page.items) == 30


@pytest.mark.asyncio
async def test_who_waits_in_vain_for_another_writer_says_how_far_it_is(tmp_path, shared, monkeypatch):
    monkeypatch.setattr(serverplace, "_SECONDS", 0.05)
    async with memory_at(tmp_path, url=URL) as one, memory_at(tmp_path, url=URL) as other:
        await say(one, "sentence one")
        await finds(other, "sentence")
        with one.provider.opened.search._place.turn(wait=True) as ours:
            assert ours
            await say(other, "sentence two")
            page = await other.search("sentence", limit=9)
            assert page.degraded == "index 2 of 3"
            assert [hit.text for hit in page.items] == ["sentence one"]
        assert len(await finds(other, "sentence")) == 2


@pytest.mark.asyncio
async def test_a_server_that_is_down_fails_searches_alone_and_is_caught_up_with_later(
    tmp_path, client, monkeypatch
):
    down = threading.Event()
    down.set()

    def reached(given):
        return connect(given) if down.is_set() else client

    monkeypatch.setattr(serverplace, "connect", reached)
    with answering(lambda method, path: json_of(503)) as (url, asked):
        async with memory_at(tmp_path, url=url) as memory:
            await say(memory, "sentence one")
            with pytest.raises(BackendError, match="503"):
                await memory.search("sentence")
            told = asked.copy()
            await say(memory, "sentence two")
            assert asked == told, "a record asks no server"
            rows = {check.name: check for check in (await memory.provider.health()).checks}
            assert (rows["server"].status, rows["search"].status) == ("fail", "fail")
            hit = (await memory.provider.scan(_scan())).items[-1]
            receipt = await memory.provider.forget(Forget(scope=Scope(space=SPACE), ids=(hit.id,)))
            (place,) = [place for place in receipt.places if place.place == "search index"]
            assert (place.outcome, "503" in place.note) == ("pending", True)
            down.clear()
            memory.provider.opened.search._place._client.close()
            memory.provider.opened.search._place._client = None
            assert len(await finds(memory, "sentence")) == 1


def _scan():
    from rawthink_core.operations import Scan

    return Scan(scope=Scope(space=SPACE))


@pytest.mark.asyncio
async def test_vectors_of_a_model_get_a_collection_of_their_size(tmp_path, shared):
    async with memory_at(tmp_path, url=URL) as memory:
        await say(memory, "a kitten sleeps", "the automobile is red")
        assert await finds(memory, "feline") == []
    async with memory_at(tmp_path, url=URL, embedder=ToyEmbedder()) as memory:
        await memory.search("feline")
        for _ in range(500):
            if "a kitten sleeps" in await finds(memory, "feline"):
                break
            await asyncio.sleep(0.02)
        assert (await finds(memory, "feline"))[0] == "a kitten sleeps"
        assert (await memory.health()).pending_embeddings == 0
    assert len(names(shared)) == 1


@pytest.mark.asyncio
async def test_a_name_that_can_not_be_read_is_given_anew(tmp_path, shared):
    file = tmp_path / "vault" / ".rawthink" / "collection.json"
    for junk in ("", "[]", json.dumps({"folder": str(tmp_path / "vault"), "name": 5})):
        async with memory_at(tmp_path, url=URL) as memory:
            await say(memory, "sentence one")
            assert "sentence one" in await finds(memory, "sentence")
        assert json.loads(file.read_text("utf-8"))["name"] in names(shared)
        file.write_text(junk, "utf-8")
    assert len(names(shared)) == 3
