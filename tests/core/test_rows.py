"""An item is the fold of its rows, in whatever order they arrive, and as of whatever time is asked."""

from __future__ import annotations

from datetime import datetime
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_core.model import Entity, Observation, Passage, Relation
from rawthink_core.rows import Row, Stamped, State, compact, ends_of, fold, holds_at, noun, row_kind

CREATE: Row = {"op": "observation", "id": "o", "entity": "e", "kind": "note", "text": "t"}
RETIRE: Row = {"op": "retire", "of": "observation", "id": "o", "status": "invalidated"}
FORGOTTEN: Row = {"op": "forgotten", "of": "observation", "id": "o"}
ENTITY: Row = {"op": "entity", "id": "e", "name": "E", "entity_type": "thing", "domain": "software"}


def time(number: int) -> str:
    return f"2026-01-01T00:00:{number:02}.000000Z"


def at(number: int, row: Row, position: int = 0, commit: str | None = None) -> Stamped:
    return Stamped(time(number), commit or f"commit {number}", position, row)


def field(name: str, value: Any, **more: Any) -> Row:
    return {"op": "field", "id": "e", "field": name, "value": value, **more}


def folded(*rows: Stamped, as_of: int | None = None) -> State:
    state = fold(rows, None if as_of is None else time(as_of))
    assert state is not None
    return state


ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(
            [
                CREATE,
                {**CREATE, "text": "other", "valid_to": time(9)},
                RETIRE,
                {**RETIRE, "status": "ended", "superseded_by": "p", "reason": "r", "valid_to": time(3)},
                {"op": "link", "of": "observation", "id": "o", "supersedes": ["a", "b"]},
                {"op": "link", "of": "observation", "id": "o", "supersedes": ["b", "c"]},
                {"op": "same", "of": "observation", "id": "o"},
                FORGOTTEN,
            ]
        ),
    ),
    max_size=8,
).map(lambda drawn: [at(number, row, position) for position, (number, row) in enumerate(drawn)])


@given(rows=ROWS, as_of=st.none() | st.integers(0, 6), data=st.data())
def test_the_order_in_which_rows_arrive_does_not_matter(
    rows: list[Stamped], as_of: int | None, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(rows))
    moment = None if as_of is None else time(as_of)
    assert fold(shuffled, moment) == fold(rows, moment)


@given(rows=ROWS, as_of=st.integers(0, 5))
def test_as_of_is_a_fold_of_fewer_rows(rows: list[Stamped], as_of: int) -> None:
    earlier = [row for row in rows if row.at <= time(as_of) or row.row["op"] == "forgotten"]
    assert fold(rows, time(as_of)) == fold(earlier)


def test_fields_of_an_entity_fold_in_any_order() -> None:
    rows = [
        at(1, ENTITY),
        at(2, field("name", "F")),
        at(3, field("name", "G")),
        at(3, field("pinned", True), 1),
    ]
    states = [fold(order) for order in permutations(rows)]
    assert all(state == states[0] for state in states)


def test_what_has_no_rows_yet_is_not_there() -> None:
    assert fold([]) is None
    assert fold([at(1, RETIRE)]) is None
    assert fold([at(2, CREATE)], time(1)) is None


def test_of_two_creations_the_earlier_counts() -> None:
    assert folded(at(2, {**CREATE, "text": "later"}), at(1, CREATE)).row["text"] == "t"


def test_of_two_creations_at_one_time_every_clone_picks_the_same() -> None:
    one, other = at(1, CREATE, commit="a"), at(1, {**CREATE, "text": "other"}, commit="b")
    assert folded(one, other).row["text"] == folded(other, one).row["text"] == "t"


def test_of_two_retirements_the_earlier_counts() -> None:
    first = {**RETIRE, "status": "ended", "superseded_by": "p", "reason": "r"}
    state = folded(at(1, CREATE), at(3, RETIRE), at(2, first))
    assert (state.status, state.superseded_by, state.reason, state.invalidated_at) == (
        "ended",
        "p",
        "r",
        time(2),
    )


