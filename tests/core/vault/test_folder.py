"""Files of a vault: what many processes, and the end of one, make of them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from rawthink_core.vault.folder import walk

ROOT = Path(__file__).parents[3]

_WRITER = """
import sys
from pathlib import Path
from rawthink_core.vault.folder import put
for n in range(40):
    text = f"{sys.argv[2]} {n} " + "x" * 5000 + " end"
    print(put(Path(sys.argv[1]), "qnotes", "2026-01-05_101112", lambda stem: f"{stem}: {text}".encode())[0])
"""


def test_processes_that_write_at_once_take_no_names_from_each_other(folder):
    env = {"PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, folder, str(n)], stdout=subprocess.PIPE, env=env, text=True
        )
        for n in range(4)
    ]
    paths = [line for process in started for line in process.communicate(timeout=60)[0].split()]
    assert len(set(paths)) == 160
    texts = {(folder / path).read_text() for path in paths}
    assert len(texts) == 160
    assert all(text.endswith(" end") for text in texts)
    assert sorted(path.name for path in (folder / "qnotes").iterdir()) == sorted(Path(p).name for p in paths)


def test_a_writer_that_is_killed_leaves_whole_notes_only(folder):
    for pause in (0.15, 0.2, 0.25, 0.3, 0.35):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, folder, "k"],
            stdout=subprocess.DEVNULL,
            env={"PYTHONPATH": str(ROOT)},
        )
        time.sleep(pause)
        process.kill()
        process.wait()
    for path in (folder / "qnotes").glob("*.md"):
        assert path.read_text().endswith(" end")


def test_a_name_that_is_no_text_is_named(tmp_path):
    folder = tmp_path / "sessions"
    folder.mkdir()
    try:
        (folder / "bad\udcff.md").write_text("x")
    except OSError:
        return  # a file system that has no such names
    (folder / "deep\udcff").mkdir()
    (folder / "deep\udcff" / "a.md").write_text("x")
    listing = walk(tmp_path)
    assert listing.files == {}
    assert {problem.path for problem in listing.problems} == {"sessions/bad?.md", "sessions/deep?/a.md"}
