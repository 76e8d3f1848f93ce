"""Requests are closed, and everything wrong with one is told at once, each fault with its place."""

from __future__ import annotations

import contextlib
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rawthink_core import frame, operations, reads, upkeep, writes
from rawthink_core.errors import InvalidRequest
from rawthink_core.model import Rules
from rawthink_core.operations import (
    AfterChat,
    Batch,
    BeforeChat,
    Filters,
    Forget,
    Get,
    GraphQuery,
    HistoryQuery,
    ItemReceipt,
    Maintain,
    RecordReceipt,
    Request,
    Revision,
    Scan,
    Scope,
    SearchQuery,
    parse,
)
from rawthink_core.vocabulary import DEFAULT_VOCABULARY

SCOPE = {"space": "home"}
SHANGHAI = ZoneInfo("Asia/Shanghai")
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KINDS: list[type[Request]] = [
    Scope, SearchQuery, Get, Scan, GraphQuery, HistoryQuery, BeforeChat, AfterChat, Batch, Revision, Forget, Maintain,
]  # fmt: skip


def places(refused: pytest.ExceptionInfo[InvalidRequest]) -> dict[str, str]:
    return {fault.where: fault.problem for fault in refused.value.faults}


def test_every_fault_is_told_with_its_place() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(
            Batch,
            {
                "scope": {"space": ""},
                "entities": [{"entity_type": 5}, "no object"],
                "observations": [{"entity": "E", "text": "a\ud800b", "valid_from": "soon", "mood": "good"}],
                "passages": [{"text": "t", "session": "", "ordinal": -1, "tags": "one"}],
                "revisions": [{"targets": []}],
            },
        )
    assert places(refused) == {
        "id": "is required",
        "scope.space": "must not be empty",
        "entities.0.name": "is required",
        "entities.0.entity_type": "must be a text",
        "entities.1": "must be an object",
        "observations.0.text": "a lone surrogate at character 1: half of a character was cut off; resend the text",
        "observations.0.valid_from": "'soon' is not ISO 8601; write 2025-01-15 or 2025-01-15T09:30:00+08:00",
        "observations.0.mood": "is not an argument of this operation",
        "passages.0.session": "must not be empty",
        "passages.0.ordinal": "Input should be greater than or equal to 0",
        "passages.0.tags": "must be a list",
        "revisions.0.targets": "must not be empty",
    }


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(data=st.data())
def test_a_wrong_type_anywhere_is_a_fault_and_never_a_crash(kind: type[Request], data: st.DataObject) -> None:
    names = [*kind.model_fields, "unknown"]
    given_data = data.draw(st.dictionaries(st.sampled_from(names), ANYTHING))
    with contextlib.suppress(InvalidRequest):
        parse(kind, given_data).model_dump_json()


@pytest.mark.parametrize("data", [None, 5, "text", []])
def test_what_is_no_object_is_refused(data: Any) -> None:
    with pytest.raises(InvalidRequest, match="must be an object"):
        parse(Scope, data)


def test_faults_do_not_repeat_what_was_sent() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(Batch, {"id": {"api_key": "sk-secret"}, "scope": SCOPE})
    assert "sk-secret" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["", " ", "\x00", "a\u2028b\u2029c\x85d", "🙂👨‍👩‍👧", "\ufeff", "e\u0301", "x" * 100_000, "\U0010ffff"],
)
def test_any_unicode_comes_through_as_it_is(text: str) -> None:
    said = {"entity": "E", "text": text, "kind": text}
    batch = parse(Batch, {"id": "b", "scope": SCOPE, "observations": [said]})
    assert batch.observations[0].text == text


