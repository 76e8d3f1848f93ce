"""The section ``[embedder]``: whose keys they are, what the environment says, and what a mistake is told."""

from __future__ import annotations

import importlib.metadata
import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rawthink_core import embedding
from rawthink_core.config import EmbedderSettings, load
from rawthink_core.embedders import offline, ollama, openai
from rawthink_core.embedders.auto import AutoEmbedder
from rawthink_core.embedders.ollama import OllamaEmbedder
from rawthink_core.embedding import NoEmbedder
from rawthink_core.errors import ConfigError, PluginError
from rawthink_core.opening import make_embedder, world_of
from rawthink_core.plugins import EMBEDDERS, EmbedderPlugin, load_embedder, names

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_core.embedding import Embedder

    Make = Callable[..., Embedder]

SHIPPED = {"none": embedding, "ollama": ollama, "openai": openai, "offline": offline}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the shipped embedders and one of somebody else's, whatever this environment has."""
    values = {name: f"{module.__name__}:plugin" for name, module in SHIPPED.items()}
    points = [EntryPoint(name, value, EMBEDDERS) for name, value in {**values, "odd": "os:sep"}.items()]

    def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
        return [point for point in points if group == EMBEDDERS and name in (None, point.name)]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.delenv("OLLAMA_HOST", raising=False)


@pytest.fixture
def section(tmp_path: Path) -> Callable[..., EmbedderSettings]:
    def section(text: str = "", **env: str) -> EmbedderSettings:
        file = tmp_path / "own.toml"
        file.write_text(text, encoding="utf-8")
        return load(file, {"RAWTHINK_VAULT": str(tmp_path / "vault"), **env}).settings.embedder

    return section


@pytest.fixture
def make(section: Callable[..., EmbedderSettings]) -> Make:
    return lambda text="", **env: make_embedder(section(text, **env))


def said(section: EmbedderSettings) -> dict[str, Any]:
    return {"name": section.name, **(section.model_extra or {})}


def url_of(embedder: Embedder) -> str:
    assert isinstance(embedder, OllamaEmbedder)
    return embedder._endpoint.url


def test_without_a_word_there_are_no_vectors(make: Make) -> None:
    assert isinstance(make(), NoEmbedder)


def test_a_section_makes_its_embedder(make: Make) -> None:
    there = make("[embedder]\nname = 'ollama'\nmodel = 'mine'\nurl = 'http://gpu:1/'\nwindow = 300")
    assert (there.name, there.window, url_of(there)) == ("ollama", 300, "http://gpu:1")
    assert "mine" in there.fingerprint
    assert make("[embedder]\nname = 'openai'\nbase_url = 'http://127.0.0.1:8000/v1'").name == "openai"
    assert make("[embedder]\nname = 'offline'").name == "offline"
    assert isinstance(make("[embedder]\nname = 'auto'\nmodel = 'mine'"), AutoEmbedder)


def test_a_name_alone_is_enough(make: Make) -> None:
    assert make("embedder = 'ollama'").name == "ollama"
    assert make(RAWTHINK_EMBEDDER="offline").name == "offline"


def test_the_world_has_the_configured_embedder(tmp_path: Path) -> None:
    configured = load(None, {"RAWTHINK_CONFIG": "", "RAWTHINK_EMBEDDER": "ollama", "HOME": str(tmp_path)})
    assert world_of(configured).embedder.name == "ollama"


OLLAMA = "[embedder]\nname = 'ollama'\nurl = 'http://file:1'\nmodel = 'file'"


@pytest.mark.parametrize(
    ("text", "env", "expected"),
    [
        (
            OLLAMA,
            {"RAWTHINK_EMBEDDER__MODEL": "env"},
            {"name": "ollama", "url": "http://file:1", "model": "env"},
        ),
        (
            OLLAMA,
            {"RAWTHINK_EMBEDDER": "ollama"},
            {"name": "ollama", "url": "http://file:1", "model": "file"},
        ),
        (OLLAMA, {"RAWTHINK_EMBEDDER": "offline"}, {"name": "offline"}),
        (OLLAMA, {"RAWTHINK_EMBEDDER": "none"}, {"name": "none"}),
        (
            OLLAMA,
            {"RAWTHINK_EMBEDDER": "openai", "RAWTHINK_EMBEDDER__MODEL": "env"},
            {"name": "openai", "model": "env"},
        ),
        ("[embedder]\nmodel = 'file'", {"RAWTHINK_EMBEDDER": "ollama"}, {"name": "ollama", "model": "file"}),
        (OLLAMA, {"OLLAMA_URL": "http://old:2"}, {"name": "ollama", "url": "http://old:2", "model": "file"}),
        (OLLAMA, {"OLLAMA_URL": "old:2"}, {"name": "ollama", "url": "http://old:2", "model": "file"}),
        (OLLAMA, {"OLLAMA_MODEL": "old"}, {"name": "ollama", "url": "http://file:1", "model": "old"}),
        (
            "embedder = 'auto'",
            {"OLLAMA_MODEL": "old", "RAWTHINK_EMBEDDER__MODEL": "env", "OLLAMA_URL": "http://old:2"},
            {"name": "auto", "url": "http://old:2", "model": "env"},
        ),
        ("embedder = 'offline'", {"OLLAMA_URL": "http://old:2"}, {"name": "offline"}),
        ("", {"OLLAMA_URL": "http://old:2", "OLLAMA_MODEL": "old"}, {"name": "none"}),
    ],
)
def test_keys_belong_to_the_embedder_that_is_named_nearest(
    section: Callable[..., EmbedderSettings], text: str, env: dict[str, str], expected: dict[str, str]
) -> None:
    assert said(section(text, **env)) == expected


