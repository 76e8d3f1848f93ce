"""The command as a process: what it loads, what it writes when the locale is another, and how it stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from rawthink_local.lock import StoreLock

TEXT = "记忆 ✓ \u00a0 é 🙂 ığüşöç"
posix = pytest.mark.skipif(os.name == "nt", reason="signals and pipes of POSIX")


def test_help_loads_neither_the_core_nor_what_it_needs(cli):
    code = (
        "import sys\n"
        "from rawthink_cli.main import main\n"
        "sys.argv = ['rawthink', '--help']\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "heavy = ('pydantic', 'asyncio', 'rawthink_core', 'platformdirs', 'orjson', 'importlib.metadata', 'json')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=cli.environ(), capture_output=True, check=True)
    assert done.stderr.decode().strip() == "[]"
    assert b"Exit codes" in done.stdout


@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONIOENCODING": "gbk"},
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
        {"LC_ALL": "POSIX"},
    ],
    ids=["gbk", "cp1252", "C", "POSIX"],
)
def test_output_is_utf8_whatever_the_locale_says(cli, locale):
    answer = cli.outside("record", TEXT, TEXT, "--type", "finding", "--domain", "software", **locale)
    assert (answer.code, answer.err) == (0, "")
    assert TEXT in cli.outside("show", TEXT, **locale).out
    assert cli.outside("search", "记忆", "--json", **locale).json["items"][0]["text"] == TEXT
    error = cli.outside("show", "无", **locale)
    assert "not in this space: 无" in error.err
    batch = {"observations": [{"entity": TEXT, "text": f"{TEXT} 2"}]}
    data = json.dumps(batch, ensure_ascii=False).encode()
    assert cli.outside("record", "--from-json", "-", stdin=data, **locale).code == 0
    assert f"{TEXT} 2" in cli.outside("export", "-", **locale).out


def test_every_run_speaks_json_on_stdout_and_to_people_on_stderr(cli):
    answer = cli.outside("show", "nobody", "--json")
    assert answer.json["missing"] == ["nobody"]
    assert "not in this space" in answer.err
    wrong = cli.outside("--json", "record", "x", "--epistemic", "sure")
    assert wrong.code == 2
    assert wrong.json["error"]["kind"] == "UsageError"
    assert wrong.out.count("\n") == 1
    refused = cli.outside("record", "x", "y", "--json")
    assert [fault["where"] for fault in refused.json["error"]["faults"]] == ["--type", "--domain"]


@posix
def test_a_reader_that_goes_away_ends_it_quietly(cli):
    cli(
        "record",
        "x",
        *(f"a long line {n} " * 40 for n in range(200)),
        "--type",
        "finding",
        "--domain",
        "software",
    )
    for command in (["show", "x"], ["show", "x", "--json"], ["export", "-"], ["--help"]):
        process = cli.start(*command)
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(timeout=60) == 141, command


@posix
def test_ctrl_c_while_it_reads_ends_it_with_130_and_no_traceback(cli):
    process = cli.start("record", "--from-json", "-")
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == b""
    assert b"Traceback" not in err


@posix
def test_ctrl_c_while_another_process_holds_the_store_does_not_wait_for_it(cli):
    cli("record", "x", "y", "--type", "finding", "--domain", "software")
    lock = StoreLock(cli.home / "rawthink-vault")
    with lock.held():
        process = cli.start("record", "x", "z")
        time.sleep(1.5)
        assert process.poll() is None
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert time.monotonic() - began < 5
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert "z" not in [said["text"] for said in cli("show", "x", "--json").json["observations"]]


@posix
def test_a_full_disk_under_the_output_is_an_error(cache):
    if not os.path.exists("/dev/full"):  # noqa: PTH110 - a device
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        process = subprocess.run(
            [sys.executable, "-m", "rawthink_cli.main", "export", "-"],
            stdout=full, stderr=subprocess.PIPE, env=cache.environ(), check=False,
        )  # fmt: skip
    assert process.returncode == 1
    assert b"No space left" in process.stderr
    assert b"Traceback" not in process.stderr


def test_two_runs_from_two_folders_use_one_store(cli, tmp_path):
    places = []
    for name in ("one", "two words", "三"):
        folder = tmp_path / name
        folder.mkdir()
        places.append(cli.outside("init", "--json", cwd=folder).json["store"])
    assert set(places) == {str(cli.home / "rawthink-vault")}
    assert cli.outside("doctor", "--json", cwd=tmp_path).json["location"] == places[0]


@pytest.mark.parametrize("vault", ["~/my notes/记忆", "missing/parent/vault", "ünlü klasör"])
def test_a_relative_default_starts_at_home_and_any_folder_name_works(cli, tmp_path, vault):
    expected = str(cli.home / vault.removeprefix("~/"))
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    for folder in (here, there):
        answer = cli.outside("init", "--json", cwd=folder, RAWTHINK_VAULT=vault)
        assert (answer.code, answer.json["store"]) == (0, expected), answer.err
    cli.outside(
        "record", "x", "y", "--type", "finding", "--domain", "software", cwd=here, RAWTHINK_VAULT=vault
    )
    assert cli.outside("search", "y", cwd=there, RAWTHINK_VAULT=vault).code == 0
    assert list(here.iterdir()) == list(there.iterdir()) == []


def test_a_typed_folder_is_that_of_the_shell(cli, tmp_path):
    answer = cli.outside("--vault", "notes", "init", "--json", cwd=tmp_path)
    assert answer.json["vault"] == str(tmp_path / "notes")
    assert cli.outside("doctor", "--json", cwd=cli.home).json["location"] == str(tmp_path / "notes")
    assert cli.outside("--vault", "~/a b", "doctor", "--json", cwd=tmp_path).json["location"] == str(
        cli.home / "a b"
    )


def test_commands_and_choices_are_completed(cli):
    def completed(words, at):
        return cli.outside(
            COMP_WORDS=words, COMP_CWORD=str(at), _RAWTHINK_COMPLETE="bash_complete"
        ).out.split()

    assert completed("rawthink se", 1) == ["plain,search"]
    assert completed("rawthink search --status a", 3) == ["plain,active", "plain,any"]
    assert completed("rawthink nothing --x", 2) == []
