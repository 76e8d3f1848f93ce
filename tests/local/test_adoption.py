"""A memory graph of another server is read in place, never written, and adopted by our first own write."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from rawthink_core.clock import ManualClock
from rawthink_core.commits import Commit, decode
from rawthink_core.errors import BackendUnavailable, InvalidRequest
from rawthink_core.identity import entity_id
from rawthink_core.model import Entity
from rawthink_local import adoption

from .house import SPACE, START, everything, finds, memory_at, play, row, thing

pytestmark = pytest.mark.asyncio

FILE_TIME = datetime(2025, 11, 1, tzinfo=UTC)


def entity(name, *said, kind="project", **more):
    return {"type": "entity", "name": name, "entityType": kind, "observations": list(said), **more}


def link(source, kind, target, **more):
    return {"type": "relation", "from": source, "to": target, "relationType": kind, **more}


def jsonl(*items) -> bytes:
    return b"".join(json.dumps(item, ensure_ascii=False).encode() + b"\n" for item in items)


class File:
    """The other server's file, and what it must still be."""

    def __init__(self, root):
        self.vault = root / "vault"
        self.vault.mkdir(exist_ok=True)
        self.path = self.vault / "memory.jsonl"
        self.content = b""

    def put(self, content: bytes, at: datetime = FILE_TIME):
        self.content = content
        self.path.write_bytes(content)
        os.utime(self.path, (at.timestamp(), at.timestamp()))

    def untouched(self) -> bool:
        return self.path.read_bytes() == self.content and self.path.stat().st_mtime == FILE_TIME.timestamp()

    def beside(self) -> set[str]:
        return {path.name for path in self.vault.iterdir()} - {"memory.jsonl"}


@pytest.fixture
def file(tmp_path):
    return File(tmp_path)


ATLAS = entity("Atlas", "uses Postgres 16")
BROOK = entity("Brook", "prefers tabs", kind="person")
LINK = link("Brook", "maintains", "Atlas")

DIALECTS = {
    "lines": jsonl(ATLAS, BROOK, LINK),
    "marked, crlf, blank lines": b"\xef\xbb\xbf" + jsonl(ATLAS, BROOK, LINK).replace(b"\n", b"\r\n\r\n"),
    "pretty": json.dumps({"entities": [ATLAS, BROOK], "relations": [LINK]}, indent=2).encode(),
    "torn and glued": jsonl(ATLAS) + jsonl(BROOK).rstrip() + jsonl(LINK) + b'{"type":"entity","name":"Del',
    "no line break at the end": jsonl(ATLAS, BROOK, LINK).rstrip(),
    "no types, epoch times": jsonl(
        {"name": "Atlas", "entityType": "Project", "observations": ["uses Postgres 16"], "createdAt": 1768354862, "createdBy": "me"},
        {"name": "Brook", "entityType": "Person", "observations": ["prefers tabs"]},
        {"from": "Brook", "to": "Atlas", "relationType": "maintains", "createdAt": 1768354862},
    ),
    "observation objects": jsonl(
        {"name": "Atlas", "entityType": "default", "observations": [{"text": "uses Postgres 16", "timestamp": "2025-05-11T15:54:05.242Z", "version": "1.0"}], "_type": "entity"},
        {"name": "Brook", "entityType": "default", "observations": [{"text": "prefers tabs", "version": "1.0"}], "_type": "entity", "_savedAt": "2025-05-13T14:03:13.260Z"},
        LINK,
    ),
}  # fmt: skip


