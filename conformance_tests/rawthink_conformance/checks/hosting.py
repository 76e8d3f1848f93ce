"""What a host relies on beside the verbs: its event loop, its standard output, errors that it knows."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_core.errors import RawThinkError, UnsupportedOperation
from rawthink_core.operations import AfterChat, BeforeChat, Maintain, parse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rawthink_conformance.bench import Bench
    from rawthink_conformance.talking import Space

NOWHERE = "00000000-0000-5000-8000-000000000000"


@check("host.answers")
async def answers_have_their_types(bench: Bench) -> None:
    """Each verb is a coroutine and answers with the type of the contract; `export` yields commits."""
    await _tour(bench)


@check("host.errors")
async def errors_are_ours(bench: Bench) -> None:
    """Whatever is asked for, what a verb raises is an error of the contract and no other exception."""
    space = bench.space()
    await space.about("Heron", "stands in the reeds")
    nobody = {"entity": "nobody", "text": "nothing"}
    odd: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: space.record(observations=[nobody]),
        lambda: space.record(relations=[{"source": "Heron", "type": "uses", "target": "nobody"}]),
        lambda: space.record(entities=[{"name": "New", "entity_type": "conceptt", "domain": "software"}]),
        lambda: space.revise({"id": NOWHERE}, successor={"text": "new"}),
        lambda: space.revise(nobody, successor={"text": "new"}),
        lambda: space.search("* OR \" ') ; --", limit=1),
        lambda: space.search("heron", statuses=["ended"], since="2999-01-01"),
        lambda: space.get(NOWHERE, "' OR 1=1", "", names=["nobody", "%"]),
        lambda: space.scan(cursor="no cursor of ours"),
        lambda: space.graph("nobody", depth=3),
        lambda: space.history(name="nobody"),
        lambda: space.history(id=NOWHERE),
        lambda: space.forget(ids=[NOWHERE], names=["nobody"], sessions=["never"]),
        lambda: bench.space("a space where nothing is").graph("Heron"),
        lambda: bench.space("a space where nothing is").search("heron"),
    )
    for call in odd:
        with suppress(RawThinkError):
            await call()
    await bench.provider.close()
    for late in (lambda: space.search("heron"), lambda: space.turn("talk", "too late")):
        with suppress(RawThinkError):
            await late()


@check("host.stdout")
async def nothing_is_printed(bench: Bench) -> None:
    """Nothing is written to standard output, which may carry the protocol of a host."""
    await _tour(bench)


@check("host.tasks")
async def nothing_runs_on(bench: Bench) -> None:
    """After `close`, no task of the provider runs on in the event loop of its host."""
    await _tour(bench)
    await bench.reopen()
    await bench.space().texts("heron")


async def _tour(bench: Bench) -> None:
    """Call every verb that is declared."""
    space = bench.space()
    (said,) = await space.about("Heron", "stands in the reeds")
    await space.turn("talk", "a heron", "a stork")
    await bench.provider.on_before_chat(parse(BeforeChat, {"scope": space.scope, "text": "heron"}))
    turn = {"session": "talk", "text": "[user] a heron\n[me] indeed"}
    await bench.provider.on_after_chat(
        parse(AfterChat, {"id": bench.new_batch_id(), "scope": space.scope, "passages": [turn]})
    )
    await space.revise({"id": said}, successor={"text": "stands in the lake"})
    await space.search("heron")
    await bench.provider.kept_vectors(["a heron"])
    await bench.provider.health()
    for call in _optional(space, said):
        with suppress(UnsupportedOperation):
            await call()


def _optional(space: Space, said: str) -> tuple[Callable[[], Awaitable[object]], ...]:
    async def restore() -> None:
        await space.restore(await space.export())

    return (
        lambda: space.get(said),
        space.scan,
        lambda: space.graph("Heron"),
        lambda: space.history(name="Heron"),
        restore,
        lambda: space.provider.maintain(parse(Maintain, {"scope": space.scope, "repair": True})),
        lambda: space.forget(ids=[said]),
    )
