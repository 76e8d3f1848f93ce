"""`Space`: one space of one provider, spoken to in plain data, as checks do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from rawthink_conformance.expect import Broken
from rawthink_core.errors import UnsupportedOperation
from rawthink_core.model import Entity, Observation, Passage, Relation
from rawthink_core.operations import (
    AfterChat,
    Batch,
    BeforeChat,
    Export,
    Forget,
    Get,
    GraphQuery,
    HistoryQuery,
    Revision,
    Scan,
    Scope,
    SearchQuery,
    parse,
)
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from rawthink_conformance.bench import Bench
    from rawthink_core.commits import Commit
    from rawthink_core.embedding import KeptVectors
    from rawthink_core.model import Item
    from rawthink_core.operations import (
        ForgetReceipt,
        GraphPage,
        History,
        Items,
        Recall,
        RecordReceipt,
        RestoreReceipt,
        SearchPage,
    )
    from rawthink_core.provider import Provider

N = TypeVar("N", Entity, Observation, Relation, Passage)

LAG_SECONDS = 10.0  # how long a provider that reads its writes after "seconds" may take
DEGRADED_SECONDS = 30.0  # how long a healthy store may answer that it is still building an index
EVERY_STATUS = ("active", "ended", "invalidated")


class Space:
    """One space of one provider, spoken to in plain data."""

    def __init__(self, bench: Bench, name: str, provider: Provider | None = None) -> None:
        self.bench = bench
        self.name = name
        self.scope = parse(Scope, {"space": name})
        self._provider = provider

    @property
    def provider(self) -> Provider:
        """The provider that answers."""
        return self._provider or self.bench.provider

    # --- writing --------------------------------------------------------------------------------

    def batch(self, **data: Any) -> Batch:
        """Return a batch of this space with a fresh id, unless one is given."""
        return parse(Batch, {"id": self.bench.new_batch_id(), "scope": self.scope, **data})

    async def record(self, batch: Batch | None = None, **data: Any) -> RecordReceipt:
        """Write a batch, and wait where the provider says that its reads lag behind."""
        batch = batch or self.batch(**data)
        receipt = await self.provider.record(batch)
        await self._settle(receipt)
        return receipt

    async def revise(
        self, *targets: Mapping[str, Any], batch_id: str | None = None, **change: Any
    ) -> RecordReceipt:
        """Revise ``targets``."""
        revision = parse(
            Revision,
            {
                "id": batch_id or self.bench.new_batch_id(),
                "scope": self.scope,
                "change": {"targets": targets, **change},
            },
        )
        receipt = await self.provider.revise(revision)
        await self._settle(receipt)
        return receipt

    async def create(self, *names: str, **fields: Any) -> list[str]:
        """Record entities by name and return their ids."""
        fields = {"entity_type": "concept", "domain": "software", **fields}
        receipt = await self.record(entities=[{"name": name, **fields} for name in names])
        return receipt.ids("entity")

    async def say(self, entity: str, *texts: str, **fields: Any) -> list[str]:
        """Record observations of an entity that exists and return their ids."""
        said = [{"entity": entity, "text": text, **fields} for text in texts]
        return (await self.record(observations=said)).ids("observation")

    async def about(self, entity: str, *texts: str, **fields: Any) -> list[str]:
        """Record an entity with observations in one batch and return the observations' ids."""
        said = [{"entity": entity, "text": text, **fields} for text in texts]
        named = [{"name": entity, "entity_type": "concept", "domain": "software"}]
        return (await self.record(entities=named, observations=said)).ids("observation")

    async def turn(self, session: str, *texts: str, **fields: Any) -> list[str]:
        """Record passages of a session and return the ids of the new or standing ones, in their order."""
        receipt = await self.record(passages=[{"session": session, "text": text, **fields} for text in texts])
        return receipt.ids("passage", "created", "unchanged")

    async def after_chat(self, id: str, passages: Sequence[Mapping[str, Any]]) -> RecordReceipt:  # noqa: A002 - the request's own word
        """Store a turn that is over."""
        request = parse(AfterChat, {"id": id, "scope": self.scope, "passages": passages})
        receipt = await self.provider.on_after_chat(request)
        await self._settle(receipt)
        return receipt

    async def before_chat(self, text: str) -> Recall:
        """Ask what is relevant to a turn that begins."""
        return await self.provider.on_before_chat(parse(BeforeChat, {"scope": self.scope, "text": text}))

    async def _settle(self, receipt: RecordReceipt) -> None:
        """Wait until what was written can be read, where the provider says that this takes a while."""
        written = receipt.ids(None, "created")
        if self.bench.grade(Capability.READ_YOUR_WRITES) in ("", "at once") or not written:
            return
        deadline = asyncio.get_running_loop().time() + LAG_SECONDS
        with suppress(UnsupportedOperation):
            while asyncio.get_running_loop().time() < deadline:
                found = await self.get(*written)
                if not found.missing and await self._searchable(found.items):
                    return
                await asyncio.sleep(0.05)

    async def _searchable(self, items: Sequence[Item]) -> bool:
        said = [item for item in items if isinstance(item, Observation | Passage)]
        if not said:
            return True
        hits = (await self.search(said[-1].text, limit=20)).items
        return len(hits) == 20 or not hits or said[-1].id in {hit.id for hit in hits}  # noqa: PLR2004 - a full page

    # --- reading --------------------------------------------------------------------------------

    async def search(self, text: str, **filters: Any) -> SearchPage:
        """Search; where the answer says that it may be incomplete, ask again for a while."""
        query = parse(SearchQuery, {"scope": self.scope, "text": text, **filters})
        deadline = asyncio.get_running_loop().time() + DEGRADED_SECONDS
        while (page := await self.provider.search(query)).degraded:
            if asyncio.get_running_loop().time() > deadline:
                raise Broken(f"searches of a healthy store stay degraded: {page.degraded}")
            await asyncio.sleep(0.05)
        return page

    async def texts(self, text: str, **filters: Any) -> list[str]:
        """Search and return the texts of the hits, best first."""
        return [hit.text for hit in (await self.search(text, **filters)).items]

    async def get(self, *ids: str, names: Sequence[str] = (), as_of: date | str | None = None) -> Items:
        """Look up items by id and entities by name."""
        request = {"scope": self.scope, "ids": ids, "names": names, "as_of": as_of}
        return await self.provider.get(parse(Get, request))

    async def one(self, kind: type[N], item_id: str, as_of: date | str | None = None) -> N:
        """Return the item with an id, which must be there and of this kind."""
        return _only(kind, item_id, await self.get(item_id, as_of=as_of))

    async def entity(self, name: str, as_of: date | str | None = None) -> Entity:
        """Return the entity that answers to a name, which must be there."""
        return _only(Entity, name, await self.get(names=[name], as_of=as_of))

    async def scan(self, **filters: Any) -> list[Item]:
        """Return everything that passes the filters, page by page."""
        found: list[Item] = []
        cursor: str | None = filters.pop("cursor", None)
        while True:
            page = await self.provider.scan(parse(Scan, {"scope": self.scope, "cursor": cursor, **filters}))
            found += page.items
            cursor = page.cursor
            if cursor is None:
                return found
            if len(found) > 1_000_000:  # noqa: PLR2004 - more than any check writes
                raise Broken("a scan does not end: its last page must have no cursor")

    async def said(self, **filters: Any) -> list[str]:
        """Scan and return the texts of observations and passages."""
        items = await self.scan(**filters)
        return [item.text for item in items if isinstance(item, Observation | Passage)]

    async def graph(self, *names: str, **options: Any) -> GraphPage:
        """Walk the graph."""
        return await self.provider.graph(parse(GraphQuery, {"scope": self.scope, "names": names, **options}))

    async def history(self, *, name: str | None = None, id: str | None = None) -> History:  # noqa: A002 - the request's own word
        """Return a history."""
        return await self.provider.history(parse(HistoryQuery, {"scope": self.scope, "name": name, "id": id}))

    # --- upkeep ---------------------------------------------------------------------------------

    async def forget(self, **what: Any) -> ForgetReceipt:
        """Erase."""
        return await self.provider.forget(parse(Forget, {"scope": self.scope, **what}))

    async def export(self) -> list[Commit]:
        """Return every commit."""
        return [commit async for commit in self.provider.export(parse(Export, {"scope": self.scope}))]

    async def restore(self, commits: Sequence[Commit], vectors: KeptVectors | None = None) -> RestoreReceipt:
        """Add commits."""
        return await self.provider.restore(self.scope, commits, vectors)


def _only(kind: type[N], asked: str, found: Items) -> N:
    if len(found.items) != 1 or not isinstance(item := found.items[0], kind):
        raise Broken(f"get({asked!r}) must give one {kind.__name__.lower()}, gave {found.items!r}")
    return item