async def picture(memory):
    """Return what a memory shows of the file, ids and dates included."""
    items = await everything(memory)
    page = await memory.graph("Atlas", "Brook", depth=2)
    return {
        item.id: item.model_dump(exclude={"provenance"})
        for item in (*items, *page.entities)
        if not {"mine", "counts sheep"} & {getattr(item, "name", ""), getattr(item, "text", "")}
    }


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_file_is_read_in_place_without_a_trace_and_stays_the_same_when_adopted(
    tmp_path, file, dialect
):
    file.put(DIALECTS[dialect])
    async with memory_at(tmp_path) as memory:
        before = await picture(memory)
        assert {said.text for said in (await memory.graph("atlas", "BROOK")).observations} == {
            "uses Postgres 16",
            "prefers tabs",
        }
        assert await finds(memory, "postgres") == ["uses Postgres 16"]
        (edge,) = (await memory.graph("Brook")).relations
        assert (edge.source_name, edge.type, edge.original_type, edge.target_name) == (
            "Brook",
            "related_to",
            "maintains",
            "Atlas",
        )
        assert (await memory.history(name="Atlas")).observations
        assert (await memory.health()).status in ("ok", "degraded")
        assert [commit.by["host"] async for commit in memory.export()] == ["adopt"]
        assert file.beside() == set()
        await memory.record(
            entities=[thing("mine")], observations=[{"entity": "Atlas", "text": "counts sheep"}]
        )
        assert await picture(memory) == before
    async with memory_at(tmp_path) as memory:
        assert await picture(memory) == before
        assert set(await finds(memory, "postgres sheep", items=["observation"])) == {
            "uses Postgres 16",
            "counts sheep",
        }
    assert file.untouched()
    entries = [decode(line) for line in (file.vault / "rawthink.jsonl").read_bytes().splitlines()[1:]]
    assert [(entry.by or {}).get("host") for entry in entries] == ["adopt", None]


async def test_names_that_are_hard_on_filters_are_found_by_name_and_words(tmp_path, file):
    names = [
        "O'Brien",
        "x' OR 1=1 --",
        'say "hi"',
        "back\\slash",
        "100%_done",
        "a;DROP TABLE m",
        "日本語",
        "👩‍🔬 lab",
    ]
    file.put(jsonl(*(entity(name, f"n of {number}") for number, name in enumerate(names))))
    async with memory_at(tmp_path) as memory:
        for _ in range(2):
            for number, name in enumerate(names):
                (found,) = (await memory.get(names=[name])).items
                assert found.name == name
                assert found.id == entity_id(SPACE, name)
                assert [o.text for o in (await memory.graph(name)).observations] == [f"n of {number}"]
            await memory.record(entities=[thing("mine")])
        gone = await memory.forget(names=["x' OR 1=1 --"])
        assert gone.count == 2
        assert len((await memory.scan(items=["entity"])).items) == len(names)


async def test_changes_of_the_file_are_seen_until_it_is_adopted_and_reported_afterwards(tmp_path, file):
    file.put(jsonl(ATLAS))
    async with memory_at(tmp_path) as memory:
        assert (await memory.get(names=["Brook"])).missing == ("Brook",)
        file.put(jsonl(ATLAS, BROOK))
        assert (await memory.get(names=["Brook"])).items
        file.put(jsonl(BROOK))
        assert (await memory.get(names=["Atlas"])).missing == ("Atlas",)
        file.path.unlink()
        assert (await memory.scan()).items == ()
        file.put(jsonl(ATLAS, BROOK))
        await memory.record(entities=[thing("mine")])
        assert "adopted, never written" in row(await memory.health(), "foreign file").detail
        file.put(jsonl(ATLAS, BROOK, entity("Cedar", "grew later")))
        assert (await memory.get(names=["Cedar"])).missing == ("Cedar",)
        told = row(await memory.health(), "foreign file", "has changed since it was adopted")
        assert (told.status, told.fix) == ("warn", f"rawthink import '{file.path}'")


