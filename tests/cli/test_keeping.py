"""`init`, `doctor`, `providers`, and what is global: options, settings, errors, other people's commands."""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import json
import os
from dataclasses import replace

import click
import pytest

from rawthink_cli import exits, group, startup


def test_init_creates_the_store_and_says_where_everything_is(cli):
    answer = cli("init")
    assert answer.code == 0
    for part in ("settings ", "vault ", "store ", "space      default", "time zone  "):
        assert part in answer.out
    again = cli("init", "--json").json
    assert again["settings_written"] is False
    assert (cli.home / "rawthink-vault" / "rawthink.jsonl").exists()


def test_init_remembers_the_choice_of_a_vault(cli, tmp_path):
    vault = tmp_path / 'my "notes" 记忆'
    assert cli("--vault", vault, "--space", "work", "init").code == 0
    cli("record", "x", "y", "--type", "finding", "--domain", "software")
    assert (vault / "rawthink.jsonl").read_bytes().count(b'"space":"work"') == 1
    assert not (cli.home / "rawthink-vault").exists()


def test_init_leaves_settings_that_are_there_alone(cli, tmp_path):
    file = tmp_path / "rawthink.toml"
    file.write_text('vault = "~/elsewhere"  # mine\n', encoding="utf-8")
    answer = cli("init", "--config", file, "--json").json
    assert (answer["settings"], answer["vault"]) == (str(file), str(cli.home / "elsewhere"))
    assert file.read_text(encoding="utf-8") == 'vault = "~/elsewhere"  # mine\n'


def test_init_says_when_other_runs_will_use_another_vault(cli, tmp_path):
    cli("init")
    answer = cli("--vault", tmp_path / "other", "init")
    assert "other runs will use that" in answer.err
    assert answer.code == 0


def test_a_log_level_that_is_none_is_refused(cli):
    assert "RAWTHINK_LOG_LEVEL" in cli("doctor", RAWTHINK_LOG_LEVEL="loud").err


def test_init_writes_the_settings_file_that_is_named(cli, tmp_path):
    file = tmp_path / "new" / "rawthink.toml"
    answer = cli("init", RAWTHINK_CONFIG=str(file), RAWTHINK_VAULT=str(tmp_path / "v"))
    assert answer.code == 0, answer.err
    assert f'vault = "{tmp_path / "v"}"' in file.read_text(encoding="utf-8")
    if os.name != "nt":
        assert file.stat().st_mode & 0o077 == 0


