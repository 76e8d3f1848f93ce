"""Rule 8: a revision retires, dates and links; it never destroys."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from rawthink_conformance.bench import START
from rawthink_conformance.checking import check
from rawthink_conformance.expect import contains, equal, only, refused, true
from rawthink_conformance.talking import EVERY_STATUS
from rawthink_core.errors import AlreadyRevised, InvalidRequest, NotFound
from rawthink_core.identity import successor_id
from rawthink_core.model import Observation, Passage, Relation
from rawthink_core.operations import RecordReceipt
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench


@check("revise.keeps")
async def the_old_stays(bench: Bench) -> None:
    """What is corrected stays with its text, date, reason and successor, which links back."""
    space = bench.space()
    (old,) = await space.about("NAS", "runs on Synology")
    recorded = (await space.one(Observation, old)).recorded_at
    bench.clock.tick()
    receipt = await space.revise({"id": old}, successor={"text": "runs on fnOS"}, reason="misread the box")
    await bench.reopen()
    was = await space.one(Observation, old)
    seen = (was.text, was.status, was.recorded_at, was.invalidated_at, was.reason, was.valid_to)
    kept = ("runs on Synology", "invalidated", recorded, receipt.recorded_at, "misread the box", None)
    equal(seen, kept, "the old observation")
    equal(was.superseded_by, successor_id(old), "the id of the successor")
    new = await space.one(Observation, successor_id(old))
    equal((new.text, new.status, new.supersedes), ("runs on fnOS", "active", (old,)), "the successor")
    equal((new.entity, new.kind), (was.entity, was.kind), "what the successor takes from the old one")
    equal(receipt.ids("observation", "created"), [new.id], "the receipt's new item")
    retired = [(i.id, i.successor) for i in receipt.items if i.outcome == "invalidated"]
    equal(retired, [(old, new.id)], "the receipt's retired item")


@check("revise.by_text")
async def a_text_means_every_active_one(bench: Bench) -> None:
    """Entity and exact text mean every active observation with it; kind and begin narrow that."""
    space = bench.space()
    await space.about("NAS", "is loud")
    (reason,) = await space.say("NAS", "is loud", kind="because")
    (dated,) = await space.say("NAS", "is loud", valid_from="2025-01-01")
    await space.say("NAS", "is loud and hot")
    receipt = await space.revise({"entity": "nas", "text": "is loud", "kind": "because"})
    equal(receipt.ids(None, "invalidated"), [reason], "narrowed by kind")
    receipt = await space.revise({"entity": "NAS", "text": "is loud", "valid_from": "2025-01-01"})
    equal(receipt.ids(None, "invalidated"), [dated], "narrowed by begin")
    await space.say("NAS", "is loud", kind="touches")
    receipt = await space.revise({"entity": "NAS", "text": " is loud\n"}, reason="new fan")
    equal(len(receipt.ids(None, "invalidated")), 2, "all active ones with the text")
    equal(await space.said(items=["observation"]), ["is loud and hot"], "what still stands")
    for inexact in ("is lou", "IS LOUD", "is loud and hot."):
        await refused(NotFound, space.revise({"entity": "NAS", "text": inexact}), f"the text {inexact!r}")


@check("revise.changed")
async def what_changed_was_true_of_its_time(bench: Bench) -> None:
    """What `changed` is `ended` and closes at `effective`; its successor begins there."""
    space = bench.space()
    (old,) = await space.about("Ada", "lives in Ankara", valid_from="2020-01-01")
    await space.revise(
        {"id": old}, successor={"text": "lives in Izmir"}, cause="changed", effective="2025-06-01T00:00:00Z"
    )
    was, now = await space.one(Observation, old), await space.one(Observation, successor_id(old))
    equal((was.status, _iso(was.valid_to)), ("ended", "2025-06-01T00:00:00+00:00"), "the old observation")
    equal((now.status, _iso(now.valid_from)), ("active", "2025-06-01T00:00:00+00:00"), "the successor")
    equal(now.valid_to, None, "the successor's end")
    (other,) = await space.about("Bob", "plays chess")
    bench.clock.set(START.replace(year=2027))
    receipt = await space.revise({"id": other}, cause="changed")
    gone = await space.one(Observation, other)
    equal((gone.status, gone.valid_to), ("ended", receipt.recorded_at), "what changed at no stated time")
    (third,) = await space.about("Cem", "is away", valid_from="2026-01-01")
    call = space.revise({"id": third}, cause="changed", effective="2025-12-31")
    await refused(InvalidRequest, call, "an end before the begin")
    call = space.revise({"id": third}, effective="2026-02-01")
    await refused(InvalidRequest, call, "an effective time of what was never so")


@check("revise.changed_now")
async def what_changes_now(bench: Bench) -> None:
    """What `changed` at no stated time ends with the commit, and its successor begins there."""
    space = bench.space()
    (old,) = await space.about("Ada", "plays chess")
    before = bench.clock.tick(timedelta(hours=1))
    bench.clock.tick(timedelta(hours=1))
    receipt = await space.revise({"id": old}, successor={"text": "plays go"}, cause="changed")
    await bench.reopen()
    was, now = await space.one(Observation, old), await space.one(Observation, successor_id(old))
    seen = (was.status, was.valid_from, was.valid_to, now.valid_from, now.valid_to)
    equal(seen, ("ended", None, receipt.recorded_at, receipt.recorded_at, None), "old and new intervals")
    (again,) = await space.say("Ada", "plays go")
    equal(again, now.id, "the successor, said once more without a begin")
    if Capability.VALID_AT in bench.provider.info.capabilities:
        equal(await space.texts("plays", valid_at=before), ["plays chess"], "what held before the change")
        equal(await space.texts("plays", valid_at=bench.clock.tick()), ["plays go"], "what holds after it")
    end = {"text": "rests", "valid_to": before}
    call = space.revise({"id": now.id}, successor=end, cause="changed")
    await refused(InvalidRequest, call, "a successor that ends before it begins", "effective")


def _iso(moment: object) -> str:
    return getattr(moment, "isoformat", str)()


@check("revise.standing")
async def a_standing_belief_becomes_the_successor(bench: Bench) -> None:
    """A successor whose content stands already is that observation: only links are written."""
    space = bench.space()
    old, standing = await space.about("NAS", "runs on Synology", "runs on fnOS")
    receipt = await space.revise({"id": old}, successor={"text": "runs on fnOS"})
    equal(receipt.ids(None, "created"), [], "new items")
    equal((await space.one(Observation, old)).superseded_by, standing, "the successor")
    equal((await space.one(Observation, standing)).supersedes, (old,), "what the standing one supersedes")
    (third,) = await space.say("NAS", "runs on TrueNAS")
    await space.revise({"id": third}, successor={"text": " runs on fnOS "})
    found = await space.one(Observation, standing)
    equal(
        (sorted(found.supersedes), found.text), (sorted([old, third]), "runs on fnOS"), "after a second one"
    )


@check("revise.many")
async def all_targets_or_none(bench: Bench) -> None:
    """Several targets get one successor in one commit; if one is retired already, none is touched."""
    space = bench.space()
    one, two, three = await space.about("NAS", "is slow", "is old", "is red")
    receipt = await space.revise({"id": two}, {"id": one}, successor={"text": "is slow because it is old"})
    new = successor_id(two)
    found = await space.one(Observation, new)
    equal(
        (found.text, sorted(found.supersedes)),
        ("is slow because it is old", sorted([one, two])),
        "the successor",
    )
    for old in (one, two):
        was = await space.one(Observation, old)
        equal((was.superseded_by, was.invalidated_at), (new, receipt.recorded_at), "each of the old ones")
    call = space.revise({"id": three}, {"id": one}, successor={"text": "is blue"})
    await refused(AlreadyRevised, call, "a revision of which one target is retired")
    equal((await space.one(Observation, three)).status, "active", "the other target")
    equal(await space.texts("blue", statuses=EVERY_STATUS), [], "the successor of the refused revision")


@check("revise.retraction")
async def a_revision_without_successor_retracts(bench: Bench) -> None:
    """Without a successor a belief is retracted: retired, with a reason, and replaced by nothing."""
    space = bench.space()
    (old,) = await space.about("NAS", "is stolen")
    await space.revise({"id": old}, reason="it was under the desk")
    was = await space.one(Observation, old)
    seen = (was.status, was.superseded_by, was.reason)
    equal(seen, ("invalidated", None, "it was under the desk"), "the retracted observation")
    equal(await space.said(), [], "what stands")
    error = await refused(AlreadyRevised, space.revise({"id": old}), "a second retraction")
    equal((error.target, error.successor), (old, None), "what the refusal says")


@check("revise.already")
async def what_is_retired_is_not_revised_again(bench: Bench) -> None:
    """Revising what was replaced is refused with the successor's id, and writes nothing."""
    space = bench.space()
    (old,) = await space.about("NAS", "runs on Synology")
    await space.revise({"id": old}, successor={"text": "runs on fnOS"})
    await bench.reopen()
    for target in ({"id": old}, {"entity": "NAS", "text": "runs on Synology"}):
        call = space.revise(target, successor={"text": "runs on Unraid"})
        error = await refused(AlreadyRevised, call, f"a second revision by {sorted(target)}")
        equal((error.target, error.successor), (old, successor_id(old)), "what the refusal says")
    equal(await space.said(statuses=EVERY_STATUS), ["runs on Synology", "runs on fnOS"], "what is stored")


