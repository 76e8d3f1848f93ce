"""Settings come from where they should, in the right order, and a mistake names its place and its cure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rawthink_core.config import SHARED_KEYS, Configuration, Settings, absolute, config_file, load
from rawthink_core.errors import ConfigError
from rawthink_core.vocabulary import Folded

if TYPE_CHECKING:
    from collections.abc import Callable

    Load = Callable[..., Configuration]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


@pytest.fixture
def read(tmp_path: Path, vault: Path) -> Load:
    """Return what reads settings: a text of our own file, one of the vault's, the environment, and what is given."""

    def read(
        own: str = "", *, shared: str | None = None, env: dict[str, str] | None = None, **given: Any
    ) -> Configuration:
        file = tmp_path / "own.toml"
        file.write_text(own, encoding="utf-8")
        if shared is not None:
            (vault / "rawthink.toml").write_text(shared, encoding="utf-8")
        return load(file, {"RAWTHINK_VAULT": str(vault), **(env or {})}, **given)

    return read


def test_without_any_settings_all_has_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    found = load(environ={})
    assert found.settings == Settings()
    assert found.file is None
    assert found.vault == tmp_path / "rawthink-vault"


@pytest.mark.parametrize(
    ("shared", "own", "env", "given", "space"),
    [
        (None, "", {}, {}, "default"),
        ("space = 'shared'", "", {}, {}, "shared"),
        ("space = 'shared'", "space = 'own'", {}, {}, "own"),
        ("space = 'shared'", "space = 'own'", {"RAWTHINK_SPACE": "env"}, {}, "env"),
        ("space = 'shared'", "space = 'own'", {"RAWTHINK_SPACE": "env"}, {"space": "given"}, "given"),
        (None, "space = 'own'", {"RAWTHINK_SPACE": ""}, {"space": None}, "own"),
    ],
)
def test_what_is_nearer_counts_more(
    read: Load, shared: str | None, own: str, env: dict[str, str], given: dict[str, Any], space: str
) -> None:
    assert read(own, shared=shared, env=env, **given).settings.space == space


def test_sections_are_merged_key_by_key(read: Load) -> None:
    found = read(
        "[providers.local]\npath = 'own'\nfsync = true\n[embedder]\nname = 'ollama'",
        env={"RAWTHINK_PROVIDERS__LOCAL__PATH": "env", "RAWTHINK_EMBEDDER__MODEL": "bge-m3"},
    ).settings
    assert found.providers == {"local": {"path": "env", "fsync": True}}
    assert (found.embedder.name, found.embedder.model) == ("ollama", "bge-m3")


@pytest.mark.parametrize(
    ("name", "value", "path", "meant"),
    [
        ("RAWTHINK_PROVIDER", "lancedb", ("provider",), "lancedb"),
        ("RAWTHINK_EMBEDDER", "ollama", ("embedder", "name"), "ollama"),
        ("RAWTHINK_REDACT", "on", ("redact",), "on"),
        ("RAWTHINK_RECALL__DEADLINE", "2.5", ("recall", "deadline"), 2.5),
        (
            "RAWTHINK_VOCABULARY__DOMAINS",
            '["cooking", "travel"]',
            ("vocabulary", "domains"),
            ("cooking", "travel"),
        ),
        ("RAWTHINK_SPACE", "true", ("space",), "true"),
        ("RAWTHINK_SPACE", '["a"]', ("space",), '["a"]'),
        ("RAWTHINK_SPACE", "__ x ", ("space",), "__ x "),
    ],
)
def test_a_variable_sets_what_its_name_says(
    read: Load, name: str, value: str, path: tuple[str, ...], meant: object
) -> None:
    found: Any = read(env={name: value}).settings
    for key in path:
        found = getattr(found, key)
    assert found == meant


