"""Does a chat get told what it needs, and nothing else? ``python bench/chat_recall.py [--embedder offline]``.

The facts of `chat_recall.toml` are told to an assistant, one a session, among ``--filler`` turns of everyday
talk. Then somebody asks about each fact in other words, and types what has nothing to do with any. Printed
for each language: how many unrelated messages got a block (required: 10 % at most), how many related ones
did (95 % at least), and in how many of these the right memory was in it. All messages were seen when the
rules were chosen; the first 130 of the related ones before, the other 70 after.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speed import machine

from rawthink_core.embedding import NoEmbedder
from rawthink_core.memory import Memory
from rawthink_core.plugins import load_embedder
from rawthink_core.provider import World
from rawthink_local.plugin import make
from rawthink_local.settings import LocalSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).with_suffix(".toml")
LANGUAGES = ("en", "zh", "tr")
WHO = ("Sam", "Nora", "Pavel", "Lea", "Victor", "Ines", "Otto", "Ruth", "Hugo", "Alba")
DID = ("met", "called", "helped", "visited", "wrote to", "waited for", "argued with", "cooked for", "thanked")
THING = (
    "report",
    "kitchen",
    "window",
    "bicycle",
    "ticket",
    "meeting",
    "garden",
    "laptop",
    "invoice",
    "train",
)
THING += ("shelf", "printer", "picture", "contract", "lamp", "coat", "budget", "bridge", "museum", "market")
THING += ("calendar", "phone", "keyboard", "sofa", "river", "letter", "school", "hotel", "camera", "ladder")
HOW = ("was late", "looked good", "cost too much", "took all day", "broke again", "went well", "needs a week")
ZH_WHO, ZH_DID = ("小明", "老周", "阿芳", "表哥"), ("修了", "买了", "卖了", "看了", "忘了")
ZH_THING = ("打印机", "窗户", "自行车", "车票", "相机", "地毯", "书架", "冰箱")
TR_WHO, TR_DID = ("Emre", "Zeynep", "Murat", "Elif"), ("bozuldu", "gecikti", "pahalıydı")
TR_THING = ("yazıcı", "pencere", "bisiklet", "bilet", "kamera", "halı", "raf", "toplantı")
COLUMNS = ("unrelated", "related", "right")


def filler(count: int) -> Iterator[str]:
    """Yield everyday sentences, the same each time."""
    pick = random.Random(7).choice
    for number in range(count):
        match number % 5:
            case 3:
                yield f"昨天{pick(ZH_WHO)}{pick(ZH_DID)}{pick(ZH_THING)}"
            case 4:
                yield f"{pick(TR_WHO)} ile konuştuk, {pick(TR_THING)} yine {pick(TR_DID)}"
            case _:
                then = f"then the {pick(THING)} {pick(HOW)}"
                yield f"Yesterday I {pick(DID)} {pick(WHO)} because the {pick(THING)} {pick(HOW)}, {then}"


async def main() -> None:
    """Fill a store, ask, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--embedder", default="none")
    parser.add_argument("--filler", type=int, nargs="*", default=[0, 2_000])
    chosen = parser.parse_args()
    print(machine())
    data = tomllib.loads(DATA.read_text("utf-8"))
    for count in chosen.filler:
        with tempfile.TemporaryDirectory() as folder:
            await measure(Path(folder), data, count, chosen.embedder)


async def measure(folder: Path, data: dict[str, Any], count: int, name: str) -> None:
    """Print the rates in a store with so many turns of filler."""
    embedder: Any = NoEmbedder()
    if name != "none":
        plugin = load_embedder(name)
        embedder = plugin.make(plugin.settings())
    world = World(
        path=folder / "vault",
        cache=folder / "cache",
        state=folder / "state",
        timezone="UTC",
        embedder=embedder,
    )
    memory = Memory(make(LocalSettings(), world))
    await memory.open()
    facts = [(language, one["fact"], one["asks"]) for language in LANGUAGES for one in data[language]]
    told = [(f"fact-{n}", fact) for n, (_, fact, _) in enumerate(facts)]
    told += [(f"talk-{n // 10}", text) for n, text in enumerate(filler(count))]
    random.Random(3).shuffle(told)
    passages = [{"text": f"[user] {text}\n[me] Noted.", "session": s, "speaker": "user"} for s, text in told]
    for start in range(0, len(passages), 500):
        await memory.record(passages=passages[start : start + 500])
    await settled(memory)
    print(f"\nembedder {name}, {len(facts)} facts among {count:,} other turns")
    rows: dict[str, dict[str, list[bool]]] = {name: {key: [] for key in COLUMNS} for name in LANGUAGES}
    for language, fact, asks in facts:
        for ask in asks:
            block = await block_of(memory, ask)
            rows[language]["related"].append(bool(block))
            rows[language]["right"].append(fact in block)
    for language in LANGUAGES:
        for text in data["unrelated"][language]:
            rows[language]["unrelated"].append(bool(await block_of(memory, text)))
    everything = {key: [flag for row in rows.values() for flag in row[key]] for key in COLUMNS}
    for label, row in [*rows.items(), ("all", everything)]:
        print(f"  {label:<4}" + "".join(f"   {key} {share(flags)}" for key, flags in row.items()), flush=True)
    await memory.close()


async def settled(memory: Memory) -> None:
    """Wait until nothing waits for its vector."""
    while (health := await memory.health()).pending_embeddings or (await memory.search("settle")).degraded:
        await asyncio.sleep(0.2)
        if health.status == "down":
            return


async def block_of(memory: Memory, text: str) -> str:
    """Return the block that a message gets."""
    return (await memory.before_chat([{"role": "user", "content": text}])).text


def share(flags: list[bool]) -> str:
    """Return a share in per cent, and of how many."""
    return f"{100 * sum(flags) / len(flags):5.1f} % of {len(flags)}"


if __name__ == "__main__":
    asyncio.run(main())