@check("revise.not_found")
async def unknown_targets_are_not_found(bench: Bench) -> None:
    """A target that does not exist is `NotFound`, whichever way it is named."""
    space = bench.space()
    await space.about("NAS", "is loud")
    await space.create("Desk")
    for target in (
        {"id": "00000000-0000-4000-8000-000000000000"},
        {"id": "no id"},
        {"entity": "NAS", "text": "is quiet"},
        {"entity": "Nobody", "text": "is loud"},
        {"source": "NAS", "type": "uses", "target": "Desk"},
    ):
        await refused(NotFound, space.revise(target), f"the target {target}")
    await refused(NotFound, space.revise({"entity": "Nobody"}, fields={"pinned": True}), "fields of nobody")


@check("revise.race")
async def of_two_revisions_one_wins(bench: Bench) -> None:
    """Of many revisions of one belief at once, one wins; the others learn its successor and leave nothing."""
    space = bench.space()
    (old,) = await space.about("NAS", "runs on Synology")
    speakers = [space, space]
    if bench.grade(Capability.PROCESSES) == "many":
        speakers[1] = bench.space(provider=await bench.open())
    calls = (speakers[n % 2].revise({"id": old}, successor={"text": f"runs on system {n}"}) for n in range(6))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    winners = [answer for answer in answers if isinstance(answer, RecordReceipt)]
    losers = [answer for answer in answers if isinstance(answer, AlreadyRevised)]
    equal((len(winners), len(losers)), (1, 5), f"winners and losers of {answers!r}")
    equal({loser.successor for loser in losers}, {successor_id(old)}, "the successor that losers learn of")
    standing = await space.said()
    equal(len(standing), 1, "what stands")
    history = await space.history(name="NAS")
    equal(len(history.observations), 2, "all that is stored")
    true(standing[0].startswith("runs on system"), f"the winner's text must stand, not {standing[0]!r}")