def test_variables_of_rawthink_mcp_keep_working(read: Load, tmp_path: Path) -> None:
    theirs = {"MEMORY_FILE_PATH": "/data/memory.jsonl", "QDRANT_URL": "http://localhost:6333"}
    found = read(env={"RAWTHINK_VAULT": str(tmp_path / "old"), **theirs})
    assert found.vault == tmp_path / "old"
    local = {"memory_file": "/data/memory.jsonl", "url": "http://localhost:6333"}
    assert found.settings.providers == {"local": local}
    assert found.notices == ()


def test_variables_without_meaning_are_accepted_with_one_notice_each(read: Load) -> None:
    env = {
        "QDRANT_PATH": "/data/qdrant",
        "OLLAMA_MODEL": "y",
        "RAWTHINK_TOOL_PROFILE": "full",
        "RAWTHINK_LOG_LEVEL": "INFO",
    }
    notices = read(env=env).notices
    assert [notice.split(" ")[0] for notice in notices] == ["QDRANT_PATH", "OLLAMA_MODEL"]


def test_a_misspelt_variable_gets_a_notice_and_a_strange_one_does_not(read: Load) -> None:
    notices = read(env={"RAWTHINK_SPCE": "x", "RAWTHINK_UNRELATED": "y", "RAWTHINK_CACHE": "z"}).notices
    assert notices == ("RAWTHINK_SPCE is set but means nothing to rawthink; did you mean RAWTHINK_SPACE?",)


