"""Rule 9: what is forgotten is erased, from every verb and every file."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import equal, only, refused, true
from rawthink_conformance.talking import EVERY_STATUS
from rawthink_core.commits import encode
from rawthink_core.errors import NotFound
from rawthink_core.identity import successor_id
from rawthink_core.model import Observation
from rawthink_core.operations import Maintain
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from pathlib import Path

    from rawthink_conformance.bench import Bench
    from rawthink_conformance.talking import Space

MARKED = "the heron nests at Zürich 部署 quayside"
TERMS = ("heron", "quayside", "部署", MARKED)


async def _with_marks(space: Space) -> list[str]:
    """Write a marked text wherever text can be, beside what stays; return the ids of what holds it."""
    await space.record(
        entities=[{"name": "Keep", "entity_type": "concept", "domain": "software"}],
        observations=[{"entity": "Keep", "text": "this stays"}],
        passages=[{"session": "kept", "text": "this stays too"}],
    )
    receipt = await space.record(
        entities=[
            {
                "name": f"Place: {MARKED}",
                "aliases": [f"alias {MARKED}"],
                "entity_type": "concept",
                "domain": "history",
            }
        ],
        observations=[
            {"entity": f"Place: {MARKED}", "text": f"observed: {MARKED}"},
            {"entity": "Keep", "text": f"said of another: {MARKED}"},
        ],
        passages=[{"session": "talk", "key": f"key {MARKED}", "text": f"talked: {MARKED}", "tags": [MARKED]}],
    )
    ids = receipt.ids()
    more = await space.revise(
        {"id": receipt.ids("observation")[0]},
        successor={"text": f"revised: {MARKED}"},
        reason=f"why: {MARKED}",
    )
    await space.revise({"id": ids[0]}, fields={"name": f"Renamed {MARKED}"}, reason=f"again: {MARKED}")
    return [*ids, *more.ids(None, "created")]


@check("forget.verbs")
async def no_verb_yields_forgotten_text(bench: Bench) -> None:
    """What was forgotten is missing from every verb, now and after reopening; the rest stands."""
    space = bench.space()
    ids = await _with_marks(space)
    true(await space.texts("heron", statuses=EVERY_STATUS), "the text must be found before it is forgotten")
    receipt = await space.forget(ids=ids)
    equal(set(receipt.ids), set(ids), "ids of the receipt")
    for moment in ("at once", "after reopening"):
        equal(set((await space.get(*ids)).missing), set(ids), f"get {moment}")
        for term in TERMS:
            equal(await space.texts(term, statuses=EVERY_STATUS), [], f"search for {term!r} {moment}")
        seen = repr(await space.scan(statuses=EVERY_STATUS)) + repr(await space.graph("Keep", depth=3))
        seen += repr(await space.history(name="Keep"))
        true("heron" not in seen, f"scan, graph or history yields the text {moment}")
        equal(sorted(await space.said()), ["this stays", "this stays too"], f"what is kept {moment}")
        await refused(NotFound, space.history(id=ids[1]), f"a history of what was forgotten {moment}")
        await refused(NotFound, space.revise({"id": ids[1]}), f"a revision of what was forgotten {moment}")
        await bench.reopen()


@check("forget.export")
async def no_export_yields_forgotten_text(bench: Bench) -> None:
    """An export holds nothing of what was forgotten."""
    space = bench.space()
    await space.forget(ids=await _with_marks(space))
    lines = b"".join(map(encode, await space.export()))
    true(b"this stays" in lines, "the export must hold what is kept")
    _lacks_marks(lines, "the export")


@check("forget.files")
async def no_file_yields_forgotten_text(bench: Bench) -> None:
    """No file in the store, cache or state folder holds forgotten text, in any encoding; no log does."""
    lines: list[str] = []
    listener = _Listener(lines)
    root = logging.getLogger()
    level = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    try:
        space = bench.space()
        ids = await _with_marks(space)
        await bench.reopen()  # whatever is only written at the end is written now
        receipt = await space.forget(ids=ids)
        kept = [place.place for place in receipt.places if place.outcome == "kept"]
        equal(kept, [], "places that keep the text, though the provider declares `erased`")
        if any(place.outcome == "pending" for place in receipt.places):
            if Capability.MAINTAIN in bench.provider.info.capabilities:
                await space.provider.maintain(Maintain(scope=space.scope))
            await bench.reopen()
        _scan_files(bench.folder, "while it is open")
        await bench.reopen()
        await space.texts("heron", statuses=EVERY_STATUS)
        _scan_files(bench.folder, "after reopening")
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
    _lacks_marks("\n".join(lines).encode(), "the log")


@check("forget.restore")
async def a_restore_brings_nothing_forgotten_back(bench: Bench) -> None:
    """A restore brings nothing back of what was forgotten: not what a copy says of it, to no verb or file."""
    can = bench.provider.info.capabilities
    if Capability.FORGET not in can or Capability.EXPORT not in can:
        return
    space = bench.space()
    ids = (
        await space.record(
            entities=[{"name": "Slip", "entity_type": "concept", "domain": "history"}],
            observations=[{"entity": "Slip", "text": "of the tongue"}],
        )
    ).ids()
    copy = bench.space("default", await bench.open(bench.new_world("copy")))
    await copy.restore(await space.export())
    await copy.revise({"id": ids[0]}, fields={"name": f"Renamed {MARKED}"}, reason=f"why: {MARKED}")
    later = await copy.export()
    await copy.provider.close()
    await space.forget(ids=ids)
    await space.restore(later)
    for moment in ("at once", "after reopening"):
        equal(set((await space.get(*ids)).missing), set(ids), f"get {moment}")
        equal(await space.texts("heron", statuses=EVERY_STATUS), [], f"search {moment}")
        _lacks_marks(b"".join(map(encode, await space.export())), f"the export {moment}")
        await bench.reopen()
    if can[Capability.FORGET] == "erased":
        places = (bench.world.path, bench.world.cache, bench.world.state)
        for folder in {place for place in places if place is not None}:
            _scan_files(folder, "after a restore")


class _Listener(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


def _scan_files(folder: Path, moment: str) -> None:
    for path in sorted(folder.rglob("*")):
        _lacks_marks(str(path.relative_to(folder)).encode(), f"the name of a file {moment}")
        if path.is_file():
            _lacks_marks(path.read_bytes(), f"{path.relative_to(folder)} {moment}")


def _lacks_marks(data: bytes, where: str) -> None:
    for term in TERMS:
        escaped = json.dumps(term).strip('"')
        forms = (
            term.encode(),
            term.encode("utf-16-le"),
            term.encode("utf-16-be"),
            escaped.encode(),
            escaped.upper().encode(),
        )
        if any(form in data for form in forms):
            raise AssertionError(f"{where} still holds the forgotten text {term!r}")


@check("forget.names")
async def forgetting_an_entity(bench: Bench) -> None:
    """An entity is forgotten by any of its names, with all that is said of it and all its relations."""
    space = bench.space()
    said = await space.about("Redis", "is fast", "is small")
    await space.create("App")
    link = (await space.record(relations=[{"source": "App", "type": "uses", "target": "Redis"}])).ids(
        "relation"
    )
    await space.revise({"entity": "Redis"}, fields={"name": "Valkey"})
    owner = (await space.entity("Redis")).id
    receipt = await space.forget(names=["redis"])
    equal(set(receipt.ids), {owner, *said, *link}, "what was erased")
    await bench.reopen()
    equal(
        (await space.get(names=["Redis", "Valkey", "App"])).missing,
        ("Redis", "Valkey"),
        "names that are gone",
    )
    equal((await space.graph("App")).relations, (), "relations of what stays")
    (anew,) = await space.create("Valkey")
    equal((await space.history(id=anew)).observations, (), "what is known of a namesake recorded later")
    equal((await space.get(names=["Redis"])).missing, ("Redis",), "the former name of the namesake")


@check("forget.sessions")
async def forgetting_a_session(bench: Bench) -> None:
    """A session is forgotten with all its passages, retired ones too; another one stays."""
    space = bench.space()
    await space.record(passages=[{"session": "talk", "key": "m1", "text": "the draft"}])
    await space.record(passages=[{"session": "talk", "key": "m1", "text": "the final"}])
    await space.turn("talk 2", "another talk of drafts")
    receipt = await space.forget(sessions=["talk", "talk 3"])
    equal((receipt.count, receipt.missing), (2, ("talk 3",)), "what was erased, and what was not there")
    equal(await space.said(statuses=EVERY_STATUS), ["another talk of drafts"], "what is left")
    (first,) = await space.turn("talk", "a new talk")
    equal(
        len((await space.history(id=first)).passages), 1, "the history of a passage in the session begun anew"
    )


@check("forget.receipt")
async def the_receipt_of_forgetting(bench: Bench) -> None:
    """The receipt counts what was erased, lists what was not there, and names each place with its outcome."""
    space = bench.space()
    (said,) = await space.about("Redis", "is fast")
    receipt = await space.forget(ids=[said, "no such id"], names=["Nobody"])
    equal((receipt.ids, receipt.count), ((said,), 1), "what was erased")
    equal(sorted(receipt.missing), ["Nobody", "no such id"], "what was not there")
    true(receipt.places, "a receipt must name the places that held the text")
    for place in receipt.places:
        true(place.outcome == "erased" or place.note, f"{place.place} is {place.outcome} without saying why")
    again = await space.forget(ids=[said])
    equal((again.count, again.missing), (0, (said,)), "forgetting it again")


@check("forget.links")
async def forgetting_one_end_of_a_revision(bench: Bench) -> None:
    """Forgetting a successor does not bring the old belief back; forgetting the old one leaves the new."""
    space = bench.space()
    one, two = await space.about("NAS", "runs on Synology", "is in the attic")
    await space.revise({"id": one}, successor={"text": "runs on fnOS"})
    await space.revise({"id": two}, successor={"text": "is in the cellar"})
    await space.forget(ids=[successor_id(one), two])
    await bench.reopen()
    was = await space.one(Observation, one)
    equal((was.text, was.status), ("runs on Synology", "invalidated"), "whose successor was forgotten")
    equal(await space.said(items=["observation"]), ["is in the cellar"], "what stands")
    hit = only((await space.search("Synology", statuses=["invalidated"])).items, "hits")
    equal(hit.successor, None, "the text of the forgotten successor")
    history = await space.history(id=one)
    equal([said.id for said in history.observations], [one], "the history of the old belief")
    equal(
        [said.text for said in (await space.history(id=successor_id(two))).observations],
        ["is in the cellar"],
        "the history of the new belief",
    )


@check("forget.retry")
async def an_old_batch_brings_nothing_back(bench: Bench) -> None:
    """Sending the batch that wrote it again does not bring forgotten text back."""
    space = bench.space()
    batch = space.batch(passages=[{"session": "talk", "text": "a slip of the tongue"}])
    ids = (await space.record(batch)).ids()
    await space.forget(ids=ids)
    for moment in ("at once", "after reopening"):
        await space.provider.record(batch)
        equal(await space.said(statuses=EVERY_STATUS), [], f"what is stored {moment}")
        equal(await space.texts("slip tongue"), [], f"what is found {moment}")
        await bench.reopen()
