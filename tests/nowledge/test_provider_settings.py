"""Which server is meant: our settings, the vendor's variables, its file, this machine."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from rawthink_core.errors import AuthenticationFailed, ConfigError
from rawthink_nowledge.settings import DEFAULT_URL, NowledgeSettings, where


def theirs(folder, **body):
    (folder / "config.json").write_text(json.dumps(body), encoding="utf-8")
    return {"NMEM_CLI_CONFIG_DIR": str(folder)}


def settings(**given):
    return NowledgeSettings.model_validate(given)


def test_without_any_configuration_it_is_this_machine_without_a_key(tmp_path):
    place = where(settings(), {"NMEM_CLI_CONFIG_DIR": str(tmp_path)})
    assert (place.url, place.key.read(), place.space) == (DEFAULT_URL, None, "default")


def test_the_file_counts_less_than_the_environment_and_that_less_than_our_settings(tmp_path):
    file = theirs(tmp_path, apiUrl="http://file:1", apiKey="of-file", space="file")
    assert where(settings(), file).url == "http://file:1"
    assert where(settings(), file).key.read() == "of-file"
    assert where(settings(), file).space == "file"
    both = {**file, "NMEM_API_URL": "http://env:2/", "NMEM_API_KEY": "of-env", "NMEM_SPACE": "env"}
    assert where(settings(), both).url == "http://env:2"
    assert where(settings(), both).key.read() == "of-env"
    assert where(settings(), both).space == "env"
    given = where(settings(url="http://ours:3/", api_key="ours"), both)
    assert (given.url, given.key.read()) == ("http://ours:3", "ours")


def test_the_file_may_be_written_in_either_spelling(tmp_path):
    place = where(settings(), theirs(tmp_path, api_url="http://file:1", api_key="k"))
    assert (place.url, place.key.read()) == ("http://file:1", "k")


def test_an_empty_key_in_the_environment_means_no_key(tmp_path):
    file = theirs(tmp_path, apiKey="of-file")
    assert where(settings(), {**file, "NMEM_API_KEY": ""}).key.read() is None


def test_a_key_may_lie_in_a_file(tmp_path):
    (tmp_path / "key").write_text("nmem_abc\n", encoding="utf-8")
    place = where(settings(api_key_file=tmp_path / "key"), {"NMEM_CLI_CONFIG_DIR": str(tmp_path)})
    assert place.key.read() == "nmem_abc"


@pytest.mark.parametrize("key", ["line\nbreak", "gîzli"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(tmp_path, key):
    place = where(settings(api_key=key), {"NMEM_CLI_CONFIG_DIR": str(tmp_path)})
    with pytest.raises(AuthenticationFailed) as refused:
        place.key.read()
    assert key not in str(refused.value)


def test_nothing_shows_a_key(tmp_path):
    given = settings(api_key="nmem_secret")
    place = where(given, {"NMEM_CLI_CONFIG_DIR": str(tmp_path)})
    assert "nmem_secret" not in repr(given) + repr(place) + repr(place.key) + given.model_dump_json()


@pytest.mark.parametrize(
    "url", ["127.0.0.1:14242", "ftp://host", "http://", "http://me:key@host", "http://host?nmem_api_key=k"]
)
def test_an_address_that_is_none_is_refused_wherever_it_stands(tmp_path, url):
    with pytest.raises(ValidationError):
        settings(url=url)
    with pytest.raises(ConfigError, match="NMEM_API_URL"):
        where(settings(), {"NMEM_CLI_CONFIG_DIR": str(tmp_path), "NMEM_API_URL": url})


@pytest.mark.parametrize("content", ["{", "[]", '{"apiUrl": 5}'])
def test_a_broken_file_is_named_and_not_quoted(tmp_path, content):
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config\.json"):
        where(settings(), {"NMEM_CLI_CONFIG_DIR": str(tmp_path)})


def test_a_blank_space_is_refused():
    with pytest.raises(ValidationError, match="must not be blank"):
        settings(spaces={"team": " "})
