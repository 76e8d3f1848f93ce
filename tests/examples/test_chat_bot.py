"""The chat bot, on each of our backends by config: what it was told in one session, it knows in the next."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rawthink_nowledge_emulator import Emulator as Nowledge
from rawthink_openai_emulator import Emulator

FILE = Path(__file__).parents[2] / "examples" / "chat_bot" / "chat_bot.py"


@pytest.fixture(scope="module")
def model():
    with Emulator() as model:
        yield model


@pytest.fixture
def bot(model, tmp_path, monkeypatch):
    """Return a function that runs the bot on some lines and returns what it writes."""
    spec = importlib.util.spec_from_file_location("chat_bot", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("RAWTHINK_CONFIG", str(tmp_path / "rawthink.toml"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(capsys, lines, *arguments):
        waiting = iter(lines)

        def read(_):
            try:
                return next(waiting)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr("builtins.input", read)
        asyncio.run(module.main(list(arguments)))
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("provider", ["local", "lancedb", "nowledge"])
def test_the_next_session_knows_what_the_last_one_said(bot, capsys, tmp_path, provider):
    with Nowledge("0.10") as nowledge:
        settings = f'[providers.nowledge]\nurl = "{nowledge.url}"\n' if provider == "nowledge" else ""
        (tmp_path / "rawthink.toml").write_text(
            f'provider = "{provider}"\nvault = "{tmp_path.as_posix()}/vault"\n{settings}[embedder]\nname = "none"\n'
        )
        first = bot(capsys, ["My dog is called Bilbo", "/quit"], "--session", "monday", "--model", "echo")
        assert first.startswith("My dog is called Bilbo\n  (recalled 0 memories, 0 tokens, ")
        asked = ["What is my dog called?"]
        second = bot(
            capsys, [*asked, "/forget"], "--session", "tuesday", "--name", "Ayşe", "--model", "recall"
        )
        assert "[user] My dog is called Bilbo" in second
        assert "recalled 1 memory, " in second
        assert "erased" in second or "deleted" in second
        bot(capsys, ["/forget"], "--session", "monday")
        assert "I don't know." in bot(capsys, asked, "--session", "wednesday", "--model", "recall")


def test_it_goes_on_where_the_model_does_not_answer(bot, capsys, model, tmp_path):
    (tmp_path / "rawthink.toml").write_text(f'provider = "local"\nvault = "{tmp_path.as_posix()}/vault"\n')
    model.next("html", "html", "html")
    said = bot(capsys, ["hello", "again"], "--model", "echo")
    assert "(no answer: Error code: 502" in said
    assert "again\n  (recalled" in said


def test_as_a_process_with_the_config_beside_it(model, tmp_path):
    environment = os.environ | {
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_KEY": "sk-x",
        "RAWTHINK_VAULT": str(tmp_path / "vault"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    environment.pop("RAWTHINK_CONFIG", None)
    ran = subprocess.run(
        [sys.executable, str(FILE), "--model", "echo"],
        input="merhaba\n/quit\n",
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "merhaba\n  (recalled 0 memories" in ran.stdout