@check("revise.retry")
async def a_revision_sent_again(bench: Bench) -> None:
    """A revision sent again with its id gives the first receipt, not `AlreadyRevised`."""
    space = bench.space()
    (old,) = await space.about("NAS", "runs on Synology")
    first = await space.revise({"id": old}, successor={"text": "runs on fnOS"}, batch_id="r1")
    await bench.reopen()
    again = await space.revise({"id": old}, successor={"text": "runs on fnOS"}, batch_id="r1")
    equal(again, first, "the second receipt")


@check("revise.in_batch")
async def the_successor_may_be_new_in_the_batch(bench: Bench) -> None:
    """A batch may say something new and make it the successor of what it retires."""
    space = bench.space()
    old, other = await space.about("NAS", "runs on Synology", "runs on DSM")
    receipt = await space.record(
        observations=[{"entity": "NAS", "text": "runs on fnOS", "valid_from": "2025-06-01"}],
        revisions=[
            {
                "targets": [{"id": old}, {"id": other}],
                "successor": {"text": "runs on fnOS", "valid_from": "2025-06-01"},
                "reason": "moved",
            }
        ],
    )
    (new,) = receipt.ids("observation", "created")
    equal(
        sorted((await space.one(Observation, new)).supersedes),
        sorted([old, other]),
        "what the new one replaces",
    )
    equal((await space.one(Observation, old)).superseded_by, new, "the successor of the old one")