def test_an_init_that_fails_leaves_no_settings_behind(cli, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    answer = cli("--vault", tmp_path / "file" / "vault", "init")
    assert answer.code == 1
    assert str(tmp_path / "file") in answer.err
    assert not list(cli.home.rglob("rawthink.toml"))


def test_a_typed_vault_counts_more_than_a_written_path(cli, tmp_path):
    file = tmp_path / "rawthink.toml"
    file.write_text(f'[providers.local]\npath = "{tmp_path / "written"}"\n', encoding="utf-8")
    answer = cli("--config", file, "--vault", tmp_path / "typed", "init", "--json")
    assert answer.json["store"] == str(tmp_path / "typed")


def test_doctor_says_how_the_store_is_and_where(cache):
    answer = cache("doctor")
    assert answer.code == 0
    assert f"store: {cache.home / 'rawthink-vault'}" in answer.out
    assert answer.out.endswith("All is well.\n")
    assert {row["name"] for row in cache("doctor", "--json").json["checks"]} >= {"settings", "journal"}


def test_doctor_names_the_damage_and_the_fix_and_mends_it(cache):
    cache("record", "api/cache", "a second commit")
    cache("record", "api/cache", "a third commit")
    journal = cache.home / "rawthink-vault" / "rawthink.jsonl"
    data = journal.read_bytes().replace(b"a second", b"a broken")
    journal.write_bytes(data)
    answer = cache("doctor")
    assert answer.code in (1, 5)
    assert "rawthink doctor --fix" in answer.out
    assert cache("record", "api/cache", "refused now").code == 1
    mended = cache("doctor", "--fix")
    assert mended.code == 0, mended.out
    assert "mended: " in mended.out
    assert list(journal.parent.glob("rawthink.jsonl.damaged-*"))
    assert cache("record", "api/cache", "accepted again").code == 0


def test_doctor_shows_chat_turns_that_could_not_be_stored_and_tries_them_again(cli, tmp_path):
    from types import SimpleNamespace

    from rawthink_core.operations import AfterChat, parse
    from rawthink_core.provider import ProviderInfo
    from rawthink_core.spooling.pacing import Pace
    from rawthink_core.spooling.spool import Spool
    from rawthink_core.spooling.spooled import Post

    state = {"RAWTHINK_STATE": str(tmp_path / "state")}
    cli("init", **state)
    store = SimpleNamespace(info=ProviderInfo("local", "", {}, location=str(cli.home / "rawthink-vault")))
    spool = Spool(Post(store, None, tmp_path / "state", Pace()).folder)
    passages = [{"text": f"a {bird}", "session": "s", "key": bird} for bird in ("heron", "stork")]
    for said in passages:
        turn = {"id": said["key"], "scope": {"space": "default"}, "passages": [said]}
        ((_, talk),) = spool.append((parse(AfterChat, turn), "s"))
    spool.put_aside(spool.head(talk), "it was refused")
    told = cli("doctor", "--json", **state)
    rows = {row["status"]: row for row in told.json["checks"] if row["name"] == "spool"}
    assert "1 chat turn waits" in rows["note"]["detail"]
    assert rows["warn"]["detail"].endswith(f"{spool.set_aside}: it was refused")
    assert (rows["warn"]["fix"], told.code) == ("rawthink doctor --fix", exits.PARTIAL)
    assert "2 stored, 0 waiting, 0 set aside" in " ".join(cli("doctor", "--fix", **state).out.split())
    assert cli("doctor", **state).code == 0
    assert "a heron" in cli("search", "heron", **state).out


@pytest.mark.parametrize("made", [False, True], ids=["no folder", "an empty folder"])
def test_doctor_makes_no_store_and_says_how_to(cli, made):
    vault = cli.home / "rawthink-vault"
    if made:
        vault.mkdir()
    before = sorted(cli.home.rglob("*"))
    for arguments in ((), ("--fix",)):
        answer = cli("doctor", *arguments)
        assert answer.code == 1
        assert f"store: {vault}" in answer.out
        assert "→ rawthink init\n" in answer.out
        assert answer.out.endswith("There is no store yet.\n")
    told = cli("doctor", "--json")
    assert (told.code, told.json["exists"], told.json["status"]) == (1, False, "down")
    assert [(row["name"], row["status"], row["fix"]) for row in told.json["checks"]] == [
        ("settings", "ok", ""),
        ("store", "fail", "rawthink init"),
    ]
    assert sorted(cli.home.rglob("*")) == before
    assert cli("init").code == 0
    assert cli("doctor", "--json").json["exists"] is True


def test_doctor_looks_at_the_graph_of_another_server_and_makes_no_store(cli):
    vault = cli.home / "rawthink-vault"
    vault.mkdir()
    graph = {"type": "entity", "name": "Redis", "entityType": "tool", "observations": ["is fast"]}
    (vault / "memory.jsonl").write_text(json.dumps(graph) + "\n", encoding="utf-8")
    told = cli("doctor", "--json")
    assert told.code == 0
    assert "read in place" in next(
        row["detail"] for row in told.json["checks"] if row["name"] == "foreign file"
    )
    assert not (vault / "rawthink.jsonl").exists()


def test_a_graph_file_that_settings_name_is_a_memory(cli, tmp_path):
    file = tmp_path / "their memory.jsonl"
    file.write_text(
        '{"type":"entity","name":"Redis","entityType":"tool","observations":[]}\n', encoding="utf-8"
    )
    told = cli("doctor", "--json", MEMORY_FILE_PATH=str(file)).json
    assert told["exists"] is True
    assert "read in place" in next(row["detail"] for row in told["checks"] if row["name"] == "foreign file")


def test_doctor_works_on_a_store_that_cannot_be_opened(cache):
    journal = cache.home / "rawthink-vault" / "rawthink.jsonl"
    journal.write_bytes(b'{"v":2,"store":"x"}\n')
    answer = cache("doctor", "--json")
    assert answer.code == 1
    assert answer.json["status"] == "down"
    assert any(row["status"] == "fail" for row in answer.json["checks"])
    assert "Upgrade" in cache("doctor").out


def test_providers_are_listed_with_what_they_can_do(cli):
    answer = cli("providers", "--json").json["providers"]
    rows = {row["name"]: row for row in answer}
    assert {name: row["chosen"] for name, row in rows.items()}.items() >= {
        "local": True,
        "reference": False,
    }.items()
    assert rows["local"]["capabilities"]["durable"] == "power loss"
    assert rows["reference"]["available"]
    shown = cli("providers").out
    assert "* local: " in shown
    assert "forget: erased" in shown
    assert not (cli.home / "rawthink-vault").exists()


def test_a_provider_whose_library_is_missing_says_what_to_install(cli, monkeypatch):
    from rawthink_local.plugin import plugin

    monkeypatch.setattr(
        "importlib.metadata.EntryPoint.load", lambda _: replace(plugin, requires=("no_such",))
    )
    row = next(row for row in cli("providers", "--json").json["providers"] if row["name"] == "local")
    assert (row["available"], row["capabilities"]) == (False, None)
    assert "no_such is not installed; install it with: pip install 'rawthink[local]'" in row["why"]
    answer = cli("search", "x")
    assert (answer.code, "pip install 'rawthink[local]'" in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("address", "missing", "extra"),
    [("", "qdrant_edge", "local"), ("http://127.0.0.1:6333", "qdrant_client", "qdrant")],
)
def test_which_library_a_provider_needs_depends_on_its_settings(cli, monkeypatch, address, missing, extra):
    if address:
        monkeypatch.setenv("RAWTHINK_PROVIDERS__LOCAL__URL", address)
    found = importlib.util.find_spec
    for gone in ("qdrant_edge", "qdrant_client"):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, gone=gone: None if name == gone else found(name)
        )
        row = next(row for row in cli("providers", "--json").json["providers"] if row["name"] == "local")
        assert row["available"] == (gone != missing)
        if gone == missing:
            wanted = f"{missing} is not installed; install it with: pip install 'rawthink[{extra}]'"
            assert wanted in row["why"]
            assert wanted in " ".join(cli("providers", "local").out.split())
            answer = cli("search", "x")
            assert (answer.code, wanted in answer.err) == (2, True)
        else:
            assert row["capabilities"]["lexical"]


