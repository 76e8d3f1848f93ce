"""Rule 16: what is written when, what was believed then, and what held then."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rawthink_conformance.bench import START
from rawthink_conformance.checking import check
from rawthink_conformance.expect import equal, true
from rawthink_conformance.talking import EVERY_STATUS
from rawthink_core.model import Observation, Relation
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@check("time.recorded_at")
async def commits_have_times_of_their_own(bench: Bench) -> None:
    """`recorded_at` is the time of commit, later than every commit before it, whatever the clock does."""
    space, other = bench.spaces("one", "two")
    times: list[datetime] = []

    async def write(number: int) -> None:
        receipt = await (space, other)[number % 2].record(
            passages=[{"session": "s", "text": f"turn {number}"}]
        )
        true(receipt.recorded_at, "a receipt must say when it was recorded")
        times.append(receipt.recorded_at or START)

    await write(0)
    equal(times[0], START, "the first commit's time")
    for number in range(1, 5):
        await write(number)  # the clock stands still
    bench.clock.tick(timedelta(hours=-5))
    await write(5)
    await bench.reopen()
    await write(6)
    bench.clock.set(START + timedelta(days=1))
    await write(7)
    equal(times, sorted(set(times)), "times of commits")
    equal(times[-1], START + timedelta(days=1), "the time once the clock is right again")
    true(times[-2] - times[0] < timedelta(seconds=1), "times must not run ahead of a clock that went back")
    items = [*await space.scan(), *await other.scan()]
    equal(sorted(item.recorded_at for item in items), times, "times of the items")


@check("time.zone")
async def naive_times_are_local(bench: Bench) -> None:
    """A time without a zone is in the store's zone, and a date is that whole day there."""
    await bench.reopen(bench.new_world("shanghai", timezone="Asia/Shanghai"))
    space = bench.space()
    equal(bench.provider.info.timezone, "Asia/Shanghai", "the zone of the store")
    (said,) = await space.about("Shop", "is open", valid_from="2025-03-01", valid_to="2025-03-02")
    found = await space.one(Observation, said)
    equal(found.valid_from, _utc("2025-02-28T16:00:00"), "the first instant of a day in Shanghai")
    equal(found.valid_to, _utc("2025-03-02T16:00:00"), "the end of the last day")
    (at,) = await space.say("Shop", "had a fire", valid_from="2025-03-01T09:30:00")
    equal((await space.one(Observation, at)).valid_from, _utc("2025-03-01T01:30:00"), "a naive time")
    (turn,) = await space.turn("talk", "late at night", valid_from="2025-03-01T23:30:00")
    for when, instant in (
        ("2025-03-01T09:30:00", "2025-03-01T01:30:00"),
        ("2025-03-01", "2025-02-28T16:00:00"),
    ):
        receipt = await space.record(
            observations=[{"entity": "Shop", "text": f"told {when}"}], provenance={"time": when}
        )
        told = await space.one(Observation, receipt.ids("observation")[0])
        equal(told.provenance and told.provenance.time, _utc(instant), f"provenance of {when}")
    day = await space.scan(items=["passage"], since="2025-03-01", until="2025-03-01")
    equal([item.id for item in day], [turn], "what was said on the day in Shanghai")


@check("time.zone_fixed")
async def the_zone_belongs_to_the_store(bench: Bench) -> None:
    """The zone of a store is settled when it is created; opening it elsewhere does not move its days."""
    world = bench.new_world("tokyo", timezone="Asia/Tokyo")
    await bench.reopen(world)
    await bench.space().create("Shop")
    await bench.reopen(replace(world, timezone="America/New_York"))
    space = bench.space()
    equal(bench.provider.info.timezone, "Asia/Tokyo", "the zone after reopening elsewhere")
    (said,) = await space.say("Shop", "is open", valid_from="2025-03-01")
    equal((await space.one(Observation, said)).valid_from, _utc("2025-02-28T15:00:00"), "a date given then")


