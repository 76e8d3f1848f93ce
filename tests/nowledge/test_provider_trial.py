"""``rawthink conform nowledge``: on a real server, beside what is there, and without a trace afterwards."""

from __future__ import annotations

import asyncio

import pytest

from rawthink_conformance import conform
from rawthink_core.errors import AuthenticationFailed, ConfigError
from rawthink_nowledge.probe import answers_of
from rawthink_nowledge_emulator import Emulator

from .provided import memory_on, thing


def test_a_run_leaves_what_was_there_and_nothing_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("RAWTHINK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("RAWTHINK_CONFIG", str(tmp_path / "rawthink.toml"))
    (tmp_path / "rawthink.toml").write_text("", encoding="utf-8")
    with Emulator("0.10.28") as server:
        monkeypatch.setenv("NMEM_API_URL", server.url)
        asyncio.run(remember(server, tmp_path))
        before = {memory.id for memory in server.memories()}
        report = conform("nowledge", only="write.r")
        report_down = conform("nowledge", only="down.")
        assert report.ok, report.table()
        assert report_down.ok, report_down.table()
        assert report.counts["passed"] == 1
        assert {memory.id for memory in server.memories()} == before
        assert report.observed["labels in PATCH"] == "ignored"
        for text in (report.table(), report.markdown(), report.json().decode()):
            assert "labels in PATCH" in text
        assert answers_of(tmp_path / "state", server.url, "0.10.28") == report.observed


async def remember(server, folder):
    async with memory_on(server, folder) as memory:
        await memory.record(entities=[thing("Redis")])


@pytest.mark.parametrize("key", [None, "wrong"])
def test_a_run_with_the_wrong_key_ends_at_the_first_refusal(monkeypatch, tmp_path, key):
    monkeypatch.setenv("NMEM_CLI_CONFIG_DIR", str(tmp_path))
    with Emulator(api_key="right") as server:
        monkeypatch.setenv("NMEM_API_URL", server.url)
        monkeypatch.setenv("NMEM_API_KEY", key or "")
        with pytest.raises(AuthenticationFailed):
            conform("nowledge")
        assert [seen.status for seen in server.requests] == [200, 401]


def test_a_run_is_refused_where_nobody_named_the_server_that_may_be_written_to(monkeypatch):
    monkeypatch.delenv("NMEM_API_URL", raising=False)
    with pytest.raises(ConfigError, match="NMEM_API_URL"):
        conform("nowledge")
