"""The one door: what goes in is checked, hooked, deadlined and confirmed, in one space and no other."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from rawthink_conformance.reference import ReferenceProvider
from rawthink_core.errors import (
    AlreadyRevised,
    BackendTimeout,
    BatchIdReused,
    HookRefused,
    InvalidRequest,
    NotFound,
)
from rawthink_core.guard import Guard
from rawthink_core.memory import Memory
from rawthink_core.model import Provenance
from rawthink_core.operations import Batch, Recall, RecordReceipt, Scope, SearchPage
from rawthink_core.plugins import hook_manager, hookimpl
from rawthink_core.recall import Recaller

if TYPE_CHECKING:
    from rawthink_core.operations import BeforeChat, SearchQuery
    from rawthink_core.provider import World

pytestmark = pytest.mark.asyncio

TOOL = {"name": "Tool", "entity_type": "thing", "domain": "software"}
SAID = {"entity": "Tool", "text": "is red"}


async def texts(memory: Memory, **filters: Any) -> list[str]:
    return [item.text for item in (await memory.scan(items=["observation", "passage"], **filters)).items]  # type: ignore[union-attr] # both have one


async def test_what_is_recorded_is_there(memory: Memory) -> None:
    receipt = await memory.record(entities=[TOOL], observations=[SAID])
    assert receipt.status == "stored"
    assert receipt.recorded_at is not None
    assert [item.outcome for item in receipt.items] == ["created", "created"]
    assert await texts(memory) == ["is red"]


async def test_wrong_arguments_are_all_told_and_nothing_is_written(memory: Memory) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await memory.record(entities=[{"nam": "x"}], observations=["text"], relations=None)  # type: ignore[list-item,arg-type] # what must be refused
    assert {fault.where for fault in refused.value.faults} == {
        "entities.0.name", "entities.0.nam", "observations.0", "relations",
    }  # fmt: skip
    assert await texts(memory) == []


@pytest.mark.parametrize("call", ["search", "scan", "graph", "forget", "maintain"])
async def test_an_unknown_argument_is_a_fault(memory: Memory, call: str) -> None:
    arguments = ("t",) if call == "search" else ()
    with pytest.raises(InvalidRequest, match="is not an argument of this operation"):
        await getattr(memory, call)(*arguments, unknown=1)


@pytest.mark.parametrize("space", ["", None, 5, "\ud800"])
async def test_a_space_is_a_text_that_is_not_empty(memory: Memory, space: Any) -> None:
    with pytest.raises(InvalidRequest, match="space"):
        memory.in_space(space)


async def test_who_said_so_is_written_with_everything(world: World) -> None:
    provider = ReferenceProvider(world)
    await provider.open()
    memory = Memory(provider, provenance=Provenance(host="mcp", client="someone"))
    await memory.record(entities=[TOOL], observations=[SAID])
    await memory.revise([SAID], successor={"text": "is blue"})
    for item in (await memory.scan(statuses=["active", "invalidated"])).items:
        assert item.provenance is not None
        assert (item.provenance.host, item.provenance.client) == ("mcp", "someone")


# --- safe to repeat -----------------------------------------------------------------------------


async def test_a_batch_sent_again_changes_nothing_and_gets_the_first_receipt(memory: Memory) -> None:
    first = await memory.record(entities=[TOOL], observations=[SAID], batch_id="mine")
    assert await memory.record(entities=[TOOL], observations=[SAID], batch_id="mine") == first
    with pytest.raises(BatchIdReused):
        await memory.record(entities=[TOOL], observations=[{**SAID, "text": "is blue"}], batch_id="mine")
    assert await texts(memory) == ["is red"]


async def test_without_an_id_each_batch_gets_one(memory: Memory) -> None:
    ids = {(await memory.record(entities=[TOOL], batch_id=given)).batch_id for given in (None, None, "")}
    assert len(ids) == 3


async def test_revising_twice_tells_who_came_first(memory: Memory) -> None:
    await memory.record(entities=[TOOL], observations=[SAID])
    receipt = await memory.revise([SAID], successor={"text": "is blue"}, reason="repainted")
    assert (
        await memory.revise(
            [SAID], successor={"text": "is blue"}, reason="repainted", batch_id=receipt.batch_id
        )
        == receipt
    )
    with pytest.raises(AlreadyRevised):
        await memory.revise([SAID], successor={"text": "is green"})


# --- one space ----------------------------------------------------------------------------------


async def test_another_space_is_reached_in_one_way_only(memory: Memory) -> None:
    work = memory.in_space("work")
    (entity, said) = (await memory.record(entities=[TOOL], observations=[SAID])).ids()
    assert (await work.get(entity, said, names=["Tool"])).missing == (entity, said, "Tool")
    assert (await work.search("red")).items == ()
    with pytest.raises(NotFound):
        await work.revise([{"id": said}])
    with pytest.raises(NotFound):
        await work.history(item_id=said)
    assert await texts(memory) == ["is red"]


async def test_a_batch_of_another_space_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidRequest, match="another space"):
        await memory.write(Batch(id="b", scope=Scope(space="work")))


@pytest.mark.parametrize("space", ["default ", "DEFAULT", "default\x00", "default/x", "défault", " default"])
async def test_spaces_are_told_apart_to_the_letter(memory: Memory, space: str) -> None:
    await memory.record(entities=[TOOL], observations=[SAID])
    assert await texts(memory.in_space(space)) == []


# --- guards -------------------------------------------------------------------------------------


class Strict:
    """A plugin that lets nothing red in, and counts what was committed."""

    def __init__(self) -> None:
        self.committed: list[str] = []

    @hookimpl
    def before_record(self, batch: Batch) -> None:
        if any("red" in said.text for said in batch.observations):
            raise ValueError("nothing red")

    @hookimpl
    def after_commit(self, receipt: RecordReceipt) -> None:
        self.committed.append(receipt.batch_id)


async def test_a_hook_keeps_a_batch_out_and_hears_of_those_that_came_in(world: World) -> None:
    provider, strict = ReferenceProvider(world), Strict()
    await provider.open()
    memory = Memory(provider, guard=Guard(hook_manager([strict])))
    with pytest.raises(HookRefused, match="nothing red"):
        await memory.record(entities=[TOOL], observations=[SAID])
    await memory.record(entities=[TOOL], batch_id="fine")
    assert await texts(memory) == []
    assert strict.committed == ["fine"]


async def test_a_secret_is_told_in_the_receipt(memory: Memory) -> None:
    receipt = await memory.record(passages=[{"text": "token ghp_" + "a1B2c3D4e5" * 4, "session": "s"}])
    assert [advice.kind for advice in receipt.advice] == ["secret"]


# --- deadlines ----------------------------------------------------------------------------------


class Slow(ReferenceProvider):
    """A provider whose verbs wait until they are let go."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.writes, self.searches = asyncio.Event(), asyncio.Event()

    async def record(self, batch: Batch) -> RecordReceipt:
        await self.writes.wait()
        return await super().record(batch)

    async def search(self, query: SearchQuery) -> SearchPage:
        await self.searches.wait()
        return await super().search(query)


