"""Ids are for good: a copy of a memory keeps them, so these values must never change."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_core.identity import (
    NAMESPACE,
    canonical_id,
    derived_batch_id,
    entity_id,
    looks_like_id,
    observation_id,
    passage_id,
    relation_id,
    successor_id,
)

ENTITY = "ca483e80-cd44-571e-86c2-7129e39d5e78"
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_an_entity_keeps_its_id() -> None:
    assert entity_id("home", "api/cache") == "ca483e80-cd44-571e-86c2-7129e39d5e78"
    assert entity_id("home", "İstanbul'da çay 茶") == "06e51ad0-d842-56be-b231-4232751cfa65"


def test_an_observation_keeps_its_id() -> None:
    assert (
        observation_id("home", ENTITY, "note", "read-through cache", None, 0)
        == "978df4e6-7eab-5ac0-a865-7c989f1637a4"
    )
    dated = "2025-01-15T00:00:00.000000Z"
    assert (
        observation_id("home", ENTITY, "decided", "缓存\u2028\x00", dated, 3)
        == "f69ccc27-6a40-5906-bbd5-5e9e64d287f7"
    )


def test_a_relation_keeps_its_id() -> None:
    assert (
        relation_id("home", ENTITY, "uses", entity_id("home", "Redis"), 0)
        == "85a2f536-36cf-5d02-8c16-15ee604d19aa"
    )


def test_a_passage_keeps_its_id() -> None:
    assert passage_id("home", "session 1", "message 1", 0) == "2fc75220-94e7-5b57-8a3b-4fa87c1566c0"


def test_a_successor_keeps_its_id() -> None:
    assert successor_id(ENTITY) == "b922f5e3-6823-55a2-b9a2-5bd8ec053c95"


def test_a_derived_batch_keeps_its_id() -> None:
    assert derived_batch_id("import", "notes/a.md", "1") == "9180c4e4-d4f3-56c2-b72b-31c25a75585f"


@given(WORDS, WORDS, WORDS, st.integers(0, 9))
def test_an_id_is_a_uuid5_over_a_json_array(space: str, session: str, key: str, n: int) -> None:
    array = json.dumps([space, session, key, n], ensure_ascii=False, separators=(",", ":"))
    expected = uuid.uuid5(NAMESPACE, array)
    if "\x7f" not in array:  # JSON may write it either way
        assert passage_id(space, session, key, n) == str(expected)


def test_no_two_nouns_share_an_id() -> None:
    parts = "a", "b", "c", "d"
    ids = [
        entity_id("a", "b"),
        passage_id("a", "b", "c", 0),
        relation_id("a", "b", "c", "d", 0),
        observation_id(*parts, None, 0),
        successor_id("a"),
        derived_batch_id("a", "b"),
    ]
    assert len(set(ids)) == len(ids)


def test_every_part_of_the_content_makes_another_id() -> None:
    ids = {
        observation_id("home", ENTITY, "note", "text", None, 0),
        observation_id("work", ENTITY, "note", "text", None, 0),
        observation_id("home", "other", "note", "text", None, 0),
        observation_id("home", ENTITY, "decided", "text", None, 0),
        observation_id("home", ENTITY, "note", "Text", None, 0),
        observation_id("home", ENTITY, "note", "text", "2025-01-15T00:00:00.000000Z", 0),
        observation_id("home", ENTITY, "note", "text", None, 1),
    }
    assert len(ids) == 7


def test_white_space_around_a_text_and_its_unicode_form_do_not_count() -> None:
    assert observation_id("home", ENTITY, "note", " cafe\u0301\n", None, 0) == observation_id(
        "home", ENTITY, "note", "caf\u00e9", None, 0
    )


def test_the_spelling_of_a_name_does_not_count() -> None:
    assert entity_id("home", "  API/Cache ") == entity_id("home", "api/cache")
    assert entity_id("home", "ILIK") != entity_id("home", "ılık")


def test_joined_parts_never_meet() -> None:
    assert passage_id("home", 'a","b', "c", 0) != passage_id("home", "a", 'b","c', 0)
    assert passage_id("home,a", "b", "c", 0) != passage_id("home", "a,b", "c", 0)


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("6f0b7c1e-5d7a-5b0e-9f39-2d1b8a4c7e55", True),
        ("6F0B7C1E-5D7A-5B0E-9F39-2D1B8A4C7E55", True),
        ("6f0b7c1e5d7a5b0e9f392d1b8a4c7e55", False),
        ("{6f0b7c1e-5d7a-5b0e-9f39-2d1b8a4c7e}", False),
        ("not-an-id-but-thirty-six-characters!", False),
        ("", False),
    ],
)
def test_an_id_is_known_by_its_form(text: str, looks: bool) -> None:
    assert looks_like_id(text) is looks


def test_an_id_may_be_given_in_upper_case_and_other_references_stay() -> None:
    assert canonical_id("6F0B7C1E-5D7A-5B0E-9F39-2D1B8A4C7E55") == "6f0b7c1e-5d7a-5b0e-9f39-2d1b8a4c7e55"
    assert canonical_id("MEM-1") == "MEM-1"