async def test_an_import_takes_the_difference_of_a_file_that_changed(tmp_path, file):
    from rawthink_core.foreign import commits_of, read_graph, rows_of
    from rawthink_core.model import zone_named
    from rawthink_core.vocabulary import DEFAULT_VOCABULARY

    file.put(jsonl(ATLAS))
    async with memory_at(tmp_path) as memory:
        await memory.record(entities=[thing("mine")])
        (said,) = (await memory.graph("Atlas")).observations
        await memory.forget(ids=[said.id])
        file.put(jsonl(ATLAS, entity("Cedar", "grew later")))
        graph = read_graph(file.content, "memory.jsonl")
        settled = rows_of(
            graph,
            space=SPACE,
            vocabulary=DEFAULT_VOCABULARY,
            zone=zone_named(memory.info.timezone),
            fallback=FILE_TIME,
        )
        commits = commits_of(settled, graph, SPACE, START, "import")
        assert (await memory.restore(commits)).restored == 1
        assert (await memory.restore(commits)).skipped == 1
        assert [o.text for o in (await memory.graph("Cedar")).observations] == ["grew later"]
        assert (await memory.graph("Atlas")).observations == (), "what was forgotten stays so"
    assert b"Postgres" not in (file.vault / "rawthink.jsonl").read_bytes()


async def test_the_past_is_as_the_files_own_dates_say(tmp_path, file):
    file.put(
        jsonl(
            entity("Atlas", {"text": "first", "timestamp": "2025-05-01T00:00:00Z"}, {"text": "second", "timestamp": "2025-06-01T00:00:00Z"}, createdAt="2025-04-01"),
            entity("Undated", "whenever"),
        )
    )  # fmt: skip
    async with memory_at(tmp_path) as memory:
        for _ in range(2):
            seen = {}
            for then in ("2025-03-01", "2025-05-15T00:00:00Z", "2025-07-01T00:00:00Z", "2025-12-01"):
                page = await memory.graph("Atlas", "Undated", as_of=then)
                seen[then[:7]] = [said.text for said in page.observations]
            assert seen == {
                "2025-03": [],
                "2025-05": ["first"],
                "2025-07": ["first", "second"],
                "2025-12": ["first", "second", "whenever"],
            }
            (undated,) = (await memory.get(names=["Undated"])).items
            assert undated.recorded_at == FILE_TIME
            assert await finds(memory, "first", as_of="2025-05-15T00:00:00Z") == ["first"]
            await memory.record(entities=[thing("mine")])


async def test_what_was_given_up_there_is_shown_as_given_up(tmp_path, file):
    old = {
        "text": "uses MySQL",
        "status": "invalidated",
        "invalidated_at": "2025-06-01T00:00:00Z",
        "superseded_by": "moved to Postgres",
        "created": "2025-05-01T00:00:00Z",
    }
    file.put(jsonl(entity("Atlas", old, "uses Postgres 16")))
    async with memory_at(tmp_path) as memory:
        for _ in range(2):
            assert await finds(memory, "uses", items=["observation"]) == ["uses Postgres 16"]
            (gone,) = [o for o in (await memory.history(name="Atlas")).observations if o.status != "active"]
            assert (gone.text, gone.reason, gone.invalidated_at) == (
                "uses MySQL",
                "moved to Postgres",
                datetime(2025, 6, 1, tzinfo=UTC),
            )
            assert "uses MySQL" in await finds(memory, "mysql", as_of="2025-05-15T00:00:00Z")
            await memory.record(entities=[thing("mine")])


async def test_an_adopted_belief_can_be_revised_at_once_whatever_the_clock_and_the_file_say(tmp_path, file):
    """The very first write may change what it adopts, even where the file is dated later than now."""
    file.put(jsonl(ATLAS), at=START + timedelta(days=400))
    async with memory_at(tmp_path, ManualClock(START)) as memory:
        target = {"entity": "Atlas", "text": "uses Postgres 16"}
        await memory.revise([target], successor={"text": "uses Postgres 17"}, cause="changed")
        assert [o.text for o in (await memory.graph("Atlas")).observations] == ["uses Postgres 17"]
    entries = [decode(line) for line in (file.vault / "rawthink.jsonl").read_bytes().splitlines()[1:]]
    assert entries[0].at < entries[1].at


