"""Rules 13 and 17, as far as a provider holds them: recall, capture, and no current session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import equal, true
from rawthink_core.model import Passage
from rawthink_core.operations import AfterChat, BeforeChat, parse

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench
    from rawthink_conformance.talking import Space
    from rawthink_core.operations import RecordReceipt

BLOCK = "<memory-context>\nRelevant memory context (use when helpful):\n- [2025-01-15] x\n</memory-context>"


async def _after(space: Space, turn: str, **passage: object) -> RecordReceipt:
    request = {"id": turn, "scope": space.scope, "passages": [{"session": "talk", **passage}]}
    return await space.provider.on_after_chat(parse(AfterChat, request))


async def _before(space: Space, text: str, limit: int = 8) -> list[str]:
    request = {"scope": space.scope, "text": text, "limit": limit}
    return [hit.text for hit in (await space.provider.on_before_chat(parse(BeforeChat, request))).items]


@check("chat.captures")
async def a_turn_is_stored(bench: Bench) -> None:
    """`on_after_chat` stores its passages as they are, text about the tag included; a retry adds nothing."""
    space = bench.space()
    texts = (
        "[张三] 我最近在用 Rust 重写后端\n[我] 很好的选择",
        f"[user] what does {BLOCK} mean?\n[me] a block of memories",
    )
    for number, text in enumerate(texts):
        receipt = await _after(space, f"turn-{number}", text=text, key=f"m{number}", speaker="张三")
        equal(receipt.status, "stored", "the status of the receipt")
        again = await _after(space, f"turn-{number}", text=text, key=f"m{number}", speaker="张三")
        equal(again, receipt, "the receipt of a retry")
    await bench.reopen()
    passages = [item for item in await space.scan() if isinstance(item, Passage)]
    seen = [(passage.text, passage.speaker, passage.ordinal) for passage in passages]
    equal(seen, [(text, "张三", number) for number, text in enumerate(texts)], "passages")
    equal((await _before(space, "谁在用 Rust"))[:1], [texts[0]], "the recall of the turn")


@check("chat.relevant")
async def recall_is_relevant(bench: Bench) -> None:
    """`on_before_chat` returns what shares a meaningful word with the text, at most `limit`, or nothing."""
    space = bench.space()
    await space.about("Cache", "the cache of the api is read-through")
    for number in range(12):
        await space.turn(f"talk {number}", f"we spoke about herons, part {number}")
    recalled = await _before(space, "what did we say about the cache?")
    true("the cache of the api is read-through" in recalled, f"the answer must be recalled, not {recalled}")
    true(not any("heron" in text for text in recalled), f"nothing else must be recalled, not {recalled}")
    equal(len(await _before(space, "herons", limit=5)), 5, "how many are recalled")
    for idle in ("ok", "what was it that we had", "quantum chromodynamics", "…", "你好"):
        equal(await _before(space, idle), [], f"what is recalled for {idle!r}")
    await space.about("Parser", "getUserName is slow", "c++ is fast")
    equal(
        await _before(space, "who knows the user name?"), ["getUserName is slow"], "a part of an identifier"
    )


@check("session.none")
async def conversations_do_not_touch(bench: Bench) -> None:
    """Two conversations interleaved on one instance are what they are one after the other."""
    together, apart = bench.spaces("together", "apart")
    lines = {"one": [f"heron {n}" for n in range(5)], "two": [f"stork {n}" for n in range(5)]}

    async def converse(space: Space, session: str) -> None:
        for number, line in enumerate(lines[session]):
            await space.record(passages=[{"session": session, "key": f"m{number}", "text": line}])
            await asyncio.sleep(0)
            await space.search(line)

    await asyncio.gather(converse(together, "one"), converse(together, "two"))
    await converse(apart, "one")
    await converse(apart, "two")
    for session, said in lines.items():
        seen = await _places(together, session)
        equal(seen, await _places(apart, session), f"places and texts of session {session!r}")
        equal(seen, list(enumerate(said)), f"the whole of session {session!r}")


async def _places(space: Space, session: str) -> list[tuple[int, str]]:
    items = await space.scan(sessions=[session])
    return sorted((item.ordinal, item.text) for item in items if isinstance(item, Passage))
