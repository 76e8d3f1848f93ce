"""The embedder `ollama` against servers that answer as Ollama does, on its good and its bad days."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from rawthink_core.embedders.figures import ANSWERS, PAIRS, QUESTIONS
from rawthink_core.embedders.ollama import OllamaEmbedder, OllamaSettings, default_url
from rawthink_core.embedding import TextsNotEmbedded, windows
from rawthink_core.errors import (
    BackendError,
    BackendProtocolError,
    BackendTimeout,
    BackendUnavailable,
)

from .servers import SIZE, Asked, Ollama, Reply, Server, free_port, vector_of

if TYPE_CHECKING:
    from .conftest import Serve


@pytest.fixture
def ollama() -> Ollama:
    return Ollama()


@pytest.fixture
def server(serve: Serve, ollama: Ollama) -> Server:
    return serve(ollama)


def embedder(server: Server, **settings: Any) -> OllamaEmbedder:
    return OllamaEmbedder(OllamaSettings(url=server.url, **settings))


async def opened(server: Server, **settings: Any) -> OllamaEmbedder:
    found = embedder(server, **settings)
    await found.open()
    return found


@pytest.mark.asyncio
async def test_texts_become_vectors(server: Server) -> None:
    there = await opened(server)
    texts = ["one", "二", "üç"]
    assert await there.embed_passages(texts) == [pytest.approx(vector_of(text)) for text in texts]
    assert await there.embed_query("one") == pytest.approx(vector_of("one"))
    assert await there.embed_passages([]) == []
    body = server.asked[-1].body
    assert body == {"model": "bge-m3", "input": ["one"], "truncate": False, "keep_alive": "30m"}
    await there.close()
    await there.close()


@pytest.mark.asyncio
async def test_opening_learns_what_the_model_is_without_loading_it(server: Server, ollama: Ollama) -> None:
    there = await opened(server)
    assert (there.dimensions, there.window) == (SIZE, 2_000)
    assert (there.dense_weight, there.min_similarity) == (0.4, 0.55)
    for part in ("ollama", "bge-m3", ollama.digest[:16], str(SIZE)):
        assert part in there.fingerprint
    assert server.paths() == ["/api/tags", "/api/show"]


@pytest.mark.asyncio
async def test_before_it_is_opened_it_embeds_nothing(server: Server) -> None:
    there = embedder(server)
    assert there.dimensions == 0
    with pytest.raises(BackendUnavailable, match="not been reached yet"):
        await there.embed_query("x")
    with pytest.raises(BackendUnavailable, match="not been reached yet"):
        await there.embed_passages(["x"])
    assert server.asked == []


@pytest.mark.asyncio
async def test_a_model_pulled_anew_is_another_one(server: Server, ollama: Ollama) -> None:
    there = await opened(server)
    first = there.fingerprint
    await there.open()
    assert there.fingerprint == first
    ollama.digest = "0" * 64
    assert there.fingerprint == first
    await there.open()
    assert there.fingerprint != first


@pytest.mark.asyncio
async def test_a_model_of_another_size_is_noticed(server: Server, ollama: Ollama) -> None:
    there = await opened(server)
    there.dimensions = SIZE + 1
    with pytest.raises(BackendProtocolError, match="has its model changed"):
        await there.embed_query("x")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("asked", "listed", "there"),
    [
        ("bge-m3", "bge-m3:latest", True),
        ("BGE-M3", "bge-m3:latest", True),
        ("bge-m3:567m", "bge-m3:latest", False),
        ("hf.co/me/bge-m3-gguf", "hf.co/me/bge-m3-gguf:latest", True),
        ("host:5000/bge-m3", "host:5000/bge-m3:latest", True),
        ("bge-m3", "bge-m3-large:latest", False),
    ],
)
async def test_a_model_is_found_by_its_whole_name(
    server: Server, ollama: Ollama, asked: str, listed: str, there: bool
) -> None:
    ollama.model = listed
    if there:
        await opened(server, model=asked)
    else:
        with pytest.raises(BackendUnavailable, match=f"ollama pull {asked}"):
            await opened(server, model=asked)


@pytest.mark.asyncio
async def test_refused_says_how_to_start_it() -> None:
    with pytest.raises(BackendUnavailable, match="ollama serve"):
        await OllamaEmbedder(OllamaSettings(url=f"http://127.0.0.1:{free_port()}")).open()


@pytest.mark.asyncio
async def test_it_may_be_opened_when_it_is_up_again(serve: Serve, ollama: Ollama) -> None:
    down = True
    server = serve(lambda asked: Reply({}, 503) if down else ollama(asked))
    there = embedder(server)
    with pytest.raises(BackendUnavailable):
        await there.open()
    down = False
    await there.open()
    assert len(await there.embed_query("x")) == SIZE


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "reply",
    [Reply({"hello": 1}), Reply([]), Reply({"models": None}), Reply({"object": "list", "data": []})],
)
async def test_something_else_on_that_port_is_no_ollama(serve: Serve, reply: Reply) -> None:
    with pytest.raises(BackendProtocolError, match="is no Ollama"):
        await opened(serve(reply))


@pytest.mark.asyncio
async def test_a_model_that_says_nothing_of_itself_is_embedded_with_to_see(
    server: Server, ollama: Ollama
) -> None:
    ollama.info = {}
    there = await opened(server)
    assert (there.dimensions, there.window) == (SIZE, 2_000)


@pytest.mark.asyncio
@pytest.mark.parametrize(("context", "window"), [(8192, 2_000), (2048, 2_000), (512, 1_024), (256, 512)])
async def test_a_window_fits_the_context(server: Server, ollama: Ollama, context: int, window: int) -> None:
    ollama.info["bert.context_length"] = context
    assert (await opened(server)).window == window
    assert (await opened(server, window=300)).window == 300


@pytest.mark.asyncio
async def test_a_model_that_nobody_measured_is_measured(serve: Serve, ollama: Ollama) -> None:
    ollama.model = "mine:latest"

    def answer(asked: Asked) -> Reply:
        if asked.path != "/api/embed":
            return ollama(asked)
        axes = [
            [1.0, *(float(place % len(PAIRS[0]) == axis) for axis in range(4))]
            for text in asked.body["input"]
            for place in [(QUESTIONS if text in QUESTIONS else ANSWERS).index(text)]
        ]
        return Reply({"embeddings": axes})

    there = await opened(serve(answer), model="mine")
    assert there.min_similarity == 0.75  # half-way between 1/2 and 1
    assert there.dense_weight == 0.3
    assert there.dimensions == 5


@pytest.mark.asyncio
async def test_a_model_that_tells_nothing_apart_finds_nothing_alone(serve: Serve, ollama: Ollama) -> None:
    ollama.model = "mine:latest"
    answer = {"embeddings": [[1.0, 0.0]]}

    def same(asked: Asked) -> Reply:
        return (
            Reply({"embeddings": answer["embeddings"] * len(asked.body["input"])})
            if asked.path == "/api/embed"
            else ollama(asked)
        )

    ollama.info = {}
    assert (await opened(serve(same), model="mine")).min_similarity == 1.0


@pytest.mark.asyncio
async def test_settings_count_more_than_what_is_known(server: Server) -> None:
    there = await opened(
        server, min_similarity=0.2, dense_weight=0.9, query_prefix="q: ", passage_prefix="p: ", keep_alive=-1
    )
    assert (there.min_similarity, there.dense_weight) == (0.2, 0.9)
    await there.embed_query("x")
    await there.embed_passages(["y"])
    assert [asked.body["input"] for asked in server.asked[-2:]] == [["q: x"], ["p: y"]]
    assert server.asked[-1].body["keep_alive"] == -1
    assert there.fingerprint != (await opened(server)).fingerprint


@pytest.mark.asyncio
async def test_a_key_may_be_needed(serve: Serve, ollama: Ollama, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sesame")
    server = serve(
        lambda asked: ollama(asked) if "sesame" in asked.headers.get("authorization", "") else Reply({}, 401)
    )
    assert await opened(server, api_key_env="MY_KEY")
    with pytest.raises(BackendError, match="api_key_env"):
        await opened(server)


# --- texts that a model can't embed -------------------------------------------------------------


@pytest.mark.asyncio
async def test_one_text_that_yields_nan_costs_only_itself(server: Server, ollama: Ollama) -> None:
    ollama.broken = {"poison"}
    there = await opened(server)
    texts = [f"text {n}" for n in range(40)]
    texts[17] = "poison"
    with pytest.raises(TextsNotEmbedded, match=r"text 17: .*NaN") as told:
        await there.embed_passages(texts)
    assert told.value.failed.keys() == {17}
    assert len(told.value.vectors) == 39
    assert told.value.vectors[18] == pytest.approx(vector_of("text 18"))


@pytest.mark.asyncio
async def test_a_model_that_yields_only_nan_is_broken(server: Server, ollama: Ollama) -> None:
    there = await opened(server)
    ollama.broken = {""}
    with pytest.raises(BackendUnavailable, match=r"NaN.*restart it"):
        await there.embed_passages(["a", "b"])


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "vectors",
    [b"[[NaN, 1, 1, 1], [0.1, 0.2, 0.3, 0.4]]", b"[null, [0.1, 0.2, 0.3, 0.4]]", b"[[0,0,0,0], [1,0,0,0]]"],
    ids=["nan", "null", "zeros"],
)
async def test_a_bad_vector_in_a_good_answer_costs_only_its_text(
    serve: Serve, ollama: Ollama, vectors: bytes
) -> None:
    ollama.info["bert.embedding_length"] = 4

    def answer(asked: Asked) -> Reply:
        if asked.path != "/api/embed":
            return ollama(asked)
        good = b"[0.5, 0.5, 0.5, 0.5]"
        texts = asked.body["input"]
        one = vectors[1:-1].split(b"]")[0].split(b", [")[0] + (b"" if vectors.startswith(b"[null") else b"]")
        sent = [one if text == "bad" else good for text in texts]
        return Reply(b'{"embeddings": [' + b",".join(sent) + b"]}")

    there = await opened(serve(answer))
    with pytest.raises(TextsNotEmbedded) as told:
        await there.embed_passages(["bad", "good"])
    assert told.value.failed.keys() == {0}
    assert told.value.vectors == {1: [0.5] * 4}


@pytest.mark.asyncio
async def test_a_short_answer_is_not_used(serve: Serve, ollama: Ollama) -> None:
    def answer(asked: Asked) -> Reply:
        return Reply({"embeddings": [vector_of("a")]}) if asked.path == "/api/embed" else ollama(asked)

    there = await opened(serve(answer))
    with pytest.raises(BackendProtocolError, match="1 vectors for 2 texts"):
        await there.embed_passages(["a", "b"])


LONG = {
    "chinese": "部署方案。" * 12_000,
    "one token runs": "a " * 20_000,
    "base64": "QUJD" * 8_000,
    "emoji": "👩‍🔬" * 8_000,
}


@pytest.mark.asyncio
@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
async def test_text_longer_than_the_context_is_embedded_in_windows(
    server: Server, ollama: Ollama, text: str
) -> None:
    ollama.longest = 700  # far shorter than the window: parts of windows
    there = await opened(server)
    cut = windows(text, there.window)
    vectors = await there.embed_passages(["a neighbour", *cut])
    assert len(vectors) == len(cut) + 1
    assert vectors[0] == pytest.approx(vector_of("a neighbour"))
    assert len(await there.embed_query(text)) == SIZE


@pytest.mark.asyncio
async def test_a_duration_that_ollama_refuses_is_no_endless_trial(serve: Serve, ollama: Ollama) -> None:
    def answer(asked: Asked) -> Reply:
        return (
            Reply({"error": 'time: missing unit in duration "7x"'}, 400)
            if asked.path == "/api/embed"
            else ollama(asked)
        )

    server = serve(answer)
    there = await opened(server, keep_alive="7x")
    with pytest.raises(BackendError, match="missing unit in duration"):
        await there.embed_passages(["a"] * 32)
    assert len(server.asked) == 4


# --- time ---------------------------------------------------------------------------------------


class Cold:
    """Loads its model for a while, given up when the one who asked does not wait for it, as Ollama does."""

    def __init__(self, ollama: Ollama, seconds: float) -> None:
        self.ollama, self.seconds = ollama, seconds
        self.warm = threading.Event()
        self.waiting = 0

    def __call__(self, asked: Asked) -> Reply:
        if asked.path == "/api/embed" and not self.warm.is_set():
            self.waiting += 1
            if asked.body["input"] == ["memory"] or len(asked.body["input"]) > 1:  # who asks so is patient
                time.sleep(self.seconds)
                self.warm.set()
            else:
                self.warm.wait(self.seconds)
        return self.ollama(asked)


@pytest.mark.asyncio
async def test_a_cold_model_costs_a_question_its_vector_and_no_later_one(
    serve: Serve, ollama: Ollama
) -> None:
    cold = Cold(ollama, 2.0)
    there = await opened(serve(cold), query_timeout=0.3)
    for _ in range(2):
        with pytest.raises(BackendTimeout, match=r"in time|within 0\.3 s"):
            await there.embed_query("when?")
    assert not cold.warm.is_set()
    assert await asyncio.to_thread(cold.warm.wait, 5)
    assert await there.embed_query("when?") == pytest.approx(vector_of("when?"))
    assert cold.waiting == 3  # two questions, and one who was patient for both


@pytest.mark.asyncio
async def test_passages_wait_for_a_cold_model(serve: Serve, ollama: Ollama) -> None:
    there = await opened(serve(Cold(ollama, 0.8)), query_timeout=0.2, passage_timeout=5)
    assert len(await there.embed_passages(["a", "b"])) == 2


@pytest.mark.asyncio
async def test_a_server_too_slow_for_a_batch_gets_smaller_ones(serve: Serve, ollama: Ollama) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path == "/api/embed" and sum(map(len, asked.body["input"])) > 5_000:
            time.sleep(1)
        return ollama(asked)

    there = await opened(serve(answer), passage_timeout=0.5)
    texts = ["word " * 200] * 16
    for _ in range(4):
        try:
            assert len(await there.embed_passages(texts)) == 16
            break
        except BackendTimeout:
            continue
    else:
        pytest.fail("never embedded")


@pytest.mark.asyncio
async def test_a_hanging_server_holds_neither_the_loop_nor_who_gives_up(serve: Serve, ollama: Ollama) -> None:
    server = serve(lambda asked: Reply({}, after=30) if asked.path == "/api/embed" else ollama(asked))
    there = await opened(server, query_timeout=20)
    task = asyncio.ensure_future(there.embed_query("x"))
    slowest, end = 0.0, time.monotonic() + 0.4
    while (now := time.monotonic()) < end:
        await asyncio.sleep(0.005)
        slowest = max(slowest, time.monotonic() - now)
    assert slowest < 2  # of the 20 that the call may take
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 0.5)


def test_an_abandoned_call_does_not_hold_a_loop_that_ends(serve: Serve, ollama: Ollama) -> None:
    server = serve(lambda asked: Reply({}, after=30) if asked.path == "/api/embed" else ollama(asked))

    async def ask() -> None:
        there = await opened(server, query_timeout=20)
        await asyncio.wait([asyncio.ensure_future(there.embed_query("x"))], timeout=0.2)

    start = time.monotonic()
    asyncio.run(ask())
    assert time.monotonic() - start < 3


def test_one_embedder_serves_several_loops_in_turn(server: Server) -> None:
    there = embedder(server)
    asyncio.run(there.open())
    for text in ("one", "two", "three"):
        assert asyncio.run(there.embed_query(text)) == pytest.approx(vector_of(text))


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("gpu", "http://gpu:11434"),
        ("gpu:8080", "http://gpu:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234"),
        ("[::]:1234", "http://127.0.0.1:1234"),
        ("[::1]:1234", "http://[::1]:1234"),
        ("http://gpu", "http://gpu:80"),
        ("https://gpu", "https://gpu:443"),
        ("https://gpu/ollama/", "https://gpu:443/ollama"),
        ('"gpu:1"', "http://gpu:1"),
        ("gpu:port", "http://127.0.0.1:11434"),
        ("ftp://gpu", "http://127.0.0.1:11434"),
    ],
)
def test_ollamas_own_variable_is_understood(said: str, url: str) -> None:
    assert default_url({"OLLAMA_HOST": said}) == url
    OllamaSettings(url=url)


@pytest.mark.parametrize(("given", "sent"), [("30m", "30m"), ("-1", -1), ("300", 300), (0, 0), (-1, -1)])
def test_a_duration_that_is_a_number_is_sent_as_one(given: Any, sent: Any) -> None:
    assert OllamaSettings(keep_alive=given).keep_alive == sent


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "127.0.0.1:11434"},
        {"url": "ftp://x"},
        {"url": "http://"},
        {"url": "http://user:secret@host"},
        {"url": "http://host?key=secret"},
        {"url": "http://host:notaport"},
        {"url": "http://[::1"},
        {"model": ""},
        {"query_timeout": 0},
        {"min_similarity": 2},
        {"api_key_env": "sk-secret"},
        {"api_key": "secret"},
    ],
)
def test_a_setting_that_cannot_be_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OllamaSettings(**settings)
