"""A copy has everything, goes on where it stopped, and says before it writes what can't be held."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rawthink_conformance.reference import ReferenceProvider
from rawthink_conformance.toys import ToyEmbedder
from rawthink_core.clock import CountingIds, ManualClock
from rawthink_core.commits import encode
from rawthink_core.errors import BackendUnavailable, InvalidRequest, UnsupportedOperation
from rawthink_core.memory import Memory
from rawthink_core.moving import CopyReport, copy, survey
from rawthink_core.provider import Capability, World

if TYPE_CHECKING:
    from pathlib import Path


async def opened(path: Path, space: str = "team", **changes: Any) -> Memory:
    world = World(path=path, clock=ManualClock(), ids=CountingIds(path.name), timezone="UTC", **changes)
    provider = ReferenceProvider(world)
    await provider.open()
    return Memory(provider, space=space, ids=world.ids)


async def lived_in(memory: Memory) -> None:
    await memory.record_decision(
        name="cache",
        domain="software",
        decided="read-through",
        because="fast",
        rejected=["write-through — slow"],
    )
    await memory.revise(
        [{"entity": "cache", "text": "fast"}], successor={"text": "fast enough"}, reason="measured"
    )
    await memory.record(
        passages=[{"session": "s1", "key": "m1", "text": "猫 İstanbul\nsecond", "speaker": "张三"}]
    )
    for number in range(3):
        await memory.record(passages=[{"session": "s1", "text": f"turn {number}"}])


async def copied(source: Memory, target: Memory, progress: Any = None) -> CopyReport:
    return await copy(source, target, await survey(source, target.info), progress)


async def exported(memory: Memory) -> list[bytes]:
    return [encode(commit) async for commit in memory.export()]


@pytest.mark.asyncio
async def test_a_copy_and_its_copy_back_are_the_same_bytes(tmp_path):
    one, two, three = [await opened(tmp_path / name) for name in ("one", "two", "three")]
    await lived_in(one)
    seen: list[int] = []
    report = await copied(one, two, seen.append)
    assert (report.restored, report.skipped) == (len(await exported(one)), 0)
    assert seen[-1] == report.restored
    await copied(two, three)
    assert await exported(three) == await exported(two) == await exported(one)


@pytest.mark.asyncio
async def test_a_copy_that_was_cut_short_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("rawthink_core.moving._COMMITS_AT_ONCE", 2)
    one, two = await opened(tmp_path / "one"), await opened(tmp_path / "two")
    await lived_in(one)
    whole = two.provider.restore
    calls = 0

    async def fails(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise BackendUnavailable("gone away")
        return await whole(*args)

    monkeypatch.setattr(two.provider, "restore", fails)
    with pytest.raises(BackendUnavailable):
        await copied(one, two)
    assert 0 < len(await exported(two)) < len(await exported(one))
    report = await copied(one, two)
    assert report.skipped == 2
    assert await exported(two) == await exported(one)


class Small(ReferenceProvider):
    """Holds short texts only."""

    def _settle(self, zone: str) -> None:
        super()._settle(zone)
        self.info = replace(
            self.info, name="small", capabilities={**self.info.capabilities, Capability.MAX_TEXT: "20"}
        )


@pytest.mark.asyncio
async def test_what_can_not_be_held_is_known_before_and_can_be_left_out(tmp_path):
    one, two = await opened(tmp_path / "one"), await opened(tmp_path / "two")
    await lived_in(one)
    await one.record(passages=[{"session": "s1", "key": "long", "text": "x" * 21}])
    await one.record(passages=[{"session": "s1", "key": "long", "text": "y"}])
    small = Small(World(path=tmp_path / "small", clock=ManualClock()))
    found = await survey(one, small.info)
    assert [(o.kind, o.text, o.why) for o in found.obstacles] == [
        ("passage", "x" * 21, "21 characters; small holds 20 at most")
    ]
    assert found.items == {"entity": 1, "observation": 4, "passage": 6}
    report = await copy(one, two, found)
    assert report.left_out == 1
    missing = (await two.get(found.obstacles[0].id)).missing
    assert missing == (found.obstacles[0].id,)
    ours = (await two.scan(items=["passage"])).items
    assert [item.text for item in ours] == [item.text for item in (await one.scan(items=["passage"])).items]
    assert all(item.supersedes == () for item in ours)


@pytest.mark.asyncio
async def test_vectors_go_along_where_the_models_agree(tmp_path):
    mine, theirs = ToyEmbedder(), ToyEmbedder()
    one, two = await opened(tmp_path / "one", embedder=mine), await opened(tmp_path / "two", embedder=theirs)
    await lived_in(one)
    await one.revise([{"entity": "cache"}], fields={"name": "store"}, reason="clearer")
    await one.search("anything")
    report = await copied(one, two)
    assert report.vectors > 0
    await two.search("anything")
    assert theirs.embedded == 0
    three = await opened(tmp_path / "three", embedder=ToyEmbedder("another"))
    await copied(one, three)
    await three.search("anything")
    assert three.provider._world.embedder.embedded > 0


@pytest.mark.asyncio
async def test_spaces_stay_what_they_are(tmp_path):
    one, two = await opened(tmp_path / "one"), await opened(tmp_path / "two", space="other")
    await lived_in(one)
    with pytest.raises(InvalidRequest, match="keeps its space"):
        await copied(one, two)


@pytest.mark.asyncio
async def test_a_backend_that_can_not_export_or_restore_says_so(tmp_path):
    one, two = await opened(tmp_path / "one"), await opened(tmp_path / "two")
    for info, verb in ((one, "export"), (two, "restore")):
        able = info.info.capabilities
        lacking = {name: grade for name, grade in able.items() if name != verb}
        provider = info.provider
        provider.info = replace(info.info, capabilities=lacking)
        with pytest.raises(UnsupportedOperation, match=verb):
            await survey(one, two.info)
        provider.info = replace(info.info, capabilities=able)
