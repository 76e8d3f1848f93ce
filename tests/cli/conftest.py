"""What the tests of the command line share: a home of their own, and the command, in this process or another."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from rawthink_cli.app import App
from rawthink_cli.group import rawthink

ROOT = Path(__file__).parents[2]
PACKAGES = [str(ROOT), *(str(ROOT / name) for name in ("providers", "hosts", "conformance_tests"))]


@pytest.fixture(scope="session")
def metadata(tmp_path_factory):
    """Make plugins findable from a bare checkout too, as an installation does."""
    try:
        importlib.metadata.version("rawthink")
    except importlib.metadata.PackageNotFoundError:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        folder = tmp_path_factory.mktemp("metadata")
        info = folder / f"rawthink-{project['version']}.dist-info"
        info.mkdir()
        head = f"Metadata-Version: 2.1\nName: rawthink\nVersion: {project['version']}\n"
        (info / "METADATA").write_text(head, encoding="utf-8")
        groups = project["entry-points"].items()
        lines = [
            f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups
        ]
        (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
        sys.path.append(str(folder))
        return [str(folder)]
    return []


@dataclass
class Answer:
    """What a run of the command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Command:
    """The command line in a home of its own. Call it with arguments."""

    def __init__(self, home, metadata):
        self.home = home
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("RAWTHINK_", "XDG_", "PYTHON", "NO_COLOR"))
        }
        dropped = set(os.environ) - set(kept)
        self.env = {**dict.fromkeys(dropped), **self._own(), "TZ": "UTC"}
        self.path = os.pathsep.join([*PACKAGES, *metadata])

    def _own(self):
        return {
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
        }

    def __call__(self, *args, stdin=None, build=None, **env):
        result = CliRunner().invoke(
            rawthink, [str(arg) for arg in args], input=stdin, obj=App(build=build), env={**self.env, **env}
        )
        return Answer(result.exit_code, result.stdout, result.stderr)

    def environ(self, **env):
        merged = {**os.environ, **self.env, "PYTHONPATH": self.path, **env}
        return {key: value for key, value in merged.items() if value is not None}

    def start(self, *args, cwd=None, **env):
        """Start the command in a process of its own; bytes in, bytes out."""
        return subprocess.Popen(
            [sys.executable, "-m", "rawthink_cli.main", *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environ(**env),
            cwd=cwd or self.home,
            preexec_fn=_hear_ctrl_c if os.name == "posix" else None,  # noqa: PLW1509 - sets one signal
        )

    def outside(self, *args, stdin=b"", cwd=None, **env):
        """Run the command in a process of its own."""
        process = self.start(*args, cwd=cwd, **env)
        out, err = process.communicate(stdin, timeout=60)
        return Answer(process.returncode, out.decode("utf-8"), err.decode("utf-8"))


@pytest.fixture
def cli(tmp_path, metadata):
    home = tmp_path / "home"
    home.mkdir()
    return Command(home, metadata)


@pytest.fixture
def cache(cli):
    """A memory that knows one decision: why there is no Redis."""
    answer = cli(
        "decide", "api/cache", "--domain", "software", "--decided", "cache in the process",
        "--because", "pages are read twenty times a minute", "--rejected", "Redis — one more thing to run",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    return cli


def _hear_ctrl_c():
    """Undo what a shell does to its background jobs: these tests may be part of one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