async def test_a_write_past_its_deadline_says_how_to_go_on(world: World) -> None:
    slow = Slow(world)
    await slow.open()
    memory = Memory(slow, write_deadline=0.5)
    with pytest.raises(BackendTimeout, match="repeat it with the same batch id"):
        await memory.record(entities=[TOOL], batch_id="mine")
    slow.writes.set()
    assert (await memory.record(entities=[TOOL], batch_id="mine")).ids("entity", "created")


async def test_a_receipt_does_not_wait_for_advice(world: World) -> None:
    slow = Slow(world)
    await slow.open()
    slow.writes.set()
    memory = Memory(slow, recaller=Recaller(0.02))
    receipt = await memory.record_decision(name="d", domain="software", decided="x", because="y")
    assert receipt.ids("observation", "created")


# --- chat ---------------------------------------------------------------------------------------


def turn(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def test_a_chat_is_told_what_is_relevant(memory: Memory) -> None:
    await memory.record(entities=[TOOL], observations=[SAID])
    context = await memory.before_chat(turn("is the tool red or blue?"))
    assert "is red" in context.text
    assert context.degraded is None
    assert (await memory.before_chat(turn("thanks"))).text == ""


async def test_a_chat_goes_on_without_a_memory_that_is_slow_or_down(world: World) -> None:
    slow = Slow(world)
    await slow.open()
    context = await Memory(slow, recaller=Recaller(0.02)).before_chat(turn("is the tool red or blue?"))
    assert (context.text, context.degraded) == ("", "memory did not answer within 0.02 s")
    closed = Memory(ReferenceProvider(world))
    assert "could not be asked" in ((await closed.before_chat(turn("is the tool red?"))).degraded or "")


@pytest.mark.parametrize("text", ["is the tool \ud800 red?", "is the tool \x00 red?", "red " * 100_000])
async def test_no_text_of_a_user_stops_a_chat(memory: Memory, text: str) -> None:
    await memory.record(entities=[TOOL], observations=[SAID])
    assert "is red" in (await memory.before_chat(turn(text))).text


async def test_two_conversations_do_not_touch_each_other(world: World) -> None:
    class Echo(ReferenceProvider):
        async def on_before_chat(self, request: BeforeChat) -> Recall:
            await asyncio.sleep(0.01 if "slow" in request.text else 0)
            return Recall(degraded=request.text)

    provider = Echo(world)
    await provider.open()
    memory = Memory(provider)
    questions = [f"the {pace} question number {n}" for n in range(5) for pace in ("slow", "fast")]
    contexts = await asyncio.gather(*(memory.before_chat(turn(question)) for question in questions))
    assert [context.degraded for context in contexts] == questions


async def test_a_turn_is_kept_once(memory: Memory) -> None:
    for _ in range(2):
        await memory.after_chat(turn("I like tea"), "noted", session="s", message_id="m1")
    assert len(await texts(memory)) == 1


async def test_a_turn_that_was_cut_off_is_not_kept(memory: Memory) -> None:
    assert await memory.after_chat(turn("I like tea"), "no", session="s", finish_reason="length") is None
    assert await memory.after_chat(turn("I like tea"), None, session="s") is None
    assert await texts(memory) == []


@pytest.mark.parametrize(
    ("said", "more", "place"),
    [
        ("half \ud800", {}, "text"),
        ("whole", {"session": ""}, "session"),
        ("whole", {"session": "\ud800"}, "session"),
        ("whole", {"message_id": "\ud800"}, "key"),
    ],
)
async def test_a_turn_that_cannot_be_kept_is_a_fault_that_does_not_repeat_it(
    memory: Memory, said: str, more: dict[str, str], place: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await memory.after_chat(turn(said), "noted", **{"session": "s", **more})  # type: ignore[arg-type] # texts all
    assert [fault.where for fault in refused.value.faults] == [place]
    assert "noted" not in str(refused.value)


# --- questions of time, and upkeep --------------------------------------------------------------


async def test_questions_take_times_as_people_write_them(memory: Memory) -> None:
    await memory.record(entities=[TOOL], observations=[{**SAID, "valid_from": "2025-01-15"}])
    (said,) = (await memory.scan(items=["observation"], since="2025-01-15", until="2025-01-15")).items
    assert said.valid_from == datetime(2025, 1, 14, 16, tzinfo=UTC)  # type: ignore[union-attr] # an observation; the store is in Shanghai
    assert (await memory.get(names=["Tool"], as_of="2020-01-01")).missing == ("Tool",)
    assert (await memory.search("red", as_of=1577836800)).items == ()
    with pytest.raises(InvalidRequest, match="outside the years"):
        await memory.search("red", until="9999-12-31")


async def test_a_memory_is_copied_with_its_ids_and_times(memory: Memory, world: World) -> None:
    await memory.record(entities=[TOOL], observations=[SAID])
    commits = [commit async for commit in memory.export()]
    other = Memory(ReferenceProvider(world.__class__(path=world.path / "copy", clock=world.clock)))
    await other.provider.open()
    assert (await other.restore(commits)).restored == 1
    assert (await other.restore(commits)).skipped == 1
    assert (await other.scan()).items == (await memory.scan()).items


async def test_what_is_forgotten_is_gone_and_told(memory: Memory) -> None:
    await memory.record(entities=[TOOL], observations=[SAID])
    receipt = await memory.forget(names=["tool", "ghost"])
    assert (receipt.count, receipt.missing) == (2, ("ghost",))
    assert await texts(memory) == []
    assert (await memory.health()).status == "ok"
    assert (await memory.maintain()).done == ()


async def test_an_answer_that_comes_back_is_the_one_that_holds(memory: Memory) -> None:
    asked = [{"role": "user", "content": "which colour?"}]
    for answer in ("red", "red", "blue", "red", "red", "blue", "red"):
        await memory.after_chat(asked, answer, session="s")
        assert await texts(memory) == [f"[user] which colour?\n[me] {answer}"]
    other = Memory(memory.provider)  # another process, in which the same turn is sent again
    await other.after_chat(asked, "red", session="s")
    assert await texts(memory) == ["[user] which colour?\n[me] red"]


async def test_a_chat_is_not_told_what_it_has_just_said(memory: Memory) -> None:
    asked = [{"role": "user", "content": "my heron is\ncalled Bilbo"}]
    await memory.after_chat(asked, "a fine name", session="s")
    history = [*asked, {"role": "assistant", "content": "a fine name"}]
    question = {"role": "user", "content": "what is my heron called?"}
    assert not (await memory.before_chat([*history, question])).text
    assert "Bilbo" in (await memory.before_chat([question])).text
    assert "Bilbo" in (await memory.before_chat([*asked, question])).text
    await memory.record(entities=[TOOL], observations=[{"entity": "Tool", "text": "heron"}])
    assert "heron" in (await memory.before_chat([*history, question])).text


async def test_what_a_chat_said_itself_takes_no_other_s_place(memory: Memory) -> None:
    await memory.after_chat([{"role": "user", "content": "the heron is called Bilbo"}], "ok", session="other")
    history: list[dict[str, str]] = []
    for number in range(12):
        history.append({"role": "user", "content": f"{number}: what is the heron called?"})
        assert "Bilbo" in (await memory.before_chat(history)).text
        await memory.after_chat(history, "guess", session="s")
        history.append({"role": "assistant", "content": "guess"})