@pytest.mark.parametrize(
    "place",
    [
        {"id": "\ud800"},
        {"scope": {"space": "\ud800"}},
        {"replaces_origin": "\ud800"},
        {"provenance": {"host": "\ud800"}},
        {"provenance": {"client": "\ud800"}},
        {"entities": [{"name": "\ud800"}]},
        {"entities": [{"name": "E", "aliases": ["ok", "\ud800"]}]},
        {"entities": [{"name": "E", "supersedes": "\ud800"}]},
        {"observations": [{"entity": "\ud800", "text": "t"}]},
        {"observations": [{"entity": "E", "text": "t", "kind": "\ud800"}]},
        {"relations": [{"source": "A", "type": "\ud800", "target": "B"}]},
        {"passages": [{"text": "t", "session": "\ud800"}]},
        {"passages": [{"text": "t", "session": "s", "key": "\ud800"}]},
        {"passages": [{"text": "t", "session": "s", "speaker": "\ud800"}]},
        {"passages": [{"text": "t", "session": "s", "tags": ["\ud800"]}]},
        {"passages": [{"text": "t", "session": "s", "origin": {"path": "\ud800"}}]},
        {"passages": [{"text": "t", "session": "s", "origin": {"path": "p", "sha256": "\ud800"}}]},
        {"revisions": [{"targets": [{"id": "\ud800"}]}]},
        {"revisions": [{"targets": [{"id": "i"}], "reason": "\ud800"}]},
        {"revisions": [{"targets": [{"id": "i"}], "successor": {"text": "\ud800"}}]},
        {"revisions": [{"targets": [{"id": "i"}], "fields": {"name": "\ud800"}}]},
    ],
)
def test_a_lone_surrogate_is_refused_in_every_text_of_a_write(place: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="surrogate"):
        parse(Batch, {"id": "b", "scope": SCOPE, **place})


@pytest.mark.parametrize("number", [2**53, 10**30])
def test_a_number_that_json_readers_would_bend_is_refused(number: int) -> None:
    passage = {"text": "t", "session": "s", "ordinal": number}
    with pytest.raises(InvalidRequest, match="ordinal"):
        parse(Batch, {"id": "b", "scope": SCOPE, "passages": [passage]})


@pytest.mark.parametrize("limit", [0, 101, -1, "ten", 5.5])
def test_a_search_takes_one_to_a_hundred(limit: Any) -> None:
    with pytest.raises(InvalidRequest, match="limit"):
        parse(SearchQuery, {"scope": SCOPE, "text": "t", "limit": limit})


def test_the_points_in_time_of_a_question_become_instants_of_the_stores_zone() -> None:
    query = parse(
        SearchQuery,
        {
            "scope": SCOPE,
            "text": "t",
            "since": "2025-01-15",
            "until": "2025-01-15",
            "as_of": "2025-01-15",
            "valid_at": "2025-01-15T12:00",
        },
    ).in_zone(SHANGHAI)
    assert query.since == datetime(2025, 1, 14, 16, tzinfo=UTC)
    assert query.until == datetime(2025, 1, 15, 16, tzinfo=UTC)
    assert query.as_of == datetime(2025, 1, 15, 15, 59, 59, 999999, tzinfo=UTC)
    assert query.valid_at == datetime(2025, 1, 15, 4, tzinfo=UTC)


RULES = Rules(DEFAULT_VOCABULARY.extended(domains=["cooking"]), SHANGHAI)


@pytest.mark.parametrize("kind", [SearchQuery, Scan])
def test_a_filter_takes_words_as_people_write_them(kind: type[Filters]) -> None:
    text = {"text": "t"} if kind is SearchQuery else {}
    words = {"entity_types": ["Open Question", "rule"], "domains": ["COOKING"], "statuses": ["Ended "]}
    asked = parse(
        kind, {"scope": SCOPE, "observation_kinds": ["Because"], "since": "2025-01-15", **words, **text}
    )
    assert (asked.statuses, asked.observation_kinds) == (("ended",), ("because",))
    canonical = asked.canonical(RULES)
    assert (canonical.entity_types, canonical.domains) == (("open-question", "rule"), ("cooking",))
    assert canonical.since == datetime(2025, 1, 14, 16, tzinfo=UTC)
    assert canonical.canonical(RULES) == canonical