def test_before_it_was_retired_it_stood() -> None:
    rows = at(1, CREATE), at(2, {**RETIRE, "valid_to": time(2), "superseded_by": "p"})
    then = folded(*rows, as_of=1)
    assert (then.status, then.valid_to, then.superseded_by, then.invalidated_at) == (
        "active",
        None,
        None,
        None,
    )
    assert folded(*rows, as_of=2).status == "invalidated"


def test_a_retirement_without_an_end_leaves_the_stated_one() -> None:
    assert folded(at(1, {**CREATE, "valid_to": time(9)}), at(2, RETIRE)).valid_to == time(9)


def test_links_add_up_without_repeating() -> None:
    link = {"op": "link", "of": "observation", "id": "o"}
    rows = at(1, {**CREATE, "supersedes": ["a"]}), at(2, {**link, "supersedes": ["a", "b"]})
    assert folded(*rows).supersedes == ["a", "b"]
    assert folded(*rows, as_of=1).supersedes == ["a"]


def test_saying_it_again_changes_nothing() -> None:
    said = at(2, {"op": "same", "of": "observation", "id": "o"})
    assert folded(at(1, CREATE), said) == folded(at(1, CREATE))


def test_what_was_erased_says_nothing_at_any_time() -> None:
    rows = at(1, CREATE), at(3, FORGOTTEN)
    for as_of in (None, 0, 1, 5):
        state = folded(*rows, as_of=as_of)
        assert state.forgotten
        assert not state.active
        assert "text" not in state.row


def test_what_comes_after_an_erasure_from_another_clone_brings_nothing_back() -> None:
    state = folded(at(1, CREATE), at(2, FORGOTTEN), at(3, field("name", "secret")))
    assert state.forgotten
    assert state.versions == []


def test_an_entity_can_be_named_anew_after_it_was_erased() -> None:
    erased = {"op": "forgotten", "of": "entity", "id": "e"}
    state = folded(at(1, ENTITY), at(2, field("name", "F")), at(3, erased), at(4, {**ENTITY, "name": "New"}))
    assert (state.forgotten, state.names(), state.recorded_at) == (False, ["New"], time(4))


def test_what_was_adopted_with_a_date_to_come_can_be_retired_today() -> None:
    adopted = at(1, {**CREATE, "at": "2031-01-01T00:00:00.000000Z"})
    state = folded(adopted, at(2, RETIRE))
    assert (state.status, state.recorded_at) == ("invalidated", "2031-01-01T00:00:00.000000Z")


def test_adoption_settles_when_a_row_was_recorded() -> None:
    adopted = at(9, {**CREATE, "at": time(1)})
    assert folded(adopted, as_of=5).recorded_at == time(1)
    assert fold([adopted], time(0)) is None


def test_each_value_of_a_field_is_a_version() -> None:
    rows = at(1, ENTITY), at(2, field("name", "F", reason="merger")), at(4, field("name", "G"))
    versions = folded(*rows).versions
    assert [(v.n, v.value, v.reason) for v in versions] == [
        (1, "E", "merger"),
        (2, "F", None),
        (3, "G", None),
    ]
    assert [v.invalidated_at for v in versions] == [
        datetime.fromisoformat(time(2)), datetime.fromisoformat(time(4)), None,
    ]  # fmt: skip
    assert [v.recorded_at for v in versions] == [datetime.fromisoformat(time(n)) for n in (1, 2, 4)]
    assert folded(*rows, as_of=3).value("name") == "F"
    assert folded(*rows, as_of=1).versions == []


def test_fields_have_versions_of_their_own() -> None:
    state = folded(at(1, ENTITY), at(2, field("domain", None)), at(3, field("pinned", True)))
    assert [(v.field, v.n) for v in state.versions] == [
        ("domain", 1),
        ("domain", 2),
        ("pinned", 1),
        ("pinned", 2),
    ]
    assert state.value("domain") is None
    assert state.value("pinned") is True
    assert state.value("epistemic") == "unknown"


