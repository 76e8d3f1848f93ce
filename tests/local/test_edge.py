"""What the search index promises: the right hits, no leaks between spaces, and a marker that never lies."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import uuid
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rawthink_core.errors import BackendUnavailable
from rawthink_local import edge, engine, replicas
from rawthink_local.edge import EdgeIndex, delete_index, has_index
from rawthink_local.engine import IndexBusy, IndexDamaged
from rawthink_local.fields import FieldFilter, IndexPoint, known_at

T = 1_800_000_000_000_000  # microseconds since 1970: early in 2027


def uid(n):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(n)))


def point(n, words, *, weight=1.0, **fields):
    return IndexPoint(
        uid(n), (list(words), [weight] * len(words)), {"space": "home", "status": "active"} | fields
    )


def asking(*words):
    return list(words), [1.0] * len(words)


def scores(index, *words):
    return {id_: score for id_, score, _ in index.search(asking(*words), space="home", limit=100)}


def counted(index, space, filters=()):
    """Count the points that conditions let through, whatever their words."""
    return index._count(index._to.filter(space, filters))


def found(index, *words, space="home", filters=(), limit=100):
    return {id_ for id_, *_ in index.search(asking(*words), space=space, filters=filters, limit=limit)}


@pytest.fixture
def index(tmp_path):
    with closing(EdgeIndex.open(tmp_path / "index")) as opened:
        yield opened


@pytest.fixture
def packs_early(monkeypatch):
    """Make every non-empty writable segment worth packing."""
    monkeypatch.setattr(engine, "_PACK_KIB", 1)


# Finding


def test_a_new_index_is_empty_and_has_no_marker(index):
    assert (index.marker(), index.size(), counted(index, "home")) == (None, 0, 0)
    assert index.search(asking(1), space="home", limit=10) == []


def test_the_point_that_shares_more_comes_first(index):
    index.apply([point(1, [1, 2]), point(2, [1]), point(3, [9])], [], {"commit": "a"})
    (first, most, _), (second, less, _) = index.search(asking(1, 2), space="home", limit=10)
    assert (first, second) == (uid(1), uid(2))
    assert most > less > 0


def test_a_limit_keeps_the_best(index):
    index.apply([point(n, [1], weight=float(n)) for n in range(1, 9)], [], {"commit": "a"})
    assert [id_ for id_, *_ in index.search(asking(1), space="home", limit=2)] == [uid(8), uid(7)]
    assert index.search(asking(1), space="home", limit=0) == []


def test_a_query_without_terms_finds_nothing(index):
    index.apply([point(1, [1])], [], {"commit": "a"})
    assert index.search(([], []), space="home", limit=10) == []


def test_a_score_is_weights_times_the_rarity_of_the_word(index):
    index.apply([point(n, [5, 6] if n < 3 else [6], weight=2.0) for n in range(20)], [], {"commit": "a"})
    hits = index.search(([5], [0.5]), space="home", limit=10)
    assert [score for _, score, _ in hits] == pytest.approx([1.791759] * 3)  # 0.5 × 2 × ln(1 + 17.5 / 3.5)


def test_another_space_is_not_found_and_changes_no_score(index):
    ours = [point(n, [1, 2 + n % 3]) for n in range(10)]
    index.apply(ours, [], {"commit": "a"})
    before = index.search(asking(1, 2), space="home", limit=100)
    index.apply([point(100 + n, [2], space="away") for n in range(500)], [], {"commit": "b"})
    assert index.search(asking(1, 2), space="home", limit=100) == before
    assert found(index, 2, space="away").isdisjoint({uid(n) for n in range(10)})
    assert (counted(index, "home"), counted(index, "away"), counted(index, "nowhere")) == (10, 500, 0)


@pytest.mark.parametrize("space", ["", " ", "a\0b", "x" * 50_000, "家/🏠", "é", "ev", "EV", "İstanbul", "*"])
def test_a_space_is_any_string_and_matches_only_itself(index, space):
    others = ["home", "home ", "e", "EVE", "istanbul"]
    index.apply([point(n, [1], space=name) for n, name in enumerate([space, *others])], [], {"commit": "a"})
    assert found(index, 1, space=space) == {uid(0)}


def test_composed_and_decomposed_letters_are_different_spaces(index):
    index.apply([point(1, [1], space="\u00e9"), point(2, [1], space="e\u0301")], [], {"commit": "a"})
    assert found(index, 1, space="\u00e9") == {uid(1)}


# Filters


MIXED = [
    point(0, [1], kind="decided", entity_type="decision", domain="software", tags=["a", "b"], date=T),
    point(1, [1], kind="note", entity_type="concept", tags=["b"], date=T + 1, status="ended"),
    point(2, [1], kind="passage", session="s-1", tags=[], date=T + 2),
    point(3, [1], kind="note", domain="music", date=T + 1_000_000, status="invalidated"),
]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([FieldFilter("kind", any_of=("note",))], {1, 3}),
        ([FieldFilter("kind", any_of=("note", "passage"))], {1, 2, 3}),
        ([FieldFilter("kind", any_of=())], set()),
        ([FieldFilter("status", any_of=("active",))], {0, 2}),
        ([FieldFilter("entity_type", any_of=("decision", "rule"))], {0}),
        ([FieldFilter("domain", any_of=("software", "music"))], {0, 3}),
        ([FieldFilter("tags", any_of=("b", "zzz"))], {0, 1}),
        ([FieldFilter("retired_at", gte=T)], set()),
        ([FieldFilter("retired_at", gte=T, or_missing=True)], {0, 1, 2, 3}),
        ([FieldFilter("session", any_of=("s-1",))], {2}),
        ([FieldFilter("date", gte=T + 1)], {1, 2, 3}),
        ([FieldFilter("date", lt=T + 1)], {0}),
        ([FieldFilter("date", gte=T + 1, lt=T + 2)], {1}),
        ([FieldFilter("date", gte=T + 1), FieldFilter("kind", any_of=("note",))], {1, 3}),
        ([FieldFilter("kind", any_of=("note",)), FieldFilter("kind", any_of=("passage",))], set()),
        ([FieldFilter("space", any_of=("away",))], set()),
    ],
)
def test_each_filter_lets_through_what_it_says(index, filters, expected):
    index.apply(MIXED, [], {"commit": "a"})
    assert found(index, 1, filters=filters) == {uid(n) for n in expected}
    assert counted(index, "home", filters) == len(expected)


def test_filters_act_before_the_cut(index):
    crowd = [point(n, [1], weight=9.0, kind="note") for n in range(200)]
    index.apply([*crowd, point(999, [1], weight=0.1, kind="decided")], [], {"commit": "a"})
    assert found(index, 1, filters=[FieldFilter("kind", any_of=("decided",))], limit=1) == {uid(999)}


def test_the_past_is_what_was_recorded_and_not_yet_retired(index):
    index.apply(
        [
            point(1, [1], recorded_at=T),
            point(2, [1], recorded_at=T + 1),
            point(3, [1], recorded_at=T, retired_at=T + 1, status="invalidated"),
        ],
        [],
        {"commit": "a"},
    )
    assert found(index, 1, filters=known_at(T - 1)) == set()
    assert found(index, 1, filters=known_at(T)) == {uid(1), uid(3)}
    assert found(index, 1, filters=known_at(T + 1)) == {uid(1), uid(2)}


@pytest.mark.parametrize("moment", [0, -1, T, 2**53 - 2, -(2**53) + 2])
def test_dates_are_exact_to_the_microsecond(index, moment):
    index.apply([point(n, [1], date=moment + n) for n in (-1, 0, 1)], [], {"commit": "a"})
    assert found(index, 1, filters=[FieldFilter("date", gte=moment)]) == {uid(0), uid(1)}
    assert found(index, 1, filters=[FieldFilter("date", lt=moment)]) == {uid(-1)}


def test_a_field_that_is_not_indexed_is_refused(index):
    with pytest.raises(ValueError, match="'text' is not a field of the index"):
        index.apply([point(1, [1], text="secret")], [], {"commit": "a"})
    with pytest.raises(ValueError, match="'colour' is not a field of the index"):
        index.search(asking(1), space="home", filters=[FieldFilter("colour", any_of=("red",))], limit=1)
    assert index.marker() is None


@pytest.mark.parametrize("terms", [([1, 2], [1.0]), ([1], [1.0, 1.0]), ([3, 3], [1.0, 1.0])])
def test_terms_that_repeat_or_lack_a_weight_are_refused(index, terms):
    with pytest.raises(ValueError, match="of them distinct"):
        index.apply([IndexPoint(uid(1), terms, {"space": "home"})], [], {"commit": "a"})
    with pytest.raises(ValueError, match="of them distinct"):
        index.search(terms, space="home", limit=1)


_words = st.sampled_from(["a", "b", "c"])
_fields = st.fixed_dictionaries(
    {},
    optional={
        "kind": _words,
        "tags": st.lists(_words, max_size=3),
        "date": st.integers(T - 3, T + 3),
        "retired_at": st.integers(T - 3, T + 3),
    },
)
_filters = st.lists(
    st.one_of(
        st.builds(
            FieldFilter,
            st.sampled_from(["kind", "tags"]),
            any_of=st.lists(_words, max_size=2).map(tuple),
            gte=st.none(),
            lt=st.none(),
            or_missing=st.just(value=False),
        ),
        st.builds(
            FieldFilter,
            st.sampled_from(["date", "retired_at"]),
            any_of=st.none(),
            gte=st.none() | st.integers(T - 4, T + 4),
            lt=st.none() | st.integers(T - 4, T + 4),
            or_missing=st.booleans(),
        ),
    ),
    max_size=3,
)


def passes(fields, asked):
    value = fields.get(asked.field)
    if value is None or value == []:
        return asked.or_missing
    if asked.any_of is not None:
        return bool(set(asked.any_of) & set(value if isinstance(value, list) else [value]))
    return (asked.gte is None or value >= asked.gte) and (asked.lt is None or value < asked.lt)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with closing(EdgeIndex.open(tmp_path_factory.mktemp("shared") / "index")) as opened:
        yield opened, itertools.count()


@settings(max_examples=60, deadline=None)
@given(items=st.lists(_fields, min_size=1, max_size=6), filters=_filters)
def test_filters_agree_with_plain_python(shared, items, filters):
    index, spaces = shared
    space = f"example-{next(spaces)}"
    index.apply(
        [point(f"{space}/{n}", [1], space=space, **fields) for n, fields in enumerate(items)],
        [],
        {"commit": space},
    )
    expected = {
        uid(f"{space}/{n}")
        for n, fields in enumerate(items)
        if all(passes(fields, asked) for asked in filters)
    }
    assert found(index, 1, space=space, filters=filters) == expected


# Changing


def test_a_rewritten_point_no_longer_matches_its_old_words(index):
    index.apply([point(1, [1, 2])], [], {"commit": "a"})
    index.apply([point(1, [3])], [], {"commit": "b"})
    assert (found(index, 1, 2), found(index, 3), index.size()) == (set(), {uid(1)}, 1)


def test_a_point_rewritten_without_words_matches_nothing_and_still_counts(index):
    index.apply([point(1, [1])], [], {"commit": "a"})
    index.apply([point(1, [])], [], {"commit": "b"})
    assert (found(index, 1), index.size(), counted(index, "home")) == (set(), 1, 1)


def test_a_deleted_point_is_gone_and_an_unknown_one_is_no_error(index):
    index.apply([point(1, [1]), point(2, [1])], [], {"commit": "a"})
    index.apply([], [uid(1), uid(77)], {"commit": "b"})
    assert (found(index, 1), index.size()) == ({uid(2)}, 1)


def test_a_point_deleted_and_written_in_one_commit_is_there(index):
    index.apply([point(1, [1])], [], {"commit": "a"})
    index.apply([point(1, [2])], [uid(1)], {"commit": "b"})
    assert (found(index, 1), found(index, 2)) == (set(), {uid(1)})


def test_what_was_deleted_or_rewritten_leaves_no_trace_in_scores(tmp_path, packs_early):
    kept = [point(n, [1, 5] if n < 3 else [1, 100 + n]) for n in range(20)]
    with closing(EdgeIndex.open(tmp_path / "fresh")) as fresh:
        fresh.apply(kept, [], {"commit": "a"})
        expected = scores(fresh, 1, 5)
    with closing(EdgeIndex.open(tmp_path / "lived")) as lived:
        lived.apply([point(n, [5, 7]) for n in range(300)], [], {"commit": "a"})
        lived.pack()
        lived.apply(kept, [uid(n) for n in range(20, 300)], {"commit": "b"})
        assert scores(lived, 1, 5) == pytest.approx(expected)
        lived.pack()
        assert scores(lived, 1, 5) == pytest.approx(expected)
        assert found(lived, 7) == set()


def test_points_without_words_and_the_marker_change_no_score(index):
    index.apply([point(n, [5] if n < 3 else [6]) for n in range(20)], [], {"commit": "a"})
    before = index.search(asking(5), space="home", limit=100)
    index.apply([point(100 + n, []) for n in range(200)], [], {"commit": "b"})
    assert index.search(asking(5), space="home", limit=100) == before
    assert counted(index, "home") == index.size() == 220


def test_more_points_than_one_call_takes_all_arrive(index):
    count = 2 * edge._STEP + 1
    index.apply([point(n, [1]) for n in range(count)], [], {"commit": "a"})
    assert index.size() == counted(index, "home") == count
    index.apply([], [uid(n) for n in range(count)], {"commit": "b"})
    assert (index.size(), found(index, 1)) == (0, set())


def test_readers_and_a_writer_do_not_disturb_each_other(index):
    index.apply([point(n, [1]) for n in range(50)], [], {"n": 0})
    ends, faults = threading.Event(), []

    def reads():
        while not ends.is_set():
            try:
                assert len(index.search(asking(1), space="home", limit=10)) == 10
            except Exception as error:  # noqa: BLE001 - whatever it is, the test must hear of it
                faults.append(error)
                return

    readers = [threading.Thread(target=reads) for _ in range(2)]
    for reader in readers:
        reader.start()
    for n in range(100):
        index.apply([point(1000 + n, [1])], [uid(1000 + n - 1)], {"n": n})
    ends.set()
    for reader in readers:
        reader.join()
    assert (faults, index.size(), index.marker()) == ([], 51, {"n": 99})


# Staying


def test_what_was_applied_is_there_after_closing_and_opening(tmp_path):
    marker = {"store": "f", "generation": 3, "offset": 2**40, "commit": "c-1", "count": 2}
    with closing(EdgeIndex.open(tmp_path / "index")) as index:
        index.apply([point(1, [1]), point(2, [2])], [], marker)
    with closing(EdgeIndex.open(tmp_path / "index")) as index:
        assert (index.marker(), index.size(), found(index, 1)) == (marker, 2, {uid(1)})
        index.apply([point(3, [1])], [uid(2)], marker | {"offset": 7})
        assert found(index, 1, 2) == {uid(1), uid(3)}
        assert index.marker()["offset"] == 7


def test_the_marker_handed_out_is_a_copy(index):
    index.apply([], [], {"commit": "a"})
    index.marker()["commit"] = "forged"
    assert index.marker() == {"commit": "a"}


def test_an_index_without_a_marker_counts_as_none_and_is_made_anew(tmp_path):
    with closing(EdgeIndex.open(tmp_path / "index")):
        pass
    assert not has_index(tmp_path / "index")
    with closing(EdgeIndex.open(tmp_path / "index")) as index:
        assert index.size() == 0
        index.apply([], [], {"commit": "a"})
    assert has_index(tmp_path / "index")


def test_a_folder_in_use_is_busy_here_and_in_another_process(tmp_path, run):
    with closing(EdgeIndex.open(tmp_path / "index")) as index:
        index.apply([point(1, [1])], [], {"commit": "a"})
        with pytest.raises(IndexBusy, match="in use by another process"):
            EdgeIndex.open(tmp_path / "index")
        done = run("EdgeIndex.open(folder)", tmp_path / "index")
        assert "IndexBusy: The search index is in use by another process" in done.stderr
        assert found(index, 1) == {uid(1)}
    assert run("print(EdgeIndex.open(folder).size())", tmp_path / "index").stdout == "1\n"


def test_a_closed_index_says_so_and_may_be_closed_again(tmp_path):
    index = EdgeIndex.open(tmp_path / "index")
    index.apply([point(1, [1])], [], {"commit": "a"})
    index.close()
    index.close()
    for use in (
        lambda: found(index, 1),
        index.size,
        index.flush,
        lambda: index.apply([], [], {"commit": "b"}),
    ):
        with pytest.raises(BackendUnavailable):
            use()


def test_a_copy_of_a_closed_folder_is_an_index_of_its_own(tmp_path):
    with closing(EdgeIndex.open(tmp_path / "a")) as index:
        index.apply([point(1, [1])], [], {"commit": "a"})
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with closing(EdgeIndex.open(tmp_path / "a")) as first, closing(EdgeIndex.open(tmp_path / "b")) as second:
        second.apply([point(2, [1]), point(1, [9])], [], {"commit": "b"})
        assert (found(first, 1), first.marker()) == ({uid(1)}, {"commit": "a"})
        assert (found(second, 1), second.marker()) == ({uid(2)}, {"commit": "b"})


def test_packing_changes_neither_hits_nor_scores_nor_the_marker(tmp_path, packs_early):
    with closing(EdgeIndex.open(tmp_path / "index")) as index:
        index.apply(
            [point(n, [1, 10 + n % 7], weight=1 + n / 100, date=T + n) for n in range(300)],
            [],
            {"commit": "a"},
        )
        before = index.search(
            asking(1, 13), space="home", filters=[FieldFilter("date", gte=T + 50)], limit=20
        )
        assert index.pack()
        assert not index.pack()
        assert (
            index.search(asking(1, 13), space="home", filters=[FieldFilter("date", gte=T + 50)], limit=20)
            == before
        )
        index.apply([point(60, [1], date=T), point(61, [8])], [uid(62)], {"commit": "b"})
        assert {uid(60), uid(61), uid(62)}.isdisjoint(
            found(index, 1, filters=[FieldFilter("date", gte=T + 50)])
        )
    with closing(EdgeIndex.open(tmp_path / "index")) as index:
        assert (index.marker(), index.size()) == ({"commit": "b"}, 299)


def test_a_small_index_needs_no_packing(index):
    index.apply([point(n, [1]) for n in range(100)], [], {"commit": "a"})
    assert not index.pack()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_folders_and_files_are_for_this_user_alone(tmp_path, packs_early):
    with closing(EdgeIndex.open(tmp_path / "index")) as index:
        index.apply([point(n, [1]) for n in range(300)], [], {"commit": "a"})
        index.pack()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "index").rglob("*")}
    assert modes | {stat.S_IMODE((tmp_path / "index").stat().st_mode)} == {0o700, 0o600}


def test_a_deleted_index_is_gone_and_deleting_again_is_no_error(tmp_path):
    with closing(EdgeIndex.open(tmp_path / "index")) as index:
        index.apply([point(1, [1])], [], {"commit": "a"})
    delete_index(tmp_path / "index")
    delete_index(tmp_path / "index")
    assert not (tmp_path / "index").exists()


# Breaking


@pytest.fixture
def run():
    """Run a line of code in another process, with `folder` given."""

    def start(code, folder, **options):
        script = f"import sys, pathlib; from rawthink_local.edge import *; from rawthink_local.fields import *; folder = pathlib.Path({str(folder)!r}); {code}"
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            env=os.environ | path,
            check=False,
            **options,
        )

    return start


WRITER = """
import pathlib, sys, uuid
from rawthink_local import edge, engine
from rawthink_local.edge import EdgeIndex
from rawthink_local.fields import IndexPoint

