"""Vectors are kept once, by text and model, for every process of a store."""

from __future__ import annotations

import logging
import sqlite3
import stat
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rawthink_core.errors import BackendUnavailable
from rawthink_local import vectorfile
from rawthink_local.vectorfile import VectorsDamaged, VectorsUnusable
from rawthink_local.vectors import (
    Kept,
    Model,
    drop_other_models,
    forget_vectors,
    read_model,
    settle_model,
)

from .house import spoil

ONE = Model("toy", "toy; 2", 2)
OTHER = Model("other", "other; 3", 3)


@pytest.fixture
def kept(tmp_path):
    made = Kept(tmp_path, ONE)
    yield made
    made.close()


def test_what_is_put_is_there_for_every_process_and_private(kept, tmp_path):
    kept.put({"one": [[1.0, 0.0]], "long": [[0.5, 0.5], [0.0, 1.0]]})
    second = Kept(tmp_path, ONE)
    assert second.of("one") == [(1.0, 0.0)]
    assert second.of("long") == [(0.5, 0.5), (0.0, 1.0)]
    assert second.of("two") is None
    assert second.missing(["two", "one", "two", "three"]) == ["two", "three"]
    assert second.count() == 2
    second.close()
    assert stat.S_IMODE((tmp_path / "vectors.sqlite").stat().st_mode) == 0o600
    assert b"long" not in (tmp_path / "vectors.sqlite").read_bytes()


def test_a_text_that_no_model_takes_is_not_asked_for_again(kept):
    kept.put({"strange": []})
    assert kept.of("strange") == []
    assert kept.missing(["strange"]) == []


def test_models_do_not_see_each_other(kept, tmp_path):
    kept.put({"one": [[1.0, 0.0]]})
    other = Kept(tmp_path, OTHER)
    assert other.of("one") is None
    other.put({"one": [[0.0, 0.0, 1.0]]})
    assert kept.of("one") == [(1.0, 0.0)]
    drop_other_models(tmp_path, OTHER)
    assert (kept.of("one"), other.of("one")) == (None, [(0.0, 0.0, 1.0)])
    other.close()


def test_forgetting_a_text_deletes_its_vectors_of_every_model(kept, tmp_path):
    other = Kept(tmp_path, OTHER)
    kept.put({"one": [[1.0, 0.0]], "two": [[1.0, 0.0]]})
    other.put({"one": [[0.0, 0.0, 1.0]]})
    assert forget_vectors(tmp_path, ["one"])
    assert (kept.of("one"), other.of("one"), kept.count()) == (None, None, 1)
    other.close()
    assert not forget_vectors(tmp_path / "nowhere", ["one"])


