"""A provider whose store keeps vectors: what it declares, whose vectors it takes, and what a write waits for."""

from __future__ import annotations

import pytest

from rawthink_conformance.toys import ToyEmbedder
from rawthink_core.activity import Activity
from rawthink_core.embedding import KeptVectors, NoEmbedder
from rawthink_core.embedding_provider import EmbeddingProvider
from rawthink_core.embedding_shelf import Model
from rawthink_core.errors import BackendUnavailable, EmbedderMismatch
from rawthink_core.operations import Maintain as Upkeep
from rawthink_core.operations import (
    MaintainReceipt,
    RecordReceipt,
    RestoreReceipt,
    Scope,
    SearchPage,
    SearchQuery,
    parse,
)
from rawthink_core.provider import Capability, ProviderInfo, World

from .ledger import RULES, SPACE, batch
from .test_embedding_queue import Counting, Disk, Shelf

pytestmark = pytest.mark.asyncio
SCOPE = Scope(space=SPACE)
TEXTS = ["a kitten sleeps", "the car is red"]


class Store:
    """A store that keeps texts and their vectors on a disk of the queue's tests."""

    rules = RULES

    def __init__(self, disk):
        self.activity, self.shelf, self.model = Activity(None), Shelf(disk), disk.settled
        self.searches = []

    @property
    def changes(self):
        return len(self.shelf.disk.items)

    def record(self, batch):
        for said in batch.passages:
            self.shelf.disk.write(said.text)
        return RecordReceipt(batch_id=batch.id)

    def answer(self, query, asked, why):
        self.searches.append((query.text, asked, why))
        return SearchPage(degraded=why)

    def restore(self, space, commits):
        return RestoreReceipt(restored=len(commits))

    def maintain(self, request):
        return MaintainReceipt()

    def vectors_of(self, texts):
        return {text: found for text in texts if (found := self.shelf.of(text)) is not None}

    def close(self):
        self.activity.close()


class Author(EmbeddingProvider):
    def __init__(self, world, disk):
        able = {Capability.LEXICAL: "yes", Capability.DENSE: "yes"}
        super().__init__(ProviderInfo("toy", "1", able, location="the toy box"), world)
        self.disk, self.written = disk, []

    def open_store(self):
        return Store(self.disk)

    def _wrote(self):
        self.written.append(set(self.disk.vectors))


@pytest.fixture
def opened(tmp_path):
    """Return what opens a provider over a disk with an embedder."""
    return lambda disk, embedder: Opened(Author(World(tmp_path, embedder=embedder), disk))


class Opened:
    def __init__(self, provider):
        self.provider = provider

    async def __aenter__(self):
        await self.provider.open()
        return self.provider

    async def __aexit__(self, *_):
        await self.provider.close()


def turns(*texts):
    return batch("turns", passages=[{"text": text, "session": "s"} for text in texts])


def question(text):
    return parse(SearchQuery, {"scope": SCOPE, "text": text})


async def test_a_write_has_its_vectors_when_it_returns_and_a_question_is_asked_by_its_meaning(opened):
    disk, toy = Disk(), Counting()
    async with opened(disk, toy) as provider:
        assert (await provider.record(turns(*TEXTS))).pending_embeddings == 0
        assert provider.written == [set()]  # before they are made
        assert set(disk.vectors) == set(TEXTS)
        await provider.search(question("a kitten"))
        [(text, asked, why)] = provider.opened.searches
        assert (text, why) == ("a kitten", None)
        assert asked is not None
        check, waiting = await provider._embedder_check()
        assert (check.status, waiting()) == ("ok", 0)
    assert toy.closed
    with pytest.raises(BackendUnavailable, match="the toy box is not open"):
        await provider.record(turns(*TEXTS))
    assert await provider._embedder_check() == (None, None)


async def test_who_has_no_embedder_declares_no_search_by_meaning_until_one_is_there(opened):
    async with opened(Disk(), NoEmbedder()) as provider:
        assert dict(provider.info.capabilities) == {Capability.LEXICAL: "yes"}
        await provider.search(question("a kitten"))
        assert provider.opened.searches == [("a kitten", None, None)]
        assert await provider.kept_vectors(TEXTS) == KeptVectors()
    provider._world = World(provider._world.path, embedder=ToyEmbedder())
    async with Opened(provider):
        assert provider.info.can(Capability.DENSE)


async def test_another_model_is_refused_before_anything_is_written_until_vectors_are_made_anew(opened):
    disk = Disk(*TEXTS)
    disk.settled = Model("other", "other; 3", 3)
    async with opened(disk, ToyEmbedder()) as provider:
        with pytest.raises(EmbedderMismatch, match="other"):
            await provider.record(turns("new"))
        await provider.search(question("a kitten"))
        assert "other" in provider.opened.searches[0][2]
        await provider.maintain(Upkeep(scope=SCOPE))
        with pytest.raises(EmbedderMismatch, match="other"):
            await provider.record(turns("new"))
        await provider.maintain(Upkeep(scope=SCOPE, reindex=True))
        await provider.record(turns("new"))
    assert list(disk.items.values()) == [*TEXTS, "new"]


async def test_vectors_of_a_copy_are_taken_where_the_models_agree(opened):
    toy = ToyEmbedder()
    made = {TEXTS[0]: await toy.embed_passages(TEXTS[:1])}
    disk = Disk()
    async with opened(disk, toy) as provider:
        assert await provider.kept_vectors([]) == KeptVectors(toy.fingerprint)  # it waits to learn whose
        strange = KeptVectors("another; 3", {"strange": [[1.0, 0.0, 0.0]]})
        for vectors in (None, KeptVectors(), strange, KeptVectors(toy.fingerprint, made)):
            assert (await provider.restore(SCOPE, [], vectors)).restored == 0
        assert await provider.kept_vectors(TEXTS) == KeptVectors(toy.fingerprint, made)
    assert set(disk.vectors) == {TEXTS[0]}
