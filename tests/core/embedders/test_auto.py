"""The embedder `auto`: Ollama where it answers and has the model, else the offline one, else none."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from rawthink_core.embedders import offline
from rawthink_core.embedders.auto import AutoEmbedder, resolve_auto
from rawthink_core.embedders.ollama import OllamaSettings
from rawthink_core.errors import BackendUnavailable, ConfigError

from .servers import SIZE, Ollama, Reply, Server, free_port

if TYPE_CHECKING:
    from .conftest import Serve

pytestmark = pytest.mark.asyncio


@pytest.fixture
def nowhere() -> OllamaSettings:
    return OllamaSettings(url=f"http://127.0.0.1:{free_port()}")


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(Ollama())


@pytest.fixture(params=[True, False], ids=["offline installed", "nothing installed"])
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(offline, "unavailable", lambda: None if request.param else "not installed")
    return bool(request.param)


async def test_ollama_comes_first(server: Server, installed: bool) -> None:
    assert (await resolve_auto(OllamaSettings(url=server.url))).name == "ollama"


async def test_without_ollama_it_is_what_is_installed(nowhere: OllamaSettings, installed: bool) -> None:
    start = time.monotonic()
    assert (await resolve_auto(nowhere)).name == ("offline" if installed else "none")
    assert time.monotonic() - start < 3


async def test_an_ollama_without_the_model_does_not_count(server: Server, installed: bool) -> None:
    chosen = await resolve_auto(OllamaSettings(url=server.url, model="another"))
    assert chosen.name == ("offline" if installed else "none")


async def test_something_else_on_its_port_does_not_count(serve: Serve, installed: bool) -> None:
    chosen = await resolve_auto(OllamaSettings(url=serve(Reply(b"<html>")).url))
    assert chosen.name == ("offline" if installed else "none")


async def test_it_is_what_it_chose(server: Server) -> None:
    there = AutoEmbedder(OllamaSettings(url=server.url))
    assert (there.name, there.choice, there.dimensions) == ("auto", None, 0)
    await there.open()
    assert (there.name, there.choice, there.dimensions) == ("ollama", "ollama", SIZE)
    assert there.fingerprint.startswith("ollama; bge-m3")
    assert (there.dense_weight, there.min_similarity, there.window) == (0.4, 0.55, 2_000)
    assert len(await there.embed_query("x")) == SIZE
    assert len(await there.embed_passages(["x", "y"])) == 2
    await there.close()


async def test_what_was_chosen_stays_chosen(nowhere: OllamaSettings) -> None:
    there = AutoEmbedder(nowhere)
    there.settle("ollama")
    assert there.name == "ollama"
    with pytest.raises(BackendUnavailable, match="ollama serve"):
        await there.open()
    assert there.choice == "ollama"


async def test_none_may_be_the_choice(nowhere: OllamaSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "unavailable", lambda: "not installed")
    there = AutoEmbedder(nowhere)
    await there.open()
    assert (there.name, there.dimensions, there.fingerprint) == ("none", 0, "none")
    assert await there.embed_query("x") == []


async def test_a_choice_that_it_never_makes_is_refused(nowhere: OllamaSettings) -> None:
    with pytest.raises(ConfigError, match=r"'auto' never chooses 'openai'; set \[embedder\] name"):
        AutoEmbedder(nowhere).settle("openai")