async def test_what_the_file_calls_by_other_names_is_counted_by_health(tmp_path, file):
    file.put(
        jsonl(ATLAS, entity("ATLAS", "again"), link("Ghost", "haunts", "Atlas"), link("Ghoul", "uses", "Atlas"), entity("Dated", createdAt="2025-01-01", createdBy="me"))
        + b'{"type":"entity","name":"Del\n'
        + b'{"content":"I am the weaver."}\n'
    )  # fmt: skip
    async with memory_at(tmp_path) as memory:
        for _ in range(2):
            health = await memory.health()
            said = [check.detail for check in health.checks if check.name == "foreign file"]
            assert any("2 entities, 2 observations, 2 relations" in line for line in said)
            assert "memory.jsonl line 6 is not whole JSON (a torn or damaged line)" in said
            assert "memory.jsonl line 7 is neither an entity nor a relation (it has: content)" in said
            assert "1 entities merged with one of the same name" in said
            assert "2 entities that relations mention and nothing defines (Ghost, Ghoul)" in said
            assert any("types read as the nearest of ours" in line for line in said)
            assert any("items without a date" in line for line in said)
            assert "keys without a place here: createdBy (1×)" in said
            assert all(check.fix for check in health.checks if check.status in ("warn", "fail"))
            (ghost,) = (await memory.get(names=["ghost"])).items
            assert isinstance(ghost, Entity)
            assert ghost.reconstructed
            await memory.record(entities=[thing("mine")])


async def test_rules_bind_what_is_written_and_not_what_was_adopted(tmp_path, file):
    file.put(jsonl(ATLAS, link("Ghost", "haunts", "Atlas")))
    async with memory_at(tmp_path) as memory:
        with pytest.raises(InvalidRequest, match="no entity 'Nobody'"):
            await memory.record(relations=[{"source": "Nobody", "type": "uses", "target": "Atlas"}])
        assert file.beside() <= {".rawthink", ".gitattributes", "rawthink.jsonl"}
        await memory.record(relations=[{"source": "Ghost", "type": "uses", "target": "Atlas"}])
        (atlas,) = (await memory.get(names=["Atlas"])).items
        assert (atlas.domain, atlas.original_type) == (None, "project")
        await memory.record(entities=[{"name": "Atlas", "domain": "software"}])
        assert (await memory.get(names=["Atlas"])).items[0].domain == "software"


async def test_a_file_without_a_graph_is_named_and_left_alone(tmp_path, file):
    file.put(jsonl({"timestamp": "2025-11-26T12:54:11.786349", "content": "I am the Weaver."}))
    async with memory_at(tmp_path) as memory:
        assert (await memory.scan()).items == ()
        assert (
            "holds no memory graph; left alone"
            in row(await memory.health(), "foreign file", "no memory graph").detail
        )
        assert row(await memory.health(), "foreign file", "line 1").status == "note"
        assert (await memory.health()).status == "ok"
        await memory.record(entities=[thing("mine")])
        assert [item.name for item in (await memory.scan()).items] == ["mine"]
    assert file.untouched()


async def test_forgetting_an_item_of_the_file_says_that_it_is_kept_there(tmp_path, file):
    file.put(jsonl(ATLAS, BROOK))
    async with memory_at(tmp_path) as memory:
        (said,) = (await memory.graph("Atlas")).observations
        receipt = await memory.forget(ids=[said.id])
        (kept,) = [place for place in receipt.places if place.place == "foreign file"]
        assert kept.outcome == "kept"
        assert str(file.path) in kept.note
        assert (await memory.graph("Atlas")).observations == ()
        assert await finds(memory, "postgres") == []
        assert b"Postgres" not in (file.vault / "rawthink.jsonl").read_bytes()
        await memory.record(observations=[{"entity": "Brook", "text": "counts sheep"}])
        mine = (await memory.search("sheep")).items[0].id
        assert "foreign file" not in {place.place for place in (await memory.forget(ids=[mine])).places}
    async with memory_at(tmp_path) as memory:
        assert (await memory.graph("Atlas")).observations == ()
    assert file.untouched()