@pytest.mark.parametrize("how", ["garbage", "cut short", "a head of another", "tables of another"])
def test_a_damaged_file_is_dropped_when_it_is_opened(tmp_path, caplog, how):
    file = tmp_path / "vectors.sqlite"
    made = Kept(tmp_path, ONE)
    made.put({f"text {n}": [[1.0, 0.0]] * 9 for n in range(500)})
    made.close()
    content = file.read_bytes()
    match how:
        case "garbage":
            file.write_bytes(b"junk" * 5000)
        case "cut short":
            file.write_bytes(content[: len(content) // 2])
        case "a head of another":
            file.write_bytes(b"\1" * 100 + content[100:])
        case "tables of another":
            file.unlink()
            with closing(sqlite3.connect(file)) as db:
                db.execute("CREATE TABLE vectors (something)")
    caplog.set_level(logging.WARNING, logger="rawthink.local")
    made = Kept(tmp_path, ONE)
    assert made.problem is None
    assert made.of("text 1") is None
    made.put({"text 1": [[1.0, 0.0]]})
    assert made.count() == 1
    assert "dropped" in caplog.text
    made.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_damage_that_is_met_later_is_said_and_mended_at_the_next_open(tmp_path):
    made = Kept(tmp_path, ONE)
    made.put({f"text {n}": [[1.0, 0.0]] * 9 for n in range(500)})
    made.close()
    spoil(tmp_path / "vectors.sqlite")
    made = Kept(tmp_path, ONE)
    assert made.problem is None
    with pytest.raises(VectorsDamaged, match="are damaged"):
        made.missing(f"text {n}" for n in range(500))
    assert "after the next open" in made.problem
    with pytest.raises(VectorsDamaged):
        made.retry()
    with pytest.raises(VectorsUnusable):
        made.put({"new": [[1.0, 0.0]]})
    made.close()
    for _ in range(2):
        made = Kept(tmp_path, ONE)
        assert made.problem is None
        made.put({f"text {n}": [[1.0, 0.0]] for n in range(500)})  # dropped once, not at every open
        assert made.count() == 500
        made.close()


def test_a_vector_of_another_length_is_damage(kept):
    kept.put({"one": [[1.0, 0.0]]})
    kept._db.execute("UPDATE vectors SET data = x'00'")
    with pytest.raises(VectorsDamaged):
        kept.of("one")


def test_a_file_that_is_held_or_closed_to_us_is_left_alone_until_it_can_be_used(tmp_path, monkeypatch):
    monkeypatch.setattr(vectorfile, "_BUSY_SECONDS", 0.05)
    made = Kept(tmp_path, ONE)
    made.put({"one": [[1.0, 0.0]]})
    made.close()
    file = tmp_path / "vectors.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        made = Kept(tmp_path, ONE)
        assert "locked" in made.problem
        for ask in (lambda: made.of("one"), made.retry, lambda: forget_vectors(tmp_path, ["two"])):
            with pytest.raises(VectorsUnusable, match="locked"):
                ask()
    made.retry()
    assert made.problem is None
    assert made.of("one") == [(1.0, 0.0)]
    made.close()
    file.rename(tmp_path / "elsewhere")
    file.mkdir()  # what nobody can open, root neither
    made = Kept(tmp_path, ONE)
    assert "unable to open" in made.problem
    assert file.is_dir()
    file.rmdir()
    (tmp_path / "elsewhere").rename(file)
    made.retry()
    assert made.of("one") == [(1.0, 0.0)]
    made.close()


def test_forgetting_deletes_a_damaged_file_as_a_whole(tmp_path):
    file = tmp_path / "vectors.sqlite"
    file.write_bytes(b"junk" * 5000)
    assert forget_vectors(tmp_path, ["one"])
    assert not file.exists()


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), max_size=3), st.text(max_size=9))
@settings(max_examples=40, deadline=None)
def test_half_precision_is_all_that_is_lost(tmp_path_factory, vectors, text):
    made = Kept(tmp_path_factory.mktemp("kept"), ONE)
    made.put({text: vectors})
    again = made.of(text)
    assert len(again) == len(vectors)
    assert all(
        abs(a - b) < 1e-3
        for one, two in zip(again, vectors, strict=True)
        for a, b in zip(one, two, strict=True)
    )
    made.close()


@pytest.mark.parametrize(
    "junk", [b"", b"{", b"[]", b'{"name": "x"}', b'{"name":"x","fingerprint":"y","dimensions":"z"}']
)
def test_a_note_of_the_model_that_cannot_be_read_is_none(tmp_path, junk):
    assert read_model(tmp_path) is None
    settle_model(tmp_path, ONE)
    assert read_model(tmp_path) == ONE
    (tmp_path / "embedder.json").write_bytes(junk)
    assert read_model(tmp_path) is None


def test_errors_of_the_database_are_sentences(kept):
    kept._db.execute("DROP TABLE vectors")
    with pytest.raises(BackendUnavailable, match="kept vectors"):
        kept.of("one")
    with sqlite3.connect(kept.file) as db:
        assert db.execute("SELECT count(*) FROM models").fetchone() == (1,)
    db.close()


def test_a_put_that_fails_keeps_nothing_and_the_next_one_works(kept):
    kept._db.execute("CREATE TRIGGER full BEFORE INSERT ON vectors BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(BackendUnavailable, match="full"):
        kept.put({"one": [[1.0, 0.0]], "two": [[1.0, 0.0]]})
    kept._db.execute("DROP TRIGGER full")
    assert kept.count() == 0
    kept.put({"one": [[1.0, 0.0]]})
    assert kept.of("one") == [(1.0, 0.0)]