@pytest.mark.parametrize(
    ("own", "env", "said"),
    [
        ("provder = 'x'", {}, ["provder (in ", "own.toml)", "Did you mean 'provider'?"]),
        ("[recall]\ndeadlin = 1", {}, ["recall.deadlin", "Did you mean 'deadline'?", "Allowed: deadline"]),
        ("[vocabulary]\ndomain = ['x']", {}, ["vocabulary.domain", "Did you mean 'domains'?"]),
        ("", {"RAWTHINK_RECALL__DEADLIN": "1"}, ["(in the environment)", "Did you mean 'deadline'?"]),
        ("", {"RAWTHINK_RECALL__DEADLINE": "-1"}, ["recall.deadline (in the environment)", "greater than 0"]),
        ("redact = 'maybe'", {}, ["redact", "'on', 'warn' or 'off'"]),
        ("space = 5", {}, ["space", "must be a text"]),
        ("space = ''", {}, ["space", "must not be empty"]),
        ("", {"RAWTHINK_PROVIDERS": "local"}, ["providers (in the environment)", "must be an object"]),
        ("space = 'a'\nspace = 'b'", {}, ["own.toml is not valid TOML"]),
        ("[a", {}, ["own.toml is not valid TOML"]),
        (
            "",
            {"RAWTHINK_RECALL": "5", "RAWTHINK_RECALL__DEADLINE": "1"},
            ["RAWTHINK_RECALL__DEADLINE", "'recall'"],
        ),
    ],
)
def test_a_mistake_names_its_place_and_what_was_meant(
    read: Load, own: str, env: dict[str, str], said: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(own, env=env)
    for part in said:
        assert part in str(refused.value)


def test_every_mistake_is_told_at_once(read: Load) -> None:
    with pytest.raises(ConfigError) as refused:
        read("provder = 'x'\nspace = 5", env={"RAWTHINK_REDACT": "maybe"})
    assert all(name in str(refused.value) for name in ("provder", "space", "redact"))


# --- files --------------------------------------------------------------------------------------


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no configuration file .*none\.toml"):
        load(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match="there is no configuration file"):
        load(environ={"RAWTHINK_CONFIG": str(tmp_path / "none.toml")})
    with pytest.raises(ConfigError, match="can't be read"):
        load(tmp_path, {})


def test_a_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("space = 'mine'", encoding="utf-8")
    found = load(environ={"RAWTHINK_CONFIG": str(file)})
    assert (found.settings.space, found.file) == ("mine", file)


def test_an_empty_name_of_a_file_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load(environ={"RAWTHINK_CONFIG": ""}).file is None
    assert config_file({}) == tmp_path / "rawthink" / "rawthink.toml"


def test_a_file_saved_by_a_windows_editor_is_read(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_bytes(b"\xef\xbb\xbfspace = 'mine'\r\n")
    assert load(file, {}).settings.space == "mine"
    file.write_bytes(b"space = '\xff'")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(file, {})


# --- vaults travel between people ---------------------------------------------------------------


def test_a_file_in_a_vault_sets_what_is_harmless_to_share(read: Load) -> None:
    tables = "[vocabulary]\ndomains = ['cooking']\n[ranking]\nfusion = 'rrf'\n"
    found = read(shared=f"space = 's'\ntimezone = 'UTC'\n{tables}").settings
    assert (found.space, found.timezone, found.vocabulary.domains) == ("s", "UTC", ("cooking",))
    assert found.ranking.fusion == "rrf"


def test_fusion_is_by_score_or_by_rank(read: Load) -> None:
    assert read().settings.ranking.fusion == "minmax"
    assert read(env={"RAWTHINK_RANKING__FUSION": "rrf"}).settings.ranking.fusion == "rrf"
    with pytest.raises(ConfigError, match=r"ranking\.fusion .*minmax.*rrf"):
        read("[ranking]\nfusion = 'best'")


@pytest.mark.parametrize("name", sorted(set(Settings.model_fields) - set(SHARED_KEYS)))
def test_a_file_in_a_vault_sets_nothing_else(read: Load, name: str) -> None:
    with pytest.raises(ConfigError, match=f"which people share: .*not {name}"):
        read(shared=f"{name} = 'x'")


def test_a_mistake_in_a_vault_names_that_file(read: Load, vault: Path) -> None:
    with pytest.raises(ConfigError, match="space") as refused:
        read(shared="space = 5")
    assert str(vault / "rawthink.toml") in str(refused.value)


def test_ones_own_file_may_lie_in_the_vault_when_it_is_named(
    vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = vault / "rawthink.toml"
    file.write_text(f"provider = 'lancedb'\nvault = '{vault}'", encoding="utf-8")
    assert load(file, {}).settings.provider == "lancedb"
    monkeypatch.chdir(vault)
    assert load(Path("rawthink.toml"), {}).settings.provider == "lancedb"


# --- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["~/notes", "notes", "./notes", "notes/../notes"])
def test_a_path_means_the_same_place_from_everywhere(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home 中文"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for folder in (tmp_path, home):
        monkeypatch.chdir(folder)
        assert absolute(written) == home / "notes"


def test_an_absolute_path_stays(tmp_path: Path) -> None:
    assert absolute(str(tmp_path / "a b" / "缓存")) == tmp_path / "a b" / "缓存"


@pytest.mark.parametrize("written", ["~no_such_user_here/notes", "a\x00b"])
def test_a_path_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="is no place for a file"):
        absolute(written)


# --- the vocabulary -----------------------------------------------------------------------------


def test_one_line_adds_a_word(read: Load) -> None:
    words = read("[vocabulary]\nrelations = ['owns']\nrelation_aliases = { owned_by = '<owns' }").vocabulary()
    assert words.relation("owned_by") == Folded("owns", turned=True)


def test_a_synonym_of_nothing_is_refused(read: Load) -> None:
    with pytest.raises(ConfigError, match=r"\[vocabulary\] relation alias 'owned_by'"):
        read("[vocabulary]\nrelation_aliases = { owned_by = '<owns' }").vocabulary()


def test_every_setting_is_described_for_people() -> None:
    todo = [Settings]
    for model in todo:
        for name, field in model.model_fields.items():
            assert field.title, name
            assert field.description, name
            if isinstance(field.default, Settings.__mro__[1]):
                todo.append(type(field.default))  # type: ignore[arg-type] # a section
    assert len(todo) == 6