async def test_many_processes_adopt_a_file_once(tmp_path, file):
    file.put(jsonl(ATLAS, BROOK, LINK))
    told = play("adopters", tmp_path, 5)
    assert sorted(told) == ["adopt", *["own"] * 5]
    assert told[0] == "adopt"
    async with memory_at(tmp_path) as memory:
        assert {said.text for said in (await memory.graph("Atlas", "Brook")).observations} == {
            "uses Postgres 16",
            "prefers tabs",
        }
        assert len((await memory.graph("mine")).observations) == 5


async def test_two_open_stores_agree_while_one_of_them_adopts(tmp_path, file):
    file.put(jsonl(ATLAS))
    async with memory_at(tmp_path) as one, memory_at(tmp_path) as two:
        assert await picture(one) == await picture(two)
        await one.record(entities=[thing("mine")])
        file.put(jsonl(BROOK))
        assert (await two.get(names=["Atlas", "mine", "Brook"])).missing == ("Brook",)
        await two.record(entities=[thing("also mine")])
    entries = [decode(line) for line in (file.vault / "rawthink.jsonl").read_bytes().splitlines()[1:]]
    assert [entry.by is not None for entry in entries if isinstance(entry, Commit)] == [True, False, False]


async def test_a_journal_that_goes_back_to_before_the_adoption_shows_the_file_again(tmp_path, file):
    async with memory_at(tmp_path) as memory:
        await memory.record(entities=[thing("mine")])
    early = (file.vault / "rawthink.jsonl").read_bytes()
    file.put(jsonl(ATLAS))
    async with memory_at(tmp_path) as memory:
        assert (await memory.get(names=["Atlas"])).items
        await memory.record(entities=[thing("late")])
        (file.vault / "swapped").write_bytes(early)
        (file.vault / "swapped").rename(file.vault / "rawthink.jsonl")
        assert (await memory.get(names=["Atlas", "mine", "late"])).missing == ("late",)


async def test_half_a_file_that_its_server_is_writing_is_not_adopted(tmp_path, file, monkeypatch):
    file.put(jsonl(ATLAS, BROOK))
    real, calls = adoption._marks, []

    def restless(state):
        calls.append(state)
        return (*real(state)[:2], len(calls)) if len(calls) < 6 else real(state)

    async with memory_at(tmp_path) as memory:
        monkeypatch.setattr(adoption, "_marks", restless)
        assert len((await memory.scan(items=["entity"])).items) == 2
        monkeypatch.setattr(
            adoption, "_marks", lambda state: (*real(state)[:2], calls.append(state) or len(calls))
        )
        with pytest.raises(BackendUnavailable, match=r"memory.jsonl changes while it is read.*Try again"):
            await memory.scan()


async def test_a_folder_in_the_place_of_the_file_is_no_file(tmp_path, file):
    file.path.mkdir()
    async with memory_at(tmp_path) as memory:
        await memory.record(entities=[thing("mine")])
        assert [item.name for item in (await memory.scan()).items] == ["mine"]
        assert "is no file; left alone" in row(await memory.health(), "foreign file").detail


async def test_the_file_belongs_to_its_space_alone(tmp_path, file):
    file.put(jsonl(ATLAS))
    async with memory_at(tmp_path, memory_space="theirs") as memory:
        assert (await memory.scan()).items == ()
        await memory.record(entities=[thing("Atlas")])
        theirs = memory.in_space("theirs")
        assert [o.text for o in (await theirs.graph("Atlas")).observations] == ["uses Postgres 16"]
        assert (await memory.graph("Atlas")).observations == ()


async def test_a_file_elsewhere_is_named_in_the_settings(tmp_path, file):
    elsewhere = tmp_path / "old server" / "graph.json"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(DIALECTS["pretty"])
    async with memory_at(tmp_path, memory_file=str(elsewhere)) as memory:
        assert (await memory.get(names=["Brook"])).items
        await memory.record(entities=[thing("mine")])
        assert str(elsewhere) in row(await memory.health(), "foreign file").detail
    assert elsewhere.read_bytes() == DIALECTS["pretty"]
