"""From settings to a memory: the configured provider and no other, its settings checked, its world its own."""

from __future__ import annotations

import importlib.metadata
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from rawthink_core.errors import ConfigError, PluginError
from rawthink_core.memory import Memory, open_memory
from rawthink_core.opening import build, make_provider, world_of
from rawthink_core.plugins import PROVIDERS, ProviderPlugin
from rawthink_core.provider import BaseProvider, ProviderInfo, World


class MineSettings(BaseModel, extra="forbid"):
    """Settings of the provider of these tests."""

    path: Path | None = None
    token: SecretStr = SecretStr("")
    size: int = 3


class Mine(BaseProvider):
    """A provider that remembers what it was made from and what happened to it."""

    def __init__(self, settings: MineSettings, world: World) -> None:
        self.settings, self.world = settings, world
        self.events: list[str] = []
        self.info = ProviderInfo("mine", "1", {})

    async def open(self) -> None:
        self.events.append("open")
        if self.settings.size == 13:
            raise PluginError("will not open")

    async def close(self) -> None:
        self.events.append("close")


plugin = ProviderPlugin("its own name", "Mine", Mine, MineSettings)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the provider under the name `mine`, and give this test a home of its own."""

    def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
        found = EntryPoint("mine", f"{__name__}:plugin", PROVIDERS)
        return [found] if group == PROVIDERS and name in (None, "mine") else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.setattr(EntryPoint, "load", lambda self: plugin)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    config = tmp_path / "rawthink.toml"
    config.write_text("provider = 'mine'\n[providers.mine]\nsize = 5\n", encoding="utf-8")
    monkeypatch.setenv("RAWTHINK_CONFIG", str(config))
    return config


def provider_of(memory: Memory) -> Mine:
    assert isinstance(memory.provider, Mine)
    return memory.provider


def test_the_configured_provider_gets_its_settings() -> None:
    assert provider_of(build()).settings.size == 5


def test_what_is_given_counts_more_than_the_file(tmp_path: Path) -> None:
    settings = provider_of(build("mine", path=tmp_path, size=7)).settings
    assert (settings.path, settings.size) == (tmp_path, 7)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sise": 7}, "Did you mean 'size'?"),
        ({"size": "many"}, "size"),
        ({"path": 5}, "path"),
    ],
)
def test_a_wrong_setting_of_a_provider_is_told_in_its_section(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=r"\[providers\.") as refused:
        build("mine", **given)
    assert said in str(refused.value)


def test_a_secret_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as refused:
        build("mine", token={"value": "s3cret"})
    assert "s3cret" not in str(refused.value)


def test_a_missing_provider_is_an_error_and_nothing_falls_back() -> None:
    with pytest.raises(PluginError, match="no provider called 'mongo'"):
        build("mongo")


def test_an_unknown_embedder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAWTHINK_EMBEDDER", "nome")
    with pytest.raises(ConfigError, match=r"\[embedder\] name: .*Did you mean 'none'\?"):
        build()


def test_the_world_has_absolute_places_that_the_environment_may_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rawthink_core.config import load

    world = world_of(load())
    assert world.path == tmp_path / "HOME" / "rawthink-vault"
    assert world.cache == tmp_path / "XDG_CACHE_HOME" / "rawthink"
    assert world.state == tmp_path / "XDG_STATE_HOME" / "rawthink"
    monkeypatch.setenv("RAWTHINK_CACHE", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("RAWTHINK_STATE", "state")
    assert world_of(load()).cache == tmp_path / "elsewhere"
    assert world_of(load()).state == tmp_path / "HOME" / "state"


def test_the_world_says_how_lists_are_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    from rawthink_core.config import load

    assert world_of(load()).fusion == "minmax"
    monkeypatch.setenv("RAWTHINK_RANKING__FUSION", "rrf")
    assert world_of(load()).fusion == "rrf"


def test_the_space_is_the_configured_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build().scope.space == "default"
    monkeypatch.setenv("RAWTHINK_SPACE", "work")
    assert build().scope.space == "work"
    assert build(space="home").scope.space == "home"


def test_the_vocabulary_reaches_the_provider(installed: Path) -> None:
    installed.write_text("provider = 'mine'\n[vocabulary]\ndomains = ['cooking']\n", encoding="utf-8")
    assert provider_of(build()).world.vocabulary.domain("cooking") == "cooking"


def test_a_provider_is_made_and_not_opened() -> None:
    from rawthink_core.config import load

    provider = make_provider(load())
    assert isinstance(provider, Mine)
    assert provider.events == []


@pytest.mark.asyncio
async def test_a_memory_is_opened_and_closed_whatever_happens() -> None:
    async with open_memory() as memory:
        provider = provider_of(memory)
        assert provider.events == ["open"]
    assert provider.events == ["open", "close"]
    opened: list[Mine] = []

    async def stumble() -> None:
        async with open_memory("mine") as memory:
            opened.append(provider_of(memory))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await stumble()
    assert opened[0].events == ["open", "close"]


@pytest.mark.asyncio
async def test_a_memory_that_cannot_be_opened_says_why() -> None:
    with pytest.raises(PluginError, match="will not open"):
        async with open_memory("mine", size=13):
            pytest.fail("was opened")
