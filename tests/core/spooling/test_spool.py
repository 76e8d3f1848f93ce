"""The spool: a turn that was taken is stored, once and in order, whatever the store and the processes do."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import tracemalloc
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.clock import ManualClock
from rawthink_core.errors import BackendUnavailable, InvalidRequest
from rawthink_core.guard import Guard
from rawthink_core.memory import Memory
from rawthink_core.operations import AfterChat, Forget, RecordReceipt, Scope, parse
from rawthink_core.plugins import hook_manager, hookimpl
from rawthink_core.provider import BaseProvider, Capability, ProviderInfo
from rawthink_core.spooling import files
from rawthink_core.spooling.pacing import Pace, Pacing
from rawthink_core.spooling.spool import Spool, talk_of

if TYPE_CHECKING:
    from rawthink_core.provider import World

FAST = Pace(prompt=0.2, first=0.005, longest=0.02, poll=0.01, closing=0.3)


class Store(BaseProvider):
    """A store that keeps commits by id, in order, and does as ``mood`` says: work, raise, or hang."""

    def __init__(self, place: str = "here") -> None:
        self.info = ProviderInfo("fake", "1", {Capability.FORGET: "erased"}, location=place)
        self.commits: dict[str, AfterChat] = {}
        self.mood: dict[str | None, Any] = {}  # by session; None is for all others
        self.asked: list[str] = []

    async def on_after_chat(self, request: AfterChat) -> RecordReceipt:
        (passage,) = request.passages
        self.asked.append(passage.text)
        mood = self.mood.get(passage.session, self.mood.get(None))
        if mood == "hang":
            await asyncio.Event().wait()
        if isinstance(mood, Exception):
            raise mood
        self.commits.setdefault(request.id, request)
        return RecordReceipt(batch_id=request.id)

    def said(self, session: str | None = None) -> list[str]:
        passages = [passage for each in self.commits.values() for passage in each.passages]
        return [each.text for each in passages if session in (None, each.session)]


DOWN = BackendUnavailable("the store is down")


def turn(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def kept(text: str) -> str:
    return f"[user] {text}\n[me] noted"


async def say(memory: Memory, text: str, session: str = "s") -> str:
    receipt = await memory.after_chat(turn(text), "noted", session=session, message_id=text)
    assert receipt is not None
    return receipt.status


def memory_on(store: Any, state: Path, **more: Any) -> Memory:
    return Memory(store, state=state, **{"pace": FAST, **more})


def folder(state: Path) -> Path:
    (found,) = state.glob("*/spool")
    return found


def lines(state: Path, name: str = "turns.jsonl") -> str:
    file = folder(state) / name
    return file.read_text() if file.exists() else ""


async def until(done: Any, seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not done():  # noqa: ASYNC110 - a store says nothing by itself
            await asyncio.sleep(0.005)


def request(text: str, session: str = "s", space: str = "default") -> AfterChat:
    data = {"id": f"{session}/{text}", "scope": {"space": space}}
    return parse(AfterChat, data | {"passages": [{"text": text, "session": session, "key": text}]})


# --- the common case ----------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_turn_is_stored_at_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    store = Store()
    memory = memory_on(store, tmp_path)
    assert [await say(memory, text) for text in ("one", "two")] == ["stored", "stored"]
    assert store.said() == [kept("one"), kept("two")]
    assert stat.S_IMODE((folder(tmp_path) / "turns.jsonl").stat().st_mode) == 0o600
    assert {stat.S_IMODE(f.stat().st_mode) for f in (folder(tmp_path), folder(tmp_path).parent)} == {0o700}
    await memory.close()
    assert lines(tmp_path) == ""


@pytest.mark.asyncio
async def test_a_turn_is_on_the_disk_before_the_store_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Looking(Store):
        async def on_after_chat(self, request: AfterChat) -> RecordReceipt:
            assert synced
            seen.append(json.loads(lines(tmp_path).splitlines()[-1]))
            return await super().on_after_chat(request)

    seen: list[dict[str, Any]] = []
    synced: list[int] = []
    memory = memory_on(Looking(), tmp_path)
    monkeypatch.setattr(files, "sync", synced.append)
    assert await say(memory, "one") == "stored"
    synced.clear()
    assert await say(memory, "two") == "stored"  # into a file that is there already
    assert (seen[0]["space"], seen[0]["session"], seen[0]["passages"][0]["text"]) == (
        "default",
        "s",
        kept("one"),
    )
    await memory.close()


@pytest.mark.asyncio
async def test_without_a_place_for_it_there_is_no_spool(tmp_path: Path) -> None:
    nowhere = Store(place="")
    for memory in (Memory(nowhere), memory_on(nowhere, tmp_path)):
        assert await say(memory, "one") == "stored"
        nowhere.mood[None] = DOWN
        with pytest.raises(BackendUnavailable):
            await say(memory, "two")
        nowhere.mood.clear()
        assert await memory.flush() == 0
        await memory.close()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - pathlib may not be asked in a coroutine


@pytest.mark.asyncio
async def test_a_spool_that_cannot_be_written_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder belongs")
    memory = memory_on(Store(), tmp_path / "state")
    assert await say(memory, "one") == "stored"
    await memory.close()


@pytest.mark.asyncio
async def test_plugins_are_told_of_each_commit_also_of_a_late_one(tmp_path: Path) -> None:
    class Listening:
        @hookimpl
        def after_commit(self, receipt: RecordReceipt) -> None:
            told.append(receipt.status)

    told: list[str] = []
    store = Store()
    memory = memory_on(store, tmp_path, guard=Guard(hook_manager([Listening()])))
    await say(memory, "one")
    assert told == ["stored"]
    store.mood[None] = DOWN
    assert await say(memory, "two") == "queued"
    store.mood.clear()
    await until(lambda: len(told) == 2)
    await memory.close()


@pytest.mark.asyncio
async def test_many_turns_at_once_are_all_stored_each_in_its_conversation(tmp_path: Path) -> None:
    store = Store()
    memory = memory_on(store, tmp_path, pace=Pace(prompt=30))
    statuses = await asyncio.gather(*(say(memory, f"{n}", f"s{n % 50}") for n in range(200)))
    assert set(statuses) == {"stored"}
    assert all(store.said(f"s{n}") == [kept(f"{n + 50 * m}") for m in range(4)] for n in range(50))
    await memory.close()


# --- a store in trouble -------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "mood", [DOWN, RuntimeError("the text is secret"), "hang"], ids=["down", "bug", "hangs"]
)
async def test_a_turn_waits_for_a_store_in_trouble_and_is_stored_when_it_is_back(
    tmp_path: Path, mood: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store()
    memory = memory_on(store, tmp_path, write_deadline=0.3)
    store.mood[None] = mood
    caplog.set_level("INFO")
    assert [await say(memory, text) for text in ("one", "two")] == ["queued", "queued"]
    assert store.said() == []
    await until(lambda: '"failed"' in lines(tmp_path))
    assert "secret" not in lines(tmp_path)
    store.mood.clear()
    await until(lambda: len(store.said()) == 2)
    assert store.said() == [kept("one"), kept("two")]
    assert "secret" not in caplog.text
    await memory.close()
    assert lines(tmp_path) == ""


@pytest.mark.asyncio
async def test_one_conversation_that_is_stuck_keeps_no_other_waiting(tmp_path: Path) -> None:
    store = Store()
    store.mood["stuck"] = "hang"
    memory = memory_on(store, tmp_path, pace=Pace(prompt=10, first=0.005, poll=0.01, closing=0.1))
    stuck = [asyncio.create_task(say(memory, text, "stuck")) for text in ("one", "two")]
    assert [await say(memory, "one", f"free {n}") for n in range(6)] == ["stored"] * 6
    await memory.close()
    assert store.said("stuck") == []
    for task in stuck:
        task.cancel()


@pytest.mark.asyncio
async def test_a_store_that_is_down_is_not_asked_for_every_turn_and_nobody_waits(tmp_path: Path) -> None:
    store = Store()
    store.mood[None] = DOWN
    memory = memory_on(store, tmp_path, pace=Pace(prompt=5, first=30, closing=0.1))
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert {await say(memory, "one", str(n)) for n in range(20)} == {"queued"}
    assert len(store.asked) == 4  # then it counts as down
    assert loop.time() - started < 4
    store.mood.clear()
    assert await memory.flush() == 0
    assert len(store.said()) == 20
    await memory.close()


@pytest.mark.asyncio
async def test_what_can_never_be_stored_is_set_aside_and_told(tmp_path: Path) -> None:
    store = Store()
    memory = memory_on(store, tmp_path)
    store.mood["bad"] = InvalidRequest("this space is not known")
    with pytest.raises(InvalidRequest, match="not known"):
        await say(memory, "one", "bad")
    assert (
        json.loads(lines(tmp_path, "aside/turns.jsonl").splitlines()[-1])["why"] == "this space is not known"
    )
    store.mood["bad"] = None
    assert await say(memory, "two", "bad") == "stored"  # what came after it goes on
    await memory.close()


@pytest.mark.asyncio
async def test_what_failed_too_often_is_set_aside_and_can_be_tried_again(
    tmp_path: Path, world: World
) -> None:
    class Flaky(ReferenceProvider):
        down = True

        async def on_after_chat(self, request: AfterChat) -> RecordReceipt:
            if self.down:
                raise DOWN
            return await super().on_after_chat(request)

    store = Flaky(world)
    memory = memory_on(
        store, tmp_path / "state", pace=Pace(prompt=0.2, first=0.001, longest=0.001, tries=3, poll=0.01)
    )
    await memory.open()
    assert await say(memory, "one") == "queued"
    await until(lambda: "after 3 tries: the store is down" in lines(tmp_path / "state", "aside/turns.jsonl"))
    health = await memory.health()
    (row,) = [row for row in health.checks if row.name == "spool" and row.status == "warn"]
    assert (health.status, row.fix) == ("degraded", "rawthink doctor --fix")
    assert "aside/turns.jsonl" in row.detail
    assert "the store is down" in row.detail
    store.down = False
    receipt = await memory.maintain(repair=True)
    assert receipt.done == ("tried the spool again: 1 stored, 0 waiting, 0 set aside",)
    assert [item.text for item in (await memory.scan()).items] == [kept("one")]  # type: ignore[union-attr] # a passage
    assert (await memory.health()).status == "ok"
    await memory.close()


def test_tries_wait_longer_and_longer_and_a_store_that_is_back_frees_all() -> None:
    now = 0.0
    pacing = Pacing(Pace(first=1, longest=8), lambda: now)
    waits = []
    for tries in range(1, 6):
        pacing.start_afresh()
        pacing.failed("a", tries)
        waits.append(next(n for n in range(100) if (now := now + 1) and pacing.may("a")) + 1)
    assert waits == [1, 2, 4, 8, 8]
    pacing.start_afresh()
    for talk in "abcd":
        assert not pacing.paused
        pacing.failed(talk, 9)
    assert (pacing.paused, pacing.may("a")) == (True, False)
    pacing.succeeded("b")
    assert (pacing.paused, pacing.may("a")) == (False, True)


# --- ends and beginnings ------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_closing_delivers_what_it_can_and_the_next_opening_the_rest(tmp_path: Path) -> None:
    store = Store()
    store.mood[None] = DOWN
    memory = memory_on(store, tmp_path, pace=Pace(first=60, closing=0.3))
    assert [await say(memory, text) for text in ("one", "two")] == ["queued", "queued"]
    store.mood.clear()
    await memory.close()
    assert store.said() == [kept("one"), kept("two")]
    store.mood[None] = "hang"
    memory = memory_on(store, tmp_path, pace=Pace(prompt=0.01, closing=0.05))
    assert await say(memory, "three") == "queued"
    await memory.close()
    assert kept("three") not in store.said()
    store.mood.clear()
    memory = memory_on(store, tmp_path)
    await memory.open()
    await until(lambda: len(store.said()) == 3)
    await memory.close()


@pytest.mark.asyncio
async def test_a_flush_waits_for_calls_that_hang_and_tries_those_turns_once_more(tmp_path: Path) -> None:
    store = Store()
    store.mood[None] = "hang"
    memory = memory_on(store, tmp_path, pace=Pace(prompt=0.01, first=60, closing=0.1), write_deadline=0.3)
    assert [await say(memory, "one", session) for session in "ab"] == ["queued", "queued"]
    store.mood.clear()
    assert await memory.flush(20) == 0
    assert sorted(store.asked) == [kept("one")] * 4
    await memory.close()


@pytest.mark.asyncio
async def test_a_turn_is_kept_though_nobody_waits_for_the_receipt(tmp_path: Path) -> None:
    store = Store()
    memory = memory_on(store, tmp_path)
    task = asyncio.create_task(say(memory, "one"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: store.said() == [kept("one")])
    await memory.close()


@pytest.mark.asyncio
async def test_a_torn_last_line_is_set_aside_and_nothing_else_is_lost(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append((request("one"), "s"))
    whole = (tmp_path / "turns.jsonl").read_bytes()
    with (tmp_path / "turns.jsonl").open("ab") as file:
        file.write(b'{"v":1,"turn":"half')
    later = Spool(tmp_path)
    assert later.waits() == 1  # looking mends nothing
    later.append((request("two"), "s"))
    (piece,) = (tmp_path / "aside").iterdir()
    assert piece.read_bytes() == b'{"v":1,"turn":"half'
    assert (tmp_path / "turns.jsonl").read_bytes().startswith(whole)
    assert drained(later) == ["one", "two"]
    assert later.report().damaged == (str(piece),)


def drained(spool: Spool) -> list[str]:
    texts = []
    for talk in spool.talks():
        while (head := spool.head(talk)) is not None:
            texts.append(head.request.passages[0].text)
            assert spool.delivered(head)
    return texts


@pytest.mark.parametrize("line", [0, 2])
def test_a_damaged_line_is_set_aside_and_the_others_stand(tmp_path: Path, line: int) -> None:
    spool = Spool(tmp_path)
    for text in ("one", "two", "three"):
        spool.append((request(text), "s"))
    found = (tmp_path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    found[line] = found[line].replace(b'"v":1', b'"v":7')
    (tmp_path / "turns.jsonl").write_bytes(b"".join(found))
    for _ in range(2):
        again = Spool(tmp_path)
        assert len(again.talks()) == 1
        assert again.waits() == (3 if line == 0 else 2)
    assert [piece.read_bytes() for piece in (tmp_path / "aside").iterdir()] == [found[line]]
    assert drained(again) == (["one", "two", "three"] if line == 0 else ["one", "three"])


def test_a_turn_that_this_version_cannot_read_is_set_aside(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append((request("one"), "s"))
    spool._file.add(
        [{"v": 2, "turn": "b", "talk": talk_of("default", "s"), "space": "default"}], durable=True
    )
    spool.append((request("two"), "s"))
    assert drained(spool) == ["one", "two"]
    assert spool.report().aside == 1


# --- forgetting ---------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("what", "left"),
    [
        ({"sessions": ["a"]}, [kept("b one"), kept("other")]),
        ({"everything": True}, [kept("other")]),
        ({"ids": ["the batch"]}, [kept("a two"), kept("b one"), kept("other")]),
        ({"ids": ["the passage"]}, [kept("a two"), kept("b one"), kept("other")]),
    ],
    ids=["session", "space", "batch", "passage"],
)
async def test_what_is_forgotten_while_it_waits_is_never_written(
    tmp_path: Path, world: World, what: dict[str, Any], left: list[str]
) -> None:
    class Flaky(ReferenceProvider):
        down = True

        async def on_after_chat(self, request: AfterChat) -> RecordReceipt:
            if self.down:
                raise DOWN
            return await super().on_after_chat(request)

    store = Flaky(world)
    memory = memory_on(store, tmp_path / "state", pace=Pace(first=60))
    await memory.open()
    other = memory.in_space("other")
    for text, session in (("a one", "a"), ("a two", "a"), ("b one", "b")):
        receipt = await memory.after_chat(turn(text), "noted", session=session, message_id=text)
        assert receipt is not None
        if text == "a one":
            batch = receipt.batch_id
    assert await say(other, "other", "a") == "queued"
    if "ids" in what:
        from rawthink_core.identity import passage_id

        passages = [passage_id("default", "a", "a one", n) for n in (0, 1)]
        what = {"ids": [batch] if what["ids"] == ["the batch"] else passages}
    receipt = await memory.forget(**what)
    (place,) = [place for place in receipt.places if place.place == "spool"]
    assert (place.outcome, "waited" in place.note) == ("erased", True)
    assert set(receipt.missing) < {*what.get("ids", ()), "-"}
    assert "a one" not in lines(tmp_path / "state")
    store.down = False
    assert await memory.flush() == 0
    texts = [item.text for each in (memory, other) for item in (await each.scan()).items]  # type: ignore[union-attr] # passages
    assert texts == left
    await memory.close()


@pytest.mark.asyncio
async def test_what_is_forgotten_on_its_way_by_another_process_is_taken_back(
    tmp_path: Path, world: World
) -> None:
    class Slow(ReferenceProvider):
        async def on_after_chat(self, request: AfterChat) -> RecordReceipt:
            begun.set()
            await go_on.wait()
            return await super().on_after_chat(request)

    begun, go_on = asyncio.Event(), asyncio.Event()
    memory = memory_on(Slow(world), tmp_path)
    await memory.open()
    task = asyncio.create_task(say(memory, "one"))
    await begun.wait()
    Spool(folder(tmp_path)).forget(
        Forget(scope=Scope(space="default"), sessions=("s",))
    )  # as another process would
    go_on.set()
    await task
    assert await memory.flush() == 0
    assert (await memory.scan()).items == ()
    await memory.close()


def test_forgetting_also_covers_what_was_set_aside_and_what_was_delivered(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for text in ("delivered", "aside", "waiting"):
        spool.append((request(text), "s"))
    spool.append((request("kept", "t"), "t"))
    talk = talk_of("default", "s")
    spool.delivered(spool.head(talk))  # type: ignore[arg-type] # there is one
    spool.put_aside(spool.head(talk), "no")  # type: ignore[arg-type] # there is one
    dropped = spool.forget(Forget(scope=Scope(space="default"), sessions=("s",)))
    assert (dropped.turns, dropped.named, dropped.unreadable) == (2, {"s"}, False)
    left = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert (b'"kept"' in left, b'"waiting"' in left, b'"aside"' in left, b'"delivered"' in left) == (
        True,
        *[False] * 3,
    )


def test_what_a_crash_cut_off_while_a_turn_was_set_aside_spoils_no_other(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    talk = talk_of("default", "s")
    for text in ("one", "two"):
        spool.append((request(text), "s"))
        spool.put_aside(spool.head(talk), "no")  # type: ignore[arg-type] # there is one
        with spool.set_aside.open("ab") as file:
            file.write(b'{"v":1,"turn":"half of ' + text.encode())
    assert spool.report().aside == 2
    assert spool.put_back() == 2
    assert drained(spool) == ["one", "two"]
    assert {Path(piece).read_bytes().strip() for piece in spool.report().damaged} == {
        b'{"v":1,"turn":"half of one', b'{"v":1,"turn":"half of two',
    }  # fmt: skip
    assert spool.forget(Forget(scope=Scope(space="default"), everything=True)).unreadable


# --- size ---------------------------------------------------------------------------------------


def test_many_turns_wait_in_little_memory_and_the_file_shrinks_as_they_go(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append((request("first"), "s"))
    body = spool._body(spool._waiting[talk_of("default", "s")][0])
    said = [{"text": "x" * 1_500, "session": "s"}]
    many = ({**body, "turn": str(n), "talk": f"t{n % 200}", "passages": said} for n in range(10_000))
    spool._file.add(many, durable=False)
    tracemalloc.start()
    late = Spool(tmp_path)
    assert late.waits() == 10_001
    assert tracemalloc.get_traced_memory()[1] < 1_600_000  # 160 bytes a turn
    tracemalloc.stop()
    file = tmp_path / "turns.jsonl"
    size = file.stat().st_size
    others = [(talk, place) for talk, each in late._waiting.items() for place in each if talk.startswith("t")]
    late._file.add(({"v": 1, "done": place, "talk": talk} for talk, place in others), durable=False)
    assert drained(late) == ["first"]  # its delivery finds that most of the file is of no use
    assert not file.exists() or file.stat().st_size < size / 100


def test_tries_and_marks_outlive_a_file_that_is_written_anew(tmp_path: Path) -> None:
    clock = ManualClock()
    spool = Spool(tmp_path, clock)
    for text in ("gone", "one", "two"):
        spool.append((request(text), "s"))
    talk = talk_of("default", "s")
    gone = spool.head(talk)
    assert gone is not None
    spool.forget(parse(Forget, {"scope": {"space": "default"}, "ids": ["s/gone"]}))
    head = spool.head(talk)
    assert head is not None
    assert [spool.failed(head, "no") for _ in range(2)] == [1, 2]
    rewrite(Spool(tmp_path, clock))
    assert spool.failed(head, "no") == 3  # found again, though it stands elsewhere now
    assert not spool.delivered(gone)
    clock.tick(timedelta(hours=2))
    rewrite(Spool(tmp_path, clock))
    assert "forgotten" not in (tmp_path / "turns.jsonl").read_text()
    assert drained(spool) == ["one", "two"]


# --- any interleaving ---------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from("abc")),
        st.tuples(st.just("mood"), st.sampled_from("abc"), st.sampled_from(["down", "hang", "fine"])),
        st.tuples(st.just("crash"), st.booleans()),
        st.tuples(st.just("close")),
        st.tuples(st.just("flush")),
        st.tuples(st.just("rewrite")),
    ),
    max_size=25,
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_each_turn_is_stored_once_and_in_order_whatever_happens(steps: list[tuple[Any, ...]]) -> None:
    state = Path(tempfile.mkdtemp())
    try:
        asyncio.run(story(state, steps))
    finally:
        shutil.rmtree(state)


async def story(state: Path, steps: list[tuple[Any, ...]]) -> None:
    store = Store()
    pace = Pace(prompt=0.02, first=0.001, longest=0.002, tries=10_000, poll=0.002, closing=0.05)
    memory = memory_on(store, state, pace=pace, write_deadline=0.05)
    await memory.open()
    expected: defaultdict[str, list[str]] = defaultdict(list)
    for number, step in enumerate(steps):
        match step:
            case ("say", session):
                await say(memory, str(number), session)
                expected[session].append(kept(str(number)))
            case ("mood", session, mood):
                store.mood[session] = {"down": DOWN, "hang": "hang", "fine": None}[mood]
            case ("close",):
                await memory.close()
                memory = memory_on(store, state, pace=pace, write_deadline=0.05)
                await memory.open()
            case ("crash", torn):  # nothing is closed, and another process begins
                await crashed(memory)
                if torn and (file := folder_or_none(state)) is not None and file.exists():
                    with file.open("ab") as end:
                        end.write(b'{"v":1,"turn":"torn')
                memory = memory_on(store, state, pace=pace, write_deadline=0.05)
                await memory.open()
            case ("flush",):
                await memory.flush(0.02)
            case ("rewrite",) if (file := folder_or_none(state)) is not None and file.exists():
                rewrite(Spool(file.parent))
    store.mood.clear()
    assert await memory.flush(10) == 0
    await memory.close()
    assert {session: store.said(session) for session in expected} == expected
    assert len(store.commits) == sum(map(len, expected.values()))


def rewrite(spool: Spool) -> None:
    """Write the file anew as another process may do at any time."""
    with spool._file.held():
        spool._rewrite()


def folder_or_none(state: Path) -> Path | None:
    return next((place / "turns.jsonl" for place in state.glob("*/spool")), None)


async def crashed(memory: Memory) -> None:
    """End whatever a memory does, as a kill would, and its locks with it."""
    delivery = memory.post.running()
    if delivery is not None:
        tasks = {task for task in (*delivery._working.values(), delivery._draining) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        delivery._thread.shutdown(wait=True)


# --- other processes ----------------------------------------------------------------------------

CHILD = """
import asyncio, sys, pathlib, os
from rawthink_core.memory import Memory
from rawthink_core.spooling.pacing import Pace
from rawthink_core.operations import RecordReceipt
from rawthink_core.provider import BaseProvider, ProviderInfo