def test_settings_of_a_provider_are_described(cli):
    described = cli("providers", "local", "--json").json
    settings = {setting["name"]: setting for setting in described["settings"]}
    assert settings["path"]["variable"] == "RAWTHINK_PROVIDERS__LOCAL__PATH"
    assert all(setting["title"] and setting["description"] for setting in described["settings"])
    assert "[providers.local]" in cli("providers", "local").out
    assert cli("providers", "nothing").code == 2


def test_settings_of_a_provider_are_a_schema_for_a_program(cli):
    schema = cli("providers", "local", "--schema").json
    assert schema["properties"]["lock_seconds"] == {
        "default": 20.0, "description": "Seconds to wait for another process that writes", "exclusiveMinimum": 0,
        "title": "Lock", "type": "number",
    }  # fmt: skip
    assert cli("providers", "--schema").code == 2


def test_a_missing_provider_is_an_error_that_names_what_is_installed(cli):
    answer = cli("--provider", "elsewhere", "search", "x")
    assert answer.code == 2
    assert "no provider called 'elsewhere' is installed" in answer.err
    assert "local" in answer.err


def test_spaces_are_apart(cache):
    assert cache("--space", "other", "search", "redis").code == 3
    assert cache("search", "redis", "--space", "other").code == 3
    assert cache("--space", "other", "search", "redis", "--space", "default").code == 0
    assert cache("search", "redis", RAWTHINK_SPACE="other").code == 3


def test_a_wrong_setting_names_file_and_key(cli, tmp_path):
    file = tmp_path / "rawthink.toml"
    file.write_text('provder = "local"\n', encoding="utf-8")
    answer = cli("--config", file, "search", "x")
    assert answer.code == 2
    assert str(file) in answer.err
    assert "'provider'" in answer.err
    assert cli("--config", tmp_path / "none.toml", "search", "x").code == 2


def test_a_variable_without_meaning_is_told_once(cli):
    answer = cli("providers", QDRANT_PATH="/data/qdrant")
    assert answer.err.count("QDRANT_PATH") == 1
    assert answer.code == 0


def test_a_mistyped_command_is_answered_with_the_nearest(cli):
    answer = cli("serach", "x")
    assert answer.code == 2
    assert "'search'" in answer.err


def test_a_fault_of_ours_is_called_one_and_shows_where(cli):
    def broken(*_):
        raise ZeroDivisionError("by nought")

    answer = cli("search", "x", build=broken)
    assert answer.code == 70
    assert "this is a fault of rawthink" in answer.err
    assert "Traceback" in answer.err


def test_no_colour_means_no_escape(cache):
    assert "\x1b" not in cache("search", "redis", NO_COLOR="1").out


class Point:
    name = "greet"
    value = "greeting:greet"

    def load(self):
        @click.command("greet")
        @click.option("--json", "as_json", is_flag=True)
        @click.option("--space")
        def greet(as_json, space):
            click.echo(f"{as_json} {space}")
            return 3 if as_json else 0

        return greet


@pytest.fixture
def greeting(monkeypatch):
    real = importlib.metadata.entry_points

    def entry_points(**wanted):
        if wanted.get("group") == group.COMMANDS:
            return [Point()] if wanted.get("name") in (None, "greet") else []
        return real(**wanted)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


def test_a_command_of_another_distribution_is_found_and_gets_the_global_options(cli, greeting):
    assert cli("greet").out == "False None\n"
    answer = cli("--json", "--space", "work", "greet")
    assert (answer.code, answer.out) == (3, "True work\n")
    assert "greet takes no --vault" in cli("--vault", "x", "greet").err
    assert "'greet'" in cli("gret").err


def test_a_command_that_is_not_ours_gets_an_ordinary_process(cli, greeting, monkeypatch):
    monkeypatch.delenv("PYDANTIC_DISABLE_PLUGINS", raising=False)
    startup.shorten()
    assert not gc.isenabled()
    cli("greet")
    assert gc.isenabled()
    assert "PYDANTIC_DISABLE_PLUGINS" not in os.environ


def test_conform_is_found_by_its_entry_point(cli):
    pytest.importorskip("rawthink_conformance.command")
    assert cli("conform", "--help").code == 0
