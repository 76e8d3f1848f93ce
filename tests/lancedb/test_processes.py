"""Eight processes on one store: nothing is lost or doubled, and of racing revisions one wins."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rawthink_core.errors import AlreadyRevised
from rawthink_core.memory import Memory
from rawthink_lancedb.provider import LanceProvider
from rawthink_lancedb.settings import LanceSettings

from .house import EVERY, SPACE, memory_at, world_at

WRITERS, WRITES, BELIEFS = 8, 3, 2
HERE = Path(__file__)
ROOT = HERE.parents[2]


async def write(root, name, settings):
    """Write what nobody else writes, what everybody writes, and revise what everybody revises."""
    memory = Memory(LanceProvider(settings, world_at(root)), space=SPACE)
    await memory.provider.open()
    ids, won = [], []
    for number in range(WRITES):
        for said in (f"{name} {number}", f"shared {number}"):
            receipt = await memory.record(
                entities=[{"name": f"entity {said}", "entity_type": "thing", "domain": "software"}],
                observations=[{"entity": f"entity {said}", "text": f"what is said of {said}"}],
            )
            ids += receipt.ids("observation")
    believed = (await memory.graph(names=("Belief",), statuses=EVERY)).observations
    beliefs = {said.text: said.id for said in believed}
    for number in range(BELIEFS):
        target = {"id": beliefs[f"belief {number}"]}
        with suppress(AlreadyRevised):  # by whoever came first
            await memory.revise([target], successor={"text": f"{number} as {name} has it"})
            won.append(number)
    await memory.close()
    return {"ids": ids, "won": won}


async def prepare(memory):
    await memory.record(
        entities=[{"name": "Belief", "entity_type": "thing", "domain": "software"}],
        observations=[{"entity": "Belief", "text": f"belief {number}"} for number in range(BELIEFS)],
    )


def together(root, settings):
    """Let eight processes write at once; return what each was told."""
    environ = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT, ROOT / "providers", ROOT / "conformance_tests"]))
    }
    script = (
        "import asyncio, importlib, json, sys; sys.path.insert(0, sys.argv[1]);"
        "import tests.lancedb.test_processes as t;"
        "s = t.LanceSettings(**json.loads(sys.argv[4]));"
        "print(json.dumps(asyncio.run(t.write(t.Path(sys.argv[2]), sys.argv[3], s))))"
    )
    command = [sys.executable, "-c", script, str(ROOT), str(root)]
    given = json.dumps(settings.model_dump(mode="json"))
    children = [
        subprocess.Popen([*command, f"writer {n}", given], stdout=subprocess.PIPE, text=True, env=environ)
        for n in range(WRITERS)
    ]
    told = []
    for child in children:
        out, _ = child.communicate(timeout=240)
        assert child.returncode == 0, "no error reaches the caller"
        told.append(json.loads(out))
    return told


async def check(memory, told):
    items, cursor = [], None
    while True:
        page = await memory.scan(items=("observation",), statuses=EVERY, limit=100, cursor=cursor)
        items += page.items
        if (cursor := page.cursor) is None:
            break
    ids = [item.id for item in items]
    assert len(ids) == len(set(ids)), "twins"
    assert {i for each in told for i in each["ids"]} <= set(ids), "lost"
    texts = [item.text for item in items if item.text.startswith("what")]
    assert len(texts) == len(set(texts)) == WRITERS * WRITES + WRITES
    wins = [number for each in told for number in each["won"]]
    assert sorted(wins) == list(range(BELIEFS)), "one winner each"
    heirs = [item for item in items if "has it" in item.text]
    assert sorted(int(heir.text[0]) for heir in heirs) == list(range(BELIEFS)), "one successor each"
    times = sorted(item.recorded_at for item in items if item.text.startswith("what"))
    assert len(set(times)) == len(times), "no two commits at one time"


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_nothing_is_lost_nothing_doubled_and_one_revision_wins(tmp_path, place, request):
    settings = LanceSettings()
    if place == "bucket":
        server = request.getfixturevalue("server")
        settings = server.settings(server.bucket("together"), tmp_path, lock_seconds=60)

    async def begin():
        async with memory_at(tmp_path, settings=settings) as memory:
            await prepare(memory)

    async def end(told):
        async with memory_at(tmp_path, settings=settings) as memory:
            await check(memory, told)

    asyncio.run(begin())
    asyncio.run(end(together(tmp_path, settings)))
