"""The index finds what is near in meaning: each item by the nearest of its windows, filters before the cut."""

from __future__ import annotations

import math
import uuid
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rawthink_local import engine
from rawthink_local.edge import EdgeIndex
from rawthink_local.engine import IndexDamaged
from rawthink_local.fields import FieldFilter, IndexPoint
from rawthink_local.served import ServedIndex

EAST, NORTH, UP = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def uid(number):
    return str(uuid.UUID(int=number))


def point(number, *vectors, space="home", **fields):
    return IndexPoint(uid(number), ([number + 1], [1.0]), {"space": space, "kind": "note", **fields}, vectors)


@pytest.fixture
def index(tmp_path):
    with closing(EdgeIndex.open(tmp_path / "index", 3)) as opened:
        yield opened


def found(index, vector, **more):
    return [hit[0] for hit in index.nearest(vector, space="home", limit=more.pop("limit", 10), **more)]


def test_the_nearest_comes_first_and_similarity_is_the_cosine(index):
    index.apply([point(0, EAST), point(1, NORTH), point(2, (0.6, 0.8, 0.0))], [], {"commit": "a"})
    hits = index.nearest(EAST, space="home", limit=10)
    assert [hit[0] for hit in hits] == [uid(0), uid(2), uid(1)]
    assert [hit[1] for hit in hits] == pytest.approx([1.0, 0.6, 0.0], abs=1e-3)
    assert {hit[2] for hit in hits} == {None}


def test_a_passage_says_where_it_stands(index):
    passage = point(0, EAST)._replace(place=("s-1", 7, "Ada"))
    index.apply([passage, point(1, NORTH)], [], {"commit": "a"})
    assert [hit[2] for hit in index.nearest(EAST, space="home", limit=10)] == [("s-1", 7, "Ada"), None]
    assert index.search(([1], [1.0]), space="home", limit=1)[0][2] == ("s-1", 7, "Ada")
    assert {hit[2] for hit in index.nearest(EAST, space="home", limit=10, places=False)} == {None}


def test_an_item_counts_once_by_the_nearest_of_its_windows(index):
    index.apply([point(0, NORTH, EAST, UP), point(1, (0.8, 0.6, 0.0))], [], {"commit": "a"})
    assert found(index, EAST) == [uid(0), uid(1)]


def test_what_has_no_vectors_is_found_by_its_words_only(index):
    index.apply([point(0), point(1, EAST)], [], {"commit": "a"})
    assert found(index, EAST) == [uid(1)]
    assert [hit[0] for hit in index.search(([1], [1.0]), space="home", limit=5)] == [uid(0)]


def test_filters_and_spaces_act_before_the_cut(index):
    many = [point(n, EAST, status="ended") for n in range(50)]
    index.apply(
        [*many, point(90, (0.6, 0.8, 0.0), status="active"), point(91, EAST, space="away")], [], {"c": "a"}
    )
    only = [FieldFilter("status", any_of=("active",))]
    assert found(index, EAST, filters=only, limit=1) == [uid(90)]
    assert uid(91) not in found(index, EAST, limit=100)


def test_a_rewritten_point_is_no_longer_near_its_old_meaning(index):
    index.apply([point(0, EAST)], [], {"commit": "a"})
    index.apply([point(0, NORTH)], [], {"commit": "b"})
    assert index.nearest(EAST, space="home", limit=1)[0][1] == pytest.approx(0.0, abs=1e-3)
    index.apply([], [uid(0)], {"commit": "c"})
    assert found(index, EAST) == []


def test_what_waits_for_its_vectors_is_listed_until_they_come(index):
    waits = [point(n, vector="waiting") for n in range(5)] + [point(9, vector="waiting", space="a=b")]
    index.apply([*waits, point(7, EAST)], [], {"commit": "a"})
    assert index.waiting_count() == 6
    assert len(index.waiting(4)) == 4
    assert set(index.waiting(100)) == {*(("home", uid(n)) for n in range(5)), ("a=b", uid(9))}
    index.apply([point(n, UP) for n in range(5)], [], {"commit": "b"})
    assert index.waiting(100) == [("a=b", uid(9))]


def test_packing_and_opening_again_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_PACK_KIB", 1)
    unit = [(math.cos(n * 0.07), math.sin(n * 0.07), 0.0) for n in range(40)] + [UP] * 160
    with closing(EdgeIndex.open(tmp_path / "index", 3)) as index:
        index.apply([point(n, vector) for n, vector in enumerate(unit)], [], {"commit": "a"})
        before = found(index, EAST)
        assert index.pack()
        assert found(index, EAST) == before
    with closing(ServedIndex.open(tmp_path / "index", 3)) as index:
        assert found(index, EAST) == before
        assert index.waiting_count() == 0
        assert index.waiting(5) == []


def test_vectors_of_another_size_mean_another_index(tmp_path):
    with closing(EdgeIndex.open(tmp_path / "index", 3)) as index:
        index.apply([point(0, EAST)], [], {"commit": "a"})
    for size in (0, 4):
        with pytest.raises(IndexDamaged, match="another version"):
            EdgeIndex.open(tmp_path / "index", size)


def test_an_index_without_vectors_finds_nothing_by_meaning(tmp_path):
    with closing(EdgeIndex.open(tmp_path / "index")) as index:
        index.apply([point(0)], [], {"commit": "a"})
        assert found(index, EAST) == []


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.floats(0, 6.28), min_size=1, max_size=3), min_size=1, max_size=12),
    st.floats(0, 6.28),
)
def test_it_agrees_with_plain_python(tmp_path_factory, items, angle):
    unit = [[(math.cos(a), math.sin(a), 0.0) for a in angles] for angles in items]
    asked = (math.cos(angle), math.sin(angle), 0.0)
    best = {uid(n): max(sum(map(float.__mul__, asked, v)) for v in vectors) for n, vectors in enumerate(unit)}
    with closing(EdgeIndex.open(tmp_path_factory.mktemp("plain") / "index", 3)) as index:
        index.apply([point(n, *vectors) for n, vectors in enumerate(unit)], [], {"commit": "a"})
        hits = index.nearest(asked, space="home", limit=20)
    assert {item: score for item, score, _ in hits} == pytest.approx(best, abs=2e-3)
