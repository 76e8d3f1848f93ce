"""What people write for a time, and the instants that it means."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rawthink_core.clock import iso
from rawthink_core.errors import ConfigError, InvalidRequest
from rawthink_core.model import (
    Entity,
    Hit,
    Observation,
    Origin,
    instant,
    kind_of,
    moment,
    parse_time,
    zone_named,
)

ISTANBUL, NEW_YORK = ZoneInfo("Europe/Istanbul"), ZoneInfo("America/New_York")
SAO_PAULO, HAVANA, APIA = ZoneInfo("America/Sao_Paulo"), ZoneInfo("America/Havana"), ZoneInfo("Pacific/Apia")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2025-01-15", date(2025, 1, 15)),
        ("20250115", date(2025, 1, 15)),
        ("2025-W03-3", date(2025, 1, 15)),
        (" 2025-01-15 ", date(2025, 1, 15)),
        ("0476-09-04", date(476, 9, 4)),
        ("2025-01-15T09:30", datetime(2025, 1, 15, 9, 30)),  # noqa: DTZ001 - naive is what is read
        ("2025-01-15 09:30:00", datetime(2025, 1, 15, 9, 30)),  # noqa: DTZ001 - naive is what is read
        ("2025-01-15T09:30:00Z", datetime(2025, 1, 15, 9, 30, tzinfo=UTC)),
        ("2025-01-15T09:30:00.123456+09:00", datetime(2025, 1, 15, 0, 30, 0, 123456, tzinfo=UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1736933400, datetime(2025, 1, 15, 9, 30, tzinfo=UTC)),
        (1736933400.25, datetime(2025, 1, 15, 9, 30, 0, 250000, tzinfo=UTC)),
        (1736933400123, datetime(2025, 1, 15, 9, 30, 0, 123000, tzinfo=UTC)),
        (-1, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (date(2025, 1, 15), date(2025, 1, 15)),
        (datetime(2025, 1, 15, tzinfo=UTC), datetime(2025, 1, 15, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_as_people_write_it(written: object, meant: date) -> None:
    found = parse_time(written)
    assert found == meant
    assert type(found) is type(meant)


def test_numbers_are_seconds_until_they_are_milliseconds() -> None:
    assert parse_time(10**11 - 1) == datetime(5138, 11, 16, 9, 46, 39, tzinfo=UTC)
    assert parse_time(10**11) == datetime(1973, 3, 3, 9, 46, 40, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    [
        True, False, None, float("nan"), float("inf"), float("-inf"), 1e300, pytest.param(10**5000, id="huge"), b"2025-01-15", [2025], {},
        "", " ", "yesterday", "1736933400", "2025-13-01", "2025-02-30", "2025-1-5", "15.01.2025", "2025-01-15T25:00",
        "２０２５-０１-１５", "٢٠٢٥-٠١-١٥", "2025-01-15\ud800", "2025-01-15\x00", pytest.param("x" * 100_000, id="long"),
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"time|ISO 8601") as refused:
        parse_time(written)
    assert len(str(refused.value)) < 200


def test_a_naive_time_is_in_the_stores_zone() -> None:
    assert iso(moment(datetime(2025, 1, 15, 9, 30), ISTANBUL)) == "2025-01-15T06:30:00.000000Z"  # noqa: DTZ001


def test_an_aware_time_keeps_its_own() -> None:
    tokyo = datetime(2025, 1, 15, 9, 30, tzinfo=timezone(timedelta(hours=9)))
    assert iso(moment(tokyo, ISTANBUL)) == "2025-01-15T00:30:00.000000Z"


@given(st.dates(date(1900, 1, 2), date(2100, 1, 1)), st.sampled_from([ISTANBUL, NEW_YORK, SAO_PAULO, HAVANA]))
def test_days_are_whole_and_follow_on_each_other(day: date, zone: ZoneInfo) -> None:
    begins, ends = moment(day, zone), moment(day, zone, end_of_day=True)
    assert timedelta(hours=23) <= ends - begins <= timedelta(hours=25)
    assert ends == moment(day + timedelta(days=1), zone)
    assert instant(day, zone) == ends - timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("day", "zone", "begins", "hours"),
    [
        (date(2026, 3, 8), NEW_YORK, "2026-03-08T05:00:00.000000Z", 23),
        (date(2026, 11, 1), NEW_YORK, "2026-11-01T04:00:00.000000Z", 25),
        (date(2018, 11, 4), SAO_PAULO, "2018-11-04T03:00:00.000000Z", 23),  # its midnight never was
        (date(2025, 11, 2), HAVANA, "2025-11-02T04:00:00.000000Z", 25),  # its midnight was twice: the first
        (date(2011, 12, 30), APIA, "2011-12-30T10:00:00.000000Z", 0),  # was left out of the calendar
    ],
)
def test_a_day_has_the_hours_that_its_zone_gave_it(
    day: date, zone: ZoneInfo, begins: str, hours: int
) -> None:
    assert iso(moment(day, zone)) == begins
    assert moment(day, zone, end_of_day=True) - moment(day, zone) == timedelta(hours=hours)


def test_an_hour_that_was_twice_is_the_first_unless_said_otherwise() -> None:
    twice = datetime(2026, 11, 1, 1, 30)  # noqa: DTZ001 - naive is the point
    assert iso(moment(twice, NEW_YORK)) == "2026-11-01T05:30:00.000000Z"
    assert iso(moment(twice.replace(fold=1), NEW_YORK)) == "2026-11-01T06:30:00.000000Z"


def test_an_hour_that_never_was_still_has_a_place() -> None:
    assert iso(moment(datetime(2026, 3, 8, 2, 30), NEW_YORK)) == "2026-03-08T07:30:00.000000Z"  # noqa: DTZ001


@pytest.mark.parametrize(
    ("value", "zone", "end"),
    [
        (date(1, 1, 1), ISTANBUL, False),
        (date(9999, 12, 31), ISTANBUL, True),
        (datetime(1, 1, 1), ISTANBUL, False),  # noqa: DTZ001 - naive is the point
        (datetime(9999, 12, 31, 23), NEW_YORK, False),  # noqa: DTZ001 - naive is the point
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), ISTANBUL, False),
    ],
)
def test_what_lies_outside_the_calendar_in_utc_is_refused(value: date, zone: ZoneInfo, end: bool) -> None:
    with pytest.raises(InvalidRequest, match="outside the years"):
        moment(value, zone, end_of_day=end)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "/etc/passwd", "../../etc/passwd", "a\x00b", "Europe"])
def test_a_zone_without_an_iana_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="timezone"):
        zone_named(name)


def test_a_zone_is_found_by_its_iana_name() -> None:
    assert zone_named("Asia/Shanghai") == ZoneInfo("Asia/Shanghai")


@pytest.mark.parametrize(
    "kind", [{"path": "\ud800"}, {"path": "a", "sha256": "\udfff"}, {"path": "a", "line": 0}]
)
def test_an_origin_that_no_file_could_have_is_refused(kind: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Origin.model_validate(kind)


def test_nouns_do_not_change_and_have_no_other_fields() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    entity = Entity(id="e", name="E", recorded_at=now)
    with pytest.raises(ValidationError):
        entity.name = "F"  # type: ignore[misc] # what must fail
    with pytest.raises(ValidationError):
        Entity.model_validate({"id": "e", "name": "E", "recorded_at": now, "color": "red"})


def test_a_noun_knows_its_kind() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert kind_of(Entity(id="e", name="E", recorded_at=now)) == "entity"
    said = Observation(id="o", recorded_at=now, entity="e", entity_name="E", text="t")
    assert kind_of(said) == "observation"


def test_a_hit_is_dated_by_what_it_says_before_when_it_was_recorded() -> None:
    then, now = datetime(2020, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    hit = Hit(item="observation", id="o", text="t", score=1.0, recorded_at=now)
    assert hit.date == now
    assert hit.model_copy(update={"valid_from": then}).date == then