state, log, name, turns, mood = sys.argv[1:]
class Store(BaseProvider):
    info = ProviderInfo("fake", "1", {}, location="here")
    async def on_after_chat(self, request):
        if mood == "hang":
            print("asked", flush=True)
            await asyncio.Event().wait()
        if mood == "flaky" and hash(os.urandom(1)) % 3 == 0:
            raise OSError("now and then")
        with open(log, "ab", buffering=0) as file:
            file.write(f"{request.id} {request.passages[0].session} {request.passages[0].key}\\n".encode())
        return RecordReceipt(batch_id=request.id)

async def main():
    pace = Pace(first=0.002, longest=0.01, poll=0.01, tries=1000, closing=20)
    memory = Memory(Store(), state=pathlib.Path(state), pace=pace)
    await memory.open()
    for n in range(int(turns)):
        for session in ("shared", name):
            key = f"{name}-{n}"
            await memory.after_chat([{"role": "user", "content": key}], "noted", session=session, message_id=key)
    while await memory.flush(30):  # what fails now and then is left to the next
        pass
    await memory.close()
    print("done", flush=True)
asyncio.run(main())
"""


def child(state: Path, name: str, turns: int, mood: str) -> subprocess.Popen[str]:
    arguments = [str(state / "state"), str(state / "log"), name, str(turns), mood]
    return subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, text=True)


def committed(state: Path) -> dict[str, list[str]]:
    """Return the keys of each session in the order of their first commit."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for line in (state / "log").read_text().splitlines():
        _, session, key = line.split()
        found[session][key] = None
    return {session: list(keys) for session, keys in found.items()}


def test_a_process_that_is_killed_between_the_disk_and_the_store_loses_nothing(tmp_path: Path) -> None:
    with child(tmp_path, "first", 1, "hang") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        os.kill(process.pid, signal.SIGKILL)
    assert not (tmp_path / "log").exists()
    with child(tmp_path, "second", 1, "fine") as process:
        assert process.communicate(timeout=60)[0] == "done\n"
    assert committed(tmp_path)["shared"] == ["first-0", "second-0"]


def test_two_processes_share_a_spool(tmp_path: Path) -> None:
    with child(tmp_path, "a", 8, "flaky") as one, child(tmp_path, "b", 8, "flaky") as two:
        assert {process.communicate(timeout=120)[0] for process in (one, two)} == {"done\n"}
    found = committed(tmp_path)
    expected = {name: [f"{name}-{n}" for n in range(8)] for name in "ab"}
    assert {name: found[name] for name in "ab"} == expected
    assert {name: [key for key in found["shared"] if key.startswith(name)] for name in "ab"} == expected
