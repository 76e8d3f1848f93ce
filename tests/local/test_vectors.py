"""Vectors are kept once, by text and model, for every process of a store."""

from __future__ import annotations

import sqlite3
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rawthink_core.errors import BackendUnavailable
from rawthink_local.vectors import (
    Kept,
    Model,
    drop_other_models,
    forget_vectors,
    read_model,
    settle_model,
)

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


def test_a_file_that_is_no_database_says_what_to_do(tmp_path):
    (tmp_path / "vectors.sqlite").write_bytes(b"junk" * 5000)
    with pytest.raises(BackendUnavailable, match="may be deleted"):
        Kept(tmp_path, ONE)


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