def test_ollamas_own_variable_is_the_last_resort(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "0.0.0.0:7")
    assert url_of(make("embedder = 'ollama'")) == "http://127.0.0.1:7"
    assert url_of(make(OLLAMA)) == "http://file:1"
    monkeypatch.delenv("OLLAMA_HOST")
    assert url_of(make("embedder = 'ollama'")) == "http://127.0.0.1:11434"


def test_variables_of_the_seed_are_noticed_only_where_they_mean_nothing(tmp_path: Path) -> None:
    env = {
        "OLLAMA_URL": "http://x",
        "OLLAMA_MODEL": "y",
        "RAWTHINK_VAULT": str(tmp_path),
        "RAWTHINK_CONFIG": "",
    }
    assert [notice.split()[0] for notice in load(None, env).notices] == ["OLLAMA_URL", "OLLAMA_MODEL"]
    for name in ("ollama", "auto"):
        assert load(None, {**env, "RAWTHINK_EMBEDDER": name}).notices == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("embedder = 'olama'", ["[embedder] name", "Did you mean 'ollama'?"]),
        ("embedder = 'nome'", ["[embedder] name", "Did you mean 'none'?", "auto"]),
        ("[embedder]\nname = 'ollama'\nmodle = 'x'", ["[embedder] modle", "Did you mean 'model'?"]),
        ("[embedder]\nname = 'ollama'\nbase_url = 'http://x'", ["[embedder] base_url", "keep_alive"]),
        ("[embedder]\nname = 'offline'\nmodel = 'x'", ["[embedder] model", "query_timeout"]),
        ("[embedder]\nname = 'auto'\nbase_url = 'http://x'", ["[embedder] base_url"]),
        ("[embedder]\nnme = 'ollama'", ["sets nme but no name"]),
        ("[embedder]\nmodel = 'x'\nurl = 'y'", ["sets model, url but no name"]),
        ("[embedder]\nname = 'none'\nmodle = 'x'", ["[embedder] modle", "Did you mean 'model'?"]),
        ("[embedder]\nname = 'ollama'\nurl = 'gpu'", ["[embedder] url", "must be an address like"]),
        ("embedder = 5", ["embedder", "must be"]),
        ("[embedder]\nname = 5", ["embedder.name", "must be a text"]),
        ("[[embedder]]\nname = 'ollama'", ["embedder", "must be"]),
    ],
)
def test_a_mistake_names_its_place_and_what_was_meant(make: Make, text: str, told: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        make(text)
    for part in told:
        assert part in str(refused.value)


def test_keys_of_an_embedder_that_is_switched_off_may_stay(make: Make) -> None:
    assert isinstance(make(OLLAMA.replace("'ollama'", "'none'")), NoEmbedder)


@pytest.mark.parametrize(
    "key", ["api_key = 'sk-secret'", "api_key_env = 'sk-secret'", "url = 'http://u:sk-secret@h'"]
)
def test_a_key_in_the_wrong_place_is_not_repeated(make: Make, key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make(f"[embedder]\nname = 'ollama'\n{key}")
    assert "sk-secret" not in str(refused.value)


def test_a_vault_says_nothing_about_embedders(
    section: Callable[..., EmbedderSettings], tmp_path: Path
) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "rawthink.toml").write_text("embedder = 'ollama'", encoding="utf-8")
    with pytest.raises(ConfigError, match="people share"):
        section()


# --- plugins ------------------------------------------------------------------------------------


def test_the_shipped_embedders_are_registered_under_their_names() -> None:
    written = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    block = written.partition('[project.entry-points."rawthink.embedders"]')[2].partition("\n[")[0]
    assert dict(re.findall(r'^(\w+) = "([\w.:]+)"', block, re.MULTILINE)) == {
        name: f"{module.__name__}:plugin" for name, module in SHIPPED.items()
    }
    for name, module in SHIPPED.items():
        assert load_embedder(name) is module.plugin
        assert module.plugin.name == name
    assert names(EMBEDDERS) == ["none", "odd", "offline", "ollama", "openai"]


def test_what_is_no_plugin_is_refused(make: Make) -> None:
    with pytest.raises(PluginError, match="embedder 'odd' is no EmbedderPlugin but a str"):
        make("embedder = 'odd'")
    with pytest.raises(PluginError, match="no embedder called 'gone'"):
        load_embedder("gone")


PLUGINS: list[EmbedderPlugin] = [module.plugin for module in SHIPPED.values()]


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_every_setting_is_described_and_in_the_operators_table(plugin: EmbedderPlugin) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operator.md").read_text("utf-8")
    rows = re.findall(r"^\| `embedder\.(\w+)` \| ([^|]+) \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE)
    for name, field in plugin.settings.model_fields.items():
        assert field.title, name
        assert field.description, name
        described = [text.strip() for key, whose, text in rows if key == name and f"`{plugin.name}`" in whose]
        assert described == [field.description], name
