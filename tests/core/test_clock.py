"""Time as integers and as text: exact, and in an order that reading shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rawthink_core.clock import (
    CountingIds,
    ManualClock,
    RandomIds,
    SystemClock,
    from_micros,
    iso,
    to_micros,
)

MOMENTS = st.datetimes(timezones=st.just(UTC))


@given(MOMENTS)
def test_microseconds_are_exact_both_ways(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment


@given(MOMENTS)
def test_a_written_time_reads_back(moment: datetime) -> None:
    assert datetime.fromisoformat(iso(moment)) == moment


@given(MOMENTS, MOMENTS)
def test_the_order_of_text_is_the_order_of_time(one: datetime, other: datetime) -> None:
    assert (iso(one) < iso(other)) == (one < other)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(476, 9, 4, tzinfo=UTC), "0476-09-04T00:00:00.000000Z"),
        (datetime(2025, 1, 15, 9, 30, tzinfo=timezone(timedelta(hours=8))), "2025-01-15T01:30:00.000000Z"),
        (datetime(2025, 1, 15, 9, 30, 0, 7, tzinfo=UTC), "2025-01-15T09:30:00.000007Z"),
    ],
)
def test_a_time_is_written_in_full_and_in_utc(moment: datetime, text: str) -> None:
    assert iso(moment) == text


def test_the_machines_clock_is_aware() -> None:
    assert SystemClock().now().tzinfo is UTC


def test_a_manual_clock_stands_still_until_told() -> None:
    clock = ManualClock()
    assert clock.now() == clock.now()
    assert clock.tick() == clock.now() == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
    clock.set(datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=3))))
    assert iso(clock.now()) == "2019-12-31T21:00:00.000000Z"


def test_random_ids_differ_and_counted_ones_repeat() -> None:
    assert RandomIds().new() != RandomIds().new()
    first, second = CountingIds(), CountingIds()
    assert [first.new(), first.new()] == [second.new(), second.new()]
    assert CountingIds("a").new() != CountingIds("b").new()
