"""README and docs/cli.md say what is so: commands, options, codes, and every printed line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import click
import pytest

from rawthink_cli import exits
from rawthink_cli.app import GLOBAL, Verb
from rawthink_cli.group import TABLE, rawthink
from rawthink_cli.paper import width

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
OWN = [name for name, entry in TABLE.items() if entry.module]


def fenced(text, language=""):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def section(name):
    [text] = re.findall(rf"^### `rawthink {name}\b.*?(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return text


def test_the_demo_prints_what_the_readme_shows(cli):
    shown = re.search(r"<!-- demo -->\n```\n(.*?)```\n<!-- /demo -->", README, re.DOTALL)[1]
    answer = cli.outside("demo")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == shown


def test_the_demo_fits_on_one_screen(cli):
    lines = cli("demo").out.splitlines()
    assert len(lines) <= 60
    assert max(map(width, lines)) <= 80


def test_the_demo_answers_in_json_and_touches_nothing(cli):
    document = cli("demo", "--json").json
    assert len(document["asked"]) == 5
    assert all(page["items"] and page["degraded"] is None for page in document["asked"])
    assert document["before"]["items"][0]["text"] != document["now"]["items"][0]["text"]
    assert not (cli.home / "rawthink-vault").exists()


def test_a_demo_that_is_kept_can_be_gone_on_with(cli, tmp_path):
    folder = tmp_path / "my demo"
    answer = cli("demo", "--keep", folder)
    assert answer.code == 0
    assert str(folder) in answer.out.replace("\n", "")
    assert "CDN" in cli("--vault", folder, "search", "照片").out
    assert cli("demo", "--keep", folder).code == 2


def test_the_story_of_the_demo_is_readable_and_in_order():
    entries = [
        json.loads(line) for line in (files("rawthink_cli") / "demo.jsonl").read_text("utf-8").splitlines()
    ]
    times = [entry["at"] for entry in entries]
    assert times == sorted(times)
    assert sum("decide" in entry for entry in entries) >= 12


def test_the_example_of_the_readme_prints_what_it_says(cli, tmp_path):
    [code] = fenced(README, "python")
    printed = README.split("prints\n\n```\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=cli.environ(),
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.stderr.decode() == ""
    assert done.stdout.decode() == printed
    assert (cli.home / "rawthink-example" / "rawthink.jsonl").exists()


def test_the_settings_of_the_readme_are_settings(cli, tmp_path):
    blocks = fenced(README, "toml")
    assert [len(text.splitlines()) for text in blocks] == [5, 1, 3]
    file = tmp_path / "rawthink.toml"
    file.write_text(blocks[1] + blocks[0], encoding="utf-8")
    tomllib.loads(file.read_text(encoding="utf-8"))
    assert cli("--config", file, "record", "soup", "hot", "--type", "thing", "--domain", "cooking").code == 0
    file.write_text(blocks[2], encoding="utf-8")
    named = cli("--config", file, "providers", "lancedb").out
    assert "uri" in named


def test_the_readme_names_every_command():
    assert [name for name in TABLE if f"`{name}`" not in README and f"rawthink {name}" not in README] == []


def test_links_of_the_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("name", OWN)
def test_every_option_of_a_command_is_documented(name):
    command = rawthink.get_command(click.Context(rawthink), name)
    assert isinstance(command, Verb)
    options = [
        flag
        for p in command.params
        if isinstance(p, click.Option) and p.name not in GLOBAL
        for flag in p.opts
    ]
    text = section(name)
    assert [flag for flag in options if f"`{flag}" not in text] == []
    documented = set(re.findall(r"`(--[\w-]+)", text))
    assert documented - set(options) - {f"--{flag}" for flag in GLOBAL} == set()


@pytest.mark.parametrize("name", OWN)
def test_help_of_a_command_fits_and_is_a_sentence_with_the_line_of_the_table(cli, name):
    answer = cli(name, "--help")
    assert answer.code == 0
    assert max(map(width, answer.out.splitlines())) <= 80
    assert answer.out.startswith(f"Usage: rawthink {name} ")
    assert TABLE[name].help.endswith(".")


def test_global_options_and_every_exit_code_are_documented():
    assert [name for name in GLOBAL if f"| `--{name}" not in PAGE] == []
    assert re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == [str(code) for code in exits.MEANINGS]


def test_examples_of_help_are_accepted(cli):
    cli("record", "api/cache", "reads", "--type", "artifact", "--domain", "software")
    cli("record", "image store", "we keep photos in Postgres", "--type", "artifact", "--domain", "software")
    import shlex

    for name in ("decide", "record", "search", "show", "history", "challenge"):
        command = rawthink.get_command(click.Context(rawthink), name)
        text = "\n".join(command.examples).replace("\\\n", "")
        for line in text.splitlines():
            if "--from-json" in line or not line.startswith("rawthink "):
                continue
            answer = cli(*shlex.split(line)[1:])
            assert answer.code in (0, 3), (line, answer.err)