@check("time.forms")
async def times_in_many_forms(bench: Bench) -> None:
    """ISO 8601 with `Z` or an offset, epoch seconds and milliseconds are one instant, to the microsecond."""
    space = bench.space()
    await space.create("Clock")
    instant = _utc("2025-01-15T09:30:00")
    forms = (
        "2025-01-15T09:30:00Z",
        "2025-01-15T17:30:00+08:00",
        1736933400,
        1736933400000,
        1736933400.0,
        instant,
    )
    for number, form in enumerate(forms):
        (said,) = await space.say("Clock", f"form {number}", valid_from=form)
        equal((await space.one(Observation, said)).valid_from, instant, f"{form!r}")
    exact = "2025-01-15T09:30:00.123456+00:00"
    (said,) = await space.say("Clock", "exact", valid_from=exact, valid_to="9998-12-31T23:59:59.999999Z")
    await bench.reopen()
    found = await space.one(Observation, said)
    equal(found.valid_from, datetime.fromisoformat(exact), "microseconds")
    equal(found.valid_to, _utc("9998-12-31T23:59:59.999999"), "a far end")
    (old,) = await space.say("Clock", "antique", valid_from="0044-03-15")
    equal((await space.one(Observation, old)).valid_from, _utc("0044-03-15T00:00:00"), "an early begin")
    offset = found.recorded_at.utcoffset()
    equal(offset, timedelta(0), "the offset of what comes back")


@check("time.half_open")
async def intervals_are_half_open(bench: Bench) -> None:
    """A filter takes what lies at `since` and leaves what lies at `until`; dates take their whole days."""
    space = bench.space()
    await space.create("Log")
    for hour in ("2025-03-01T00:00:00Z", "2025-03-01T23:59:59.999999Z", "2025-03-02T00:00:00Z"):
        await space.say("Log", f"at {hour}", valid_from=hour)
    cases = (
        ({"since": "2025-03-02T00:00:00Z"}, 1),
        ({"until": "2025-03-02T00:00:00Z"}, 2),
        ({"since": "2025-03-01", "until": "2025-03-01"}, 2),
        ({"since": "2025-03-02", "until": "2025-03-02"}, 1),
        ({"since": "2025-03-01T00:00:00.000001Z", "until": "2025-03-01T23:59:59.999999Z"}, 0),
    )
    for filters, count in cases:
        equal(len(await space.said(items=["observation"], **filters)), count, f"scan with {filters}")
        equal(len(await space.texts("at", items=["observation"], **filters)), count, f"search with {filters}")


@check("time.filter_date")
async def dates_of_items(bench: Bench) -> None:
    """Date filters mean `valid_from`, and `recorded_at` where that is not stated."""
    space = bench.space()
    await space.turn("talk", "said long ago", valid_from="2020-06-01")
    await space.turn("talk", "said just now")
    today = START.date().isoformat()
    equal(await space.texts("said", since=today), ["said just now"], "search since today")
    equal(await space.texts("said", until="2020-12-31"), ["said long ago"], "search until 2020")
    equal(await space.said(since=today, until=today), ["said just now"], "scan of today")


@check("time.as_of")
async def what_was_believed_then(bench: Bench) -> None:
    """`as_of` shows status, end, successor and fields as they were believed then, and nothing newer."""
    space = bench.space()
    (old,) = await space.about("NAS", "runs on Synology", valid_from="2020-01-01")
    await space.create("Desk")
    (link,) = (await space.record(relations=[{"source": "NAS", "type": "part_of", "target": "Desk"}])).ids(
        "relation"
    )
    then = bench.clock.tick(timedelta(days=1))
    bench.clock.tick(timedelta(days=1))
    receipt = await space.revise(
        {"id": old}, successor={"text": "runs on fnOS"}, cause="changed", effective="2025-06-01"
    )
    await space.revise({"id": link})
    await space.revise({"entity": "NAS"}, fields={"name": "Box", "epistemic": "assertion"}, reason="renamed")
    await bench.reopen()
    was = await space.one(Observation, old, as_of=then)
    seen = (was.status, was.valid_to, was.superseded_by, was.invalidated_at, was.entity_name)
    equal(seen, ("active", None, None, None, "NAS"), "the observation then")
    (new,) = receipt.ids(None, "created")
    equal((await space.get(new, as_of=then)).missing, (new,), "what was recorded later")
    owner = await space.entity("Box", as_of=then)
    equal((owner.name, owner.epistemic, owner.versions), ("NAS", "unknown", ()), "the entity then")
    equal((await space.one(Relation, link, as_of=then)).status, "active", "the relation then")
    before = START - timedelta(days=1)
    equal((await space.get(old, as_of=before)).missing, (old,), "before anything was recorded")
    exactly = receipt.recorded_at or START
    equal(
        (await space.one(Observation, old, as_of=exactly)).status,
        "ended",
        "at the very instant of the revision",
    )
    just = exactly - timedelta(microseconds=1)
    equal((await space.one(Observation, old, as_of=just)).status, "active", "a microsecond before it")
    page = await space.graph("Box", as_of=then)
    equal([said.text for said in page.observations], ["runs on Synology"], "observations in the graph then")
    equal([relation.id for relation in page.relations], [link], "relations in the graph then")
    scanned = await space.said(as_of=then)
    equal(scanned, ["runs on Synology"], "the scan then")