@check("revise.relation")
async def relations_are_revised(bench: Bench) -> None:
    """A relation is revised by id or by its ends and type, synonyms and turned arrows included."""
    space = bench.space()
    await space.create("App", "Redis", "Valkey")
    (old,) = (await space.record(relations=[{"source": "App", "type": "uses", "target": "Redis"}])).ids(
        "relation"
    )
    await space.revise(
        {"source": "redis", "type": "used_by", "target": "app"},
        successor={"target": "Valkey"},
        reason="licence",
        cause="changed",
    )
    was, now = await space.one(Relation, old), await space.one(Relation, successor_id(old))
    retired = (was.status, was.superseded_by, was.reason)
    equal(retired, ("ended", successor_id(old), "licence"), "the old relation")
    made = (now.source_name, now.type, now.target_name, now.supersedes, now.status)
    equal(made, ("App", "uses", "Valkey", (old,), "active"), "the new relation")
    equal([link.id for link in (await space.graph("App")).relations], [now.id], "relations in the graph")
    await space.revise({"id": now.id})
    equal((await space.graph("App")).relations, (), "relations after the retraction")
    contains(
        [link.id for link in (await space.history(name="App")).relations], old, "relations in the history"
    )


@check("revise.passage")
async def passages_are_revised(bench: Bench) -> None:
    """A passage is revised in its place: session, ordinal, key, speaker and tags stay."""
    space = bench.space()
    await space.turn("talk", "before")
    batch = {"session": "talk", "key": "m1", "text": "the old wording", "speaker": "Ada", "tags": ["x"]}
    (old,) = (await space.record(passages=[batch])).ids("passage")
    await space.revise({"id": old}, successor={"text": "a better phrasing"}, reason="typo")
    was, now = await space.one(Passage, old), await space.one(Passage, successor_id(old))
    equal((was.status, was.superseded_by, was.reason), ("invalidated", now.id, "typo"), "the old passage")
    seen = (now.session, now.ordinal, now.key, now.speaker, now.tags, now.supersedes)
    equal(seen, ("talk", 1, "m1", "Ada", ("x",), (old,)), "the new passage")
    equal(await space.said(items=["passage"]), ["before", "a better phrasing"], "what stands")


@check("revise.search")
async def searches_show_what_stands(bench: Bench) -> None:
    """Plain searches show active items only; asked for retired ones, they show the successor beside each."""
    space = bench.space()
    (old,) = await space.about("NAS", "the backup runs on Synology")
    await space.revise({"id": old}, successor={"text": "the backup runs on fnOS"}, reason="replaced the box")
    equal(await space.texts("backup", items=["observation"]), ["the backup runs on fnOS"], "a plain search")
    equal(await space.texts("Synology"), [], "the old wording")
    page = await space.search("backup Synology", statuses=["invalidated"])
    hit = only(page.items, "hits")
    seen = (hit.id, hit.status, hit.superseded_by, hit.successor, hit.reason)
    shown = (old, "invalidated", successor_id(old), "the backup runs on fnOS", "replaced the box")
    equal(seen, shown, "the retired hit")
    both = await space.texts("backup", statuses=EVERY_STATUS, items=["observation"])
    equal(sorted(both), ["the backup runs on Synology", "the backup runs on fnOS"], "all statuses")