folder, pause = pathlib.Path(sys.argv[1]), int(sys.argv[2])
engine._PACK_KIB = 1
index = EdgeIndex.open(folder)
for commit in range(10**9):
    ids = [str(uuid.uuid5(uuid.NAMESPACE_OID, f"{commit}/{n}")) for n in range(4)]
    points = [IndexPoint(id, ([1, 2 + commit % 50], [1.0, 1.0]), {"space": "home", "date": commit}) for id in ids]
    index.apply(points, [], {"commit": commit, "count": 4 * (commit + 1)})
    print(commit, flush=True)
    if pause and commit % pause == pause - 1:
        print("packing", flush=True)
        index.pack()
"""


def killed_after(folder, lines, pause=0):
    """Let a real process write until it has said so many lines, then kill it; return what it said last."""
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(pause)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | path,
    ) as process:
        said = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        said += process.stdout.readlines()
    commits = [int(line) for line in said if line.endswith("\n") and line.strip().isdecimal()]
    return commits[-1]


@pytest.mark.parametrize(("lines", "pause"), [(1, 0), (40, 0), (151, 150), (310, 150)])
def test_a_killed_writer_leaves_every_point_of_the_marked_commit(tmp_path, lines, pause):
    acknowledged = killed_after(tmp_path / "index", lines, pause)
    with closing(EdgeIndex.open(tmp_path / "index")) as index:
        marker = index.marker()
        assert marker["commit"] >= acknowledged
        assert counted(index, "home", [FieldFilter("date", lt=marker["commit"] + 1)]) == marker["count"]
        assert index.size() - marker["count"] in (0, 4)  # the commit in hand may be there, unmarked
        assert len(found(index, 2 + marker["commit"] % 50)) >= 4
        index.apply([point(1, [777])], [], {"commit": "after"})
        assert found(index, 777) == {uid(1)}


def test_a_failure_between_points_and_marker_leaves_the_old_marker_and_repeating_completes(tmp_path):
    index = EdgeIndex.open(tmp_path / "index")
    index.apply([point(1, [1]), point(2, [1])], [], {"commit": "a"})
    commit = (
        [point(n, [1]) for n in range(3, 3 + 2 * edge._STEP)],
        [uid(1)],
        {"commit": "b"},
    )
    steps = 0
    for survives in itertools.count():
        index._shard = Failing(index._shard, survives)
        try:
            index.apply(*commit)
        except BackendUnavailable:
            assert index.marker() == {"commit": "a"}
            index._shard = index._shard.inner
            index.close()
            index = EdgeIndex.open(tmp_path / "index")
            assert index.marker() == {"commit": "a"}
            steps += 1
        else:
            break
    index._shard = index._shard.inner
    assert steps == 5  # one to announce the deletes, one to delete, two to write, one to mark
    assert (index.marker(), index.size()) == ({"commit": "b"}, 1 + 2 * edge._STEP)
    index.close()


class Failing:
    """A shard whose updates fail after so many."""

    def __init__(self, inner, survives):
        self.inner, self._left = inner, survives

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def update(self, operation):
        if self._left == 0:
            raise Exception("out of luck")  # noqa: TRY002 - as bare as edge's own
        self._left -= 1
        self.inner.update(operation)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """An index with a packed segment and a writable one, closed."""
    folder = tmp_path_factory.mktemp("template") / "index"
    with pytest.MonkeyPatch.context() as patched, closing(EdgeIndex.open(folder)) as made:
        patched.setattr(engine, "_PACK_KIB", 1)
        made.apply([point(n, [1, 10 + n % 7], date=T + n) for n in range(300)], [], {"commit": "a"})
        made.close()
        with closing(EdgeIndex.open(folder)) as packed:
            assert packed.pack()
            packed.apply([point(n, [1, 10 + n % 7]) for n in range(300, 400)], [], {"commit": "b"})
    return folder


@pytest.fixture
def lived(template, tmp_path):
    shutil.copytree(template, tmp_path / "index", copy_function=replicas._copy_with_holes)
    return tmp_path / "index"


def truncated(path):
    os.truncate(path, path.stat().st_size // 2)


def emptied(path):
    os.truncate(path, 0)


def scribbled(path):
    path.write_bytes(b"\xff\x5a\x13" * 100)


def removed(path):
    path.unlink()


@pytest.mark.parametrize(
    ("pattern", "harm"),
    [
        ("index.json", truncated),
        ("shard/edge_config.json", truncated),
        ("shard/segments/*/segment.json", truncated),
        ("shard/segments/*/id_tracker.e2i", truncated),
        ("shard/segments/*/vector_storage-lexical/deleted/status.dat", emptied),  # edge panics
        ("shard/segments/*/vector_index-lexical/inverted_index_config.json", truncated),
        ("shard/segments/*/payload_storage/tracker.dat", emptied),
        ("shard/segments/*/version.info", scribbled),
        ("shard/segments/*/version.info", removed),  # edge loads what is left
    ],
)
def test_a_damaged_index_is_reported_when_it_is_opened(lived, pattern, harm):
    hurt = list(lived.glob(pattern))
    assert hurt
    for path in hurt:
        harm(path)
    with pytest.raises(IndexDamaged):
        EdgeIndex.open(lived)


def test_damage_that_only_a_search_meets_is_reported_as_such(lived):
    for path in lived.glob("shard/segments/*/vector_index-lexical/inverted_index.dat"):
        truncated(path)
    with closing(EdgeIndex.open(lived)) as index, pytest.raises(IndexDamaged):
        index.search(asking(*range(1, 20)), space="home", limit=100)


def test_a_damaged_index_can_be_deleted_and_made_anew(lived):
    scribbled(lived / "shard" / "edge_config.json")
    with pytest.raises(IndexDamaged):
        EdgeIndex.open(lived)
    delete_index(lived)
    with closing(EdgeIndex.open(lived)) as index:
        assert (index.size(), index.marker()) == (0, None)


def test_an_index_of_another_version_is_reported_and_left_alone(lived):
    stamp = lived / "index.json"
    stamp.write_text(json.dumps(json.loads(stamp.read_text()) | {"schema": 0}))
    with pytest.raises(IndexDamaged, match="another version"):
        EdgeIndex.open(lived)
    assert (lived / "shard").exists()


def test_a_nearly_full_disk_refuses_writes_and_still_searches(index, monkeypatch):
    index.apply([point(1, [1])], [], {"commit": "a"})
    usage = shutil.disk_usage(index._folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=engine._RESERVE - 1))
    with pytest.raises(BackendUnavailable, match="nearly full"):
        index.apply([point(2, [1])], [], {"commit": "b"})
    with pytest.raises(BackendUnavailable, match="nearly full"):
        index.pack()
    assert (found(index, 1), index.marker()) == ({uid(1)}, {"commit": "a"})


def test_a_missing_engine_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "qdrant_edge", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'rawthink\[local\]'"):
        EdgeIndex.open(tmp_path / "index")


def test_importing_the_module_does_not_import_the_engine(run, tmp_path):
    assert run("print('qdrant_edge' in sys.modules)", tmp_path).stdout == "False\n"


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendUnavailable, match="file"):
        EdgeIndex.open(tmp_path / "file" / "index")