@check("time.as_of_search")
async def searching_the_past(bench: Bench) -> None:
    """A search `as_of` then finds what was believed then, though it is retired now, and nothing newer."""
    space = bench.space()
    (old,) = await space.about("NAS", "the backup runs on Synology")
    bench.clock.tick(timedelta(hours=1))
    then = bench.clock.tick(timedelta(hours=1))
    bench.clock.tick(timedelta(hours=1))
    await space.revise({"id": old}, successor={"text": "the backup runs on fnOS"})
    await space.turn("talk", "a backup was mentioned")
    page = await space.search("backup", as_of=then)
    seen = [(hit.text, hit.status, hit.successor) for hit in page.items]
    equal(seen, [("the backup runs on Synology", "active", None)], "hits then")
    equal(
        await space.texts("backup", as_of=START - timedelta(days=1)), [], "hits before anything was recorded"
    )
    now = await space.texts("backup", as_of=bench.clock.tick())
    equal(sorted(now), ["a backup was mentioned", "the backup runs on fnOS"], "hits as of now")


@check("time.valid_at")
async def what_held_then(bench: Bench) -> None:
    """`valid_at` finds active and ended items whose interval holds the instant; corrected ones never held."""
    space = bench.space()
    first, wrong = await space.about("Ada", "lives in Ankara", "lives in Paris", valid_from="2010-01-01")
    await space.revise(
        {"id": first},
        successor={"text": "lives in Izmir"},
        cause="changed",
        effective="2020-01-01T00:00:00Z",
    )
    await space.revise({"id": wrong}, reason="a rumour")
    await space.say("Ada", "lives on a boat", valid_from="2015-01-01", valid_to="2015-12-31")
    await space.say("Ada", "lives well")
    cases = {
        "2009-06-01": {"lives well"},
        "2010-01-01T00:00:00Z": {"lives in Ankara", "lives well"},
        "2015-12-31": {"lives in Ankara", "lives on a boat", "lives well"},
        "2016-01-01": {"lives in Ankara", "lives well"},
        "2019-12-31T23:59:59.999999Z": {"lives in Ankara", "lives well"},
        "2020-01-01T00:00:00Z": {"lives in Izmir", "lives well"},
        "2030-01-01": {"lives in Izmir", "lives well"},
    }
    for moment, texts in cases.items():
        equal(set(await space.texts("lives", valid_at=moment)), texts, f"search at {moment}")
        equal(set(await space.said(valid_at=moment)), texts, f"scan at {moment}")
    stated = await space.texts("lives", valid_at="2015-06-01", statuses=["active"])
    equal(set(stated), {"lives on a boat", "lives well"}, "active ones only")
    if Capability.AS_OF in bench.provider.info.capabilities:
        both = await space.texts("lives", valid_at="2030-01-01", as_of=START, statuses=EVERY_STATUS)
        equal(set(both), {"lives in Ankara", "lives in Paris"}, "what was believed at first to hold in 2030")


@check("time.lapsed")
async def what_has_lapsed_says_so(bench: Bench) -> None:
    """Without `valid_at` the end of an interval hides nothing: a hit past its end is found and says so."""
    space = bench.space()
    await space.about("Shop", "sells ice cream", valid_from="2025-06-01", valid_to="2025-08-31")
    await space.say("Shop", "sells ice skates", valid_from="2025-11-01", valid_to="2026-02-28")
    await space.say("Shop", "sells ice")
    seen = {hit.text: hit.lapsed for hit in (await space.search("sells ice", items=["observation"])).items}
    equal(seen, {"sells ice cream": True, "sells ice skates": False, "sells ice": False}, "hits in January")
    bench.clock.set(datetime(2026, 3, 1, tzinfo=UTC))
    seen = {hit.text: hit.lapsed for hit in (await space.search("sells ice", items=["observation"])).items}
    equal(seen, {"sells ice cream": True, "sells ice skates": True, "sells ice": False}, "hits in March")
