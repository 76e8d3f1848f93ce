"""Opening: settings and their secrets, what a store says of itself, and stores of other versions."""

from __future__ import annotations

import threading

import orjson
import pytest
from pydantic import ValidationError

from rawthink_core.errors import BackendError, ConfigError, StoreDamaged, StoreTooNew
from rawthink_core.plugins import load_provider
from rawthink_lancedb.bucket import keeps_versions, signed
from rawthink_lancedb.parts import engine_of, open_parts
from rawthink_lancedb.provider import LanceProvider
from rawthink_lancedb.settings import LanceSettings

from .house import SPACE, START, finds, memory_at, store_at, tell, world_at

SIGNATURE = "1be52ece17f8495511b0141c2f26a4d9284ecfdfc9ec0d32d721ea827b706cb1"


def rewritten(store, **changes):
    """Let the catalogue say something else of its store."""
    body = store.catalogue._table.ask("reading", lambda table: table.query().where("key = 'store'").to_list())
    value = orjson.loads(body[0]["value"]) | changes
    store.catalogue._settle("store", value, anew=True)


def test_a_store_of_a_newer_version_is_refused_and_left_alone(tmp_path):
    with store_at(tmp_path) as store:
        rewritten(store, format=2)
    with pytest.raises(StoreTooNew, match="pip install --upgrade rawthink"), store_at(tmp_path):
        pass


def test_a_store_of_an_older_version_is_refused_with_the_command_to_run(tmp_path):
    with store_at(tmp_path) as store:
        rewritten(store, format=0)
    with pytest.raises(BackendError, match="rawthink import FILE"), store_at(tmp_path):
        pass


def test_a_catalogue_that_lacks_what_it_must_say_is_damaged(tmp_path):
    with store_at(tmp_path) as store:
        rewritten(store, timezone=None)
        store.catalogue._settle("store", {"format": 1, "store": "x"}, anew=True)
    with pytest.raises(StoreDamaged, match="backup"), store_at(tmp_path):
        pass


def test_of_processes_that_make_a_store_at_once_one_says_what_it_is(tmp_path):
    found, barrier = [], threading.Barrier(4)

    def make():
        barrier.wait()
        with store_at(tmp_path) as store:
            found.append(store.catalogue.header())

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


@pytest.mark.asyncio
async def test_a_folder_may_be_given_and_is_for_this_user_alone(tmp_path):
    place = tmp_path / "elsewhere" / "store"
    async with memory_at(tmp_path, uri=str(place)) as memory:
        await tell(memory, "a heron")
        assert await finds(memory, "heron") == ["a heron"]
        assert memory.info.location == str(place)
    assert place.stat().st_mode & 0o077 == 0
    assert not (tmp_path / "vault").exists()


@pytest.mark.parametrize(
    "given",
    [
        {"uri": "s3://user:secret@bucket/prefix"},
        {"options": {"aws_secret_access_key": "s"}},
        {"options": {"AWS_SESSION_TOKEN": "s"}},
        {"options": {"azure_storage_sas_key": "s"}},
        {"uri": ""},
        {"lock_seconds": 0},
        {"nobody": 1},
    ],
)
def test_settings_that_hold_a_secret_or_nonsense_are_refused(given):
    with pytest.raises(ValidationError) as raised:
        LanceSettings(**given)
    assert {error["loc"][0] for error in raised.value.errors()} == set(given)


def test_a_file_of_options_that_others_can_read_is_refused(tmp_path):
    file = tmp_path / "options.toml"
    file.write_text('aws_secret_access_key = "very secret"\n')
    file.chmod(0o644)
    settings = LanceSettings(uri="s3://bucket/x", options_file=str(file))
    with pytest.raises(ConfigError, match="chmod 600"):
        engine_of(settings, world_at(tmp_path))
    file.chmod(0o600)
    assert engine_of(settings, world_at(tmp_path)).options["aws_secret_access_key"] == "very secret"
    file.write_text('aws_secret_access_key = "very secret\n')
    with pytest.raises(ConfigError) as raised:
        engine_of(settings, world_at(tmp_path))
    assert "very secret" not in str(raised.value)


def test_a_place_where_no_folder_can_be_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "vault").write_text("a file")
    with pytest.raises(BackendError, match="choose another uri"):
        open_parts(LanceSettings(), world_at(tmp_path))


@pytest.mark.asyncio
async def test_health_before_opening_makes_nothing(tmp_path):
    health = await LanceProvider(LanceSettings(), world_at(tmp_path)).health()
    assert (health.status, health.exists) == ("down", False)
    assert list(tmp_path.iterdir()) == []


def test_the_plugin_is_found_by_its_name():
    plugin = load_provider("lancedb")
    assert plugin.settings is LanceSettings
    assert all(field.title and field.description for field in LanceSettings.model_fields.values())


def test_a_request_is_signed_as_aws_wants_it():
    # the parts that a server checks, for a fixed moment; computed with botocore's S3SigV4Auth
    headers = signed("https://examplebucket.s3.amazonaws.com/", "us-east-1", "AKID", "SECRET", "", START)
    assert headers["x-amz-date"] == "20260101T000000Z"
    assert headers["Authorization"].startswith(
        "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="
    )
    assert headers["Authorization"].rpartition("=")[2] == SIGNATURE


def test_where_it_can_not_be_told_old_versions_are_taken_to_be_kept(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert "credentials" in keeps_versions("s3://bucket/x", {})
    assert "not known" in keeps_versions("gs://bucket/x", {})
    options = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "endpoint": "http://127.0.0.1:9"}
    assert "could not be asked" in keeps_versions("s3://bucket/x", options)


@pytest.mark.asyncio
async def test_a_log_that_was_there_and_is_gone_is_damage_and_no_empty_space(tmp_path):
    async with memory_at(tmp_path) as memory:
        await tell(memory, "Tool", "is red")
    (log,) = (tmp_path / "vault" / "lancedb").glob("s_*.lance")
    aside = log.rename(tmp_path / log.name)
    async with memory_at(tmp_path) as memory:
        for verb in (
            memory.search("red"),
            memory.scan(),
            tell(memory, "Tool", "is blue"),
            memory.get(names=["Tool"]),
        ):
            with pytest.raises(StoreDamaged, match=f"{log.name.removesuffix('.lance')}.*backup"):
                await verb
        assert not (await memory.in_space("other").scan()).items
        assert (await memory.health()).status != "ok"
    aside.rename(log)
    async with memory_at(tmp_path) as memory:
        assert await finds(memory, "red")


@pytest.mark.asyncio
async def test_a_store_from_before_logs_were_noted_opens_and_notes_its_log(tmp_path):
    async with memory_at(tmp_path) as memory:
        await tell(memory, "Tool", "is red")
    with store_at(tmp_path) as store:
        store.catalogue._table.change("writing", lambda table: table.delete(f"key = 'log:{SPACE}'"))
        assert not store.catalogue.knows_log(SPACE)
    async with memory_at(tmp_path) as memory:
        assert await finds(memory, "red")
        await tell(memory, "Tool", "is blue")
    with store_at(tmp_path) as store:
        assert store.catalogue.knows_log(SPACE)
