"""Our own wheel: whole, and its suite runs from an empty folder, with nothing of the source tree in reach."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPPED = {"__pycache__"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made, site = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(made)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = made.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    return site


def run(site, folder, *command):
    others = [place for place in sys.path if place and not Path(place).is_relative_to(ROOT)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), *others])}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_every_file_of_every_package_is_in_it(site):
    packages = [path for path in site.iterdir() if path.is_dir() and path.name.startswith("rawthink_")]
    assert {"rawthink_core", "rawthink_chat", "rawthink_conformance"} <= {path.name for path in packages}
    for package in packages:
        [source] = [*ROOT.glob(package.name), *ROOT.glob(f"*/{package.name}")]
        here = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
        here = {path for path in here if not SKIPPED & set(path.parts) and path.suffix != ".pyc"}
        assert here == {path.relative_to(package) for path in package.rglob("*") if path.is_file()}


def test_the_suite_runs_from_an_empty_folder(site, tmp_path):
    where = run(site, tmp_path, "-c", "import rawthink_core, rawthink_conformance as c; print(c.__file__)")
    assert Path(where.stdout.strip()).is_relative_to(site), where.stderr
    done = run(site, tmp_path, "-m", "rawthink_cli.main", "conform", "reference", "--only", "write")
    assert done.returncode == 0, done.stderr
    assert " passed" in done.stdout
    assert not list(tmp_path.iterdir())
