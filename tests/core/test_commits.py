r"""One commit is one line: any text fits in, any damage shows, and a newer format is not touched."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rawthink_core.clock import ManualClock, iso
from rawthink_core.commits import (
    Commit,
    Header,
    LineDamaged,
    decode,
    digest,
    encode,
    encode_header,
    forgetting,
    new_header,
    next_instant,
    receipt_of,
)
from rawthink_core.errors import InvalidRequest, StoreTooNew
from rawthink_core.rows import State

from .ledger import batch

AT = "2026-01-01T00:00:01.000000Z"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
ROW = {"op": "observation", "id": "o", "entity": "e", "kind": "note", "text": '缓存\u2028\x00 "quoted"\n'}
COMMIT = Commit(
    "batch 1", AT, "home", (ROW, {"op": "same", "of": "entity", "id": "e"}), {"host": "mcp"}, "d1"
)
HEADER = Header("6f0b7c1e-5d7a-5b0e-9f39-2d1b8a4c7e55", AT, "Europe/Istanbul", 2)

GOLDEN = (
    b'{"v":1,"commit":"batch 1","at":"2026-01-01T00:00:01.000000Z","space":"home","by":{"host":"mcp"},'
    b'"request":"d1","ops":[{"op":"observation","id":"o","entity":"e","kind":"note","text":"\xe7\xbc\x93\xe5\xad\x98'
    b'\xe2\x80\xa8\\u0000 \\"quoted\\"\\n"},{"op":"same","of":"entity","id":"e"}],"crc32":"4c8a31ac"}\n'
)
GOLDEN_HEADER = (
    b'{"v":1,"store":"6f0b7c1e-5d7a-5b0e-9f39-2d1b8a4c7e55","created":"2026-01-01T00:00:01.000000Z",'
    b'"timezone":"Europe/Istanbul","generation":2,"crc32":"6e83e06e"}\n'
)


def line(body: dict[str, Any]) -> bytes:
    """Return a line with a right checksum, whatever it says."""
    import zlib

    data = orjson.dumps(body)[:-1]
    return data + b',"crc32":"%08x"}\n' % zlib.crc32(data)


def test_the_line_of_a_commit_never_changes() -> None:
    assert encode(COMMIT) == GOLDEN
    assert encode_header(HEADER) == GOLDEN_HEADER


def test_a_line_reads_back_as_what_was_written() -> None:
    assert decode(GOLDEN) == COMMIT
    assert decode(GOLDEN_HEADER) == HEADER
    assert decode(GOLDEN.rstrip(b"\n")) == COMMIT


@given(
    commit=TEXTS, space=TEXTS, texts=st.lists(TEXTS, max_size=3), by=st.none() | st.dictionaries(TEXTS, TEXTS)
)
def test_any_text_comes_back(commit: str, space: str, texts: list[str], by: dict[str, str] | None) -> None:
    rows = tuple({"op": "observation", "id": text, "text": text} for text in texts)
    written = Commit(commit, AT, space, rows, by or None, "d")
    data = encode(written)
    assert data.count(b"\n") == 1
    assert decode(data) == written


@settings(max_examples=300)
@given(position=st.integers(0, len(GOLDEN) - 2), value=st.integers(0, 255))
def test_a_damaged_byte_is_noticed_or_harmless(position: int, value: int) -> None:
    damaged = bytearray(GOLDEN)
    damaged[position] = value
    try:
        found = decode(bytes(damaged))
    except LineDamaged:
        return
    assert found == COMMIT


def test_every_flipped_bit_is_noticed_or_harmless() -> None:
    for position in range(len(GOLDEN) - 1):
        for bit in range(8):
            damaged = bytearray(GOLDEN)
            damaged[position] ^= 1 << bit
            try:
                found = decode(bytes(damaged))
            except LineDamaged:
                continue
            assert found == COMMIT


@given(st.integers(0, len(GOLDEN) - 2))
def test_half_a_line_is_damaged(end: int) -> None:
    with pytest.raises(LineDamaged):
        decode(GOLDEN[:end])


def test_two_lines_in_one_are_damaged() -> None:
    with pytest.raises(LineDamaged):
        decode(GOLDEN.rstrip(b"\n") + GOLDEN)


@given(st.binary())
def test_no_bytes_make_it_stumble(data: bytes) -> None:
    with pytest.raises((LineDamaged, StoreTooNew)):
        decode(data)


BODY = {"v": 1, "commit": "c", "at": AT, "space": "home", "request": "d", "ops": []}


@pytest.mark.parametrize(
    "wrong",
    [
        {"commit": None},
        {"commit": 5},
        {"space": None},
        {"at": "yesterday"},
        {"at": "2026-01-01T00:00:01"},
        {"at": "2026-01-01T00:00:01Z"},  # would sort after what came later
        {"at": "2026-01-01T01:00:01.000000+01:00"},
        {"ops": None},
        {"ops": [None]},
        {"ops": [{"op": "delete", "id": "x"}]},
        {"ops": [{"op": "same", "of": "entity"}]},
        {"ops": [{"op": "same", "id": "x"}]},
        {"ops": [{"op": "same", "of": "entity", "id": 5}]},
    ],
)
def test_a_whole_line_that_says_nothing_sensible_is_damaged(wrong: dict[str, Any]) -> None:
    with pytest.raises(LineDamaged):
        decode(line(BODY | wrong))


@pytest.mark.parametrize("name", ["commit", "at", "space", "request", "ops"])
def test_a_line_without_one_of_its_parts_is_damaged(name: str) -> None:
    with pytest.raises(LineDamaged):
        decode(line({key: value for key, value in BODY.items() if key != name}))


def test_damage_is_told_without_quoting_the_line() -> None:
    with pytest.raises(LineDamaged) as damage:
        decode(GOLDEN.replace(b"quoted", b"secret"))
    assert "secret" not in str(damage.value)


@pytest.mark.parametrize(
    "data", [line(BODY | {"v": 2}), line({"v": 2, "store": "x"}), b'{"v":2,"sum":"new way"}\n']
)
def test_a_newer_format_is_left_alone(data: bytes) -> None:
    with pytest.raises(StoreTooNew, match="format 2"):
        decode(data)


def test_what_json_cannot_carry_is_a_fault_and_not_a_crash() -> None:
    with pytest.raises(InvalidRequest, match="JSON"):
        encode(Commit("c", AT, "home", ({"op": "entity", "id": "e", "name": "\ud800"},)))
    with pytest.raises(InvalidRequest, match="JSON"):
        encode(Commit("c", AT, "home", ({"op": "entity", "id": "e", "n": 2**70},)))


def test_a_new_store_begins_with_its_first_generation() -> None:
    header = new_header("store", datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC), "UTC")
    assert header == Header("store", AT, "UTC", 1)


def test_rows_are_stamped_in_their_order() -> None:
    assert [(s.at, s.commit, s.position, s.by) for s in COMMIT.stamped()] == [
        (AT, "batch 1", 0, {"host": "mcp"}),
        (AT, "batch 1", 1, {"host": "mcp"}),
    ]


# --- digests and receipts -----------------------------------------------------------------------


def test_a_digest_is_of_the_content_alone() -> None:
    said = [{"entity": "E", "text": "t"}]
    same = digest(batch("one", observations=said))
    assert same == digest(batch("two", observations=said, provenance={"host": "cli"}))
    assert same == digest(batch("three", observations=[{"text": "t", "entity": "E", "kind": "note"}]))
    assert same != digest(batch("one", observations=[{"entity": "E", "text": "T"}]))
    assert same != digest(batch("one", observations=said * 2))


def test_a_digest_of_times_warns_of_nothing() -> None:
    said = {"entity": "E", "text": "t", "valid_from": "2025-01-15", "valid_to": "2025-01-15T09:30:00.5+03:00"}
    with warnings.catch_warnings(action="error"):
        written = batch(observations=[said]).model_dump(mode="json")["observations"][0]
        assert (written["valid_from"], written["valid_to"]) == (
            said["valid_from"],
            "2025-01-15T09:30:00.500000+03:00",
        )
        assert digest(batch(observations=[said])) == "5e8b168f871e6f9876c58ab0b21470fa"


def test_a_digest_never_changes() -> None:
    asked = batch(
        observations=[{"entity": "E", "text": "t", "valid_from": "2025-01-15"}],
        revisions=[{"targets": [{"id": "i"}], "effective": "2025-01-15T09:30:00+08:00", "cause": "changed"}],
    )
    assert digest(asked) == "2b74f407a0257f8187e06827bdb4daac"


def receipt(*rows: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    items = receipt_of(Commit("c", AT, "home", rows)).items
    return [(item.id, item.outcome, item.successor) for item in items]


def test_a_receipt_follows_the_rows() -> None:
    assert receipt(
        {"op": "entity", "id": "e"},
        {"op": "field", "id": "f", "field": "pinned", "value": True},
        {"op": "same", "of": "observation", "id": "o"},
        {"op": "link", "of": "observation", "id": "l", "supersedes": ["x"]},
        {"op": "retire", "of": "observation", "id": "x", "status": "ended", "superseded_by": "l"},
        {"op": "forgotten", "of": "passage", "id": "p"},
    ) == [
        ("e", "created", None),
        ("f", "updated", None),
        ("o", "unchanged", None),
        ("l", "updated", None),
        ("x", "ended", "l"),
        ("p", "invalidated", None),
    ]


def test_an_item_stands_once_in_a_receipt_with_what_mattered() -> None:
    same = {"op": "same", "of": "observation", "id": "o"}
    retire = {"op": "retire", "of": "observation", "id": "o", "status": "invalidated"}
    assert receipt({"op": "observation", "id": "o"}, same) == [("o", "created", None)]
    assert receipt(same, {"op": "link", "of": "observation", "id": "o", "supersedes": ["x"]}) == [
        ("o", "updated", None)
    ]
    assert receipt(same, retire) == [("o", "invalidated", None)]
    linked = {"op": "link", "of": "observation", "id": "o", "supersedes": ["x"]}
    assert receipt(linked, retire) == [("o", "invalidated", None)]


def test_a_receipt_is_the_same_whenever_it_is_asked_for() -> None:
    assert receipt_of(COMMIT) == receipt_of(decode(encode(COMMIT)))  # type: ignore[arg-type] # a commit it is
    assert receipt_of(COMMIT).recorded_at == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)


# --- the next commit ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "then"),
    [
        (None, "2026-01-01T00:00:00.000000Z"),
        ("", "2026-01-01T00:00:00.000000Z"),
        ("2025-12-31T23:59:59.999999Z", "2026-01-01T00:00:00.000000Z"),
        ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.000001Z"),
        ("2027-01-01T00:00:00.999999Z", "2027-01-01T00:00:01.000000Z"),
    ],
)
def test_a_commit_is_later_than_the_last_whatever_the_clock_says(last: str | None, then: str) -> None:
    assert iso(next_instant(ManualClock(), last)) == then


def test_a_commit_of_forgetting_marks_each_item() -> None:
    states = {item: State(item, "passage", {}, AT) for item in ("b", "a")}
    commit = forgetting("c", datetime(2026, 1, 1, tzinfo=UTC), "home", states)
    assert (commit.id, commit.at, commit.space) == ("c", "2026-01-01T00:00:00.000000Z", "home")
    assert [(row["op"], row["of"], row["id"]) for row in commit.rows] == [
        ("forgotten", "passage", "a"),
        ("forgotten", "passage", "b"),
    ]