def test_every_filter_outside_the_vocabulary_is_a_fault_that_helps() -> None:
    asked = parse(
        Scan, {"scope": SCOPE, "entity_types": ["rule", "decission", "karar"], "domains": ["sofware", ""]}
    )
    with pytest.raises(InvalidRequest) as refused:
        asked.canonical(RULES)
    told = places(refused)
    assert sorted(told) == ["domains.0", "domains.1", "entity_types.1", "entity_types.2"]
    assert "Did you mean 'decision'? Allowed: decision, concept" in told["entity_types.1"]
    assert "called 'decision' here" in told["entity_types.2"]
    assert "Did you mean 'software'? Allowed: software" in told["domains.0"]


@pytest.mark.parametrize("kind", [SearchQuery, Scan, GraphQuery])
def test_a_status_or_kind_that_there_is_not_is_refused_with_the_nearest(kind: type[Request]) -> None:
    wrong: dict[str, Any] = {"scope": SCOPE, "statuses": ["active", "endet"]}
    wrong |= {"text": "t"} if kind is SearchQuery else {}
    wrong |= {} if kind is GraphQuery else {"observation_kinds": ["becuase", 5]}
    with pytest.raises(InvalidRequest) as refused:
        parse(kind, wrong)
    told = places(refused)
    assert told["statuses.1"] == (
        "unknown status 'endet'. Did you mean 'ended'? Allowed: active, ended, invalidated"
    )
    assert kind is GraphQuery or "Did you mean 'because'?" in told["observation_kinds.0"]
    assert len(told) == (1 if kind is GraphQuery else 3)


def test_a_question_without_times_is_left_as_it_is() -> None:
    query = parse(SearchQuery, {"scope": SCOPE, "text": "t"})
    assert query.in_zone(SHANGHAI) is query


def test_a_revision_is_a_batch_of_one_change() -> None:
    change = {"targets": [{"id": "i"}], "reason": "r", "effective": "2025-01-15", "cause": "changed"}
    revision = parse(Revision, {"id": "b", "scope": SCOPE, "change": change})
    batch = revision.as_batch()
    assert (batch.id, batch.scope, batch.revisions) == ("b", revision.scope, (revision.change,))
    assert batch.revisions[0].effective == date(2025, 1, 15)


def test_a_turn_is_a_batch_of_passages() -> None:
    turn = parse(AfterChat, {"id": "b", "scope": SCOPE, "passages": [{"text": "t", "session": "s"}]})
    assert turn.as_batch().passages == turn.passages


def test_the_size_of_a_batch_counts_targets() -> None:
    batch = parse(
        Batch,
        {
            "id": "b",
            "scope": SCOPE,
            "entities": [{"name": "E"}],
            "passages": [{"text": "t", "session": "s"}],
            "revisions": [{"targets": [{"id": "i"}, {"id": "j"}]}],
        },
    )
    assert batch.size == 4


def test_a_receipt_lists_ids_by_kind_and_outcome() -> None:
    receipt = RecordReceipt(
        batch_id="b",
        items=(
            ItemReceipt(id="1", kind="entity", outcome="created"),
            ItemReceipt(id="2", kind="observation", outcome="created"),
            ItemReceipt(id="3", kind="observation", outcome="ended", successor="2"),
        ),
    )
    assert receipt.ids() == ["1", "2", "3"]
    assert receipt.ids("observation") == ["2", "3"]
    assert receipt.ids("observation", "ended", "invalidated") == ["3"]
    assert receipt.ids(None, "created") == ["1", "2"]


def test_requests_do_not_change() -> None:
    with pytest.raises(ValidationError):
        parse(Scope, SCOPE).space = "other"  # type: ignore[misc] # what must fail


def test_everything_that_is_asked_or_answered_can_be_imported_from_one_place() -> None:
    for module in (frame, reads, upkeep, writes):
        own = {
            name
            for name, thing in vars(module).items()
            if getattr(thing, "__module__", "") == module.__name__
        }
        public = {name for name in own if not name.startswith("_") and name != "R"}
        assert public <= set(operations.__all__)
