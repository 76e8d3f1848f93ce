"""Hooks fail closed and are named; secrets are seen wherever people write."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from rawthink_core.errors import HookRefused
from rawthink_core.guard import Guard
from rawthink_core.operations import NewPassage, RecordReceipt, Scope
from rawthink_core.plugins import hook_manager, hookimpl

from .ledger import batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from rawthink_core.operations import Batch

pytestmark = pytest.mark.asyncio

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
SAID = batch(observations=[{"entity": "E", "text": "t"}])
RECEIPT = RecordReceipt(batch_id="b")


def plugin(**hooks: Callable[..., Any]) -> object:
    """Return a plugin with these hooks."""
    return type("Plugin", (), {name: staticmethod(hookimpl(hook)) for name, hook in hooks.items()})()


def guard(*plugins: object, **more: Any) -> Guard:
    return Guard(hook_manager(plugins), **more)


def renamed(said: Batch, text: str) -> Batch:
    return said.model_copy(update={"observations": (said.observations[0].model_copy(update={"text": text}),)})


async def test_without_plugins_a_batch_passes_untouched() -> None:
    assert await Guard().before_record(SAID) == (SAID, [])
    passages = (NewPassage(text="t", session="s"),)
    assert await Guard().before_capture(passages) is passages
    await Guard().after_commit(RECEIPT)


async def test_a_hook_may_look_and_leave_it() -> None:
    seen = []

    def before_record(batch: Batch) -> None:
        seen.append(batch)

    assert (await guard(plugin(before_record=before_record)).before_record(SAID))[0] == SAID
    assert seen == [SAID]


async def test_a_hook_may_put_another_batch_in_its_place() -> None:
    def before_record(batch: Batch) -> Batch:
        return renamed(batch, batch.observations[0].text + "!")

    twice = guard(plugin(before_record=before_record), plugin(before_record=before_record))
    changed, _ = await twice.before_record(SAID)
    assert changed.observations[0].text == "t!!"


async def test_hooks_run_in_the_order_that_pluggy_promises() -> None:
    import pluggy

    order: list[str] = []
    first = pluggy.HookimplMarker("rawthink")(tryfirst=True)

    def hook(name: str, mark: Callable[..., Any] = hookimpl) -> object:
        def after_commit(receipt: RecordReceipt) -> None:
            order.append(name)

        return type(name, (), {"after_commit": staticmethod(mark(after_commit))})()

    await guard(hook("a"), hook("first", first), hook("b")).after_commit(RECEIPT)
    assert order == ["first", "b", "a"]


async def test_a_hook_need_not_take_what_it_does_not_look_at() -> None:
    called = []

    def after_commit() -> None:
        called.append(1)

    await guard(plugin(after_commit=after_commit)).after_commit(RECEIPT)
    assert called == [1]


def refusing(batch: Batch) -> None:
    raise PermissionError("not on a Sunday")


def exiting(batch: Batch) -> None:
    raise SystemExit(3)


def stopping(batch: Batch) -> None:
    raise StopIteration("odd")


def slow(batch: Batch) -> None:
    time.sleep(0.3)


def confused(batch: Batch) -> Any:
    return {"id": "b"}


def moving(batch: Batch) -> Batch:
    return batch.model_copy(update={"scope": Scope(space="elsewhere")})


def relabelling(batch: Batch) -> Batch:
    return batch.model_copy(update={"id": "another"})


def breaking(batch: Batch) -> Batch:
    return renamed(batch, 5)  # type: ignore[arg-type] # what must be refused


@pytest.mark.parametrize(
    ("before_record", "why"),
    [
        (refusing, "PermissionError: not on a Sunday"),
        (exiting, "SystemExit: 3"),
        (stopping, "StopIteration"),
        (slow, "it took more than 0.05 s"),
        (confused, "it returned a dict, not a Batch"),
        (moving, "it changed the id or the space"),
        (relabelling, "it changed the id or the space"),
        (breaking, "must be a text"),
    ],
)
async def test_whatever_goes_wrong_in_a_hook_refuses_the_batch_and_names_the_plugin(
    before_record: Callable[[Batch], Any], why: str
) -> None:
    manager = hook_manager([plugin(before_record=before_record)])
    assert manager is not None
    (name,) = (name for name, _ in manager.list_name_plugin())
    with pytest.raises(HookRefused, match="Nothing was written") as refused:
        await Guard(manager, seconds=0.05).before_record(SAID)
    assert (refused.value.plugin, refused.value.hook) == (name, "before_record")
    assert why in refused.value.why


async def test_a_turn_is_captured_as_the_hooks_leave_it() -> None:
    def before_capture(passages: tuple[NewPassage, ...]) -> tuple[NewPassage, ...]:
        return tuple(passage.model_copy(update={"tags": ("seen",)}) for passage in passages)

    (kept,) = await guard(plugin(before_capture=before_capture)).before_capture(
        (NewPassage(text="t", session="s"),)
    )
    assert kept.tags == ("seen",)


@pytest.mark.parametrize(
    "answer", ["text", ["list"], (1,), (NewPassage(text="t", session="s").model_copy(update={"text": 5}),)]
)
async def test_a_turn_that_a_hook_garbles_is_not_captured(answer: Any) -> None:
    def before_capture(passages: tuple[NewPassage, ...]) -> Any:
        return answer

    with pytest.raises(HookRefused):
        await guard(plugin(before_capture=before_capture)).before_capture(
            (NewPassage(text="t", session="s"),)
        )


async def test_what_happens_after_a_commit_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    heard = []

    def failing(receipt: RecordReceipt) -> None:
        raise ValueError("cannot post")

    def after_commit(receipt: RecordReceipt) -> None:
        heard.append(receipt.batch_id)

    await guard(plugin(after_commit=after_commit), plugin(after_commit=failing)).after_commit(RECEIPT)
    assert heard == ["b"]
    assert "cannot post" in caplog.text


async def test_a_hook_that_hangs_takes_no_thread_from_the_store() -> None:
    released = threading.Event()

    def hanging(batch: Batch) -> None:
        released.wait(10)

    strict = guard(plugin(before_record=hanging), seconds=0.01)
    for _ in range(40):
        with pytest.raises(HookRefused):
            await strict.before_record(SAID)
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 2) == "free"
    released.set()


async def test_a_hook_does_not_stop_the_loop() -> None:
    def before_record(batch: Batch) -> None:
        time.sleep(0.1)

    waiting = asyncio.ensure_future(guard(plugin(before_record=before_record)).before_record(SAID))
    ticks = 0
    while not waiting.done():
        await asyncio.sleep(0.005)
        ticks += 1
    assert ticks > 3


# --- secrets ------------------------------------------------------------------------------------


WRITTEN = batch(
    entities=[
        {"name": f"key {TOKEN}", "entity_type": "thing", "domain": "software", "aliases": ["ok", TOKEN]}
    ],
    observations=[
        {"entity": f"key {TOKEN}", "text": f"it is {TOKEN}"},
        {"entity": "E", "text": "nothing here"},
    ],
    relations=[{"source": f"key {TOKEN}", "type": "uses", "target": "E"}],
    passages=[{"text": f"use {TOKEN}", "session": "s", "speaker": TOKEN, "tags": [TOKEN]}],
    revisions=[
        {
            "targets": [{"entity": "E", "text": f"was {TOKEN}"}],
            "successor": {"text": f"now {TOKEN}"},
            "reason": f"rotated {TOKEN}",
        },
        {"targets": [{"entity": "E"}], "fields": {"name": TOKEN}},
    ],
)
PLACES = [
    "entities.0.aliases", "entities.0.name", "observations.0.text", "passages.0.speaker", "passages.0.tags",
    "passages.0.text", "revisions.0.reason", "revisions.0.successor.text", "revisions.1.fields.name",
]  # fmt: skip


async def test_secrets_are_told_wherever_people_write_and_stay_unless_masking_is_on() -> None:
    kept, warnings = await Guard(secrets="warn").before_record(WRITTEN)
    assert kept is WRITTEN
    assert sorted(warning.text.split(" ")[0] for warning in warnings) == PLACES
    assert all("github-token" in warning.text and "forget" in warning.text for warning in warnings)
    assert TOKEN not in str(warnings)


async def test_masking_takes_the_secret_and_leaves_the_sentence() -> None:
    kept, warnings = await Guard(secrets="on").before_record(WRITTEN)
    mask = "[redacted github-token]"
    assert kept.observations[0].text == f"it is {mask}"
    assert kept.observations[0].entity == kept.entities[0].name == kept.relations[0].source == f"key {mask}"
    assert kept.revisions[0].targets == WRITTEN.revisions[0].targets
    assert str(kept).count(TOKEN) == 1  # the target, which is named by its exact text
    assert all("was masked" in warning.text for warning in warnings)


async def test_nobody_looks_when_told_not_to() -> None:
    assert await Guard(secrets="off").before_record(WRITTEN) == (WRITTEN, [])


async def test_hooks_see_what_was_masked() -> None:
    seen: list[Batch] = []

    def before_record(batch: Batch) -> None:
        seen.append(batch)

    await guard(plugin(before_record=before_record), secrets="on").before_record(WRITTEN)
    assert TOKEN not in seen[0].observations[0].text


async def test_looking_through_much_text_does_not_stop_the_loop() -> None:
    long = batch(passages=[{"text": "password is not here " * 20_000, "session": "s"}])
    looking = asyncio.ensure_future(Guard().before_record(long))
    ticks = 0
    while not looking.done():
        await asyncio.sleep(0.005)
        ticks += 1
    assert ticks > 3