def test_an_entity_answers_to_every_name_it_ever_had() -> None:
    created = {**ENTITY, "aliases": ["Ee"]}
    state = folded(at(1, created), at(2, field("aliases", ["Eee"])), at(3, field("name", "F")))
    assert state.names() == ["E", "Ee", "Eee", "F"]
    assert state.identity_keys() == {"e", "ee", "eee", "f"}


NAMES = {"e": "E", "f": "F"}
OTHERS: dict[str, Row] = {
    "relation": {"op": "relation", "id": "r", "source": "e", "type": "uses", "target": "f"},
    "passage": {"op": "passage", "id": "p", "session": "s", "ordinal": 0, "key": "k", "text": "t"},
}


def test_every_kind_of_state_becomes_its_noun() -> None:
    names = NAMES.__getitem__
    assert isinstance(noun(folded(at(1, ENTITY)), names), Entity)
    said = noun(folded(at(1, CREATE)), names)
    assert isinstance(said, Observation)
    assert (said.entity_name, said.status, said.valid_from) == ("E", "active", None)
    link = noun(folded(at(1, OTHERS["relation"])), names)
    assert isinstance(link, Relation)
    assert (link.source_name, link.target_name) == ("E", "F")
    passage = noun(
        folded(at(1, {**OTHERS["passage"], "origin": {"path": "a.md", "line": 3}, "tags": ["x"]})), names
    )
    assert isinstance(passage, Passage)
    assert passage.origin is not None
    assert (passage.origin.line, passage.tags, passage.visibility) == (3, ("x",), "private")


def test_a_noun_says_who_said_so() -> None:
    stamped = Stamped(time(1), "c", 0, CREATE, {"host": "mcp", "time": "2025-01-15T09:30:00Z"})
    found = noun(folded(stamped), NAMES.__getitem__)
    assert found.provenance is not None
    assert found.provenance.host == "mcp"


def test_an_item_belongs_to_its_ends() -> None:
    assert ends_of(folded(at(1, CREATE))) == ("e",)
    assert ends_of(folded(at(1, OTHERS["relation"]))) == ("e", "f")
    assert ends_of(folded(at(1, OTHERS["passage"]))) == ()
    assert ends_of(folded(at(1, ENTITY))) == ()


@pytest.mark.parametrize(
    ("begins", "ends", "asked", "holds"),
    [
        (None, None, 5, True),
        (5, None, 5, True),
        (6, None, 5, False),
        (None, 5, 5, False),
        (None, 6, 5, True),
        (3, 5, 4, True),
    ],
)
def test_an_interval_has_its_start_and_not_its_end(
    begins: int | None, ends: int | None, asked: int, holds: bool
) -> None:
    row = {
        **CREATE,
        "valid_from": None if begins is None else time(begins),
        "valid_to": None if ends is None else time(ends),
    }
    assert holds_at(folded(at(1, row)), time(asked)) is holds


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (CREATE, "observation"),
        (ENTITY, "entity"),
        (field("name", "F"), "entity"),
        (RETIRE, "observation"),
        ({"op": "forgotten", "of": "passage", "id": "p"}, "passage"),
    ],
)
def test_a_row_knows_what_it_is_about(row: Row, kind: str) -> None:
    assert row_kind(row) == kind


def test_a_row_is_kept_without_what_says_nothing_but_with_every_value() -> None:
    assert compact(
        {"op": "x", "reason": None, "aliases": [], "tags": (), "text": "", "n": 0, "pinned": False}
    ) == {
        "op": "x",
        "text": "",
        "n": 0,
        "pinned": False,
    }
    assert compact(field("domain", None)) == field("domain", None)
    assert compact(field("aliases", [])) == field("aliases", [])
