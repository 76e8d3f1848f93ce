"""What was forgotten is in no file of ours any more, in any encoding, and each place is accounted for."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from rawthink_core.clock import ManualClock
from rawthink_core.commits import encode
from rawthink_core.errors import BackendUnavailable, NotFound
from rawthink_local import erasure

from .house import START, all_bytes, everything, finds, memory_at, row, thing

pytestmark = pytest.mark.asyncio

SECRET = "Der Schlüssel liegt unter dem »blauen« Topf,\n密码 neunundvierzig"
OTHER = "the kettle is in the kitchen"


def forms(text: str) -> set[bytes]:
    """Return the ways in which a piece of text may stand in a file."""
    found = set()
    for line in text.split("\n"):
        for piece in (line, *(word for word in line.split() if len(word) > 6 or not word.isascii())):
            escaped = json.dumps(piece)[1:-1]
            found |= {piece.encode(), escaped.encode(), piece.encode("utf-16-le"), piece.encode("utf-16-be")}
    return found


def leaks(root, text: str = SECRET) -> list[tuple[str, bytes]]:
    files = all_bytes(*(root / name for name in ("vault", "cache", "state") if (root / name).exists()))
    return [(path, form) for path, content in files.items() for form in forms(text) if form in content]


async def confide(memory, *, session: str = "talk"):
    await memory.record(
        entities=[thing("Topf", aliases=[SECRET.split("\n", maxsplit=1)[0]])],
        observations=[{"entity": "Topf", "text": SECRET}, {"entity": "Topf", "text": OTHER}],
        passages=[{"session": session, "key": "m1", "text": SECRET, "tags": ["blau"]}],
    )


def outcomes(receipt) -> dict[str, str]:
    return {place.place: place.outcome for place in receipt.places}


async def test_no_byte_of_it_is_left_in_any_file_and_every_place_is_named(tmp_path):
    async with memory_at(tmp_path) as memory:
        await confide(memory)
        change = {"text": "nichts mehr"}
        await memory.revise([{"entity": "Topf", "text": SECRET}], successor=change, reason=f"not {SECRET}")
        await finds(memory, "schlüssel topf")
        await memory.get(names=["Topf"])
        assert leaks(tmp_path)
        receipt = await memory.forget(names=["Topf"], sessions=["talk"])
        assert receipt.count == 5
        assert outcomes(receipt) == dict.fromkeys(
            ("journal", "row index", "search index", "activity"), "erased"
        )
        assert leaks(tmp_path) == []
        assert await finds(memory, "schlüssel") == []
        assert await everything(memory) == []
        assert leaks(tmp_path) == []
        assert not [commit async for commit in memory.export() if SECRET in str(commit)]
    assert leaks(tmp_path) == []
    async with memory_at(tmp_path) as memory:
        assert await everything(memory) == []
        with pytest.raises(NotFound):
            await memory.history(name="Topf")


@pytest.mark.parametrize("what", ["id", "name", "session", "everything"])
async def test_what_may_be_named(tmp_path, what):
    async with memory_at(tmp_path) as memory:
        await confide(memory)
        await memory.in_space("work").record(entities=[thing("other")])
        said = {item.text: item.id for item in (await memory.scan(items=["observation"])).items}
        asked = {
            "id": {"ids": [said[SECRET].upper(), "no such id"]},
            "name": {"names": ["TOPF", "nobody"]},
            "session": {"sessions": ["talk", "silence"]},
            "everything": {"everything": True},
        }[what]
        receipt = await memory.forget(**asked)
        assert receipt.count == {"id": 1, "name": 3, "session": 1, "everything": 4}[what]
        assert (
            set(receipt.missing)
            == {"id": {"no such id"}, "name": {"nobody"}, "session": {"silence"}, "everything": set()}[what]
        )
        assert len(await everything(memory)) == 4 - receipt.count
        assert len(await everything(memory.in_space("work"))) == 1
        again = await memory.forget(**asked)
        assert again.count == 0
        assert again.places == ()


async def test_an_item_of_another_space_is_not_found(tmp_path):
    async with memory_at(tmp_path) as memory:
        await confide(memory)
        ids = [item.id for item in await everything(memory)]
        receipt = await memory.in_space("work").forget(ids=ids, names=["Topf"], sessions=["talk"])
        assert receipt.count == 0
        assert len(receipt.missing) == len(ids) + 2
        assert len(await everything(memory)) == 4


async def test_an_id_is_never_used_again(tmp_path):
    clock = ManualClock(START)
    async with memory_at(tmp_path, clock) as memory:
        seen: set[str] = set()
        for _ in range(4):
            clock.tick(timedelta(days=1))
            receipt = await memory.record(
                entities=[thing("Topf")], observations=[{"entity": "Topf", "text": SECRET}]
            )
            (said,) = receipt.ids("observation", "created")
            assert said not in seen
            seen.add(said)
            await memory.forget(ids=[said])
        assert leaks(tmp_path) == []


async def test_an_entity_that_was_recorded_anew_is_no_remnant_of_the_forgotten_one(tmp_path):
    async with memory_at(tmp_path) as memory:
        await confide(memory)
        export = [commit async for commit in memory.export()]
        await memory.forget(names=["Topf"], sessions=["talk"])
        await memory.record(
            entities=[thing("Topf", aliases=["Kessel"])], observations=[{"entity": "Topf", "text": OTHER}]
        )
        assert (await memory.health()).status == "ok"
        assert (await memory.maintain(repair=True)).done == ()
        (topf,) = (await memory.get(names=["Topf"])).items
        changed = [
            commit.__class__(f"{commit.id} again", commit.at, commit.space, commit.rows) for commit in export
        ]
        await memory.restore(changed)
        assert (await memory.get(names=["Topf"])).items == (topf,)
        assert topf.aliases == ("Kessel",)
        assert leaks(tmp_path) == []
        path = tmp_path / "vault" / "rawthink.jsonl"
        with path.open("ab") as file:  # as a merge brings it
            file.write(b"".join(encode(commit) for commit in export))
        assert "row(s) of forgotten items" in row(await memory.health(), "forgotten text").detail
        receipt = await memory.maintain(repair=True)
        assert receipt.done == ("erased 4 row(s) of forgotten items that a merge had brought back",)
        assert (await memory.get(names=["Topf"])).items == (topf,)
        assert [o.text for o in (await memory.graph("Topf")).observations] == [OTHER]
        assert leaks(tmp_path) == []


async def test_an_old_export_does_not_bring_it_back(tmp_path):
    async with memory_at(tmp_path) as memory, memory_at(tmp_path / "other") as other:
        await confide(memory)
        export = [commit async for commit in memory.export()]
        await other.restore(export)
        (said,) = [
            item.id for item in (await memory.scan(items=["observation"])).items if item.text == SECRET
        ]
        (turn,) = [item.id for item in (await memory.scan(items=["passage"])).items]
        await memory.forget(ids=[said, turn])
        assert (await memory.restore(export)).restored == 0
        changed = [
            commit.__class__(f"{commit.id} again", commit.at, commit.space, commit.rows) for commit in export
        ]
        assert (await memory.restore(changed)).restored == 1
        left = leaks(tmp_path, SECRET.split("\n")[1])
        assert [path for path, _ in left if "other" not in path] == []
        assert {item.text for item in (await memory.scan(items=["observation"])).items} == {OTHER}


async def test_what_an_export_says_is_forgotten_is_erased_where_it_is_restored(tmp_path):
    async with memory_at(tmp_path / "one") as one, memory_at(tmp_path / "two") as two:
        await confide(one)
        await two.restore([commit async for commit in one.export()])
        assert leaks(tmp_path / "two")
        await one.forget(everything=True)
        await two.restore([commit async for commit in one.export()])
        assert await everything(two) == []
        assert leaks(tmp_path / "two") == []


async def test_lines_that_were_set_aside_lose_it_whole_or_torn(tmp_path):
    path = tmp_path / "vault" / "rawthink.jsonl"
    async with memory_at(tmp_path) as memory:
        await confide(memory)
        lines = path.read_bytes().splitlines(keepends=True)
        start = lines[1].index("»blauen«".encode())
        pieces = [
            lines[1][:start],
            lines[1][: start - 12],
            lines[1].replace(b"Topf", b"T0pf", 9)[40:-60],
            b'{"text":"der K',
        ]
        for number, piece in enumerate(pieces):
            path.with_name(f"rawthink.jsonl.damaged-2026010{number}T000000").write_bytes(piece)
        harmless = path.with_name("rawthink.jsonl.damaged-20260109T000000")
        harmless.write_bytes(b'{"v":1,"commit":"half of something else')
        receipt = await memory.forget(names=["Topf"], sessions=["talk"])
        assert [place.outcome for place in receipt.places if place.place == "set-aside lines"] == [
            "erased"
        ] * 3
        assert leaks(tmp_path) == []
        assert harmless.read_bytes() == b'{"v":1,"commit":"half of something else'


async def test_what_a_killed_forget_has_left_is_deleted_by_the_next_open_and_by_the_next_write(tmp_path):
    left = tmp_path / "vault" / ".rawthink.jsonl.tmp"
    async with memory_at(tmp_path) as memory:
        await confide(memory)
        left.write_bytes(SECRET.encode())
        await memory.record(entities=[thing("more")])
        assert not left.exists()
        left.write_bytes(SECRET.encode())
    async with memory_at(tmp_path) as memory:
        assert not left.exists()


async def test_a_work_tree_of_git_may_keep_it_and_the_receipt_says_so(tmp_path):
    (tmp_path / ".git").mkdir()
    async with memory_at(tmp_path) as memory:
        await confide(memory)
        receipt = await memory.forget(names=["Topf"])
        (place,) = [place for place in receipt.places if place.place == "git history"]
        assert place.outcome == "kept"
        assert "git filter-repo" in place.note


async def test_an_index_that_can_not_be_deleted_now_is_pending_and_the_journal_is_clean(
    tmp_path, monkeypatch
):
    async with memory_at(tmp_path) as memory:
        await confide(memory)
        await finds(memory, "schlüssel")

        def stuck(*_):
            raise BackendUnavailable("deleting it failed: the disk reports an input/output error")

        monkeypatch.setattr("rawthink_local.places.drop_free_slots", stuck)
        receipt = await memory.forget(names=["Topf"], sessions=["talk"])
        assert outcomes(receipt)["search index"] == "pending"
        assert outcomes(receipt)["journal"] == "erased"
        assert leaks(tmp_path) == []


async def test_forgetting_is_one_step_that_a_full_disk_undoes(tmp_path, monkeypatch):
    path = tmp_path / "vault" / "rawthink.jsonl"
    async with memory_at(tmp_path) as memory:
        await confide(memory)
        before = path.read_bytes()

        def full(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("rawthink_local.files.write_all", full)
            with pytest.raises(BackendUnavailable, match="disk is full"):
                await memory.forget(names=["Topf"])
        assert path.read_bytes() == before
        assert not list(path.parent.glob(".rawthink.jsonl*"))
        assert len(await everything(memory)) == 4
        await memory.forget(names=["Topf"], sessions=["talk"])
        assert leaks(tmp_path) == []


async def test_the_generation_counts_what_was_forgotten(tmp_path):
    async with memory_at(tmp_path) as memory:
        for count in (1, 2, 3):
            assert memory.provider.opened.store.journal.header().generation == count
            await confide(memory, session=f"talk {count}")
            await memory.forget(names=["Topf"], sessions=[f"talk {count}"])
        assert (await memory.health()).status == "ok"
        assert row(await memory.health(), "journal").status == "ok"


async def test_a_damaged_line_is_judged_by_what_it_shares_with_the_text():
    whole = {b"item-id", SECRET.split("\n", maxsplit=1)[0].encode()}
    chunks = {
        form[i : i + erasure._CHUNK]
        for form in whole
        for i in range(0, len(form) - erasure._CHUNK + 1, erasure._CHUNK)
    }
    first = SECRET.split("\n", maxsplit=1)[0].encode()
    assert erasure._betrays(b'{"id":"item-id"', whole, chunks)
    assert erasure._betrays(b'x","text":"' + first[:3], whole, chunks)
    assert erasure._betrays(b"..." + first[5:40] + b"...", whole, chunks)
    assert not erasure._betrays(b'{"text":"something else entirely"}', whole, chunks)
    assert not erasure._betrays(b'{"text":"', whole, chunks)
