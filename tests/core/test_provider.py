"""The contract in small: what a provider does not offer it refuses by name, and what it offers composes."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from rawthink_core.embedding import Embedder, NoEmbedder
from rawthink_core.errors import UnsupportedOperation
from rawthink_core.operations import (
    AfterChat,
    Batch,
    BeforeChat,
    Export,
    Forget,
    Get,
    GraphQuery,
    HistoryQuery,
    Maintain,
    NewPassage,
    RecordReceipt,
    Revision,
    Scan,
    Scope,
    SearchPage,
    SearchQuery,
    parse,
)
from rawthink_core.provider import GRADES, BaseProvider, Capability, Provider, ProviderInfo, World

SCOPE = Scope(space="home")
CHANGE: dict[str, Any] = {"id": "b", "scope": SCOPE, "change": {"targets": [{"id": "i"}]}}


class Bare(BaseProvider):
    """A provider that offers nothing."""

    info = ProviderInfo("bare", "1", {})
    refusals = {"history": "it keeps no versions"}  # noqa: RUF012 - as an author writes it


class Half(Bare):
    """A provider that searches and records, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def search(self, query: SearchQuery) -> SearchPage:
        self.asked.append(query)
        return SearchPage(degraded="half asleep")

    async def record(self, batch: Batch) -> RecordReceipt:
        self.asked.append(batch)
        return RecordReceipt(batch_id=batch.id)


REQUESTS: dict[str, tuple[Any, ...]] = {
    "search": (SearchQuery(scope=SCOPE, text="t"),),
    "record": (Batch(id="b", scope=SCOPE),),
    "revise": (parse(Revision, CHANGE),),
    "on_before_chat": (BeforeChat(scope=SCOPE, text="t"),),
    "on_after_chat": (AfterChat(id="b", scope=SCOPE, passages=()),),
    "get": (Get(scope=SCOPE),),
    "scan": (Scan(scope=SCOPE),),
    "graph": (GraphQuery(scope=SCOPE),),
    "history": (HistoryQuery(scope=SCOPE, id="i"),),
    "forget": (Forget(scope=SCOPE),),
    "restore": (SCOPE, []),
    "maintain": (Maintain(scope=SCOPE),),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("verb", REQUESTS)
async def test_a_verb_that_is_not_offered_is_refused_by_name(verb: str) -> None:
    with pytest.raises(UnsupportedOperation) as refused:
        await getattr(Bare(), verb)(*REQUESTS[verb])
    assert refused.value.provider == "bare"
    assert refused.value.operation in (verb, "record", "search")


@pytest.mark.asyncio
async def test_a_refusal_says_why_where_the_author_did() -> None:
    with pytest.raises(UnsupportedOperation, match="bare does not support history: it keeps no versions"):
        await Bare().history(HistoryQuery(scope=SCOPE, id="i"))
    with pytest.raises(UnsupportedOperation, match="export"):
        Bare().export(Export(scope=SCOPE))


@pytest.mark.asyncio
async def test_what_can_be_composed_is_there() -> None:
    half = Half()
    recall = await half.on_before_chat(BeforeChat(scope=SCOPE, text="tea", limit=3))
    assert (recall.items, recall.degraded) == ((), "half asleep")
    (query,) = half.asked
    assert (query.text, query.limit, query.relevant_only, query.scope) == ("tea", 3, True, SCOPE)
    passage = NewPassage(text="t", session="s")
    await half.on_after_chat(AfterChat(id="turn", scope=SCOPE, passages=(passage,)))
    await half.revise(parse(Revision, CHANGE))
    assert [(batch.id, batch.size) for batch in half.asked[1:]] == [("turn", 1), ("b", 1)]


@pytest.mark.asyncio
async def test_opening_closing_and_health_ask_for_nothing() -> None:
    bare = Bare()
    await bare.open()
    await bare.close()
    await bare.close()
    assert (await bare.health()).status == "ok"


def test_the_base_has_every_verb_of_the_contract() -> None:
    verbs = {
        name for name, verb in vars(Provider).items() if inspect.isfunction(verb) and not name.startswith("_")
    }
    assert verbs - set(REQUESTS) == {"open", "close", "export", "health", "kept_vectors"}
    for name in verbs:
        ours, theirs = (
            inspect.signature(getattr(BaseProvider, name)),
            inspect.signature(getattr(Provider, name)),
        )
        assert ours == theirs, name


def test_grades_belong_to_capabilities() -> None:
    assert all(len(grades) >= 2 for grades in GRADES.values())
    info = ProviderInfo("p", "1", {Capability.FORGET: "erased"})
    assert info.can(Capability.FORGET)
    assert not info.can(Capability.SCAN)


def test_no_embedder_is_an_embedder() -> None:
    assert isinstance(NoEmbedder(), Embedder)
    assert World(path=Path("store")).embedder.dimensions == 0


@pytest.mark.asyncio
async def test_no_embedder_embeds_nothing() -> None:
    assert await NoEmbedder().embed_passages(["a", "b"]) == [[], []]
    assert await NoEmbedder().embed_query("a") == []
